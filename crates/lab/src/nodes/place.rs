//! A node beyond the life of its process: its machine, its pool, and the epoch that it knows.

use std::cell::{Cell, RefCell};
use std::convert::Infallible;
use std::rc::Rc;

use stonecast_base::Random;
use stonecast_cluster::{
    EpochCell, Found, Known, Node as Described, NodeName, Nonce, Pending, Survived,
};
use stonecast_config_sim::ConfigService;
use stonecast_fabric_sim::{Machine, Module, Process, SimBacking, Survivor, World};
use stonecast_kv::{NodeOptions, Server, ServerOptions, StoreError};
use stonecast_media::{Durability, OpenMode, Pool, PoolOptions};
use stonecast_member::Seat;

use super::cluster::ClusterShape;

pub(super) const NONCE: Nonce = Nonce::from_u128(0x5707_eca5);
/// The seed by which all nodes hash keys.
const HASH_SEED: u64 = 0x5eed_0f4c_1057_e72b;
/// Entries of the completion queues of a node.
const COMPLETIONS: u32 = 65_536;

/// The epoch of a node, durable at once.
#[derive(Clone, Default)]
pub(super) struct Epoch(pub Rc<RefCell<Option<Known>>>);

impl EpochCell for Epoch {
    type Error = Infallible;

    fn load(&self) -> Option<Known> {
        *self.0.borrow()
    }

    fn store<'a>(&'a self, known: Known) -> Pending<'a, Result<(), Infallible>> {
        *self.0.borrow_mut() = Some(known);
        Box::pin(async { Ok(()) })
    }
}

/// A node beyond the life of its process.
pub struct Place {
    /// The name of the node.
    pub name: NodeName,
    /// The machine of the node.
    pub machine: Machine,
    /// The persistent memory with its pool.
    pub module: Rc<Module>,
    pub(super) epoch: Epoch,
    /// The number of the machine.
    zone: usize,
    shape: ClusterShape,
    running: RefCell<Option<Running>>,
    lost_power: Cell<bool>,
}

/// A process of a node.
struct Running {
    process: Process,
    server: Rc<RefCell<Option<Rc<Server>>>>,
    end: Rc<RefCell<Option<StoreError>>>,
}

impl Place {
    /// A node without a process, with an empty pool.
    pub(super) fn new(
        world: &World,
        (machine, zone): (Machine, usize),
        index: usize,
        shape: ClusterShape,
    ) -> Self {
        let module = world.module(machine, Survivor::default());
        let pool = PoolOptions {
            capacity: shape.pool.segments * shape.pool.segment_size,
            segment_size: shape.pool.segment_size,
            shards: shape.shards,
            cluster_seed: Some(HASH_SEED),
            platform: shape.platform,
            durability: Durability::Power,
            entropy: [index as u8 + 1; 64],
        };
        let created = Pool::create(Rc::new(SimBacking::new(&module)), pool);
        drop(created.expect("the declaration fits the machine"));
        Self {
            name: format!("n{index}").parse().expect("it is a name"),
            machine,
            zone,
            module,
            epoch: Epoch::default(),
            shape,
            running: RefCell::default(),
            lost_power: Cell::default(),
        }
    }

    fn address(&self) -> String {
        format!("sim:node-{}", self.name)
    }

    /// The node as it registers.
    pub(super) fn described(&self) -> Described {
        let inspected = Pool::open(Rc::new(SimBacking::new(&self.module)), OpenMode::Inspect);
        let (pool, _) = inspected.expect("the pool was created");
        let addresses = vec![self.address()];
        Described {
            zone: Some(format!("machine-{}", self.zone)),
            ..Described::new(
                pool.uuid(),
                Durability::Power,
                self.shape.platform,
                addresses,
            )
        }
    }

    /// Starts a process that joins the cluster, and serves.
    pub(super) fn start(&self, world: &World, service: &ConfigService, random: Random) {
        let process = world.process(self.machine);
        let (port, runtime) = (
            process.port(COMPLETIONS).expect("queues for a node"),
            process.runtime(),
        );
        port.device()
            .listen(&self.address())
            .expect("no process has the address");
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
            node: self.described(),
            found: Found {
                survived,
                copies: Default::default(),
            },
            random,
        };
        let (backing, shape) = (Rc::new(SimBacking::new(&self.module)), self.shape);
        let server: Rc<RefCell<Option<Rc<Server>>>> = Rc::default();
        let end = Rc::new(RefCell::new(None));
        let (given, told) = (server.clone(), end.clone());
        runtime.spawn(Box::pin(async move {
            let serving = async {
                let (pool, _) = Pool::open(backing, OpenMode::Serve)?;
                let options = NodeOptions::new(shape.pool.segment_size, shape.nodes);
                let joined = Server::join(pool, seat, ServerOptions::default(), &options).await?;
                let server = Rc::new(joined.0);
                *given.borrow_mut() = Some(server.clone());
                server.run(&|| false).await
            };
            *told.borrow_mut() = serving.await.err();
        }));
        *self.running.borrow_mut() = Some(Running {
            process,
            server,
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
        world.cut_power(self.machine);
        self.running.take();
        let wreck = world.wreck(self.machine, &self.module);
        let fates = vec![Default::default(); wreck.undecided()];
        self.module.restart(wreck.survivor(&fates));
        self.lost_power.set(true);
    }

    /// The server, once it has joined.
    pub fn server(&self) -> Option<Rc<Server>> {
        let running = self.running.borrow();
        running.as_ref()?.server.borrow().clone()
    }

    /// Time for which the core of the process has worked.
    pub fn busy_ns(&self) -> u64 {
        let running = self.running.borrow();
        running
            .as_ref()
            .map_or(0, |running| running.process.core_busy_ns())
    }

    /// The reason why the server has ended by itself, as text.
    pub fn end(&self) -> Option<String> {
        let running = self.running.borrow();
        let end = running.as_ref()?.end.borrow();
        end.as_ref().map(ToString::to_string)
    }
}
