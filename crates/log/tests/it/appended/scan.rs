//! The entries that a scan finds while senders write, and the entries that are no news to it.

use std::collections::BTreeMap;
use std::slice::from_ref;

use stonecast_lineage::{Epoch, Lineage};
use stonecast_log::{ArrivalScan, Bounds, Ledger, Lineages, Turn, Turned};
use stonecast_media::Region;

use super::node::{
    FIRST, Format, SHARD, UNITS, entry, entry_of, log, look, look_within, place, pool, posted,
    settled, turn, units,
};
use crate::memory::Memory;

fn scan() -> ArrivalScan {
    ArrivalScan::new(&pool(), 1)
}

/// Needs the look behind the reach, and the second look at open units: no entry waits for a sender that has stopped.
#[test]
fn entries_behind_a_place_that_stays_empty_are_found_at_once_and_that_place_when_it_is_filled() {
    let (memory, lineages, mut scan) = (log(), Lineages::default(), scan());
    place(&memory, 1, FIRST, &entry(1, 1, &[7; 100]));
    place(&memory, 1, FIRST + 9, &entry(1, 3, &[9; 10]));
    assert_eq!(
        look(&memory, &mut scan, &lineages),
        [(FIRST, 1), (FIRST + 9, 3)]
    );
    assert_eq!(
        (scan.open_units(), scan.reach()),
        (from_ref(&(FIRST + 3..FIRST + 9)), FIRST + 11)
    );
    assert_eq!(look(&memory, &mut scan, &lineages), []);
    place(&memory, 1, FIRST + 5, &entry(1, 2, &[8; 70]));
    assert_eq!(look(&memory, &mut scan, &lineages), [(FIRST + 5, 2)]);
    assert_eq!(
        scan.open_units(),
        [FIRST + 3..FIRST + 5, FIRST + 8..FIRST + 9]
    );
    scan.close();
    assert_eq!(
        (look(&memory, &mut scan, &lineages), scan.is_settled()),
        (vec![], true)
    );
}

/// Needs the order of reads: the header is judged on the same copy as the body.
#[test]
fn an_entry_that_arrives_in_parts_is_found_when_it_is_whole() {
    let (memory, lineages, mut scan) = (log(), Lineages::default(), scan());
    let whole = entry(1, 1, &[7; 300]);
    for words in 0..whole.len() / 8 {
        let (torn, _) = whole.split_at(words * 8);
        place(&memory, 1, FIRST, torn);
        assert_eq!(look(&memory, &mut scan, &lineages), [], "{words} words");
    }
    place(&memory, 1, FIRST, &whole);
    assert_eq!(look(&memory, &mut scan, &lineages), [(FIRST, 1)]);
}

/// The value of an entry holds a genuine older entry, and the header of the outer entry arrives last.
#[test]
fn an_entry_whose_value_held_another_one_is_found_though_that_one_was_found_first() {
    let (memory, lineages, mut scan) = (log(), Lineages::default(), scan());
    let old = entry(1, 1, &[3; 40]);
    let mut body = vec![5; 64];
    body.extend_from_slice(&old);
    body.resize(400, 6);
    let outer = entry(1, 2, &body);
    place(&memory, 1, FIRST + 1, &outer[64..]);
    place(&memory, 1, FIRST + units(&outer), &entry(1, 3, b""));
    let inner = FIRST + 2;
    let behind = FIRST + units(&outer);
    assert_eq!(
        look(&memory, &mut scan, &lineages),
        [(inner, 1), (behind, 3)]
    );
    place(&memory, 1, FIRST, &outer);
    assert_eq!(look(&memory, &mut scan, &lineages), [(FIRST, 2)]);
    assert_eq!((scan.open_units(), scan.reach()), (&[][..], behind + 1));
}

/// Needs the floors: otherwise old entries would hide the places of new ones.
#[test]
fn old_entries_of_a_segment_that_is_used_again_are_no_news_and_new_ones_among_them_are() {
    let memory = log();
    let mut ledger = Ledger::default();
    let state = posted(&memory, 1, &mut ledger);
    let mut at = FIRST;
    for version in 1..=60 {
        let bytes = entry(1, version, &[version as u8; 130]);
        place(&memory, 1, at, &bytes);
        at += units(&bytes);
    }
    ledger.keep(SHARD, settled(60), 0);
    let again = Turn::to_appends(1, Some(&state), Default::default());
    assert_eq!(turn(&memory, again, &mut ledger).generation, 2);
    let mut scan = scan();
    assert_eq!(look(&memory, &mut scan, ledger.lineages()), []);
    place(&memory, 1, FIRST + 2, &entry(1, 62, &[1; 500]));
    place(&memory, 1, FIRST, &entry(1, 61, &[1; 20]));
    let mut found = look(&memory, &mut scan, ledger.lineages());
    found.extend(look(&memory, &mut scan, ledger.lineages()));
    assert_eq!(found, [(FIRST, 61), (FIRST + 2, 62)]);
    assert_eq!(scan.reach(), FIRST + 11);
}

/// Needs the memory of the old entries: by the floors alone an entry that arrives late looks like one of an earlier
/// use.
#[test]
fn an_entry_that_the_floors_settle_before_it_is_found_is_found_and_one_of_an_earlier_use_is_not() {
    let memory = log();
    let mut ledger = Ledger::default();
    let state = posted(&memory, 1, &mut ledger);
    for (version, at) in [(1, FIRST), (2, FIRST + 2), (3, FIRST + 4)] {
        place(&memory, 1, at, &entry(1, version, &[1; 40]));
    }
    ledger.keep(SHARD, settled(3), 0);
    let mut again = Turn::to_appends(1, Some(&state), Default::default());
    while let Turned::Persist(spans) = again.step(&memory, &pool(), &Format, &mut ledger).unwrap() {
        memory.persist(&spans);
    }
    let mut scan = scan().finding_settled(again.take_stale());
    ledger.keep(SHARD, settled(9), 0);
    assert_eq!(look(&memory, &mut scan, ledger.lineages()), []);
    place(&memory, 1, FIRST, &entry(1, 8, &[1; 40]));
    place(&memory, 1, FIRST + 2, &entry(1, 3, &[1; 40]));
    let found = look(&memory, &mut scan, ledger.lineages());
    assert_eq!(found, [(FIRST, 8), (FIRST + 2, 3)]);
    scan.close();
    assert_eq!(look(&memory, &mut scan, ledger.lineages()), []);
    assert!(scan.is_settled() && scan.reach() == FIRST + 4);
}

/// Needs a look without the memory of old entries: the device has said that the message has arrived.
#[test]
fn a_message_is_found_where_the_device_says_that_it_lies_even_where_the_same_entry_lay_before() {
    let memory = log();
    let mut ledger = Ledger::default();
    let state = posted(&memory, 1, &mut ledger);
    for at in [FIRST, FIRST + 4] {
        place(&memory, 1, at, &entry(1, 1, &[1; 40]));
    }
    ledger.keep(SHARD, settled(1), 0);
    let mut again = Turn::to_appends(1, Some(&state), Default::default());
    while let Turned::Persist(spans) = again.step(&memory, &pool(), &Format, &mut ledger).unwrap() {
        memory.persist(&spans);
    }
    let mut scan = scan().finding_settled(again.take_stale());
    ledger.keep(SHARD, settled(0), 0);
    let mut found = Vec::new();
    for unit in [FIRST + 4, FIRST + 2, FIRST + 4] {
        let place = (&memory as &dyn Region, &pool());
        scan.look_at(place, &Format, ledger.lineages(), unit, &mut |arrival| {
            found.push((pool().locate(arrival.position).1, arrival.facts.version));
        });
    }
    assert_eq!(
        found,
        [(FIRST + 4, 1)],
        "once, and nothing where nothing lies"
    );
    assert_eq!(scan.open_units(), from_ref(&(FIRST..FIRST + 4)));
    assert_eq!(scan.reach(), FIRST + 6);
}

/// Needs the clearing: version 40 is not settled, so its copy inside a value would take the place of the entry that
/// arrives there.
#[test]
fn a_copy_of_an_entry_that_still_counts_is_cleared_before_its_segment_is_used_again() {
    let memory = log();
    let mut ledger = Ledger::default();
    let state = posted(&memory, 1, &mut ledger);
    let copied = entry_of(SHARD + 1, 1, 40, false, &[4; 300]);
    let mut body = vec![0; 64];
    body.extend_from_slice(&copied);
    place(&memory, 1, FIRST, &entry(1, 9, &body));
    ledger.keep(SHARD, settled(9), 0);
    let again = Turn::to_appends(1, Some(&state), Default::default());
    turn(&memory, again, &mut ledger);
    let mut scan = scan();
    assert_eq!(look(&memory, &mut scan, ledger.lineages()), []);
    place(&memory, 1, FIRST, &entry(1, 10, &[1; 150]));
    place(&memory, 1, FIRST + 4, &entry(1, 11, &[1; 10]));
    assert_eq!(
        look(&memory, &mut scan, ledger.lineages()),
        [(FIRST, 10), (FIRST + 4, 11)]
    );
}

/// Needs the clearing of void entries: the next heir has version 12, whose copy inside a value would take the place of
/// the entry that arrives there.
#[test]
fn a_copy_of_an_entry_that_a_later_history_may_have_is_cleared_before_its_segment_is_used_again() {
    let memory = log();
    let mut ledger = Ledger::default();
    let state = posted(&memory, 1, &mut ledger);
    let mut body = vec![0; 64];
    body.extend_from_slice(&entry(1, 12, &[4; 300]));
    place(&memory, 1, FIRST, &entry(1, 9, &body));
    let heir = |term, cut| Lineage {
        term: Epoch(term),
        cuts: BTreeMap::from([(Epoch(1), cut)]),
        ..settled(9)
    };
    ledger.keep(SHARD, heir(2, 10), 0);
    let again = Turn::to_appends(1, Some(&state), Default::default());
    turn(&memory, again, &mut ledger);
    ledger.keep(SHARD, heir(3, 12), 0);
    let mut scan = scan();
    assert_eq!(look(&memory, &mut scan, ledger.lineages()), []);
    place(&memory, 1, FIRST, &entry(1, 12, &[4; 300]));
    assert_eq!(look(&memory, &mut scan, ledger.lineages()), [(FIRST, 12)]);
}

#[test]
fn a_mark_is_reported_and_one_of_an_earlier_use_is_not() {
    let memory = log();
    let mut ledger = Ledger::default();
    let state = posted(&memory, 1, &mut ledger);
    let mark = entry_of(SHARD, 1, 9, true, b"");
    place(&memory, 1, FIRST, &mark);
    ledger.keep(SHARD, settled(9), 0);
    let mut first = scan();
    assert_eq!(look(&memory, &mut first, ledger.lineages()), [(FIRST, 9)]);
    let again = Turn::to_appends(1, Some(&state), Default::default());
    turn(&memory, again, &mut ledger);
    let mut scan = scan();
    assert_eq!(look(&memory, &mut scan, ledger.lineages()), []);
    place(&memory, 1, FIRST, &mark);
    assert_eq!(look(&memory, &mut scan, ledger.lineages()), [(FIRST, 9)]);
}

/// A header whose size reaches beyond the end of the segment is no entry, even with a valid tag.
#[test]
fn an_entry_lies_in_one_segment_up_to_its_last_unit() {
    let (memory, lineages, mut scan) = (log(), Lineages::default(), scan());
    place(&memory, 1, UNITS - 2, &entry(1, 1, &[1; 64]));
    place(&memory, 1, UNITS - 4, &entry(1, 2, &[1; 65]));
    let long = entry(1, 3, &[1; 65]);
    place(&memory, 1, UNITS - 2, &long);
    scan.close();
    assert_eq!(look(&memory, &mut scan, &lineages), []);
    place(&memory, 1, UNITS - 2, &entry(1, 1, &[1; 64]));
    let mut scan = ArrivalScan::new(&pool(), 1);
    assert_eq!(look(&memory, &mut scan, &lineages), [(UNITS - 2, 1)]);
    assert_eq!(scan.reach(), UNITS);
}

/// Counts the bytes that a step reads.
fn work(memory: &Memory, scan: &mut ArrivalScan, bounds: Bounds) -> (u64, usize) {
    let counted = Counted {
        memory,
        read: std::cell::Cell::new(0),
    };
    let mut found = 0;
    let place = (&counted as &dyn stonecast_media::Region, &pool());
    scan.step(place, &Format, &Lineages::default(), bounds, &mut |_| {
        found += 1
    });
    (counted.read.get(), found)
}

#[test]
fn a_step_reads_no_more_than_its_budget_and_one_entry_and_all_are_found_in_the_end() {
    let memory = log();
    let mut at = FIRST;
    let mut expected = 0;
    for version in 1.. {
        let bytes = entry(1, version, &[1; 250]);
        if at + units(&bytes) > UNITS {
            break;
        }
        // Every fourth place stays empty.
        if version % 4 != 0 {
            place(&memory, 1, at, &bytes);
            expected += 1;
        }
        at += units(&bytes);
    }
    let (mut scan, mut total, mut steps) = (scan(), 0, 0);
    while total < expected {
        let (read, found) = work(&memory, &mut scan, Bounds::even(16, 10));
        // A line is read among its neighbours, and once more with its entry; those behind the reach are read before
        // others.
        assert!(read <= (3 * 16 + 6) * 64, "{read} bytes");
        (total, steps) = (total + found, steps + 1);
        assert!(steps < 100, "{total} of {expected}");
    }
    // The end of the round under way was set by an earlier step.
    work(&memory, &mut scan, Bounds::even(1000, 10));
    let (read, found) = work(&memory, &mut scan, Bounds::even(1000, 10));
    let open: u32 = scan
        .open_units()
        .iter()
        .map(|range| range.end - range.start)
        .sum();
    let rest = UNITS - scan.reach();
    // The step begins with the latest gaps.
    let gaps = scan.open_units().len().min(4) as u32;
    assert_eq!(
        (open + gaps + 10.min(rest) + 16.min(rest), found),
        ((read / 64) as u32, 0)
    );
}

/// Needs the look at gaps: a round goes over all places in which something may arrive.
#[test]
fn entries_that_others_have_overtaken_are_found_by_the_next_step_though_a_round_takes_many_steps() {
    let (memory, lineages, mut scan) = (log(), Lineages::default(), scan());
    let bounds = Bounds {
        units: 1000,
        open: 4,
        under_way: UNITS,
    };
    let first = entry(1, 1, &[1; 40]);
    place(
        &memory,
        1,
        FIRST + 2 * units(&first),
        &entry(1, 3, &[3; 40]),
    );
    let overtaking = (FIRST + 2 * units(&first), 3);
    let mut found = Vec::new();
    while found.is_empty() {
        found = look_within(&memory, &mut scan, &lineages, bounds);
    }
    assert_eq!(found, [overtaking]);
    place(&memory, 1, FIRST, &first);
    place(&memory, 1, FIRST + units(&first), &entry(1, 2, &[2; 40]));
    assert_eq!(
        look_within(&memory, &mut scan, &lineages, bounds),
        [(FIRST, 1), (FIRST + units(&first), 2)]
    );
}

/// Needs the part of each step that is left to the round: gaps of dead senders would take all of it.
#[test]
fn entries_far_behind_a_gap_that_stays_are_found_though_a_step_looks_at_a_single_place() {
    let (memory, lineages, mut scan) = (log(), Lineages::default(), scan());
    let single = Bounds::even(1, UNITS);
    for (at, version) in [(FIRST + 4, 2), (FIRST + 9, 3)] {
        place(&memory, 1, at, &entry(1, version, b""));
        let steps = 0..2 * UNITS;
        let mut found = steps.flat_map(|_| look_within(&memory, &mut scan, &lineages, single));
        assert_eq!(found.next(), Some((at, version)));
    }
}

/// Needs the second bound: most steps of a search find nothing, and cost the wait for each of these places.
#[test]
fn a_step_that_finds_nothing_looks_at_few_of_the_places_in_which_something_may_arrive() {
    let (memory, mut scan) = (log(), scan());
    let bounds = Bounds {
        units: 1000,
        open: 4,
        under_way: UNITS,
    };
    for _ in 0..4 {
        let (read, found) = work(&memory, &mut scan, bounds);
        assert!(found == 0 && read <= 2 * 16 * 64, "{read} bytes");
    }
}

/// Needs the whole budget in a segment that has come back: its last entries would be found four units a step, and all
/// that follows in their streams waits for them.
#[test]
fn the_last_entries_of_a_segment_that_has_come_back_are_found_within_the_whole_budget_of_a_step() {
    let (memory, lineages, mut scan) = (log(), Lineages::default(), scan());
    let bounds = Bounds {
        units: 1000,
        open: 4,
        under_way: UNITS,
    };
    let entries = (0..20).map(|number| (FIRST + number, u64::from(number) + 1));
    for (unit, version) in entries.clone() {
        place(&memory, 1, unit, &entry(1, version, b""));
    }
    scan.close();
    let found = look_within(&memory, &mut scan, &lineages, bounds);
    assert!(found.into_iter().eq(entries) && scan.is_settled());
}

/// In each step as many entries arrive behind the reach as the step can look at.
#[test]
fn a_place_that_is_filled_late_is_found_while_the_budget_is_used_up_by_others() {
    let (memory, lineages, mut scan) = (log(), Lineages::default(), scan());
    let mut at = FIRST + 2;
    let mut late = None;
    for version in 2..60 {
        if version == 10 {
            place(&memory, 1, FIRST, &entry(1, 1, b""));
        }
        for _ in 0..2 {
            place(&memory, 1, at, &entry(1, version, b""));
            at += 1;
        }
        let found = look_within(&memory, &mut scan, &lineages, Bounds::even(4, 4));
        if found.contains(&(FIRST, 1)) {
            late = Some(version);
        }
    }
    assert!(late.is_some_and(|version| version < 20), "{late:?}");
}

/// Memory that counts the bytes that are read.
struct Counted<'m> {
    memory: &'m Memory,
    read: std::cell::Cell<u64>,
}

impl stonecast_media::Region for Counted<'_> {
    fn size(&self) -> u64 {
        self.memory.size()
    }
    fn read(&self, offset: u64, into: &mut [u8]) {
        self.read.set(self.read.get() + into.len() as u64);
        self.memory.read(offset, into);
    }
    fn write(&self, offset: u64, from: &[u8]) {
        self.memory.write(offset, from);
    }
    fn load(&self, offset: u64) -> u64 {
        self.memory.load(offset)
    }
    fn store(&self, offset: u64, value: u64) {
        self.memory.store(offset, value);
    }
    fn compare_exchange(&self, offset: u64, current: u64, new: u64) -> Result<u64, u64> {
        self.memory.compare_exchange(offset, current, new)
    }
    fn fetch_add(&self, offset: u64, add: u64) -> u64 {
        self.memory.fetch_add(offset, add)
    }
}
