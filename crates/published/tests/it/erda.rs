//! Erda without failures.

use std::collections::BTreeMap;

use rand::RngExt as _;
use stonecast_base::random_from_seed;
use stonecast_published::{ErdaOptions, Geometry, PublishedError};

use crate::world::{Scene, key, value};

#[test]
fn a_client_reads_the_values_of_another_through_many_cleanings() {
    let geometry = Geometry {
        heads: 2,
        regions: 3,
        segment_size: 4096,
        region_size: 16 * 4096,
        ..Geometry::for_keys(20, 64, 200, 0)
    };
    let scene = Scene::new(geometry);
    let (_server, server) = scene.serve_erda(ErdaOptions::default());
    let (first, second) = (scene.client_process(), scene.client_process());
    scene.world.block_on(async {
        let (mut writer, mut reader) = (scene.erda(&first).await, scene.erda(&second).await);
        let mut model: BTreeMap<u64, Vec<u8>> = BTreeMap::new();
        let (mut random, mut found) = (random_from_seed(3), Vec::new());
        for round in 0..12_000u64 {
            let number = random.random_range(0..120);
            match random.random_range(0..20) {
                0 => {
                    let there = writer.delete(&key(number)).await.unwrap();
                    assert!(
                        there || !model.contains_key(&number),
                        "a deleted key may still have its entry"
                    );
                    model.remove(&number);
                }
                1..10 => {
                    writer.put(&key(number), &value(round, 64)).await.unwrap();
                    model.insert(number, value(round, 64));
                }
                _ => {
                    let there = reader.get(&key(number), &mut found).await.unwrap();
                    assert_eq!(
                        there.then_some(&found),
                        model.get(&number),
                        "round {round}, {:?}",
                        server.cleaning()
                    );
                }
            }
        }
        for number in 0..120 {
            let there = reader.get(&key(number), &mut found).await.unwrap();
            assert_eq!(there.then_some(&found), model.get(&number), "at the end");
        }
    });
    assert!(server.cleaning().finished >= 6, "{:?}", server.cleaning());
}

#[test]
fn a_full_log_and_a_full_table_are_reported() {
    let geometry = Geometry {
        segment_size: 4096,
        region_size: 4096,
        ..Geometry::for_keys(20, 64, 8, 0)
    };
    for geometry in [
        geometry,
        Geometry {
            buckets: 8,
            region_size: 1 << 20,
            ..geometry
        },
    ] {
        let scene = Scene::new(geometry);
        let _server = scene.serve_erda(ErdaOptions {
            clean_at_percent: 100,
            ..ErdaOptions::default()
        });
        let process = scene.client_process();
        scene.world.block_on(async {
            let mut client = scene.erda(&process).await;
            let mut stored = 0;
            let refused = loop {
                match client.put(&key(stored), &value(stored, 64)).await {
                    Ok(()) => stored += 1,
                    Err(error) => break error,
                }
            };
            assert!(matches!(refused, PublishedError::Full), "{refused}");
            let mut found = Vec::new();
            for number in 0..stored {
                assert!(client.get(&key(number), &mut found).await.unwrap());
            }
            assert!(stored >= 8);
        });
    }
}

#[test]
fn a_store_that_was_closed_in_order_opens_again() {
    let scene = Scene::new(Geometry::for_keys(20, 64, 200, 1000));
    let (process, _) = scene.serve_erda(ErdaOptions::default());
    let client = scene.client_process();
    scene.world.block_on(async {
        let mut client = scene.erda(&client).await;
        for number in 0..100 {
            client
                .put(&key(number % 50), &value(number, 64))
                .await
                .unwrap();
        }
    });
    process.kill();
    let _server = scene.serve_erda(ErdaOptions::default());
    let client = scene.client_process();
    scene.world.block_on(async {
        let mut client = scene.erda(&client).await;
        let mut found = Vec::new();
        for number in 0..50 {
            assert!(client.get(&key(number), &mut found).await.unwrap());
            assert_eq!(found, value(number + 50, 64));
        }
    });
}
