//! `kv` with copies on the machines of the evaluation, with its clients.

use std::collections::BTreeSet;
use std::rc::Rc;

use stonecast_base::Nanoseconds;
use stonecast_bench::crowd::Crowd;
use stonecast_cluster::{Policy, Timing};
use stonecast_fabric_sim::{MachineProfile, Process, World};
use stonecast_kv::{ClientOptions, ClusterClient, ClusterOptions};
use stonecast_media::{Ddio, DeclaredPlatform, ReceiveBuffers};

use super::cluster::{
    CORES, Contestant, ContestantError, Counters, KvClient, PLATFORM, SEED, client_threads,
    machine_options,
};
use crate::nodes::{ClusterShape, NodeCluster, Place, PoolShape};

/// Machines of servers.
const MACHINES: u32 = 6;
/// Keys whose places a client remembers for each node: more than a node has.
const LOCATIONS: usize = 4096;

/// Time in which the copies digest what was loaded, and indexes end their growth.
const SETTLED_NS: Nanoseconds = 30_000_000;

/// A cluster of `kv`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct KvOptions {
    /// Nodes of each machine. A node is a process with one thread, and leads one shard.
    pub nodes_each: u32,
    /// Copies of a record.
    pub copies: u32,
    /// Segments of a node.
    pub segments: u64,
    /// Bytes of a segment.
    pub segment_size: u64,
    /// Where NICs write. If into caches, the processors of the copies write entries back and answer; otherwise READs
    /// make entries durable.
    pub ddio: Ddio,
}

impl KvOptions {
    /// A node on each machine, 3 copies, segments as in the paper, and room for everything.
    pub const USUAL: Self = Self {
        nodes_each: 1,
        copies: 3,
        segments: 512,
        segment_size: 4 << 20,
        ddio: PLATFORM.ddio,
    };

    fn shape(self, profile: MachineProfile) -> ClusterShape {
        let nodes = MACHINES * self.nodes_each;
        ClusterShape {
            profile,
            platform: DeclaredPlatform {
                ddio: self.ddio,
                receive_buffers: ReceiveBuffers::Dram,
                ..PLATFORM
            },
            packs: true,
            machines: MACHINES as usize,
            cores: CORES,
            nodes: nodes as usize,
            shards: nodes,
            replicas: self.copies as u8,
            lease: Timing::DEDICATED_CORES,
            remove_after_ns: Policy::new(3, 1).remove_after_ns,
            pool: PoolShape::new(self.segments, self.segment_size),
        }
    }
}

/// The nodes and client threads of `kv` in their world.
pub(super) struct KvCluster {
    clients: Vec<(Process, Rc<ClusterClient>)>,
    nodes: NodeCluster,
}

impl KvCluster {
    /// A cluster on `profile` whose shards are all served.
    pub fn new(
        profile: MachineProfile,
        options: KvOptions,
        threads: u32,
    ) -> Result<Self, ContestantError> {
        let nodes = NodeCluster::new(options.shape(profile), SEED);
        let mut clients = Vec::new();
        for process in client_threads(nodes.world(), machine_options(profile), threads) {
            let options = ClusterOptions {
                session: ClientOptions {
                    locations: LOCATIONS,
                    ..ClientOptions::default()
                },
                ..ClusterOptions::default()
            };
            let client = nodes.world().block_on(nodes.client(&process, options))?;
            clients.push((process, Rc::new(client)));
        }
        Ok(Self { clients, nodes })
    }
}

impl Contestant for KvCluster {
    type Client = ClusterClient;

    fn world(&self) -> &World {
        self.nodes.world()
    }

    fn clients(&self) -> &[(Process, Rc<ClusterClient>)] {
        &self.clients
    }

    /// Each client thread reads a key of each shard, so that it has a session with each node, and leases.
    fn prepare(&self, keys: u64) -> Result<(), ContestantError> {
        let crowd = Crowd::new();
        for (process, client) in &self.clients {
            let client = client.clone();
            crowd.spawn(&*process.runtime(), async move {
                let mut seen = BTreeSet::new();
                let mut found = Vec::new();
                for key in 0..keys {
                    if seen.insert(client.shard_of(&key.to_le_bytes())) {
                        KvClient::get(&*client, key, &mut found).await?;
                    }
                }
                Ok(())
            });
        }
        let ends: Vec<Result<(), ContestantError>> = self.world().block_on(crowd.ends());
        ends.into_iter().collect::<Result<(), _>>()?;
        self.pass(SETTLED_NS);
        Ok(())
    }

    fn counters(&self) -> Counters {
        let places = &self.nodes.places;
        let mut counters = Counters {
            now_ns: self.world().now(),
            servers: MACHINES,
            workers: places.len() as u32 / MACHINES,
            workers_ns: places.iter().map(Place::busy_ns).sum(),
            ..Counters::default()
        };
        for place in places {
            counters.medium.add(&place.module.counts());
        }
        counters
    }
}

impl KvClient for ClusterClient {
    async fn get(&self, key: u64, into: &mut Vec<u8>) -> Result<bool, ContestantError> {
        Ok(Self::get(self, &key.to_le_bytes(), into).await?.is_some())
    }

    async fn put(&self, key: u64, value: &[u8]) -> Result<(), ContestantError> {
        Self::put(self, &key.to_le_bytes(), value).await?;
        Ok(())
    }
}
