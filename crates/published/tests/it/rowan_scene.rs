//! A cluster of Rowan-KV or of a rival in a simulated world.

use std::cell::RefCell;
use std::rc::Rc;

use stonecast_base::Nanoseconds;
use stonecast_fabric_sim::{
    Fate, Features, Machine, MachineOptions, MachineProfile, Module, Process, RootPort, SimBacking,
    Survivor, World,
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
    client_machines: RefCell<Vec<Machine>>,
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
        Self::unopened(options).open_all(false)
    }

    /// Machines without servers.
    pub fn unopened(options: RowanOptions) -> Self {
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
        Self {
            placement: Rc::new(Placement::new(&options)),
            world,
            options,
            machine_options,
            machines: Vec::new(),
            modules: Vec::new(),
            processes: Vec::new(),
            servers: Vec::new(),
            client_machines: RefCell::default(),
        }
    }

    /// The scene with open servers.
    pub fn open_all(mut self, relaxed_ordering: bool) -> Self {
        for server in 0..self.options.servers {
            let machine = self.world.machine(self.machine_options);
            self.machines.push(machine);
            self.modules
                .push(self.world.module(machine, Survivor::default()));
            let (process, opened) = self.open(server, relaxed_ordering);
            self.processes.push(process);
            self.servers.push(opened);
        }
        for server in &self.servers {
            self.world.block_on(server.connect()).unwrap();
        }
        self
    }

    /// Opens server `server` again on what its memory holds. Other servers have no connection to it.
    pub fn reopen(&mut self, server: u32) {
        let (process, opened) = self.open(server, false);
        self.processes[server as usize] = process;
        self.servers[server as usize] = opened;
    }

    /// The first line of the server's memory that a power cut may take.
    pub fn first_undecided(&self, server: usize) -> u64 {
        let wreck = self
            .world
            .wreck(self.machines[server], &self.modules[server]);
        let offsets = (0..wreck.undecided()).map(|unit| wreck.offset(unit));
        offsets.min().expect("something may be lost")
    }

    /// A server's memory after a power cut that takes every undecided line, except where `survives` returns true.
    fn survivor(&self, server: usize, survives: impl Fn(u64) -> bool) -> Survivor {
        let wreck = self
            .world
            .wreck(self.machines[server], &self.modules[server]);
        let fate = |unit: usize| Fate {
            stores: if survives(wreck.offset(unit)) {
                wreck.stores(unit)
            } else {
                0
            },
            torn: 0,
        };
        let fates: Vec<Fate> = (0..wreck.undecided()).map(fate).collect();
        wreck.survivor(&fates)
    }

    /// Cuts a server's power. Undecided bytes survive at the offsets for which `survives` returns true.
    pub fn cut_power(&self, server: usize, survives: impl Fn(u64) -> bool) {
        let survivor = self.survivor(server, survives);
        self.world.cut_power(self.machines[server]);
        self.modules[server].restart(survivor);
    }

    /// The bytes of a server's memory after a power cut that takes every undecided line, except where `survives`
    /// returns true.
    pub fn content(&self, server: usize, survives: impl Fn(u64) -> bool) -> Vec<u8> {
        let survivor = self.survivor(server, survives);
        let mut bytes = vec![0; self.options.memory_size() as usize];
        survivor.read(0, &mut bytes);
        bytes
    }

    /// Whether `value` lies anywhere in a server's memory after a power cut that takes every undecided line.
    pub fn survives(&self, server: u32, value: &[u8]) -> bool {
        let bytes = self.content(server as usize, |_| false);
        bytes.windows(value.len()).any(|found| found == value)
    }

    /// The machine of the client that connected as number `client`.
    pub fn client_machine(&self, client: usize) -> Machine {
        self.client_machines.borrow()[client]
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
    fn open(&self, server: u32, relaxed_ordering: bool) -> (Process, RowanServer) {
        let process = self.world.process(self.machines[server as usize]);
        let root_port = RootPort {
            relaxed_ordering,
            ..RootPort::default()
        };
        let seat = || {
            let thread = process.thread();
            let device = thread.open_device_at(root_port);
            Seat {
                port: thread.port_on(device, 1 << 16).unwrap(),
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
        let machine = self.world.machine(self.machine_options);
        self.client_machines.borrow_mut().push(machine);
        let process = self.world.process(machine);
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
