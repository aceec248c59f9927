//! Clients that write records in forms that are reserved to the server.

use std::rc::Rc;

use stonecast_fabric::{Device, Operation, WorkRequest};
use stonecast_kv::limits::{BATCH_KEYS_MAX, BATCH_NAMES_MAX};
use stonecast_kv::{Batch, Condition, Expectation, StoreError};
use stonecast_log::{Draft, Kind, LogFormat, RecordHeader, STAMP_SIZE, relocate};

use crate::fabric::{Provider, on_every_provider};
use crate::meddling::{self, Forge, Meddler};
use crate::world::{End, World, key};

/// Turns a client's record into a record that was moved when no sequence was left. `log` is the remote address of the
/// log for this client.
fn moved_at_the_end_of_time(format: LogFormat, opening: u32, log: u64) -> Forge {
    meddling::forge_records(log, move |record, position| {
        let mut forged = Vec::new();
        let place = (position, record.header.generation(), opening);
        relocate(&format, record, place, u64::MAX, &mut forged);
        Some(forged)
    })
}

/// Fails unless `take_record` checks the rule: with a stamp, such a record would be later than all following records of
/// its segment, and the next opening would take that for damage.
#[test]
fn a_client_s_record_that_claims_to_be_moved_is_refused_and_does_no_harm() {
    on_every_provider(|| {
        if !Provider::chosen().leases_extents() {
            // The server encodes copied records anew.
            return;
        }
        let world = World::default();
        world.run_until(End::Kill, async |world| {
            let meddler = Rc::new(Meddler::default());
            let client = meddling::client(world, &meddler).await;
            let version = client.put(b"key", b"1").await.unwrap();
            let (format, opening, log) = meddling::log_of(world, &client);
            let forge = moved_at_the_end_of_time(format, opening, log);
            meddler.forge.replace(Some(forge));
            let forged = client
                .put_if(b"key", b"forged", Condition::Version(version))
                .await;
            assert!(matches!(forged, Err(StoreError::Invalid)), "{forged:?}");
            meddler.forge.replace(None);
            // The next record of the same segment.
            client.put(b"key", b"2").await.unwrap();
        });
        world.run(async |world| {
            let mut found = Vec::new();
            world.client().await.get(b"key", &mut found).await.unwrap();
            assert_eq!(found, b"2");
        });
    });
}

/// Bytes of an entry of a batch before its key.
const ENTRY_SIZE: usize = 24;

/// Changes the entries of a batch on its way to the server.
fn with_other_entries(
    format: LogFormat,
    opening: u32,
    log: u64,
    change: impl Fn(&mut Vec<u8>) + 'static,
) -> Forge {
    Box::new(move |device: &dyn Device, request: &WorkRequest| {
        let Operation::WriteWithImmediate { local, remote, .. } = request.operation else {
            return;
        };
        let memory = device.memory(local.region);
        let mut bytes = vec![0; STAMP_SIZE + local.size as usize];
        memory.read(local.offset, &mut bytes[STAMP_SIZE..]);
        let header = RecordHeader::parse(bytes.first_chunk().unwrap()).unwrap();
        let (key, entries) =
            bytes[header.key_start()..header.whole_size() as usize].split_at(header.key_size());
        let mut entries = entries.to_vec();
        change(&mut entries);
        let draft = Draft {
            kind: Kind::Put,
            form: header.form(),
            condition: header.condition(),
            token: header.token(),
            expires: header.expires(),
            key,
            value: &entries,
        };
        let position = remote.address - STAMP_SIZE as u64 - log;
        let mut forged = Vec::new();
        draft.encode(&format, position, header.generation(), opening, &mut forged);
        memory.write(local.offset, &forged[STAMP_SIZE..]);
    })
}

/// Needs the limits at the server. The client has limits of its own.
#[test]
fn a_client_cannot_make_a_batch_longer_than_the_limits() {
    if !Provider::chosen().leases_extents() {
        // The server encodes copied records anew.
        return;
    }
    let world = World {
        segment_size: 2 << 20,
        capacity: 16 << 20,
        ..World::default()
    };
    world.run(async |world| {
        let meddler = Rc::new(Meddler::default());
        let client = meddling::client(world, &meddler).await;
        client.put(b"z", b"1").await.unwrap();
        let (format, opening, log) = meddling::log_of(world, &client);
        let with = |change: fn(&mut Vec<u8>)| {
            let forge = with_other_entries(format, opening, log, change);
            meddler.forge.replace(Some(forge));
        };
        // The last entry, which only expects a key of one byte, becomes a delete.
        let mut changes = Batch::new();
        for n in 0..BATCH_KEYS_MAX as u64 {
            changes.delete(&key(n));
        }
        changes.expect(b"z", Expectation::Present);
        with(|entries| {
            let last = entries.len() - ENTRY_SIZE - 1;
            entries[last] = 2;
        });
        let forged = client.apply(&changes).await;
        assert!(matches!(forged, Err(StoreError::Invalid)), "{forged:?}");
        // The last entry, of a long key, becomes two entries of keys of one byte.
        let mut names = Batch::new();
        for n in 1..BATCH_NAMES_MAX as u64 {
            names.expect(&key(n), Expectation::Absent);
        }
        names.expect(&[b'z'; ENTRY_SIZE + 2], Expectation::Absent);
        with(|entries| {
            let last = entries.split_off(entries.len() - 2 * (ENTRY_SIZE + 1));
            for key in [b'x', b'y'] {
                let mut entry = last[..ENTRY_SIZE].to_vec();
                entry[2] = 1;
                entry.push(key);
                entries.extend(entry);
            }
        });
        let forged = client.apply(&names).await;
        assert!(matches!(forged, Err(StoreError::Invalid)), "{forged:?}");
        // The server takes both as they are.
        meddler.forge.replace(None);
        client.apply(&changes).await.unwrap();
        client.apply(&names).await.unwrap();
        let mut found = Vec::new();
        assert!(client.get(b"z", &mut found).await.unwrap().is_some());
    });
}
