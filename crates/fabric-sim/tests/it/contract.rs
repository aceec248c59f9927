//! The contract of the fabric in the simulated world, on every profile that differs in more than speed, seen from outside
//! and from processes whose work takes time.

use std::cell::RefCell;
use std::rc::Rc;

use stonecast_fabric::contract::{Story, World as ContractWorld};
use stonecast_fabric::{Port, Runtime};
use stonecast_fabric_sim::{Features, MachineOptions, Process, Profile, World};
use stonecast_media::PersistentRegion;

/// Each node is a process on a machine of its own; the story watches from outside.
struct SimWorld {
    world: World,
    options: MachineOptions,
    nodes: RefCell<Vec<Option<Process>>>,
}

fn world(profile: Profile, features: Features) -> Rc<dyn ContractWorld> {
    let options = MachineOptions { features, ..MachineOptions::new(profile) };
    Rc::new(SimWorld { world: World::new(1), options, nodes: RefCell::default() })
}

impl ContractWorld for SimWorld {
    fn node(&self, index: usize) -> Rc<Port> {
        let process = self.world.observing_process(self.world.machine(self.options));
        let port = process.port(256).expect("completion queues");
        let nodes = &mut *self.nodes.borrow_mut();
        nodes.resize(nodes.len().max(index + 1), None);
        nodes[index] = Some(process);
        port
    }

    fn address(&self, index: usize) -> String {
        format!("sim:{index}")
    }

    fn runtime(&self) -> Rc<dyn Runtime> {
        self.world.observer()
    }

    fn run(&self, story: Story) {
        self.world.block_on(story);
    }

    fn persistent_region(&self, _: usize, _: u64) -> Option<Rc<dyn PersistentRegion>> {
        None
    }

    fn can_kill(&self) -> bool {
        true
    }

    fn kill(&self, index: usize) {
        self.nodes.borrow()[index].as_ref().expect("it was made").kill();
    }
}

mod modern_with_every_feature {
    use super::{Features, Profile};
    stonecast_fabric::contract_tests!(super::world(Profile::MODERN, Features::ALL));
}
