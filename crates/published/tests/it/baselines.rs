//! The two baselines.

use std::collections::BTreeMap;

use rand::RngExt as _;
use stonecast_base::random_from_seed;
use stonecast_published::{Geometry, PublishedError, Scheme};

use crate::world::{Scene, key, value};

const SCHEMES: [Scheme; 2] = [Scheme::RedoLogging, Scheme::ReadAfterWrite];

#[test]
fn a_client_reads_the_values_of_another_while_records_wait_in_the_ring() {
    for scheme in SCHEMES {
        let scene = Scene::new(Geometry {
            ring_slots: 9,
            ..Geometry::for_keys(20, 64, 100, 0)
        });
        scene.serve_baseline(scheme);
        let (first, second) = (scene.client_process(), scene.client_process());
        let model = scene.world.block_on(async {
            let (mut writer, mut reader) = (
                scene.baseline(&first, scheme).await,
                scene.baseline(&second, scheme).await,
            );
            let mut model: BTreeMap<u64, Vec<u8>> = BTreeMap::new();
            let (mut random, mut found) = (random_from_seed(3), Vec::new());
            for round in 0..600u64 {
                let number = random.random_range(0..40);
                match random.random_range(0..10) {
                    0 => {
                        writer.delete(&key(number)).await.unwrap();
                        model.remove(&number);
                    }
                    1..5 => {
                        writer.put(&key(number), &value(round, 64)).await.unwrap();
                        model.insert(number, value(round, 64));
                    }
                    _ => {
                        let there = reader.get(&key(number), &mut found).await.unwrap();
                        assert_eq!(
                            there.then_some(&found),
                            model.get(&number),
                            "{scheme:?}, round {round}"
                        );
                    }
                }
            }
            model
        });
        assert!(model.len() > 20);
    }
}

#[test]
fn sizes_that_the_store_does_not_have_are_refused() {
    for scheme in SCHEMES {
        let scene = Scene::new(Geometry::for_keys(20, 64, 10, 0));
        scene.serve_baseline(scheme);
        let process = scene.client_process();
        scene.world.block_on(async {
            let mut client = scene.baseline(&process, scheme).await;
            assert!(matches!(
                client.put(b"short", &[0; 64]).await,
                Err(PublishedError::Size {
                    what: "the key",
                    ..
                })
            ));
            assert!(matches!(
                client.put(&key(1), &[0; 63]).await,
                Err(PublishedError::Size {
                    what: "the value",
                    ..
                })
            ));
        });
    }
}

/// A client that dies with a slot of the ring does not delay the others. Needs `forget`.
#[test]
fn a_writer_that_never_writes_does_not_stop_the_ring() {
    let scene = Scene::new(Geometry {
        ring_slots: 2,
        ..Geometry::for_keys(20, 64, 100, 0)
    });
    scene.serve_baseline(Scheme::ReadAfterWrite);
    for delay in [4_000, 12_000, 20_000] {
        let (dying, living) = (scene.client_process(), scene.client_process());
        let mut client = scene
            .world
            .block_on(scene.baseline(&dying, Scheme::ReadAfterWrite));
        dying.runtime().spawn(Box::pin(async move {
            let _ = client.put(&key(delay), &value(1, 64)).await;
        }));
        scene
            .world
            .block_on(async { scene.world.observer().sleep(delay).await });
        dying.kill();
        scene.world.block_on(async {
            let mut client = scene.baseline(&living, Scheme::ReadAfterWrite).await;
            for round in 0..4 {
                client.put(&key(round), &value(round, 64)).await.unwrap();
            }
        });
    }
}
