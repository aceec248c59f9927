//! The providers on which plans are executed: shared memory, and the reference provider of the contract suite.

use std::cell::Cell;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use stonecast_fabric::contract::World as _;
use stonecast_fabric::{BusyPoll, Port};
use stonecast_fabric_shm::{ShmDevice, ShmOptions};

use crate::loopback::{Fault, Flavour, LIBERAL, LoopbackWorld};
use crate::pause::Pause;

/// Makes devices that reach each other.
pub trait Provider {
    /// Drives both sides.
    fn executor(&self) -> BusyPoll;
    /// A port on a device of its own.
    fn port(&self, capacity: u32) -> Rc<Port>;
    /// The address on which the first device listens.
    fn address(&self) -> String;
}

/// Both providers; their files go to `folder`.
pub fn providers(folder: &Path) -> Vec<(&'static str, Box<dyn Provider>)> {
    vec![
        ("reference", Box::new(Reference::new(LIBERAL))),
        ("shared memory", Box::new(SharedMemory::new(folder))),
    ]
}

/// The reference provider.
pub struct Reference {
    world: Rc<LoopbackWorld>,
    nodes: Cell<usize>,
}

impl Reference {
    /// With devices of one flavour.
    pub fn new(flavour: Flavour) -> Self {
        Self {
            world: LoopbackWorld::new(flavour, Fault::Nothing),
            nodes: Cell::new(0),
        }
    }
}

impl Provider for Reference {
    fn executor(&self) -> BusyPoll {
        self.world.executor().clone()
    }

    fn port(&self, _capacity: u32) -> Rc<Port> {
        self.nodes.set(self.nodes.get() + 1);
        self.world.node(self.nodes.get() - 1)
    }

    fn address(&self) -> String {
        self.world.address(0)
    }
}

struct SharedMemory {
    executor: BusyPoll,
    socket: PathBuf,
}

impl SharedMemory {
    fn new(folder: &Path) -> Self {
        Self {
            executor: BusyPoll::new(Pause::new(), 1_000_000),
            socket: folder.join("socket"),
        }
    }
}

fn device() -> Rc<ShmDevice> {
    ShmDevice::new(ShmOptions::default()).expect("a device")
}

impl Provider for SharedMemory {
    fn executor(&self) -> BusyPoll {
        self.executor.clone()
    }

    fn port(&self, capacity: u32) -> Rc<Port> {
        let port = Rc::new(Port::new(device(), capacity).expect("a port"));
        self.executor.add_port(&port);
        port
    }

    fn address(&self) -> String {
        format!("shm:{}", self.socket.display())
    }
}
