//! Recovery of a segment without a header.

use stonecast_log::{SegmentVerdict, walk_segment};
use stonecast_media::Region as _;

use crate::memory::Memory;
use crate::server::{SEGMENT, Server, damage_body, erase, log, pool, position, scan, used};

/// Erases both copies of the header.
fn lose_header(memory: &Memory) {
    memory.flip(position(0), 1);
    memory.flip(position(3), 1);
}

#[test]
fn a_segment_without_anything_is_free() {
    assert_eq!(
        scan(&log()).unwrap().0,
        SegmentVerdict::Free { torn_header: false }
    );
}

#[test]
fn a_segment_with_a_torn_header_and_nothing_else_is_free() {
    let memory = log();
    Server::first_use(&memory, 1);
    lose_header(&memory);
    assert_eq!(
        scan(&memory).unwrap().0,
        SegmentVerdict::Free { torn_header: true }
    );
}

#[test]
fn one_copy_of_the_header_is_enough_and_is_repaired() {
    for copy in [0, 3] {
        let memory = log();
        let mut server = Server::first_use(&memory, 1);
        let entry = server.put_durably(b"a", b"");
        memory.flip(position(copy), 100);
        let (verdict, found) = scan(&memory).unwrap();
        assert!(used(verdict).1.header_damaged);
        assert_eq!(found, [entry]);
        Server::recover(&memory, 2).unwrap();
        assert!(!used(scan(&memory).unwrap().0).1.header_damaged);
    }
}

/// The header is persisted with the first batch, so a crash can leave this state.
#[test]
fn records_of_a_first_batch_count_without_a_header() {
    let memory = log();
    let mut server = Server::first_use(&memory, 1);
    let entries = [server.put(b"a", b""), server.put(b"b", b"")];
    memory.persist(&[stonecast_base::Span::new(position(4), 256)]);
    memory.cut_power(|_, _| 0);
    let (server, found) = Server::recover(&memory, 2).unwrap();
    assert_eq!(found, entries);
    assert_eq!(server.state.generation, 1);
    let (verdict, found) = scan(&memory).unwrap();
    assert_eq!(found, entries);
    assert!(!used(verdict).1.header_damaged);
}

/// Needs the check of `durable` for a lost header.
#[test]
fn a_header_lost_after_something_was_durable_is_corruption() {
    let memory = log();
    let mut server = Server::first_use(&memory, 1);
    let first = server.put_durably(b"a", b"");
    server.put_durably(b"b", b"");
    lose_header(&memory);
    let corruption = scan(&memory).unwrap_err();
    assert_eq!(
        (corruption.what.as_ref(), corruption.offset),
        ("segment header", position(0))
    );
    // One record is enough evidence.
    erase(&memory, &first);
    assert_eq!(scan(&memory).unwrap_err().what, "segment header");
}

#[test]
fn a_header_lost_after_a_second_seal_is_corruption() {
    let memory = log();
    let mut server = Server::first_use(&memory, 1);
    let first = server.put_durably(b"a", b"");
    server.seal();
    let second = server.put_durably(b"b", b"");
    server.seal();
    erase(&memory, &first);
    erase(&memory, &second);
    lose_header(&memory);
    assert_eq!(scan(&memory).unwrap_err().what, "segment header");
}

/// Only the seal is left. Needs the check of the seal: there is no stamp.
#[test]
fn a_header_lost_with_all_sealed_records_is_corruption() {
    let memory = log();
    let mut server = Server::first_use(&memory, 1);
    let entry = server.put_durably(b"a", b"");
    server.seal();
    erase(&memory, &entry);
    lose_header(&memory);
    assert_eq!(scan(&memory).unwrap_err().what, "sealed records");
}

/// Needs the check of stamps whose records are not whole.
#[test]
fn a_lost_header_is_corruption_even_if_only_a_torn_stamp_proves_it() {
    let memory = log();
    let mut server = Server::first_use(&memory, 1);
    let first = server.put_durably(b"a", b"");
    let torn = server.put(b"b", b"");
    erase(&memory, &first);
    damage_body(&memory, torn.unit);
    lose_header(&memory);
    assert_eq!(scan(&memory).unwrap_err().what, "segment header");
}

#[test]
fn a_header_lost_in_a_segment_of_two_generations_is_corruption() {
    let memory = log();
    let mut server = Server::first_use(&memory, 1);
    server.put(b"a", b"");
    server.put(b"b", b"");
    server.state = stonecast_log::SegmentState::fresh(SEGMENT, 2);
    server.put(b"c", b"");
    lose_header(&memory);
    assert_eq!(scan(&memory).unwrap_err().what, "segment header");
}

/// The bytes that a client left in a segment that was never used may be remains of stamps. Needs
/// `remains`: a free segment is not settled.
#[test]
fn a_segment_with_remains_and_no_header_is_cleared_before_it_is_used() {
    let memory = log();
    memory.write(position(20) + 8, &77_u64.to_le_bytes());
    let (server, found) = Server::recover(&memory, 2).unwrap();
    assert_eq!(
        (found.len(), server.state.end, server.state.generation),
        (0, 4, 1)
    );
    assert_eq!(memory.load(position(20) + 8), 0);
    assert_eq!(used(scan(&memory).unwrap().0).1.records, 0);
}

#[test]
fn an_inspection_continues_without_a_header() {
    let memory = log();
    let mut server = Server::first_use(&memory, 1);
    server.put_durably(b"a", b"");
    server.put_durably(b"b", b"");
    lose_header(&memory);
    let mut told = Vec::new();
    walk_segment(&memory, &pool(), "log", SEGMENT, &mut |finding| {
        told.push(format!("{finding:?}"))
    });
    assert_eq!(
        told.iter()
            .filter(|line| line.starts_with("Record"))
            .count(),
        2
    );
    assert_eq!(
        told.iter()
            .filter(|line| line.contains("segment header"))
            .count(),
        1
    );
}
