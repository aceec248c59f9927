//! A cluster of servers that are nodes, in a simulated world with a configuration service.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use rand::RngExt as _;
use stonecast_base::{Nanoseconds, Random, random_from_seed};
use stonecast_cluster::{
    Attempt, ConfigStore as _, Configuration, EpochCell, Found, Known, Node as Described, NodeName,
    Nonce, Pending, Policy, Refusal, Start, Survived, Timing,
};
use stonecast_config_sim::{ConfigService, ServiceOptions};
use stonecast_fabric_sim::{
    Features, LocalClock, Machine, MachineOptions, MachineProfile, Module, Process, RootPort,
    SimBacking, Survivor, World,
};
use stonecast_kv::{
    CLIENT_COMPLETIONS, ClusterClient, ClusterOptions, Dial, NodeOptions, Server, ServerOptions,
};
use stonecast_media::{
    Ddio, DeclaredPlatform, Durability, OpenMode, PersistenceDomain, Pool, PoolOptions,
    ReceiveBuffers,
};
use stonecast_member::Seat;
use uuid::Uuid;

pub const MS: Nanoseconds = 1_000_000;
pub const NONCE: Nonce = Nonce::from_u128(0x5707_eca5);
/// The seed by which all nodes hash keys.
const CLUSTER_SEED: u64 = 0x5eed_0f4c_1057_e72b;
const COMPLETIONS: u32 = 65_536;

/// The options of a cluster.
#[derive(Clone, Copy)]
pub struct Shape {
    pub nodes: usize,
    pub shards: u32,
    pub replicas: u8,
    /// Whether READs make entries durable; otherwise backups answer.
    pub one_sided: bool,
    /// Whether the devices pack messages.
    pub packs: bool,
    pub remove_after_ns: Nanoseconds,
    /// The leases of primaries.
    pub lease: Timing,
    /// Whether the floors of copies rise. Otherwise a start finds all entries again.
    pub floors_rise: bool,
    pub segments: u64,
    /// The segments of the last node; `None`: as many as those of the others.
    pub segments_of_last: Option<u64>,
    pub segment_size: u64,
    pub medium_patience_ns: Nanoseconds,
    /// The root ports of the nodes' machines, and the longest time for which a write may wait there.
    pub root_port: RootPort,
    pub inbound_stall_ns_max: Nanoseconds,
    /// The clocks of nodes with an even number are fast by this much, and those of the others and of clients slow.
    pub drift_ppm: i64,
}

impl Shape {
    /// Three nodes with three shards, each of which has three copies.
    pub const THREE: Self = Self {
        nodes: 3,
        shards: 3,
        replicas: 3,
        one_sided: true,
        packs: true,
        remove_after_ns: 60 * MS,
        lease: Timing::DEDICATED_CORES,
        floors_rise: true,
        segments: 16,
        segments_of_last: None,
        segment_size: 256 << 10,
        medium_patience_ns: 10_000 * MS,
        root_port: RootPort {
            ddio: None,
            relaxed_ordering: false,
        },
        inbound_stall_ns_max: 0,
        drift_ppm: 0,
    };

    /// This shape, where no node is removed for its silence.
    pub fn patient(self) -> Self {
        Self {
            remove_after_ns: 100_000 * MS,
            ..self
        }
    }

    /// This shape, where clocks deviate as far as the store allows.
    pub fn drifting(self) -> Self {
        Self {
            drift_ppm: 700,
            ..self
        }
    }

    fn platform(self) -> DeclaredPlatform {
        DeclaredPlatform {
            persistence_domain: PersistenceDomain::Dmp,
            ddio: match self.one_sided {
                true => Ddio::Off,
                false => Ddio::On,
            },
            receive_buffers: ReceiveBuffers::Dram,
        }
    }
}

/// The epoch of a node, which outlives its process.
#[derive(Clone, Default)]
struct Epoch(Rc<RefCell<Option<Known>>>);

impl EpochCell for Epoch {
    type Error = std::convert::Infallible;

    fn load(&self) -> Option<Known> {
        *self.0.borrow()
    }

    fn store<'a>(&'a self, known: Known) -> Pending<'a, Result<(), Self::Error>> {
        Box::pin(async move {
            *self.0.borrow_mut() = Some(known);
            Ok(())
        })
    }
}

/// A node beyond the life of its process.
pub struct Place {
    pub name: NodeName,
    pub machine: Machine,
    pub module: Rc<Module>,
    index: usize,
    shape: Shape,
    epoch: Epoch,
    running: RefCell<Option<Running>>,
    lost_power: Cell<bool>,
    /// The wall clock of each later start is that far behind.
    pub behind_ns: Cell<Nanoseconds>,
}

/// A process and its server.
struct Running {
    process: Process,
    server: Rc<RefCell<Option<Rc<Server>>>>,
    end: Rc<RefCell<Option<String>>>,
}

/// A letter for each of the first nodes.
pub fn name(index: usize) -> NodeName {
    let name = match index {
        0..26 => char::from(b'a' + index as u8).to_string(),
        _ => format!("n{index}"),
    };
    name.parse().unwrap()
}

/// Two ports of one device.
fn addresses(index: usize) -> Vec<String> {
    vec![format!("sim:node-{}", name(index))]
}

impl Place {
    fn new(world: &World, index: usize, shape: Shape) -> Self {
        let machine = world.machine(MachineOptions {
            platform: shape.platform(),
            features: Features {
                multi_packet: shape.packs,
                follows_appends: shape.packs && index.is_multiple_of(2),
                ..Features::COMMON
            },
            inbound_stall_ns_max: shape.inbound_stall_ns_max,
            ..MachineOptions::new(MachineProfile::MODERN)
        });
        let place = Self {
            name: name(index),
            machine,
            module: world.module(machine, Survivor::default()),
            index,
            shape,
            epoch: Epoch::default(),
            running: RefCell::default(),
            lost_power: Cell::default(),
            behind_ns: Cell::default(),
        };
        place.create();
        place
    }

    fn create(&self) {
        let is_last = self.index + 1 == self.shape.nodes;
        let segments = self.shape.segments_of_last.filter(|_| is_last);
        let segments = segments.unwrap_or(self.shape.segments);
        let pool = PoolOptions {
            capacity: segments * self.shape.segment_size,
            segment_size: self.shape.segment_size,
            shards: self.shape.shards,
            cluster_seed: Some(CLUSTER_SEED),
            platform: self.shape.platform(),
            durability: Durability::Power,
            entropy: [self.index as u8 + 1; 64],
        };
        let made = Pool::create(Rc::new(SimBacking::new(&self.module)), pool);
        drop(made.unwrap());
    }

    fn described(&self) -> Described {
        let (pool, _) =
            Pool::open(Rc::new(SimBacking::new(&self.module)), OpenMode::Inspect).unwrap();
        let platform = self.shape.platform();
        Described::new(
            pool.uuid(),
            Durability::Power,
            platform,
            addresses(self.index),
        )
    }

    /// Whether the pool, which no process serves, says that its records may have an expiry.
    pub fn may_expire(&self) -> bool {
        let backing = Rc::new(SimBacking::new(&self.module));
        let (pool, _) = Pool::open(backing, OpenMode::Inspect).unwrap();
        pool.time_mark().load().is_some()
    }

    fn start(&self, world: &World, service: &ConfigService, random: Random) {
        let process = world.process(self.machine);
        let drift_ppm = match self.index.is_multiple_of(2) {
            true => self.shape.drift_ppm,
            false => -self.shape.drift_ppm,
        };
        process.set_clock(LocalClock {
            ahead_ns: 0,
            drift_ppm,
        });
        let wall = process.runtime().wall_clock();
        process.set_wall_clock(wall - self.behind_ns.get());
        let device = process.open_device_at(self.shape.root_port);
        let port = process.port_on(device, COMPLETIONS).unwrap();
        let runtime = process.runtime();
        for address in addresses(self.index) {
            port.device().listen(&address).unwrap();
        }
        let described = self.described();
        let opened = Pool::open(Rc::new(SimBacking::new(&self.module)), OpenMode::Serve);
        let (pool, _) = opened.unwrap();
        let survived = match self.lost_power.replace(false) {
            true => Survived::PowerLoss,
            false => Survived::ProcessDeath,
        };
        let seat = Seat {
            store: Rc::new(service.store(&port, &runtime)),
            port,
            runtime: runtime.clone(),
            cell: self.epoch.clone(),
            cluster: NONCE,
            name: self.name.clone(),
            node: described,
            found: Found {
                survived,
                copies: Default::default(),
            },
            random,
        };
        let mut options = NodeOptions {
            floor_after: 16,
            medium_patience_ns: self.shape.medium_patience_ns,
            ..NodeOptions::new(self.shape.segment_size, self.shape.nodes)
        };
        if !self.shape.floors_rise {
            (options.floor_after, options.floor_after_ns) = (u64::MAX, 100_000 * MS);
        }
        let slot: Rc<RefCell<Option<Rc<Server>>>> = Rc::default();
        let end = Rc::new(RefCell::new(None));
        let (given, told) = (slot.clone(), end.clone());
        runtime.spawn(Box::pin(async move {
            let joined = Server::join(pool, seat, ServerOptions::default(), &options).await;
            let ended = match joined {
                Ok((server, _)) => {
                    let server = Rc::new(server);
                    *given.borrow_mut() = Some(server.clone());
                    server.run(&|| false).await
                }
                Err(refused) => Err(refused),
            };
            *told.borrow_mut() = ended.err().map(|error| error.to_string());
        }));
        *self.running.borrow_mut() = Some(Running {
            process,
            server: slot,
            end,
        });
    }

    /// Ends the process, as `kill -9` would.
    pub fn kill(&self) {
        if let Some(running) = self.running.take() {
            running.process.kill();
        }
    }

    /// Cuts the power of the machine. Nothing survives that was not durable.
    pub fn cut_power(&self, world: &World) {
        self.lose_power(world, |place| {
            let wreck = world.wreck(place.machine, &place.module);
            let fates = vec![Default::default(); wreck.undecided()];
            wreck.survivor(&fates)
        });
    }

    /// Cuts the power of the machine. `survivor` decides what survives of that which was not durable.
    pub fn lose_power(&self, world: &World, survivor: impl FnOnce(&Self) -> Survivor) {
        world.cut_power(self.machine);
        self.running.take();
        self.module.restart(survivor(self));
        self.lost_power.set(true);
    }

    /// Sets the wall clock of the running process back.
    pub fn set_back(&self, back_ns: Nanoseconds) {
        if let Some(running) = &*self.running.borrow() {
            let wall = running.process.runtime().wall_clock();
            running.process.set_wall_clock(wall - back_ns);
        }
    }

    /// Lets the process stand still for a while.
    pub fn pause(&self, duration_ns: u64) {
        if let Some(running) = &*self.running.borrow() {
            running.process.pause(duration_ns);
        }
    }

    pub fn server(&self) -> Option<Rc<Server>> {
        let running = self.running.borrow();
        running.as_ref()?.server.borrow().clone()
    }

    /// The reason why the server has ended by itself.
    pub fn end(&self) -> Option<String> {
        let running = self.running.borrow();
        running.as_ref()?.end.borrow().clone()
    }
}

/// A cluster in its world.
pub struct Cluster {
    pub places: Vec<Place>,
    pub shape: Shape,
    /// The machine and the process of clients.
    pub machine: Machine,
    pub process: Process,
    random: RefCell<Random>,
    service: Rc<ConfigService>,
    /// The last field, so that everything that runs in the world is dropped first.
    pub world: World,
}

impl Cluster {
    /// A cluster whose nodes have started, and whose shards are all served.
    pub fn new(shape: Shape, seed: u64) -> Self {
        let cluster = Self::begun(shape, seed);
        cluster.await_service();
        cluster
    }

    /// A cluster whose nodes have been started.
    pub fn begun(shape: Shape, seed: u64) -> Self {
        let world = World::new(seed);
        let mut random = random_from_seed(seed ^ 0x6e6f_6465);
        let machine = || world.machine(MachineOptions::new(MachineProfile::MODERN));
        let seats: Vec<Machine> = (0..3).map(|_| machine()).collect();
        let options = ServiceOptions::default();
        let service = ConfigService::start(&world, "config", &seats, random.random(), options);
        let service = service.unwrap();
        let places: Vec<_> = (0..shape.nodes)
            .map(|index| Place::new(&world, index, shape))
            .collect();
        let first = first_configuration(shape, &places);
        for place in &places {
            *place.epoch.0.borrow_mut() = Some(Known::of(&first));
        }
        let machine = machine();
        let process = world.process(machine);
        process.set_clock(LocalClock {
            ahead_ns: 0,
            drift_ppm: -shape.drift_ppm,
        });
        let port = process.port(64).unwrap();
        let store = service.store(&port, &process.runtime());
        let stored = store.compare_and_set(None, &first.encode());
        world.block_on(stored).unwrap();
        let cluster = Self {
            places,
            shape,
            machine,
            process,
            random: RefCell::new(random),
            service,
            world,
        };
        (0..shape.nodes).for_each(|index| cluster.start(index));
        cluster
    }

    pub fn start(&self, index: usize) {
        let random = random_from_seed(self.random.borrow_mut().random());
        self.places[index].start(&self.world, &self.service, random);
    }

    /// Waits until all shards are served.
    pub fn await_service(&self) {
        let served = self.run_until(2_000 * MS, || {
            (0..self.shape.shards).all(|shard| self.leader(shard).is_some())
        });
        assert!(served, "all shards are served: {:?}", self.ends());
    }

    /// The reasons why servers have ended by themselves.
    pub fn ends(&self) -> Vec<Option<String>> {
        self.places.iter().map(Place::end).collect()
    }

    /// The configuration in the service.
    pub fn stored(&self) -> Configuration {
        Configuration::decode(&self.service.value().unwrap().bytes).unwrap()
    }

    /// The index of the node that serves a shard.
    pub fn leader(&self, shard: u32) -> Option<usize> {
        self.places.iter().position(|place| {
            let server = place.server();
            server.is_some_and(|server| server.serves(shard).is_some())
        })
    }

    /// Whether all shards have all their copies, and no copy comes or goes.
    pub fn is_whole(&self) -> bool {
        let groups = self.stored().groups;
        groups.iter().all(|group| {
            let is_calm = group.joining.is_empty() && group.leaving.is_empty();
            is_calm && group.in_sync.len() == usize::from(self.shape.replicas)
        })
    }

    /// Kills the primary of the first shard, and waits until its heir serves, and the node is back with all copies.
    pub async fn survive_a_death(&self) {
        let primary = self.leader(0).expect("the shard is led");
        self.places[primary].kill();
        self.until_served().await;
        self.start(primary);
        self.until("all copies are there", || self.is_whole()).await;
    }

    /// Lets time pass until `done`, or `duration` at most. Returns whether it was done.
    pub fn run_until(&self, duration: Nanoseconds, done: impl FnMut() -> bool) -> bool {
        self.world.step_until(duration, 50_000, done)
    }

    /// A client that gives up after `patience_ns`, and looks for an heir after three default leases of a primary.
    pub async fn client(&self, patience_ns: Nanoseconds) -> ClusterClient {
        self.client_that_waits(patience_ns, 30 * MS).await
    }

    /// A client that gives up after `patience_ns`, and looks for an heir after `attempt_ns`.
    pub async fn client_that_waits(
        &self,
        patience_ns: Nanoseconds,
        attempt_ns: Nanoseconds,
    ) -> ClusterClient {
        let runtime = self.process.runtime();
        let port = self.process.port(64).unwrap();
        let store = Rc::new(self.service.store(&port, &runtime));
        let process = self.process.clone();
        let dial: Dial = Rc::new(move |_: &str| Ok(process.port(CLIENT_COMPLETIONS)?));
        let options = ClusterOptions {
            patience_ns,
            attempt_ns,
            ..ClusterOptions::default()
        };
        let connected = ClusterClient::connect(store, dial, runtime, options).await;
        connected.unwrap_or_else(|error| panic!("{error}: {:?}", self.ends()))
    }

    /// Tells `story` to a client of a new cluster.
    pub fn tell(shape: Shape, seed: u64, story: impl AsyncFnOnce(&Self, &ClusterClient)) {
        let cluster = Self::new(shape, seed);
        let client = cluster.world.block_on(cluster.client(4_000 * MS));
        cluster.world.block_on(story(&cluster, &client));
        drop(client);
    }

    /// Cuts the power of a node, and waits until it is no copy of the first shard any more.
    pub async fn lose(&self, index: usize) {
        let place = &self.places[index];
        place.cut_power(&self.world);
        let is_copy = || self.stored().groups[0].in_sync.contains(&place.name);
        self.until("the node is removed", || !is_copy()).await;
    }

    /// Waits, within a story, until `done`.
    pub async fn until(&self, what: &str, mut done: impl FnMut() -> bool) {
        let runtime = self.process.runtime();
        for _ in 0..20_000 {
            if done() {
                return;
            }
            runtime.sleep(100_000).await;
        }
        panic!("{what}: {:?}", self.ends());
    }

    /// Waits, within a story, until all shards are served.
    pub async fn until_served(&self) {
        let shards = 0..self.shape.shards;
        self.until("all shards are served", || {
            shards.clone().all(|shard| self.leader(shard).is_some())
        })
        .await;
    }

    /// Has the node at `by` bring the request of an operator.
    pub async fn request(
        &self,
        by: usize,
        request: impl Fn(&Configuration) -> Result<Configuration, Refusal>,
    ) {
        let server = self.places[by].server().expect("it runs");
        let member = server.member().expect("it is a node");
        let decide = |present: &Configuration| request(present).map(Some);
        member.change(decide).await.unwrap();
    }
}

/// The first configuration of a cluster: nodes are registered and shards are placed.
fn first_configuration(shape: Shape, places: &[Place]) -> Configuration {
    let policy = Policy {
        lease: shape.lease,
        remove_after_ns: shape.remove_after_ns,
        ..Policy::new(shape.replicas, shape.shards)
    };
    let attempt = Attempt {
        writer: "test".to_owned(),
        number: Uuid::from_u128(1),
    };
    let mut configuration = Configuration::create(NONCE, policy, attempt);
    for place in places {
        let start = Start::first(place.described());
        configuration = configuration.register(&place.name, &start).unwrap();
    }
    configuration.place_shards().unwrap()
}
