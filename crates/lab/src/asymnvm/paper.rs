//! The paper: its headlines and the text of its page.

use super::cases::STRUCTURES;
use super::{allocator, batches, caches, causes, front_ends, mirrors, mixes, structures};
use crate::papers::{Headline, PageText, Paper, Points};

/// AsymNVM's paper.
pub static PAPER: Paper = Paper {
    name: "asymnvm",
    figures: &[
        &structures::FIGURES,
        &batches::FIGURES,
        &caches::FIGURES,
        &front_ends::FIGURES,
        &mixes::FIGURES,
        &mirrors::FIGURES,
        &allocator::FIGURES,
        &causes::FIGURES,
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
# AsymNVM's evaluation: its variants as published, beside data structures of a back-end

A front-end works on a structure in the persistent memory of a passive back-end. *naive* READs and WRITEs it. *r* appends the changes of an operation to a memory log, which the back-end applies.
*rc* has a cache. *rcb* appends each operation to an operation log, and the changes of a batch of 1,024 to the memory log. *symmetric* and *symmetric-b* have the structure in local persistent memory, and send their log away
without waiting. All of them are policies over the traversals of `structures` (`crates/published/src/asymnvm`), so node layouts are those of `structures` and not those of the paper, which are not
published. *structures* is the product's crate (`crates/structures`). *flushed*: a READ behind each append makes it durable before it is acknowledged; without it, an acknowledgement is that of the NIC, and a power cut may take what it was for.

Keys and values have 8 bytes, as published. 4,096 keys are loaded (the paper does not say how many), and half of the inserts are of new keys; stacks and queues are pushed and popped at random. Each writer does 2,048
operations, a quarter of them before the measurement. *In flight* is the number of WRITEs that are not acknowledged when the next operation begins; `structures` gets as many operations at once, and waits for all of them before the next ones. Where
variants stand beside `structures`, caches hold everything, and the time of their memory does not count, as that of the memory of `structures` does not.

The machines are those of the paper, as `docs/simulator.md` describes them (`connectx3-asymnvm`). The paper assumes that DDIO is off, and its machines had it on; *asymnvm-ours* has both. Time is virtual: the same command gives the same numbers.
The bars of Figures 7 to 13 are not published. `stonecast-lab figure asymnvm --markdown` prints this page; a test compares it with the documented points and measures some of them again.
";

const NOTES: &str = "
What decides the numbers:

- **Layouts.** A naive insert takes as long as its round trips (*asymnvm-trips*). The published time has room for other numbers of them: fewer for stack, queue and hash table, whose nodes are smaller there and whose heads stay at the front-end; many more for skip list and
  trees, whose nodes hold one key each or are split over many WRITEs.
- **The program.** The simulator counts the time of memory, NICs and network, and hardly any for the program itself. *asymnvm-program* gives each operation the time by which the published symmetric setting is slower than the measured one, which has no network to wait for: what RC and RCB
  then do is decided by the same program.
- **Batches.** With batches below the number of keys, RCB is limited by the READs of nodes that the cache has not; a larger vector reads each node once.
- **Caches.** The memory of the cache takes time: a choice of the least recently used one of 32 pages looks at 32 marks that no processor cache has. In this model that costs more than it saves (*asymnvm-policies*), and a list that is changed at each use costs less. The paper finds the reverse.
- **Locks.** The published lock costs two records, a CAS and a WRITE, for each transaction (*asymnvm-causes*, *R, locked*). Table 2 has no room for them.

Where `structures` is better, and where worse (*asymnvm-ours*):

- Queue, and multi-version search tree: better with any number in flight. The back-end of RCB applies each change of a batch, and `structures` writes each node of a transaction once.
- One operation in flight: worse than RCB on most structures, also where both flush. A record of `structures` has 80 bytes and is fetched by the NIC, that of RCB has 40 and travels in the descriptor. Every 1,024 operations `structures` waits until the back-end has applied them, and RCB does not.
- 16 in flight: RCB goes on while 15 operations are on their way. The front-end measured here waits for each 16.
- 1,024 in flight: better on six of eight. The B+tree of `structures` is at 0.6 of RCB, the multi-version one at 0.97.

| bar: `structures` to RCB, DDIO off | found |
| --- | --- |
| 1.0 with 1 in flight | missed: two of eight |
| 1.3 with 16 in flight on six of eight, the hash table against RC | missed: two of eight |
| 1.0 with 1,024 in flight on all | missed: six of eight |

A mirror on a machine of its own (*asymnvm-mirrors*; the paper has no number for one):

| bar: one mirror to none, DDIO off | found |
| --- | --- |
| 1.15 of the time of an operation that is staged and durable | missed: 2.0 to 2.3 |
| 1.5 of the time of an insert that is visible | missed: 1.54 to 1.70, the multi-version B+tree 1.92 |

The cause is a round trip, one behind the other. Without a mirror a ticket takes the WRITE of a record and a READ behind it, 3.0 us for a queue; no processor of the back-end is asked. With a mirror it takes an answer of the back-end (4.0 us: *staged, on, none*, where the platform needs that answer without a mirror, too) and
then the same WRITE and READ from there to the mirror (3.0 us more: *staged, off, one*). The answer is 1.0 us of the four that are added, the second round trip three. An insert waits for the answer of the back-end anyway, so the second round trip is all that is added: 3.0 us for six of eight. If the mirror's platform needs its processor (*on*), its answer takes
another 1.0 us. The trees with versions, whose records are longer, add more (3.8 and 14.9 us), which is not isolated.

Front-ends that append to back-end and mirror at once would take the second round trip out of a ticket ([0046](../design/0046-mirrors.md#open)). An insert needs it: the back-end may show nothing before both copies are durable, and hears of the second after a round trip of somebody.

The flaws of the published design, with the schedules under which `structures` holds, are in [0043](../design/0043-asymnvm-as-published.md#the-flaws).
";

const TRIPS: &str = "The layouts: *asymnvm-trips* has the round trips of these, and the number that the published time has room for.";
const LOGGED: &str = "The layouts, as for naive; 16 in flight change little (*asymnvm-causes*).";
const CACHED: &str = "The layouts and the size of the cache (*asymnvm-causes*: all cached, a tenth cached), and the program (*asymnvm-program*).";
const BATCHED: &str = "Operations in flight, and the program (*asymnvm-program*).";
const LOCAL: &str =
    "The program, whose time the simulator does not count; *asymnvm-program* adds it.";
const BLOCKS: &str = "A request waits for the bitmap to be durable, and for the next look of the back-end. Two-tier allocators make a quarter or a 32nd of the requests of *rpc*, here and there.";
const FREED: &str = "Here a release waits for its answer, as an allocation does.";

fn headlines(points: &Points) -> Vec<Headline> {
    let mut headlines = Vec::new();
    for (series, why) in [
        ("symmetric", LOCAL),
        ("naive", TRIPS),
        ("r", LOGGED),
        ("rc", CACHED),
        ("rcb", BATCHED),
    ] {
        for (x, _) in STRUCTURES {
            let here = points.at(structures::ONE, series, x);
            let (Some(published), Some(here)) = (structures::published(series, x), here) else {
                continue;
            };
            let what = format!("{x}, {series}");
            headlines.push(Headline::number(what, "kop/s", published, here, why));
        }
    }
    for series in ["rpc", "two-tier 128", "two-tier 1024"] {
        for (x, why) in [("allocate", BLOCKS), ("free", FREED)] {
            let here = points.at(allocator::ALLOCATOR, series, x);
            let (Some(published), Some(here)) = (allocator::published(series, x), here) else {
                continue;
            };
            let what = format!("{series}: {x}");
            headlines.push(Headline::number(what, "Mop/s", published, here, why));
        }
    }
    headlines.extend(texts(points));
    headlines
}

/// The numbers of the text.
fn texts(points: &Points) -> Vec<Headline> {
    let at = |figure, series, x| points.at(figure, series, x).unwrap_or_default();
    let misses = |x| format!("{:.1} %", at(caches::MISSES, "b-tree", x));
    let gain = |series| {
        let value = at(batches::BATCHES, series, "1024") / at(batches::BATCHES, series, "1");
        format!("{value:.2} x")
    };
    let busy = |x| format!("{:.0} %", at(front_ends::PROCESSORS, "back-end", x));
    vec![
        Headline::quoted(
            "nodes that miss, least recently used of 32",
            "29.2 %",
            misses("random 32"),
            "The workload of the paper's benchmark is not published.",
        ),
        Headline::quoted(
            "nodes that miss, random",
            "62.7 %",
            misses("random"),
            "The same.",
        ),
        Headline::quoted(
            "mv-b-tree: batches of 1,024 to none",
            "3.38 x",
            gain("mv-b-tree"),
            "A batch copies each node once, and reads each level at once (*asymnvm-batches*). The text gives this number to the other tree; Table 2 says which.",
        ),
        Headline::quoted(
            "mv-bst: batches of 1,024 to none",
            "3.13 x",
            gain("mv-bst"),
            "The same.",
        ),
        Headline::quoted(
            "b-tree: processor of the back-end",
            "4 to 10 %",
            busy("b-tree"),
            "Looks at the commit word, every 2 us, and one store after the other for each change (*asymnvm-processors*).",
        ),
    ]
}
