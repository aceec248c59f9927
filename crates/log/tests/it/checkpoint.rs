//! Scans that start at the end of a checkpoint.

use stonecast_log::{ScanPolicy, SegmentState};

use crate::server::{Server, damage_body, log, pool, position, scan_with, used};

#[test]
fn only_records_after_the_checkpoint_are_examined() {
    let memory = log();
    let mut server = Server::first_use(&memory, 1);
    server.put_durably(b"a", &[1; 500]);
    server.seal();
    let known = server.state;
    let entry = server.put_durably(b"b", b"");
    let (verdict, found) = scan_with(&memory, Some(&known), ScanPolicy::default()).unwrap();
    let (state, report) = used(verdict);
    assert_eq!(found, [entry]);
    assert_eq!(
        report.bytes_scanned,
        u64::from(pool().segment_units() - known.end) * 64
    );
    assert_eq!(
        state,
        SegmentState {
            durable: 0,
            ..server.state
        }
    );
}

/// The checkpoint is from an earlier closing: since then the segment was written, sealed, and
/// written again.
#[test]
fn a_seal_that_is_newer_than_the_checkpoint_is_still_checked() {
    let memory = log();
    let mut server = Server::first_use(&memory, 1);
    server.put_durably(b"a", b"");
    server.seal();
    let known = server.state;
    let entries = [server.put_durably(b"b", b""), server.put_durably(b"c", b"")];
    server.seal();
    let last = server.put_durably(b"d", b"");
    let (verdict, found) = scan_with(&memory, Some(&known), ScanPolicy::default()).unwrap();
    assert_eq!(found, [entries[0].clone(), entries[1].clone(), last]);
    assert_eq!(
        used(verdict).0,
        SegmentState {
            durable: 0,
            ..server.state
        }
    );
    damage_body(&memory, entries[1].unit);
    let corruption = scan_with(&memory, Some(&known), ScanPolicy::default()).unwrap_err();
    assert_eq!(
        (corruption.what.as_ref(), corruption.offset),
        ("sealed records", position(entries[1].unit))
    );
}

/// Some records were not sealed when the checkpoint was taken: the chain continues across it.
#[test]
fn the_chain_continues_across_a_checkpoint() {
    let memory = log();
    let mut server = Server::first_use(&memory, 1);
    server.put_durably(b"a", b"");
    let known = server.state;
    let missing = server.put_durably(b"b", b"");
    let last = server.put_durably(b"c", b"");
    assert_eq!(
        scan_with(&memory, Some(&known), ScanPolicy::default())
            .unwrap()
            .1,
        [missing.clone(), last]
    );
    damage_body(&memory, missing.unit);
    assert_eq!(
        scan_with(&memory, Some(&known), ScanPolicy::default())
            .unwrap_err()
            .offset,
        position(missing.unit)
    );
}

#[test]
fn a_segment_that_was_reused_since_the_checkpoint_is_examined_from_its_start() {
    let memory = log();
    let mut server = Server::first_use(&memory, 1);
    server.put_durably(b"a", &[1; 500]);
    let known = server.state;
    server.state = SegmentState::fresh(known.number, 2);
    memory.persist(&[server.state.write_header(&memory, &pool())]);
    let entry = server.put_durably(b"b", b"");
    assert_eq!(
        scan_with(&memory, Some(&known), ScanPolicy::default())
            .unwrap()
            .1,
        [entry]
    );
}

#[test]
fn a_contradiction_to_the_checkpoint_is_corruption() {
    let memory = log();
    let mut server = Server::first_use(&memory, 1);
    server.put_durably(b"a", b"");
    server.seal();
    let known = server.state;
    let contradictions = [
        SegmentState {
            generation: 2,
            ..known
        },
        SegmentState {
            seal_serial: 2,
            ..known
        },
        SegmentState {
            seal_end: known.end + 1,
            end: known.end + 1,
            ..known
        },
        SegmentState {
            end: known.end - 1,
            ..known
        },
        SegmentState {
            end: 0,
            seal_serial: 0,
            durable: 0,
            ..known
        },
        SegmentState {
            end: 1 << 20,
            ..known
        },
        SegmentState { last: 300, ..known },
        SegmentState {
            count: 7,
            end: 4,
            seal_serial: 0,
            durable: 0,
            ..known
        },
    ];
    assert!(scan_with(&memory, Some(&known), ScanPolicy::default()).is_ok());
    for wrong in contradictions {
        assert!(
            scan_with(&memory, Some(&wrong), ScanPolicy::default()).is_err(),
            "{wrong:?}"
        );
    }
}

#[test]
fn a_header_lost_in_a_segment_that_the_checkpoint_knows_is_corruption() {
    let memory = log();
    let mut server = Server::first_use(&memory, 1);
    server.put_durably(b"a", b"");
    server.seal();
    memory.flip(position(0), 1);
    memory.flip(position(3), 1);
    let known = server.state;
    assert_eq!(
        scan_with(&memory, Some(&known), ScanPolicy::default())
            .unwrap_err()
            .what,
        "segment header"
    );
    assert!(
        scan_with(&memory, None, ScanPolicy::default()).is_ok(),
        "a crash while settling the first batch leaves this"
    );
}
