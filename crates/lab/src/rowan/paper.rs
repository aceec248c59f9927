//! The paper: its headlines and the text of its page.

use super::SENDERS;
use super::appends::{self, AMPLIFICATION, RATE, place};
use super::causes::AS_PUBLISHED;
use super::others::OTHERS;
use super::{
    answers, atomics, bars, batches, causes, cleaning, cleaning_threads, clients, control, copies,
    learned, local, mixes, offered, others, passive, queues, streams, sustained, threads,
    timelines, windows,
};
use crate::papers::{Headline, PageText, Paper, Points};

/// Rowan's paper.
pub static PAPER: Paper = Paper {
    name: "rowan",
    figures: &[
        &appends::FIGURES,
        &streams::FIGURES,
        &local::FIGURES,
        &clients::FIGURES,
        &causes::FIGURES,
        &queues::FIGURES,
        &offered::FIGURES,
        &windows::FIGURES,
        &atomics::FIGURES,
        &mixes::FIGURES,
        &others::FIGURES,
        &copies::FIGURES,
        &batches::FIGURES,
        &control::FIGURES,
        &cleaning::FIGURES,
        &threads::FIGURES,
        &cleaning_threads::FIGURES,
        &learned::FIGURES,
        &passive::FIGURES,
        &answers::FIGURES,
        &sustained::FIGURES,
        &timelines::FIGURES,
    ],
    headlines,
    page: PageText {
        introduction: INTRODUCTION,
        heading: "Published numbers beside these",
        columns: ["what", "published", "here", "why"],
        notes: NOTES,
        bars: bars::bars,
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
pool has at most 64 shards, so `kv` cannot fill six servers with 24 workers each. *rowan-threads* therefore gives each server of each design one worker thread: six nodes of `kv` with a shard each, beside
six published servers with 1 worker, 1 digest and 1 control thread. A node of `kv` does the work of all three with its one thread. 24 threads on eight machines run the clients.
The servers of *clover-like* are memory, and its client threads do all of the work. *rowan-passive* compares it with `kv` on six servers with 24 client threads, where servers of `kv` have one node or three; *clover-like* has a metadata server on a seventh machine.

Keys are those of YCSB, zipfian 0.99 and scrambled, 30,000 of them. Objects have the published mean sizes of ZippyDB, UP2X and UDB. A client
has one operation under way. Where the paper leaves the number of clients open, 1152 keep every design busy. Each point is 0.3 ms of
virtual time after a warm-up. With 1152 clients its 99th percentiles are those of 6,000 to 16,000 PUTs, with one worker thread a server those of some 200 (8 clients) to 1,100 PUTs. Nothing is cleaned meanwhile, except where a figure says so.

The timelines and the recovery are those of `kv` alone. The slides name *FaRM's reconfiguration-style approach* and *shard-level migration*, and show no number of either: not published. In a move, PUTs nearly stop in the milliseconds 14 to 18 after the request, and run at their earlier rate from 24 on; GETs are fewer in 6 to 17, with none in 14 and 15 (*rowan-resharding*). After a kill, PUTs fall to a fifth for 3 ms, and to four fifths until the copies are whole (*rowan-failover*).
`kv` cleans in *rowan-threads-cleaning* alone: its segments have 256 KiB at least, so a run of 0.3 ms fills too few of them. There, clients work for 15 ms before the 10 ms that are measured, and a server that cleans writes 7 to 10 MB in both.

The machines are those of Rowan's evaluation, as `docs/simulator.md` describes them (`connectx5-rowan`). Time is virtual: the same
command gives the same numbers. `stonecast-lab figure rowan --markdown` prints this page; a test compares it with the documented points
and measures some of them again.
";

const NOTES: &str = "
Agreement with published numbers is no independent proof of the model: four choices were made in their knowledge, all for the primitive.
One is a number of the profile, the size of the medium's buffer (`docs/simulator.md` says what was found with other sizes). The medium
reads a block that leaves its buffer partly filled; by the nominal bandwidth alone WRITEs would reach 37.8 million a second. A thread
copies each record from an object that no cache has. The log of each record is drawn; senders
that each write to one log give *write-in-turns*. No number was fitted for the stores. Their
clients (1152 and 144), segments (64 KiB, for cleaning 16 KiB; those of `kv` have 4 MiB) and thresholds of cleaning are choices of this project.

In the published experiment, 18 cores of the receiver write to its medium meanwhile; in the rows above the receiver only posts buffers again. Where 18 cores persist records of the same size, one behind the other (*rowan-local*), the appends of 64 bytes do {rowan-local | append 64 | beside 18 local writers | 1} million a second in place of {rowan-local | append 64 | alone | 1}, 4 % beside the published 54.5, and their
amplification stays. The WRITEs do {rowan-local | write 64 | beside 18 local writers | 1} in place of {rowan-local | write 64 | alone | 1}, with an amplification of {rowan-local-amplification | write 64 | beside 18 local writers} in place of {rowan-local-amplification | write 64 | alone}, so that the ratio is {rowan-local | append 64 / write 64 | beside 18 local writers} x, further from the published 1.85: the model gives a medium that is full to whoever asks first. With 128 bytes the appends do {rowan-local | append 128 | beside 18 local writers | 1} in place of {rowan-local | append 128 | alone | 1}, and the WRITEs {rowan-local | write 128 | beside 18 local writers | 1} in place of {rowan-local | write 128 | alone | 1} with an amplification of
{rowan-local-amplification | write 128 | beside 18 local writers} (published: 1.58). What the published cores write, and how much of it, is not stated.

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
- *share-kv* does a FETCH_AND_ADD on the word of each backup. The published text states 10 million as the most that a NIC does in a second. The other figures have no such bound, which flatters *share-kv*: with it, *share-kv* does {rowan-causes-atomics | share-kv | 10 | 1} Mop/s in place of {rowan-causes-atomics | share-kv | none | 1} (*rowan-causes-atomics*), and its median PUT
  takes {rowan-causes-atomics-put | share-kv | 10 | 1} us in place of {rowan-causes-atomics-put | share-kv | none | 1}. Rowan-KV does {rowan-causes-atomics | rowan-kv / share-kv | 10} times as much then. A bound of 20 million changes nothing, and one of 5 million leaves {rowan-causes-atomics | share-kv | 5 | 1} Mop/s.
- *rpc-kv* is limited by its processors: two backups' workers take, copy and answer a request for each PUT. The model's processors pay
  for each message the cost measured on a single core that posts and polls (`docs/simulator.md`). If messages and tasks cost nothing, the published
  ratio comes out, and if they cost half, it does not come nearer. The paper does not say what its implementation saves, by batches or otherwise.
- The latency of a PUT is that of a queue when a store is at its limit. The medians therefore depend on the number of clients, which is
  not published, and on whether the queue is the same on all servers: with zipfian keys one server has more to do than the others. The
  medium is saturated on that server first, so the 99th percentile of *rwrite-kv* grows before its median does.
- The median of *rwrite-kv* is decided by that queue: the slowest of six servers has nearly all of it, and each PUT has three servers, so the median lies where the PUTs that wait begin. The ratios at the median, at 75 % and 90 % of the PUTs and in the mean are {rowan-causes-put-parts | rwrite-kv | 50 %; 75 %; 90 %; mean},
  and where keys are equally likely {rowan-causes-put-parts | rwrite-kv, keys equally likely | 50 %; 75 %; 90 %; mean} (*rowan-causes-put-parts*).
- In a closed loop, the clients of a slow store wait, and begin fewer operations, so its queues end with the number of clients. Where operations begin at random times whatever the store does (*rowan-causes-offered*), the published ratios of *rwrite-kv* come out together: with 100 million a second,
  Rowan-KV completes {rowan-causes-offered | rwrite-kv, throughput | 100} times as much (published: 1.39), and the median PUT of *rwrite-kv* takes {rowan-causes-offered | rwrite-kv, median PUT | 100} times as long (published: 2.11); with 85 and 95 million the medians are at {rowan-causes-offered | rwrite-kv, median PUT | 85; 95}. Rowan-KV completes all that is offered there, and *rwrite-kv* does not.
  So the load decides, and not a part of the model. The published medians of *rpc-kv* belong to a load that is lower: its median is at {rowan-causes-offered | rpc-kv, median PUT | 50; 60} with 50 and 60 million. What load the published medians have is not stated.
- The headlines are those of 0.3 ms, which is no steady state. Over 1.5 ms (*rowan-causes-window*), the ratios of throughput are {rowan-causes-window | rpc-kv, throughput | 1.5} x (*rpc-kv*) and {rowan-causes-window | rwrite-kv, throughput | 1.5} x (*rwrite-kv*) in place of {rowan-causes-window | rpc-kv, throughput | 0.3} x and {rowan-causes-window | rwrite-kv, throughput | 0.3} x, and those of the median PUT {rowan-causes-window | rpc-kv, median PUT | 1.5} x and {rowan-causes-window | rwrite-kv, median PUT | 1.5} x in place of {rowan-causes-window | rpc-kv, median PUT | 0.3} x and {rowan-causes-window | rwrite-kv, median PUT | 0.3} x. So the short time does not hide the published 2.11 x.
- *batch-kv* gains with a longer wait: with 20 us in place of the published 5, {rowan-batches-wait | batch-kv | 20 | 0} Mop/s in place of {rowan-batches-wait | batch-kv | 5 | 0}, with 1152 clients and a median PUT of {rowan-batches-wait-put | batch-kv | 20 | 1} in place of {rowan-batches-wait-put | batch-kv | 5 | 1} us (*rowan-batches-wait*). Rowan-KV does {rowan-batches | rowan-kv | 256 | 0}.
- The published ratios of throughput and of latency cannot belong to one closed loop, if medians are like means. There, clients are throughput times mean latency. With as many clients, 50 % PUT, a throughput that is 1.39 times lower and PUTs that take 2.11 times as long, the GETs of *rwrite-kv*
  would be faster than those of Rowan-KV unless these take 1.85 times as long as its PUTs; with the ratios of *rpc-kv*, 2.5 times. Here they take half. Where each rival is compared with Rowan-KV at the throughput of the rival (*rowan-causes-put-rate*), the median of *rpc-kv* passes 1.77 between 288 and 576
  clients, and that of *rwrite-kv* ends at {rowan-causes-put-rate | rwrite-kv | 2304}, or {rowan-causes-put-rate | rwrite-kv, keys equally likely | 2304} with keys equally likely: more clients wait at the one slowest server.
- In a closed loop, media that take three times the time bring the median of *rwrite-kv* to {rowan-causes-put | rwrite-kv | the medium takes three times} x, and its throughput away from the published one, to {rowan-causes | rwrite-kv | the medium takes three times} x; with keys equally likely nothing of the former is left where media take twice the time. Neither five copies nor servers that clean meanwhile bring it nearer: {rowan-causes-put | rwrite-kv | five copies; servers clean meanwhile}, with {rowan-causes | rwrite-kv | five copies; servers clean meanwhile}
  of the throughput (*rowan-causes*, *rowan-causes-put*); in the latter, both stores clean memories of which half is live, and that of *rwrite-kv* has a segment more for each of its logs.
- *hermes-like*: without the two messages behind a PUT, which tell the other copies that readers may have the entry, Rowan-KV does {rowan-others-messages | hermes-like | no messages behind a PUT} x in place of {rowan-others-messages | hermes-like | as it is} x (published: 1.98), so they are the greater part of what *hermes-like* lacks beside *rpc-kv* (*rowan-others-messages*). No design works without them.
- Cleaning costs Rowan-KV a third of its throughput in a memory of which half is live (*rowan-cleaning*), and *rpc-kv*, which fills segments at half of that pace, less. The memory also has fewer segments then; no figure changes one of the two alone.
- Half of the clients and messages at half of the cost bring three of the four published ratios within 15 %: {rowan-causes | rpc-kv | half of the clients, messages cost half} x and {rowan-causes | rwrite-kv | half of the clients, messages cost half} x of the throughput of *rpc-kv* and *rwrite-kv*, and {rowan-causes-put | rpc-kv | half of the clients, messages cost half} x of the median of *rpc-kv*. The median of *rwrite-kv* is at {rowan-causes-put | rwrite-kv | half of the clients, messages cost half} x then.
- The model's processors are not slowed down by other hardware threads of their core, and reads of the medium do not slow its writes.
  Absolute throughputs are therefore upper bounds.

## Where `kv` is better

- GETs take no time of a node: clients READ index and log themselves. With 5 % of PUTs and with none, `kv` completes four times as many operations as any published design with worker threads (*rowan-threads-mixes*), and with 144 clients, the GETs of all published designs take longer than those of `kv`.
- With 50 % PUT, `kv` with one thread a server is ahead of every published design with worker threads with 48 and 144 clients, and level with 24: {rowan-threads-clients | kv | 24} Mop/s, and {rowan-threads-clients | rowan-kv | 24} of Rowan-KV (*rowan-threads-clients*). A node takes all requests that wait as one batch, with one persist and one READ for each copy, and decides a batch while the batches before it wait for copies.
- **Over 6 ms with as many threads** (*rowan-sustained*), every node digests and raises its floors several times. A server of Rowan-KV has three threads; three nodes on each server, with one thread each, complete {rowan-sustained | kv-three-nodes / rowan-kv | 8; 24; 48; 144} times as many operations with 8, 24, 48 and 144 clients. Their median PUT takes {rowan-sustained-put | kv-three-nodes / rowan-kv | 8; 24; 48; 144}
  of its time, and the 99th percentile {rowan-sustained-put-p99 | kv-three-nodes / rowan-kv | 8; 24; 48; 144}. One node with its one thread completes {rowan-sustained | kv / rowan-kv | 8; 24; 48; 144} times as many.
- **Beside *clover-like*** (*rowan-passive*), three nodes a server complete {rowan-passive-mixes | kv-three-nodes / clover-like | 100; 50; 5; 0} times as many operations with 100, 50, 5 and 0 % PUT and 144 clients. GETs alone are at {rowan-passive-mixes | kv-learned / clover-like | 0} where clients know the places of their keys, as those of *clover-like* do here. Where these do not (*clover-asking*), the metadata server limits them to {rowan-passive-mixes | clover-asking | 0 | 1} Mop/s.
- `kv` keeps what it acknowledged where the published designs do not: the flaws below.

## Where `kv` is worse, and why

- With 8 clients `kv` completes {rowan-threads-clients | kv / rowan-kv | 8} of the operations of Rowan-KV: GETs of keys whose place the client has not learned decide that. Such a GET takes two READs, {rowan-threads-get | kv | 8 | 1} us, and a request to a worker {rowan-threads-get | rowan-kv | 8 | 1} us; its 99th percentile is {rowan-threads-get-p99 | kv / rowan-kv | 8; 24; 48; 144} of Rowan-KV's with 8, 24, 48 and 144 clients (*rowan-threads-get-p99*). Runs of 0.3 and of 6 ms
  teach the places of few keys. Where clients know the places of their keys beforehand, a GET takes {rowan-threads-learned-get | kv-learned | 8 | 1} us, and `kv` completes {rowan-threads-learned | kv-learned / rowan-kv | 8} times as many operations as Rowan-KV (*rowan-threads-learned*).
- The median latency of a PUT with one thread a server is {rowan-threads-put | kv / rowan-kv | 8; 24; 48; 144} of Rowan-KV's with 8, 24, 48 and 144 clients, and the 99th percentile {rowan-threads-put-p99 | kv / rowan-kv | 8; 24; 48; 144}. The one thread of a node digests between two batches, where a server of Rowan-KV has a thread for digests.
- Over 6 ms with 144 clients and one thread a server, the median PUT takes {rowan-sustained-causes | median PUT | nothing} of Rowan-KV's time, and the 99th percentile {rowan-sustained-causes | 99th percentile of PUT | nothing}, with {rowan-sustained-causes | throughput | nothing} times its throughput. One thread does what three do there: with two nodes a server, these are {rowan-sustained-causes | median PUT | kv has two nodes a server} and {rowan-sustained-causes | 99th percentile of PUT | kv has two nodes a server}, with {rowan-sustained-causes | throughput | kv has two nodes a server} times the throughput (*rowan-sustained-causes*). Keys that are equally likely make
  them {rowan-sustained-causes | median PUT | keys equally likely} and {rowan-sustained-causes | 99th percentile of PUT | keys equally likely}, so it is not the one hottest node.
- With PUTs alone and 144 clients, `kv` with one thread completes {rowan-threads-mixes | kv / batch-kv | 100} of the operations of *batch-kv*, the best published design with worker threads there, and {rowan-threads-mixes | kv / rowan-kv | 100} of those of Rowan-KV (*rowan-threads-mixes*). Its one thread does the work of worker, digest and control thread. Where messages cost nothing, `kv` completes {rowan-threads-causes-rates | kv | messages cost nothing / nothing} times as many, and Rowan-KV {rowan-threads-causes-rates | rowan-kv | messages cost nothing / nothing}; where lines
  of caches and DRAM cost nothing, {rowan-threads-causes-rates | kv | lines of caches and DRAM cost nothing / nothing} and {rowan-threads-causes-rates | rowan-kv | lines of caches and DRAM cost nothing / nothing} times; with a medium that takes half of the time for a byte, `kv` completes {rowan-threads-causes-rates | kv | the medium takes half / nothing} times as many (*rowan-threads-causes-rates*). No figure isolates the rest of the work of that thread. Two nodes a server complete {rowan-threads-causes-rates | kv | kv has two nodes a server / nothing | 1} times as many operations as one.
- With PUTs alone and the larger objects of UDB, `kv` with one thread is at {rowan-threads-objects-mixes | kv / rowan-kv | UDB, 100 %} of Rowan-KV and {rowan-threads-objects-mixes | kv / batch-kv | UDB, 100 %} of *batch-kv*; with the smaller ones of UP2X at {rowan-threads-objects-mixes | kv / rowan-kv | UP2X, 100 %} and {rowan-threads-objects-mixes | kv / batch-kv | UP2X, 100 %} (*rowan-threads-objects-mixes*). The processors' time for lines of caches and DRAM decides the former: without it, `kv` is at {rowan-threads-causes | kv | UDB, lines of caches and DRAM cost nothing} of Rowan-KV with UDB, while a medium that takes half of the
  time for a byte makes it {rowan-threads-causes | kv | UDB, the medium takes half} (*rowan-threads-causes*). With the objects of ZippyDB, lines without cost make {rowan-threads-causes | kv | lines of caches and DRAM cost nothing} of {rowan-threads-causes | kv | nothing}, so they are not what `kv` lacks there.
- One node a server is at {rowan-passive-clients | kv / clover-like | 8; 24; 48; 144} of *clover-like* with 8, 24, 48 and 144 clients and 50 % PUT. Its median PUT takes {rowan-passive-put | kv / clover-like | 8; 24; 48; 144} of the time: the clients of *clover-like* do all of the work, and do not wait for the one thread of a node.
- Answers of processors cost a third to three fifths of the throughput (*rowan-answers*): where DDIO is on, the copies write entries back and answer, which also holds where writes may pass a READ (R1). `kv` then completes {rowan-answers | kv-answered / kv | 8; 24; 48; 144} of its operations with 8, 24, 48 and 144 clients, and its median PUT takes {rowan-answers-put | kv-answered / kv | 8; 24; 48; 144 | 1} times as long. DDIO and
  answers are changed together there.
- Cleaning costs `kv` more than Rowan-KV (*rowan-threads-cleaning*). With 10, 8 and 7 MiB for each server, of which 2 to 3 are live, `kv` completes {rowan-threads-cleaning | kv | 10 / 128}, {rowan-threads-cleaning | kv | 8 / 128} and {rowan-threads-cleaning | kv | 7 / 128} of the PUTs that it does without cleaning, and Rowan-KV
  {rowan-threads-cleaning | rowan-kv | 10 / 128}, {rowan-threads-cleaning | rowan-kv | 8 / 128} and {rowan-threads-cleaning | rowan-kv | 7 / 128}: `kv` is at {rowan-threads-cleaning | kv / rowan-kv | 10; 8; 7} of Rowan-KV. The thread of a node works {rowan-threads-cleaning-busy | kv | 128; 10; 8; 7 | 0} %
  of its time, so it is not what limits: a pool of so few segments has one free segment ahead of puts, and a put that finds none is told so and comes again. The segments of `kv` have 256 KiB there and those of Rowan-KV 16, and the appends of other nodes and the leases of four client threads hold some of them. What is left for dead records is less,
  so the segments that are cleaned have more that is live, and the media write {rowan-threads-cleaning-media | kv | 128; 10; 8; 7 | 0} bytes for a PUT. No figure separates the two. A server of Rowan-KV has a thread for cleaning.
- Copies write each record twice, into the log of appends and into their own log. The media of `kv` write {rowan-threads-media | kv / rowan-kv | 8; 24; 48; 144 | 1} times as many bytes for a PUT (*rowan-threads-media*): five writes in place of three are 1.7, and its records are longer.
- A handler's time counts when the handler begins, so a value in *rowan-threads-busy* may be off by a batch.

## The flaws of the published design, and `kv` under the same schedules

A schedule uses a cluster through its clients, its power and its network alone. `crates/published/tests/it/rowan_flaws.rs` shows what becomes of
Rowan-KV as published, `crates/kv/tests/it/nodes/flaws.rs` that `kv` holds (R5 in `forgeries.rs` beside it); a test of both has the number in its name. Both are judged by the
same functions, and each side has a control ([0015](../design/0015-published-designs.md)).

| flaw | schedule | Rowan-KV as published | `kv` |
| --- | --- | --- | --- |
| R1 | writes may pass a READ at the root ports, and the power fails | no backup holds what was acknowledged | every copy holds it: the platform is declared so that backups write back and answer by their processors; READs, as in the figures, would not be safe there |
| R2 | a primary is cut off from its backups until one of them leads, and comes back | acknowledges an entry that no reader sees | what is acknowledged is seen by every reader: the old primary is fenced, and has no lease |
| R3 | one backup has an entry, the primary dies, and then its heir | the second heir has what the first had not | both heirs have the same: an heir settles the entry on all copies, or cuts it off |
| R4 | two writers of one key, and takeovers | no failure: versions decide, although the last place has an older value | the same |
| R5 | a value contains the bytes of an entry, and its own header is torn | the value becomes an entry | never: the tag of an entry is keyed, and no client has the key |
| R6 | the software of one server stands still, and its buffers run out | the PUTs of all servers wait until it is back | the node is removed after the time of the policy, the PUTs go on, and it is filled when it is back |
| R7 | the software of both backups is dead | goes on to acknowledge | acknowledges no longer than the lease that backups grant, though there is credit for more entries; what was acknowledged is on all copies |
| R8 | the answer of a write is lost with the primary, another client writes, and the first one repeats its write | the first write takes effect twice | once: the heir knows the token |
| R9 | a deletion is cleaned before an older entry of its key, and all servers recover | the key is back | it stays away: cleaners need room, move records and free other segments, and the full segment of the tombstone stays as long as an older record; without that rule, the test finds the key back |

R4 is no flaw of the published design: its versions decide, and the schedule has a control that decides by place, and fails.
";

const PUT_RPC: &str = "The number of clients, since the latency of rpc-kv at its limit is that of a queue: half of them give {rowan-causes-put | rpc-kv | half of the clients} x (*rowan-causes-put*).";
const PUT_WRITE: &str = "The load: where 100 million operations a second begin whatever the stores do, in place of those of 1152 clients that wait, the ratio is {rowan-causes-offered | rwrite-kv, median PUT | 100} x, and that of throughput {rowan-causes-offered | rwrite-kv, throughput | 100} x (*rowan-causes-offered*).";
const CLOVER: &str = "The visits of clients to the metadata server: with the 16 places in each grant that the artefact has, and versions given back one by one, the ratio is {rowan-others-visits | clover-like | given back one by one | 1} x; with 8 and 4 places {rowan-others-visits | clover-like | one by one, 8 places got at a time | 1} x and {rowan-others-visits | clover-like | one by one, 4 places got at a time | 1} x (*rowan-others-visits*). How many the published clients give back at a time is not known.";
const HERMES: &str = "The two messages behind a PUT: *rowan-others-messages*.";

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
    let over_digests = |value: &str, figure, (series, clients): (&'static str, &str), reason| {
        let ratio = threads::of_rowan(points, figure, (series, clients));
        let nodes = match series {
            sustained::THREE => "three nodes of one thread",
            _ => "one node of one thread",
        };
        let what = format!(
            "{value} over 6 ms, 50 % PUT, {clients} clients: kv with {nodes} a server, to rowan-kv with three threads"
        );
        Headline::ours(what, format!("{ratio:.2} x"), reason)
    };
    let beside_clover = |series, put_percent, reason| {
        let ratio = passive::of_clover_like(points, series, put_percent);
        let nodes = match series {
            sustained::THREE => "three nodes of one thread a server",
            learned::LEARNED => {
                "one node of one thread a server, and clients that know the places of their keys"
            }
            _ => "one node of one thread a server",
        };
        let what = format!(
            "throughput over 0.3 ms, {put_percent} % PUT, 144 clients on 24 threads: kv with {nodes}, to clover-like"
        );
        Headline::ours(what, format!("{ratio:.2} x"), reason)
    };
    const STALLS: &str = "One thread beside three: with two nodes a server {rowan-sustained-causes | median PUT | kv has two nodes a server} x of the median and {rowan-sustained-causes | 99th percentile of PUT | kv has two nodes a server} x of the 99th percentile (*rowan-sustained-causes*).";
    const LOGS: &str = "More logs than the medium's buffer has blocks.";
    vec![
        Headline::quoted(
            "append, 64 bytes, 144 senders",
            "54.5 million a second",
            format!("{appends:.1}"),
            "144 records are under way, and each takes the sum of the parts of its path; beside 18 local writers {rowan-local | append 64 | beside 18 local writers | 1} (*rowan-local*).",
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
            "The processor's cost of a message: without it the ratio is {rowan-causes | rpc-kv | messages cost nothing} x (*rowan-causes*).",
        )
        .isolated_by(causes::THROUGHPUT, "rpc-kv", "messages cost nothing"),
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
        )
        .isolated_by(causes::PUT_MEDIAN, "rpc-kv", "half of the clients"),
        Headline::number(
            "median latency of PUT: rwrite-kv to rowan-kv".to_owned(),
            "x",
            2.11,
            usual(causes::PUT_MEDIAN, "rwrite-kv"),
            PUT_WRITE,
        )
        .isolated_by(offered::OFFERED, offered::WRITE_PUT, "100"),
        Headline::number(
            "throughput, 50 % PUT: rowan-kv to hermes-like".to_owned(),
            "x",
            1.98,
            throughput("rowan-kv") / throughput("hermes-like"),
            HERMES,
        ),
        Headline::ours(
            "throughput over 0.3 ms, 50 % PUT, one worker thread a server, 144 clients: kv to the best published design that has worker threads",
            format!("{:.2} x", threads::advantage(points, "144")),
            "GETs of kv take no time of a server (*rowan-threads-mixes*).",
        ),
        beside_clover(
            "kv",
            "50",
            "The servers of clover-like are memory: its clients do all of the work. A node of kv has one thread, and decides all PUTs of its shard.",
        ),
        beside_clover(
            sustained::THREE,
            "50",
            "Three of the 36 hardware threads of a server decide PUTs, and GETs need none.",
        ),
        beside_clover(
            sustained::THREE,
            "100",
            "Three of the 36 hardware threads of a server decide PUTs.",
        ),
        beside_clover(
            "kv",
            "0",
            "A client that does not know the place of a key READs twice.",
        ),
        beside_clover(
            learned::LEARNED,
            "0",
            "One READ of a record, as in clover-like, whose clients know all keys here.",
        ),
        Headline::ours(
            "median latency of PUT, the same: kv to rowan-kv",
            format!(
                "{:.2} x",
                threads::of_rowan(points, threads::PUT_MEDIAN, ("kv", "144"))
            ),
            "A node decides a batch while the batches before it wait for copies.",
        ),
        Headline::ours(
            "99th percentile of PUT, the same: kv to rowan-kv",
            format!(
                "{:.2} x",
                threads::of_rowan(points, threads::PUT_P99, ("kv", "144"))
            ),
            "A node takes all requests that wait as one batch.",
        ),
        over_digests(
            "throughput",
            sustained::THROUGHPUT,
            ("kv", "144"),
            "The one thread of a node does what three threads do there.",
        ),
        over_digests(
            "median latency of PUT",
            sustained::PUT_MEDIAN,
            ("kv", "144"),
            STALLS,
        ),
        over_digests(
            "99th percentile of PUT",
            sustained::PUT_P99,
            ("kv", "144"),
            STALLS,
        ),
        over_digests(
            "throughput",
            sustained::THROUGHPUT,
            (sustained::THREE, "8"),
            LEARNS,
        ),
        over_digests(
            "throughput",
            sustained::THROUGHPUT,
            (sustained::THREE, "144"),
            "The nodes share one medium and three cores, and GETs take none of these.",
        ),
        over_digests(
            "median latency of PUT",
            sustained::PUT_MEDIAN,
            (sustained::THREE, "144"),
            "Each node has a third of the clients.",
        ),
        over_digests(
            "99th percentile of PUT",
            sustained::PUT_P99,
            (sustained::THREE, "144"),
            "Each node has a third of the clients.",
        ),
        Headline::number(
            "throughput, 50 % PUT: rowan-kv to clover-like".to_owned(),
            "x",
            24.5,
            throughput("rowan-kv") / throughput("clover-like"),
            CLOVER,
        )
        .isolated_by(
            others::VISITING,
            "clover-like",
            "one by one, 4 places got at a time",
        ),
    ]
}
