//! The published values of the paper's tables and text beside those of the figures, with reasons.

use super::applications::figures::{BANK, TATP, published_bank, published_tatp};
use super::cases::STRUCTURES;
use super::{allocator, batches, caches, front_ends, lock, mixes, readers, structures};
use crate::papers::{Headline, Points};

const LOCAL: &str = "The program, whose time the simulator does not count; *asymnvm-program* takes it from this number, and adds it to the other variants.";
const LOCAL_SLOWER: &str = "No measurement isolates the cause: it is slower here, and a program would add to that. Tried: DDIO (*asymnvm-structures-1-on*), no difference.";
const TRIPS: &str = "No measurement isolates the cause: the paper's layouts are not published, and none but these was built. *asymnvm-trips* has their round trips, and the number that the published time has room for.";
const LOGGED: &str = "No measurement isolates the cause: the layouts, as for naive. Tried: 16 in flight, a flush, the lock (*asymnvm-causes*).";
const CACHED: &str = "The size of the cache: with a tenth cached 35 kop/s for the skip-list, 66 for the bst (*asymnvm-causes*).";
const CACHED_SLOWER: &str = "No measurement isolates the cause: it is slower here with everything in the cache. Tried: a tenth cached (*asymnvm-causes*), the program (*asymnvm-program*), DDIO.";
const CACHED_B_TREE: &str = "The size of the cache in part: 183 kop/s with a tenth cached (*asymnvm-causes*), 176 with the program's time as well (*asymnvm-program*). No measurement isolates the rest: the layout, as for naive.";
const COPIED: &str = "The program: with its time 16 kop/s (*asymnvm-program*).";
const BATCHED: &str = "The program and the size of the cache: with both, and 16 in flight, skip-list 85 kop/s, bst 74, b-tree 269, mv-bst 40, mv-b-tree 19 (*asymnvm-program*). No measurement isolates the rest: the part of the program's time that a batch saves, and the layouts.";
const BATCHED_STACK: &str = "Operations in flight: 1597 kop/s with 16 (*asymnvm-program*).";
const BATCHED_QUEUE: &str = "Not isolated; tried: 267 kop/s with 16 in flight (*asymnvm-program*). RCB READs 1.5 round trips for an operation here (a trial; *asymnvm-trips* has those of naive), and the published time has room for less than one.";
const ROW_TRIPS: &str = "No measurement isolates the cause: the layouts, as for naive. *asymnvm-applications-trips* has the round trips of these, and the number that the published time has room for. Tried: the program's time, rows one after the other (*asymnvm-applications-causes*), and in trials 16 times the rows: naive 68 kop/s on SmallBank and 110 on TATP, r 100 and 117.";
const LOCAL_ROWS: &str = "The program, whose time the simulator does not count; *asymnvm-applications-causes* takes it from the published symmetric setting, and adds it.";
const BANK_CACHED: &str = "The program: with its time 331 kop/s (*asymnvm-applications-causes*).";
const TATP_CACHED: &str = "The program and the size of the cache: with both and rows one after the other 124 kop/s (*asymnvm-applications-causes*). No measurement isolates the rest: the layout of the trees (*asymnvm-applications-trips*).";
const TATP_BATCHED: &str = "The program: with its time 204 kop/s (*asymnvm-applications-causes*). No measurement isolates the rest: the layout of the trees (*asymnvm-applications-trips*).";
const BLOCKS: &str = "Not isolated; tried: 0.24, 0.96 and 7.04 Mop/s if the bitmap need not be durable before the answer, 0.21, 0.82 and 6.59 if the back-end looks each 100 ns in place of 2 us, 0.39, 1.58 and 12.6 with both. Two-tier allocators make a quarter or a 32nd of the requests of *rpc*, here and there.";
const FREED: &str = "Not isolated; tried: 0.24, 0.96 and 7.10 Mop/s if the bitmap need not be durable before the answer, 0.21, 0.83 and 6.65 with looks each 100 ns. Releases that nobody waits for are too fast: 2.8, 11.3 and 80 Mop/s.";
const LOCAL_BATCHED: &str = "The program, as for symmetric: its time brings b-tree, skip-list and bst to 116, 75 and 61 % of the published number, mv-bst and mv-b-tree to 33 and 26 %; queue and stack stay at 2.6 and 2.1 x (*asymnvm-program*). No measurement isolates the rest.";
const SPEED_UP: &str =
    "Both rows, each with its reasons. The published rows themselves have 5.1 to 16.0 x.";
const CACHING: &str = "The size of the cache: with a tenth cached, 1.8 to 2.8 x (*asymnvm-causes*); the trees with versions gain nothing from a cache here. The published rows themselves have 1.2 to 5.6 x.";
const BANK_GAIN: &str = "The size of the cache, and the program: with a tenth cached 2.4 x, row by row 2.3 x, with the program's time as well 2.2 x (*asymnvm-applications-causes*). No measurement isolates the rest: the published naive setting has time for two round trips.";
const TATP_GAIN: &str = "The program: with its time 2.3 x (*asymnvm-applications-causes*). The published number lies between, since the published naive setting takes 42 round trips and this one 3 (*asymnvm-applications-trips*).";
const FASTER: &str = "The program: with its time and 16 in flight, stack, hash-table and mv-b-tree (*asymnvm-program*). The rest is not isolated.";
const BATCH: &str = "The size of the cache, operations in flight, and the program: with these three changed, 59 % for the skip list, 38 % for the bst, 177 % for the b-tree (*asymnvm-batches-causes*). No measurement isolates the rest.";
const VERSIONS: &str = "A batch copies each node once, and reads each level at once. With the program's time 1.3 x for the mv-b-tree, 2.3 x for the mv-bst (*asymnvm-batches-causes*): how much of that time a batch saves is not published. The text exchanges the two trees; Table 2 says which is which.";
const MISSED: &str = "Not isolated; tried: uniform keys and exponents from 0.5 to 0.99 with 2, 8, 16 and 32 bytes of cache for each key, without the time of the cache's memory. Each moves the misses by less than the size does: about 40 % (least recently used of 32) and 65 % (random) with 2 bytes, 22 and 30 % with 8; with 65,536 keys and 2 bytes 31 and 36 %. No pair is near both numbers.";
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
const GAP: &str =
    "No measurement isolates the cause: the trace is private, and no other keys were tried.";

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
        ("naive", _) => TRIPS,
        ("r", _) => LOGGED,
        ("rc", "hash-table") => CACHED_SLOWER,
        ("rc", "b-tree") => CACHED_B_TREE,
        ("rc", "mv-bst" | "mv-b-tree") => COPIED,
        ("rc", _) => CACHED,
        (_, "queue") => BATCHED_QUEUE,
        (_, "stack") => BATCHED_STACK,
        _ => BATCHED,
    }
}

/// The reason for the difference of a number of an application.
fn of_application(name: &str, series: &str) -> &'static str {
    match (name, series) {
        (_, "symmetric" | "symmetric-b") => LOCAL_ROWS,
        (_, "naive" | "r") => ROW_TRIPS,
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
            GAP,
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
