//! Two machines with a pool each, of which one holds a copy of the other.

use std::cell::RefCell;
use std::rc::Rc;

use stonecast_fabric::{Port, Runtime};
use stonecast_fabric_sim::{
    Fate, LocalClock, Machine, MachineOptions, MachineProfile, Module, Process, SimBacking,
    Survivor, World,
};
use stonecast_media::{Backing as _, DeclaredPlatform, Durability, LogOptions};
use stonecast_structures::{
    AttachError, BackEnd, FRONT_END_COMPLETIONS, FrontEndError, LogKey, Medium, MirrorLink,
    MirrorServer, Promoted, SERVICE_COMPLETIONS, Service, ServiceError, StructurePool, Writer,
    promote,
};

use crate::sessions::{GEOMETRY, LEASE_NS};

/// A mirror becomes no back-end for so long after the last word of its source.
pub const MIRROR_LEASE_NS: u64 = 5_000_000;

/// A machine with a pool.
pub struct Node {
    pub name: &'static str,
    platform: DeclaredPlatform,
    machine: Machine,
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
                machine,
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
            if mirror.exists() && mirror.bytes_to_copy == 0 {
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
        let machine = MachineOptions::new(MachineProfile::MODERN);
        self.world.process(self.world.machine(machine))
    }

    /// A front-end on a machine of its own.
    pub async fn front_end(&self, node: &Node) -> (Process, Rc<BackEnd>) {
        let process = self.operator();
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
            durability: Durability::Power,
        };
        let region = SimBacking::new(&self.module).open_log(options);
        let region = region.expect("a log");
        let own = (LogKey(77), self.name.len() as u128);
        let promoted = Promoted::of(&*region);
        let (key, uuid) = promoted.map_or(own, |promoted| (promoted.key, promoted.content));
        let declared = (self.platform, Durability::Power);
        Medium::new(region, declared, key, uuid).expect("a plan")
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
