//! Moved records and reused segments.

use stonecast_base::Span;
use stonecast_log::{
    Condition, Draft, Form, Found, Heritage, Kind, RecordHeader, STAMP_SIZE, SegmentState,
    SegmentVerdict, Stamp, UNIT_SIZE, check, check_read, record_size, relocate, walk_some,
};
use stonecast_media::Region as _;

use crate::server::{Entry, SEGMENT, Server, entry, log, pool, position, scan, used};

/// Moves the record `from` to the end of the server's segment.
fn move_in(server: &mut Server<'_>, from: &Found<'_>, next_sequence: u64) -> Entry {
    let unit = server.state.end;
    let mut bytes = Vec::new();
    let record = stonecast_log::Record {
        header: from.header,
        key: from.key,
        value: from.value,
    };
    let place = (position(unit), server.state.generation, server.opening);
    let tag = relocate(&server.format, record, place, next_sequence, &mut bytes);
    server
        .memory
        .write(position(unit) + STAMP_SIZE as u64, &bytes[STAMP_SIZE..]);
    let size = from.header.size();
    let sequence = from.header.sequence();
    let stamp = Stamp {
        sequence,
        previous: server.state.last,
        durable: server.state.durable,
        opening: server.opening,
    };
    let commit_tag = stamp.write(
        server.memory,
        &server.format,
        position(unit),
        server.state.generation,
        tag,
        size,
    );
    server
        .state
        .note_stamped(unit, (size / UNIT_SIZE) as u32, commit_tag);
    server.memory.persist(&[Span::new(position(unit), size)]);
    server.state.note_durable();
    Entry {
        unit,
        sequence,
        opening: server.opening as u16,
        key: from.key.to_vec(),
        value: from.value.to_vec(),
    }
}

/// The header of a record that the server stamped as `sequence`.
fn stamped(sequence: u64, kind: Kind, token: u64) -> RecordHeader {
    let memory = log();
    let draft = Draft {
        kind,
        form: Form::Whole,
        condition: Condition::Absent,
        token,
        expires: None,
        key: b"key",
        value: b"",
    };
    let mut bytes = Vec::new();
    let tag = draft.encode(&pool(), position(4), 1, 1, &mut bytes);
    memory.write(position(4), &bytes);
    let size = record_size(draft.key.len(), 0);
    Stamp {
        sequence,
        previous: 0,
        durable: 4,
        opening: 1,
    }
    .write(&memory, &pool(), position(4), 1, tag, size);
    let mut line = [0; 64];
    memory.read(position(4), &mut line);
    RecordHeader::parse(&line).unwrap()
}

#[test]
fn a_moved_record_keeps_its_content_and_forgets_its_condition() {
    for kind in [Kind::Put, Kind::Delete] {
        let header = stamped(7, kind, 55);
        let mut bytes = Vec::new();
        let record = stonecast_log::Record {
            header,
            key: b"key",
            value: b"",
        };
        relocate(&pool(), record, (position(9), 3, 2), 20, &mut bytes);
        let moved = check(&pool(), position(9), (3, 2), &bytes).unwrap();
        assert_eq!(
            (
                moved.key,
                moved.value,
                moved.header.kind(),
                moved.header.token()
            ),
            (&b"key"[..], &b""[..], kind, 55)
        );
        assert_eq!(moved.header.condition(), Condition::None);
        assert_eq!(
            (moved.header.moved_at(), moved.header.written_at()),
            (Some(20), 20)
        );
        assert_eq!(header.moved_at(), None);
        assert_eq!(header.written_at(), 7);
    }
}

/// Needs the moment of a move in the rule of ascending sequences: an old version that was moved into a young segment is
/// not damage, and an old version that was written there is.
#[test]
fn old_versions_may_follow_younger_ones_if_they_were_moved() {
    let memory = log();
    let mut server = Server::first_use(&memory, 1);
    server.next_sequence = 10;
    let mut entries = vec![server.put_durably(b"a", b"")];
    for sequence in [3, 8, 5] {
        let header = stamped(sequence, Kind::Put, 0);
        let found = Found {
            position: 0,
            header,
            key: b"key",
            value: b"",
            is_void: false,
        };
        entries.push(move_in(&mut server, &found, 11));
    }
    server.next_sequence = 11;
    entries.push(server.put_durably(b"b", b""));
    let (verdict, found) = scan(&memory).unwrap();
    assert_eq!(found, entries);
    assert_eq!(used(verdict).1.sequence_max, 11);
    // The record was moved before the record below it was written.
    let found = Found {
        position: 0,
        header: stamped(2, Kind::Put, 0),
        key: b"key",
        value: b"",
        is_void: false,
    };
    move_in(&mut server, &found, 11);
    assert_eq!(scan(&memory).unwrap_err().what, "record sequence");
}

/// Tries every crash while a segment is freed: the segment has one generation or the other, and is
/// empty in the next. Needs the slot of the older seal, and generation and check in one word.
#[test]
fn a_freed_segment_is_in_one_generation_or_the_other_and_keeps_its_heritage() {
    for seals in 0..4 {
        let memory = log();
        let mut server = Server::first_use(&memory, 1);
        for number in 0..seals {
            server.put_durably(&[number], b"value");
            server.seal();
        }
        server.put_durably(b"last", b"");
        let (_, before) = scan(&memory).unwrap();
        let heritage = Heritage {
            tokens_lost: 4,
            sequence_floor: 9,
        };
        let (mut next, seal) = server.state.begin_reuse(&memory, &pool(), heritage);
        let (verdict, found) = scan(&memory).unwrap();
        assert_eq!(
            (used(verdict).0.generation, &found),
            (1, &before),
            "a seal of the next generation is not valid in this one"
        );
        memory.persist(&[seal]);
        let header = next.write_header(&memory, &pool());
        memory.persist(&[header]);
        let (verdict, found) = scan(&memory).unwrap();
        let (state, report) = used(verdict);
        assert_eq!(
            (state, found.len(), report.records),
            (SegmentState { durable: 0, ..next }, 0, 0)
        );
        assert!(state.is_blank() && state.heritage == heritage && state.generation == 2);
        // A new record is found, the old ones are not, and the next seal remembers, too.
        server.state = next;
        server.put_durably(b"new", b"");
        next = server.state;
        let (verdict, found) = scan(&memory).unwrap();
        assert_eq!(
            (used(verdict).0, found.len()),
            (SegmentState { durable: 0, ..next }, 1)
        );
        server.seal();
        assert_eq!(used(scan(&memory).unwrap().0).0.heritage, heritage);
        assert!(
            matches!(scan(&memory).unwrap().0, SegmentVerdict::Used(state, _) if state.number == SEGMENT)
        );
    }
}

/// Needs the generation in the tagged bytes of a record, and its low bits in the reader's
/// comparison.
#[test]
fn a_record_of_the_previous_generation_does_not_count() {
    let memory = log();
    let mut server = Server::first_use(&memory, 1);
    let old = server.put_durably(b"k", b"old");
    let (next, seal) = server
        .state
        .begin_reuse(&memory, &pool(), Heritage::default());
    let header = next.write_header(&memory, &pool());
    memory.persist(&[seal, header]);
    let mut bytes = [0; 128];
    memory.read(position(old.unit), &mut bytes);
    assert!(
        check_read(&pool(), position(old.unit), 1, &bytes).is_ok(),
        "the bytes are still there"
    );
    assert!(check_read(&pool(), position(old.unit), 2, &bytes).is_err());
    assert!(check(&pool(), position(old.unit), (2, 1), &bytes).is_err());
}

#[test]
fn a_walk_in_pieces_finds_the_same_as_a_scan() {
    let memory = log();
    let mut server = Server::first_use(&memory, 1);
    for number in 0..20_u8 {
        server.put_above(
            u32::from(number % 3),
            &[number],
            &vec![number; usize::from(number) * 30],
        );
    }
    server.persist();
    let (_, expected) = scan(&memory).unwrap();
    for step in [1, 2, 7, 300] {
        let (mut unit, mut found) = (4, Vec::new());
        while unit < server.state.end {
            let until = (unit + step).min(server.state.end);
            let next = walk_some(
                &memory,
                &pool(),
                (SEGMENT, 1),
                (unit, until),
                &mut |batch| {
                    found.extend(batch.iter().map(entry));
                },
            );
            assert!(next >= until && next > unit);
            unit = next;
        }
        assert_eq!(found, expected, "in pieces of {step} units");
    }
}
