//! A cluster of nodes in its world, with its configuration store and its clients.

use std::cell::RefCell;
use std::rc::Rc;

use rand::RngExt as _;
use stonecast_base::{Nanoseconds, Random, random_from_seed};
use stonecast_cluster::{
    Attempt, ConfigStore as _, Configuration, Known, Policy, Refusal, Start, Timing,
};
use stonecast_config_sim::{ConfigService, ServiceOptions};
use stonecast_fabric_sim::{Features, Machine, MachineOptions, MachineProfile, Process, World};
use stonecast_kv::{CLIENT_COMPLETIONS, ClusterClient, ClusterError, ClusterOptions, Dial, Server};
use stonecast_media::DeclaredPlatform;
use uuid::Uuid;

use super::place::{NONCE, Place};

const MS: Nanoseconds = 1_000_000;
/// Time within which nodes that start serve all shards.
const STARTED_NS: Nanoseconds = 2_000 * MS;
/// Time between two looks at a cluster that is awaited.
const LOOK_NS: Nanoseconds = 20_000;

/// The shape of a cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClusterShape {
    /// The machines of nodes and clients.
    pub profile: MachineProfile,
    /// The platform of the nodes' persistent memory.
    pub platform: DeclaredPlatform,
    /// Whether the nodes' devices pack appends of several senders into one buffer.
    pub packs: bool,
    /// The number of machines of nodes.
    pub machines: usize,
    /// Cores of such a machine.
    pub cores: usize,
    /// The number of nodes, a multiple of the number of machines. Nodes of a machine share its cores, its NIC and its
    /// power, and each has an even part of its medium.
    pub nodes: usize,
    /// The number of shards.
    pub shards: u32,
    /// Copies of each shard.
    pub replicas: u8,
    /// Length of a lease, and the declaration of the clocks that count it.
    pub lease: Timing,
    /// Silence after which a copy is removed.
    pub remove_after_ns: Nanoseconds,
    /// The pool of each node.
    pub pool: PoolShape,
}

/// The shape of a node's pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PoolShape {
    /// The number of segments.
    pub segments: u64,
    /// Bytes of a segment.
    pub segment_size: u64,
}

impl PoolShape {
    /// A pool of segments of one size.
    pub const fn new(segments: u64, segment_size: u64) -> Self {
        Self {
            segments,
            segment_size,
        }
    }
}

impl ClusterShape {
    fn machine(&self) -> MachineOptions {
        let nodes_each = (self.nodes / self.machines) as u64;
        let mut profile = self.profile;
        profile.media_read_byte_ps *= nodes_each;
        profile.media_write_byte_ps *= nodes_each;
        profile.media_buffer_bytes /= nodes_each;
        MachineOptions {
            platform: self.platform,
            features: Features {
                multi_packet: self.packs,
                ..Features::COMMON
            },
            cores: self.cores,
            ..MachineOptions::new(profile)
        }
    }
}

/// A cluster in its world.
pub struct NodeCluster {
    /// The nodes.
    pub places: Vec<Place>,
    shape: ClusterShape,
    random: RefCell<Random>,
    service: Rc<ConfigService>,
    /// The last field, so that everything that runs in the world is dropped first.
    world: World,
}

impl NodeCluster {
    /// A cluster whose nodes have started, and whose shards are all served.
    ///
    /// # Panics
    ///
    /// If the nodes do not serve all shards within two virtual seconds.
    pub fn new(shape: ClusterShape, seed: u64) -> Self {
        let world = World::new(seed);
        let mut random = random_from_seed(seed);
        let seats: Vec<Machine> = (0..3)
            .map(|_| world.machine(MachineOptions::new(shape.profile)))
            .collect();
        let options = ServiceOptions::default();
        let service = ConfigService::start(&world, "config", &seats, random.random(), options)
            .expect("queues for the service");
        let machines: Vec<Machine> = (0..shape.machines)
            .map(|_| world.machine(shape.machine()))
            .collect();
        let places: Vec<Place> = (0..shape.nodes)
            .map(|index| {
                let zone = index % machines.len();
                Place::new(&world, (machines[zone], zone), index, shape)
            })
            .collect();
        let cluster = Self {
            places,
            shape,
            random: RefCell::new(random),
            service,
            world,
        };
        cluster.found();
        (0..shape.nodes).for_each(|index| cluster.start(index));
        let served = cluster.run_until(STARTED_NS, || cluster.is_served());
        assert!(served, "all shards are served: {:?}", cluster.ends());
        cluster
    }

    /// Stores the first configuration, in which all nodes are registered and all shards are placed.
    fn found(&self) {
        let policy = Policy {
            lease: self.shape.lease,
            remove_after_ns: self.shape.remove_after_ns,
            ..Policy::new(self.shape.replicas, self.shape.shards)
        };
        let attempt = Attempt {
            writer: "founder".to_owned(),
            number: Uuid::from_u128(1),
        };
        let mut first = Configuration::create(NONCE, policy, attempt);
        for place in &self.places {
            let registered = first.register(&place.name, &Start::first(place.described()));
            first = registered.expect("each name is new");
        }
        let first = first.place_shards().expect("there are nodes enough");
        for place in &self.places {
            *place.epoch.0.borrow_mut() = Some(Known::of(&first));
        }
        let founder = self.client_process();
        let port = founder.port(64).expect("queues for a founder");
        let store = self.service.store(&port, &founder.runtime());
        let stored = store.compare_and_set(None, &first.encode());
        let stored = self.world.block_on(stored);
        stored.expect("no other founder is there");
    }

    /// The world.
    pub fn world(&self) -> &World {
        &self.world
    }

    /// The shape.
    pub fn shape(&self) -> &ClusterShape {
        &self.shape
    }

    /// Starts a process of the node at `index`.
    pub fn start(&self, index: usize) {
        let random = random_from_seed(self.random.borrow_mut().random());
        self.places[index].start(&self.world, &self.service, random);
    }

    /// A process on a further machine, for clients.
    pub fn client_process(&self) -> Process {
        let machine = self.world.machine(MachineOptions::new(self.shape.profile));
        self.world.process(machine)
    }

    /// A client in `process`.
    pub async fn client(
        &self,
        process: &Process,
        options: ClusterOptions,
    ) -> Result<ClusterClient, ClusterError> {
        let runtime = process.runtime();
        let port = process.port(64).expect("queues for a client");
        let store = Rc::new(self.service.store(&port, &runtime));
        let process = process.clone();
        let dial: Dial = Rc::new(move |_: &str| Ok(process.port(CLIENT_COMPLETIONS)?));
        ClusterClient::connect(store, dial, runtime, options).await
    }

    /// The servers that run and have joined.
    pub fn servers(&self) -> impl Iterator<Item = Rc<Server>> {
        self.places.iter().filter_map(Place::server)
    }

    /// The index of the node that serves `shard`.
    pub fn leader(&self, shard: u32) -> Option<usize> {
        self.places.iter().position(|place| {
            let server = place.server();
            server.is_some_and(|server| server.serves(shard).is_some())
        })
    }

    /// Whether all shards are served.
    pub fn is_served(&self) -> bool {
        (0..self.shape.shards).all(|shard| self.leader(shard).is_some())
    }

    /// Whether all shards have all their copies, and no copy comes or goes.
    pub fn is_whole(&self) -> bool {
        self.stored().groups.iter().all(|group| {
            let is_calm = group.joining.is_empty() && group.leaving.is_empty();
            is_calm && group.in_sync.len() == usize::from(self.shape.replicas)
        })
    }

    /// The configuration in the service.
    pub fn stored(&self) -> Configuration {
        let stored = self.service.value().expect("the cluster was founded");
        Configuration::decode(&stored.bytes).expect("nodes store configurations")
    }

    /// Has the node at `by` bring the request of an operator.
    pub async fn request(
        &self,
        by: usize,
        request: impl Fn(&Configuration) -> Result<Configuration, Refusal>,
    ) {
        let server = self.places[by].server().expect("the node runs");
        let member = server.member().expect("the server is a node");
        let decide = |present: &Configuration| request(present).map(Some);
        let changed = member.change(decide).await;
        changed.expect("the configuration allows the request");
    }

    /// The reasons why servers have ended by themselves.
    pub fn ends(&self) -> Vec<Option<String>> {
        self.places.iter().map(Place::end).collect()
    }

    /// Lets `duration` pass.
    pub fn pass(&self, duration: Nanoseconds) {
        self.world.block_on(self.world.observer().sleep(duration));
    }

    /// Lets time pass until `done`, or `duration` at most. Returns whether it was done.
    pub fn run_until(&self, duration: Nanoseconds, done: impl FnMut() -> bool) -> bool {
        self.world.step_until(duration, LOOK_NS, done)
    }
}
