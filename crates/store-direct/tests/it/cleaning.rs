//! Pools that are written many times over, and what cleaning leaves of them.

use std::collections::BTreeMap;

use rand::RngExt as _;
use stonecast_media::{Durability, OpenMode};
use stonecast_store_direct::verify;

use crate::crash::check;
use crate::fabric::on_every_provider;
use crate::world::{End, World, key, value};

/// Bytes of a record of `key(n)` with a value of `size` bytes.
fn record_size(size: usize) -> u64 {
    (64 + 12 + size as u64).next_multiple_of(64)
}

/// Needs cleaning at all, the reserve of the cleaner, and *busy* instead of *no space* while there is something to clean.
#[test]
fn a_pool_takes_overwrites_many_times_its_capacity_over_kills_and_restarts() {
    on_every_provider(|| {
        for durability in [Durability::Process, Durability::Power] {
            let world = World { durability, ..World::small() };
            let mut model: BTreeMap<u64, Vec<u8>> = BTreeMap::new();
            let mut random = stonecast_base::random_from_seed(11);
            let mut written = 0;
            let keys = (world.capacity / 2) / record_size(500);
            for round in 0..4 {
                let end = if round % 2 == 0 { End::Kill } else { End::Close };
                world.run_until(end, async |world| {
                    let client = world.client().await;
                    check(&client, &model, keys).await;
                    let (mut cleaned, start) = (0, written);
                    while cleaned < 20 || written < start + 3 * world.capacity {
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
                let found = verify(&world.open_pool_for(OpenMode::Inspect), &mut |_, _| {}).unwrap();
                assert!(found.damage.is_empty() && found.keys == model.len() as u64, "{found:?}");
            }
            assert!(written > 8 * world.capacity, "{written}");
        }
    });
}
