//! The store like Clover on the machines of the evaluation, with its clients.

use std::rc::Rc;

use stonecast_fabric_sim::{MachineProfile, Module, Process, World};
use stonecast_published::PublishedError;
use stonecast_published::clover::{
    CloverCache, CloverClient, CloverController, CloverNode, CloverOptions,
};

use super::cluster::{
    CLIENT_MACHINES, COMPLETIONS, Contestant, ContestantError, Counters, KvClient, SEED,
    client_threads, machine_options, memory,
};

/// The memory nodes, the metadata server and the client threads in their world.
pub(super) struct CloverCluster {
    world: World,
    modules: Vec<Rc<Module>>,
    clients: Vec<(Process, Rc<CloverClient>)>,
    is_opened: bool,
}

impl CloverCluster {
    /// A cluster on `profile`. The client threads of a machine share what they know about keys.
    pub fn new(
        profile: MachineProfile,
        options: &CloverOptions,
        (is_opened, threads): (bool, u32),
    ) -> Result<Self, PublishedError> {
        let (world, machine_options) = (World::new(SEED), machine_options(profile));
        let mut modules = Vec::new();
        for node in 0..options.nodes {
            let machine = world.machine(machine_options);
            let (module, memory) = memory(&world, machine, options.memory_size());
            let process = world.process(machine);
            let (port, runtime) = (process.port(COMPLETIONS)?, process.runtime());
            CloverNode::open(options, node, memory, port, &*runtime)?;
            modules.push(module);
        }
        let controller = world.process(world.machine(machine_options));
        let port = controller.port(COMPLETIONS)?;
        CloverController::open(options, port, &*controller.runtime())?;
        let caches: Vec<Rc<CloverCache>> = (0..CLIENT_MACHINES).map(|_| Rc::default()).collect();
        let mut clients = Vec::new();
        for (thread, process) in client_threads(&world, machine_options, threads)
            .into_iter()
            .enumerate()
        {
            let cache = caches[thread % caches.len()].clone();
            let (port, runtime) = (process.port(COMPLETIONS)?, process.runtime());
            let client = CloverClient::connect(options, cache, &port, &runtime);
            clients.push((process, Rc::new(world.block_on(client)?)));
        }
        Ok(Self {
            world,
            modules,
            clients,
            is_opened,
        })
    }
}

impl Contestant for CloverCluster {
    type Client = CloverClient;

    fn world(&self) -> &World {
        &self.world
    }

    fn clients(&self) -> &[(Process, Rc<CloverClient>)] {
        &self.clients
    }

    fn prepare(&self, keys: u64) -> Result<(), ContestantError> {
        let keys: Vec<u64> = (0..keys).collect();
        // One thread of each machine.
        let machines = if self.is_opened { CLIENT_MACHINES } else { 0 };
        for (_, client) in self.clients.iter().take(machines as usize) {
            self.world.block_on(client.open_all(&keys))?;
        }
        Ok(())
    }

    fn counters(&self) -> Counters {
        let mut counters = Counters {
            now_ns: self.world.now(),
            servers: self.modules.len() as u32,
            ..Counters::default()
        };
        for module in &self.modules {
            counters.medium.add(&module.counts());
        }
        counters
    }
}

impl KvClient for CloverClient {
    async fn get(&self, key: u64, into: &mut Vec<u8>) -> Result<bool, ContestantError> {
        Ok(Self::get(self, key, into).await?)
    }

    async fn put(&self, key: u64, value: &[u8]) -> Result<(), ContestantError> {
        Ok(Self::put(self, key, value).await?)
    }
}
