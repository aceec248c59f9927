//! A cluster of Rowan-KV or of a rival in a simulated world.

use std::rc::Rc;

use stonecast_base::Nanoseconds;
use stonecast_fabric_sim::{
    Features, Machine, MachineOptions, MachineProfile, Module, Process, SimBacking, Survivor, World,
};
use stonecast_media::{
    Backing as _, Ddio, DeclaredPlatform, Durability, LogOptions, PersistenceDomain,
    PersistentRegion, ReceiveBuffers,
};
use stonecast_persist::execute::Commit;
use stonecast_published::rowan::{
    Placement, Replication, RowanClient, RowanOptions, RowanServer, Seat, Seats,
};

pub const PLATFORM: DeclaredPlatform = DeclaredPlatform {
    persistence_domain: PersistenceDomain::Dmp,
    ddio: Ddio::Off,
    receive_buffers: ReceiveBuffers::Pm,
};

pub struct RowanScene {
    pub world: World,
    pub options: RowanOptions,
    pub placement: Rc<Placement>,
    pub machine_options: MachineOptions,
    pub machines: Vec<Machine>,
    pub modules: Vec<Rc<Module>>,
    pub processes: Vec<Process>,
    pub servers: Vec<RowanServer>,
}

/// Three servers with two shards each and two workers, and segments that some entries fill.
pub fn small(replication: Replication) -> RowanOptions {
    RowanOptions {
        servers: 3,
        shards_each: 2,
        workers: 2,
        digesters: 1,
        segment_size: 4096,
        segments: 256,
        append_buffers: 4,
        keys: 1000,
        ..RowanOptions::published(replication, "sim:rowan")
    }
}

impl RowanScene {
    pub fn new(options: RowanOptions) -> Self {
        let world = World::new(7);
        let machine_options = MachineOptions {
            platform: PLATFORM,
            features: Features {
                multi_packet: true,
                ..Features::COMMON
            },
            cores: 36,
            ..MachineOptions::new(MachineProfile::by_name("connectx5-rowan").unwrap())
        };
        let machines: Vec<Machine> = (0..options.servers)
            .map(|_| world.machine(machine_options))
            .collect();
        let modules = machines
            .iter()
            .map(|&machine| world.module(machine, Survivor::default()))
            .collect();
        let mut scene = Self {
            placement: Rc::new(Placement::new(&options)),
            world,
            options,
            machine_options,
            machines,
            modules,
            processes: Vec::new(),
            servers: Vec::new(),
        };
        for server in 0..scene.options.servers {
            let (process, opened) = scene.open(server);
            scene.processes.push(process);
            scene.servers.push(opened);
        }
        for server in &scene.servers {
            scene.world.block_on(server.connect()).unwrap();
        }
        scene
    }

    pub fn memory(&self, server: u32) -> Rc<dyn PersistentRegion> {
        let log = LogOptions {
            capacity: self.options.memory_size(),
            platform: PLATFORM,
            durability: Durability::Power,
        };
        SimBacking::new(&self.modules[server as usize])
            .open_log(log)
            .unwrap()
    }

    /// Starts a server on its memory.
    pub fn open(&self, server: u32) -> (Process, RowanServer) {
        let process = self.world.process(self.machines[server as usize]);
        let seat = || {
            let thread = process.thread();
            Seat {
                port: thread.port(1 << 16).unwrap(),
                runtime: thread.runtime(),
            }
        };
        let threads = |count: u32| {
            (0..count)
                .map(|_| process.thread().runtime())
                .collect::<Vec<_>>()
        };
        let seats = Seats {
            control: seat(),
            workers: (0..self.options.workers).map(|_| seat()).collect(),
            digesters: threads(self.options.digesters),
            cleaners: threads(self.options.cleaners),
        };
        let memory = self.memory(server);
        let commit = Commit::choose(PLATFORM, Durability::Power, memory.means()).unwrap();
        let placement = self.placement.clone();
        let opened =
            RowanServer::open(&self.options, server, placement, memory, commit, seats).unwrap();
        (process, opened)
    }

    /// A client on a machine of its own, with its process.
    pub fn client(&self, worker: u32) -> (Process, Rc<RowanClient>) {
        let process = self.world.process(self.world.machine(self.machine_options));
        let (port, runtime) = (process.port(4096).unwrap(), process.runtime());
        let connecting = RowanClient::connect(
            &self.options,
            self.placement.clone(),
            &port,
            &runtime,
            worker,
        );
        let client = Rc::new(self.world.block_on(connecting).unwrap());
        (process, client)
    }

    /// Waits in virtual time.
    pub fn pass(&self, duration: Nanoseconds) {
        self.world
            .block_on(async { self.world.observer().sleep(duration).await });
    }

    pub fn put(&self, client: &RowanClient, key: u64, value: &[u8]) {
        self.world.block_on(client.put(key, value)).unwrap();
    }

    pub fn get(&self, client: &RowanClient, key: u64) -> Option<Vec<u8>> {
        let mut value = Vec::new();
        let found = self.world.block_on(client.get(key, &mut value)).unwrap();
        found.then_some(value)
    }
}
