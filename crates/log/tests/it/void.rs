//! Records that were taken back after they were stamped, and segments that a client has stamped.

use stonecast_base::Span;
use stonecast_log::{
    Condition, Draft, Form, Found, Kind, SegmentState, Stamp, UNIT_SIZE, commit_tag_position,
    record_size, void_tag, walk_some,
};
use stonecast_media::Region as _;

use crate::memory::Memory;
use crate::server::{Entry, SEGMENT, Server, entry, log, pool, position, scan, used};

/// Takes the record `entry` back, durably.
fn make_void(memory: &Memory, entry: &Entry) {
    let at = commit_tag_position(position(entry.unit));
    memory.store(at, void_tag(memory.load(at)));
    memory.persist(&[Span::new(at, 8)]);
}

/// A client that stamps its own records: its extent and the links there.
struct Writer<'m> {
    memory: &'m Memory,
    unit: u32,
    last: u32,
    durable: u32,
}

impl<'m> Writer<'m> {
    fn of(memory: &'m Memory, state: &SegmentState) -> Self {
        Self {
            memory,
            unit: state.end,
            last: state.last,
            durable: state.durable,
        }
    }

    /// Writes a record with its stamp, but only `arrived` bytes of it arrive.
    fn put(&mut self, sequence: u64, key: &[u8], value: &[u8], arrived: usize) -> Entry {
        let draft = Draft {
            kind: Kind::Put,
            form: Form::Whole,
            condition: Condition::None,
            token: 0,
            expires: None,
            key,
            value,
        };
        let size = record_size(key.len(), value.len());
        let at = position(self.unit);
        let mut bytes = Vec::new();
        let tag = draft.encode(&pool(), at, 1, 1, &mut bytes);
        let stamp = Stamp {
            sequence,
            previous: self.last,
            durable: self.durable,
            opening: 1,
        };
        stamp.put_into(&mut bytes, &pool(), at, 1, tag, size);
        self.memory.write(at, &bytes[..arrived.min(bytes.len())]);
        let entry = Entry {
            unit: self.unit,
            sequence,
            opening: 1,
            key: key.to_vec(),
            value: value.to_vec(),
        };
        self.last = self.unit;
        self.unit += (size / UNIT_SIZE) as u32;
        entry
    }
}

fn walked(memory: &Memory) -> Vec<(u32, bool)> {
    let mut all = Vec::new();
    walk_some(
        memory,
        &pool(),
        (SEGMENT, 1),
        (4, pool().segment_units()),
        &mut |batch| {
            all.extend(batch.iter().map(|found| (entry(found).unit, found.is_void)));
        },
    );
    all
}

/// Needs the void standing in the walk, and needs listeners not to see void records: otherwise the record counts, or
/// its absence is damage.
#[test]
fn a_void_record_names_no_key_and_its_absence_is_not_damage() {
    let memory = log();
    let mut server = Server::first_use(&memory, 1);
    let entries: Vec<Entry> = (0..5u8)
        .map(|n| server.put_durably(&[b'k', n], &[n; 100]))
        .collect();
    for taken_back in [&entries[2], &entries[4]] {
        make_void(&memory, taken_back);
    }
    let (verdict, found) = scan(&memory).unwrap();
    let (state, report) = used(verdict);
    assert_eq!(
        found,
        [entries[0].clone(), entries[1].clone(), entries[3].clone()]
    );
    // The sequence of the void record was given out nonetheless.
    assert_eq!(
        (
            report.records,
            report.sequence_max,
            report.torn_tail,
            state.count
        ),
        (3, 5, None, 5)
    );
    assert_eq!(
        walked(&memory)
            .iter()
            .filter(|(_, is_void)| *is_void)
            .count(),
        2
    );
}

/// Needs the stored tag of the void record in the XOR of the seal.
#[test]
fn a_sealed_segment_with_records_made_void_before_the_seal_is_whole() {
    let memory = log();
    let mut server = Server::first_use(&memory, 1);
    let entries: Vec<Entry> = (0..4u8)
        .map(|n| server.put_durably(&[b'k', n], b"v"))
        .collect();
    make_void(&memory, &entries[1]);
    let (recovered, found) = Server::recover(&memory, 2).unwrap();
    assert_eq!((found.len(), recovered.state.count), (3, 4));
    let (recovered, found) = Server::recover(&memory, 3).unwrap();
    assert_eq!(
        (found.len(), recovered.state.seal_end),
        (3, recovered.state.end)
    );
    // A record made void below the seal is ordinary damage: its client could not do that, because the lease was over.
    make_void(&memory, &entries[2]);
    assert!(scan(&memory).is_err());
}

/// The server takes over records that a client stamped, with their links: a scan and a seal find
/// them as if the server had stamped them.
#[test]
fn stamped_records_of_a_client_are_taken_over_and_unfinished_ones_are_not() {
    let memory = log();
    let mut server = Server::first_use(&memory, 1);
    let first = server.put_durably(b"first", b"of the server");
    let mut writer = Writer::of(&memory, &server.state);
    let mut entries: Vec<Entry> = (0..6u8)
        .map(|n| writer.put(10 + u64::from(n), &[b'w', n], &[n; 90], usize::MAX))
        .collect();
    // The stamp has arrived and the end of the value has not.
    let torn = writer.put(16, b"torn", &[9; 200], 100);
    let named = |found: &Found<'_>| found.header.sequence().is_multiple_of(3);
    let changed = server
        .state
        .take_over(&memory, &pool(), &mut |found| !named(found));
    memory.persist(&[changed.expect("some records became void")]);
    server.state.note_durable();
    assert_eq!(
        (server.state.count, server.state.last, server.state.end),
        (7, entries[5].unit, torn.unit)
    );
    // Nothing is left of the torn record that the next record at its place could complete.
    assert_eq!(memory.load(commit_tag_position(position(torn.unit))), 0);
    entries.retain(|entry| entry.sequence % 3 == 0);
    entries.insert(0, first);
    assert_eq!(scan(&memory).unwrap().1, entries);
    server.next_sequence = 20;
    entries.push(server.put_durably(b"next", b"of the server"));
    server.seal();
    let (state, _) = used(scan(&memory).unwrap().0);
    assert_eq!(
        (scan(&memory).unwrap().1, state.xor),
        (entries, server.state.xor)
    );
}

/// Needs the call to write nothing if there is nothing to make void: such a page stays clean.
#[test]
fn taking_over_whole_and_named_records_changes_nothing() {
    let memory = log();
    let mut server = Server::first_use(&memory, 1);
    let mut writer = Writer::of(&memory, &server.state);
    for n in 0..40u8 {
        writer.put(1 + u64::from(n), &[b'w', n], &[n; 90], usize::MAX);
    }
    assert_eq!(
        server.state.take_over(&memory, &pool(), &mut |_| false),
        None
    );
    assert_eq!(server.state.count, 40);
    assert_eq!(
        server.state.take_over(&memory, &pool(), &mut |_| false),
        None
    );
    assert_eq!(server.state.count, 40);
}
