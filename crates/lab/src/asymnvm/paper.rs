//! The paper: its figures and the text of its page.

use super::headlines::headlines;
use super::{
    allocator, applications, batches, caches, causes, front_ends, layouts, lock, mirrors, mixes,
    partitions, ratios, readers, structures,
};
use crate::papers::{PageText, Paper, no_bars};

/// AsymNVM's paper.
pub static PAPER: Paper = Paper {
    name: "asymnvm",
    figures: &[
        &structures::FIGURES,
        &ratios::FIGURES,
        &batches::FIGURES,
        &caches::FIGURES,
        &readers::FIGURES,
        &lock::FIGURES,
        &front_ends::FIGURES,
        &mixes::FIGURES,
        &partitions::FIGURES,
        &applications::figures::FIGURES,
        &applications::causes::FIGURES,
        &mirrors::FIGURES,
        &allocator::FIGURES,
        &causes::FIGURES,
        &layouts::FIGURES,
    ],
    headlines,
    page: PageText {
        introduction: INTRODUCTION,
        heading: "Published numbers beside these",
        columns: ["what", "published", "here", "why"],
        notes: NOTES,
        bars: no_bars,
    },
};

const INTRODUCTION: &str = "\
# AsymNVM's evaluation: its variants as published, beside data structures of a back-end

A front-end works on a structure in the persistent memory of a passive back-end. *naive* READs and WRITEs it. *r* appends the changes of an operation to a memory log, which the back-end applies.
*rc* has a cache. *rcb* appends each operation to an operation log, and the changes of a batch of 1,024 to the memory log. *symmetric* and *symmetric-b* have the structure in local persistent memory, and send their log away
without waiting. All of them are policies over the traversals of `structures` (`crates/published/src/asymnvm`), so node layouts are those of `structures` and not those of the paper, which are not
published. *structures* is the product's crate (`crates/structures`). *flushed*: a READ behind each append makes it durable before it is acknowledged; without it, an acknowledgement is that of the NIC, and a power cut may take what it was for.

Keys and values have 8 bytes, as published. 4,096 keys are loaded (the paper does not say how many), and half of the inserts are of new keys; stacks and queues are pushed and popped at random. Each writer does 2,048
operations, a quarter of them before the measurement. *In flight* is the number of WRITEs that are not acknowledged when the next operation begins; `structures` gets as many operations at once, and waits for all of them before the next ones. It waits for its publications, too, but in *asymnvm-ours*, *asymnvm-ours-causes* and *asymnvm-ours-lasting*, where it goes on behind them. Where
variants stand beside `structures`, caches hold everything, and the time of their memory does not count, as that of the memory of `structures` does not.

The machines are those of the paper, as `docs/simulator.md` describes them (`connectx3-asymnvm`). The paper assumes that DDIO is off, and its machines had it on; each of its tables and figures is measured with both: *-on* in the name of a figure says that it is on, and *asymnvm-ours* and *asymnvm-mirrors* have both. Time is virtual: the same command gives the same numbers.
Keys are uniform or zipfian with exponent 0.99, as each figure says; the trace of Figure 12 is private.
Figures without `structures`: *asymnvm-trips*, *-batches*, *-caches*, *-policies*, *-lock*, *-mixes*, *-allocator*, *-causes*, *-layouts*, *-program*, *-applications-trips*, *-applications-layouts* and *-applications-causes*, with those that are derived from them. They have respects of the published variants alone.
The bars of Figures 7 to 13 are not published. `stonecast-lab figure asymnvm --markdown` prints this page; a test compares it with the documented points and measures some of them again.
";

const NOTES: &str = "
What decides the numbers:

- **Layouts.** A naive insert takes as long as its round trips (*asymnvm-trips*). The published time has room for other numbers of them: fewer for stack, queue and hash table, many more for skip list and trees. *asymnvm-layouts* changes them in the direction of each. A front-end that knows all nodes has nothing to READ:
  with 1 or 2 in flight that is within 15 % of the published numbers of queue, stack and hash table, but for naive of the stack. READs of 32 to 192 bytes, one after the other, are within 15 % on skip list, B+tree and trees with versions, and naive and R need the same size on each tree. So the nodes of the paper are smaller, or
  are read in parts; which of both is not published.
- **The program.** The simulator counts the time of memory, NICs and network, and hardly any for the program itself. *asymnvm-program* gives each operation the time by which the published symmetric setting is slower than the measured one, which has no network to wait for. It explains numbers that are greater
  here than published, and none that are smaller.
- **Batches.** With batches below the number of keys, RCB is limited by the READs of nodes that the cache has not: with all of them cached a batch of 1,024 gains more (*asymnvm-batches-causes*). The program's time leaves less to gain.
- **Caches.** The memory of the cache takes time: a choice of the least recently used one of 32 pages looks at 32 marks that no processor cache has. In this model that costs more than it saves (*asymnvm-policies*), and a list that is changed at each use costs less. The paper finds the reverse. Without the time of that
  memory both do the same (*asymnvm-policies-free*).
- **Locks.** The published lock costs two records, a CAS and a WRITE, for each transaction (*asymnvm-causes*, *R, locked*). Table 2 has no room for them.
- **DDIO.** It changes no number of a variant that does not flush by as much as 1 % (*asymnvm-structures-1-on*): its writer waits for the NIC, which acknowledges in either case. A READ behind each append costs up to 4 % less, and makes nothing durable then. `structures` takes an answer of the back-end's
  processor in place of the READ: 19 to 24 % fewer operations with 1 in flight.

Where `structures` is better, and where worse (*asymnvm-ours*), and what decides it (*asymnvm-ours-causes*):

- Queue, and multi-version search tree: better with any number in flight, since RCB READs nodes there. Its cache keeps what was read alone, and the front-end of `structures` knows what it wrote. A cache of RCB that also keeps what is written, of a front-end that made the structure itself, has nothing to READ
  (*asymnvm-trips*). Beside such a one `structures` does 0.67 on the queue and 0.62 on that tree with 1 in flight, and 1.00 and 0.85 with 16 (*asymnvm-ours-lasting*, *burst*). The paper does not say whether its cache keeps what is written.
- One operation in flight: worse than RCB on six of eight, the search tree at 0.99. RCB acknowledges what a power cut may take: with a READ behind each append `structures` does 0.86 to 2.14 of it. A record of `structures` has 80 bytes, and its NIC fetches it; that of RCB has 40, and travels in the descriptor. That fetch
  takes 0.5 us on these machines (`docs/simulator.md`). With NICs of front-ends that take 128 bytes with the descriptor (*1, 128 bytes inline*) `structures` does 0.76 to 2.08 of RCB, and 1.02 to 2.35 of one with a READ behind each append. No acknowledgement that a power cut spares can do without the READ.
- 16 and 1,024 in flight: the wait for the back-end decides. A front-end that waits for each of its publications does 0.47 to 6.94 of RCB with 16, and 0.63 to 13.1 with 1,024 (*waits*). One that goes on while the back-end applies them (`Writer::start_publication`) does 1.01 to 10.2 and 1.27 to 17.3. RCB never waits: if it
  does so behind each batch, a front-end of `structures` that waits, too, does 1.25 to 7.96 and 2.44 to 15.0 of it (*both wait*). What is left between a front-end that goes on and one that publishes nothing (2.14 to 17.6, 3.92 to 47.5) is the transaction, which it makes and sends in front of the next records.
- A run of *asymnvm-ours* has two publications, so it shows a burst. Of a front-end of `structures` four publications at most have begun and not ended; RCB lets its back-end fall behind as far as its log of 16 MiB reaches. In *asymnvm-ours-lasting* the log of RCB is shorter, so that its front-end has to wait, too: `structures`
  does 1.19 to 13.3 of RCB with 16 in flight, and 1.29 to 11.8 with 1,024. Runs twice as long have 1.17 to 11.6 and 1.49 to 6.18: the queue loses most, since its READs are over when all that was loaded is popped; trees with versions grow, and have no steady state.
- If RCB keeps what it writes (*written kept*), runs that last have `structures` at 0.59 to 0.67 with 1 in flight, 0.71 to 3.13 with 16, and 0.96 to 2.20 with 1,024. It loses a burst with 16 (0.83 to 1.02): RCB writes 40 bytes an operation and waits for nobody, and `structures` sends and waits for a transaction between. With
  1,024 it is ahead in a burst, too (1.08 to 1.69).
- Tried: a front-end that waits for the oldest operation alone, as RCB does (*off, 16, oldest*: 0.91 to 0.98 of one that waits for each 16).
- With DDIO on, records need the processor of the back-end, which works on a publication before it answers for the records behind: little is gained by going on (*on*).

| bar: `structures` to RCB, DDIO off | found |
| --- | --- |
| 1.0 with 1 in flight | missed: two of eight in a burst, and the search tree at 0.99; three in runs that last. With a READ behind each append of RCB three of eight, and three more at 0.96 to 0.99; in runs that last six. None if RCB keeps what it writes: 0.59 to 0.67 |
| 1.3 with 16 in flight on six of eight, the hash table against RC | met in a burst: 1.39 to 10.2 on five and the hash table at 1.78; the multi-version B+tree at 1.27, the B+tree at 1.01. Met in runs that last: 1.49 to 13.3 on six and the hash table at 2.46 (1.41 of RCB); the stack at 1.19. Missed if RCB keeps what it writes: five of eight in runs that last, none in a burst |
| 1.0 with 1,024 in flight on all | met: 1.27 to 17.3 in a burst, 1.29 to 11.8 in runs that last. If RCB keeps what it writes: met in a burst with 1.08 to 1.69, missed by the multi-version B+tree with 0.96 in runs that last |

Several front-ends, each with a B+tree of its own (*asymnvm-front-ends-causes*):

- The bound of `structures` is the processor of the back-end. It works for 63 % of the time for one front-end, and for 95 % for two. Front-ends that publish nothing do 4.5 Mop/s each, seven as well as one: leases, records and tickets do not limit each other. A persist already serves the notices of all front-ends that came together.
- RCB has the same bound and does not show it. Its front-ends wait for their NIC alone, and the back-end falls behind. If each batch waits until it is applied, as each publication of `structures` does, one front-end of RCB does 0.63 of one of `structures`, and seven do 0.60.

SmallBank and TATP (*asymnvm-smallbank*, *asymnvm-tatp*): SmallBank reads the rows of 4,096 customers in hash tables, with the mix of H-Store; TATP has 1,024 subscribers in B+trees, and 80 % of its transactions read alone. Every read of a run is compared with a serial execution.

- SmallBank: `structures` does 0.65 of RCB with one transaction in flight, and 0.95 with 16.
- TATP: `structures` does 0.12 and 0.09 of RCB. A transaction that reads alone, four of five, reads the cache of RCB and asks nobody. A front-end whose lock was taken over goes on to read the rows from before (flaws A4 and A7). `structures` looks at the word of the tenure before it acknowledges reads: one round trip for each
  transaction with 1 in flight, and one for 16.
- Published values (*asymnvm-applications-trips*, *asymnvm-applications-causes*): the program needs 1.3 us for a transaction of SmallBank, and 4.6 us for one of TATP, if the published symmetric setting waits for nothing else. With that time RC on SmallBank is at 0.91 of the published number.
  On TATP it does not suffice: RC is at 3.2 times the published number with it, at 1.9 times if a tenth of the rows is cached as well, and RCB at 1.6 times. The published naive setting has time for 42 round trips for a transaction of TATP, and for 2 on SmallBank; here they take 3 and 8, 3 and 16 if a transaction reads
  its rows one after the other. So the layouts differ in the same direction as for B+tree and hash table alone (*asymnvm-trips*): the paper's B+tree takes many more round trips than this one, and its hash table fewer.
- The money of SmallBank and the order of committed transactions survive kills, pauses and power cuts (`crates/lab/tests/it/applications.rs`). A program that stages the changes of a transaction one by one is found by its money.

The lock (*asymnvm-lock*): the published rates of readers lie between those of one and of two round trips for look, data and second look. Readers that READ one after the other, as Algorithm 3 has it, are slower here.

Readers beside a writer (*asymnvm-readers*): the writer here is 2 to 15 times as fast as in Table 2, and a back-end that applies a batch of 16 at a time changes a structure nearly all of the time. A reader that takes the lock of bst or b-tree ends one look-up or a few in a whole run, so its rates are those of so
few. With the writer of Table 2 (*asymnvm-readers-causes*, *both*), 2 to 5 % of the tries are repeated. bst and mv-bst lose less to six readers than published; no measurement isolates the cause.

Partitions (*asymnvm-partitions*): no partition slows another one down, as the paper says. What one front-end gains is the share of the reads and of the waits for a back-end that go on at the same time. With four partitions each publication of `structures` waits for four back-ends and has 256 operations for each.

A mirror on a machine of its own (*asymnvm-mirrors*; the paper has no number for one):

| bar: one mirror to none, DDIO off | found |
| --- | --- |
| 1.15 of the time of an operation that is staged and durable | met: 1.10 to 1.13 |
| the same with DDIO on, as the machines of the paper had it | missed: 1.85 to 2.03 |
| 1.5 of the time of an insert that is visible | missed: 1.54 to 1.72 |

A front-end appends to the logs of back-end and mirror at once, so a ticket takes the time of one append, 3.0 us for a queue, and 0.3 us more for the requests of the second. Where a platform needs its processor (*on*), a ticket takes an answer of the back-end (4.0 us: *staged, on, none*), and a round trip with an answer
from there to the mirror.

An insert takes that round trip in either case: the back-end shows nothing before both copies are durable, and hears of the second after a round trip of somebody. It waits for the answer of the back-end anyway, so the round trip is all that is added: 3.0 us for six of eight, 4.0 us if the mirror answers (*on*).
The bar leaves 2.2 to 2.6 us for it on these six. A way with one hop is not built, for the reasons that stand there: [0046](../design/0046-mirrors.md#open).
The trees with versions add 3.8 and 5.4 us: they copy paths, so the back-end sends longer records to the mirror, and at trims the blocks as well. No figure says how much of it is which.

The flaws of the published design, with the schedules under which `structures` holds, are in [0043](../design/0043-asymnvm-as-published.md#the-flaws).
";
