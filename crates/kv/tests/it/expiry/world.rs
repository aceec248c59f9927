//! A server in a simulated world whose clocks drift and are set, and whose machine loses its power.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use rand::RngExt as _;
use stonecast_base::Random;
use stonecast_fabric_sim::{
    Fate, LocalClock, Machine, MachineOptions, MachineProfile, Module, Process, SimBacking,
    Survivor, World,
};
use stonecast_kv::{
    CLIENT_COMPLETIONS, Client, ClientOptions, ClientPolicy, Expiry, PutRules, Server,
    ServerOptions,
};
use stonecast_log::Condition;
use stonecast_media::{Durability, OpenMode, Pool, PoolOptions};

pub const MS: u64 = 1_000_000;
pub const SECOND: u64 = 1000 * MS;
pub const SEGMENT_SIZE: u64 = 256 << 10;
/// The time of a message and its answer, far away.
pub const ROUND_TRIP: u64 = 20 * MS;
/// The deviation that the store allows a clock.
pub const DRIFT_PPM: i64 = 700;
const ADDRESS: &str = "sim:server";

/// The way in which a server ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    Kill,
    PowerCut,
}

pub struct Stage {
    machine: Machine,
    home: Machine,
    module: Rc<Module>,
    running: RefCell<Option<Process>>,
    server: Rc<RefCell<Option<Rc<Server>>>>,
    clients: ClientPolicy,
    /// The deviation of the clock of each later server.
    drift_ppm: Cell<i64>,
    /// The last field, so that everything that runs in the world is dropped first.
    world: World,
}

impl Stage {
    /// Tells `story` where a server serves a pool of `segments`.
    pub fn tell(segments: u64, story: impl AsyncFnOnce(&Self)) {
        let options = MachineOptions::new(MachineProfile::MODERN);
        Self::tell_on(options, segments, story);
    }

    /// Tells `story` where the server's machine is as `options` say.
    pub fn tell_on(options: MachineOptions, segments: u64, story: impl AsyncFnOnce(&Self)) {
        Self::tell_in(options, (segments, SEGMENT_SIZE), story);
    }

    /// Tells `story` where messages take [`ROUND_TRIP`] there and back, and everything else takes little beside that.
    /// The pool has so many segments of that size.
    pub fn tell_far_away(pool: (u64, u64), story: impl AsyncFnOnce(&Self)) {
        let mut profile = MachineProfile::MODERN;
        profile.wire_ns = ROUND_TRIP / 2;
        Self::tell_in(MachineOptions::new(profile), pool, story);
    }

    fn tell_in(options: MachineOptions, pool: (u64, u64), story: impl AsyncFnOnce(&Self)) {
        Self::new(11, options, pool, ClientPolicy::Trusted).play(story);
    }

    /// Tells `story` in the world of `seed`. The clock of the first server is exact. If clients publish, the pool
    /// survives kills alone.
    pub fn tell_of(seed: u64, clients: ClientPolicy, story: impl AsyncFnOnce(&Self)) {
        let options = MachineOptions::new(MachineProfile::MODERN);
        let stage = Self::new(seed, options, (16, SEGMENT_SIZE), clients);
        stage.drift_ppm.set(0);
        stage.play(story);
    }

    fn new(
        seed: u64,
        options: MachineOptions,
        (segments, segment_size): (u64, u64),
        clients: ClientPolicy,
    ) -> Self {
        let world = World::new(seed);
        let platform = options.platform;
        let machine = world.machine(options);
        let home = world.machine(MachineOptions::new(MachineProfile::MODERN));
        let module = world.module(machine, Survivor::default());
        let pool = PoolOptions {
            capacity: segments * segment_size,
            segment_size,
            shards: 1,
            cluster_seed: None,
            platform,
            durability: match clients {
                ClientPolicy::Publishing => Durability::Process,
                _ => Durability::Power,
            },
            entropy: [3; 64],
        };
        drop(Pool::create(Rc::new(SimBacking::new(&module)), pool).unwrap());
        Self {
            machine,
            home,
            module,
            running: RefCell::default(),
            server: Rc::default(),
            clients,
            drift_ppm: Cell::new(DRIFT_PPM),
            world,
        }
    }

    fn play(self, story: impl AsyncFnOnce(&Self)) {
        self.start(0);
        while self.server.borrow().is_none() {
            assert!(self.world.step());
        }
        self.world.block_on(story(&self));
        self.server.take();
    }

    /// Starts a server whose wall clock is `back_ns` behind, and whose other clock deviates.
    fn start(&self, back_ns: u64) {
        let process = self.world.process(self.machine);
        process.set_clock(LocalClock {
            ahead_ns: 7 * SECOND,
            drift_ppm: self.drift_ppm.get(),
        });
        let wall = process.runtime().wall_clock();
        process.set_wall_clock(wall - back_ns);
        let backing = Rc::new(SimBacking::new(&self.module));
        let (pool, _) = Pool::open(backing, OpenMode::Serve).unwrap();
        let (serving, slot) = (process.clone(), self.server.clone());
        let clients = self.clients;
        process.runtime().spawn(Box::pin(async move {
            let port = serving.port(65_536).unwrap();
            let device = port.device().clone();
            let options = ServerOptions {
                clients,
                ..ServerOptions::default()
            };
            let opened = Server::open(pool, port, serving.runtime(), options).await;
            let server = Rc::new(opened.unwrap().0);
            device.listen(ADDRESS).unwrap();
            *slot.borrow_mut() = Some(server.clone());
            server.run(&|| false).await.unwrap();
        }));
        *self.running.borrow_mut() = Some(process);
    }

    /// Whether the pool survives power cuts.
    pub fn survives_power(&self) -> bool {
        self.clients != ClientPolicy::Publishing
    }

    /// The clock of each later server deviates by `drift_ppm`.
    pub fn set_drift(&self, drift_ppm: i64) {
        self.drift_ppm.set(drift_ppm);
    }

    /// Cuts the power, keeps any of the lines that were not durable, and starts another server.
    pub async fn lose_power(&self, random: &mut Random) {
        self.lose_power_and_time(random, 0).await;
    }

    /// Like [`Stage::lose_power`]. The wall clock of the other server was set back.
    pub async fn lose_power_and_time(&self, random: &mut Random, back_ns: u64) {
        self.running.take().expect("a server runs");
        let wreck = self.world.wreck(self.machine, &self.module);
        let kept = [0.0, 0.5, 0.95][random.random_range(0..3)];
        let fate = |unit| Fate {
            stores: match random.random_bool(kept) {
                true => wreck.stores(unit),
                false => 0,
            },
            torn: 0,
        };
        let fates: Vec<_> = (0..wreck.undecided()).map(fate).collect();
        self.world.cut_power(self.machine);
        self.module.restart(wreck.survivor(&fates));
        self.server.take();
        self.start(back_ns);
        while self.server.borrow().is_none() {
            self.pass(MS).await;
        }
    }

    /// Ends the server, and starts another one whose wall clock was set back.
    pub async fn restart(&self, end: End, back_ns: u64) {
        let process = self.running.take().expect("a server runs");
        match end {
            End::Kill => process.kill(),
            End::PowerCut => {
                let wreck = self.world.wreck(self.machine, &self.module);
                let fates = vec![Default::default(); wreck.undecided()];
                self.world.cut_power(self.machine);
                self.module.restart(wreck.survivor(&fates));
            }
        }
        self.server.take();
        self.start(back_ns);
        while self.server.borrow().is_none() {
            self.pass(MS).await;
        }
    }

    pub fn server(&self) -> Rc<Server> {
        self.server.borrow().clone().expect("a server runs")
    }

    /// Sets the wall clock of the running server ahead.
    pub fn set_ahead(&self, ahead_ns: u64) {
        let running = self.running.borrow();
        let process = running.as_ref().expect("a server runs");
        process.set_wall_clock(process.runtime().wall_clock() + ahead_ns);
    }

    /// Sets the wall clock of the running server back.
    pub fn set_back(&self, back_ns: u64) {
        let running = self.running.borrow();
        let process = running.as_ref().expect("a server runs");
        process.set_wall_clock(process.runtime().wall_clock() - back_ns);
    }

    /// A client whose clock is slow.
    pub async fn client(&self) -> Client {
        self.client_and_process().await.0
    }

    /// A client whose clock deviates by `drift_ppm`, and which publishes or not.
    pub async fn client_with(&self, drift_ppm: i64, publishes: bool) -> Client {
        let process = self.world.process(self.home);
        process.set_clock(LocalClock {
            ahead_ns: 0,
            drift_ppm,
        });
        let options = ClientOptions {
            publishes,
            ..ClientOptions::default()
        };
        let port = process.port(CLIENT_COMPLETIONS).unwrap();
        let client = Client::connect_with(options, port, process.runtime(), ADDRESS).await;
        client.unwrap()
    }

    /// A client whose clock is slow, and its process.
    pub async fn client_and_process(&self) -> (Client, Process) {
        let process = self.world.process(self.home);
        process.set_clock(LocalClock {
            ahead_ns: 0,
            drift_ppm: -DRIFT_PPM,
        });
        let port = process.port(CLIENT_COMPLETIONS).unwrap();
        let client = Client::connect(port, process.runtime(), ADDRESS).await;
        (client.unwrap(), process)
    }

    /// Lets the server stand still from now on. Clients read its memory meanwhile.
    pub fn pause(&self, time_ns: u64) {
        let running = self.running.borrow();
        running.as_ref().expect("a server runs").pause(time_ns);
    }

    /// The time of the world, by a clock without drift.
    pub fn now(&self) -> u64 {
        self.world.observer().now()
    }

    /// Lets time pass.
    pub async fn pass(&self, time_ns: u64) {
        self.world.observer().sleep(time_ns).await;
    }

    /// Whether the server itself finds `key`.
    pub fn peek(&self, key: &[u8]) -> bool {
        let found = self.server().peek(key, &mut Vec::new());
        found.unwrap().is_some()
    }
}

/// Puts a key that expires after `ms`.
pub async fn put_for(client: &Client, key: &[u8], value: &[u8], ms: u64) -> Expiry {
    let now_ms = client.server_time_ms().await.unwrap();
    let expires = Expiry::at_ms(now_ms + ms).unwrap();
    let rules = PutRules {
        condition: Condition::None,
        expires: Some(expires),
    };
    client.put_if(key, value, rules).await.unwrap();
    expires
}

/// Whether a GET finds `key`.
pub async fn is_there(client: &Client, key: &[u8]) -> bool {
    client.get(key, &mut Vec::new()).await.unwrap().is_some()
}
