//! The pause of the keys of a shard that moves to another node while clients read and write them.

use stonecast_base::{Nanoseconds, random_from_seed};
use stonecast_kv::ClusterError;

use super::cluster::{ClusterShape, NodeCluster};
use super::load::{Call, CallLoad};

const MS: Nanoseconds = 1_000_000;
/// Time for which clients work before the move.
const BEFORE_NS: Nanoseconds = 10 * MS;
/// Time for which clients work after the move, in which they reach the pace of before.
const AFTER_NS: Nanoseconds = 20 * MS;
/// Time within which the shard has moved.
const PATIENCE_NS: Nanoseconds = 20_000 * MS;

/// The measured case: a cluster of one shard, which its primary leaves for a node without a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MoveLoad {
    /// The cluster, with one shard, and a node more than copies.
    pub shape: ClusterShape,
    /// The clients. Their keys and values are the live bytes of the shard.
    pub calls: CallLoad,
    /// The seed of the world.
    pub seed: u64,
}

/// A shard that has moved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Move {
    /// The moment at which the operator asked for the move.
    pub asked_ns: Nanoseconds,
    /// The moment at which the copies were whole again, and the shard was served.
    pub moved_ns: Nanoseconds,
    /// The longest time for which no node served the shard.
    pub unserved_ns: Nanoseconds,
    /// The calls of the run, in the order of their ends.
    pub calls: Vec<Call>,
    /// The hash of everything that happened in the world.
    pub hash: u64,
}

impl Move {
    /// The longest time of a call that ended after the operator asked: of PUTs, or of GETs.
    pub fn longest_ns(&self, is_put: bool) -> Nanoseconds {
        let calls = self.calls.iter().filter(|call| call.is_put == is_put);
        let calls = calls.filter(|call| call.ended_ns > self.asked_ns);
        calls.map(Call::took_ns).max().unwrap_or_default()
    }
}

/// Has the primary of a shard replaced by a node without a copy, under load.
///
/// # Panics
///
/// If the shard has not moved within twenty virtual seconds.
pub fn move_shard(load: &MoveLoad) -> Result<Move, ClusterError> {
    let cluster = NodeCluster::new(load.shape, load.seed);
    let calls = load
        .calls
        .start(&cluster, &mut random_from_seed(load.seed))?;
    cluster.pass(BEFORE_NS);
    let group = cluster.stored().groups[0].clone();
    let mut places = cluster.places.iter();
    let joiner = places.position(|place| !group.has_copy(&place.name));
    let joiner = joiner.expect("a node has no copy");
    let (from, to) = (group.primary, cluster.places[joiner].name.clone());
    let asked_ns = cluster.world().now();
    let asking = cluster.request(joiner, |present| {
        present.move_copy(&group.subject, Some(&from), &to)
    });
    cluster.world().block_on(asking);
    let (mut unserved_since, mut unserved_ns) = (None, 0);
    let is_moved = || {
        let groups = cluster.stored().groups;
        let now = cluster.world().now();
        match cluster.is_served() {
            true => unserved_since = None,
            false => {
                let since = *unserved_since.get_or_insert(now);
                unserved_ns = unserved_ns.max(now - since);
            }
        }
        !groups[0].has_copy(&from) && cluster.is_whole() && cluster.is_served()
    };
    let moved = cluster.run_until(PATIENCE_NS, is_moved);
    assert!(moved, "the shard moves: {:?}", cluster.ends());
    let moved_ns = cluster.world().now();
    cluster.pass(AFTER_NS);
    Ok(Move {
        asked_ns,
        moved_ns,
        unserved_ns,
        calls: calls.take(),
        hash: cluster.world().hash(),
    })
}
