//! Exact costs of a cluster of the KV store in virtual time.

use stonecast_kv::{ClientOptions, ClusterOptions};
use stonecast_lab::nodes::{NodeCluster, Place};

use crate::failover::shape;

const MS: u64 = 1_000_000;
const KEYS: u64 = 100;

/// The keys that a client reads.
#[derive(Clone, Copy)]
enum Keys {
    /// Present keys whose places the client has learned.
    Known,
    /// Present keys whose places the client does not know.
    Unknown,
    /// Keys that are not there.
    Absent,
}

/// Processor time of all nodes during 20 ms, in which a client reads at 100 moments, all reads of a moment one after
/// the other. Each record has three copies.
fn busy_ns(reads_each: u64, keys: Keys) -> u64 {
    const MOMENTS: u64 = 100;
    let shape = shape(3);
    assert_eq!(shape.replicas, 3);
    let cluster = NodeCluster::new(shape, 1);
    let process = cluster.client_process();
    let usual = ClientOptions::default();
    let options = ClusterOptions {
        session: ClientOptions {
            locations: match keys {
                Keys::Unknown => 0,
                Keys::Known | Keys::Absent => usual.locations,
            },
            ..usual
        },
        ..ClusterOptions::default()
    };
    let connecting = cluster.client(&process, options);
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
                let number = (moment + read) % KEYS;
                let (key, is_there) = match keys {
                    Keys::Known | Keys::Unknown => (number, true),
                    Keys::Absent => (KEYS + number, false),
                };
                let version = client.get(&key.to_le_bytes(), &mut found).await.unwrap();
                assert_eq!(version.is_some(), is_there);
            }
            runtime.sleep(next - runtime.now()).await;
        }
        all() - busy
    });
    drop(client);
    spent
}

/// Needs reads without a request: the nodes renew their leases and those of readers, and a read adds nothing to that. A
/// request would take a node's processor time for its completion and its answer, some hundred nanoseconds. Known keys
/// are read in so short a time that the leases of the client are renewed at the same moments, and all is equal to the
/// nanosecond. Reads of two round trips take most of the time between two moments, so a lease is renewed a little
/// later, beside another step of the node: that moves less than a nanosecond for each read.
#[test]
fn a_read_of_a_replicated_store_takes_no_time_of_any_node() {
    for keys in [Keys::Known, Keys::Unknown, Keys::Absent] {
        let (few, many) = (busy_ns(1, keys), busy_ns(40, keys));
        assert!(few > 0, "nodes grant leases");
        let moved = match keys {
            Keys::Known => 0,
            Keys::Unknown | Keys::Absent => 3_900,
        };
        assert!(
            few.abs_diff(many) <= moved,
            "3,900 more reads: {few} and {many} ns"
        );
    }
}
