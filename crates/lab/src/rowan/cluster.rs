//! A cluster of Rowan-KV or of a rival on the machines of the paper's evaluation, with its clients.

use std::rc::Rc;

use stonecast_base::Nanoseconds;
use stonecast_fabric_sim::{
    Features, Machine, MachineOptions, MachineProfile, MediumCounts, Module, Process, SimBacking,
    Survivor, World,
};
use stonecast_kv::ClusterError;
use stonecast_media::{
    Backing as _, Ddio, DeclaredPlatform, Durability, LogOptions, PersistenceDomain,
    PersistentRegion, ReceiveBuffers,
};
use stonecast_persist::execute::Commit;
use stonecast_published::PublishedError;
use stonecast_published::rowan::{Placement, RowanClient, RowanOptions, RowanServer, Seat, Seats};

/// Hardware threads of a machine: a Xeon Gold 6240M.
pub(super) const CORES: usize = 36;
/// Machines of the clients.
pub(super) const CLIENT_MACHINES: u32 = 8;
/// Entries of the completion queues of a thread.
pub(super) const COMPLETIONS: u32 = 1 << 16;
pub(super) const SEED: u64 = 1;
/// DDIO is off, and receive buffers lie in persistent memory.
pub(super) const PLATFORM: DeclaredPlatform = DeclaredPlatform {
    persistence_domain: PersistenceDomain::Dmp,
    ddio: Ddio::Off,
    receive_buffers: ReceiveBuffers::Pm,
};

/// The error of a store of the comparison.
#[derive(Debug, thiserror::Error)]
pub enum ContestantError {
    /// A published design failed.
    #[error(transparent)]
    Published(#[from] PublishedError),
    /// A call on `kv` failed.
    #[error(transparent)]
    Cluster(#[from] ClusterError),
}

/// A store with its client threads in a world.
pub(super) trait Contestant {
    /// A client.
    type Client: KvClient + 'static;

    /// The world.
    fn world(&self) -> &World;

    /// The client threads with their clients.
    fn clients(&self) -> &[(Process, Rc<Self::Client>)];

    /// The counters of all servers.
    fn counters(&self) -> Counters;

    /// Lets clients learn what they know about the first `keys` keys, which are stored, before a measurement.
    fn prepare(&self, keys: u64) -> Result<(), ContestantError> {
        let _ = keys;
        Ok(())
    }

    /// Lets time pass.
    fn pass(&self, duration: Nanoseconds) {
        let world = self.world();
        world.block_on(world.observer().sleep(duration));
    }
}

/// A client thread of a store. Several operations may be under way at a time.
pub(super) trait KvClient {
    /// Looks up a key. Returns whether it is present, and its value in `into`.
    async fn get(&self, key: u64, into: &mut Vec<u8>) -> Result<bool, ContestantError>;

    /// Stores a value.
    async fn put(&self, key: u64, value: &[u8]) -> Result<(), ContestantError>;
}

impl KvClient for RowanClient {
    async fn get(&self, key: u64, into: &mut Vec<u8>) -> Result<bool, ContestantError> {
        Ok(Self::get(self, key, into).await?)
    }

    async fn put(&self, key: u64, value: &[u8]) -> Result<(), ContestantError> {
        Ok(Self::put(self, key, value).await?)
    }
}

/// The servers and client threads of Rowan-KV or a rival in their world.
pub(super) struct Cluster {
    world: World,
    servers: Vec<Machines>,
    clients: Vec<(Process, Rc<RowanClient>)>,
}

/// A server with the counters of its machine.
struct Machines {
    server: RowanServer,
    module: Rc<Module>,
    workers: Vec<Process>,
    control: Process,
}

/// Counters of all servers at one moment.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counters {
    /// The moment.
    pub now_ns: Nanoseconds,
    /// The number of servers.
    pub servers: u32,
    /// The number of worker threads of each server.
    pub workers: u32,
    /// Time that all worker threads have worked.
    pub workers_ns: Nanoseconds,
    /// Time that all control threads have worked.
    pub control_ns: Nanoseconds,
    /// The work of all media.
    pub medium: Medium,
}

/// The work of media.
#[derive(Clone, Copy, Debug, Default)]
pub struct Medium {
    /// Bytes that reached the media.
    pub received: u64,
    /// Bytes that the media wrote.
    pub written: u64,
}

impl Medium {
    /// Adds the work of one medium.
    pub(super) fn add(&mut self, counts: &MediumCounts) {
        self.received += counts.bytes_received;
        self.written += counts.bytes_written;
    }
}

impl Cluster {
    /// A cluster on `profile` that is open and connected, and `threads` client threads on the paper's 8 machines, a
    /// multiple of the workers of a server.
    pub fn new(
        profile: MachineProfile,
        options: &RowanOptions,
        threads: u32,
    ) -> Result<Self, PublishedError> {
        let (world, machine_options) = (World::new(SEED), machine_options(profile));
        let placement = Rc::new(Placement::new(options));
        let mut servers = Vec::new();
        for number in 0..options.servers {
            let machine = world.machine(machine_options);
            servers.push(open(&world, machine, number, options, &placement)?);
        }
        for server in &servers {
            world.block_on(server.server.connect())?;
        }
        let mut clients = Vec::new();
        for (thread, process) in (0..).zip(client_threads(&world, machine_options, threads)) {
            let (port, runtime) = (process.port(COMPLETIONS)?, process.runtime());
            let worker = thread % options.workers;
            let client = RowanClient::connect(options, placement.clone(), &port, &runtime, worker);
            clients.push((process, Rc::new(world.block_on(client)?)));
        }
        Ok(Self {
            world,
            servers,
            clients,
        })
    }
}

impl Contestant for Cluster {
    type Client = RowanClient;

    fn world(&self) -> &World {
        &self.world
    }

    fn clients(&self) -> &[(Process, Rc<RowanClient>)] {
        &self.clients
    }

    fn counters(&self) -> Counters {
        let mut counters = Counters {
            now_ns: self.world.now(),
            servers: self.servers.len() as u32,
            workers: self.servers[0].workers.len() as u32,
            ..Counters::default()
        };
        for server in &self.servers {
            counters.medium.add(&server.module.counts());
            let busy = server.workers.iter().map(Process::core_busy_ns);
            counters.workers_ns += busy.sum::<u64>();
            counters.control_ns += server.control.core_busy_ns();
        }
        counters
    }
}

/// Machines of the evaluation.
pub(super) fn machine_options(profile: MachineProfile) -> MachineOptions {
    MachineOptions {
        platform: PLATFORM,
        features: Features {
            multi_packet: true,
            ..Features::COMMON
        },
        cores: CORES,
        ..MachineOptions::new(profile)
    }
}

/// So many client threads, on 8 machines in turn.
pub(super) fn client_threads(world: &World, options: MachineOptions, threads: u32) -> Vec<Process> {
    let machines: Vec<Machine> = (0..CLIENT_MACHINES)
        .map(|_| world.machine(options))
        .collect();
    let thread = |thread: u32| world.process(machines[(thread % CLIENT_MACHINES) as usize]);
    (0..threads).map(thread).collect()
}

/// A module in `machine`, and `size` bytes of it as a log.
pub(super) fn memory(
    world: &World,
    machine: Machine,
    size: u64,
) -> (Rc<Module>, Rc<dyn PersistentRegion>) {
    let module = world.module(machine, Survivor::default());
    let log = LogOptions {
        capacity: size,
        platform: PLATFORM,
        durability: Durability::Power,
    };
    let memory = SimBacking::new(&module)
        .open_log(log)
        .expect("the declaration fits the platform");
    (module, memory)
}

fn open(
    world: &World,
    machine: Machine,
    number: u32,
    options: &RowanOptions,
    placement: &Rc<Placement>,
) -> Result<Machines, PublishedError> {
    let (module, memory) = memory(world, machine, options.memory_size());
    let commit = Commit::choose(PLATFORM, Durability::Power, memory.means())
        .expect("the declaration fits the platform");
    let control = world.process(machine);
    let seat = |process: &Process| -> Result<Seat, PublishedError> {
        Ok(Seat {
            port: process.port(COMPLETIONS)?,
            runtime: process.runtime(),
        })
    };
    let threads = |count: u32| (0..count).map(|_| control.thread()).collect::<Vec<_>>();
    let workers = threads(options.workers);
    let runtimes = |count| threads(count).iter().map(Process::runtime).collect();
    let seats = Seats {
        control: seat(&control)?,
        workers: workers.iter().map(seat).collect::<Result<_, _>>()?,
        digesters: runtimes(options.digesters),
        cleaners: runtimes(options.cleaners),
    };
    let server = RowanServer::open(options, number, placement.clone(), memory, commit, seats)?;
    Ok(Machines {
        server,
        module,
        workers,
        control,
    })
}
