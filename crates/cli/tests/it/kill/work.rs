//! The work of the workers.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use rand::RngExt as _;
use stonecast_base::{Random, random_from_seed};
use stonecast_fabric::{BusyPoll, Port, Runtime};
use stonecast_fabric_shm::{ShmDevice, ShmOptions};
use stonecast_kv::{CLIENT_COMPLETIONS, Client, StoreError};

use super::notes::{Kind, Note, Notes, read};

/// The number of processes that write. One more process reads.
pub const WRITERS: usize = 2;
/// The number of operations that each writer has in flight, each on keys of its own.
const LANES: usize = 8;
const KEYS_PER_LANE: usize = 24;
/// The most operations that a session can name.
pub const OPERATIONS_PER_SESSION: u64 = 100_000_000;

/// The work of one worker, passed through the environment as lines.
pub struct Work {
    pub address: String,
    pub notes: PathBuf,
    pub worker: usize,
    pub session: u32,
}

impl fmt::Display for Work {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            formatter,
            "{}\n{}\n{}\n{}",
            self.worker,
            self.session,
            self.address,
            self.notes.display()
        )
    }
}

impl Work {
    pub fn parse(text: &str) -> Self {
        let lines: Vec<&str> = text.lines().collect();
        let [worker, session, address, notes] = lines[..] else {
            panic!("four lines: {text}")
        };
        let (worker, session) = (
            worker.parse().expect("a number"),
            session.parse().expect("a number"),
        );
        Self {
            address: address.to_owned(),
            notes: notes.into(),
            worker,
            session,
        }
    }
}

/// The value that `operation` writes: its number, then bytes that follow from it.
pub fn value_of(operation: u64) -> Vec<u8> {
    let mut random = random_from_seed(operation);
    let size = if random.random_bool(0.03) {
        random.random_range(0..40_000)
    } else {
        random.random_range(0..900)
    };
    let filling = (0..size).map(|_| random.random_range(b'a'..=b'z'));
    format!("{operation}:").bytes().chain(filling).collect()
}

/// The number in a value.
pub fn operation_of(value: &[u8]) -> u64 {
    let digits: Vec<u8> = value
        .iter()
        .copied()
        .take_while(u8::is_ascii_digit)
        .collect();
    std::str::from_utf8(&digits)
        .expect("digits")
        .parse()
        .expect("a value starts with its operation")
}

/// Works until the server is gone or this process is killed.
pub fn run(work: &Work) {
    let Some((executor, client)) = connect(&work.address) else {
        return;
    };
    let random = random_from_seed(work.session.into());
    let runtime = executor.runtime();
    if work.worker == WRITERS {
        executor.block_on(read_all_keys(
            client,
            executor.runtime(),
            Notes::append(&work.notes),
            random,
        ));
        return;
    }
    let shared = Rc::new(Shared {
        client,
        runtime: executor.runtime(),
        notes: Notes::append(&work.notes),
        next_operation: u64::from(work.session) * OPERATIONS_PER_SESSION,
    });
    let left_alone = open_keys(&work.notes);
    for lane in 0..LANES {
        let keys = (0..KEYS_PER_LANE).map(|index| key(work.worker, lane, index));
        let keys: Vec<String> = keys.filter(|key| !left_alone.contains(key)).collect();
        let random = random_from_seed(u64::from(work.session) << 8 | lane as u64);
        if !keys.is_empty() {
            runtime.spawn(Box::pin(write_keys(
                shared.clone(),
                keys,
                lane as u64,
                random,
            )));
        }
    }
    executor.block_on(std::future::pending::<()>());
}

/// Connects; `None` if the server was killed meanwhile.
pub fn connect(address: &str) -> Option<(BusyPoll, Client)> {
    let device = ShmDevice::new(ShmOptions::default()).expect("a device");
    let executor = BusyPoll::new(device.clone(), 20_000);
    let port = Rc::new(Port::new(device, CLIENT_COMPLETIONS).expect("a port"));
    executor.add_port(&port);
    let client = executor
        .block_on(Client::connect(port, executor.runtime(), address))
        .ok()?;
    Some((executor, client))
}

fn key(worker: usize, lane: usize, index: usize) -> String {
    format!("writer-{worker}/lane-{lane}/{index}")
}

/// Keys whose last operation in these notes has no answer.
fn open_keys(notes: &Path) -> Vec<String> {
    let mut open = BTreeMap::new();
    for note in read(notes) {
        match note {
            Note::Begin { operation, key, .. } => drop(open.insert(operation, key)),
            Note::Acknowledged { operation } | Note::NotDone { operation } => {
                drop(open.remove(&operation))
            }
            Note::Saw { .. } | Note::Gone { .. } => {}
        }
    }
    open.into_values().collect()
}

struct Shared {
    client: Client,
    runtime: Rc<dyn Runtime>,
    notes: Notes,
    next_operation: u64,
}

async fn write_keys(shared: Rc<Shared>, keys: Vec<String>, lane: u64, mut random: Random) {
    for count in 0.. {
        let operation = shared.next_operation + count * LANES as u64 + lane;
        let key = &keys[random.random_range(0..keys.len())];
        let kind = if random.random_bool(0.25) {
            Kind::Delete
        } else {
            Kind::Put
        };
        shared.notes.write(&Note::Begin {
            operation,
            kind,
            key: key.clone(),
        });
        let result = match kind {
            Kind::Put => shared
                .client
                .put(key.as_bytes(), &value_of(operation))
                .await
                .map(drop),
            Kind::Delete => shared.client.delete(key.as_bytes()).await.map(drop),
        };
        match result {
            Ok(()) => shared.notes.write(&Note::Acknowledged { operation }),
            Err(error) if error.is_for_want_of_room() => {
                shared.notes.write(&Note::NotDone { operation });
                shared.runtime.sleep(1_000_000).await;
            }
            Err(StoreError::Disconnected { .. }) => std::process::exit(0),
            Err(error) => panic!("{kind:?} {key}: {error}"),
        }
    }
}

async fn read_all_keys(client: Client, runtime: Rc<dyn Runtime>, notes: Notes, mut random: Random) {
    let mut value = Vec::new();
    let mut seen = BTreeMap::new();
    for count in 0u64.. {
        if count % 64 == 0 {
            // Reads need no other process, and would take the processor from the writers.
            runtime.sleep(50_000).await;
        }
        let key = key(
            random.random_range(0..WRITERS),
            random.random_range(0..LANES),
            random.random_range(0..KEYS_PER_LANE),
        );
        match client.get(key.as_bytes(), &mut value).await {
            Ok(None) => {}
            Ok(Some(_)) => {
                let operation = operation_of(&value);
                assert_eq!(
                    value,
                    value_of(operation),
                    "{key} has the value that operation {operation} wrote"
                );
                if seen.insert(key.clone(), operation) != Some(operation) {
                    notes.write(&Note::Saw { operation, key });
                }
            }
            Err(StoreError::Disconnected { .. }) => return,
            Err(error) => panic!("get {key}: {error}"),
        }
    }
}
