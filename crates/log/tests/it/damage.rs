//! Damage of any bit is refused, has no effect, or costs records that cannot be distinguished from
//! a torn batch.

use proptest::prelude::*;
use stonecast_log::{Finding, ScanPolicy, SegmentState, Stamp, walk_segment};
use stonecast_media::Region as _;

use crate::memory::Memory;
use crate::server::{
    Collect, Entry, SEGMENT, SEGMENT_SIZE, Server, log, pool, position, scan, scan_with,
    stamp_placed,
};

/// A segment with a history: two seals, a hole that recovery accepted, remains of a client, several batches.
fn segment_with_a_past(memory: &Memory) -> (Server<'_>, Vec<Entry>) {
    let mut server = Server::first_use(memory, 1);
    server.put(b"a", &[1; 30]);
    server.put(b"b", &[2; 300]);
    server.persist();
    server.seal();
    server.put_durably(b"c", b"");
    server.put(b"torn", &[3; 90]);
    server.put(b"d", &[4; 90]);
    memory.persist(&[stonecast_base::Span::new(position(server.state.last), 192)]);
    memory.cut_power(|_, _| 0);
    let (mut server, mut entries) = Server::recover(memory, 2).expect("a crash is not damage");
    assert_eq!(entries.len(), 4);
    server.place(server.state.end, b"left", &[5; 70]);
    entries.push(server.put_above(1, b"e", &[6; 10]));
    entries.push(server.put(b"f", &[7; 10]));
    server.persist();
    entries.push(server.put(b"g", b""));
    entries.push(server.put(b"h", &[8; 64]));
    server.persist();
    (server, entries)
}

/// Flips each bit of the segment in turn. `last_batch` records at the end may be lost unnoticed.
fn flip_every_bit(memory: &Memory, entries: &[Entry], last_batch: usize) {
    let (sure, _) = entries.split_at(entries.len() - last_batch);
    for bit in 0..SEGMENT_SIZE * 8 {
        memory.flip(position(0), bit);
        if let Ok((_, found)) = scan(memory) {
            assert!(
                found.iter().all(|entry| entries.contains(entry)),
                "bit {bit}: a record that was never written"
            );
            assert!(
                sure.iter().all(|entry| found.contains(entry)),
                "bit {bit}: a lost record was not missed"
            );
        }
        memory.flip(position(0), bit);
    }
}

/// Needs every rule of `judge.rs` except the rule on sequences, which only a faulty server breaks.
#[test]
fn no_flipped_bit_changes_the_findings_except_in_the_last_batch() {
    let memory = log();
    let (_, entries) = segment_with_a_past(&memory);
    flip_every_bit(&memory, &entries, 2);
}

/// Needs the seal.
#[test]
fn no_flipped_bit_changes_the_findings_in_a_sealed_segment() {
    let memory = log();
    let (mut server, entries) = segment_with_a_past(&memory);
    server.seal();
    flip_every_bit(&memory, &entries, 0);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]

    /// Malice without the secret: no written bytes cause a panic, and every record found existed before.
    #[test]
    fn no_bytes_make_recovery_panic_or_find_a_record_that_was_never_written(
        writes in prop::collection::vec((0..SEGMENT_SIZE / 8, any::<u64>()), 1..60),
        copies in prop::collection::vec((0..256_u32, 0..256_u32), 0..4),
    ) {
        let memory = log();
        let (server, entries) = segment_with_a_past(&memory);
        for (to, from) in copies {
            let mut line = [0; 64];
            memory.read(position(from), &mut line);
            memory.write(position(to), &line);
        }
        for (word, value) in writes {
            memory.store(position(0) + word * 8, value);
        }
        for from in [None, Some(&server.state)] {
            for tolerate_missing in [false, true] {
                if let Ok((_, found)) = scan_with(&memory, from, ScanPolicy { tolerate_missing }) {
                    prop_assert!(found.iter().all(|entry| entries.contains(entry)));
                }
            }
        }
        walk_segment(&memory, &pool(), "log", SEGMENT, &mut |_| {});
    }

    /// Malice with the secret: stamps that no server would make, seals with any content.
    #[test]
    fn no_stamp_or_seal_makes_recovery_panic(
        stamps in prop::collection::vec((4..40_u32, any::<u64>(), 0..300_u32, 0..300_u32), 0..30),
        seals in prop::collection::vec((4..=256_u32, 0..9_u32, any::<u64>(), 0..5_u32), 0..4),
        known in (0..300_u32, 0..300_u32, 0..300_u32, 0..5_u32, 0..300_u32),
        header in any::<bool>(),
    ) {
        let memory = log();
        let server = Server::first_use(&memory, 1);
        for (unit, sequence, previous, durable) in stamps {
            server.place(unit, b"key", &[9; 90]);
            let stamp = Stamp { sequence: sequence.max(1), previous, durable, opening: 1 };
            stamp_placed(&memory, &pool(), unit, stamp);
        }
        for (end, count, xor, seal_serial) in seals {
            let mut state = SegmentState { end, durable: end, count, xor, seal_serial, ..SegmentState::fresh(SEGMENT, 1) };
            state.seal(&memory, &pool());
        }
        if !header {
            memory.write(position(0), &[0; 64]);
            memory.write(position(3), &[0; 64]);
        }
        let (end, last, durable, seal_serial, seal_end) = known;
        let known = SegmentState { end, last, durable, seal_serial, seal_end, ..SegmentState::fresh(SEGMENT, 1) };
        let mut faults = 0;
        walk_segment(&memory, &pool(), "log", SEGMENT, &mut |finding| faults += u32::from(matches!(finding, Finding::Fault(_))));
        for from in [None, Some(&known)] {
            for tolerate_missing in [false, true] {
                let outcome = scan_with(&memory, from, ScanPolicy { tolerate_missing });
                prop_assert!(outcome.is_ok() || !tolerate_missing);
                prop_assert!(from.is_some() || tolerate_missing || outcome.is_err() == (faults > 0), "both judge in the same way");
                if let Ok((stonecast_log::SegmentVerdict::Used(mut state, _), _)) = outcome {
                    state.unsealed(&pool());
                    state.settle(&memory.copy(), &pool());
                }
            }
        }
    }
}

/// After a flipped bit that was tolerated or had no effect, recovery yields a whole segment.
#[test]
fn a_segment_that_recovery_settled_after_damage_is_whole_again() {
    let memory = log();
    let (_, entries) = segment_with_a_past(&memory);
    for bit in (0..SEGMENT_SIZE * 8).step_by(37) {
        let memory = memory.copy();
        memory.flip(position(0), bit);
        let Ok((mut server, mut found)) = Server::recover(&memory, 3) else {
            continue;
        };
        found.push(server.put_durably(b"more", b""));
        found.push(server.put_durably(b"and more", b""));
        let mut again = Collect::default();
        let verdict = stonecast_log::scan_segment(
            &memory,
            &pool(),
            "log",
            SEGMENT,
            None,
            ScanPolicy::default(),
            &mut again,
        );
        assert!(verdict.is_ok(), "bit {bit}: {verdict:?}");
        assert_eq!(again.0, found, "bit {bit}");
        assert!(found.len() >= entries.len() - 2 + 2);
    }
}
