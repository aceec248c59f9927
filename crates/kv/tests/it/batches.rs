//! Many keys put with one call.

use std::collections::BTreeMap;

use rand::RngExt as _;
use stonecast_base::random_from_seed;
use stonecast_kv::{ClientPolicy, Pair, ServerOptions, StoreError};

use crate::fabric::on_every_provider;
use crate::world::{End, World, key, value};

const KEYS: u64 = 30;
/// A size beyond the records that clients publish.
const LONG: usize = 5000;

/// Fails unless `multi_put` begins each put before the next one: otherwise a put that its client publishes overtakes a
/// longer put of the same key, which the server has to do.
#[test]
fn all_pairs_of_a_call_are_stored_and_pairs_of_one_key_in_order_whoever_publishes_them() {
    on_every_provider(|| {
        for clients in [ClientPolicy::Trusted, ClientPolicy::Publishing] {
            let options = ServerOptions {
                clients,
                ..ServerOptions::default()
            };
            let world = World {
                options,
                ..World::default()
            };
            let mut model = BTreeMap::new();
            world.run_until(End::Kill, async |world| {
                let (writer, reader) = (world.client().await, world.client().await);
                let mut random = random_from_seed(5);
                let mut outcomes = Vec::new();
                let mut newest = 0;
                for round in 0..60_u64 {
                    let count = random.random_range(0..40);
                    let drawn: Vec<(u64, Vec<u8>)> = (0..count)
                        .map(|n| {
                            let size = if random.random_bool(0.05) {
                                LONG
                            } else {
                                random.random_range(0..200)
                            };
                            (random.random_range(0..KEYS), value(round * 100 + n, size))
                        })
                        .collect();
                    let names: Vec<Vec<u8>> = drawn.iter().map(|(n, _)| key(*n)).collect();
                    let pairs: Vec<Pair<'_>> = names
                        .iter()
                        .zip(&drawn)
                        .map(|(key, (_, value))| (&key[..], &value[..]))
                        .collect();
                    writer.multi_put(&pairs, &mut outcomes).await;
                    assert_eq!(outcomes.len(), pairs.len());
                    let mut versions = BTreeMap::new();
                    for ((n, value), outcome) in drawn.into_iter().zip(outcomes.drain(..)) {
                        let version = outcome.unwrap();
                        assert!(version > newest, "newer than all of the calls before");
                        assert!(
                            versions.insert(n, version) < Some(version),
                            "puts of one key are done in their order"
                        );
                        model.insert(n, value);
                    }
                    newest = versions.into_values().max().unwrap_or(newest);
                    let mut found = Vec::new();
                    for (&n, expected) in &model {
                        assert!(
                            reader.get(&key(n), &mut found).await.unwrap().is_some(),
                            "key {n} is there"
                        );
                        assert!(found == *expected, "key {n} has the value of its last pair");
                    }
                }
            });
            world.run(async |world| {
                let reader = world.client().await;
                let mut found = Vec::new();
                for (n, expected) in &model {
                    assert!(reader.get(&key(*n), &mut found).await.unwrap().is_some());
                    assert!(found == *expected, "key {n} after the server's death");
                }
            });
        }
    });
}

#[test]
pub fn a_refused_pair_has_its_error_in_its_place_and_the_others_are_stored() {
    on_every_provider(|| {
        World::default().run(async |world| {
            let client = world.client().await;
            let mut outcomes = vec![Ok(7)];
            client
                .multi_put(&[(b"a", b"1"), (b"", b"2"), (b"b", b"3")], &mut outcomes)
                .await;
            assert!(
                matches!(
                    &outcomes[..],
                    [Ok(_), Err(StoreError::KeySize { size: 0, .. }), Ok(_)]
                ),
                "earlier outcomes are gone: {outcomes:?}"
            );
            client.multi_put(&[], &mut outcomes).await;
            assert!(outcomes.is_empty());
            let mut found = Vec::new();
            client
                .get(b"b", &mut found)
                .await
                .unwrap()
                .expect("the last one is there");
            assert_eq!(found, b"3");
        });
    });
}
