//! Clients that write records in forms that are reserved to the server.

use std::rc::Rc;

use stonecast_fabric::{Device, Operation, WorkRequest};
use stonecast_kv::{Client, ClientOptions, Condition, StoreError};
use stonecast_log::{LogFormat, Record, RecordHeader, STAMP_SIZE, relocate};
use stonecast_media::OpenMode;

use crate::fabric::{Provider, on_every_provider};
use crate::meddling::{self, Forge, Meddler};
use crate::world::{End, World};

/// Turns a client's record into a record that was moved when no sequence was left. `log` is the remote address of the
/// log for this client.
fn moved_at_the_end_of_time(format: LogFormat, opening: u32, log: u64) -> Forge {
    Box::new(move |device: &dyn Device, request: &WorkRequest| {
        let Operation::WriteWithImmediate { local, remote, .. } = request.operation else {
            return;
        };
        let memory = device.memory(local.region);
        let mut bytes = vec![0; STAMP_SIZE + local.size as usize];
        memory.read(local.offset, &mut bytes[STAMP_SIZE..]);
        bytes.resize(bytes.len().max(64), 0);
        let header = RecordHeader::parse(bytes.first_chunk().unwrap()).unwrap();
        let (key, value) =
            bytes[header.key_start()..header.whole_size() as usize].split_at(header.key_size());
        let position = remote.address - STAMP_SIZE as u64 - log;
        let mut forged = Vec::new();
        relocate(
            &format,
            Record { header, key, value },
            (position, header.generation(), opening),
            u64::MAX,
            &mut forged,
        );
        assert_eq!(
            forged.len(),
            STAMP_SIZE + local.size as usize,
            "a version takes as many bytes as a moment"
        );
        memory.write(local.offset, &forged[STAMP_SIZE..]);
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
            let port = meddling::port(&*world.fabric(), 1024, &meddler);
            // The overwrites of this client go through the server.
            let options = ClientOptions {
                publishes: false,
                ..ClientOptions::default()
            };
            let client = Client::connect_with(options, port, world.runtime(), &world.address())
                .await
                .unwrap();
            let version = client.put(b"key", b"1").await.unwrap();
            let pool = world.open_pool_for(OpenMode::Inspect);
            let format = LogFormat {
                uuid: pool.uuid().as_u128(),
                tag_key: pool.tag_key(),
                secret: None,
                segment_size: pool.segment_size(),
                segment_count: pool.segment_count(),
            };
            let forge = moved_at_the_end_of_time(
                format,
                pool.opening(),
                client.yardstick().unwrap().log.address,
            );
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
