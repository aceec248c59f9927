//! A segment has one kind, with any content and after any crash, and the segment keeps a ledger.

use std::collections::BTreeMap;

use stonecast_base::hash;
use stonecast_lineage::{Epoch, Lineage};
use stonecast_log::{
    Condition, Draft, Form, Heritage, Kind, Ledger, LedgerFull, STAMP_SIZE, ScanPolicy,
    SegmentState, SegmentVerdict, Stamp, Turn, Turned, UNIT_SIZE, scan_segment,
};
use stonecast_media::Region as _;

use super::node::{Format, SHARD, log, pool, posted, settled, turn};
use crate::memory::Memory;
use crate::server::Collect;

fn verdict(memory: &Memory, number: u32) -> SegmentVerdict {
    let policy = ScanPolicy::default();
    let mut found = Collect::default();
    let verdict = scan_segment(memory, &pool(), "log", number, None, policy, &mut found).unwrap();
    assert_eq!(found.0, [], "no record was put here");
    verdict
}

fn state_of(verdict: SegmentVerdict) -> SegmentState {
    match verdict {
        SegmentVerdict::Appended { state, .. } => state,
        other => panic!("appends fill the segment, and not {other:?}"),
    }
}

/// A peer may append anything, even records with right stamps.
#[test]
fn bytes_that_appends_put_into_a_segment_are_never_a_record() {
    let memory = log();
    let mut ledger = Ledger::default();
    let state = posted(&memory, 1, &mut ledger);
    let (unit, mut record) = (20, Vec::new());
    let position = pool().position(1, unit);
    let draft = Draft {
        kind: Kind::Put,
        form: Form::Whole,
        condition: Condition::None,
        token: 0,
        expires: None,
        key: b"key",
        value: b"value",
    };
    let tag = draft.encode(&pool(), position, state.generation, 1, &mut record);
    memory.write(position + STAMP_SIZE as u64, &record[STAMP_SIZE..]);
    let stamp = Stamp {
        sequence: 1,
        previous: 0,
        durable: 4,
        opening: 1,
    };
    stamp.write(&memory, &pool(), position, state.generation, tag, UNIT_SIZE);
    assert_eq!(state_of(verdict(&memory, 1)), state);
}

/// The story tries each way in which a power cut leaves the words of the step that it interrupts, for the first use, a
/// later use, and the way back.
#[test]
fn a_turn_that_a_power_cut_interrupts_leaves_the_kind_before_or_after_it() {
    for stage in 0..5 {
        for habit in 0..6 {
            let memory = log();
            let mut ledger = Ledger::default();
            posted(&memory, 0, &mut ledger);
            ledger.keep(SHARD, settled(7), 0);
            let fresh = Turn::to_appends(1, None, Heritage::default());
            interrupt(&memory, fresh, &mut ledger, stage, habit);
            match verdict(&memory, 1) {
                SegmentVerdict::Appended { state, .. } => {
                    assert!(stage >= 2 && state.generation == 1);
                    Ledger::read(&memory, &pool(), "log", [&state]).unwrap();
                }
                SegmentVerdict::Free { .. } => assert!(stage < 4),
                // The head of a ledger may look like the remains of a stamp. The segment is blank all the same.
                SegmentVerdict::Used(state, _) => assert!(stage < 4 && state.is_blank()),
            }
        }
    }
}

#[test]
fn a_segment_that_changes_its_kind_keeps_a_whole_header_and_its_heritage() {
    let heritage = Heritage {
        tokens_lost: 5,
        sequence_floor: 11,
    };
    for to_records in [false, true] {
        for (stage, keep) in (0..4).flat_map(|stage| (0..64).map(move |keep| (stage, keep))) {
            let memory = log();
            let mut ledger = Ledger::default();
            let state = posted(&memory, 1, &mut ledger);
            posted(&memory, 0, &mut ledger);
            let next = match to_records {
                true => Turn::to_records(&state, heritage, &ledger),
                false => {
                    let blank = Turn::to_records(&state, Heritage::default(), &ledger);
                    let state = turn(&memory, blank, &mut ledger);
                    Turn::to_appends(1, Some(&state), heritage)
                }
            };
            take_steps(&memory, next, &mut ledger, stage);
            // The copies of the header differ in fewer words than there are bits.
            let mut word = 0;
            memory.cut_power(|_, count| {
                word = (word + 1) % 6;
                if keep >> word & 1 == 1 { count - 1 } else { 0 }
            });
            let generation = if to_records { 1 } else { 2 };
            match verdict(&memory, 1) {
                SegmentVerdict::Appended { state, .. } if to_records => {
                    assert_eq!(state.generation, generation);
                }
                SegmentVerdict::Used(state, _) if !to_records => {
                    assert_eq!(state.generation, generation);
                }
                SegmentVerdict::Used(state, _) | SegmentVerdict::Appended { state, .. } => {
                    assert_eq!(
                        (state.generation, state.heritage),
                        (generation + 1, heritage)
                    );
                }
                SegmentVerdict::Free { .. } => panic!("stage {stage}: no header"),
            }
        }
    }
}

/// Needs the choice of the slot, and the next generation among those that count: the second turn tears the only ledger
/// of the generation in the header.
#[test]
fn however_often_a_turn_is_interrupted_the_segment_keeps_a_ledger() {
    for stages in (0..4).flat_map(|first| (0..4).map(move |second| [first, second, 1, 3])) {
        for habit in 0..6 {
            let memory = log();
            let mut ledger = Ledger::default();
            posted(&memory, 1, &mut ledger);
            for (version, stage) in (10..).zip(stages) {
                ledger.keep(SHARD, settled(version), 0);
                let state = state_of(verdict(&memory, 1));
                let span = ledger.write(&memory, &pool(), &state).unwrap();
                memory.persist(&[span]);
                let again = Turn::to_appends(1, Some(&state), Heritage::default());
                interrupt(&memory, again, &mut ledger, stage, habit);
                let state = state_of(verdict(&memory, 1));
                let read = Ledger::read(&memory, &pool(), "log", [&state]).unwrap();
                assert_eq!(read.lineages(), ledger.lineages());
                ledger = read;
            }
        }
    }
}

#[test]
fn a_segment_without_a_ledger_is_damaged_and_the_message_says_what_is_missing() {
    let memory = log();
    let mut ledger = Ledger::default();
    let state = posted(&memory, 1, &mut ledger);
    memory.flip(pool().position(1, 4) + 24, 0);
    let error = Ledger::read(&memory, &pool(), "log", [&state]).unwrap_err();
    assert_eq!((&*error.file, error.offset), ("log", pool().position(1, 4)));
    assert!(error.to_string().contains("generation 1"), "{error}");
}

/// Needs the check of the format: the rows of another format would mean something else.
#[test]
fn a_ledger_of_another_format_is_refused_by_its_number() {
    for (found, number) in [(0u32, 1), (2, 2), (3, 3)] {
        let memory = log();
        let mut ledger = Ledger::default();
        let state = posted(&memory, 1, &mut ledger);
        let position = pool().position(1, 4);
        // The number of rows stands before the format: there are none.
        memory.write(position + 24, &(u64::from(found) << 32).to_le_bytes());
        let mut head = vec![0; 48];
        memory.read(position, &mut head);
        head.extend_from_slice(&pool().uuid.to_be_bytes());
        let checksum = hash::xxh3_128(&head);
        memory.write(position + 48, &checksum.to_le_bytes());
        let read = Ledger::read(&memory, &pool(), "log", [&state]);
        match number {
            2 => assert_eq!(read, Ok(ledger)),
            _ => {
                let error = read.unwrap_err().to_string();
                assert!(
                    error.contains(&format!("a ledger of format {number}")),
                    "{error}"
                );
            }
        }
    }
}

/// The newest ledger counts in any segment, and a ledger of another pool does not.
#[test]
fn the_newest_ledger_of_all_segments_counts() {
    let memory = log();
    let mut ledger = Ledger::default();
    let states = [1, 2, 0].map(|number| {
        ledger.keep(SHARD, settled(10 + u64::from(number)), 0);
        posted(&memory, number, &mut ledger)
    });
    let cut = Lineage {
        term: Epoch(4),
        cuts: BTreeMap::from([(Epoch(3), 40)]),
        ..settled(12)
    };
    ledger.keep(SHARD, cut, 0);
    let span = ledger.write(&memory, &pool(), &states[1]).unwrap();
    memory.persist(&[span]);
    let read = Ledger::read(&memory, &pool(), "log", &states).unwrap();
    assert_eq!((&read, read.home()), (&ledger, Some(2)));
    let mut other = pool();
    other.uuid += 1;
    assert!(Ledger::read(&memory, &other, "log", &states).is_err());
}

#[test]
#[should_panic(expected = "segment 1 has the newest ledger")]
fn the_segment_with_the_newest_ledger_keeps_its_kind() {
    let memory = log();
    let mut ledger = Ledger::default();
    let state = posted(&memory, 1, &mut ledger);
    Turn::to_records(&state, Heritage::default(), &ledger);
}

/// Needs the check at each step: the ledger that moves the home is written after the turn began.
#[test]
#[should_panic(expected = "segment 1 has the newest ledger")]
fn a_segment_that_gets_the_newest_ledger_during_its_turn_keeps_its_kind() {
    let memory = log();
    let mut ledger = Ledger::default();
    let state = posted(&memory, 1, &mut ledger);
    posted(&memory, 0, &mut ledger);
    let to_records = Turn::to_records(&state, Heritage::default(), &ledger);
    ledger.write(&memory, &pool(), &state).unwrap();
    turn(&memory, to_records, &mut ledger);
}

/// Needs the clearing: while records are in a segment, clients write what they like where its ledgers will stand.
#[test]
fn bytes_of_a_client_that_look_like_a_newer_ledger_settle_nothing() {
    let memory = log();
    let mut ledger = Ledger::default();
    let state = posted(&memory, 1, &mut ledger);
    let home = posted(&memory, 0, &mut ledger);
    let to_records = Turn::to_records(&state, Heritage::default(), &ledger);
    let state = turn(&memory, to_records, &mut ledger);
    let mut forged = Ledger::default();
    forged.keep(SHARD, settled(u64::MAX), 0);
    for _ in 0..10 {
        forged.write(&memory, &pool(), &state).unwrap();
    }
    let to_appends = Turn::to_appends(1, Some(&state), Heritage::default());
    let state = turn(&memory, to_appends, &mut ledger);
    let read = Ledger::read(&memory, &pool(), "log", [&home, &state]).unwrap();
    assert_eq!(read, ledger);
}

/// Needs the look for a seal: without it the log would silently forget its freed segments.
#[test]
fn a_segment_that_was_used_before_and_has_no_seal_is_damaged() {
    let memory = log();
    let mut ledger = Ledger::default();
    let state = posted(&memory, 1, &mut ledger);
    let again = Turn::to_appends(1, Some(&state), Heritage::default());
    turn(&memory, again, &mut ledger);
    for position in [pool().position(1, 1), pool().position(1, 2)] {
        memory.flip(position, 0);
    }
    let (policy, mut found) = (ScanPolicy::default(), Collect::default());
    let error = scan_segment(&memory, &pool(), "log", 1, None, policy, &mut found).unwrap_err();
    assert_eq!(
        (&*error.what, error.offset),
        ("segment seal", pool().position(1, 1))
    );
    assert!(error.to_string().contains("generation 2"), "{error}");
}

#[test]
fn more_rows_than_a_slot_holds_are_refused_with_their_number_and_nothing_changes() {
    let memory = log();
    let mut ledger = Ledger::default();
    let state = posted(&memory, 1, &mut ledger);
    (0..4).for_each(|shard| ledger.keep(shard, settled(1), 0));
    ledger.write(&memory, &pool(), &state).unwrap();
    let before = memory.bytes();
    ledger.keep(4, Lineage::default(), 0);
    let refused = LedgerFull {
        rows: 9,
        rows_max: 8,
    };
    assert_eq!(ledger.write(&memory, &pool(), &state), Err(refused));
    let again = Turn::to_appends(1, Some(&state), Heritage::default());
    let mut again = again;
    let refusal = loop {
        match again.step(&memory, &pool(), &Format, &mut ledger) {
            Ok(Turned::Persist(_)) => {}
            other => break other,
        }
    };
    assert_eq!(refusal, Err(refused));
    assert!(memory.bytes() == before);
}

/// Takes `stage` steps that become durable and one step that does not, and cuts the power.
fn interrupt(memory: &Memory, turn: Turn, ledger: &mut Ledger, stage: u32, habit: u8) {
    take_steps(memory, turn, ledger, stage);
    crate::crash::cut_power(memory, u64::from(stage), habit);
}

/// Takes `stage` steps that become durable and one step that does not.
fn take_steps(memory: &Memory, mut turn: Turn, ledger: &mut Ledger, stage: u32) {
    for step in 0..=stage {
        match turn.step(memory, &pool(), &Format, ledger).unwrap() {
            Turned::Persist(spans) if step < stage => memory.persist(&spans),
            Turned::Persist(_) | Turned::Done(_) => {}
        }
    }
}
