//! Three servers as stand-ins for the nodes of a cluster, in a simulated world with a configuration service. There are
//! no copies: a shard that moves begins empty at its next node, or with what the story has stored there.

use std::cell::{Cell, RefCell};
use std::rc::{Rc, Weak};

use stonecast_cluster::{
    Attempt, ConfigStore as _, Configuration, HashRange, Node, NodeName, Nonce, Policy, Revision,
    Start, Subject, Swap, Term,
};
use stonecast_config_sim::{ConfigService, ServiceOptions};
use stonecast_fabric::Port;
use stonecast_fabric::decorate::{Meter, Observed};
use stonecast_fabric_sim::{
    Machine, MachineOptions, MachineProfile, Module, Process, SimBacking, Survivor, World,
};
use stonecast_kv::{
    CLIENT_COMPLETIONS, ClusterClient, ClusterError, ClusterOptions, Dial, Server, ServerOptions,
};
use stonecast_media::{DeclaredPlatform, Durability, Pool, PoolOptions};
use uuid::Uuid;

pub const MS: u64 = 1_000_000;
pub const SHARDS: u32 = 6;
const SEGMENT_SIZE: u64 = 256 << 10;
const NODES: usize = 3;
/// Bytes of the entropy that decide the seed of the hash of a key.
const KEY_SEED: std::ops::Range<usize> = 16..24;

/// A server that stands for a node.
pub struct StandIn {
    pub name: NodeName,
    /// The UUID of its pool.
    pub pool: Uuid,
    pub machine: Machine,
    pub module: Rc<Module>,
    pub process: Process,
    pub server: Rc<RefCell<Option<Rc<Server>>>>,
    /// The length of the leases that the node offers; 0: none.
    pub held_ns: Rc<Cell<u64>>,
    /// A shard on which the node has no lease to offer, though it leads the shard.
    pub unleased: Rc<Cell<Option<u32>>>,
}

pub struct Cluster {
    pub nodes: Vec<StandIn>,
    pub process: Process,
    pub meter: Rc<Meter>,
    service: Rc<ConfigService>,
    configuration: RefCell<Configuration>,
    revision: Cell<Revision>,
    /// The last field, so that everything that runs in the world is dropped first.
    pub world: World,
}

impl Cluster {
    /// Three nodes that serve. Each node leads some shards.
    pub fn new() -> Self {
        let world = World::new(7);
        let options = || MachineOptions::new(MachineProfile::MODERN);
        let [seat, home] = [(); 2].map(|()| world.machine(options()));
        let service =
            ConfigService::start(&world, "config", &[seat], 1, ServiceOptions::default()).unwrap();
        let nodes: Vec<_> = (0..NODES).map(|index| start(&world, index)).collect();
        let configuration = first_configuration(&nodes, options().platform);
        let process = world.process(home);
        let cluster = Self {
            nodes,
            process,
            meter: Rc::default(),
            service,
            configuration: RefCell::new(configuration.clone()),
            revision: Cell::new(Revision(0)),
            world,
        };
        let all_serve = || {
            let mut nodes = cluster.nodes.iter();
            nodes.all(|node| node.server.borrow().is_some())
        };
        while !all_serve() {
            assert!(cluster.world.step());
        }
        let stored = cluster.store(None, &configuration);
        cluster.world.block_on(stored);
        cluster.tell(&configuration);
        cluster
    }

    async fn store(&self, expected: Option<Revision>, configuration: &Configuration) {
        let port = self.process.port(64).unwrap();
        let store = self.service.store(&port, &self.process.runtime());
        let bytes = configuration.encode();
        let swapped = store.compare_and_set(expected, &bytes).await;
        let Swap::Done(revision) = swapped.unwrap() else {
            panic!("nobody else changes the configuration");
        };
        self.revision.set(revision);
    }

    /// Tells the nodes which shards they lead.
    pub fn tell(&self, configuration: &Configuration) {
        for node in &self.nodes {
            let Some(server) = node.server.borrow().clone() else {
                continue;
            };
            for shard in 0..SHARDS {
                let group = configuration.group(&subject(shard)).unwrap();
                let term = (group.primary == node.name).then_some(group.term);
                server.lead(configuration.epoch, shard, term);
            }
        }
    }

    /// The configuration in which the node at `heir` leads `shard`, in a later term than before.
    pub fn with_heir(&self, shard: u32, heir: usize) -> Configuration {
        let name = &self.nodes[heir].name;
        let before = self.configuration.borrow();
        before.take_lead(&subject(shard), name).unwrap()
    }

    /// The configuration in which a backup of `shard` has left.
    pub fn with_fewer_copies(&self, shard: u32) -> Configuration {
        let before = self.configuration.borrow();
        let group = before.group(&subject(shard)).unwrap();
        let backup = group.backups().next().unwrap().clone();
        before.leave(&subject(shard), &backup).unwrap()
    }

    /// Stores a configuration for clients to read. The nodes do not hear of it.
    pub async fn publish(&self, configuration: &Configuration) {
        self.store(Some(self.revision.get()), configuration).await;
        *self.configuration.borrow_mut() = configuration.clone();
    }

    /// Gives `shard` to the node at `heir`.
    pub async fn hand_over(&self, shard: u32, heir: usize) {
        let next = self.with_heir(shard, heir);
        self.tell(&next);
        self.publish(&next).await;
    }

    /// The node that leads `shard`, by its index.
    pub fn leader(&self, shard: u32) -> usize {
        let configuration = self.configuration.borrow();
        let primary = &configuration.group(&subject(shard)).unwrap().primary;
        let mut names = self.nodes.iter().map(|node| &node.name);
        names.position(|name| name == primary).unwrap()
    }

    /// A dial whose ports do counted work, and the ports that it has made.
    pub fn noted_dial(&self) -> (Dial, Rc<RefCell<Vec<Weak<Port>>>>) {
        let (process, meter) = (self.process.clone(), self.meter.clone());
        let ports = Rc::<RefCell<Vec<Weak<Port>>>>::default();
        let noted = ports.clone();
        let dial: Dial = Rc::new(move |_: &str| {
            let device = Observed::new(process.open_device(), meter.clone());
            let port = process.port_on(Rc::new(device), CLIENT_COMPLETIONS)?;
            noted.borrow_mut().push(Rc::downgrade(&port));
            Ok(port)
        });
        (dial, ports)
    }

    /// A client that gives up after `patience_ns`, and whose work is counted.
    pub async fn connect(&self, patience_ns: u64) -> Result<ClusterClient, ClusterError> {
        self.connect_by(self.noted_dial().0, patience_ns).await
    }

    /// Like `connect`, through the ports of `dial`.
    pub async fn connect_by(
        &self,
        dial: Dial,
        patience_ns: u64,
    ) -> Result<ClusterClient, ClusterError> {
        let runtime = self.process.runtime();
        let port = self.process.port(64).unwrap();
        let store = Rc::new(self.service.store(&port, &runtime));
        let options = ClusterOptions {
            patience_ns,
            ..ClusterOptions::default()
        };
        ClusterClient::connect(store, dial, runtime, options).await
    }

    /// Tells `story` to a client.
    pub fn tell_story(story: impl AsyncFnOnce(&Self, &ClusterClient)) {
        let cluster = Self::new();
        let client = cluster.world.block_on(cluster.connect(400 * MS)).unwrap();
        cluster.world.block_on(story(&cluster, &client));
        drop(client);
    }
}

pub fn subject(shard: u32) -> Subject {
    Subject::Keys(HashRange::even(shard, SHARDS))
}

fn address(index: usize) -> String {
    format!("sim:node-{index}")
}

fn entropy(index: usize) -> [u8; 64] {
    let mut entropy = [index as u8 + 1; 64];
    entropy[KEY_SEED].fill(7);
    entropy
}

fn start(world: &World, index: usize) -> StandIn {
    let options = MachineOptions::new(MachineProfile::MODERN);
    let platform = options.platform;
    let machine = world.machine(options);
    let module = world.module(machine, Survivor::default());
    let pool = PoolOptions {
        capacity: 16 * SEGMENT_SIZE,
        segment_size: SEGMENT_SIZE,
        shards: SHARDS,
        cluster_seed: None,
        platform,
        durability: Durability::Power,
        entropy: entropy(index),
    };
    let pool = Pool::create(Rc::new(SimBacking::new(&module)), pool).unwrap();
    let uuid = pool.uuid();
    let process = world.process(machine);
    let (serving, started) = (
        process.clone(),
        Rc::<RefCell<Option<Rc<Server>>>>::default(),
    );
    let (told, held_ns) = (started.clone(), Rc::new(Cell::new(10 * MS)));
    let unleased = Rc::<Cell<Option<u32>>>::default();
    let (offered, withheld) = (held_ns.clone(), unleased.clone());
    process.runtime().spawn(Box::pin(async move {
        let port: Rc<Port> = serving.port(65_536).unwrap();
        let device = port.device().clone();
        let opened = Server::open(pool, port, serving.runtime(), ServerOptions::default()).await;
        let server = Rc::new(opened.unwrap().0);
        device.listen(&address(index)).unwrap();
        server.offer_by(Rc::new(move |shard: u32, _: Term| {
            Some(offered.get()).filter(|&held_ns| held_ns > 0 && withheld.get() != Some(shard))
        }));
        *told.borrow_mut() = Some(server.clone());
        let _ = server.run(&|| false).await;
    }));
    StandIn {
        name: name(index),
        pool: uuid,
        machine,
        module,
        process,
        server: started,
        held_ns,
        unleased,
    }
}

fn name(index: usize) -> NodeName {
    ["a", "b", "c"][index].parse().unwrap()
}

fn first_configuration(nodes: &[StandIn], platform: DeclaredPlatform) -> Configuration {
    let attempt = Attempt {
        writer: "test".to_owned(),
        number: Uuid::from_u128(1),
    };
    let policy = Policy::new(NODES as u8, SHARDS);
    let mut configuration = Configuration::create(Nonce::from_u128(5), policy, attempt);
    for (index, stand_in) in nodes.iter().enumerate() {
        let addresses = vec![address(index)];
        let node = Node::new(stand_in.pool, Durability::Power, platform, addresses);
        let start = Start::first(node);
        configuration = configuration.register(&stand_in.name, &start).unwrap();
    }
    configuration.place_shards().unwrap()
}
