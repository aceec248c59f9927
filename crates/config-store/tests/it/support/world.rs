//! A world of the contract with real stores.

use std::any::Any;
use std::rc::Rc;

use stonecast_cluster::ConfigStore;
use stonecast_cluster::contract::{Story, World};
use stonecast_fabric::{BusyPoll, Runtime};

use stonecast_config_store::executor;

/// Handles of the store at one address.
pub struct RealWorld {
    address: String,
    executor: BusyPoll,
    /// The home of the store: a directory, or servers.
    _home: Box<dyn Any>,
}

impl RealWorld {
    pub fn of(address: String, home: impl Any) -> Rc<dyn World> {
        Rc::new(Self {
            address,
            executor: executor(),
            _home: Box::new(home),
        })
    }
}

impl World for RealWorld {
    fn store(&self) -> Rc<dyn ConfigStore> {
        stonecast_config_store::open(&self.address).unwrap()
    }

    fn runtime(&self) -> Rc<dyn Runtime> {
        self.executor.runtime()
    }

    fn run(&self, story: Story) {
        self.executor.block_on(story);
    }
}
