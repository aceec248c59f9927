//! A world with a service of three seats, and callers on machines of their own.

use std::rc::Rc;

use stonecast_cluster::Revision;
use stonecast_config_sim::{ConfigService, ServiceOptions, SimConfigStore};
use stonecast_fabric::Runtime;
use stonecast_fabric_sim::{Machine, MachineOptions, MachineProfile, World};

pub const SEATS: usize = 3;

/// A world with a service of three seats.
pub struct Scene {
    pub service: Rc<ConfigService>,
    pub callers: Vec<Caller>,
    pub seats: Vec<Machine>,
    /// The last field, so that the processes in the world are dropped before the world.
    pub world: World,
}

/// A process that uses the service.
pub struct Caller {
    pub machine: Machine,
    pub store: Rc<SimConfigStore>,
    pub runtime: Rc<dyn Runtime>,
}

impl Scene {
    pub fn new(seed: u64, callers: usize) -> Self {
        let world = World::new(seed);
        let machine = || world.machine(MachineOptions::new(MachineProfile::MODERN));
        let seats: Vec<Machine> = (0..SEATS).map(|_| machine()).collect();
        let options = ServiceOptions::default();
        let service = ConfigService::start(&world, "config", &seats, seed, options).unwrap();
        let callers = (0..callers).map(|_| {
            let machine = machine();
            let process = world.process(machine);
            let (port, runtime) = (process.port(256).unwrap(), process.runtime());
            Caller {
                machine,
                store: Rc::new(service.store(&port, &runtime)),
                runtime,
            }
        });
        let callers = callers.collect();
        Self {
            service,
            callers,
            seats,
            world,
        }
    }
}

/// The revision of a value after `count` stores.
pub fn revision(count: u64) -> Option<Revision> {
    Some(Revision(count))
}
