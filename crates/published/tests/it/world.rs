//! One server and its clients in a simulated world.

use std::cell::Cell;
use std::rc::Rc;

use stonecast_base::Nanoseconds;
use stonecast_fabric_sim::{
    Fate, Machine, MachineOptions, MachineProfile, Module, Process, SimBacking, Survivor, World,
};
use stonecast_media::{Backing as _, Ddio, Durability, LogOptions, PersistentRegion};
use stonecast_persist::execute::Commit;
use stonecast_published::{
    BaselineClient, BaselineServer, CLIENT_COMPLETIONS, ErdaClient, ErdaOptions, ErdaServer,
    Geometry, SERVER_COMPLETIONS, Scheme,
};

/// Options of a server that cleans only on request.
pub const NEVER_CLEAN: ErdaOptions = ErdaOptions {
    clean_at_percent: 100,
    round_trip_max_ns: 20_000,
    clean_step: 4,
};
pub const ADDRESS: &str = "sim:published";

pub struct Scene {
    pub world: World,
    pub machine: Machine,
    pub module: Rc<Module>,
    pub geometry: Geometry,
    pub options: MachineOptions,
    pub stop: Rc<Cell<bool>>,
}

pub fn key(number: u64) -> Vec<u8> {
    format!("user{number:016}").into_bytes()
}

pub fn value(number: u64, size: usize) -> Vec<u8> {
    let mut value = number.to_le_bytes().repeat(size.div_ceil(8));
    value.truncate(size);
    value
}

impl Scene {
    pub fn new(geometry: Geometry) -> Self {
        Self::on(geometry, Ddio::On)
    }

    pub fn on(geometry: Geometry, ddio: Ddio) -> Self {
        let mut options = MachineOptions::new(MachineProfile::by_name("connectx3-erda").unwrap());
        options.platform.ddio = ddio;
        let world = World::new(7);
        let machine = world.machine(options);
        let module = world.module(machine, Survivor::default());
        Self {
            world,
            machine,
            module,
            geometry,
            options,
            stop: Rc::default(),
        }
    }

    pub fn memory(&self) -> Rc<dyn PersistentRegion> {
        let log = LogOptions {
            capacity: self.geometry.size(),
            platform: self.options.platform,
            durability: Durability::Power,
        };
        SimBacking::new(&self.module).open_log(log).unwrap()
    }

    /// Starts Erda's server.
    pub fn serve_erda(&self, options: ErdaOptions) -> (Process, Rc<ErdaServer>) {
        let process = self.world.process(self.machine);
        let port = process.port(SERVER_COMPLETIONS).unwrap();
        let device = port.device().clone();
        let server = ErdaServer::open(
            self.memory(),
            port,
            process.runtime(),
            self.geometry,
            options,
        )
        .unwrap();
        device.listen(ADDRESS).unwrap();
        let server = Rc::new(server);
        let (serving, stop) = (server.clone(), self.stop.clone());
        process.runtime().spawn(Box::pin(async move {
            serving.run(&|| stop.get()).await.unwrap()
        }));
        (process, server)
    }

    pub fn serve_baseline(&self, scheme: Scheme) -> Process {
        let process = self.world.process(self.machine);
        let port = process.port(SERVER_COMPLETIONS).unwrap();
        let device = port.device().clone();
        let memory = self.memory();
        let commit =
            Commit::choose(self.options.platform, Durability::Power, memory.means()).unwrap();
        let server = BaselineServer::open(
            memory,
            commit,
            port,
            process.runtime(),
            self.geometry,
            scheme,
        )
        .unwrap();
        device.listen(ADDRESS).unwrap();
        let stop = self.stop.clone();
        process.runtime().spawn(Box::pin(async move {
            server.run(&|| stop.get()).await.unwrap()
        }));
        process
    }

    /// Cuts the server's power. Undecided bytes survive at the offsets for which `survives` returns
    /// true.
    pub fn cut_power(&self, survives: impl Fn(u64) -> bool) {
        let wreck = self.world.wreck(self.machine, &self.module);
        let fates: Vec<Fate> = (0..wreck.undecided())
            .map(|unit| Fate {
                stores: if survives(wreck.offset(unit)) {
                    wreck.stores(unit)
                } else {
                    0
                },
                torn: 0,
            })
            .collect();
        let survivor = wreck.survivor(&fates);
        self.world.cut_power(self.machine);
        self.module.restart(survivor);
    }

    /// Cuts the power after everything has become durable, and serves again.
    pub fn settle(&self) -> Rc<ErdaServer> {
        self.cut_power(|_| true);
        self.serve_erda(NEVER_CLEAN).1
    }

    /// Waits in virtual time.
    pub fn pass(&self, duration: Nanoseconds) {
        self.world
            .block_on(async { self.world.observer().sleep(duration).await });
    }

    /// Stores `number` as the value of `key` through a new client, and waits for the
    /// acknowledgement.
    pub fn put(&self, key: &[u8], number: u64) {
        let process = self.client_process();
        let value = value(number, self.geometry.value_size);
        self.world
            .block_on(async { self.erda(&process).await.put(key, &value).await.unwrap() });
    }

    /// The number that a new client reads as the value of `key`.
    pub fn get(&self, key: &[u8]) -> Option<u64> {
        let process = self.client_process();
        let mut value = Vec::new();
        let found = self.world.block_on(async {
            self.erda(&process)
                .await
                .get(key, &mut value)
                .await
                .unwrap()
        });
        found.then(|| u64::from_le_bytes(value[..8].try_into().unwrap()))
    }

    /// Runs a writer of `number` to `key` that dies after it has received a place and before it writes.
    pub fn put_and_die(&self, key: &[u8], number: u64) {
        let process = self.client_process();
        let mut client = self.world.block_on(self.erda(&process));
        let (key, value) = (key.to_vec(), value(number, self.geometry.value_size));
        let before = self.module.stores();
        process.runtime().spawn(Box::pin(
            async move { client.put(&key, &value).await.unwrap() },
        ));
        // The word changes first; the place is then in transit to the client.
        while self.module.stores() == before {
            assert!(self.world.step());
        }
        process.kill();
    }

    /// A process on a machine of its own.
    pub fn client_process(&self) -> Process {
        self.world.process(self.world.machine(self.options))
    }

    pub async fn erda(&self, process: &Process) -> ErdaClient {
        let port = process.port(CLIENT_COMPLETIONS).unwrap();
        ErdaClient::connect(port, process.runtime(), ADDRESS, &self.geometry)
            .await
            .unwrap()
    }

    pub async fn baseline(&self, process: &Process, scheme: Scheme) -> BaselineClient {
        BaselineClient::connect(
            process.port(CLIENT_COMPLETIONS).unwrap(),
            ADDRESS,
            scheme,
            &self.geometry,
        )
        .await
        .unwrap()
    }
}
