//! From the death of a primary to the first acknowledged write of each of its shards.

use rand::RngExt as _;
use stonecast_base::{Nanoseconds, random_from_seed};
use stonecast_kv::ClusterError;

use super::cluster::{ClusterShape, NodeCluster};
use super::load::{Call, CallLoad};

const MS: Nanoseconds = 1_000_000;
/// Time in which the last answers of a dead node reach their clients.
const ON_ITS_WAY_NS: Nanoseconds = 50_000;
/// Time for which a run continues when all shards are used again.
const AFTERWARDS_NS: Nanoseconds = 10 * MS;
/// Time within which every shard is written again.
const PATIENCE_NS: Nanoseconds = 5_000 * MS;

/// The end of a primary.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Death {
    /// The process ends, as by `kill -9`: its queue pairs end with it, and its peers learn of that.
    Kill,
    /// The machine loses its power: no message announces it.
    PowerCut,
}

/// The measured case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FailoverLoad {
    /// The cluster.
    pub shape: ClusterShape,
    /// The clients.
    pub calls: CallLoad,
    /// The end of the primary.
    pub death: Death,
    /// The seed of the world, of the primary, and of the moment.
    pub seed: u64,
}

/// A primary that died, and its shards.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failover {
    /// The moment of the death.
    pub died_ns: Nanoseconds,
    /// The shards of the primary.
    pub shards: Vec<ShardFailover>,
    /// The calls of the run, in the order of their ends.
    pub calls: Vec<Call>,
    /// The hash of everything that happened in the world.
    pub hash: u64,
}

/// A shard whose primary died. Times begin with the death.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShardFailover {
    /// The shard.
    pub shard: u32,
    /// The time until a configuration names another primary.
    pub named_ns: Nanoseconds,
    /// The time until another node serves the shard.
    pub served_ns: Nanoseconds,
    /// The time until a client has the first acknowledgement of a write.
    pub written_ns: Nanoseconds,
    /// The time until a client has the first answer of a read.
    pub read_ns: Nanoseconds,
}

/// Lets a primary die under load.
///
/// # Panics
///
/// If a shard is not read and written again within five virtual seconds.
pub fn fail_over(load: &FailoverLoad) -> Result<Failover, ClusterError> {
    let mut random = random_from_seed(load.seed);
    let cluster = NodeCluster::new(load.shape, load.seed);
    let calls = load.calls.start(&cluster, &mut random)?;
    cluster.pass(random.random_range(20 * MS..40 * MS));
    let victim = random.random_range(0..load.shape.nodes);
    let led: Vec<u32> = (0..load.shape.shards)
        .filter(|&shard| cluster.leader(shard) == Some(victim))
        .collect();
    let died_ns = cluster.world().now();
    match load.death {
        Death::Kill => cluster.places[victim].kill(),
        Death::PowerCut => cluster.places[victim].cut_power(cluster.world()),
    }
    let mut shards: Vec<Times> = led.iter().map(|&shard| Times::of(shard)).collect();
    let mut seen = calls.borrow().len();
    let is_over = || {
        let since = cluster.world().now() - died_ns;
        let groups = cluster.stored().groups;
        for times in &mut shards {
            if groups[times.shard as usize].primary != cluster.places[victim].name {
                times.named_ns.get_or_insert(since);
            }
            if cluster.leader(times.shard).is_some() {
                times.served_ns.get_or_insert(since);
            }
        }
        let calls = calls.borrow();
        for call in &calls[seen..] {
            let times = shards.iter_mut().find(|times| times.shard == call.shard);
            if let Some(times) = times
                && call.ended_ns > died_ns + ON_ITS_WAY_NS
            {
                let first = match call.is_put {
                    true => &mut times.written_ns,
                    false => &mut times.read_ns,
                };
                first.get_or_insert(call.ended_ns - died_ns);
            }
        }
        seen = calls.len();
        shards.iter().all(|times| times.known().is_some())
    };
    let is_done = cluster.run_until(PATIENCE_NS, is_over);
    assert!(is_done, "all shards are used again: {:?}", cluster.ends());
    cluster.pass(AFTERWARDS_NS);
    Ok(Failover {
        died_ns,
        shards: shards.iter().filter_map(Times::known).collect(),
        calls: calls.take(),
        hash: cluster.world().hash(),
    })
}

/// The times of a shard that have come so far.
#[derive(Default)]
struct Times {
    shard: u32,
    named_ns: Option<Nanoseconds>,
    served_ns: Option<Nanoseconds>,
    written_ns: Option<Nanoseconds>,
    read_ns: Option<Nanoseconds>,
}

impl Times {
    fn of(shard: u32) -> Self {
        Self {
            shard,
            ..Self::default()
        }
    }

    fn known(&self) -> Option<ShardFailover> {
        Some(ShardFailover {
            shard: self.shard,
            named_ns: self.named_ns?,
            served_ns: self.served_ns?,
            written_ns: self.written_ns?,
            read_ns: self.read_ns?,
        })
    }
}
