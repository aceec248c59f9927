//! From the start of all nodes after a power cut until all shards are served.

use std::rc::Rc;

use stonecast_base::Nanoseconds;
use stonecast_kv::{ClusterError, ClusterOptions};

use super::cluster::{ClusterShape, NodeCluster};
use super::load::{keys_of, store};

const MS: Nanoseconds = 1_000_000;
/// Time for which the cluster is idle before the power cut.
const CALM_NS: Nanoseconds = 10 * MS;
/// Time within which all shards are served.
const PATIENCE_NS: Nanoseconds = 20_000 * MS;

/// The measured case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecoveryLoad {
    /// The cluster.
    pub shape: ClusterShape,
    /// Keys of each shard.
    pub keys: usize,
    /// Bytes of a value.
    pub value_size: usize,
    /// The seed of the world.
    pub seed: u64,
}

/// A cluster that has started again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recovery {
    /// The time from the start of the processes until all shards are served.
    pub served_ns: Nanoseconds,
    /// The hash of everything that happened in the world.
    pub hash: u64,
}

/// Cuts the power of all nodes of a cluster with data, and starts all of them at once.
///
/// # Panics
///
/// If not all shards are served within twenty virtual seconds.
pub fn recover(load: &RecoveryLoad) -> Result<Recovery, ClusterError> {
    let cluster = NodeCluster::new(load.shape, load.seed);
    let process = cluster.client_process();
    let connecting = cluster.client(&process, ClusterOptions::default());
    let client = Rc::new(cluster.world().block_on(connecting)?);
    for shard in 0..load.shape.shards {
        let keys = keys_of(&client, shard, load.keys);
        let storing = store(&client, &keys, load.value_size);
        cluster.world().block_on(storing)?;
    }
    cluster.pass(CALM_NS);
    drop(client);
    for place in &cluster.places {
        place.cut_power(cluster.world());
    }
    let began_ns = cluster.world().now();
    (0..cluster.places.len()).for_each(|index| cluster.start(index));
    let is_served = cluster.run_until(PATIENCE_NS, || cluster.is_served());
    assert!(is_served, "all shards are served: {:?}", cluster.ends());
    Ok(Recovery {
        served_ns: cluster.world().now() - began_ns,
        hash: cluster.world().hash(),
    })
}
