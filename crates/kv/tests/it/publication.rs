//! Clients that publish their overwrites themselves, beside others and the server.

use std::collections::BTreeMap;

use rand::RngExt as _;
use stonecast_base::random_from_seed;
use stonecast_kv::{
    Client, ClientOptions, ClientPolicy, Closing, Condition, ServerOptions, StoreError, Written,
};
use stonecast_media::{Durability, OpenMode};

use crate::fabric::{Provider, on_every_provider};
use crate::world::{End, World, key, value};

fn publishing(world: World) -> World {
    World {
        options: ServerOptions {
            clients: ClientPolicy::Publishing,
            ..ServerOptions::default()
        },
        ..world
    }
}

async fn modest_client(world: &World) -> Client {
    let (port, runtime) = world.port();
    let options = ClientOptions {
        publishes: false,
        ..ClientOptions::default()
    };
    Client::connect_with(options, port, runtime, &world.address())
        .await
        .unwrap()
}

async fn expect(client: &Client, model: &BTreeMap<u64, Vec<u8>>) {
    let mut found = Vec::new();
    for (&n, expected) in model {
        assert!(
            client.get(&key(n), &mut found).await.unwrap().is_some(),
            "key {n} is there"
        );
        assert!(found == *expected, "key {n} has its value");
    }
}

/// Batches that the server has served so far. A put that its client publishes needs none.
async fn batches(client: &Client) -> u64 {
    client.stat().await.unwrap().batches
}

#[test]
fn an_overwrite_needs_no_answer_of_the_server_and_survives_its_death() {
    on_every_provider(|| {
        let world = publishing(World::default());
        let mut model = BTreeMap::new();
        world.run_until(End::Kill, async |world| {
            let (writer, reader) = (world.client().await, world.client().await);
            for n in 0..100 {
                writer.put(&key(n), &value(n, 50)).await.unwrap();
            }
            // The first overwrite asks for rights and an extent, whose space may have to be prepared.
            let mut asked_before = 0;
            let before = loop {
                let before = batches(&reader).await;
                writer.put(&key(0), b"first").await.unwrap();
                asked_before += 1;
                let after = batches(&reader).await;
                if after == before + 1 {
                    break after;
                }
                assert!(asked_before < 1000, "a client comes to its rights");
                world.runtime().sleep(1_000_000).await;
            };
            let mut versions = Vec::new();
            for round in 1..6 {
                for n in 0..100 {
                    let value = value(round * 1000 + n, 10 + (n * 7 + round * 13) as usize);
                    versions.push(writer.put(&key(n), &value).await.unwrap());
                    model.insert(n, value);
                }
            }
            assert!(versions.is_sorted_by(|a, b| a < b), "versions grow");
            // Each question of the clients is a batch.
            let asked = batches(&reader).await - before;
            assert!(
                asked <= 3,
                "nobody asked the server: {asked} batches, {:?}",
                reader.stat().await.unwrap()
            );
            expect(&reader, &model).await;
            let stat = reader.stat().await.unwrap();
            assert_eq!(
                (stat.keys, stat.sequence, stat.puts),
                (100, *versions.last().unwrap(), 600 + asked_before)
            );
            assert_eq!(
                reader.metrics().await.unwrap().one_sided.puts,
                stat.puts,
                "by its path, too"
            );
        });
        world.run(async |world| {
            assert_eq!(world.report.borrow().keys, 100);
            expect(&world.client().await, &model).await;
        });
        // The values are there after a proper close, too.
        world.run(async |world| expect(&world.client().await, &model).await);
    });
}

#[test]
fn every_put_but_a_plain_overwrite_goes_through_the_server() {
    on_every_provider(|| {
        let world = publishing(World::default());
        world.run_until(End::Kill, async |world| {
            let (writer, other) = (world.client().await, modest_client(world).await);
            let first = writer.put(b"key", b"1").await.unwrap();
            let second = writer.put(b"key", b"2").await.unwrap();
            assert!(second > first);
            assert_eq!(
                other
                    .put_if(b"key", b"x", Condition::Version(first))
                    .await
                    .unwrap(),
                Written::Conflict(Some(second)),
                "a condition sees what a client published"
            );
            let Written::Done(third) = other
                .put_if(b"key", b"3", Condition::Version(second))
                .await
                .unwrap()
            else {
                panic!()
            };
            let fourth = writer.put(b"key", b"4").await.unwrap();
            assert!(third < fourth);
            assert!(matches!(
                writer
                    .put_if(b"key", b"y", Condition::Absent)
                    .await
                    .unwrap(),
                Written::Conflict(_)
            ));
            let fifth = writer.put(b"key", b"5").await.unwrap();
            assert!(fifth > fourth);
            assert!(other.delete(b"key").await.unwrap());
            assert!(!other.delete(b"key").await.unwrap());
            assert_eq!(other.get(b"key", &mut Vec::new()).await.unwrap(), None);
            writer.put(b"key", b"6").await.unwrap();
            let long = value(7, 20_000);
            writer.put(b"key", &long).await.unwrap();
            writer.put(b"key", b"8").await.unwrap();
            writer.put(b"key", b"9").await.unwrap();
            let mut found = Vec::new();
            other.get(b"key", &mut found).await.unwrap();
            assert_eq!(found, b"9");
        });
        world.run(async |world| {
            let mut found = Vec::new();
            world.client().await.get(b"key", &mut found).await.unwrap();
            assert_eq!(found, b"9");
        });
    });
}

/// Several clients count up counters, half of them by publication after a read: no counter ever goes back, and of puts
/// and conditional puts on one version one is done. Fails without the claim, and if a lost CAS counts as a success.
#[test]
fn clients_of_both_kinds_on_one_key_agree_on_what_is_newest() {
    on_every_provider(|| {
        let world = publishing(World::default());
        world.run_until(End::Kill, async |world| {
            let clients = [
                world.client().await,
                world.client().await,
                modest_client(world).await,
            ];
            clients[0].put(b"key", b"start").await.unwrap();
            let newest = std::cell::Cell::new(0);
            let work = clients.iter().enumerate().map(|(number, client)| {
                let newest = &newest;
                async move {
                    for round in 0..200u64 {
                        let seen = newest.get();
                        let version = match (number, round % 3) {
                            (2, 0) => {
                                let version =
                                    client.get(b"key", &mut Vec::new()).await.unwrap().unwrap();
                                assert!(
                                    version >= seen,
                                    "an acknowledged version is never newer than a later read"
                                );
                                match client
                                    .put_if(b"key", b"conditional", Condition::Version(version))
                                    .await
                                    .unwrap()
                                {
                                    Written::Done(done) => done,
                                    Written::Conflict(present) => present.unwrap(),
                                }
                            }
                            _ => client.put(b"key", &round.to_le_bytes()).await.unwrap(),
                        };
                        assert!(
                            version > seen || (number == 2 && version >= seen),
                            "{version} after {seen}"
                        );
                        newest.set(newest.get().max(version));
                    }
                }
            });
            let mut work: Vec<_> = work.map(Box::pin).collect();
            std::future::poll_fn(|context| {
                work.retain_mut(|work| work.as_mut().poll(context).is_pending());
                if work.is_empty() {
                    std::task::Poll::Ready(())
                } else {
                    std::task::Poll::Pending
                }
            })
            .await;
            let found = clients[2]
                .get(b"key", &mut Vec::new())
                .await
                .unwrap()
                .unwrap();
            assert_eq!(found, newest.get());
        });
    });
}

#[test]
fn the_index_grows_while_clients_publish() {
    on_every_provider(|| {
        let world = publishing(World::default());
        let mut model = BTreeMap::new();
        world.run_until(End::Kill, async |world| {
            let (publisher, filler) = (world.client().await, modest_client(world).await);
            for n in 0..40 {
                filler.put(&key(n), b"0").await.unwrap();
            }
            for n in 40..3000u64 {
                filler.put(&key(n), b"new").await.unwrap();
                model.insert(n, b"new".to_vec());
                let overwritten = n % 40;
                let value = n.to_le_bytes().to_vec();
                publisher.put(&key(overwritten), &value).await.unwrap();
                model.insert(overwritten, value);
            }
            assert!(filler.stat().await.unwrap().index_growths >= 2);
            expect(&filler, &model).await;
        });
        world.run(async |world| expect(&world.client().await, &model).await);
    });
}

/// Clients that publish overwrite a pool many times: nothing is lost, and nothing deleted comes back. Fails without the
/// intents: without births, segments are never chosen or never freed; without deaths before the horizon, tombstones are
/// dropped too early.
#[test]
fn a_pool_is_cleaned_while_clients_publish() {
    on_every_provider(|| {
        let world = publishing(World::small());
        let mut model = BTreeMap::new();
        world.run_until(End::Kill, async |world| {
            let (publisher, other) = (world.client().await, modest_client(world).await);
            let mut random = random_from_seed(5);
            for round in 0..6000u64 {
                let n = random.random_range(0..200);
                match random.random_range(0..20) {
                    0 => {
                        assert_eq!(
                            other.delete(&key(n)).await.unwrap(),
                            model.remove(&n).is_some()
                        );
                    }
                    1 => {
                        let value = value(round, 900);
                        other.put(&key(n), &value).await.unwrap();
                        model.insert(n, value);
                    }
                    _ => {
                        let value = value(round, random.random_range(0..1500));
                        publisher.put(&key(n), &value).await.unwrap();
                        model.insert(n, value);
                    }
                }
            }
            let cleaning = other.metrics().await.unwrap().cleaning;
            assert!(cleaning.segments > 5, "{cleaning:?}");
            assert_eq!(cleaning.abandoned, 0);
            expect(&other, &model).await;
        });
        world.run(async |world| {
            let client = world.client().await;
            assert_eq!(world.report.borrow().keys, model.len() as u64);
            expect(&client, &model).await;
        });
    });
}

/// Fails without the first death that an intent tells: the tombstone is dropped while the log still has a version older
/// than the deleted one, which only a client knew to be dead.
#[test]
fn a_key_that_one_client_replaced_and_another_deleted_stays_deleted_however_much_is_cleaned() {
    on_every_provider(|| {
        // The pool is so large that the first segment is not cleaned for its few dead bytes.
        let world = publishing(World {
            capacity: 8 << 20,
            ..World::small()
        });
        world.run_until(End::Kill, async |world| {
            let (publisher, other) = (world.client().await, modest_client(world).await);
            other.put(b"gone", b"1").await.unwrap();
            // More than a segment of live records: in the first segment no other record dies.
            for n in 0..300 {
                other.put(&key(n), &value(n, 1000)).await.unwrap();
            }
            for n in 1000..1008 {
                other.put(&key(n), b"hot").await.unwrap();
            }
            publisher.put(b"gone", b"2").await.unwrap();
            assert!(other.delete(b"gone").await.unwrap());
            for round in 0..4000 {
                publisher
                    .put(&key(1000 + round % 8), &value(round, 2000))
                    .await
                    .unwrap();
                // More tombstones than a pool keeps without need.
                for _ in 0..4 {
                    other.put(b"passing", b"by").await.unwrap();
                    assert!(other.delete(b"passing").await.unwrap());
                }
            }
            let cleaning = other.metrics().await.unwrap().cleaning;
            assert!(cleaning.segments > 10, "{cleaning:?}");
        });
        world.run(async |world| {
            let client = world.client().await;
            assert_eq!(
                client.get(b"gone", &mut Vec::new()).await.unwrap(),
                None,
                "it was deleted"
            );
            assert_eq!(client.get(b"passing", &mut Vec::new()).await.unwrap(), None);
            assert_eq!(client.stat().await.unwrap().keys, 308);
        });
    });
}

#[test]
fn a_server_that_cannot_let_clients_publish_names_the_reason() {
    let world = publishing(World {
        durability: Durability::Power,
        ..World::default()
    });
    let refused = world
        .try_run(End::Close, async |_| ())
        .map(drop)
        .unwrap_err();
    assert!(matches!(refused, StoreError::Publication { .. }));
    assert!(refused.to_string().contains("power loss"), "{refused}");
}

/// Fails unless the server checks before the scan that earlier publishers are gone: their publications after the scan
/// would be lost.
#[test]
fn a_server_waits_for_clients_that_may_publish_in_the_log_of_the_earlier_server() {
    let world = publishing(World {
        provider: Provider::SharedMemory,
        ..World::default()
    });
    let mut survivor = None;
    world.run_until(End::Kill, async |world| {
        let client = world.client().await;
        client.put(b"key", b"1").await.unwrap();
        client.put(b"key", b"2").await.unwrap();
        survivor = Some(client);
    });
    let refused = world
        .try_run(End::Kill, async |_| ())
        .map(drop)
        .unwrap_err();
    assert!(matches!(refused, StoreError::Publishers), "{refused}");
    drop(survivor);
    world.run(async |world| {
        let mut found = Vec::new();
        world.client().await.get(b"key", &mut found).await.unwrap();
        assert_eq!(found, b"2");
    });
    // A pool that was closed in order has no client to wait for.
    world.run(async |_| ());
}

/// Fails unless `Server::close` checks the revocations: a record that such a client publishes into a log that was
/// scanned before is acknowledged and lost. A write through the server that its client finishes later is not
/// acknowledged.
#[test]
fn a_server_that_is_closed_while_a_client_may_still_publish_leaves_its_pool_as_if_killed() {
    for clients in [ClientPolicy::Publishing, ClientPolicy::Trusted] {
        let options = ServerOptions {
            clients,
            ..ServerOptions::default()
        };
        let world = World {
            provider: Provider::SharedMemory,
            options,
            ..World::default()
        };
        let mut survivor = None;
        world.run(async |world| {
            let client = world.client().await;
            client.put(b"key", b"1").await.unwrap();
            // The first put asks for rights.
            for n in 0..4u8 {
                client.put(b"key", &[n]).await.unwrap();
            }
            survivor = Some(client);
            world.meddler.stands_still.set(true);
        });
        world.meddler.stands_still.set(false);
        let is_clean = || world.open_pool_for(OpenMode::Inspect).was_clean();
        assert_eq!(is_clean(), clients == ClientPolicy::Trusted, "{clients:?}");
        let said = world.closing.get();
        assert_eq!(said == Some(Closing::Clean), is_clean(), "{said:?}");
        if clients == ClientPolicy::Publishing {
            let refused = world
                .try_run(End::Kill, async |_| ())
                .map(drop)
                .unwrap_err();
            assert!(matches!(refused, StoreError::Publishers), "{refused}");
        }
        drop(survivor);
        world.run(async |world| {
            let mut found = Vec::new();
            world.client().await.get(b"key", &mut found).await.unwrap();
            assert_eq!(found, [3]);
        });
        assert!(is_clean(), "in order this time");
    }
}

/// Recovery finds the value that readers see after a put was given up. Fails without the conclusion in a task of its
/// own: a record that lost its CAS stays, and is the newest one after the death of the server.
#[test]
fn a_put_that_is_given_up_at_any_step_leaves_no_value_that_readers_did_not_see() {
    let world = publishing(World::default());
    let mut expected = Vec::new();
    world.run_until(End::Kill, async |world| {
        let other = modest_client(world).await;
        for n in 0..64 {
            other.put(&key(n), b"old").await.unwrap();
        }
        for polls in 1..40 {
            let writer = world.client().await;
            writer.put(&key(0), b"rights").await.unwrap();
            // The put is given up at any of its steps, and its client with the put.
            for n in 1..64 {
                let key = key(n);
                let mut put = Box::pin(writer.put(&key, b"new"));
                let mut context = std::task::Context::from_waker(std::task::Waker::noop());
                for _ in 0..polls % 13 {
                    let _ = put.as_mut().poll(&mut context);
                }
            }
            drop(writer);
            world.runtime().sleep(100_000).await;
        }
        for n in 1..64 {
            let mut found = Vec::new();
            other.get(&key(n), &mut found).await.unwrap();
            expected.push(found);
        }
    });
    world.run(async |world| {
        let client = world.client().await;
        for n in 1..64 {
            let mut found = Vec::new();
            client.get(&key(n), &mut found).await.unwrap();
            assert_eq!(found, expected[n as usize - 1], "key {n}");
        }
    });
}
