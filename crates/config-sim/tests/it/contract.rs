//! The service keeps the contract of stores of configurations.

use std::cell::RefCell;
use std::rc::Rc;

use stonecast_cluster::contract::{Story, World};
use stonecast_cluster::{ConfigStore, store_contract_tests};
use stonecast_config_sim::ConfigService;
use stonecast_fabric::Runtime;
use stonecast_fabric_sim::{MachineOptions, MachineProfile};

use crate::scene::Scene;

/// A service of three seats. Each handle belongs to a process on a machine of its own.
struct Simulated {
    scene: Scene,
    handles: RefCell<Vec<Rc<dyn Runtime>>>,
}

impl Simulated {
    fn world() -> Rc<dyn World> {
        Rc::new(Self {
            scene: Scene::new(9, 0),
            handles: RefCell::default(),
        })
    }

    fn service(&self) -> &Rc<ConfigService> {
        &self.scene.service
    }
}

impl World for Simulated {
    fn store(&self) -> Rc<dyn ConfigStore> {
        let world = &self.scene.world;
        let machine = world.machine(MachineOptions::new(MachineProfile::MODERN));
        let process = world.process(machine);
        let port = process.port(256).expect("a port");
        let runtime = process.runtime();
        let store = self.service().store(&port, &runtime);
        self.handles.borrow_mut().push(runtime);
        Rc::new(store)
    }

    fn runtime(&self) -> Rc<dyn Runtime> {
        self.scene.world.observer()
    }

    fn run(&self, story: Story) {
        self.scene.world.block_on(story);
    }
}

store_contract_tests!("the simulated service", |_| Ok(Simulated::world()));
