//! The published values of the paper's tables and text beside those of the figures, with reasons.

use super::applications::figures::{BANK, TATP, published_bank, published_tatp};
use super::cases::STRUCTURES;
use super::{allocator, batches, caches, front_ends, lock, mixes, readers, structures};
use crate::papers::{Headline, Points};

const LOCAL: &str = "The program, whose time the simulator does not count; *asymnvm-program* takes it from this number, and adds it to the other variants.";
const LOCAL_SLOWER: &str = "What a power cut takes: 1254 kop/s if caches of processors survive, so that nothing is written back (*asymnvm-layouts*, *no write-backs*). DDIO makes no difference.";
const CACHED: &str = "The size of the cache: with a tenth cached 35 kop/s for the skip-list, 66 for the bst (*asymnvm-causes*).";
const CACHED_SLOWER: &str = "Not found: 378 kop/s if all nodes are known with 1 in flight, 802 with 2 (*asymnvm-layouts*, *r, knows all*); the published number lies between. Tried as well: a tenth cached (*asymnvm-causes*), the program (*asymnvm-program*), DDIO.";
const CACHED_B_TREE: &str = "The size of the cache and the layout: 183 kop/s with a tenth cached, and 36 if READs take 192 bytes at most as well, which fits naive and R (*asymnvm-layouts*); the published number lies between. The program's time does little (176 kop/s, *asymnvm-program*).";
const COPIED: &str = "The program: with its time 16 kop/s (*asymnvm-program*).";
const BATCHED_STACK: &str = "Operations in flight: 1597 kop/s with 16 (*asymnvm-program*).";
const BATCHED_QUEUE: &str = "READs, and operations in flight: 1578 kop/s by a front-end that knows all nodes and has 3 in flight (*asymnvm-layouts*). RCB as it is READs 1.5 round trips for an operation (*asymnvm-trips*).";
const BANK_NAIVE: &str = "READs, and operations in flight, in part: 161 kop/s by a front-end that knows all rows, and 322 with 2 in flight (*asymnvm-applications-layouts*); the published number lies between. Tried as well: 16 times the rows, READs of 64 bytes, rows one after the other, the program's time (*asymnvm-applications-causes*).";
const BANK_LOGGED: &str = "The READs, in part: 101 kop/s with all of them, and 585 by a front-end that knows all rows (*asymnvm-applications-layouts*); the published number lies between, and has time for two round trips (*asymnvm-applications-trips*). Tried as well: as for naive.";
const TATP_NAIVE: &str = "The dependent READs: 10.3 kop/s of naive if a READ takes 80 bytes at most, 12.2 of R if it takes 96 (*asymnvm-applications-layouts*). 16 times the rows alone: 110 and 117 kop/s.";
const LOCAL_ROWS: &str = "The program, whose time the simulator does not count; *asymnvm-applications-causes* takes it from the published symmetric setting, and adds it.";
const BANK_CACHED: &str = "The program: with its time 331 kop/s (*asymnvm-applications-causes*).";
const TATP_CACHED: &str = "The program and the size of the cache: with both and rows one after the other 124 kop/s (*asymnvm-applications-causes*). The rest: the layout of the trees, as for naive.";
const TATP_BATCHED: &str = "The program: with its time 204 kop/s (*asymnvm-applications-causes*). The rest: the layout of the trees, as for naive.";
const BLOCKS: &str = "Not within 15 %; tried (*asymnvm-allocator-causes*): 0.23, 0.95 and 7.13 Mop/s if the bitmap need not be durable before the answer, no change if the back-end looks each 100 ns in place of 2 us, 0.39, 1.58 and 12.6 with both. The published number lies between: a front-end READs the answer until it is there, so it waits for whole round trips.";
const FREED: &str = "Tried (*asymnvm-allocator-causes*): 0.23, 0.96 and 7.22 Mop/s if the bitmap need not be durable before the answer, no change if the back-end looks each 100 ns in place of 2 us, 0.39, 1.58 and 12.7 with both. That is within 15 % with blocks of 1,024 bytes. A published release of the others takes less time than a round trip, so its front-end does not wait; no measurement has that.";
const LOCAL_BATCHED: &str = "The program, as for symmetric; a batch saves a part of its time, which the difference of these two numbers says (*asymnvm-layouts* calls it the program of a batch). With the time of symmetric, b-tree, skip-list and bst are at 116, 75 and 61 % of the published number, mv-bst and mv-b-tree at 33 and 26 % (*asymnvm-program*).";
const SPEED_UP: &str =
    "Both rows, each with its reasons. The published rows themselves have 5.1 to 16.0 x.";
const CACHING: &str = "The size of the cache: with a tenth cached, 1.8 to 2.8 x (*asymnvm-causes*); the trees with versions gain nothing from a cache here. The published rows themselves have 1.2 to 5.6 x.";
const BANK_GAIN: &str = "The size of the cache, and the program: with a tenth cached 2.4 x, row by row 2.3 x, with the program's time as well 2.2 x (*asymnvm-applications-causes*). The rest is that of naive, whose published number has time for two round trips.";
const TATP_GAIN: &str = "The program: with its time 2.3 x (*asymnvm-applications-causes*). The published number lies between, since the published naive setting takes 42 round trips and this one 3 (*asymnvm-applications-trips*).";
const FASTER: &str = "The program: with its time and 16 in flight, stack, hash-table and mv-b-tree (*asymnvm-program*). The rest is not isolated.";
const BATCH: &str = "The size of the cache, operations in flight, and the program: with these three changed, 59 % for the skip list, 38 % for the bst, 177 % for the b-tree (*asymnvm-batches-causes*). The program's time for a batch is shorter (*asymnvm-layouts*).";
const VERSIONS: &str = "A batch copies each node once, and reads each level at once. With the program's time 1.3 x for the mv-b-tree, 2.3 x for the mv-bst (*asymnvm-batches-causes*): how much of that time a batch saves is not published. The text exchanges the two trees; Table 2 says which is which.";
const MISSED: &str = "The size of the cache, each number by itself: 31 % (least recently used of 32) with 4 bytes for each key, 66 % (random) with 2 (*asymnvm-misses-causes*). No size is near both. Uniform keys change next to nothing; 65,536 keys with 2 bytes have 31 and 36 %.";
const MARKS: &str = "The marks of 32 nodes lie in memory that no processor's cache holds. Without the time of the cache's memory both do the same (*asymnvm-policies-free*); what a list costs the paper's program is not published.";
const LRU: &str = "As for rc: b-tree. LRU does 1.35 x of the paper's policy here, since the marks of that take time; without it both do the same (*asymnvm-policies-free*).";
const TRIES: &str = "The round trips of a try: beside a writer without lock, three, two and one do 108, 183 and 397 kop/s with 10 % updates, and 39, 123 and 368 with 50 % (*asymnvm-lock*). The published rates lie between two and one.";
const FAILED: &str =
    "The length of a try: 3.8 % with one round trip in place of three (*asymnvm-lock*).";
const LOST: &str = "No measurement isolates the cause. Tried: batches, and the writer of Table 2 (*asymnvm-readers-causes*): no more than 5 % with a lock.";
const FREE: &str = "The writer: beside one as fast as in Table 2, with batches of 1,024, 1.3 and 1.6 x (*asymnvm-readers-causes*). The rest is not isolated: a locked look-up of these layouts takes one round trip more than one without.";
const REPEATED: &str = "The writer: beside one as fast as in Table 2, with batches of 1,024, 2 to 5 % (*asymnvm-readers-causes*).";
const SEVEN: &str = "Three of four are in the range. The b-tree loses most: it is the fastest one, and its front-ends write most to the one back-end. No measurement isolates its loss.";
const POLLED: &str =
    "A front-end that waits for its NIC polls there. The simulator counts work alone.";
const LOOKS: &str = "The rate: the front-end is faster here. Beside one as fast as in Table 2 the back-end works for 3 to 12 % of the time, and for 25 % with the stack (*asymnvm-processors*).";
const GAP_B_TREE: &str = "The size of the cache: 27 % with all cached (*asymnvm-mixes-causes*). Uniform keys and newest ones change next to nothing; the trace is private.";
const GAP: &str = "The size of the cache: 36 % with a tenth cached, 57 % with all of it (*asymnvm-mixes-causes*). Uniform keys and newest ones change next to nothing, the program's time for a batch leaves 18 %; the trace is private.";

const LOCAL_ALLOCATOR: &str =
    "An allocator of one machine: no network takes part, and the simulator counts no program.";
/// The rows of Table 1 without a network.
const NO_NETWORK: [(&str, &str); 4] = [
    ("glibc: allocate", "21.00 Mop/s"),
    ("glibc: free", "57.00 Mop/s"),
    ("Pmem: allocate", "1.42 Mop/s"),
    ("Pmem: free", "1.38 Mop/s"),
];

/// The reason for the difference of a number of Table 2.
fn of_table_2(series: &str, x: &str) -> &'static str {
    match (series, x) {
        ("symmetric", "hash-table") => LOCAL_SLOWER,
        ("symmetric", _) => LOCAL,
        ("symmetric-b", _) => LOCAL_BATCHED,
        ("naive", _) => of_naive(x),
        ("r", _) => of_r(x),
        ("rc", "hash-table") => CACHED_SLOWER,
        ("rc", "b-tree") => CACHED_B_TREE,
        ("rc", "mv-bst" | "mv-b-tree") => COPIED,
        ("rc", _) => CACHED,
        _ => of_rcb(x),
    }
}

/// What the READs and WRITEs of naive would have to be.
fn of_naive(x: &str) -> &'static str {
    match x {
        "queue" => {
            "The READs: 268 kop/s by a front-end that knows all nodes (*asymnvm-layouts*, *knows all*)."
        }
        "stack" => {
            "The READs, in part: 357 kop/s by a front-end that knows all nodes, and 103 by one that knows none (*asymnvm-layouts*). The published number lies between."
        }
        "hash-table" => {
            "READs, and operations in flight: 285 kop/s by a front-end that knows all nodes and has 2 in flight (*asymnvm-layouts*)."
        }
        "skip-list" => {
            "The dependent READs: 4.8 kop/s if a READ takes 32 bytes at most (*asymnvm-layouts*)."
        }
        "b-tree" => {
            "The dependent READs: 11.6 kop/s if a READ takes 192 bytes at most (*asymnvm-layouts*)."
        }
        "mv-bst" => {
            "The dependent READs: 7.1 kop/s if a READ takes 32 bytes at most (*asymnvm-layouts*)."
        }
        _ => {
            "The dependent READs: 7.7 kop/s if a READ takes 128 bytes at most (*asymnvm-layouts*)."
        }
    }
}

/// What the READs of R would have to be.
fn of_r(x: &str) -> &'static str {
    match x {
        "queue" | "stack" => {
            "READs, and operations in flight: a front-end that knows all nodes and has 2 in flight does 841 kop/s on the queue and 911 on the stack (*asymnvm-layouts*). Tried alone: 16 in flight, a flush, the lock (*asymnvm-causes*)."
        }
        "hash-table" => {
            "The READs: 378 kop/s by a front-end that knows all nodes (*asymnvm-layouts*, *knows all*)."
        }
        "skip-list" => {
            "The number of keys, and the dependent READs: 7.3 kop/s with 65,536 keys if a READ takes 64 bytes at most (*asymnvm-layouts*)."
        }
        "b-tree" => {
            "The dependent READs: 12.2 kop/s if a READ takes 192 bytes at most, as for naive (*asymnvm-layouts*)."
        }
        "mv-bst" => {
            "The dependent READs: 12.9 kop/s if a READ takes 32 bytes at most, as for naive (*asymnvm-layouts*)."
        }
        _ => {
            "The dependent READs: 8.6 kop/s if a READ takes 128 bytes at most, as for naive (*asymnvm-layouts*)."
        }
    }
}

/// What decides the numbers of RCB.
fn of_rcb(x: &str) -> &'static str {
    match x {
        "queue" => BATCHED_QUEUE,
        "stack" => BATCHED_STACK,
        "skip-list" => {
            "The program and the size of the cache in part: 153 kop/s with the program's time for a batch, 82 with a tenth cached as well (*asymnvm-layouts*). The rest is not isolated: the layout, as for naive."
        }
        "bst" => {
            "The program: 143 kop/s with its time for a batch and 16 in flight, 111 with 1 (*asymnvm-layouts*)."
        }
        "b-tree" => {
            "The program and the size of the cache: 223 kop/s with the program's time for a batch, 212 with a tenth cached as well, which is 1.15 of the published number (*asymnvm-layouts*). The rest: the layout, as for naive."
        }
        "mv-bst" => "The program: 92 kop/s with its time for a batch (*asymnvm-layouts*).",
        _ => "The program: 65 kop/s with its time for a batch (*asymnvm-layouts*).",
    }
}

/// The reason for the difference of a number of an application.
fn of_application(name: &str, series: &str) -> &'static str {
    match (name, series) {
        (_, "symmetric" | "symmetric-b") => LOCAL_ROWS,
        ("SmallBank", "naive") => BANK_NAIVE,
        ("SmallBank", "r") => BANK_LOGGED,
        (_, "naive" | "r") => TATP_NAIVE,
        ("SmallBank", _) => BANK_CACHED,
        (_, "rc") => TATP_CACHED,
        _ => TATP_BATCHED,
    }
}

/// The published values of tables and text, in their order.
pub(super) fn headlines(points: &Points) -> Vec<Headline> {
    let mut headlines = Vec::new();
    for series in ["symmetric", "symmetric-b", "naive", "r", "rc", "rcb"] {
        for (x, _) in STRUCTURES {
            let here = points.at(structures::ONE, series, x);
            let (Some(published), Some(here)) = (structures::published(series, x), here) else {
                continue;
            };
            let what = format!("{x}, {series}");
            let why = of_table_2(series, x);
            headlines.push(Headline::number(what, "kop/s", published, here, why));
        }
    }
    for (figure, name, published) in [
        (BANK, "SmallBank", published_bank as fn(&str, &str) -> _),
        (TATP, "TATP", published_tatp),
    ] {
        for series in ["symmetric", "symmetric-b", "naive", "r", "rc", "rcb"] {
            let here = points.at(figure, series, "1");
            let (Some(published), Some(here)) = (published(series, "1"), here) else {
                continue;
            };
            let what = format!("{name}, {series}");
            let why = of_application(name, series);
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
    for (what, published) in NO_NETWORK {
        let measured = "not measured".to_owned();
        headlines.push(Headline::quoted(what, published, measured, LOCAL_ALLOCATOR));
    }
    headlines.extend(speed_ups(points));
    headlines.extend(of_batches(points));
    headlines.extend(of_caches(points));
    headlines.extend(of_the_lock(points));
    headlines.extend(of_several(points));
    headlines
}

/// The value of a point, which every page has.
fn at(points: &Points, figure: &str, series: &str, x: &str) -> f64 {
    points.at(figure, series, x).unwrap_or_default()
}

/// The least and the greatest of some values, as a range.
fn range(values: impl Iterator<Item = f64>, unit: &str, digits: usize) -> String {
    let (least, most) = values.fold((f64::INFINITY, 0.0_f64), |(least, most), value| {
        (least.min(value), most.max(value))
    });
    format!("{least:.digits$} to {most:.digits$} {unit}")
}

/// The gains of the optimizations (section 8.2).
fn speed_ups(points: &Points) -> Vec<Headline> {
    let of_table = |series, x| at(points, structures::ONE, series, x);
    // Only structures for which the paper has both numbers.
    let ratio = |[fast, slow]: [&'static str; 2]| {
        let names = STRUCTURES.into_iter().map(|(x, _)| x);
        let of_paper = names.filter(|x| structures::published(fast, x).is_some());
        range(
            of_paper.map(|x| of_table(fast, x) / of_table(slow, x)),
            "x",
            1,
        )
    };
    let application =
        |figure, fast| at(points, figure, fast, "1") / at(points, figure, "naive", "1");
    let faster = STRUCTURES
        .into_iter()
        .filter(|(x, _)| of_table("rcb", x) > of_table("symmetric", x));
    let faster: Vec<&str> = faster.map(|(x, _)| x).collect();
    vec![
        Headline::quoted(
            "rcb to naive, structures",
            "6 to 22 x",
            ratio(["rcb", "naive"]),
            SPEED_UP,
        ),
        Headline::quoted(
            "rc to r, structures",
            "2 to 7 x",
            ratio(["rc", "r"]),
            CACHING,
        ),
        Headline::number(
            "SmallBank: rc to naive".to_owned(),
            "x",
            1.42,
            application(BANK, "rc"),
            BANK_GAIN,
        ),
        Headline::number(
            "TATP: rcb to naive".to_owned(),
            "x",
            12.5,
            application(TATP, "rcb"),
            TATP_GAIN,
        ),
        Headline::quoted(
            "structures on which rcb is faster than symmetric",
            "queue, stack, bst, mv-bst, mv-b-tree",
            faster.join(", "),
            FASTER,
        ),
    ]
}

/// Batches of 1,024 (8.4).
fn of_batches(points: &Points) -> Vec<Headline> {
    let factor = |series| {
        at(points, batches::BATCHES, series, "1024") / at(points, batches::BATCHES, series, "1")
    };
    let gain = |series| (factor(series) - 1.0) * 100.0;
    let mut headlines = Vec::new();
    for (series, published) in [("bst", 126.0), ("b-tree", 139.0), ("skip-list", 63.0)] {
        let what = format!("{series}: gain of batches of 1,024");
        headlines.push(Headline::number(what, "%", published, gain(series), BATCH));
    }
    for (series, published) in [("mv-b-tree", 3.38), ("mv-bst", 3.13)] {
        let what = format!("{series}: batches of 1,024 to none");
        headlines.push(Headline::number(
            what,
            "x",
            published,
            factor(series),
            VERSIONS,
        ));
    }
    headlines
}

/// Policies of the cache (4.4 and 8.4).
fn of_caches(points: &Points) -> Vec<Headline> {
    let misses = |x| at(points, caches::MISSES, "b-tree", x);
    let rate = |x| at(points, caches::POLICIES, "b-tree", x);
    let (usual, lru) = (rate("random 32, upper levels"), rate("LRU"));
    vec![
        Headline::number(
            "nodes that miss, least recently used of 32".to_owned(),
            "%",
            29.2,
            misses("random 32"),
            MISSED,
        ),
        Headline::number(
            "nodes that miss, random".to_owned(),
            "%",
            62.7,
            misses("random"),
            MISSED,
        ),
        Headline::number(
            "least recently used of 32 to LRU: more operations".to_owned(),
            "%",
            27.5,
            (rate("random 32") / lru - 1.0) * 100.0,
            MARKS,
        ),
        Headline::number(
            "b-tree: LRU of all nodes".to_owned(),
            "kop/s",
            42.5,
            lru,
            LRU,
        ),
        Headline::number(
            "b-tree: LRU of all nodes, less than the paper's policy".to_owned(),
            "%",
            44.0,
            (1.0 - lru / usual) * 100.0,
            MARKS,
        ),
    ]
}

/// The benchmark of the lock (6.3).
fn of_the_lock(points: &Points) -> Vec<Headline> {
    let rows = [
        (
            "each of 6 readers, 10 % updates",
            "kop/s",
            260.0,
            (lock::READER, 10),
            TRIES,
        ),
        (
            "the writer, 10 % updates",
            "kop/s",
            lock::WRITER_KOPS,
            (lock::WRITER, 10),
            FAILED,
        ),
        (
            "tries that fail, 10 % updates",
            "%",
            3.0,
            (lock::FAILED, 10),
            FAILED,
        ),
        (
            "each of 6 readers, 50 % updates",
            "kop/s",
            165.0,
            (lock::READER, 50),
            TRIES,
        ),
        (
            "tries that fail, 50 % updates",
            "%",
            26.0,
            (lock::FAILED, 50),
            FAILED,
        ),
    ];
    let headline = |(what, unit, published, (series, percent), why)| {
        let here = at(points, lock::LOCK, series, &lock::place(percent, 3));
        Headline::number(format!("lock: {what}"), unit, published, here, why)
    };
    rows.map(headline).into()
}

/// Several front-ends (8.5), processors (8.3), and versions (8.7).
fn of_several(points: &Points) -> Vec<Headline> {
    let readers = |series, readers| {
        at(
            points,
            readers::READERS,
            series,
            &readers::place(readers, 100),
        )
    };
    let lost = |series| (1.0 - readers(series, 6) / readers(series, 1)) * 100.0;
    let gain = |[locked, free]: [&'static str; 2]| readers(free, 6) / readers(locked, 6);
    let retries = ["bst", "b-tree"]
        .into_iter()
        .map(|series| at(points, readers::RETRIES, series, &readers::place(6, 100)));
    let alone = |series: &str, count: &str| at(points, front_ends::WRITERS, series, count);
    let writers = front_ends::PUBLISHED.iter();
    let writers = writers.map(|series| (1.0 - alone(series, "7") / alone(series, "1")) * 100.0);
    let busy = |series| {
        let of_each = STRUCTURES.into_iter();
        range(
            of_each.map(move |(x, _)| at(points, front_ends::PROCESSORS, series, x)),
            "%",
            0,
        )
    };
    let gap = |[fast, slow]: [&'static str; 2]| {
        (1.0 - at(points, mixes::MIXES, slow, "100") / at(points, mixes::MIXES, fast, "100"))
            * 100.0
    };
    vec![
        Headline::number(
            "bst: a reader of 6 loses".to_owned(),
            "%",
            26.0,
            lost("bst"),
            LOST,
        ),
        Headline::number(
            "mv-bst: a reader of 6 loses".to_owned(),
            "%",
            8.0,
            lost("mv-bst"),
            LOST,
        ),
        Headline::quoted(
            "readers without lock to readers with one",
            "3.0 to 3.2 x",
            range(
                [["bst", "mv-bst"], ["b-tree", "mv-b-tree"]]
                    .map(gain)
                    .into_iter(),
                "x",
                1,
            ),
            FREE,
        ),
        Headline::quoted(
            "tries that are repeated, 6 readers, inserts alone",
            "4 to 16 %",
            range(retries, "%", 0),
            REPEATED,
        ),
        Headline::quoted(
            "a front-end of 7 loses",
            "7 to 20 %",
            range(writers, "%", 0),
            SEVEN,
        ),
        Headline::quoted(
            "processor of a front-end",
            "nearly 100 %",
            busy("front-end"),
            POLLED,
        ),
        Headline::quoted(
            "processor of the back-end",
            "4 to 10 %",
            busy("back-end"),
            LOOKS,
        ),
        Headline::number(
            "b-tree to mv-b-tree, updates alone: less".to_owned(),
            "%",
            23.0,
            gap(["b-tree", "mv-b-tree"]),
            GAP_B_TREE,
        ),
        Headline::number(
            "bst to mv-bst, updates alone: less".to_owned(),
            "%",
            48.0,
            gap(["bst", "mv-bst"]),
            GAP,
        ),
    ]
}
