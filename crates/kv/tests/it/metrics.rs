//! The counters of clients and server, and their exact values.

use stonecast_kv::{Client, ClientPath, Condition, Metrics, SAMPLE, Values};
use stonecast_media::Durability;

use crate::fabric::on_every_provider;
use crate::world::World;

async fn gateway(world: &World) -> Client {
    let (port, runtime) = world.port();
    Client::connect_as(ClientPath::Gateway, port, runtime, &world.address())
        .await
        .unwrap()
}

/// Fails unless a read that cannot end in the call leaves the call before a useless read of a
/// record.
#[test]
fn each_byte_of_a_long_record_is_read_once() {
    on_every_provider(|| {
        World::default().run(async |world| {
            let (writer, reader) = (world.client().await, world.client().await);
            writer.put(b"short", b"1").await.unwrap();
            writer.put(b"long", &[7; 20_000]).await.unwrap();
            let mut found = Vec::new();
            // The first READ maps the memory; a provider may execute the next READs in the call.
            reader.get(b"short", &mut found).await.unwrap();
            reader.get(b"long", &mut found).await.unwrap();
            assert_eq!(found, [7; 20_000]);
            reader.close().await;
            // A header of 56 bytes, key and value, in units of 64 bytes; and the bucket, which is read twice if the
            // call gave up.
            let record = (56 + 4 + 20_000_u64).next_multiple_of(64);
            let read_bytes = writer.metrics().await.unwrap().one_sided.read_bytes;
            let read = read_bytes - 2 * 64;
            assert!(
                (record + 64..=record + 2 * 64).contains(&read),
                "{read} bytes for a record of {record}"
            );
        });
    });
}

/// Fails without the path in a client's hello, without reports, and without the report before a client closes.
#[test]
fn both_paths_are_told_apart_and_all_calls_of_a_client_are_known_once_the_client_has_closed() {
    on_every_provider(|| {
        World::default().run(async |world| {
            let (one_sided, gateway, observer) = (
                world.client().await,
                gateway(world).await,
                world.client().await,
            );
            let mut value = Vec::new();
            for _ in 0..3 {
                one_sided.put(b"a", b"12345").await.unwrap();
            }
            one_sided.get(b"a", &mut value).await.unwrap();
            one_sided.get(b"nothing", &mut value).await.unwrap();
            gateway.put(b"b", b"1").await.unwrap();
            gateway.put_if(b"b", b"2", Condition::Absent).await.unwrap();
            assert!(gateway.delete(b"b").await.unwrap());
            gateway
                .multi_get(&[b"a", b"b", b"c"], &mut Values::default())
                .await
                .unwrap();
            let before = observer.metrics().await.unwrap();
            assert_eq!((before.one_sided.clients, before.gateway.clients), (2, 1));
            assert_eq!(
                before.one_sided.reads, 0,
                "reads pass no server, and these are not reported yet"
            );
            gateway.report().await.unwrap();
            assert_eq!(observer.metrics().await.unwrap().gateway.reads, 3);
            one_sided.close().await;
            let Metrics {
                one_sided,
                gateway,
                stat,
                leases,
                ..
            } = observer.metrics().await.unwrap();
            assert_eq!(
                (
                    one_sided.reads,
                    one_sided.puts,
                    one_sided.deletes,
                    one_sided.refused
                ),
                (2, 3, 0, 0)
            );
            assert_eq!(
                (
                    gateway.reads,
                    gateway.puts,
                    gateway.deletes,
                    gateway.refused
                ),
                (3, 1, 1, 1)
            );
            assert_eq!(
                (stat.puts, stat.deletes, stat.refused),
                (4, 1, 1),
                "the sums are what they were"
            );
            // A record takes a header of 56 bytes, key and value, in units of 64 bytes.
            assert_eq!(
                (one_sided.written_bytes, gateway.written_bytes),
                (3 * 64, 2 * 64)
            );
            // A bucket of 64 bytes for each key, and the one present record.
            assert_eq!(
                (one_sided.read_bytes, gateway.read_bytes),
                (64 + 64 + 64, 3 * 64 + 64)
            );
            // A client that writes into staging memory leases nothing, and does not know the places of its writes.
            let one = u64::from(world.provider.leases_extents());
            assert_eq!(leases, one, "the gateway's; the other was given back");
            assert!(
                one_sided.round_trips >= 3 + 2,
                "three puts, and a batch of READs for each of two gets"
            );
            let hits = if world.provider.reads_at_once() {
                0
            } else {
                one
            };
            assert_eq!(
                (one_sided.location_hits, one_sided.location_misses),
                (hits, 2 - hits),
                "one hit for its own key, and one absent key"
            );
            assert_eq!(
                (gateway.location_hits, gateway.location_misses),
                (0, 3),
                "a deleted key is forgotten"
            );
        });
    });
}

/// Fails unless every 64th call is timed, and a busy client reports.
#[test]
fn a_busy_client_reports_and_times_some_of_its_calls() {
    on_every_provider(|| {
        World::default().run(async |world| {
            let (client, observer) = (world.client().await, world.client().await);
            client.put(b"a", b"1").await.unwrap();
            let (mut value, mut calls, mut seen) = (Vec::new(), 1, Metrics::default());
            while seen.one_sided.reads < 1000 {
                // Ten pauses are longer than the time between two reports.
                world.runtime().sleep(110_000_000).await;
                for _ in 0..640 {
                    client.get(b"a", &mut value).await.unwrap();
                }
                calls += 640;
                world.runtime().sleep(10_000_000).await;
                seen = observer.metrics().await.unwrap();
                assert!(calls < 64_000, "a busy client reports its reads");
            }
            client.close().await;
            let metrics = observer.metrics().await.unwrap().one_sided;
            assert_eq!((metrics.reads, metrics.puts), (calls - 1, 1));
            assert_eq!(metrics.read_latencies.count(), calls / 64);
            assert!(
                metrics.read_latencies.sum_ns > 0 && metrics.read_latencies.quantile(0.5).is_some()
            );
        });
    });
}

/// Fails unless each pair is one call, whichever way it is written: otherwise twice as many calls are timed as were
/// made.
#[test]
fn every_pair_of_many_puts_is_counted_once() {
    World::default().run(async |world| {
        let (client, observer) = (world.client().await, world.client().await);
        let keys: Vec<[u8; 2]> = (0..640u16).map(u16::to_le_bytes).collect();
        let pairs: Vec<(&[u8], &[u8])> = keys.iter().map(|key| (&key[..], &key[..])).collect();
        let mut outcomes = Vec::new();
        client.multi_put(&pairs, &mut outcomes).await;
        assert!(outcomes.iter().all(Result::is_ok));
        client.close().await;
        let metrics = observer.metrics().await.unwrap().one_sided;
        assert_eq!(metrics.puts, 640);
        assert_eq!(metrics.write_latencies.count(), 640 / SAMPLE as u64);
    });
}

/// Fails without the counts where bytes are made durable.
#[test]
fn write_backs_fences_and_syncs_are_counted() {
    World {
        durability: Durability::Power,
        ..World::default()
    }
    .run(async |world| {
        let client = world.client().await;
        let before = client.metrics().await.unwrap();
        for _ in 0..5 {
            client.put(b"a", b"1").await.unwrap();
        }
        let after = client.metrics().await.unwrap();
        assert_eq!(after.stat.persists - before.stat.persists, 5);
        assert_eq!(
            after.syncs - before.syncs,
            5,
            "one by one, each has a sync of its own"
        );
        assert_eq!(
            (after.write_backs, after.fences),
            (0, 0),
            "a file is synced as a whole"
        );
    });
}

/// Fails unless every client of a log that is synced as a file gets staging memory: a page to which a client has stored
/// costs each sync an interrupt of that client's processor.
#[test]
fn no_client_writes_to_a_log_that_is_synced_as_a_file() {
    for durability in [Durability::Process, Durability::Power] {
        World {
            durability,
            ..World::default()
        }
        .run(async move |world| {
            let client = world.client().await;
            client.put(b"a", b"1").await.unwrap();
            let leases = client.metrics().await.unwrap().leases;
            let may_lease = durability == Durability::Process && world.provider.leases_extents();
            assert_eq!(leases > 0, may_lease, "{durability:?}: {leases} leases");
        });
    }
}
