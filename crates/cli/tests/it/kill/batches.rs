//! kill -9 of the server under clients that write batches and keys that expire: every batch is whole or absent, every
//! acknowledged one is there, and no key that has expired comes back.
//!
//! ```text
//!   lane      a group of keys, all of which each of its batches writes or deletes; one batch under way at a time
//!   writers   write down each batch before it is sent and after its answer, and that its expiring key was found absent
//!   reader    gets of all lanes; writes down the batches whose values it saw
//! ```
//!
//! After a death, a lane therefore holds its last acknowledged batch or the one that was under way, as a whole, and
//! nothing older than a value that was read. Its expiring key may be absent once its moment can have passed, and stays
//! absent once anybody has found it so.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::rc::Rc;
use std::time::Duration;

use rand::RngExt as _;
use rustix::process::Signal;
use stonecast_base::{Random, random_from_seed};
use stonecast_fabric::Runtime;
use stonecast_kv::{Applied, Batch, Client, StoreError};
use stonecast_log::Expiry;

use super::notes::{Kind, Note, Notes, read};
use super::work::{OPERATIONS_PER_SESSION, WRITERS, Work, connect, operation_of};
use super::{notes_of, seed, size_of};
use crate::support::{Place, Server, Worker, as_worker, start_worker, stonecast};

const TEST: &str =
    "kill::batches::every_batch_is_whole_or_absent_and_no_expired_key_returns_after_kills";
/// Kills of the server in the test, at least, and at most: a busy machine does less work between two kills.
const KILLS: usize = 40;
const KILLS_MAX: usize = 10 * KILLS;
/// Batches that are acknowledged in the test, and keys that are found expired, at least.
const ACKNOWLEDGED_MIN: u64 = 500;
const EXPIRED_MIN: u64 = 20;
/// Lanes of a writer.
const LANES: u64 = 6;
/// Keys of a lane, besides the one that expires. The batches of the first lane are long, so that kills meet them half
/// written.
const KEYS: [usize; 2] = [300, 12];
/// A key lives this long beyond the end of the test, or only for a moment.
const LONG_MS: u64 = 3_600_000;
/// The server's time is behind the latest time that a client takes for it by this much, and the length of a question,
/// at most: the drift of ten seconds, and whole milliseconds.
const DRIFT_MS: u64 = 25;

#[test]
fn every_batch_is_whole_or_absent_and_no_expired_key_returns_after_kills() {
    if let Some(work) = as_worker() {
        return run(&Work::parse(&work));
    }
    let seed = seed();
    eprintln!("STONECAST_TEST_SEED={seed}");
    let mut random = random_from_seed(seed);
    let mut scene = Scene::new();
    for kill in 0..KILLS_MAX {
        if kill >= KILLS && scene.model.had_load() {
            break;
        }
        scene.load();
        std::thread::sleep(Duration::from_micros(random.random_range(0..80_000)));
        scene.kill(&mut random);
    }
    scene.server.kill();
    let verified = stonecast(["verify".as_ref(), scene.place.pool().as_os_str()]);
    assert_eq!(verified.code, Some(0), "{}", verified.stderr);
    assert!(
        scene.model.had_load(),
        "too little load: {} batches acknowledged, {} of their keys expired",
        scene.model.acknowledged,
        scene.model.expired
    );
}

/// The server, its clients, and what they said.
struct Scene {
    place: Place,
    server: Server,
    workers: Vec<Worker>,
    model: Model,
    opening: u32,
    sessions: u32,
}

/// The options of the server.
const OPTIONS: [&str; 6] = [
    "--durability",
    "process",
    "--capacity",
    "256MiB",
    "--segment-size",
    "2MiB",
];

impl Scene {
    fn new() -> Self {
        let place = Place::in_volatile_memory();
        let server = Server::start(&place.pool(), OPTIONS);
        Self {
            place,
            server,
            workers: Vec::new(),
            model: Model::default(),
            opening: 0,
            sessions: 0,
        }
    }

    /// Starts all workers, and waits until each has something to say.
    fn load(&mut self) {
        for worker in 0..=WRITERS {
            self.sessions += 1;
            let work = Work {
                address: self.server.address(),
                notes: notes_of(self.place.path(), self.opening, worker),
                worker,
                session: self.sessions,
            };
            let words = self.place.path().join("words");
            self.workers
                .push(start_worker(TEST, &work.to_string(), &words));
        }
        for index in 0..=WRITERS {
            while size_of(&notes_of(self.place.path(), self.opening, index)) == 0 {
                let words = std::fs::read_to_string(self.place.path().join("words"));
                assert!(self.workers[index].runs(), "worker {index}: {words:?}");
                std::thread::sleep(Duration::from_millis(1));
            }
        }
    }

    /// Kills the server, sometimes also during recovery, and compares what is there with the notes.
    fn kill(&mut self, random: &mut Random) {
        if random.random_bool(0.25) {
            // Keys expire beside a server that removes none: readers judge alone.
            self.server.signal(Signal::STOP);
            std::thread::sleep(Duration::from_millis(150));
        }
        self.server.kill();
        self.workers.clear();
        let words = std::fs::read_to_string(self.place.path().join("words"));
        let words = words.unwrap_or_default();
        assert!(!words.contains("panicked"), "{words}");
        while random.random_bool(0.25) {
            self.server = Server::launch(&self.place.pool(), OPTIONS);
            std::thread::sleep(Duration::from_micros(random.random_range(0..20_000)));
            self.server.kill();
        }
        for worker in 0..=WRITERS {
            let notes = notes_of(self.place.path(), self.opening, worker);
            self.model.read_notes(&notes);
        }
        self.opening += 1;
        self.server = Server::start(&self.place.pool(), OPTIONS);
        let exported = self.server.client(&["export"]);
        let gone = self.model.compare(exported.text());
        for lane in gone.iter().take(2) {
            self.server.client(&["get", &expiring(lane)]).refusal(3);
        }
    }
}

fn lane_name(worker: usize, lane: u64) -> String {
    format!("writer-{worker}/lane-{lane}")
}

fn keys_of(lane: &str) -> Vec<String> {
    let count = KEYS[usize::from(!lane.ends_with("lane-0"))];
    (0..count).map(|index| format!("{lane}/{index}")).collect()
}

fn expiring(lane: &str) -> String {
    format!("{lane}/expiring")
}

/// The value that batch `operation` gives to the key with this number; `None`: it deletes the key.
fn value_of(operation: u64, index: usize) -> Option<Vec<u8>> {
    let mut random = random_from_seed(operation << 10 | index as u64);
    let size = random.random_range(0..3000);
    let filling = (0..size).map(|_| random.random_range(b'a'..=b'z'));
    let value = format!("{operation}:").bytes().chain(filling).collect();
    (operation > 0 && random.random_bool(0.8)).then_some(value)
}

/// Whether the expiring key of batch `operation` lives for a moment only.
fn is_short(operation: u64) -> bool {
    random_from_seed(operation).random_bool(0.6)
}

/// Works until the server is gone.
fn run(work: &Work) {
    let Some((executor, client)) = connect(&work.address) else {
        return;
    };
    let random = random_from_seed(work.session.into());
    let (notes, runtime) = (Notes::append(&work.notes), executor.runtime());
    if work.worker == WRITERS {
        return executor.block_on(read_all_lanes(client, runtime, notes, random));
    }
    let shared = Rc::new((client, notes, runtime.clone()));
    for number in 0..LANES {
        let lane = Lane {
            name: lane_name(work.worker, number),
            first: u64::from(work.session) * OPERATIONS_PER_SESSION + number,
            random: random_from_seed(u64::from(work.session) << 8 | number),
        };
        let shared = shared.clone();
        runtime.spawn(Box::pin(async move {
            let (client, notes, runtime) = &*shared;
            match lane.write(client, notes, runtime).await {
                StoreError::Disconnected { .. } => std::process::exit(0),
                error => panic!("{error}"),
            }
        }));
    }
    executor.block_on(std::future::pending::<()>());
}

struct Lane {
    name: String,
    first: u64,
    random: Random,
}

impl Lane {
    /// Writes batches until there is an error.
    async fn write(
        mut self,
        client: &Client,
        notes: &Notes,
        runtime: &Rc<dyn Runtime>,
    ) -> StoreError {
        let keys = keys_of(&self.name);
        for operation in (self.first + LANES..).step_by(LANES as usize) {
            let now_ms = match client.server_time_ms().await {
                Ok(now_ms) => now_ms,
                Err(error) => return error,
            };
            let life_ms = match is_short(operation) {
                true => self.random.random_range(5..60),
                false => LONG_MS,
            };
            let mut batch = Batch::new();
            for (index, key) in keys.iter().enumerate() {
                match value_of(operation, index) {
                    Some(value) => batch.put(key.as_bytes(), &value),
                    None => batch.delete(key.as_bytes()),
                };
            }
            let (key, value) = (expiring(&self.name), format!("{operation}:"));
            batch.put_until(
                key.as_bytes(),
                value.as_bytes(),
                Expiry::at_ms(now_ms + life_ms),
            );
            notes.write(&Note::Begin {
                operation,
                kind: Kind::Put,
                key: self.name.clone(),
            });
            match client.apply(&batch).await {
                Ok(Applied::Done(_)) => notes.write(&Note::Acknowledged { operation }),
                Ok(Applied::Contradicted { key }) => panic!("{key:?} was not expected"),
                Err(error) if error.is_for_want_of_room() => {
                    notes.write(&Note::NotDone { operation });
                    runtime.sleep(1_000_000).await;
                    continue;
                }
                Err(error) => return error,
            }
            if is_short(operation) && self.random.random_bool(0.3) {
                if let Err(error) = wait_for_end(client, runtime, &key, operation).await {
                    return error;
                }
                notes.write(&Note::Gone { operation });
            }
        }
        unreachable!("a lane has no end")
    }
}

/// Waits until the key that batch `operation` has written is absent.
async fn wait_for_end(
    client: &Client,
    runtime: &Rc<dyn Runtime>,
    key: &str,
    operation: u64,
) -> Result<(), StoreError> {
    let mut value = Vec::new();
    while client.find(key.as_bytes(), &mut value).await?.is_some() {
        assert_eq!(operation_of(&value), operation, "{key} has one writer");
        runtime.sleep(2_000_000).await;
    }
    Ok(())
}

async fn read_all_lanes(
    client: Client,
    runtime: Rc<dyn Runtime>,
    notes: Notes,
    mut random: Random,
) {
    let (mut value, mut seen, mut longest_ns) = (Vec::new(), BTreeMap::new(), 0);
    for count in 0_u64.. {
        if count % 64 == 0 {
            // Reads need no other process, and would take the processor from the writers.
            runtime.sleep(50_000).await;
        }
        let lane = lane_name(
            random.random_range(0..WRITERS),
            random.random_range(0..LANES),
        );
        let index = random.random_range(0..KEYS[1]);
        let key = match random.random_bool(0.5) {
            true => format!("{lane}/{index}"),
            false => expiring(&lane),
        };
        let (called, mut asked_ms) = (runtime.now(), 0);
        let found = async {
            asked_ms = client.server_time_ms().await?;
            client.find(key.as_bytes(), &mut value).await
        };
        let found = found.await;
        // Each of the two calls may have asked the server.
        longest_ns = longest_ns.max(runtime.now() - called);
        match found {
            Ok(None) => {}
            Ok(Some(found)) => {
                if let Some(moment) = found.expires {
                    let earliest_ms = asked_ms.saturating_sub(longest_ns / 1_000_000 + DRIFT_MS);
                    let moment_ms = moment.ms();
                    assert!(
                        earliest_ms < moment_ms,
                        "{key} expired at {moment_ms}, and was returned at {earliest_ms} or later"
                    );
                }
                let operation = operation_of(&value);
                if seen.insert(lane.clone(), operation) != Some(operation) {
                    let key = lane;
                    notes.write(&Note::Saw { operation, key });
                }
            }
            Err(StoreError::Disconnected { .. }) => return,
            Err(error) => panic!("find {key}: {error}"),
        }
    }
}

/// The content that the pool may have.
#[derive(Default)]
struct Model {
    lanes: BTreeMap<String, State>,
    acknowledged: u64,
    /// Keys that somebody found expired.
    expired: u64,
}

#[derive(Default)]
struct State {
    /// The last batch that is known to have been done; 0: none.
    done: u64,
    /// The batch that was under way.
    open: Option<u64>,
    /// The newest batch whose value was read.
    seen: u64,
    /// The newest batch whose expiring key was found absent.
    gone: u64,
}

impl Model {
    fn had_load(&self) -> bool {
        self.acknowledged > ACKNOWLEDGED_MIN && self.expired > EXPIRED_MIN
    }

    fn read_notes(&mut self, path: &Path) {
        let mut lane_of = BTreeMap::new();
        for note in read(path) {
            match note {
                Note::Begin { operation, key, .. } => {
                    let state = self.lanes.entry(key.clone()).or_default();
                    assert_eq!(state.open.replace(operation), None);
                    lane_of.insert(operation, key);
                }
                Note::Saw { operation, key } => {
                    let state = self.lanes.entry(key).or_default();
                    state.seen = state.seen.max(operation);
                }
                Note::Acknowledged { operation } => {
                    let state = self.lanes.get_mut(&lane_of[&operation]);
                    let state = state.expect("its lane is known");
                    (state.done, state.open) = (operation, None);
                    self.acknowledged += 1;
                }
                Note::NotDone { operation } => {
                    let state = self.lanes.get_mut(&lane_of[&operation]);
                    state.expect("its lane is known").open = None;
                }
                Note::Gone { operation } => {
                    let state = self.lanes.get_mut(&lane_of[&operation]);
                    state.expect("its lane is known").gone = operation;
                    self.expired += 1;
                }
            }
        }
    }

    /// Compares the model with an export, which counts as the truth from now on. Returns the lanes whose expiring key
    /// was found absent.
    fn compare(&mut self, exported: &str) -> Vec<String> {
        let mut there = BTreeMap::new();
        for line in exported.lines() {
            let entry: serde_json::Value = serde_json::from_str(line).expect("an export is JSON");
            let text = |field: &str| entry[field].as_str().expect("a text").to_owned();
            there.insert(text("key"), text("value"));
        }
        let mut known = BTreeSet::new();
        for (lane, state) in &mut self.lanes {
            let (keys, last) = (keys_of(lane), there.get(&expiring(lane)));
            let is_whole = |operation: u64| {
                let mut keys = keys.iter().enumerate();
                keys.all(|(index, key)| {
                    let found = there.get(key).map(String::as_bytes);
                    found == value_of(operation, index).as_deref()
                })
            };
            let may_be = |operation: u64| match last {
                None => operation == 0 || is_short(operation),
                Some(value) => {
                    operation_of(value.as_bytes()) == operation && operation > state.gone
                }
            };
            let possible = [state.open, Some(state.done)].into_iter().flatten();
            let mut fitting =
                possible.filter(|&operation| is_whole(operation) && may_be(operation));
            let Some(operation) = fitting.next() else {
                let found = |key: &String| there.get(key).map(|it| operation_of(it.as_bytes()));
                panic!(
                    "{lane} holds {:?} and {last:?}; last acknowledged {}, under way {:?}, gone {}",
                    keys.iter().map(found).collect::<Vec<_>>(),
                    state.done,
                    state.open,
                    state.gone
                );
            };
            assert!(operation >= state.seen, "{lane}: {} was read", state.seen);
            (state.done, state.open) = (operation, None);
            known.extend(keys);
            known.insert(expiring(lane));
        }
        let unknown = there.keys().find(|key| !known.contains(*key));
        assert_eq!(unknown, None, "every key is that of a lane");
        let gone = self.lanes.iter();
        gone.filter(|(_, state)| state.gone == state.done && state.gone > 0)
            .map(|(lane, _)| lane.clone())
            .collect()
    }
}
