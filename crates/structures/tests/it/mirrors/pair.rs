//! Two machines with a pool each, of which one holds a copy of the other.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use stonecast_config_sim::{ConfigService, ServiceOptions};
use stonecast_fabric::{Port, Runtime};
use stonecast_fabric_sim::{
    Fate, LocalClock, Machine, MachineOptions, MachineProfile, Module, Process, SimBacking,
    Survivor, World,
};
use stonecast_media::{Backing as _, DeclaredPlatform, Durability, LogOptions};
use stonecast_structures::{
    AttachError, BackEnd, FRONT_END_COMPLETIONS, FrontEndError, LogKey, Medium, MirrorLink,
    MirrorServer, Promoted, SERVICE_COMPLETIONS, Service, ServiceError, StandingStore,
    StructurePool, Writer, promote,
};

use crate::sessions::{GEOMETRY, LEASE_NS};

/// A mirror becomes no back-end for so long after the last word of its source.
pub const MIRROR_LEASE_NS: u64 = 5_000_000;
/// Work requests of a server to the store, at most.
const STORE_COMPLETIONS: u32 = 64;

/// A machine with a pool.
pub struct Node {
    pub name: &'static str,
    platform: DeclaredPlatform,
    durability: Cell<Durability>,
    machine: Machine,
    /// The service with the standing record, if the node shares one.
    service: RefCell<Option<Rc<ConfigService>>>,
    module: Rc<Module>,
    pub process: RefCell<Process>,
    /// The reason why its server has ended.
    ended: RefCell<Option<String>>,
}

/// The machines.
pub struct Pair {
    pub world: Rc<World>,
    pub first: Rc<Node>,
    pub second: Rc<Node>,
}

impl Pair {
    pub fn new(platforms: [DeclaredPlatform; 2], seed: u64) -> Self {
        let world = Rc::new(World::new(seed));
        let [first, second] = platforms;
        let node = |name, platform| {
            let machine = world.machine(MachineOptions {
                platform,
                ..MachineOptions::new(MachineProfile::MODERN)
            });
            Rc::new(Node {
                name,
                platform,
                durability: Cell::new(Durability::Power),
                machine,
                service: RefCell::default(),
                module: world.module(machine, Survivor::default()),
                process: RefCell::new(world.process(machine)),
                ended: RefCell::default(),
            })
        };
        Self {
            first: node("sim:first", first),
            second: node("sim:second", second),
            world,
        }
    }

    /// Lets both nodes share a standing record in a service on a machine of its own.
    pub fn share_record(&self, name: &str, seed: u64) -> Rc<ConfigService> {
        let options = ServiceOptions::default();
        let seats = [self.operator_machine()];
        let service = ConfigService::start(&self.world, name, &seats, seed, options);
        let service = service.expect("queues for the service");
        for node in [&self.first, &self.second] {
            node.name_store(Some(&service));
        }
        service
    }

    pub async fn rest(&self, duration_ns: u64) {
        let process = self.world.process(self.first.machine);
        process.runtime().sleep(duration_ns).await;
    }

    /// A new pool at the first machine.
    pub async fn create(&self) {
        let made = StructurePool::create(Rc::new(self.first.medium()), GEOMETRY).await;
        drop(made.expect("the medium is sound"));
    }

    /// A new pool at the first machine, with a mirror at the second that has everything.
    pub async fn begin(&self) {
        self.create().await;
        self.serve_mirror(&self.second);
        let attached = self.serve(&self.first, Some(&self.second)).await;
        attached.expect("the mirror is empty");
        self.await_whole(&self.first).await;
    }

    /// Waits until the mirror of a back-end has everything.
    pub async fn await_whole(&self, node: &Node) {
        let (_process, front_end) = self.front_end(node).await;
        for _ in 0..1_000 {
            let mirror = front_end.counts().await.expect("it serves").mirror;
            if mirror.is_bound {
                return self.rest(1_000_000).await;
            }
            self.rest(100_000).await;
        }
        panic!("the mirror is never whole");
    }

    /// Serves the pool of a node as the back-end's.
    pub async fn serve(&self, node: &Rc<Node>, mirror: Option<&Node>) -> Result<(), ServeError> {
        let (port, runtime) = node.port();
        let medium = node.medium();
        let (medium, link) = match mirror {
            None => (Rc::new(medium), None),
            Some(mirror) => {
                let of = (mirror.name, MIRROR_LEASE_NS);
                let attached = MirrorLink::attach(&port, runtime.clone(), medium, of).await?;
                (attached.0, Some(attached.1))
            }
        };
        let of = (node.name, LEASE_NS);
        let mut service = Service::start(port, runtime.clone(), medium, of).await?;
        if let Some(link) = link {
            service = service.with_mirror(link);
        }
        let this = node.clone();
        runtime.spawn(Box::pin(async move {
            let ended = service.run().await.expect_err("it serves until it fails");
            this.ended.replace(Some(ended.to_string()));
        }));
        Ok(())
    }

    /// Serves the pool of a node as a mirror.
    pub fn serve_mirror(&self, node: &Rc<Node>) {
        let (port, runtime) = node.port();
        let medium = Rc::new(node.medium());
        let server = MirrorServer::start(port, runtime.clone(), medium, node.name);
        let mut server = server.expect("the medium is sound");
        let this = node.clone();
        runtime.spawn(Box::pin(async move {
            let promoted = server.run().await.expect("the medium is sound");
            let words = format!("promoted to generation {}", promoted.generation);
            this.ended.replace(Some(words));
            // Its connections last until the process ends.
            std::mem::forget(server);
        }));
    }

    /// Ends the process of a node, and starts another one that serves nothing yet.
    pub fn kill(&self, node: &Node) {
        node.process.borrow().kill();
        node.process.replace(self.world.process(node.machine));
        node.ended.take();
    }

    /// Cuts the power of a node. Nothing survives that need not.
    pub fn cut_power(&self, node: &Node) {
        let wreck = self.world.wreck(node.machine, &node.module);
        let nothing = Fate { stores: 0, torn: 0 };
        let survivor = wreck.survivor(&vec![nothing; wreck.undecided()]);
        self.world.cut_power(node.machine);
        node.module.restart(survivor);
        node.process.replace(self.world.process(node.machine));
        node.ended.take();
    }

    /// Lets a mirror become the back-end, and serves it.
    pub async fn promote(&self, node: &Rc<Node>) -> u64 {
        let generation = self.ask_to_promote(node).await;
        self.kill(node);
        self.serve(node, None).await.expect("it was promoted");
        generation
    }

    /// Lets a mirror become the back-end. Its process goes on.
    pub async fn ask_to_promote(&self, node: &Node) -> u64 {
        let process = self.operator();
        let port = process.port(FRONT_END_COMPLETIONS).expect("a port");
        let promoted = promote(&port, &process.runtime(), node.name).await;
        promoted.expect("the mirror has everything")
    }

    /// A process on a machine of its own.
    pub fn operator(&self) -> Process {
        self.world.process(self.operator_machine())
    }

    /// A machine without a pool.
    pub fn operator_machine(&self) -> Machine {
        self.world
            .machine(MachineOptions::new(MachineProfile::MODERN))
    }

    /// A front-end on a machine of its own.
    pub async fn front_end(&self, node: &Node) -> (Process, Rc<BackEnd>) {
        self.front_end_at(self.operator_machine(), node).await
    }

    /// A front-end on `machine`.
    pub async fn front_end_at(&self, machine: Machine, node: &Node) -> (Process, Rc<BackEnd>) {
        let process = self.world.process(machine);
        let port = process.port(FRONT_END_COMPLETIONS).expect("a port");
        let back_end = BackEnd::connect(&port, node.name).await;
        (process, back_end.expect("the back-end accepts"))
    }

    /// The next tenure of a domain, once the one before has ended.
    pub async fn writer(&self, back_end: &Rc<BackEnd>, domain: u32) -> Writer {
        for _ in 0..1_000 {
            match back_end.writer(domain).await {
                Ok(writer) => return writer,
                Err(FrontEndError::Held { .. }) => self.rest(1_000_000).await,
                Err(error) => panic!("{error}"),
            }
        }
        panic!("the tenure does not end");
    }
}

/// The reason why a back-end does not start.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    #[error(transparent)]
    Attach(#[from] AttachError),
    #[error(transparent)]
    Service(#[from] ServiceError),
}

impl Node {
    /// The port of a server in its process.
    pub fn port(&self) -> (Rc<Port>, Rc<dyn Runtime>) {
        let process = self.process.borrow();
        let port = process.port(SERVICE_COMPLETIONS).expect("a port");
        (port, process.runtime())
    }

    /// The pool, with the name and the seed of its content.
    pub fn medium(&self) -> Medium {
        let options = LogOptions {
            capacity: GEOMETRY.pool_size(),
            platform: self.platform,
            durability: self.durability.get(),
        };
        let region = SimBacking::new(&self.module).open_log(options);
        let region = region.expect("a log");
        let own = (LogKey(77), self.name.len() as u128);
        let promoted = Promoted::of(&*region);
        let (key, uuid) = promoted.map_or(own, |promoted| (promoted.key, promoted.content));
        let declared = (self.platform, self.durability.get());
        let medium = Medium::new(region, declared, key, uuid).expect("a plan");
        match self.store() {
            Some(store) => medium.recorded_in(store),
            None => medium,
        }
    }

    /// The service with the standing record that the next server of the node uses.
    pub fn name_store(&self, service: Option<&Rc<ConfigService>>) {
        self.service.replace(service.cloned());
    }

    /// The store of the standing record, as a server in the node's process uses it.
    fn store(&self) -> Option<Rc<StandingStore>> {
        let service = self.service.borrow();
        let process = self.process.borrow();
        let (port, runtime) = (process.port(STORE_COMPLETIONS), process.runtime());
        let store = service.as_ref()?.store(&port.expect("a port"), &runtime);
        let own = self.name.len() as u128;
        Some(StandingStore::new(Rc::new(store), runtime, own))
    }

    /// Lets the pool survive the end of processes alone.
    pub fn weaken(&self) {
        self.durability.set(Durability::Process);
    }

    /// The reason why its server has ended, once.
    pub fn take_end(&self) -> Option<String> {
        self.ended.take()
    }

    pub fn machine(&self) -> Machine {
        self.machine
    }

    pub fn set_clock(&self, clock: LocalClock) {
        self.process.borrow().set_clock(clock);
    }
}
