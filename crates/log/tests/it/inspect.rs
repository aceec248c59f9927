//! The findings of an inspection.

use stonecast_log::{Finding, RecordFault, SegmentVerdict, walk_segment};

use crate::memory::Memory;
use crate::server::{SEGMENT, Server, damage_body, entry, log, pool, position, scan, used};

fn told(memory: &Memory) -> (Vec<String>, SegmentVerdict) {
    let mut lines = Vec::new();
    let verdict = walk_segment(memory, &pool(), "log", SEGMENT, &mut |finding| {
        lines.push(match finding {
            Finding::Seal(seal) => format!("seal {} of {}", seal.serial, seal.count),
            Finding::Record(found) => format!("record {}", entry(&found).sequence),
            Finding::Hole { from, to } => format!("hole of {} units", (to - from) / 64),
            Finding::Torn {
                position: at,
                fault,
                ..
            } => {
                assert!(matches!(fault, RecordFault::Tag { .. }));
                format!("torn at unit {}", (at - position(0)) / 64)
            }
            Finding::Fault(corruption) => {
                format!(
                    "fault: {} at unit {}",
                    corruption.what,
                    (corruption.offset - position(0)) / 64
                )
            }
        });
    });
    (lines, verdict)
}

#[test]
fn an_inspection_reports_records_holes_and_seals_in_order() {
    let memory = log();
    let mut server = Server::first_use(&memory, 1);
    server.put_above(2, b"a", b"");
    server.persist();
    server.seal();
    server.put_above(3, b"b", b"");
    let (lines, verdict) = told(&memory);
    assert_eq!(
        lines,
        [
            "seal 1 of 1",
            "hole of 2 units",
            "record 1",
            "hole of 3 units",
            "record 2"
        ]
    );
    assert_eq!(
        verdict,
        scan(&memory).unwrap().0,
        "the inspection judges like recovery"
    );
}

#[test]
fn an_inspection_reports_every_fault_where_recovery_stops_at_the_first() {
    let memory = log();
    let mut server = Server::first_use(&memory, 1);
    let sealed = server.put_durably(b"a", b"");
    server.put_durably(b"b", b"");
    server.seal();
    server.put_durably(b"c", b"");
    let above = server.put_durably(b"d", b"");
    server.put_durably(b"e", b"");
    damage_body(&memory, sealed.unit);
    damage_body(&memory, above.unit);
    let (lines, verdict) = told(&memory);
    assert_eq!(
        lines,
        [
            "seal 1 of 2",
            "torn at unit 4",
            "hole of 1 units",
            "record 2",
            "fault: sealed records at unit 4",
            "record 3",
            "torn at unit 7",
            "fault: record at unit 7",
            "hole of 1 units",
            "record 5",
        ]
    );
    assert_eq!(used(verdict).1.missing, 2);
    assert_eq!(scan(&memory).unwrap_err().what, "sealed records");
}

#[test]
fn an_inspection_of_a_torn_tail_finds_no_fault() {
    let memory = log();
    let mut server = Server::first_use(&memory, 1);
    server.put_durably(b"a", b"");
    let torn = server.put(b"b", b"");
    damage_body(&memory, torn.unit);
    let (lines, verdict) = told(&memory);
    assert_eq!(lines, ["record 1", "torn at unit 5"]);
    assert_eq!(used(verdict).1.torn_tail, Some(position(5)));
}
