//! Exact costs of a cluster of the KV store in virtual time.

use stonecast_kv::ClusterOptions;
use stonecast_lab::nodes::{NodeCluster, Place};

use crate::failover::shape;

const MS: u64 = 1_000_000;
const KEYS: u64 = 100;

/// Processor time of all nodes during 20 ms, in which a client reads at `gets` moments, all reads of a moment one after
/// the other.
fn busy_ns(reads_each: u64) -> u64 {
    const MOMENTS: u64 = 100;
    let cluster = NodeCluster::new(shape(3), 1);
    let process = cluster.client_process();
    let connecting = cluster.client(&process, ClusterOptions::default());
    let client = cluster.world().block_on(connecting).unwrap();
    let spent = cluster.world().block_on(async {
        let (mut found, runtime) = (Vec::new(), process.runtime());
        for number in 0..KEYS {
            client.put(&number.to_le_bytes(), b"value").await.unwrap();
        }
        let all = || cluster.places.iter().map(Place::busy_ns).sum::<u64>();
        let (mut busy, begin) = (0, runtime.now());
        // The first half warms up.
        for moment in 0..2 * MOMENTS {
            if moment == MOMENTS {
                busy = all();
            }
            let next = begin + (moment + 1) * MS / 5;
            for read in 0..reads_each {
                let key = (moment + read) % KEYS;
                let version = client.get(&key.to_le_bytes(), &mut found).await.unwrap();
                assert!(version.is_some());
            }
            runtime.sleep(next - runtime.now()).await;
        }
        all() - busy
    });
    drop(client);
    spent
}

/// Needs reads without a request: the nodes renew their leases and those of readers, and a read adds nothing to that.
#[test]
fn a_read_of_a_replicated_store_takes_no_time_of_any_node() {
    let (few, many) = (busy_ns(1), busy_ns(40));
    assert!(few > 0, "nodes grant leases");
    assert_eq!(few, many, "3,900 more reads");
}
