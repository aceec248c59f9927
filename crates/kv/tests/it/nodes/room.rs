//! Nodes whose logs have hardly any room.

use std::cell::Cell;
use std::rc::Rc;

use stonecast_kv::{ClusterClient, ClusterError, Effect, StoreError};

use super::world::{Cluster, MS, Shape};
use super::{has_all, put_all};
use crate::world::key;

/// Needs the patience of a primary: a node whose log has no segment for the appends of others grants leases, and has
/// nothing to commit.
#[test]
fn a_pool_that_is_too_small_holds_puts_up_for_a_bounded_time_until_its_node_is_removed() {
    let shape = Shape {
        segments_of_last: Some(4),
        medium_patience_ns: 100 * MS,
        ..Shape::THREE.patient()
    };
    Cluster::tell(shape, 72, async |cluster, client| {
        let runtime = cluster.process.runtime();
        let begun = runtime.now();
        for number in 0..60 {
            match client.put(&key(number), b"value").await {
                Ok(_) | Err(ClusterError::Store(StoreError::NoSpace { .. })) => {}
                Err(error) => panic!("put {number}: {error}"),
            }
        }
        assert!(runtime.now() - begun < 500 * MS, "every put ends");
        let full = &cluster.places[2].name;
        cluster.request(0, |present| present.remove(full)).await;
        let is_served = || (0..3).all(|shard| matches!(cluster.leader(shard), Some(0 | 1)));
        cluster.until("the others lead all shards", is_served).await;
        put_all(client, 0..60).await;
        has_all(client, 0..60).await;
    });
}

/// Fills the pools until no shard takes a value of `size` bytes, and returns the number of values that were stored.
async fn fill(client: &ClusterClient, size: usize) -> usize {
    let (mut stored, mut refused) = (Vec::new(), 0);
    for number in 0.. {
        match client.put(&key(number), &vec![number as u8; size]).await {
            Ok(_) => stored.push(number),
            Err(error @ ClusterError::Store(StoreError::NoSpace { .. })) => {
                assert_eq!(error.effect(), Effect::None);
                refused += 1;
            }
            Err(error) => panic!("put {number}: {error}"),
        }
        if refused == 40 {
            break;
        }
    }
    stored.len()
}

/// Needs the segments that a node keeps for records of other nodes, and the notices that say that they are all that is
/// left: a copy that takes no record is given up, and its node ends.
#[test]
fn a_full_cluster_refuses_puts_and_keeps_its_copies_whichever_pool_is_full_first() {
    for (segments_of_last, size) in [(None, 40_000), (None, 700), (Some(16), 40_000)] {
        let shape = Shape {
            segments: 32,
            segments_of_last,
            medium_patience_ns: 200 * MS,
            ..Shape::THREE.patient()
        };
        Cluster::tell(shape, 74, async |cluster, client| {
            let runtime = cluster.process.runtime();
            let stored = fill(client, size).await;
            assert!(stored * size > 1 << 20, "{stored} values of {size}");
            // Longer than the patience with copies and with the medium.
            runtime.sleep(800 * MS).await;
            assert!(
                cluster.ends().iter().all(Option::is_none),
                "{:?}",
                cluster.ends()
            );
            let groups = cluster.stored().groups;
            assert!(
                groups.iter().all(|group| group.in_sync.len() == 3),
                "{groups:?}"
            );
            // A full cluster takes deletes, and puts again when these have made room.
            for number in 0..stored as u64 / 2 {
                client.delete(&key(number)).await.unwrap();
            }
            let end = runtime.now() + 2_000 * MS;
            while client.put(&key(0), &vec![1; size]).await.is_err() {
                assert!(runtime.now() < end, "the deletes make room");
                runtime.sleep(MS).await;
            }
            let groups = cluster.stored().groups;
            assert!(
                groups.iter().all(|group| group.in_sync.len() == 3),
                "{groups:?}"
            );
        });
    }
}

/// Needs the return of segments from appends: each start takes others for them while those of the run before are
/// searched, and hardly any would be left for puts.
#[test]
fn nodes_that_start_again_many_times_have_as_much_room_for_puts_as_at_first() {
    let stored = [0, 10].map(|starts| {
        let stored = Rc::new(Cell::new(0));
        let told = stored.clone();
        let shape = Shape {
            segments: 24,
            ..Shape::THREE.patient()
        };
        Cluster::tell(shape, 75, async move |cluster, client| {
            for start in 0..starts {
                put_all(client, 0..40).await;
                for (index, place) in cluster.places.iter().enumerate() {
                    match start % 2 {
                        0 => place.kill(),
                        _ => place.cut_power(&cluster.world),
                    }
                    cluster.start(index);
                }
                let is_served = || (0..3).all(|shard| cluster.leader(shard).is_some());
                cluster.until("all shards are served", is_served).await;
            }
            told.set(fill(client, 20_000).await);
        });
        stored.get()
    });
    assert!(stored[1] * 10 >= stored[0] * 9, "{stored:?}");
}

/// Clients that begin at each of two nodes: more than the segments that puts may use there.
const CLIENTS: u64 = 6;

/// Needs the return of the room that a client holds at other nodes while it waits: the clients that hold all segments
/// of one node would wait for those that hold all segments of the other, until the nodes take unused leases back after
/// a second.
#[test]
fn clients_that_wait_for_room_hold_none_at_other_nodes() {
    let shape = Shape {
        replicas: 1,
        segments: 8,
        segment_size: 1 << 20,
        ..Shape::THREE.patient()
    };
    Cluster::tell(shape, 73, async |cluster, client| {
        let runtime = cluster.process.runtime();
        let mut clients = Vec::new();
        for _ in 0..2 * CLIENTS {
            clients.push(cluster.client(4_000 * MS).await);
        }
        let done = Rc::new(Cell::new(0_u64));
        for (n, writer) in (0..).zip(clients) {
            let mut shards = [0, 1];
            shards.rotate_left(n as usize % 2);
            let mut keys = (n * 1_000..).map(key);
            let keys = shards.map(|shard| keys.find(|key| client.shard_of(key) == shard).unwrap());
            let (done, pauses) = (done.clone(), runtime.clone());
            runtime.spawn(Box::pin(async move {
                for key in keys.iter().cycle() {
                    writer.put(key, b"small").await.unwrap();
                    done.set(done.get() + 1);
                    // The segments are never full.
                    pauses.sleep(MS).await;
                }
            }));
        }
        for part in 0..8 {
            let before = done.get();
            runtime.sleep(100 * MS).await;
            assert!(done.get() > before, "part {part}");
        }
    });
}
