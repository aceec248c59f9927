//! Records that a client forged: everything is right except the stamp.

use stonecast_log::{
    KEY_SIZE_MAX, LogFormat, RECORD_START_SIZE, Secret, Stamp, UNIT_SIZE, record_size,
};
use stonecast_media::Region as _;

use crate::memory::Memory;
use crate::server::{KEY_START, Server, log, pool, position, scan, stamp_placed, used};

/// A record for `unit`, stamped under a secret that the client invented.
fn forged(server: &Server<'_>, unit: u32, value: &[u8]) -> Vec<u8> {
    let format = LogFormat {
        secret: Some(Secret::new([0, 0])),
        ..pool()
    };
    let scratch = log();
    let copy = Server::first_use(&scratch, server.opening);
    copy.place(unit, b"forged", value);
    stamp_placed(
        &scratch,
        &format,
        unit,
        Stamp {
            sequence: 99,
            previous: 0,
            durable: 4,
            opening: server.opening,
        },
    );
    let mut bytes = vec![0; record_size(b"forged".len(), value.len()) as usize];
    scratch.read(position(unit), &mut bytes);
    bytes
}

/// Needs the check of the commit tag, even if the scan has lost its way.
#[test]
fn records_inside_a_value_are_never_found() {
    for torn in [false, true] {
        let memory = log();
        let mut server = Server::first_use(&memory, 1);
        let first = server.put_durably(b"a", b"");
        // The value fills its record to the last byte, and each of its lines is a forged record for its own place.
        let unit = server.state.end;
        let key = [b'k'; 2 * RECORD_START_SIZE - KEY_START as usize];
        let value: Vec<u8> = (unit + 2..unit + 34)
            .flat_map(|inside| forged(&server, inside, b"")[..64].to_vec())
            .collect();
        let entry = server.put(&key, &value);
        let mut expected = vec![first];
        if torn {
            memory.flip(position(unit) + KEY_START, 0);
        } else {
            expected.push(entry);
        }
        assert_eq!(scan(&memory).unwrap().1, expected);
    }
}

/// The free room of an extent, full of headers that claim the longest values.
#[test]
fn headers_that_claim_giant_records_are_refused() {
    let memory = log();
    let mut server = Server::first_use(&memory, 1);
    let first = server.put_durably(b"a", b"");
    let last = pool().segment_units();
    for unit in server.state.end..last - 20 {
        let mut line = forged(&server, unit, b"")[..64].to_vec();
        // The facts: a put of `rest` bytes, coded as `rest + 2`, a key of 6 bytes, generation 1.
        let rest = u64::from(last - unit) * UNIT_SIZE - 56 - 6;
        line[32..40].copy_from_slice(&((rest + 2) | 5 << 21 | 1 << 34).to_le_bytes());
        memory.write(position(unit), &line);
    }
    let above = server.put_above(200, b"b", b"");
    assert_eq!(scan(&memory).unwrap().1, [first, above]);
}

/// A client may still write its extent after its records were published. Changes are noticed; changed lengths are not
/// even trusted.
#[test]
fn a_published_record_that_its_client_rewrote_is_noticed() {
    let write = |memory: &Memory, unit: u32, offset: u64, word: u64| {
        memory.store(position(unit) + offset, word)
    };
    for (offset, word) in [
        (0, 9),
        (8, 1),
        (16, 1),
        (24, 1),
        (32, 1),
        (32, 2 << 21 | 1 << 34 | 0xf_ffff),
        (40, 1),
        (64, 1),
    ] {
        let memory = log();
        let mut server = Server::first_use(&memory, 1);
        let rewritten = server.put_durably(b"key", &[1; KEY_SIZE_MAX]);
        server.put_durably(b"b", b"");
        write(&memory, rewritten.unit, offset, word);
        assert_eq!(
            scan(&memory).unwrap_err().offset,
            position(rewritten.unit),
            "offset {offset}"
        );
    }
}

/// A record that was published elsewhere, copied with its stamp.
#[test]
fn a_published_record_copied_to_another_place_is_not_found() {
    let memory = log();
    let mut server = Server::first_use(&memory, 1);
    let entry = server.put_durably(b"a", b"");
    let mut line = [0; 128];
    memory.read(position(entry.unit), &mut line);
    memory.write(position(entry.unit + 10), &line);
    let (verdict, found) = scan(&memory).unwrap();
    assert_eq!(found, [entry]);
    assert_eq!(used(verdict).1.torn_tail, None);
}
