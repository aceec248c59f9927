//! More clients than segments: clients wait for room that others have leased.

use std::cell::Cell;
use std::rc::Rc;

use stonecast_kv::StoreError;

use crate::fabric::on_every_provider;
use crate::world::{World, key, value};

/// More than twice the number of segments that puts may use in a small pool.
const CLIENTS: u64 = 14;

/// Fails without `is_room_leased` in `refuse_space`: clients that come when all segments are leased are told that an
/// empty pool is full.
#[test]
fn a_client_that_finds_all_segments_leased_to_idle_clients_waits_for_one() {
    on_every_provider(|| {
        World::small().run(async |world| {
            let mut clients = Vec::new();
            for n in 0..CLIENTS {
                let client = world.client().await;
                client
                    .put(&key(n), b"small")
                    .await
                    .unwrap_or_else(|error| panic!("client {n}: {error}"));
                clients.push(client);
            }
            for (n, client) in (0..).zip(&clients) {
                client
                    .put(&key(n), b"again")
                    .await
                    .unwrap_or_else(|error| panic!("client {n}: {error}"));
            }
            assert_eq!(world.client().await.stat().await.unwrap().keys, CLIENTS);
        });
    });
}

/// Fails without `verdict_on_done`, and unless `put_record` obeys the verdict: no client is ever idle, and no client
/// uses its segment up within the time that the others wait.
#[test]
fn more_busy_clients_than_segments_take_turns() {
    on_every_provider(|| {
        World::small().run(async |world| {
            let (begun, done) = (Rc::new(Cell::new(0)), Rc::new(Cell::new(0)));
            for n in 0..CLIENTS {
                let (client, runtime) = (world.client().await, world.runtime());
                let (begun, done) = (begun.clone(), done.clone());
                world.runtime().spawn(Box::pin(async move {
                    let mut puts = 0;
                    while puts < 20 || begun.get() < CLIENTS {
                        client
                            .put(&key(n), &value(puts, 100))
                            .await
                            .unwrap_or_else(|error| panic!("client {n}: {error}"));
                        begun.set(begun.get() + u64::from(puts == 0));
                        puts += 1;
                        runtime.sleep(5_000_000).await;
                    }
                    let mut read = Vec::new();
                    assert!(client.get(&key(n), &mut read).await.unwrap().is_some());
                    assert_eq!(read, value(puts - 1, 100));
                    done.set(done.get() + 1);
                }));
            }
            while done.get() < CLIENTS {
                world.runtime().sleep(1_000_000).await;
            }
        });
    });
}

/// Fails without `leases_to_come` in `refuse_space`: a lease that is being revoked is in no session, and its segment is
/// not free yet.
#[test]
fn a_put_that_comes_while_the_last_room_is_being_taken_back_finds_that_room() {
    on_every_provider(|| {
        World::small().run(async |world| {
            let (holder, late) = (world.client().await, world.client().await);
            holder.put(b"small", b"v").await.unwrap();
            let filler = world.client().await;
            let mut stored = 0;
            loop {
                let (key, value) = (key(stored), value(stored, 2000));
                let put = Box::pin(filler.put(&key, &value));
                match world.runtime().within(20_000_000, put).await {
                    Ok(done) => done.map(|_| stored += 1).unwrap(),
                    Err(_waits_for_room) => break,
                }
            }
            drop(filler);
            world.runtime().sleep(5_000_000).await;
            // The server learns of both at once: the end of the client that holds the last room, and the request for
            // room.
            drop(holder);
            late.put(b"late", &value(1, 2000)).await.unwrap();
        });
    });
}

/// Fails if *busy* has no end: once the leases are taken back and live records leave no room, the answer is *no space*.
#[test]
fn a_full_pool_is_reported_full_even_beside_clients_that_hold_leases() {
    on_every_provider(|| {
        let world = World::small();
        world.run(async |world| {
            let idle = world.client().await;
            idle.put(b"idle", b"v").await.unwrap();
            let client = world.client().await;
            let mut stored = 0;
            let error = loop {
                match client.put(&key(stored), &value(stored, 2000)).await {
                    Ok(_) => stored += 1,
                    Err(error) => break error,
                }
            };
            assert!(matches!(error, StoreError::NoSpace { .. }), "{error}");
            // Everything but the reserve of two segments of eight, and the ends of segments.
            assert!(
                stored * 2000 * 100 > world.capacity * 65,
                "{stored} records of {}",
                world.capacity
            );
            assert!(idle.get(b"idle", &mut Vec::new()).await.unwrap().is_some());
            assert!(client.delete(&key(0)).await.unwrap());
        });
    });
}

/// Fails without `is_used` in `reclaim_unused`: the extent that a client has leased ahead counts as unused while the
/// client fills the extent before, and the client's next write hits a closed window and ends the connection.
#[test]
fn an_extent_that_is_leased_ahead_is_kept_while_its_client_writes() {
    on_every_provider(|| {
        let world = World::small();
        world.run(async |world| {
            let busy = world.client().await;
            let record = value(0, 2000);
            let half = world.segment_size / 2 / 2000 + 4;
            for n in 0..half {
                busy.put(&key(n), &record).await.unwrap();
            }
            let mut others = Vec::new();
            for n in 0..4 {
                let other = world.client().await;
                other.put(&key(1000 + n), b"other").await.unwrap();
                others.push(other);
            }
            // The extent leased ahead lies unused for longer than a lease may, and no client is idle.
            for _ in 0..12 {
                world.runtime().sleep(100_000_000).await;
                busy.put(&key(0), b"slow").await.unwrap();
                for (n, other) in (0..).zip(&others) {
                    other.put(&key(1000 + n), b"slow").await.unwrap();
                }
            }
            world.client().await.put(b"more", b"v").await.unwrap();
            for n in 0..half {
                busy.put(&key(n), &record).await.unwrap();
            }
        });
    });
}
