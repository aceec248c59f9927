//! The KV store on several nodes, as a subject of the checks.

use std::cell::{Cell, OnceCell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use stonecast_base::{Nanoseconds, random_from_seed};
use stonecast_cluster::{ConfigStore, Configuration, Found, Known, Survived};
use stonecast_config_sim::ConfigService;
use stonecast_fabric_sim::{Process, SimBacking};
use stonecast_kv::{
    CLIENT_COMPLETIONS, ClusterClient, ClusterOptions, Dial, NodeOptions, Server, ServerOptions,
    StoreError,
};
use stonecast_media::{OpenMode, Pool};
use stonecast_member::Seat as Membership;

use crate::history::NodeId;
use crate::kv::batch::Bundle;
use crate::kv::{WORDS, name as key_name};
use crate::kv_cluster::client::{self, NamedWrite};
use crate::kv_cluster::contents::Contents;
use crate::kv_cluster::places::{self, EpochOf, NONCE, SEGMENT_SIZE};
use crate::kv_cluster::setup::Setup;
use crate::kv_cluster::shelf::Beside;
use crate::models::register::{Answer, Call};
use crate::oracles::leaders::Claim;
use crate::subject::{Ended, Seat, Subject, Task, Testimony};
use crate::timeline::Words;
use crate::values::ValueId;
use crate::violation::Violation;

/// Completions of a node's port.
pub(super) const COMPLETIONS: u32 = 65_536;
const MS: Nanoseconds = 1_000_000;
/// Patience of clients.
const PATIENCE_NS: Nanoseconds = 400 * MS;

/// The KV store on several nodes.
pub(crate) struct KvCluster {
    pub setup: Setup,
    pub keys: Vec<Vec<u8>>,
    pub testimony: Testimony<Call, Answer>,
    /// The batches so far.
    pub batches: RefCell<Vec<Bundle>>,
    /// Operations that no client has begun.
    pub left: Cell<u64>,
    next_value: Cell<u32>,
    /// The latest write of each client, with its name.
    named: RefCell<BTreeMap<u32, NamedWrite>>,
    /// The shards that nodes were seen to lead.
    pub claims: RefCell<Vec<Claim>>,
    epochs: Vec<EpochOf>,
    /// The servers that run, by node.
    servers: Vec<RefCell<Option<Rc<Server>>>>,
    /// The nodes that lost their power since their last start.
    without_power: RefCell<BTreeSet<NodeId>>,
    service: OnceCell<Rc<ConfigService>>,
}

impl KvCluster {
    pub fn new(setup: Setup) -> Rc<Self> {
        let nodes = setup.nodes();
        Rc::new(Self {
            keys: (0..setup.keys).map(key_name).collect(),
            testimony: Testimony::new(setup.keys),
            batches: RefCell::default(),
            left: Cell::new(setup.operations),
            next_value: Cell::new(1),
            named: RefCell::default(),
            claims: RefCell::default(),
            epochs: (0..nodes).map(|_| EpochOf::default()).collect(),
            servers: (0..nodes).map(|_| RefCell::default()).collect(),
            without_power: RefCell::default(),
            service: OnceCell::new(),
            setup,
        })
    }

    /// Begins with a configuration that all nodes have entered.
    pub fn begin(&self, service: Rc<ConfigService>, first: &Configuration) {
        for epoch in &self.epochs {
            *epoch.0.borrow_mut() = Some(Known::of(first));
        }
        let set = self.service.set(service);
        assert!(set.is_ok(), "a run begins once");
    }

    pub fn service(&self) -> &Rc<ConfigService> {
        self.service.get().expect("the run has begun")
    }

    /// The configuration in the service.
    pub fn configuration(&self) -> Configuration {
        let stored = self.service().value().expect("it was created");
        Configuration::decode(&stored.bytes).expect("nodes store configurations")
    }

    pub fn fresh_value(&self) -> ValueId {
        ValueId(self.next_value.replace(self.next_value.get() + 1))
    }

    /// Notes the latest write of `client`. A recovery repeats it.
    pub fn name_write(&self, client: u32, write: NamedWrite) {
        self.named.borrow_mut().insert(client, write);
    }

    /// The latest writes of clients.
    pub fn named(&self) -> Vec<NamedWrite> {
        self.named.borrow().values().cloned().collect()
    }

    pub fn nodes(&self) -> impl Iterator<Item = NodeId> + use<> {
        0..self.setup.nodes() as NodeId
    }

    pub fn node_called(&self, name: &stonecast_cluster::NodeName) -> NodeId {
        let mut nodes = self.nodes();
        nodes
            .find(|&node| places::name(node) == *name)
            .expect("the configuration names nodes of the run")
    }

    pub fn server(&self, node: NodeId) -> Option<Rc<Server>> {
        self.servers[node as usize].borrow().clone()
    }

    /// Notes that the process of a node has ended.
    pub fn note_gone(&self, node: NodeId, lost_power: bool) {
        self.servers[node as usize].take();
        if lost_power {
            self.without_power.borrow_mut().insert(node);
        }
    }

    /// Notes the shards that nodes lead at this moment.
    pub fn note_claims(&self) {
        for node in self.nodes() {
            let Some(server) = self.server(node) else {
                continue;
            };
            for group in 0..self.setup.shards {
                if let Some(term) = server.serves(group) {
                    let term = if self.setup.canary { 0 } else { term.0 };
                    let claim = Claim { group, term, node };
                    let mut claims = self.claims.borrow_mut();
                    if !claims.contains(&claim) {
                        claims.push(claim);
                    }
                }
            }
        }
    }

    pub fn is_served(&self) -> bool {
        (0..self.setup.shards).all(|shard| {
            let mut servers = self.nodes().filter_map(|node| self.server(node));
            servers.any(|server| server.serves(shard).is_some())
        })
    }

    /// Joins the cluster, and serves.
    async fn run(&self, seat: &Seat) -> Result<(), StoreError> {
        let port = seat.process.port(COMPLETIONS)?;
        let store = self.service().store(&port, &seat.process.runtime());
        let cell = self.epochs[seat.node as usize].clone();
        let lost_power = self.without_power.borrow_mut().remove(&seat.node);
        let seed = self.testimony.history.borrow().now() ^ u64::from(seat.node) << 48;
        let joined = self.join(seat, (port, Rc::new(store)), (cell, lost_power), seed);
        let server = Rc::new(joined.await?);
        *self.servers[seat.node as usize].borrow_mut() = Some(server.clone());
        server.run(&|| seat.is_stopping()).await
    }

    pub(super) async fn join(
        &self,
        seat: &Seat,
        (port, store): (Rc<stonecast_fabric::Port>, Rc<dyn ConfigStore>),
        (cell, lost_power): (EpochOf, bool),
        seed: u64,
    ) -> Result<Server, StoreError> {
        port.device().listen(&places::address(seat.node))?;
        let inspected = SimBacking::new(&seat.module);
        let node = places::described(&self.setup, seat.node, inspected);
        let (pool, _) = Pool::open(seat.backing.clone(), OpenMode::Serve)?;
        let survived = match lost_power {
            true => Survived::PowerLoss,
            false => Survived::ProcessDeath,
        };
        let membership = Membership {
            store,
            port,
            runtime: seat.process.runtime(),
            cell,
            cluster: NONCE,
            name: places::name(seat.node),
            node,
            found: Found {
                survived,
                copies: Default::default(),
            },
            random: random_from_seed(seed),
        };
        let options = NodeOptions {
            floor_after: 8,
            ..NodeOptions::new(SEGMENT_SIZE, self.setup.nodes())
        };
        let joined = Server::join(pool, membership, ServerOptions::default(), &options).await?;
        Ok(joined.0)
    }

    /// A client in `process`.
    pub async fn connect(
        &self,
        process: &Process,
        store: Rc<dyn ConfigStore>,
    ) -> Option<ClusterClient> {
        let dialing = process.clone();
        let dial: Dial = Rc::new(move |_: &str| Ok(dialing.port(CLIENT_COMPLETIONS)?));
        let options = ClusterOptions {
            patience_ns: PATIENCE_NS,
            attempt_ns: 30 * MS,
            ..ClusterOptions::default()
        };
        let connected = ClusterClient::connect(store, dial, process.runtime(), options);
        connected.await.ok()
    }
}

impl Subject for KvCluster {
    type Call = Call;
    type Answer = Answer;
    type Contents = Contents;
    type Beside = Beside;

    const WORDS: Words<Call, Answer> = WORDS;

    fn name(&self, node: NodeId) -> String {
        format!("node {}", places::name(node))
    }

    fn testimony(&self) -> &Testimony<Call, Answer> {
        &self.testimony
    }

    fn serve(self: Rc<Self>, seat: Seat) -> Task<Result<(), Ended>> {
        Box::pin(async move {
            let ended = self.run(&seat).await;
            self.servers[seat.node as usize].take();
            ended.map_err(|error| Ended {
                is_excused: is_excused(&error),
                error: error.to_string(),
            })
        })
    }

    fn live(self: Rc<Self>, process: Process, client: u32, seed: u64) -> Task<()> {
        Box::pin(client::live(self, process, client, seed))
    }

    fn beside(&self) -> Beside {
        let stored = self.service().value().expect("it was created");
        Beside::of(stored, &self.epochs)
    }

    fn recover(
        self: Rc<Self>,
        seats: Vec<Seat>,
        beside: Rc<Beside>,
    ) -> Task<Result<Contents, Violation>> {
        Box::pin(async move { self.open(&seats, &beside).await })
    }
}

/// Whether the surroundings of a node explain its end: the node is cut off from the configuration when it starts, or
/// another start of it is known.
fn is_excused(error: &StoreError) -> bool {
    matches!(error, StoreError::Node(error) if error.is_of_the_cluster())
}
