//! The index grows while clients read it one-sided.

use std::cell::Cell;
use std::rc::Rc;

use rand::RngExt as _;
use stonecast_base::random_from_seed;
use stonecast_kv::{StoreError, Values, verify};
use stonecast_media::OpenMode;

use crate::fabric::on_every_provider;
use crate::trouble::Trouble;
use crate::world::{End, World, key};

/// Readers look all the time for keys that are present, that are added, and that never exist. Fails if readers ignore
/// the marks of an index that has moved. The tests of `index` show that the marks are made in time.
#[test]
pub fn readers_miss_no_key_and_find_no_absent_key_while_the_index_grows() {
    on_every_provider(|| {
        const KEYS: u64 = 30_000;
        World {
            capacity: 32 << 20,
            ..World::default()
        }
        .run(async |world| {
            let written = Rc::new(Cell::new(0));
            let running = Rc::new(Cell::new(0));
            for seed in 0..3 {
                let (client, written, running) =
                    (world.client().await, written.clone(), running.clone());
                running.set(running.get() + 1);
                let runtime = world.runtime();
                world.runtime().spawn(Box::pin(async move {
                    let mut random = random_from_seed(seed);
                    let mut read = Vec::new();
                    let mut values = Values::default();
                    while written.get() < KEYS {
                        let present = written.get();
                        let n = random.random_range(0..KEYS);
                        let found = client.get(&key(n), &mut read).await.unwrap();
                        assert!(
                            found.is_some() || n >= present,
                            "key {n} of {present} was there before the call"
                        );
                        assert!(found.is_none() || n <= written.get(), "key {n} comes later");
                        assert!(found.is_none() || read == n.to_be_bytes());
                        let several = [key(n), key(n / 2), key(KEYS + n)];
                        let present = written.get();
                        client
                            .multi_get(&several.each_ref().map(Vec::as_slice), &mut values)
                            .await
                            .unwrap();
                        assert!(values.get(1).is_some() || n / 2 >= present);
                        assert!(values.get(2).is_none(), "a key that never was");
                        runtime.sleep(1_000).await;
                    }
                    running.set(running.get() - 1);
                }));
            }
            let writer = world.client().await;
            for n in 0..KEYS {
                writer.put(&key(n), &n.to_be_bytes()).await.unwrap();
                written.set(n + 1);
            }
            while running.get() > 0 {
                world.runtime().sleep(100_000).await;
            }
            let stat = writer.stat().await.unwrap();
            assert!(stat.index_growths >= 6, "{stat:?}");
            assert_eq!(stat.keys, KEYS);
            assert_eq!(
                writer.entries().await.unwrap().len() as u64,
                KEYS,
                "a listing finds each key once"
            );
        });
    });
}

/// Fails unless the size of the index is taken from the checkpoint: an index of another size refuses the checkpoint,
/// and everything is scanned.
#[test]
pub fn an_index_that_has_grown_opens_from_its_checkpoint_without_reported_damage() {
    on_every_provider(|| {
        let world = World {
            capacity: 16 << 20,
            ..World::default()
        };
        world.run(async |world| {
            let client = world.client().await;
            for n in 0..5_000 {
                client.put(&key(n), b"").await.unwrap();
            }
            // Deletes made the index larger than its keys need.
            for n in 0..4_000 {
                client.delete(&key(n)).await.unwrap();
            }
        });
        for round in 0..2 {
            let pool = world.open_pool_for(OpenMode::Inspect);
            let verified = verify(&pool, &mut |_, _| {}).unwrap();
            assert!(
                verified.harmless.is_empty() && verified.damage.is_empty(),
                "{verified:?}"
            );
            assert_eq!(verified.keys, 1_000);
            drop(pool);
            world.run_until(
                if round == 0 { End::Close } else { End::Kill },
                async |world| {
                    assert!(world.report.borrow().used_checkpoint, "round {round}");
                    assert_eq!(world.report.borrow().records, 0);
                    assert_eq!(world.client().await.stat().await.unwrap().keys, 1_000);
                },
            );
        }
    });
}

/// Fails without the separate verdict, and without the exact count of the keys that a batch adds: overwrites continue
/// in a full index.
#[test]
fn without_memory_for_a_larger_index_new_keys_are_refused_and_everything_else_continues() {
    on_every_provider(|| {
        World::default().run(async |world| {
            let client = world.client().await;
            world.trouble.set(Trouble::NoMemory);
            let mut n = 0;
            let error = loop {
                match client.put(&key(n), b"").await {
                    Ok(_) => n += 1,
                    Err(error) => break error,
                }
            };
            assert!(matches!(error, StoreError::IndexFull), "{error}");
            assert!(n > 300, "{n}");
            for again in 0..n {
                client.put(&key(again), b"overwritten").await.unwrap();
            }
            assert!(client.delete(&key(0)).await.unwrap());
            client.put(&key(n), b"").await.unwrap();
            assert!(matches!(
                client.put(&key(n + 1), b"").await,
                Err(StoreError::IndexFull)
            ));
            world.trouble.set(Trouble::None);
            world.runtime().sleep(1_500_000_000).await;
            client.put(&key(n + 1), b"").await.unwrap();
        });
    });
}
