//! The rules of recovery, one by one: torn records, and corruption.

use stonecast_log::{
    Found, LogFormat, ScanPolicy, SegmentState, Stamp, VALUE_SIZE_MAX, Visitor, scan_segment,
};

use crate::memory::Memory;
use crate::server::{
    Entry, SEGMENT, Server, damage_body, erase, log, pool, position, scan, scan_with, stamp_placed,
    used,
};

/// Three durable batches: one record, two records, one record.
fn three_batches(memory: &Memory) -> (Server<'_>, Vec<Entry>) {
    let mut server = Server::first_use(memory, 1);
    let mut entries = vec![server.put_durably(b"a", b"first")];
    entries.push(server.put(b"b", &[1; 100]));
    entries.push(server.put(b"c", &[2; 100]));
    server.persist();
    entries.push(server.put_durably(b"d", b"last"));
    (server, entries)
}

#[test]
fn every_stamped_record_is_found() {
    let memory = log();
    let (server, entries) = three_batches(&memory);
    let (verdict, found) = scan(&memory).unwrap();
    let (state, report) = used(verdict);
    assert_eq!(found, entries);
    assert_eq!(
        (
            report.records,
            report.sequence_max,
            report.torn_tail,
            report.missing
        ),
        (4, 4, None, 0)
    );
    let expected = SegmentState {
        durable: 0,
        ..server.state
    };
    assert_eq!(state, expected);
}

/// Needs the comparison of `durable` with the start of the gap.
#[test]
fn a_missing_record_below_the_durable_mark_of_a_later_one_is_corruption() {
    for missing in 0..3 {
        let memory = log();
        let (_, entries) = three_batches(&memory);
        erase(&memory, &entries[missing]);
        let corruption = scan(&memory).unwrap_err();
        assert_eq!(
            (corruption.what.as_ref(), corruption.offset),
            ("record", position(entries[missing].unit))
        );
        assert_eq!(corruption.file, "log");
    }
}

#[test]
fn several_missing_records_are_reported_at_the_place_of_the_first() {
    let memory = log();
    let (_, entries) = three_batches(&memory);
    erase(&memory, &entries[1]);
    erase(&memory, &entries[2]);
    assert_eq!(scan(&memory).unwrap_err().offset, position(entries[1].unit));
}

/// The record found last names a missing one that was not durable; nothing names the durable one
/// below that. Needs the comparison with the start of the gap, rather than with the record that the
/// link names.
#[test]
fn a_missing_durable_record_is_noticed_behind_a_missing_one_that_was_not_durable() {
    let memory = log();
    let mut server = Server::first_use(&memory, 1);
    server.put_durably(b"a", b"");
    let hidden = server.put_durably(b"b", b"");
    let named = server.put(b"c", b"");
    server.put(b"d", b"");
    erase(&memory, &hidden);
    erase(&memory, &named);
    assert_eq!(scan(&memory).unwrap_err().offset, position(hidden.unit));
}

/// There are two gaps: the proof that the record in the first had been durable says nothing about
/// the second. Needs the judge to remember the first.
#[test]
fn a_loss_is_noticed_across_a_later_torn_gap() {
    let memory = log();
    let mut server = Server::first_use(&memory, 1);
    server.put_durably(b"a", b"");
    let lost = server.put(b"b", b"");
    server.put(b"c", b"");
    server.persist();
    let torn = server.put(b"d", b"");
    server.put(b"e", b"");
    erase(&memory, &torn);
    assert!(used(scan(&memory).unwrap().0).1.torn_tail.is_some());
    erase(&memory, &lost);
    assert_eq!(scan(&memory).unwrap_err().offset, position(lost.unit));
}

/// Needs `durable` in the first record of the second batch: nothing links to the missing records.
#[test]
fn the_loss_of_the_whole_first_batch_after_a_seal_is_noticed() {
    let memory = log();
    let mut server = Server::first_use(&memory, 1);
    server.put_durably(b"a", b"");
    server.seal();
    let first = [server.put(b"b", b""), server.put(b"c", b"")];
    server.persist();
    server.put_durably(b"d", b"");
    first.iter().for_each(|entry| erase(&memory, entry));
    let corruption = scan(&memory).unwrap_err();
    assert_eq!(
        (corruption.what.as_ref(), corruption.offset),
        ("record", position(first[0].unit))
    );
}

#[test]
fn a_gap_in_the_last_batch_is_torn_and_the_rest_of_it_counts() {
    let memory = log();
    let (mut server, mut entries) = three_batches(&memory);
    let torn = server.put(b"torn", &[7; 200]);
    entries.push(server.put(b"kept", b""));
    damage_body(&memory, torn.unit);
    let (verdict, found) = scan(&memory).unwrap();
    let (_, report) = used(verdict);
    assert_eq!(found, entries);
    assert_eq!(report.torn_tail, Some(position(torn.unit)));
}

/// Nothing reveals the last batch if none of it is left: this is the limit of detection.
#[test]
fn a_wholly_lost_last_batch_leaves_no_trace() {
    let memory = log();
    let (_, entries) = three_batches(&memory);
    erase(&memory, &entries[3]);
    let (verdict, found) = scan(&memory).unwrap();
    assert_eq!(found, entries[..3]);
    assert_eq!(used(verdict).1.torn_tail, None);
}

/// Needs the seal: above it the same damage is a torn tail.
#[test]
fn the_loss_of_a_sealed_last_batch_is_noticed() {
    for damage in [
        |memory: &Memory, entry: &Entry| erase(memory, entry),
        |memory: &Memory, entry: &Entry| damage_body(memory, entry.unit),
    ] {
        for missing in 0..4 {
            let memory = log();
            let (mut server, entries) = three_batches(&memory);
            server.seal();
            damage(&memory, &entries[missing]);
            let corruption = scan(&memory).unwrap_err();
            assert_eq!(
                (corruption.what.as_ref(), corruption.offset),
                ("sealed records", position(entries[missing].unit))
            );
        }
    }
}

#[test]
fn a_hole_that_was_accepted_and_sealed_is_not_judged_again() {
    let memory = log();
    let mut server = Server::first_use(&memory, 1);
    let mut entries = vec![server.put_durably(b"a", b"")];
    let torn = server.put(b"torn", &[7; 200]);
    entries.push(server.put(b"kept", b""));
    damage_body(&memory, torn.unit);
    let (mut server, found) = Server::recover(&memory, 2).unwrap();
    assert_eq!(found, entries);
    // Without the seal, this record would prove that the torn record had been durable.
    entries.push(server.put_durably(b"b", b""));
    entries.push(server.put_durably(b"c", b""));
    let (verdict, found) = scan(&memory).unwrap();
    assert_eq!(found, entries);
    assert_eq!(used(verdict).1.torn_tail, None);
}

/// Needs the rule that the first record above a seal names the seal's end.
#[test]
fn a_lost_seal_is_noticed_when_records_follow_it() {
    let memory = log();
    let mut server = Server::first_use(&memory, 1);
    server.put_durably(b"a", b"");
    server.seal();
    let after = server.put_durably(b"b", b"");
    memory.flip(position(2), 5);
    let corruption = scan(&memory).unwrap_err();
    assert_eq!(
        (corruption.what.as_ref(), corruption.offset),
        ("record link", position(after.unit))
    );
}

/// The same story, where the sealed records are lost with the seal: only `durable` can contradict the link.
#[test]
fn a_seal_lost_with_all_its_records_is_noticed() {
    let memory = log();
    let mut server = Server::first_use(&memory, 1);
    let sealed = server.put_durably(b"a", b"");
    server.seal();
    server.put_durably(b"b", b"");
    memory.flip(position(2), 5);
    erase(&memory, &sealed);
    assert_eq!(scan(&memory).unwrap_err().what, "record link");
}

#[test]
fn a_torn_seal_leaves_the_previous_one() {
    let memory = log();
    let (mut server, mut entries) = three_batches(&memory);
    server.seal();
    entries.push(server.put_durably(b"e", b""));
    let span = server.state.seal(&memory, &pool());
    memory.flip(span.offset, 77);
    let (verdict, found) = scan(&memory).unwrap();
    assert_eq!(found, entries);
    assert_eq!(used(verdict).0.seal_serial, 1);
}

#[test]
fn records_and_seals_of_an_earlier_generation_do_not_count() {
    let memory = log();
    let (mut server, _) = three_batches(&memory);
    server.seal();
    server.state = SegmentState::fresh(server.state.number, 2);
    memory.persist(&[server.state.write_header(&memory, &pool())]);
    assert_eq!(scan(&memory).unwrap().1, []);
    let entry = server.put_durably(b"new", b"");
    let (verdict, found) = scan(&memory).unwrap();
    assert_eq!(found, [entry]);
    assert_eq!(used(verdict).1.torn_tail, None);
}

/// A server that breaks its own rules: it stamps with links that are not those of the segment's
/// state.
fn stamp_against_the_rules(server: &mut Server<'_>, stamp: Stamp) -> u32 {
    let unit = server.state.end;
    server.place(unit, b"odd", b"");
    stamp_placed(server.memory, &pool(), unit, stamp);
    unit
}

/// A faulty server, or replayed stamps of a crashed run. Needs each comparison in `link`, and the
/// one of sequences.
#[test]
fn links_that_no_server_makes_are_corruption() {
    // After three batches the last record is at unit 11, everything below 12 is durable, and the
    // next free unit is 12.
    let right = Stamp {
        sequence: 5,
        previous: 11,
        durable: 12,
        opening: 1,
    };
    let wrong = [
        (
            "record link",
            Stamp {
                previous: 0,
                ..right
            },
        ),
        (
            "record link",
            Stamp {
                previous: 0,
                durable: 4,
                ..right
            },
        ),
        (
            "record link",
            Stamp {
                previous: 8,
                durable: 11,
                ..right
            },
        ),
        (
            "record link",
            Stamp {
                previous: 10,
                durable: 11,
                ..right
            },
        ),
        (
            "record link",
            Stamp {
                previous: 12,
                durable: 11,
                ..right
            },
        ),
        (
            "record link",
            Stamp {
                previous: 99,
                durable: 11,
                ..right
            },
        ),
        (
            "record link",
            Stamp {
                durable: 13,
                ..right
            },
        ),
        (
            "record link",
            Stamp {
                durable: 8,
                ..right
            },
        ),
        (
            "record sequence",
            Stamp {
                sequence: 4,
                ..right
            },
        ),
    ];
    let memory = log();
    let (mut server, _) = three_batches(&memory);
    assert_eq!((server.state.last, server.state.durable), (11, 12));
    stamp_against_the_rules(&mut server, right);
    assert_eq!(scan(&memory).unwrap().1.len(), 5);
    for (what, stamp) in wrong {
        let memory = log();
        let (mut server, _) = three_batches(&memory);
        let unit = stamp_against_the_rules(&mut server, stamp);
        let corruption = scan(&memory).expect_err(&format!("{stamp:?}"));
        assert_eq!(
            (corruption.what.as_ref(), corruption.offset),
            (what, position(unit)),
            "{stamp:?}"
        );
    }
}

/// Needs the comparison with the rest of the segment: the record would extend into the next one.
#[test]
fn a_stamped_header_whose_record_does_not_fit_the_segment_is_not_a_record() {
    let memory = log();
    let mut server = Server::first_use(&memory, 1);
    let entry = server.put_durably(b"a", b"");
    let unit = pool().segment_units() - 1;
    server.place(unit, b"b", &[1; 100]);
    stamp_placed(
        &memory,
        &pool(),
        unit,
        Stamp {
            sequence: 2,
            previous: 4,
            durable: 4,
            opening: 1,
        },
    );
    assert_eq!(scan(&memory).unwrap().1, [entry]);
}

/// The records are longer than the piece of the log that is copied at once, and cross the edges of
/// such pieces.
#[test]
fn records_of_every_size_are_found_in_a_large_segment() {
    let format = LogFormat {
        segment_size: 4 << 20,
        ..pool()
    };
    let memory = Memory::steady(3 * (4 << 20));
    let mut server = Server::first_use_in(format, &memory, 1);
    let mut sizes = Vec::new();
    for size in [
        0,
        1000,
        VALUE_SIZE_MAX,
        1,
        200_000,
        200_000,
        0,
        VALUE_SIZE_MAX - 1,
        70_000,
        300_000,
        5,
    ] {
        server.put_above(u32::from(size == 1), b"key", &vec![size as u8; size]);
        sizes.push(size);
    }
    server.persist();
    server.seal();
    let mut found = Vec::new();
    let mut collect =
        |batch: &[Found<'_>]| found.extend(batch.iter().map(|found| found.value.len()));
    let verdict = scan_segment(
        &memory,
        &format,
        "log",
        SEGMENT,
        None,
        ScanPolicy::default(),
        &mut Each(&mut collect),
    )
    .unwrap();
    assert_eq!(found, sizes);
    assert_eq!(
        used(verdict).0,
        SegmentState {
            durable: 0,
            ..server.state
        }
    );
}

struct Each<'a>(&'a mut dyn FnMut(&[Found<'_>]));

impl Visitor for Each<'_> {
    fn records(&mut self, batch: &[Found<'_>]) {
        (self.0)(batch);
    }
}

#[test]
fn a_record_as_long_as_the_rest_of_the_segment_is_found() {
    let memory = log();
    let mut server = Server::first_use(&memory, 1);
    let first = server.put_durably(b"a", b"");
    let room = server.room() as usize * 64;
    let last = server.put_durably(b"b", &vec![5; room - 57]);
    assert_eq!(server.room(), 0);
    assert_eq!(scan(&memory).unwrap().1, [first, last]);
}

#[test]
fn a_pool_that_outlives_only_processes_counts_the_records_lost_in_a_power_cycle() {
    let policy = ScanPolicy {
        tolerate_missing: true,
    };
    for sealed in [false, true] {
        let memory = log();
        let (mut server, mut entries) = three_batches(&memory);
        if sealed {
            server.seal();
        }
        erase(&memory, &entries.remove(1));
        scan(&memory).unwrap_err();
        let (verdict, found) = scan_with(&memory, None, policy).unwrap();
        let (mut state, report) = used(verdict);
        assert_eq!((found, report.missing), (entries.clone(), 1));
        // After it is settled, the segment is whole by the strict rules again.
        memory.persist(state.unsealed(&pool()).as_slice());
        memory.persist(&state.settle(&memory, &pool()));
        let (verdict, found) = scan(&memory).unwrap();
        assert_eq!(
            (found, used(verdict).0),
            (
                entries,
                SegmentState {
                    durable: 0,
                    ..state
                }
            )
        );
    }
}

#[test]
#[should_panic(expected = "settled before it is written")]
fn a_scanned_segment_cannot_be_written_before_it_is_settled() {
    let memory = log();
    three_batches(&memory);
    let (mut state, _) = used(scan(&memory).unwrap().0);
    state.note_stamped(state.end, 1, 0);
}

#[test]
#[should_panic(expected = "covers only what is durable")]
fn a_record_that_is_not_durable_cannot_be_sealed() {
    let memory = log();
    let mut server = Server::first_use(&memory, 1);
    server.put(b"a", b"");
    assert!(!server.state.needs_seal());
    server.state.seal(&memory, &pool());
}
