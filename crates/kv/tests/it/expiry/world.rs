//! A server in a simulated world whose clocks drift and are set, and whose machine loses its power.

use std::cell::RefCell;
use std::rc::Rc;

use stonecast_fabric_sim::{
    LocalClock, Machine, MachineOptions, MachineProfile, Module, Process, SimBacking, Survivor,
    World,
};
use stonecast_kv::{CLIENT_COMPLETIONS, Client, Expiry, PutRules, Server, ServerOptions};
use stonecast_log::Condition;
use stonecast_media::{Durability, OpenMode, Pool, PoolOptions};

pub const MS: u64 = 1_000_000;
pub const SECOND: u64 = 1000 * MS;
pub const SEGMENT_SIZE: u64 = 256 << 10;
/// The deviation that the store allows a clock.
const DRIFT_PPM: i64 = 700;
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
        let world = World::new(11);
        let platform = options.platform;
        let machine = world.machine(options);
        let home = world.machine(MachineOptions::new(MachineProfile::MODERN));
        let module = world.module(machine, Survivor::default());
        let pool = PoolOptions {
            capacity: segments * SEGMENT_SIZE,
            segment_size: SEGMENT_SIZE,
            shards: 1,
            cluster_seed: None,
            platform,
            durability: Durability::Power,
            entropy: [3; 64],
        };
        drop(Pool::create(Rc::new(SimBacking::new(&module)), pool).unwrap());
        let stage = Self {
            machine,
            home,
            module,
            running: RefCell::default(),
            server: Rc::default(),
            world,
        };
        stage.start(0);
        while stage.server.borrow().is_none() {
            assert!(stage.world.step());
        }
        stage.world.block_on(story(&stage));
        stage.server.take();
    }

    /// Starts a server whose wall clock is `back_ns` behind, and whose other clock is fast.
    fn start(&self, back_ns: u64) {
        let process = self.world.process(self.machine);
        process.set_clock(LocalClock {
            ahead_ns: 7 * SECOND,
            drift_ppm: DRIFT_PPM,
        });
        let wall = process.runtime().wall_clock();
        process.set_wall_clock(wall - back_ns);
        let backing = Rc::new(SimBacking::new(&self.module));
        let (pool, _) = Pool::open(backing, OpenMode::Serve).unwrap();
        let (serving, slot) = (process.clone(), self.server.clone());
        process.runtime().spawn(Box::pin(async move {
            let port = serving.port(65_536).unwrap();
            let device = port.device().clone();
            let options = ServerOptions::default();
            let opened = Server::open(pool, port, serving.runtime(), options).await;
            let server = Rc::new(opened.unwrap().0);
            device.listen(ADDRESS).unwrap();
            *slot.borrow_mut() = Some(server.clone());
            server.run(&|| false).await.unwrap();
        }));
        *self.running.borrow_mut() = Some(process);
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

    /// Sets the wall clock of the running server back.
    pub fn set_back(&self, back_ns: u64) {
        let running = self.running.borrow();
        let process = running.as_ref().expect("a server runs");
        process.set_wall_clock(process.runtime().wall_clock() - back_ns);
    }

    /// A client whose clock is slow.
    pub async fn client(&self) -> Client {
        let process = self.world.process(self.home);
        process.set_clock(LocalClock {
            ahead_ns: 0,
            drift_ppm: -DRIFT_PPM,
        });
        let port = process.port(CLIENT_COMPLETIONS).unwrap();
        Client::connect(port, process.runtime(), ADDRESS)
            .await
            .unwrap()
    }

    /// Lets the server stand still from now on. Clients read its memory meanwhile.
    pub fn pause(&self, time_ns: u64) {
        let running = self.running.borrow();
        running.as_ref().expect("a server runs").pause(time_ns);
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
