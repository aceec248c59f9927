//! The paper: its headlines and the text of its page.

use super::SENDERS;
use super::appends::{self, AMPLIFICATION, RATE, place};
use super::causes::AS_PUBLISHED;
use super::others::OTHERS;
use super::{
    batches, causes, cleaning, clients, control, copies, learned, mixes, others, streams,
    sustained, threads, timelines,
};
use crate::papers::{Headline, PageText, Paper, Points};

/// Rowan's paper.
pub static PAPER: Paper = Paper {
    name: "rowan",
    figures: &[
        &appends::FIGURES,
        &streams::FIGURES,
        &clients::FIGURES,
        &causes::FIGURES,
        &mixes::FIGURES,
        &others::FIGURES,
        &copies::FIGURES,
        &batches::FIGURES,
        &control::FIGURES,
        &cleaning::FIGURES,
        &threads::FIGURES,
        &learned::FIGURES,
        &sustained::FIGURES,
        &timelines::FIGURES,
    ],
    headlines,
    page: PageText {
        introduction: INTRODUCTION,
        heading: "Published numbers beside these",
        columns: ["what", "published", "here", "why"],
        notes: NOTES,
    },
};

const INTRODUCTION: &str = "\
# Rowan's evaluation: appends of many senders, and Rowan-KV beside its rivals

**The primitive.** Threads on eight machines send small records to one machine with persistent memory. *append*: SENDs into buffers
that all senders share, where the receiver's NIC places them one behind the other. *write*: RDMA WRITEs into a log for each sender.
Behind each record goes a READ of one byte, with the same doorbell: DDIO is off, so its answer says that the record is persisted. A
thread copies a record from an object that no cache has, sends it, and waits for that answer before the next one.

**The stores.** Six servers with 24 worker, 5 digest and 1 control threads each, 48 shards on each, 3 copies, clients on eight
machines. *rowan-kv*: a PUT goes to the primary, whose worker persists an entry in its own log, appends it to the one log of each
backup, waits for both, changes its index in DRAM and answers. The rivals are the same engine (`crates/published/src/rowan`) with
another path of an entry to the backups: *rpc-kv* a request to a worker of the backup, *rwrite-kv* a WRITE into a log for each remote
thread, *batch-kv* the same for the entries of 5 us or 256 bytes, *share-kv* a FETCH_AND_ADD for a place in one log before the WRITE.
*hermes-like*: every copy takes requests, and a PUT invalidates the other copies by requests, as HermesKV does, on persistent memory.
*clover-like*: clients write versions to passive memory nodes and link them by CAS, and a metadata server gives places out, as Clover
does (`crates/published/src/clover`); *clover-asking* are clients that do not know the keys beforehand.

**`kv`.** The nodes of the product (`crates/kv`), with 3 copies by appends into the log of each copy, as Rowan places them, and READs that make them durable. A node is a process with one thread, and a
pool has at most 32 shards, so `kv` cannot fill six servers with 24 workers each. *rowan-threads* therefore gives each server of each design one worker thread: six nodes of `kv` with a shard each, beside
six published servers with 1 worker, 1 digest and 1 control thread. A node of `kv` does the work of all three with its one thread. 24 threads on eight machines run the clients.

Keys are those of YCSB, zipfian 0.99 and scrambled, 30,000 of them. Objects have the published mean sizes of ZippyDB, UP2X and UDB. A client
has one operation under way. Where the paper leaves the number of clients open, 1152 keep every design busy. Each point is 0.3 ms of
virtual time after a warm-up, so that its 99th percentiles are those of some ten thousand operations. Nothing is cleaned meanwhile.

The timelines and the recovery are those of `kv` alone. The slides name *FaRM's reconfiguration-style approach* and *shard-level migration*, and show no number of either: not published. In the move, GETs stop for about 2 ms and PUTs nearly so for about 3 ms (*rowan-resharding*); after a kill, PUTs fall to a fifth for 3 ms (*rowan-failover*).
`kv` is in no figure of cleaning: a run of 0.3 ms fills too few of its segments.

The machines are those of Rowan's evaluation, as `docs/simulator.md` describes them (`connectx5-rowan`). Time is virtual: the same
command gives the same numbers. `stonecast-lab figure rowan --markdown` prints this page; a test compares it with the documented points
and measures some of them again.
";

const NOTES: &str = "
Agreement with published numbers is no independent proof of the model: four choices were made in their knowledge, all for the primitive.
One is a number of the profile, the size of the medium's buffer (`docs/simulator.md` says what was found with other sizes). The medium
reads a block that leaves its buffer partly filled; by the nominal bandwidth alone WRITEs would reach 37.8 million a second. A thread
copies each record from an object that no cache has; without that, appends reach 61.1 million. The log of each record is drawn; senders
that each write to one log give *write-in-turns*. No number was fitted for the stores. Their
clients (1152 and 144), segments (64 KiB, for cleaning 16 KiB; those of `kv` have 4 MiB) and thresholds of cleaning are choices of this project.

What decides the primitive:

- The latency of one record decides the rate of appends: each thread has one under way. It is the sum of the parts of the path. A tenth of
  a microsecond of it is the copy of the object.
- The medium writes 256 bytes at a time. It combines lines of the last 80 blocks, and reads a block that leaves before it was filled.
  Logs of 144 senders need more blocks than it has; one sequence of appends needs a few.
- The model has no cost for finding the place of a message in a shared buffer. More senders, or several records under way for each,
  would be limited by the medium at 93 million records a second. What the published card can do with these is not known.
- *write-in-turns* is the worst case of many logs: senders that do nothing else fall into step, so that each block has left the buffer
  when its next line comes. The published amplification fits senders in random turns, as the threads of a replicated store are:
  a record's key decides which machine gets it.

What decides the stores (*rowan-causes* changes one respect at a time):

- *rwrite-kv* is limited by the medium, which its 144 streams of small entries make write more than it receives. With a medium that takes
  half of the time for a byte it is as fast as Rowan-KV.
- *rpc-kv* is limited by its processors: two backups' workers take, copy and answer a request for each PUT. The model's processors pay
  for each message the cost measured on a single core that posts and polls (`docs/simulator.md`). If messages cost nothing, the published
  ratio comes out: the paper does not say what its implementation saves, by batches or otherwise.
- The latency of a PUT is that of a queue when a store is at its limit. The medians therefore depend on the number of clients, which is
  not published, and on whether the queue is the same on all servers: with zipfian keys one server has more to do than the others. The
  medium is saturated on that server first, so the 99th percentile of *rwrite-kv* grows before its median does.
- The median of *rwrite-kv* is decided by that queue. Media that take three times the time bring the published 2.11 within 3 %; with keys equally
  likely nothing of it is left, even if the media take twice the time. What else the published media did meanwhile is not known.
- Cleaning costs Rowan-KV a third of its throughput in a memory of which half is live (*rowan-cleaning*): it fills segments faster than 6
  threads clean them, and waits. *rpc-kv* fills them at half of that pace. A memory with more room costs less; the paper's is not known.
- No single change brings all four published ratios of the stores. A medium that takes twice the time brings the throughput of *rpc-kv* as near as messages that cost
  nothing, but then *rwrite-kv* is at 1.99 x instead of 1.39 x. These figures cannot tell the two causes apart.
- The model's processors are not slowed down by other hardware threads of their core, and reads of the medium do not slow its writes.
  Absolute throughputs are therefore upper bounds.

What decides `kv` (*rowan-threads*):

- With 50 % PUT, `kv` does 3.59 Mop/s with 24 clients, the best published design 3.62, and `kv` does more with 48 and 144. GETs take no time of a node: clients READ index and log themselves.
- With 8 clients `kv` does 0.92 of what Rowan-KV does: GETs of keys whose place the client has not learned decide that. Such a GET takes two READs, 4.5 us, and a request to a worker 3.7 us. A run of 0.3 ms teaches the places of few keys. Where clients
  know the places of their keys beforehand, a GET takes 2.4 us, and `kv` does 1.07 of what Rowan-KV does (*rowan-threads-learned*). With 144 clients the GETs of all published designs take longer than those of `kv`.
- The median latency of a PUT is 0.97, 0.94, 1.13 and 0.79 of Rowan-KV's with 8, 24, 48 and 144 clients (aim: 0.95), and the 99th percentile 1.23, 0.89, 0.45 and 0.53 (aim: 1.0). The one thread of a node digests between two batches, where a server of
  Rowan-KV has a thread for digests; with many clients, a node takes all requests that wait as one batch, with one persist and one READ for each copy. A node decides a batch while the batches before it wait for copies.
- With PUTs alone the one thread of a node does what worker, digest and control thread do there. Where messages cost nothing, Rowan-KV gains more than `kv` (*rowan-threads-causes*): the thread of a node mostly waits for lines of the medium. Records of
  clients and appended entries are in no cache, since DDIO is off.
- **Over 6 ms** (*rowan-sustained*), every node digests and raises its floors several times. A server of Rowan-KV has three threads; three nodes on each server, with one thread each, do 0.95, 1.11, 1.81 and 3.95 of its operations with 8, 24, 48 and 144 clients. Their median
  PUT takes 0.96, 0.84, 0.74 and 1.00 of its time, and the 99th percentile 1.02, 0.58, 0.22 and 0.11. One node with its one thread does 0.93, 0.99, 1.18 and 0.68. With 144 clients it is not busy: PUTs stand still for some 0.3 ms at times, since a primary waits for credits of a copy
  ([0039](../design/0039-the-registry-of-figures.md)).
- Copies write each record twice, into the log of appends and into their own log. The media of `kv` therefore write about twice as many bytes for a PUT (*rowan-threads-media*).
- A handler's time counts when the handler begins, so a value in *rowan-threads-busy* may be off by a batch. GETs alone take no time of a node.

## The flaws of the published design, and `kv` under the same schedules

A schedule uses a cluster through its clients, its power and its network alone. `crates/published/tests/it/rowan_flaws.rs` shows what becomes of
Rowan-KV as published, `crates/kv/tests/it/nodes/flaws.rs` that `kv` holds; a test of both has the number in its name.

| flaw | schedule | Rowan-KV as published | `kv` |
| --- | --- | --- | --- |
| R1 | writes may pass a READ at the root ports, and the power fails | no backup holds what was acknowledged | every copy holds it: the platform is declared so that backups write back and answer by their processors; READs, as in the figures, would not be safe there |
| R2 | a primary is cut off from its backups until one of them leads, and comes back | acknowledges an entry that no reader sees | what is acknowledged is seen by every reader: the old primary is fenced, and has no lease |
| R3 | one backup has an entry, the primary dies, and then its heir | the second heir has what the first had not | both heirs have the same: an heir settles the entry on all copies, or cuts it off |
| R4 | two writers of one key, and a takeover | no failure: versions decide, not places | the same |
| R5 | a value contains the bytes of an entry, and its own header is torn | the value becomes an entry | never: the tag of an entry is keyed, and depends on its place |
| R6 | the software of one server stands still, and its buffers run out | the PUTs of all servers wait until it is back | the node is removed after the time of the policy, the PUTs go on, and it is filled when it is back |
| R7 | the software of both backups is dead | goes on to acknowledge | acknowledges no longer than the lease that backups grant, though there is credit for more entries; what was acknowledged is on all copies |
| R8 | the answer of a write is lost with the primary, another client writes, and the first one repeats its write | the first write takes effect twice | once: the heir knows the token |
| R9 | a deletion is cleaned before an older entry of its key, and all servers recover | the key is back | it stays away: cleaners need room, move records and free other segments, and the full segment of the tombstone stays as long as an older record; without that rule, the test finds the key back |
";

const NOT_PUBLISHED: &str = "not published";
const PUT_RPC: &str = "At its limit, the latency of rpc-kv is that of a queue: half of the clients give the published one (*rowan-causes-put*).";
const PUT_WRITE: &str = "The queue at the medium of the server with the most frequent keys: media that take three times the time bring 2.06 x; with twice the time it is 1.74 x, and 1.06 x where keys are equally likely (*rowan-causes-put*).";
const CLOVER: &str = "The visits of clients to the metadata server decide: if clients give each replaced version back by a request of its own, the ratio is 20.7 x, and 3.7 x with 16 in a request (*rowan-others-visits*). How many the published clients give back at a time is not known. In the run of this row they give none back.";
const HERMES: &str = "The processors' time for messages, of which a PUT of hermes-like has two more than one of rpc-kv.";

fn headlines(points: &Points) -> Vec<Headline> {
    let at = |figure, design, size| {
        let value = points.at(figure, design, &place(SENDERS, size));
        value.expect("a point of the figure")
    };
    let amplification = |design, size| format!("{:.2}", at(AMPLIFICATION, design, size));
    let appends = at(RATE, "append", 64);
    let ratio = appends / at(RATE, "write", 64);
    let cause = |figure, rival, changed| {
        let value = points.at(figure, rival, changed);
        value.expect("a point of the figure")
    };
    let usual = |figure, rival| cause(figure, rival, AS_PUBLISHED);
    let throughput = |design| {
        let value = points.at(OTHERS, design, "50");
        value.expect("a point of the figure")
    };
    const LEARNS: &str = "GETs of keys whose place a client has not learned: where clients know them, the ratio of *rowan-threads-learned* is above 1.";
    let over_digests = |value: &str, figure, clients: &str, reason| {
        let ratio = threads::of_rowan(points, figure, (sustained::THREE, clients));
        let what = format!(
            "{value} over 6 ms, 50 % PUT, three threads a server, {clients} clients: kv to rowan-kv"
        );
        Headline::quoted(what, NOT_PUBLISHED, format!("{ratio:.2} x"), reason)
    };
    const LOGS: &str = "More logs than the medium's buffer has blocks.";
    vec![
        Headline::quoted(
            "append, 64 bytes, 144 senders",
            "54.5 million a second",
            format!("{appends:.1}"),
            "144 records are under way, and each takes the sum of the parts of its path. The publication says no more about its senders.",
        ),
        Headline::quoted(
            "its write amplification",
            "almost 1",
            amplification("append", 64),
            "The NIC fills one block after the other.",
        ),
        Headline::quoted(
            "write, 64 bytes: write amplification",
            "2.48",
            amplification("write", 64),
            LOGS,
        ),
        Headline::quoted(
            "write, 128 bytes: write amplification",
            "1.58",
            amplification("write", 128),
            LOGS,
        ),
        Headline::quoted(
            "append to write, 64 bytes",
            "1.85 x",
            format!("{ratio:.2} x"),
            "The medium limits the WRITEs: blocks that were not filled are read and written for a part of their bytes.",
        ),
        Headline::number(
            "throughput, 50 % PUT: rowan-kv to rpc-kv".to_owned(),
            "x",
            1.22,
            usual(causes::THROUGHPUT, "rpc-kv"),
            "The processors' time for messages: without it the ratio is 1.28 x; a medium that takes twice the time brings 1.25 x (*rowan-causes*).",
        ),
        Headline::number(
            "throughput, 50 % PUT: rowan-kv to rwrite-kv".to_owned(),
            "x",
            1.39,
            usual(causes::THROUGHPUT, "rwrite-kv"),
            "The medium: with a faster one the ratio is 1 (*rowan-causes*).",
        ),
        Headline::number(
            "median latency of PUT: rpc-kv to rowan-kv".to_owned(),
            "x",
            1.77,
            usual(causes::PUT_MEDIAN, "rpc-kv"),
            PUT_RPC,
        ),
        Headline::number(
            "median latency of PUT: rwrite-kv to rowan-kv".to_owned(),
            "x",
            2.11,
            usual(causes::PUT_MEDIAN, "rwrite-kv"),
            PUT_WRITE,
        ),
        Headline::number(
            "throughput, 50 % PUT: rowan-kv to hermes-like".to_owned(),
            "x",
            1.98,
            throughput("rowan-kv") / throughput("hermes-like"),
            HERMES,
        ),
        Headline::quoted(
            "throughput, 50 % PUT, one worker thread a server, 144 clients: kv to the best published design",
            NOT_PUBLISHED,
            format!("{:.2} x", threads::advantage(points, "144")),
            "GETs of kv take no time of a server (*rowan-threads-mixes*).",
        ),
        Headline::quoted(
            "median latency of PUT, the same: kv to rowan-kv",
            NOT_PUBLISHED,
            format!(
                "{:.2} x",
                threads::of_rowan(points, threads::PUT_MEDIAN, ("kv", "144"))
            ),
            "A node decides a batch while the batches before it wait for copies.",
        ),
        Headline::quoted(
            "99th percentile of PUT, the same: kv to rowan-kv",
            NOT_PUBLISHED,
            format!(
                "{:.2} x",
                threads::of_rowan(points, threads::PUT_P99, ("kv", "144"))
            ),
            "A node takes all requests that wait as one batch.",
        ),
        over_digests("throughput", sustained::THROUGHPUT, "8", LEARNS),
        over_digests(
            "throughput",
            sustained::THROUGHPUT,
            "144",
            "The nodes share one medium and three cores, and GETs take none of these.",
        ),
        over_digests(
            "median latency of PUT",
            sustained::PUT_MEDIAN,
            "24",
            "As with one node.",
        ),
        over_digests(
            "99th percentile of PUT",
            sustained::PUT_P99,
            "24",
            "A node stores the words of few digested records in one step.",
        ),
        Headline::number(
            "throughput, 50 % PUT: rowan-kv to clover-like".to_owned(),
            "x",
            24.5,
            throughput("rowan-kv") / throughput("clover-like"),
            CLOVER,
        ),
    ]
}
