//! The choice of the segments to post, and of those to use again.

use stonecast_log::{Bounds, Buffers, Consumption, Ledger, Lineages, SegmentState};
use stonecast_media::Region;

use super::node::{
    FIRST, Format, SHARD, UNITS, entry, entry_of, log, place, pool, posted, settled,
};
use crate::memory::Memory;

/// Two posted segments; entries of versions 1 and 2, and a mark, in the first, which has come back.
fn filled(memory: &Memory, ledger: &mut Ledger) -> (Buffers, SegmentState) {
    let mut buffers = Buffers::new(2);
    assert_eq!(buffers.wanted(), 2);
    let first = posted(memory, 1, ledger);
    buffers.posted(&pool(), first);
    buffers.posted(&pool(), posted(memory, 3, ledger));
    assert_eq!(buffers.wanted(), 0);
    place(memory, 1, FIRST, &entry(1, 1, b""));
    place(memory, 1, FIRST + 3, &entry(1, 2, &[1; 80]));
    place(memory, 1, FIRST + 6, &entry_of(SHARD, 1, 9, true, b""));
    (buffers, first)
}

fn look(memory: &Memory, buffers: &mut Buffers, ledger: &Ledger) -> Vec<Consumption> {
    let place = (memory as &dyn Region, &pool());
    let bounds = Bounds::even(10_000, UNITS);
    buffers.step(place, &Format, ledger.lineages(), bounds, &mut |_| {})
}

/// Needs each of the three conditions. A mark holds no segment.
#[test]
fn a_segment_is_reusable_when_it_has_come_back_is_searched_and_the_floors_settle_its_records() {
    let memory = log();
    let mut ledger = Ledger::default();
    let (mut buffers, first) = filled(&memory, &mut ledger);
    assert_eq!(look(&memory, &mut buffers, &ledger), []);
    let up_to = |version| {
        let mut lineages = Lineages::default();
        lineages.keep(SHARD, settled(version));
        lineages
    };
    let all = up_to(2);
    assert_eq!(buffers.reusable(&all), [], "it has not come back");
    buffers.consumed(1);
    assert_eq!(buffers.wanted(), 1);
    assert_eq!(
        buffers.reusable(&all),
        [],
        "something may have landed since"
    );
    let hole = FIRST + 1..FIRST + 3;
    let taken = Consumption {
        number: 1,
        units: 7,
        open: Vec::from([hole]),
    };
    assert_eq!(look(&memory, &mut buffers, &ledger), [taken]);
    assert_eq!(buffers.reusable(&up_to(1)), [], "version 2 is needed");
    assert_eq!(buffers.reusable(&all), [first]);
    assert_eq!(buffers.release(1, &all), first);
    assert!(buffers.numbers().eq([3]));
}

#[test]
fn a_segment_where_a_peer_that_stopped_may_still_write_waits_until_that_peer_is_gone() {
    let memory = log();
    let mut ledger = Ledger::default();
    let (mut buffers, first) = filled(&memory, &mut ledger);
    buffers.doubt(7);
    buffers.consumed(1);
    look(&memory, &mut buffers, &ledger);
    ledger.keep(SHARD, settled(2), 0);
    assert_eq!(buffers.reusable(ledger.lineages()), []);
    buffers.trust(8);
    assert_eq!(buffers.reusable(ledger.lineages()), []);
    // That peer cannot have been writing to a segment that is posted later.
    buffers.posted(&pool(), posted(&memory, 0, &mut ledger));
    buffers.consumed(0);
    look(&memory, &mut buffers, &ledger);
    let free = buffers.reusable(ledger.lineages());
    assert!(free.iter().map(|state| state.number).eq([0]));
    buffers.trust(7);
    assert_eq!(buffers.reusable(ledger.lineages())[0], first);
}

#[test]
#[should_panic(expected = "segment 1 is needed")]
fn a_segment_that_is_needed_is_not_released() {
    let memory = log();
    let mut ledger = Ledger::default();
    let (mut buffers, _) = filled(&memory, &mut ledger);
    buffers.release(1, ledger.lineages());
}

/// Needs the end of the first segment: a message that died may have taken room there, after the last entry that was
/// found.
#[test]
fn all_open_units_before_an_entry_may_hold_something_and_none_behind_it() {
    let memory = log();
    let mut ledger = Ledger::default();
    let (mut buffers, _) = filled(&memory, &mut ledger);
    place(&memory, 3, FIRST + 4, &entry(1, 5, b""));
    look(&memory, &mut buffers, &ledger);
    let holes = 2;
    assert_eq!(buffers.open_units_up_to(&pool(), 1), holes);
    let end = u64::from(UNITS - FIRST - 7);
    assert_eq!(buffers.open_units_up_to(&pool(), 3), holes + end + 4);
    buffers.consumed(1);
    look(&memory, &mut buffers, &ledger);
    assert_eq!(buffers.open_units_up_to(&pool(), 3), 4);
}
