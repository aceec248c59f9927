//! A world with one server of the KV store and any number of clients.

use std::cell::RefCell;
use std::rc::Rc;

use stonecast_base::Nanoseconds;
use stonecast_fabric::Runtime;
use stonecast_fabric::decorate::{Counts, Meter, Observed};
use stonecast_fabric_sim::{
    MachineOptions, MachineProfile, MediumCounts, Module, Process, SimBacking, Survivor, World,
};
use stonecast_kv::{
    CLIENT_COMPLETIONS, Client, ClientOptions, ClientPolicy, Server, ServerOptions, StoreError,
};
use stonecast_media::{
    Ddio, DeclaredPlatform, Durability, MediaError, OpenMode, PersistenceDomain, Pool, PoolOptions,
    ReceiveBuffers,
};

use stonecast_bench::crowd::Crowd;

/// The server's address.
const ADDRESS: &str = "sim:store";
/// Entries of the server's completion queues: every receive buffer and every answer of every client.
const SERVER_COMPLETIONS: u32 = 65_536;

/// The platform of the machines of `profile`.
///
/// Rowan's machines bypass the last-level cache; the battery of the present-day machines saves
/// everything, caches and NICs included; the others save the content of the memory controller.
pub fn platform_of(profile: &MachineProfile) -> DeclaredPlatform {
    let (persistence_domain, ddio) = match profile.name {
        "connectx5-rowan" => (PersistenceDomain::Dmp, Ddio::Off),
        "modern" => (PersistenceDomain::Wsp, Ddio::On),
        _ => (PersistenceDomain::Dmp, Ddio::On),
    };
    DeclaredPlatform {
        persistence_domain,
        ddio,
        receive_buffers: ReceiveBuffers::Dram,
    }
}

/// The parameters of a scene.
#[derive(Clone, Debug)]
pub struct SceneOptions {
    /// The profile of all machines.
    pub profile: MachineProfile,
    /// Log of the pool, bytes.
    pub capacity: u64,
    /// Bytes of a segment.
    pub segment_size: u64,
    /// Seed of the world and of the pool.
    pub seed: u64,
    /// Whether clients publish their overwrites, in a pool that survives processes.
    pub publishing: bool,
}

/// A world with a server.
pub struct Scene {
    world: World,
    profile: MachineProfile,
    server: Process,
    server_meter: Rc<Meter>,
    module: Rc<Module>,
    failure: Rc<RefCell<Option<StoreError>>>,
}

/// A client, on a machine of its own.
#[derive(Clone)]
pub struct SceneClient {
    /// The connection.
    pub client: Client,
    process: Process,
    meter: Rc<Meter>,
}

impl Scene {
    /// A world with a server on a fresh pool.
    pub fn new(options: &SceneOptions) -> Result<Self, MediaError> {
        let SceneOptions {
            profile,
            capacity,
            segment_size,
            seed,
            publishing,
        } = *options;
        let durability = if publishing {
            Durability::Process
        } else {
            Durability::Power
        };
        let clients = if publishing {
            ClientPolicy::Publishing
        } else {
            ClientPolicy::Trusted
        };
        let world = World::new(seed);
        let platform = platform_of(&profile);
        let machine = world.machine(MachineOptions {
            platform,
            ..MachineOptions::new(profile)
        });
        let module = world.module(machine, Survivor::default());
        let mut entropy = [0; 64];
        rand::Rng::fill_bytes(&mut stonecast_base::random_from_seed(seed), &mut entropy);
        let pool = PoolOptions {
            capacity,
            segment_size,
            shards: 1,
            cluster_seed: None,
            platform,
            durability,
            entropy,
        };
        Pool::create(Rc::new(SimBacking::new(&module)), pool)?.close()?;
        let server = world.process(machine);
        let server_meter = Rc::<Meter>::default();
        let failure = Rc::<RefCell<Option<StoreError>>>::default();
        let scene = Self {
            world,
            profile,
            server,
            server_meter,
            module,
            failure,
        };
        scene.start(ServerOptions {
            clients,
            ..ServerOptions::default()
        });
        Ok(scene)
    }

    fn start(&self, options: ServerOptions) {
        let (process, meter, module) = (
            self.server.clone(),
            self.server_meter.clone(),
            self.module.clone(),
        );
        let failure = self.failure.clone();
        self.server.runtime().spawn(Box::pin(async move {
            let ended = serve(&process, meter, &module, options).await;
            *failure.borrow_mut() = ended.err();
        }));
    }

    /// The world.
    pub fn world(&self) -> &World {
        &self.world
    }

    /// The error of the server, if it has ended.
    pub fn failure(&self) -> Option<StoreError> {
        self.failure.take()
    }

    /// A client on a machine of its own.
    pub fn connect(&self) -> Result<SceneClient, StoreError> {
        self.connect_with(ClientOptions::default())
    }

    /// A client with `options`, on a machine of its own.
    pub fn connect_with(&self, options: ClientOptions) -> Result<SceneClient, StoreError> {
        let process = self
            .world
            .process(self.world.machine(MachineOptions::new(self.profile)));
        let meter = Rc::<Meter>::default();
        let client = self.world.block_on(async {
            loop {
                let device = Rc::new(Observed::new(process.open_device(), meter.clone()));
                let port = process.port_on(device, CLIENT_COMPLETIONS)?;
                match Client::connect_with(options, port, process.runtime(), ADDRESS).await {
                    // The server has not opened its pool yet.
                    Err(StoreError::Refused { .. }) if self.failure.borrow().is_none() => {
                        process.runtime().sleep(100_000).await
                    }
                    outcome => return outcome,
                }
            }
        })?;
        Ok(SceneClient {
            client,
            process,
            meter,
        })
    }

    /// Runs `count` tasks on each of `clients` until all have ended. The first failure is returned.
    pub fn run_tasks<F>(
        &self,
        clients: &[SceneClient],
        count: u32,
        task: impl Fn(usize, &SceneClient) -> F,
    ) -> Result<(), StoreError>
    where
        F: Future<Output = Result<(), StoreError>> + 'static,
    {
        let crowd = Crowd::new();
        for (number, client) in clients.iter().enumerate() {
            (0..count).for_each(|_| crowd.spawn(&*client.process.runtime(), task(number, client)));
        }
        self.world.block_on(crowd.ends()).into_iter().collect()
    }

    /// Runs until nothing is under way: the server's last write-backs, buffers that it posts again.
    pub fn rest(&self) {
        self.world.block_on(self.world.observer().sleep(50_000));
    }

    /// Counters of the server's port.
    pub fn server_counts(&self) -> Counts {
        self.server_meter.counts()
    }

    /// Nanoseconds in which the server's core worked.
    pub fn server_busy_ns(&self) -> Nanoseconds {
        self.server.core_busy_ns()
    }

    /// Counters of the persistent medium, after its buffer was written out.
    pub fn medium_counts(&self) -> MediumCounts {
        self.module.drain();
        self.module.counts()
    }
}

impl SceneClient {
    /// Counters of the client's port.
    pub fn counts(&self) -> Counts {
        self.meter.counts()
    }

    /// Nanoseconds in which the client's core worked.
    pub fn busy_ns(&self) -> Nanoseconds {
        self.process.core_busy_ns()
    }

    /// The client's clock and tasks.
    pub fn runtime(&self) -> Rc<dyn Runtime> {
        self.process.runtime()
    }
}

async fn serve(
    process: &Process,
    meter: Rc<Meter>,
    module: &Rc<Module>,
    options: ServerOptions,
) -> Result<(), StoreError> {
    let (pool, _) = Pool::open(Rc::new(SimBacking::new(module)), OpenMode::Serve)?;
    let port = process.port_on(
        Rc::new(Observed::new(process.open_device(), meter)),
        SERVER_COMPLETIONS,
    )?;
    let device = port.device().clone();
    let (server, _) = Server::open(pool, port, process.runtime(), options).await?;
    device.listen(ADDRESS)?;
    server.run(&|| false).await
}
