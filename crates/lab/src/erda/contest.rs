//! One design with its clients in a simulated world, and the costs of its operations.
//!
//! All clients are processes of one machine, as in the paper, each with its own connection and one
//! operation at a time.

use std::cell::RefCell;
use std::rc::Rc;

use stonecast_base::Nanoseconds;
use stonecast_fabric_sim::{
    Machine, MachineOptions, MachineProfile, Module, Process, SimBacking, Survivor, World,
};
use stonecast_kv::{Cleaning, Server, ServerOptions, StoreError};
use stonecast_media::{
    Backing as _, Ddio, DeclaredPlatform, Durability, LogOptions, OpenMode, PersistenceDomain,
    PersistentRegion, Pool, PoolOptions, ReceiveBuffers,
};
use stonecast_persist::execute::Commit;
use stonecast_published::{
    BaselineServer, ErdaOptions, ErdaServer, Geometry, PublishedError, Scheme,
};

use super::contestant::{ContestError, Contestant, Design};
use stonecast_bench::crowd::Crowd;

const ADDRESS: &str = "sim:contest";
/// Entries of the completion queues of a server.
const SERVER_COMPLETIONS: u32 = 65_536;
/// Hardware threads of the paper's machines: two processors of four cores with two threads each.
const CORES: usize = 16;
/// Bytes of a segment of the KV store.
const SEGMENT_SIZE: u64 = 4 << 20;
/// Bytes of a segment of a pool that has to be cleaned, and the percentage of the pool that is
/// live.
const TIGHT_SEGMENT_SIZE: u64 = 256 << 10;
const TIGHT_LIVE_PERCENT: u64 = 50;
/// The bytes of a record of the KV store beside key and value, and the unit to which the record's size is rounded
/// up.
const RECORD_OVERHEAD: usize = 56;
const UNIT_SIZE: usize = 64;

/// The parameters of a contest.
#[derive(Clone, Copy, Debug)]
pub struct ContestOptions {
    /// The design.
    pub design: Design,
    /// The machines.
    pub profile: MachineProfile,
    /// Keys that will be stored, each of `key_size` bytes.
    pub keys: u64,
    /// Bytes of a key.
    pub key_size: usize,
    /// Bytes of a value.
    pub value_size: usize,
    /// The number of writes after each key was stored once. Logs have room for these writes.
    pub writes: u64,
    /// The room in the log of the KV store.
    pub room: Room,
}

/// The room in the log of the KV store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Room {
    /// Room for all writes: nothing is cleaned.
    Plenty,
    /// So little room that the log has to be cleaned all the time.
    Tight,
}

/// A design with its server, in a world.
pub struct Contest {
    world: World,
    server: Process,
    clients: Machine,
    module: Rc<Module>,
    geometry: Geometry,
    options: ContestOptions,
    erda: Option<Rc<ErdaServer>>,
    store: Rc<RefCell<Option<Rc<Server>>>>,
}

/// Counters of the server at one moment.
#[derive(Clone, Copy, Debug)]
pub struct Costs {
    /// The moment.
    pub now_ns: Nanoseconds,
    /// CPU time of the server.
    pub server_cpu_ns: Nanoseconds,
    /// Bytes stored to persistent memory.
    pub bytes_stored: u64,
}

/// The declared platform: an E5620 has no DDIO, and the content of its memory controllers survives.
fn platform() -> DeclaredPlatform {
    DeclaredPlatform {
        persistence_domain: PersistenceDomain::Dmp,
        ddio: Ddio::Off,
        receive_buffers: ReceiveBuffers::Dram,
    }
}

impl Contest {
    /// A world with a server on fresh memory.
    pub fn new(options: ContestOptions) -> Result<Self, ContestError> {
        let world = World::new(1);
        let machine_options = MachineOptions {
            platform: platform(),
            cores: CORES,
            ..MachineOptions::new(options.profile)
        };
        let machine = world.machine(machine_options);
        let module = world.module(machine, Survivor::default());
        let server = world.process(machine);
        let clients = world.machine(machine_options);
        let geometry = Geometry::for_keys(
            options.key_size,
            options.value_size,
            options.keys,
            options.writes,
        );
        let mut contest = Self {
            world,
            server,
            clients,
            module,
            geometry,
            options,
            erda: None,
            store: Rc::default(),
        };
        contest.serve()?;
        Ok(contest)
    }

    fn memory(&self) -> Rc<dyn PersistentRegion> {
        let log = LogOptions {
            capacity: self.geometry.size(),
            platform: platform(),
            durability: Durability::Power,
        };
        SimBacking::new(&self.module)
            .open_log(log)
            .expect("the declaration fits the platform")
    }

    fn serve(&mut self) -> Result<(), ContestError> {
        let process = self.server.clone();
        let scheme = match self.options.design {
            Design::Kv => {
                self.serve_direct()?;
                return Ok(());
            }
            Design::ErdaPublished => None,
            Design::RedoLogging => Some(Scheme::RedoLogging),
            Design::ReadAfterWrite => Some(Scheme::ReadAfterWrite),
        };
        let port = process
            .port(SERVER_COMPLETIONS)
            .map_err(PublishedError::from)?;
        let device = port.device().clone();
        let (memory, runtime, geometry) = (self.memory(), process.runtime(), self.geometry);
        match scheme {
            None => {
                // Erda is cleaned when a figure requests cleaning.
                let options = ErdaOptions {
                    clean_at_percent: 100,
                    ..ErdaOptions::default()
                };
                let server = Rc::new(ErdaServer::open(memory, port, runtime, geometry, options)?);
                self.erda = Some(server.clone());
                let run = async move {
                    server
                        .run(&|| false)
                        .await
                        .expect("a server that nothing disturbs goes on")
                };
                process.runtime().spawn(Box::pin(run));
            }
            Some(scheme) => {
                let commit = Commit::choose(platform(), Durability::Power, memory.means())
                    .expect("the declaration fits the platform");
                let server = BaselineServer::open(memory, commit, port, runtime, geometry, scheme)?;
                let run = async move {
                    server
                        .run(&|| false)
                        .await
                        .expect("a server that nothing disturbs goes on")
                };
                process.runtime().spawn(Box::pin(run));
            }
        }
        device.listen(ADDRESS).map_err(PublishedError::from)?;
        Ok(())
    }

    fn serve_direct(&self) -> Result<(), ContestError> {
        let ContestOptions {
            keys,
            key_size,
            value_size,
            writes,
            room,
            ..
        } = self.options;
        let (segment_size, segments) = match room {
            Room::Plenty => (
                SEGMENT_SIZE,
                (keys + writes) / (SEGMENT_SIZE / (key_size + value_size + 128) as u64) + 64,
            ),
            Room::Tight => {
                let live = keys
                    * (RECORD_OVERHEAD + key_size + value_size).next_multiple_of(UNIT_SIZE) as u64;
                (
                    TIGHT_SEGMENT_SIZE,
                    (live * 100 / TIGHT_LIVE_PERCENT).div_ceil(TIGHT_SEGMENT_SIZE),
                )
            }
        };
        let options = PoolOptions {
            capacity: segments * segment_size,
            segment_size,
            shards: 1,
            cluster_seed: None,
            platform: platform(),
            durability: Durability::Power,
            entropy: [7; 64],
        };
        let created = Pool::create(Rc::new(SimBacking::new(&self.module)), options)
            .and_then(|pool| pool.close());
        created.map_err(StoreError::from)?;
        let (process, module, served) =
            (self.server.clone(), self.module.clone(), self.store.clone());
        self.server.runtime().spawn(Box::pin(async move {
            let run = async {
                let (pool, _) = Pool::open(Rc::new(SimBacking::new(&module)), OpenMode::Serve)?;
                let port = process.port(SERVER_COMPLETIONS)?;
                let device = port.device().clone();
                let (server, _) =
                    Server::open(pool, port, process.runtime(), ServerOptions::default()).await?;
                device.listen(ADDRESS)?;
                let server = Rc::new(server);
                served.replace(Some(server.clone()));
                server.run(&|| false).await
            };
            run.await.expect("a server that nothing disturbs goes on");
        }));
        while self.store.borrow().is_none() {
            assert!(self.world.step(), "a server opens its pool or fails");
        }
        Ok(())
    }

    /// Connects a client.
    pub fn connect(&self) -> Result<Contestant, ContestError> {
        let process = self.world.process(self.clients);
        let (design, geometry) = (self.options.design, self.geometry);
        let make_port = |completions| process.port(completions);
        self.world.block_on(Contestant::connect(
            design,
            &make_port,
            process.runtime(),
            ADDRESS,
            &geometry,
        ))
    }

    /// Runs a task for each of `contestants` until all have ended.
    pub fn run<F>(
        &self,
        contestants: Vec<Contestant>,
        task: impl Fn(usize, Contestant) -> F,
    ) -> Result<Vec<Contestant>, ContestError>
    where
        F: Future<Output = Result<Contestant, ContestError>> + 'static,
    {
        let crowd = Crowd::new();
        for (number, contestant) in contestants.into_iter().enumerate() {
            let runtime = contestant.runtime();
            let task = task(number, contestant);
            crowd.spawn(&*runtime, async move { (number, task.await) });
        }
        let mut ended = self.world.block_on(crowd.ends());
        ended.sort_by_key(|(number, _)| *number);
        ended.into_iter().map(|(_, ended)| ended).collect()
    }

    /// Runs until nothing is under way: records that wait to be applied, buffers to post again.
    pub fn rest(&self) {
        self.world.block_on(self.world.observer().sleep(2_000_000));
    }

    /// The server's counters.
    pub fn costs(&self) -> Costs {
        Costs {
            now_ns: self.world.now(),
            server_cpu_ns: self.server.core_busy_ns(),
            bytes_stored: self.module.counts().bytes_stored,
        }
    }

    /// Runs the world until `ready` returns true.
    pub fn run_until(&self, ready: &dyn Fn() -> bool) {
        while !ready() {
            assert!(self.world.step(), "the awaited task makes progress");
        }
    }

    /// The cleaning counters of the KV store.
    pub fn cleaning(&self) -> Cleaning {
        self.store
            .borrow()
            .as_ref()
            .map_or_else(Cleaning::default, |server| server.cleaning())
    }

    /// Erda's server, if the design is Erda.
    pub fn erda(&self) -> Option<&Rc<ErdaServer>> {
        self.erda.as_ref()
    }
}
