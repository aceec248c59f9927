//! Pools that are overwritten many times, and the cleaning of their segments.

use std::collections::BTreeMap;

use rand::RngExt as _;
use stonecast_kv::{Client, Condition, StoreError, Written, verify};
use stonecast_media::{Durability, OpenMode};

use crate::crash::check;
use crate::fabric::on_every_provider;
use crate::world::{End, World, key, value};

/// Bytes of a record of `key(n)` with a value of `size` bytes.
fn record_size(size: usize) -> u64 {
    (56 + 12 + size as u64).next_multiple_of(64)
}

/// Fails without cleaning, without the reserve of the cleaner, and without *busy* instead of *no space* while there is
/// something to clean.
#[test]
pub fn a_pool_takes_overwrites_many_times_its_capacity_over_kills_and_restarts() {
    on_every_provider(|| {
        for durability in [Durability::Process, Durability::Power] {
            let world = World {
                durability,
                ..World::small()
            };
            let mut model: BTreeMap<u64, Vec<u8>> = BTreeMap::new();
            let mut random = stonecast_base::random_from_seed(11);
            let mut written = 0;
            let keys = (world.capacity / 2) / record_size(500);
            for round in 0..3 {
                let end = if round % 2 == 0 {
                    End::Kill
                } else {
                    End::Close
                };
                world.run_until(end, async |world| {
                    let client = world.client().await;
                    check(&client, &model, keys).await;
                    let (mut cleaned, start) = (0, written);
                    // Each put of a durable pool waits for a disk.
                    let times = if durability == Durability::Power {
                        1
                    } else {
                        3
                    };
                    while cleaned < 4 * times || written < start + times * world.capacity {
                        for _ in 0..200 {
                            let n = random.random_range(0..keys);
                            let fresh = value(random.random(), 500);
                            if let Err(error) = client.put(&key(n), &fresh).await {
                                panic!(
                                    "round {round}: {error}: {:?}",
                                    client.metrics().await.map(|all| (all.stat, all.cleaning))
                                );
                            }
                            model.insert(n, fresh);
                            written += record_size(500);
                        }
                        cleaned = client.metrics().await.unwrap().cleaning.segments;
                        assert!(written < 400 * world.capacity, "something is cleaned");
                    }
                    check(&client, &model, keys).await;
                });
                assert_eq!(world.report.borrow().torn_tails, 0);
                let found =
                    verify(&world.open_pool_for(OpenMode::Inspect), &mut |_, _| {}).unwrap();
                assert!(
                    found.damage.is_empty() && found.keys == model.len() as u64,
                    "{found:?}"
                );
            }
            assert!(written > 3 * world.capacity, "{written}");
        }
    });
}

/// Fails unless tombstones are dropped, and segments are cleaned for the sake of tombstones: each of these keys leaves
/// a tombstone.
#[test]
pub fn keys_that_are_put_and_deleted_for_ever_do_not_fill_the_pool_with_tombstones() {
    on_every_provider(|| {
        let world = World::small();
        let mut model: BTreeMap<u64, Vec<u8>> = (0..100).map(|n| (n, value(n, 3000))).collect();
        let mut next = 1000;
        for round in 0..3 {
            world.run_until(End::Kill, async |world| {
                let client = world.client().await;
                for (&n, v) in &model {
                    client.put(&key(n), v).await.unwrap();
                }
                for _ in 0..6_000 {
                    client
                        .put(&key(next), b"short")
                        .await
                        .unwrap_or_else(|error| panic!("round {round}: {error}"));
                    assert!(client.delete(&key(next)).await.unwrap());
                    next += 1;
                }
                let cleaning = client.metrics().await.unwrap().cleaning;
                assert!(cleaning.dropped_tombstones > 2_000, "{cleaning:?}");
                // A sixteenth, and the tombstones added while the oldest segments are cleaned.
                assert!(
                    cleaning.tombstone_bytes < world.capacity / 4,
                    "{cleaning:?}"
                );
            });
            world.run_until(End::Kill, async |world| {
                let client = world.client().await;
                check(&client, &model, 200).await;
                assert_eq!(client.stat().await.unwrap().keys, 100, "nothing comes back");
                assert!(client.delete(&key(round)).await.unwrap());
                model.remove(&round);
                client.put(&key(round), b"again").await.unwrap();
                model.insert(round, b"again".to_vec());
            });
        }
    });
}

/// Fails without *busy* where there is something to gain, and without *no space* where there is not: live records may
/// fill the pool except for the reserve, and a pool with deleted keys takes new keys again.
#[test]
fn a_pool_full_of_live_data_refuses_puts_deletes_and_takes_puts_again() {
    on_every_provider(|| {
        let world = World {
            capacity: 8 << 20,
            segment_size: 256 << 10,
            ..World::default()
        };
        world.run(async |world| {
            let client = world.client().await;
            for round in 0..3 {
                let mut stored = 0;
                loop {
                    match client.put(&key(stored), &value(stored + round, 500)).await {
                        Ok(_) => stored += 1,
                        Err(StoreError::NoSpace { .. }) => break,
                        Err(error) => panic!("round {round}: {error}"),
                    }
                }
                let live = stored * record_size(500);
                assert!(
                    live * 100 > world.capacity * 80,
                    "round {round}: {live} of {} are live",
                    world.capacity
                );
                let mut read = Vec::new();
                for n in 0..stored {
                    assert!(client.get(&key(n), &mut read).await.unwrap().is_some());
                    assert_eq!(read, value(n + round, 500));
                }
                for n in 0..stored {
                    assert!(
                        client.delete(&key(n)).await.unwrap(),
                        "round {round}: {n} of {stored}"
                    );
                }
                assert_eq!(client.stat().await.unwrap().keys, 0);
            }
        });
    });
}

/// Fails unless unused leases are taken back: each of these clients keeps a segment, and no client ever returns one.
#[test]
fn idle_clients_that_keep_their_leases_block_no_other_client() {
    on_every_provider(|| {
        let world = World::small();
        world.run(async |world| {
            let mut idle = Vec::new();
            for n in 0..3 {
                let client = world.client().await;
                client.put(&key(n), b"mine").await.unwrap();
                idle.push(client);
            }
            let client = world.client().await;
            let mut refused = 0;
            for n in 0..6000 {
                while let Err(error) = client.put(&key(100 + n % 750), &value(n, 1000)).await {
                    assert!(matches!(error, StoreError::NoSpace { .. }), "{error}");
                    refused += 1;
                    assert!(
                        refused < 100,
                        "put {n}: {:?}",
                        client.metrics().await.map(|all| (all.stat, all.cleaning))
                    );
                    world.runtime().sleep(200_000_000).await;
                }
            }
            assert!(client.metrics().await.unwrap().cleaning.reclaimed_leases > 0);
            // The idle clients find their keys, and write again.
            client.close().await;
            for (n, client) in (0..).zip(idle) {
                assert!(
                    client
                        .get(&key(n), &mut Vec::new())
                        .await
                        .unwrap()
                        .is_some()
                );
                client.put(&key(n), b"still mine").await.unwrap();
                client.close().await;
            }
        });
    });
}

/// Fails without the record of a freed segment's tokens (`tokens_lost` in `recover`): a scan cannot find the tokens
/// that were freed with the segment, and a write that was done would be done again.
#[test]
pub fn a_pool_whose_index_is_lost_forgets_no_version_and_guesses_no_outcome() {
    on_every_provider(|| {
        let world = World::small();
        let mut latest = 0;
        let mut first = None;
        world.run(async |world| {
            let client = world.client().await;
            for n in 0..3000 {
                let mut token = client.token();
                client
                    .put_with(&mut token, &key(n % 50), &value(n, 1000), Condition::None)
                    .await
                    .unwrap();
                first.get_or_insert(token);
            }
            let known = client
                .put_with(&mut first.clone().unwrap(), &key(0), b"", Condition::None)
                .await
                .unwrap();
            assert_eq!(known, Written::Done(1), "a living server remembers");
            for n in 0..50 {
                assert!(client.delete(&key(n)).await.unwrap());
            }
            assert!(client.metrics().await.unwrap().cleaning.segments > 5);
            latest = client.stat().await.unwrap().sequence;
        });
        std::fs::remove_file(world.pool_path().join("checkpoint")).unwrap();
        world.run(async |world| {
            assert!(!world.report.borrow().used_checkpoint);
            let client = world.client().await;
            check(&client, &BTreeMap::new(), 50).await;
            assert!(
                client.put(b"k", b"v").await.unwrap() > latest,
                "versions grow"
            );
            let error = client
                .put_with(first.as_mut().unwrap(), &key(0), b"", Condition::None)
                .await
                .unwrap_err();
            assert!(
                matches!(error, StoreError::Forgotten),
                "the record went with its segment: {error}"
            );
        });
    });
}

/// Fails unless the generations of segments are compared with the generations in the checkpoint.
#[test]
pub fn a_checkpoint_that_names_places_used_again_is_not_believed() {
    on_every_provider(|| {
        let world = World::small();
        let mut model: BTreeMap<u64, Vec<u8>> = (0..300).map(|n| (n, value(n, 3000))).collect();
        world.run(async |world| {
            let client = world.client().await;
            for (&n, v) in &model {
                client.put(&key(n), v).await.unwrap();
            }
        });
        world.run_until(End::Kill, async |world| {
            assert!(world.report.borrow().used_checkpoint);
            let client = world.client().await;
            let mut n = 0;
            while client.metrics().await.unwrap().cleaning.segments < 3 {
                client
                    .put(&key(n % 100), &value(n + 1, 3000))
                    .await
                    .unwrap();
                model.insert(n % 100, value(n + 1, 3000));
                n += 1;
            }
        });
        world.run(async |world| {
            assert!(
                !world.report.borrow().used_checkpoint,
                "words of the checkpoint may name records that are gone"
            );
            check(&world.client().await, &model, 400).await;
        });
    });
}

/// Fails unless recovery finds the dead records (`Occupancy` in `rebuild`): a pool whose server was killed when puts
/// found no free segment is cleaned by the next server, from the first put on.
#[test]
fn a_pool_that_has_to_be_cleaned_when_it_is_opened_takes_writes_at_once() {
    on_every_provider(|| {
        let world = World::small();
        let mut model = BTreeMap::new();
        let mut next = 0;
        let put = async |client: &Client, next: &mut u64, model: &mut BTreeMap<u64, Vec<u8>>| {
            let fresh = value(*next, 1000);
            client
                .put(&key(*next % 300), &fresh)
                .await
                .unwrap_or_else(|error| panic!("put {next}: {error}"));
            model.insert(*next % 300, fresh);
            *next += 1;
        };
        world.run_until(End::Kill, async |world| {
            let client = world.client().await;
            while client.metrics().await.unwrap().cleaning.segments == 0 {
                put(&client, &mut next, &mut model).await;
            }
        });
        world.run(async |world| {
            let client = world.client().await;
            let stat = client.stat().await.unwrap();
            // The reserve of such a pool is two segments.
            assert!(stat.segments_free <= 3, "{stat:?}");
            for _ in 0..2 * world.capacity / 1152 {
                put(&client, &mut next, &mut model).await;
            }
            assert!(client.metrics().await.unwrap().cleaning.segments > 4);
            check(&client, &model, 300).await;
        });
    });
}
