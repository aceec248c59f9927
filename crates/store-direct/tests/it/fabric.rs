//! The providers that the stories run on: shared memory, and the reference provider of the contract suite.

use std::cell::Cell;
use std::path::Path;
use std::rc::Rc;

use stonecast_fabric::contract::World as _;
use stonecast_fabric::{BusyPoll, Port};

use crate::loopback::{Fault, LIBERAL, LoopbackWorld};

/// Makes devices that reach each other.
pub trait Fabric {
    fn executor(&self) -> BusyPoll;
    fn port(&self, capacity: u32) -> Rc<Port>;
    fn address(&self) -> String;
}

/// Which provider a story runs on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Provider {
    Reference,
}

impl Provider {
    pub const ALL: [Self; 1] = [Self::Reference];

    pub fn start(self, directory: &Path) -> Box<dyn Fabric> {
        let _ = directory;
        match self {
            Self::Reference => Box::new(Reference { world: LoopbackWorld::new(LIBERAL, Fault::Nothing), nodes: Cell::new(0) }),
        }
    }
}

struct Reference {
    world: Rc<LoopbackWorld>,
    nodes: Cell<usize>,
}

impl Fabric for Reference {
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
