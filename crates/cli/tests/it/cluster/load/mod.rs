//! Clients that read and write the same keys, and the judgement of their calls and answers.
//!
//! ```text
//!   mod       the clients at work, and their history in the order of real time
//!   library   calls through the library
//!   gateway   calls through the gateways of the nodes
//!   record    the history of a load that has ended: linearizable, key by key
//! ```

mod gateway;
mod library;
mod record;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rand::RngExt as _;
use stonecast::Connector;
use stonecast_base::{Random, random_from_seed};
use stonecast_check::models::register::{Answer, Call, Expected, History};
use stonecast_check::values::{self, ValueId};

pub use gateway::{Fate, GatewayClient, Gateways};
pub use record::Record;

/// Clients of each kind.
const CLIENTS: u32 = 2;
/// Answers of each key that show that its shard is served.
const ANSWERS: u64 = 3;

/// The ways of clients to a cluster.
pub struct Ways {
    /// The way of clients of the library.
    pub connector: Connector,
    /// The gateways of the nodes, if clients use them too.
    pub gateways: Option<Arc<Gateways>>,
    /// Time in which every key is served again.
    pub patience: Duration,
    /// Pause of a client after one call about each key.
    pub pause: Duration,
}

/// Clients at work.
pub struct Load {
    shared: Arc<Shared>,
    clients: Vec<JoinHandle<()>>,
}

struct Shared {
    ways: Ways,
    keys: Vec<Key>,
    history: Mutex<History>,
    next_value: AtomicU64,
    stops: AtomicBool,
}

struct Key {
    name: String,
    /// The number of its acknowledged operations.
    acknowledged: AtomicU64,
    /// The highest version that an answer has told; 0: none.
    newest: AtomicU64,
}

/// A client, by its way to the nodes.
enum Client {
    Library(stonecast::blocking::Client),
    Gateway(GatewayClient),
}

/// Names of keys that begin with `name`.
pub fn keys_of(name: &str, count: usize) -> Vec<String> {
    (0..count).map(|key| format!("{name}/{key}")).collect()
}

impl Load {
    /// Starts clients on `keys`, which are those of this load alone.
    pub fn start(ways: Ways, keys: Vec<String>) -> Self {
        let key = |name| Key {
            name,
            acknowledged: AtomicU64::new(0),
            newest: AtomicU64::new(0),
        };
        let kinds = 1 + u32::from(ways.gateways.is_some());
        let shared = Arc::new(Shared {
            ways,
            history: Mutex::new(History::new(keys.len() as u32)),
            keys: keys.into_iter().map(key).collect(),
            next_value: AtomicU64::new(1),
            stops: AtomicBool::new(false),
        });
        let start_one = |number| {
            let shared = shared.clone();
            std::thread::spawn(move || shared.work(number))
        };
        Self {
            clients: (0..CLIENTS * kinds).map(start_one).collect(),
            shared,
        }
    }

    /// The number of acknowledged operations of each key.
    pub fn acknowledged(&self) -> Vec<u64> {
        let keys = self.shared.keys.iter();
        keys.map(|key| key.acknowledged.load(Ordering::Relaxed))
            .collect()
    }

    /// Waits until several operations of each key that begin from here on are acknowledged.
    pub fn goes_on(&self) {
        let all: Vec<_> = (0..self.shared.keys.len()).collect();
        self.goes_on_with(&all);
    }

    /// Waits until several operations of these keys that begin from here on are acknowledged.
    pub fn goes_on_with(&self, keys: &[usize]) {
        let (begun, before) = (Instant::now(), self.acknowledged());
        // An operation of each client may have begun earlier.
        let awaited = ANSWERS + self.clients.len() as u64;
        let waits = |now: &[u64]| keys.iter().any(|&key| now[key] < before[key] + awaited);
        while waits(&self.acknowledged()) {
            assert!(
                begun.elapsed() < self.shared.ways.patience,
                "{before:?}, and then {:?}",
                self.acknowledged()
            );
            assert!(
                self.clients.iter().all(|client| !client.is_finished()),
                "a client ended"
            );
            std::thread::sleep(Duration::from_millis(20));
        }
        let time = begun.elapsed();
        println!("every key had {awaited} answers within {time:?}");
    }

    /// Waits until each client has read, written, written on a condition that held, and deleted.
    pub fn wait_until_all_took_part(&self) {
        let begun = Instant::now();
        while !record::all_took_part(&self.shared.history(), self.clients.len()) {
            assert!(begun.elapsed() < self.shared.ways.patience);
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    /// Ends the clients, and reads the last value of each key.
    pub fn end(self) -> Record {
        self.shared.stops.store(true, Ordering::Relaxed);
        for client in self.clients {
            client.join().expect("a client ends when it is told to");
        }
        let reader = self.shared.ways.connect();
        let begun = Instant::now();
        let last = |key: &Key| loop {
            match reader.get(&key.name) {
                Ok(found) => break found.map_or(ValueId::ABSENT, |it| library::value_of(&it)),
                Err(error) => assert!(
                    begun.elapsed() < self.shared.ways.patience,
                    "{}: {error}",
                    key.name
                ),
            }
        };
        Record {
            last: self.shared.keys.iter().map(last).collect(),
            history: self.shared.history().clone(),
        }
    }
}

impl Ways {
    fn connect(&self) -> stonecast::blocking::Client {
        let begun = Instant::now();
        loop {
            match self.connector.clone().connect_blocking() {
                Ok(client) => return client,
                Err(error) => assert!(begun.elapsed() < self.patience, "{error}"),
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// The way of the client with this number.
    fn client(&self, number: u32) -> Client {
        match &self.gateways {
            Some(gateways) if number >= CLIENTS => {
                let first = (number - CLIENTS) as usize;
                Client::Gateway(GatewayClient::new(gateways.clone(), first))
            }
            _ => Client::Library(self.connect()),
        }
    }
}

impl Shared {
    fn history(&self) -> MutexGuard<'_, History> {
        self.history.lock().expect("no holder panics")
    }

    /// The work of one client.
    fn work(&self, number: u32) {
        let mut client = self.ways.client(number);
        let mut random = random_from_seed(number.into());
        while !self.stops.load(Ordering::Relaxed) {
            for key in 0..self.keys.len() {
                let call = self.draw(&mut random, client.expected(&self.keys[key]));
                self.operate(&mut client, number, key, call);
            }
            std::thread::sleep(self.ways.pause);
        }
    }

    fn draw(&self, random: &mut Random, expected: Expected) -> Call {
        let value = || ValueId(self.next_value.fetch_add(1, Ordering::Relaxed) as u32);
        match random.random_range(0..10) {
            0..4 => Call::Get,
            4..7 => Call::Put(value()),
            7..9 => Call::PutIf(value(), expected),
            _ => Call::Delete,
        }
    }

    /// Makes a call, and notes call and answer.
    fn operate(&self, client: &mut Client, number: u32, key: usize, call: Call) {
        let id = self.history().call(number, None, key as u32, call);
        let key = &self.keys[key];
        let answer = client.ask(&key.name, call);
        let is_done = answer.is_some_and(|answer| answer != Answer::Refused);
        self.history().answer(id, answer);
        key.acknowledged
            .fetch_add(is_done.into(), Ordering::Relaxed);
        if let Some(Answer::Stored(version) | Answer::Got(Some((_, version)))) = answer {
            key.newest.fetch_max(version, Ordering::Relaxed);
        }
    }
}

impl Client {
    /// The condition of a write of the key.
    fn expected(&self, key: &Key) -> Expected {
        match (self, key.newest.load(Ordering::Relaxed)) {
            // No command of a gateway names a version.
            (Self::Gateway(_), _) | (_, 0) => Expected::Absent,
            (Self::Library(_), version) => Expected::Version(version),
        }
    }

    /// The answer to a call; `None`: its outcome is unknown.
    fn ask(&mut self, key: &str, call: Call) -> Option<Answer> {
        let mut bytes = Vec::new();
        if let Some(value) = call.value() {
            // Some values are longer than the message of a copy.
            let size = if value.0 % 7 == 0 { 9000 } else { 100 };
            values::encode(value, size, &mut bytes);
        }
        match self {
            Self::Library(client) => library::ask(client, key, call, bytes),
            Self::Gateway(client) => gateway::ask(client, key, call, &bytes),
        }
    }
}
