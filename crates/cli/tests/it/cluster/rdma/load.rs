//! Clients that read and write the same keys, and the judgement of their calls and answers: linearizable, key by key.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rand::RngExt as _;
use stonecast::blocking::Client;
use stonecast::{Condition, Connector, Effect, Entry, Error, Written};
use stonecast_base::{Random, random_from_seed};
use stonecast_check::linearizability::{STATES_MAX, Verdict};
use stonecast_check::models::register::{self, Answer, Call, Expected, History};
use stonecast_check::values::{self, ValueId};

use super::nodes::{Nodes, PATIENCE};

const CLIENTS: u32 = 2;
const KEYS: u32 = 8;
/// Answers of each key that show that its shard is served.
const ANSWERS: u64 = 3;

/// Clients at work. Their keys are those of this load alone.
pub struct Load {
    shared: Arc<Shared>,
    clients: Vec<JoinHandle<()>>,
}

struct Shared {
    connector: Connector,
    /// Names the keys.
    name: &'static str,
    history: Mutex<History>,
    /// The number of acknowledged operations of each key.
    acknowledged: [AtomicU64; KEYS as usize],
    next_value: AtomicU64,
    stops: AtomicBool,
}

impl Load {
    /// Starts clients on keys that begin with `name`.
    pub fn start(nodes: &Nodes, name: &'static str) -> Self {
        let shared = Arc::new(Shared {
            connector: nodes.connector(),
            name,
            history: Mutex::new(History::new(KEYS)),
            acknowledged: Default::default(),
            next_value: AtomicU64::new(1),
            stops: AtomicBool::new(false),
        });
        let start_one = |client| {
            let shared = shared.clone();
            std::thread::spawn(move || shared.work(client))
        };
        Self {
            clients: (0..CLIENTS).map(start_one).collect(),
            shared,
        }
    }

    /// Waits until several operations of each key that begin from here on are acknowledged.
    pub fn goes_on(&self) {
        let counts = || {
            self.shared
                .acknowledged
                .each_ref()
                .map(|count| count.load(Ordering::Relaxed))
        };
        let (begun, before) = (Instant::now(), counts());
        // An operation of each client may have begun earlier.
        let awaited = ANSWERS + u64::from(CLIENTS);
        while (counts().iter().zip(before)).any(|(now, before)| *now < before + awaited) {
            assert!(
                begun.elapsed() < PATIENCE,
                "{before:?}, and then {:?}",
                counts()
            );
            assert!(
                self.clients.iter().all(|client| !client.is_finished()),
                "a client ended"
            );
            std::thread::sleep(Duration::from_millis(20));
        }
        println!(
            "every key had {awaited} answers within {:?}",
            begun.elapsed()
        );
    }

    /// Ends the clients, and judges the history of each key together with the key's last value.
    pub fn end(self) {
        self.shared.stops.store(true, Ordering::Relaxed);
        for client in self.clients {
            client.join().expect("a client ends when it is told to");
        }
        let reader = self.shared.connect();
        let begun = Instant::now();
        let last = (0..KEYS).map(|key| {
            loop {
                match reader.get(self.shared.key(key)) {
                    Ok(found) => break found.map_or(ValueId::ABSENT, |entry| value_of(&entry)),
                    Err(error) => assert!(begun.elapsed() < PATIENCE, "key {key}: {error}"),
                }
            }
        });
        let last: Vec<_> = last.collect();
        let history = self.shared.history();
        let unknown = history
            .operations()
            .iter()
            .filter(|operation| operation.answer.is_none());
        println!(
            "{} operations, {} without an answer",
            history.answers(),
            unknown.count()
        );
        for key in 0..KEYS {
            let operations = history.of_part(key);
            let verdict = register::check(operations.clone(), Some(last[key as usize]), STATES_MAX);
            let story = || {
                operations
                    .map(|operation| format!("{operation:?}\n"))
                    .collect::<String>()
            };
            assert_eq!(
                verdict,
                Verdict::Linearizable,
                "key {key}, at last {}:\n{}",
                last[key as usize],
                story()
            );
        }
    }
}

impl Shared {
    fn history(&self) -> MutexGuard<'_, History> {
        self.history.lock().expect("no holder panics")
    }

    fn connect(&self) -> Client {
        let connector = self.connector.clone();
        connector.connect_blocking().expect("a node serves")
    }

    fn key(&self, key: u32) -> String {
        format!("{}/{key}", self.name)
    }

    /// The work of one client.
    fn work(&self, number: u32) {
        let client = self.connect();
        let mut random = random_from_seed(number.into());
        let mut seen = [None; KEYS as usize];
        while !self.stops.load(Ordering::Relaxed) {
            for key in 0..KEYS {
                let call = self.draw(&mut random, seen[key as usize]);
                self.operate(&client, number, key, call);
                seen[key as usize] = self.newest_version(key);
            }
        }
    }

    fn draw(&self, random: &mut Random, seen: Option<u64>) -> Call {
        let value = || ValueId(self.next_value.fetch_add(1, Ordering::Relaxed) as u32);
        match random.random_range(0..10) {
            0..4 => Call::Get,
            4..7 => Call::Put(value()),
            7..9 => Call::PutIf(value(), seen.map_or(Expected::Absent, Expected::Version)),
            _ => Call::Delete,
        }
    }

    /// The version of the key in the last answer that tells one.
    fn newest_version(&self, key: u32) -> Option<u64> {
        let history = self.history();
        let told = history
            .of_part(key)
            .filter_map(|operation| match operation.answer? {
                Answer::Stored(version) | Answer::Got(Some((_, version))) => Some(version),
                _ => None,
            });
        told.max()
    }

    /// Makes a call, and notes call and answer.
    fn operate(&self, client: &Client, number: u32, key: u32, call: Call) {
        let id = self.history().call(number, None, key, call);
        let answer = asked(client, &self.key(key), call);
        let is_done = answer.is_some_and(|answer| answer != Answer::Refused);
        self.history().answer(id, answer);
        self.acknowledged[key as usize].fetch_add(is_done.into(), Ordering::Relaxed);
    }
}

/// The answer to a call; `None`: its outcome is unknown.
fn asked(client: &Client, key: &str, call: Call) -> Option<Answer> {
    let mut bytes = Vec::new();
    if let Some(value) = call.value() {
        // Some values are longer than the message of a copy.
        let size = if value.0 % 7 == 0 { 9000 } else { 100 };
        values::encode(value, size, &mut bytes);
    }
    let answer = match call {
        Call::Get => client
            .get(key)
            .map(|found| Answer::Got(found.map(|entry| (value_of(&entry), entry.version)))),
        Call::Put(_) => client.put(key, bytes).map(Answer::Stored),
        Call::PutIf(_, expected) => {
            let condition = match expected {
                Expected::Absent => Condition::Absent,
                Expected::Version(version) => Condition::Version(version),
            };
            client.put_if(key, bytes, condition).map(of_condition)
        }
        Call::Delete => client.delete(key).map(Answer::Removed),
    };
    answer.map_or_else(|error| of_error(call, &error), Some)
}

fn of_condition(written: Written) -> Answer {
    match written {
        Written::Done(version) => Answer::Stored(version),
        Written::Conflict(present) => Answer::Conflict(present),
    }
}

fn of_error(call: Call, error: &Error) -> Option<Answer> {
    println!("{call:?}: {error}");
    (error.effect() == Effect::None).then_some(Answer::Refused)
}

fn value_of(entry: &Entry) -> ValueId {
    values::decode(&entry.value).expect("a value is whole")
}
