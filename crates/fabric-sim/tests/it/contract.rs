//! The contract of the fabric in the simulated world, on every profile that differs in more than speed, observed from
//! outside and from processes whose work takes time.

use std::cell::RefCell;
use std::rc::Rc;

use stonecast_fabric::contract::{Story, World as ContractWorld};
use stonecast_fabric::{Port, Runtime};
use stonecast_fabric_sim::{
    Features, Machine, MachineOptions, MachineProfile, Process, SimBacking, Survivor, World,
};
use stonecast_media::{
    Backing as _, Ddio, DeclaredPlatform, Durability, LogOptions, PersistenceDomain,
    PersistentRegion, ReceiveBuffers,
};

/// Each node is a process on a machine of its own; the story observes from outside.
struct SimWorld {
    world: World,
    options: MachineOptions,
    nodes: RefCell<Vec<Option<(Machine, Process)>>>,
}

fn world(
    profile: &str,
    features: Features,
    domain: PersistenceDomain,
    ddio: Ddio,
) -> Rc<dyn ContractWorld> {
    let profile = MachineProfile::by_name(profile).expect("there is such a profile");
    let platform = DeclaredPlatform {
        persistence_domain: domain,
        ddio,
        receive_buffers: ReceiveBuffers::Dram,
    };
    let options = MachineOptions {
        features,
        platform,
        ..MachineOptions::new(profile)
    };
    Rc::new(SimWorld {
        world: World::new(1),
        options,
        nodes: RefCell::default(),
    })
}

impl ContractWorld for SimWorld {
    fn node(&self, index: usize) -> Rc<Port> {
        let machine = self.world.machine(self.options);
        let process = self.world.observing_process(machine);
        let port = process.port(256).expect("completion queues");
        let nodes = &mut *self.nodes.borrow_mut();
        nodes.resize(nodes.len().max(index + 1), None);
        nodes[index] = Some((machine, process));
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

    fn persistent_region(&self, index: usize, size: u64) -> Option<Rc<dyn PersistentRegion>> {
        let machine = self.nodes.borrow()[index]
            .as_ref()
            .expect("the node was made")
            .0;
        let module = self.world.module(machine, Survivor::default());
        let options = LogOptions {
            capacity: size,
            platform: self.options.platform,
            durability: Durability::Power,
        };
        let log = SimBacking::new(&module)
            .open_log(options)
            .expect("the declaration matches the machine");
        self.options.features.flush_persistent.then_some(log)
    }

    fn can_kill(&self) -> bool {
        true
    }

    fn kill(&self, index: usize) {
        self.nodes.borrow()[index]
            .as_ref()
            .expect("the node was made")
            .1
            .kill();
    }
}

mod modern_with_every_feature {
    use super::{Ddio, Features, PersistenceDomain};
    stonecast_fabric::contract_tests!(super::world(
        "modern",
        Features::ALL,
        PersistenceDomain::Dmp,
        Ddio::On
    ));
}

mod slow_with_every_feature {
    use super::{Ddio, Features, PersistenceDomain};
    stonecast_fabric::contract_tests!(super::world(
        "connectx3-erda",
        Features::ALL,
        PersistenceDomain::Dmp,
        Ddio::Off
    ));
}

mod optane_with_common_features {
    use super::{Ddio, Features, PersistenceDomain};
    stonecast_fabric::contract_tests!(super::world(
        "connectx5-rowan",
        Features::COMMON,
        PersistenceDomain::Mhp,
        Ddio::On
    ));
}
