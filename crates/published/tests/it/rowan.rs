//! Rowan-KV as published and its rivals: the same promises, kept in several ways.

use stonecast_published::rowan::{Replication, RowanOptions};

use crate::rowan_scene::{RowanScene, small};

fn value(key: u64, round: u64) -> Vec<u8> {
    vec![(key * 7 + round) as u8; 20 + (key as usize * 31 + round as usize) % 180]
}

/// Enough entries that every log goes through several segments.
#[test]
fn each_design_answers_with_the_latest_value_of_each_key() {
    for replication in Replication::ALL {
        let scene = RowanScene::new(small(replication));
        let (_process, client) = scene.client(1);
        for round in 0..10 {
            for key in 0..100 {
                scene.put(&client, key, &value(key, round));
            }
        }
        scene.world.block_on(client.delete(5)).unwrap();
        for key in 0..100 {
            let expected = (key != 5).then(|| value(key, 9));
            assert_eq!(scene.get(&client, key), expected, "{replication:?} {key}");
        }
        assert_eq!(scene.get(&client, 1 << 50), None);
    }
}

/// Several operations of several clients under way at a time.
#[test]
fn operations_side_by_side_end_with_one_of_their_values_and_the_same_run_twice() {
    for replication in Replication::ALL {
        let run = || {
            let scene = RowanScene::new(small(replication));
            let clients = [scene.client(0), scene.client(1)];
            let puts = clients.iter().flat_map(|(_, client)| {
                (0..200u64).map(move |number| async move {
                    let key = number % 10;
                    client.put(key, &value(key, number)).await.unwrap();
                })
            });
            scene.world.block_on(futures_util::future::join_all(puts));
            for key in 0..10 {
                let found = scene.get(&clients[0].1, key).unwrap();
                let possible = (0..20).map(|turn| value(key, key + 10 * turn));
                assert!(possible.into_iter().any(|value| value == found));
            }
            scene.world.hash()
        };
        assert_eq!(run(), run(), "{replication:?}");
    }
}

/// Needs the cleaning threads: without them the segments end long before.
#[test]
fn a_server_that_is_cleaned_takes_more_entries_than_it_has_room_for() {
    for replication in [Replication::Append, Replication::Rpc, Replication::Write] {
        let scene = RowanScene::new(RowanOptions {
            cleaners: 2,
            segments: 64,
            ..small(replication)
        });
        let (_process, client) = scene.client(0);
        for round in 0..60 {
            for key in 0..60 {
                scene.put(&client, key, &value(key, round));
            }
        }
        for key in 0..60 {
            assert_eq!(
                scene.get(&client, key),
                Some(value(key, 59)),
                "{replication:?}"
            );
        }
        let counts: Vec<_> = scene.modules.iter().map(|module| module.counts()).collect();
        let room = scene.options.memory_size();
        assert!(
            counts.iter().all(|counts| counts.bytes_stored > 2 * room),
            "{counts:?}, {room}"
        );
    }
}

#[test]
fn a_store_like_clover_answers_with_the_latest_value_of_each_key() {
    use std::rc::Rc;
    use stonecast_fabric_sim::{SimBacking, Survivor};
    use stonecast_media::{Backing as _, Durability, LogOptions};
    use stonecast_published::clover::{
        CloverCache, CloverClient, CloverController, CloverNode, CloverOptions,
    };

    let scene = RowanScene::unopened(small(Replication::Append));
    let options = CloverOptions {
        addresses: "sim:clover".to_owned(),
        nodes: 3,
        copies: 2,
        area_size: 8 << 20,
        places_each: CloverOptions::PLACES,
        returned_each: 3,
    };
    for node in 0..options.nodes {
        let machine = scene.world.machine(scene.machine_options);
        let module = scene.world.module(machine, Survivor::default());
        let log = LogOptions {
            capacity: options.memory_size(),
            platform: crate::rowan_scene::PLATFORM,
            durability: Durability::Power,
        };
        let memory = SimBacking::new(&module).open_log(log).unwrap();
        let process = scene.world.process(machine);
        let (port, runtime) = (process.port(1 << 14).unwrap(), process.runtime());
        CloverNode::open(&options, node, memory, port, &*runtime).unwrap();
    }
    let process = scene
        .world
        .process(scene.world.machine(scene.machine_options));
    let port = process.port(1 << 14).unwrap();
    CloverController::open(&options, port, &*process.runtime()).unwrap();
    // Each client knows only what it has seen, so the chains of the others are followed.
    let clients: Vec<CloverClient> = (0..3)
        .map(|_| {
            let process = scene
                .world
                .process(scene.world.machine(scene.machine_options));
            let (port, runtime) = (process.port(1 << 14).unwrap(), process.runtime());
            let cache = Rc::new(CloverCache::default());
            let connecting = CloverClient::connect(&options, cache, &port, &runtime);
            scene.world.block_on(connecting).unwrap()
        })
        .collect();
    for round in 0..30u64 {
        for key in 0..10 {
            let client = &clients[(round * round % 3) as usize];
            let value = value(key, round);
            scene.world.block_on(client.put(key, &value)).unwrap();
        }
    }
    let puts = clients.iter().map(|client| client.put(0, b"side by side"));
    let ends = scene.world.block_on(futures_util::future::join_all(puts));
    assert!(ends.into_iter().all(|end| end.is_ok()));
    for client in &clients {
        for key in 0..11 {
            let mut found = Vec::new();
            let is_there = scene.world.block_on(client.get(key, &mut found)).unwrap();
            let expected = match key {
                0 => b"side by side".to_vec(),
                10 => Vec::new(),
                _ => value(key, 29),
            };
            assert_eq!((is_there, found), (key < 10, expected), "{key}");
        }
    }
}
