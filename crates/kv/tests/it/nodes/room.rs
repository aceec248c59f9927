//! Nodes whose logs have hardly any room.

use std::cell::Cell;
use std::rc::Rc;

use super::world::{Cluster, MS, Shape};
use super::{has_all, put_all};
use crate::world::key;

/// Needs the patience of a primary: a node whose log has no segment for the appends of others grants leases, and has
/// nothing to commit. Needs the rest of that node: it would be filled, and awaited, again and again.
#[test]
fn a_write_waits_a_bounded_time_for_a_copy_whose_log_has_no_free_segment() {
    let shape = Shape {
        segments_of_last: Some(4),
        medium_patience_ns: 100 * MS,
        ..Shape::THREE.patient()
    };
    Cluster::tell(shape, 72, async |cluster, client| {
        put_all(client, 0..60).await;
        has_all(client, 0..60).await;
        let full = &cluster.places[2].name;
        let is_awaited = || {
            let groups = cluster.stored().groups;
            let mut led_by_others = groups.iter().filter(|group| group.primary != *full);
            led_by_others.any(|group| group.has_copy(full))
        };
        assert!(!is_awaited(), "the copies are dropped");
        let runtime = cluster.process.runtime();
        let begun = runtime.now();
        put_all(client, 60..120).await;
        assert!(runtime.now() - begun < 100 * MS, "no write waits any more");
        assert!(!is_awaited(), "the node asks for no copy");
        has_all(client, 0..120).await;
        assert!(
            cluster.ends().iter().all(Option::is_none),
            "{:?}",
            cluster.ends()
        );
    });
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
