//! Media that give no space, fail, or make nothing durable.

use stonecast_kv::{Effect, StoreError};
use stonecast_media::OpenMode;

use crate::fabric::on_every_provider;
use crate::trouble::Trouble;
use crate::world::{End, World, key, value};

/// Fails unless the reserve gets its space before any put (`Space::prepare_reserve`): the first delete on a full file
/// system is refused. Fails without `Space::lacks_medium` where a put is refused: most of the pool is free.
#[test]
fn on_a_full_file_system_puts_are_refused_and_deletes_and_reads_go_on() {
    on_every_provider(|| {
        let world = World {
            capacity: 8 << 20,
            segment_size: 256 << 10,
            ..World::default()
        };
        let mut stored = 0;
        world.run_until(End::Kill, async |world| {
            let client = world.client().await;
            for _ in 0..200 {
                client
                    .put(&key(stored), &value(stored, 2000))
                    .await
                    .unwrap();
                stored += 1;
            }
            world.trouble.set(Trouble::Full);
            loop {
                match client.put(&key(stored), &value(stored, 2000)).await {
                    Ok(_) => stored += 1,
                    Err(StoreError::MediumFull) => break,
                    Err(error) => panic!("{error}"),
                }
            }
            assert!(
                stored < 3000,
                "the file system was full, not the pool: {stored}"
            );
            let mut read = Vec::new();
            for n in 0..stored {
                assert!(client.get(&key(n), &mut read).await.unwrap().is_some());
            }
            for n in 0..stored {
                assert!(client.delete(&key(n)).await.unwrap(), "key {n} of {stored}");
            }
            world.trouble.set(Trouble::None);
            client.put(b"again", b"x").await.unwrap();
        });
        world.run(async |world| assert_eq!(world.client().await.stat().await.unwrap().keys, 1));
    });
}

/// Fails without `store_checkpoint` at the end of a server: its user sees a failure, though nothing is lost. In the
/// first run there is no checkpoint; in the second run there is an old one, and no part of it may be believed.
#[test]
fn a_server_on_a_full_file_system_closes_in_order_and_the_next_one_finds_everything() {
    on_every_provider(|| {
        let world = World::small();
        let mut stored = 0;
        let mut put_some = async |world: &World| {
            let client = world.client().await;
            for _ in 0..100 {
                client
                    .put(&key(stored), &value(stored, 1000))
                    .await
                    .unwrap();
                stored += 1;
            }
            stored
        };
        for round in 0..3 {
            let count = world.run(async |world| {
                let count = put_some(world).await;
                if round != 1 {
                    world.trouble.set(Trouble::Full);
                }
                count
            });
            world.trouble.set(Trouble::None);
            assert!(world.open_pool_for(OpenMode::Inspect).was_clean());
            world.run(async |world| {
                let report = world.report.borrow().clone();
                let has_checkpoint = round == 1;
                assert_eq!(
                    (report.used_checkpoint, report.lacks_checkpoint),
                    (has_checkpoint, !has_checkpoint),
                    "round {round}"
                );
                let client = world.client().await;
                for n in 0..count {
                    assert!(
                        client
                            .get(&key(n), &mut Vec::new())
                            .await
                            .unwrap()
                            .is_some()
                    );
                }
            });
        }
    });
}

/// Fails without the separate verdict in `take_own` and `grant_lease`: an error of the medium that only costs space
/// ends neither the server nor any reads, and is not reported as a full pool.
#[test]
fn a_medium_that_fails_to_allocate_space_fails_only_the_write_that_needs_it() {
    on_every_provider(|| {
        let world = World {
            capacity: 64 << 20,
            segment_size: 256 << 10,
            ..World::default()
        };
        world.run(async |world| {
            let client = world.client().await;
            client.put(b"k", b"v").await.unwrap();
            world.trouble.set(Trouble::SpaceBroken);
            let mut next = 0;
            let error = loop {
                match client.put(&key(next), &value(next, 20_000)).await {
                    Ok(_) => next += 1,
                    Err(error) => break error,
                }
            };
            assert!(
                matches!(error, StoreError::SpaceFailed) && error.effect() == Effect::None,
                "{error}"
            );
            assert!(client.get(b"k", &mut Vec::new()).await.unwrap().is_some());
            assert!(client.stat().await.unwrap().space_failures > 0);
            world.trouble.set(Trouble::None);
            client.put(&key(next), &value(next, 20_000)).await.unwrap();
        });
    });
}

/// Fails without `end_all_sessions` where `run` ends with an error: a client that waits for an answer waits forever.
#[test]
fn clients_of_a_server_that_fails_to_persist_are_disconnected_while_the_server_exists() {
    on_every_provider(|| {
        let world = World {
            durability: stonecast_media::Durability::Power,
            ..World::default()
        };
        world.run_until(End::Kill, async |world| {
            let (first, second) = (world.client().await, world.client().await);
            first.put(b"k", b"v").await.unwrap();
            world.trouble.set(Trouble::SyncBroken);
            assert!(matches!(
                first.put(b"k", b"w").await,
                Err(StoreError::NotPersisted)
            ));
            // The client sends its request to a server that has stopped.
            let error = second.put(b"k", b"x").await.unwrap_err();
            assert!(matches!(error, StoreError::Disconnected { .. }), "{error}");
            world.trouble.set(Trouble::None);
        });
        assert!(matches!(*world.ended.borrow(), Some(Err(_))));
    });
}
