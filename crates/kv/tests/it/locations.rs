//! Reads by remembered places: such a read takes one round trip, and is right however old the remembered place is.

use std::collections::HashMap;

use stonecast_base::hash::xxh3_64;
use stonecast_kv::{Client, ClientOptions, ClientPolicy, ServerOptions, Values};

use crate::fabric::on_every_provider;
use crate::world::{World, key};

async fn client_of(world: &World, locations: usize) -> Client {
    let (port, runtime) = world.port();
    let options = ClientOptions {
        locations,
        ..ClientOptions::default()
    };
    Client::connect_with(options, port, runtime, &world.address())
        .await
        .unwrap()
}

/// Reads by `get` and by `multi_get`, which must agree.
async fn read(client: &Client, key: &[u8]) -> Option<Vec<u8>> {
    let (mut value, mut values) = (Vec::new(), Values::default());
    let version = client.get(key, &mut value).await.unwrap();
    client.multi_get(&[key], &mut values).await.unwrap();
    assert_eq!(values.get(0), version.map(|version| (&*value, version)));
    version.map(|_| value)
}

/// Fails without the word of the bucket: a client that believes only its remembered places reads overwritten or deleted
/// records.
#[test]
pub fn writes_and_deletes_of_others_are_seen_whatever_a_client_remembers() {
    on_every_provider(|| {
        World::default().run(async |world| {
            let (reader, batches, writer) = (
                world.client().await,
                world.client().await,
                world.client().await,
            );
            let mut values = Values::default();
            writer.put(b"a", b"one").await.unwrap();
            assert_eq!(read(&reader, b"a").await.as_deref(), Some(&b"one"[..]));
            let known = !world.provider.reads_at_once();
            assert_eq!(
                reader.location_counts(),
                if known { (1, 1) } else { (0, 2) },
                "the second read knows the place"
            );
            for n in 0..20u64 {
                writer.put(b"a", &n.to_be_bytes()).await.unwrap();
                assert_eq!(read(&reader, b"a").await, Some(n.to_be_bytes().to_vec()));
                let expected = if known {
                    (n + 2, n + 2)
                } else {
                    (0, 2 * n + 4)
                };
                assert_eq!(
                    reader.location_counts(),
                    expected,
                    "one read finds the new place, the other knows it"
                );
                // A client that only reads batches meets the old place in a batch.
                batches.multi_get(&[b"b", b"a"], &mut values).await.unwrap();
                assert_eq!(
                    (values.get(0), values.get(1).map(|(value, _)| value)),
                    (None, Some(&n.to_be_bytes()[..]))
                );
            }
            assert!(writer.delete(b"a").await.unwrap());
            batches.multi_get(&[b"b", b"a"], &mut values).await.unwrap();
            assert_eq!((values.get(0), values.get(1)), (None, None));
            assert_eq!(read(&reader, b"a").await, None);
            writer.put(b"a", b"again").await.unwrap();
            assert_eq!(read(&reader, b"a").await.as_deref(), Some(&b"again"[..]));
        });
    });
}

/// Fails unless a put learns its place: the first read after the put is a hit. A client that copies does not know the
/// final place.
#[test]
fn a_client_knows_the_place_of_a_key_that_it_wrote() {
    on_every_provider(|| {
        for (clients, hits) in [(ClientPolicy::Trusted, 50), (ClientPolicy::Copying, 0)] {
            World {
                options: ServerOptions {
                    clients,
                    ..ServerOptions::default()
                },
                ..World::default()
            }
            .run(async |world| {
                let client = world.client().await;
                let mut value = Vec::new();
                for n in 0..50 {
                    client.put(&key(n), &n.to_be_bytes()).await.unwrap();
                }
                for n in 0..50 {
                    assert!(client.get(&key(n), &mut value).await.unwrap().is_some());
                    assert_eq!(value, n.to_be_bytes());
                }
                let hits = if world.provider.reads_at_once() {
                    0
                } else {
                    hits
                };
                assert_eq!(client.location_counts(), (hits, 50 - hits));
            });
        }
    });
}

/// Fails unless the mark is checked both in the bucket that confirms a remembered place and in a bucket that is read to
/// find the place: the old index still has the word of the old version, and its record is whole.
#[test]
pub fn an_index_that_has_moved_confirms_no_place() {
    on_every_provider(|| {
        World::default().run(async |world| {
            for (together, places) in [(false, 64), (false, 0), (true, 64), (true, 0)] {
                let (reader, writer) = (client_of(world, places).await, world.client().await);
                let asked = key(1_000_000);
                writer.put(&asked, b"old").await.unwrap();
                assert_eq!(read(&reader, &asked).await.as_deref(), Some(&b"old"[..]));
                let before = writer.stat().await.unwrap();
                let mut n = before.keys;
                while writer.stat().await.unwrap().index_growths == before.index_growths {
                    writer.put(&key(n), b"").await.unwrap();
                    n += 1;
                }
                writer.put(&asked, b"new").await.unwrap();
                let (mut value, mut values) = (Vec::new(), Values::default());
                match together {
                    true => {
                        reader.multi_get(&[&asked], &mut values).await.unwrap();
                        assert_eq!(values.get(0).map(|(value, _)| value), Some(&b"new"[..]));
                    }
                    false => {
                        reader.get(&asked, &mut value).await.unwrap();
                        assert_eq!(value, b"new");
                    }
                }
            }
        });
    });
}

/// Two keys with the same home bucket in a table of `buckets` and the same fingerprint.
fn twins(tag_key: u64, buckets: u64) -> [Vec<u8>; 2] {
    let mut seen = HashMap::new();
    for n in 0u64.. {
        let hash = xxh3_64(tag_key, &key(n));
        let home = (u128::from(hash) * u128::from(buckets)) >> 64;
        if let Some(other) = seen.insert((home, hash as u16), n) {
            return [key(other), key(n)];
        }
    }
    unreachable!("there are more keys than buckets and fingerprints")
}

/// Fails without the comparison of keys wherever a record is accepted.
#[test]
fn keys_with_equal_fingerprints_and_buckets_are_told_apart() {
    on_every_provider(|| {
        World::default().run(async |world| {
            let writer = world.client().await;
            let yardstick = writer.yardstick().unwrap();
            let [one, other] = twins(yardstick.tag_key, yardstick.index_size / 64);
            let readers = [client_of(world, 0).await, client_of(world, 64).await];
            let look = async |expected: [Option<&[u8]>; 2]| {
                for reader in readers.iter().chain([&writer]) {
                    for _ in 0..2 {
                        assert_eq!(read(reader, &one).await.as_deref(), expected[0]);
                        assert_eq!(read(reader, &other).await.as_deref(), expected[1]);
                    }
                }
            };
            writer.put(&one, b"one").await.unwrap();
            look([Some(b"one"), None]).await;
            writer.put(&other, b"other").await.unwrap();
            look([Some(b"one"), Some(b"other")]).await;
            assert!(writer.delete(&one).await.unwrap());
            look([None, Some(b"other")]).await;
        });
    });
}

/// Fails without the distance: keys that overflowed from a full home bucket are read in one round trip, too.
#[test]
fn keys_beside_their_home_buckets_are_remembered() {
    on_every_provider(|| {
        World::default().run(async |world| {
            const KEYS: u64 = 300;
            let (reader, writer) = (world.client().await, world.client().await);
            for n in 0..KEYS {
                writer.put(&key(n), &n.to_be_bytes()).await.unwrap();
            }
            for _ in 0..2 {
                for n in 0..KEYS {
                    assert_eq!(
                        reader.get(&key(n), &mut Vec::new()).await.unwrap(),
                        Some(n + 1)
                    );
                }
            }
            let (hits, misses) = reader.location_counts();
            let least = if world.provider.reads_at_once() {
                0
            } else {
                KEYS - 3
            };
            assert!(
                hits >= least && hits + misses == 2 * KEYS,
                "{hits} of the second {KEYS}"
            );
        });
    });
}

/// Fails without the bound of the table, and if a key that was evicted costs more than a round trip.
#[test]
fn a_client_that_remembers_few_places_or_none_reads_the_same() {
    on_every_provider(|| {
        World::default().run(async |world| {
            let clients = [
                client_of(world, 0).await,
                client_of(world, 1).await,
                client_of(world, 64).await,
            ];
            for n in 0..500u64 {
                clients[n as usize % 3]
                    .put(&key(n), &n.to_be_bytes())
                    .await
                    .unwrap();
            }
            let keys: Vec<Vec<u8>> = (0..600).map(key).collect();
            let keys: Vec<&[u8]> = keys.iter().map(Vec::as_slice).collect();
            let mut values = Values::default();
            for client in &clients {
                for n in 0..600u64 {
                    let there = (n < 500).then(|| n.to_be_bytes().to_vec());
                    assert_eq!(read(client, keys[n as usize]).await, there);
                }
                client.multi_get(&keys, &mut values).await.unwrap();
                for n in 0..600u64 {
                    assert_eq!(
                        values.get(n as usize).map(|(value, _)| value.to_vec()),
                        (n < 500).then(|| n.to_be_bytes().into())
                    );
                }
                let (hits, misses) = client.location_counts();
                assert_eq!(hits + misses, 600 * 3, "each key read is one or the other");
            }
            assert_eq!(clients[0].location_counts().0, 0);
        });
    });
}
