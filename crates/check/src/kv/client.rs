//! A client of the run: connects, executes its part of the script, and connects again when the
//! server is gone.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::pin::Pin;
use std::rc::Rc;

use rand::RngExt as _;
use stonecast_base::{Random, random_from_seed};
use stonecast_fabric::Runtime;
use stonecast_fabric_sim::{Fault, Process};
use stonecast_kv::{
    CLIENT_COMPLETIONS, Client, ClientOptions, Condition, Effect, StoreError, Token, Values,
    Written,
};

use crate::history::OperationId;
use crate::kv::batch::{self, Bundle};
use crate::kv::setup::{Setup, chunked_size};
use crate::kv::subject::SERVER;
use crate::models::register::{Answer, Call, Expected};
use crate::oracles::values;
use crate::subject::Testimony;
use crate::tasks::all;
use crate::timeline::LAST_READER;
use crate::values::{VALUE_SIZE_MIN, ValueId, encode};
use crate::violation::Violation;

/// The server's address.
pub(crate) const ADDRESS: &str = "sim:store";
/// Number of keys in a batch of reads.
const READ_TOGETHER: usize = 3;
/// Pause before a client that was refused tries again.
const RETRY_NS: u64 = 200_000;

/// The state that all clients share.
pub(crate) struct Work {
    pub setup: Setup,
    pub keys: Vec<Vec<u8>>,
    pub testimony: Testimony<Call, Answer>,
    /// Operations that no client has begun.
    pub left: Cell<u64>,
    next_value: Cell<u32>,
    /// Number of answers *no space*.
    pub refusals: Cell<u64>,
    /// The batches so far.
    pub batches: RefCell<Vec<Bundle>>,
}

impl Work {
    pub fn new(setup: Setup, keys: Vec<Vec<u8>>) -> Rc<Self> {
        let testimony = Testimony::new(setup.keys);
        let left = Cell::new(setup.operations);
        Rc::new(Self {
            setup,
            keys,
            testimony,
            left,
            next_value: Cell::new(1),
            refusals: Cell::new(0),
            batches: RefCell::default(),
        })
    }

    pub fn fresh_value(&self) -> ValueId {
        ValueId(self.next_value.replace(self.next_value.get() + 1))
    }

    /// Notes a call of a client.
    pub fn call(&self, client: u32, key: u32, call: Call) -> OperationId {
        self.testimony.call(client, Some(SERVER), key, call)
    }

    /// Notes the answer to a call; `None`: an error, or no answer.
    pub fn answer(&self, id: OperationId, answer: Option<Answer>) {
        self.testimony.answer(id, answer);
    }

    /// Counts a fault.
    pub fn hit(&self, fault: Fault) {
        self.testimony.hit(fault);
    }

    /// Notes a broken promise.
    pub fn note(&self, violation: Violation) {
        self.testimony.note(violation);
    }
}

/// The life of one client. `seed` distinguishes it from the others.
pub(crate) async fn live(work: Rc<Work>, process: Process, number: u32, seed: u64) {
    let runtime = process.runtime();
    let unknown = Rc::new(RefCell::new(Vec::new()));
    while work.left.get() > 0 {
        let Ok(port) = process.port(CLIENT_COMPLETIONS) else {
            return;
        };
        let publishes = number % 3 != 2;
        let options = ClientOptions {
            locations: work.setup.locations,
            publishes,
            ..ClientOptions::default()
        };
        match Client::connect_with(options, port, runtime.clone(), ADDRESS).await {
            Ok(client) => {
                let lanes = (0..work.setup.lanes).map(|lane| {
                    let (work, client, unknown) = (work.clone(), client.clone(), unknown.clone());
                    let random = random_from_seed(seed ^ u64::from(lane) << 32 ^ work.left.get());
                    Box::pin(run_lane(work, client, unknown, number, random))
                        as Pin<Box<dyn Future<Output = ()>>>
                });
                all(lanes.collect()).await;
                if work.left.get() == 0 {
                    client.close().await;
                }
            }
            Err(_) => runtime.sleep(RETRY_NS).await,
        }
    }
}

/// A write of unknown outcome that is to be repeated.
struct Unfinished {
    id: OperationId,
    key: u32,
    call: Call,
    size: usize,
    token: Token,
}

/// One operation after the other, until the script or the connection ends.
async fn run_lane(
    work: Rc<Work>,
    client: Client,
    unknown: Rc<RefCell<Vec<Unfinished>>>,
    number: u32,
    mut random: Random,
) {
    let mut versions = HashMap::new();
    while work.left.get() > 0 {
        work.left.set(work.left.get() - 1);
        let again = unknown.borrow_mut().pop();
        if let Some(again) = again {
            work.hit(Fault::RepeatedWrite);
            let Some(left) = repeat(&work, &client, again).await else {
                continue;
            };
            unknown.borrow_mut().push(left);
            return;
        }
        let batches_percent = work.setup.batches_percent;
        if batches_percent > 0 && random.random_range(0..100) < batches_percent {
            match batch::apply(&work, &client, number, &mut random, &mut versions).await {
                true => continue,
                false => return,
            }
        }
        let key = pick_key(&work.setup, &mut random);
        let call = pick_call(&work, &mut random, versions.get(&key).copied());
        let id = work.call(number, key, call);
        let size = pick_size(&work.setup, key, &mut random);
        let mut token = client.token();
        // A put that a client publishes has no token, so it is not repeated.
        let is_plain = work.setup.publishes()
            && matches!(call, Call::Put(_))
            && random.random_range(0..100) < work.setup.plain_percent;
        let result = match call {
            Call::Put(value) if is_plain => put_plainly(&work, &client, key, value, size).await,
            _ => execute(&work, &client, &mut token, key, call, size).await,
        };
        let (answer, goes_on) = match result {
            Ok(answer) => (Some(answer), true),
            Err(error) => judge_error(&work, &error),
        };
        let version = match answer {
            Some(Answer::Got(Some((_, version))) | Answer::Stored(version)) => Some(version),
            _ => None,
        };
        match version {
            Some(version) => _ = versions.insert(key, version),
            None => _ = versions.remove(&key),
        }
        let repeats = answer.is_none() && call != Call::Get && !is_plain;
        if repeats && random.random_range(0..100) < work.setup.faults.repeated_write_percent {
            unknown.borrow_mut().push(Unfinished {
                id,
                key,
                call,
                size,
                token,
            });
        } else {
            work.answer(id, answer);
        }
        if !goes_on {
            return;
        }
    }
}

/// Repeats a write of unknown outcome with its token, so that the write takes effect once. Returns the write if this
/// attempt fails, too.
async fn repeat(work: &Work, client: &Client, mut write: Unfinished) -> Option<Unfinished> {
    work.testimony
        .history
        .borrow_mut()
        .again(write.id, Some(SERVER));
    let answer = match execute(
        work,
        client,
        &mut write.token,
        write.key,
        write.call,
        write.size,
    )
    .await
    {
        Ok(answer) => Some(answer),
        Err(StoreError::Forgotten) => None,
        Err(error) if error.is_for_want_of_room() => Some(Answer::Refused),
        Err(error) => {
            judge_error(work, &error);
            // The outcome of the first attempt is still unknown, with any outcome of this one.
            return Some(write);
        }
    };
    work.answer(write.id, answer);
    None
}

/// Turns an error into the answer of its operation. `true`: the connection can still be used.
pub(crate) fn judge_error(work: &Work, error: &StoreError) -> (Option<Answer>, bool) {
    match error {
        StoreError::Disconnected { .. } | StoreError::Device(_) => {}
        error if error.is_for_want_of_room() => {
            work.refusals.set(work.refusals.get() + 1);
            return (Some(Answer::Refused), true);
        }
        StoreError::NotPersisted => {}
        // A client that cannot register memory continues without that memory, and tries again.
        StoreError::Refused { .. } => {}
        other => work.note(Violation::new(
            "clients see no errors but those of their surroundings",
            other.to_string(),
        )),
    }
    let nothing = error.effect() == Effect::None;
    (nothing.then_some(Answer::Refused), false)
}

pub(crate) async fn execute(
    work: &Work,
    client: &Client,
    token: &mut Token,
    key: u32,
    call: Call,
    size: usize,
) -> Result<Answer, StoreError> {
    let name = &work.keys[key as usize];
    let mut bytes = Vec::new();
    match call {
        Call::Get => {
            let version = match work.setup.reads_in_batches {
                true => get_among_others(work, client, key, &mut bytes).await?,
                false => client.get(name, &mut bytes).await?,
            };
            let Some(version) = version else {
                return Ok(Answer::Got(None));
            };
            let judged = values::identify(key, &bytes).and_then(|value| {
                values::judge(&work.testimony.history.borrow(), key, value).map(|()| value)
            });
            Ok(match judged {
                Ok(value) => Answer::Got(Some((value, version))),
                Err(violation) => {
                    work.note(violation);
                    Answer::Refused
                }
            })
        }
        Call::Put(value) => {
            encode(value, size, &mut bytes);
            Ok(
                match client
                    .put_with(token, name, &bytes, Condition::None)
                    .await?
                {
                    Written::Done(version) => Answer::Stored(version),
                    Written::Conflict(_) => {
                        return Err(StoreError::Protocol {
                            what: "an unconditional put cannot conflict",
                        });
                    }
                },
            )
        }
        Call::PutIf(value, expected) => {
            encode(value, size, &mut bytes);
            let condition = match expected {
                Expected::Absent => Condition::Absent,
                Expected::Version(version) => Condition::Version(version),
            };
            Ok(
                match client.put_with(token, name, &bytes, condition).await? {
                    Written::Done(version) => Answer::Stored(version),
                    Written::Conflict(present) => Answer::Conflict(present),
                },
            )
        }
        Call::Delete => Ok(Answer::Removed(
            client
                .delete_with(token, name, Condition::None)
                .await?
                .is_some(),
        )),
    }
}

/// A put that its client may publish.
async fn put_plainly(
    work: &Work,
    client: &Client,
    key: u32,
    value: ValueId,
    size: usize,
) -> Result<Answer, StoreError> {
    let mut bytes = Vec::new();
    encode(value, size, &mut bytes);
    client
        .put(&work.keys[key as usize], &bytes)
        .await
        .map(Answer::Stored)
}

/// Reads a key together with the keys after it. Of the other keys, only the values are judged.
async fn get_among_others(
    work: &Work,
    client: &Client,
    key: u32,
    value: &mut Vec<u8>,
) -> Result<Option<u64>, StoreError> {
    let names: Vec<&[u8]> = work
        .keys
        .iter()
        .cycle()
        .skip(key as usize)
        .take(READ_TOGETHER)
        .map(Vec::as_slice)
        .collect();
    let mut values = Values::default();
    client.multi_get(&names, &mut values).await?;
    for (index, number) in (key..).enumerate().take(READ_TOGETHER).skip(1) {
        if let Some((bytes, _)) = values.get(index) {
            let other = number % work.keys.len() as u32;
            let judged = values::identify(other, bytes);
            _ = judged
                .and_then(|value| values::judge(&work.testimony.history.borrow(), other, value))
                .map_err(|violation| work.note(violation));
        }
    }
    Ok(values.get(0).map(|(bytes, version)| {
        value.extend_from_slice(bytes);
        version
    }))
}

fn pick_key(setup: &Setup, random: &mut Random) -> u32 {
    // Half of the operations go to a quarter of the keys, so that operations on one key meet.
    let few = setup.keys.div_ceil(4);
    if random.random() {
        random.random_range(0..few)
    } else {
        random.random_range(0..setup.keys)
    }
}

fn pick_call(work: &Work, random: &mut Random, version: Option<u64>) -> Call {
    let dice = random.random_range(0..100);
    let setup = &work.setup;
    if dice < setup.gets_percent {
        Call::Get
    } else if dice < setup.gets_percent + setup.deletes_percent {
        Call::Delete
    } else if dice >= 100 - setup.conditional_percent {
        let expected = version.map_or(Expected::Absent, Expected::Version);
        Call::PutIf(work.fresh_value(), expected)
    } else {
        Call::Put(work.fresh_value())
    }
}

fn pick_size(setup: &Setup, key: u32, random: &mut Random) -> usize {
    if let Some(size) = chunked_size(setup.chunked_percent, key, random) {
        return size;
    }
    let is_long = random.random_range(0..100) < setup.long_percent;
    let longest = if is_long {
        setup.value_size_max
    } else {
        setup.value_size_max.min(128)
    };
    random.random_range(VALUE_SIZE_MIN..=longest.max(VALUE_SIZE_MIN))
}

/// Reads every key at the end of the run, as a client sees it.
pub(crate) async fn read_all(work: Rc<Work>, process: Process, runtime: Rc<dyn Runtime>) {
    let client = loop {
        let Ok(port) = process.port(CLIENT_COMPLETIONS) else {
            return;
        };
        match Client::connect(port, runtime.clone(), ADDRESS).await {
            Ok(client) => break client,
            Err(_) => runtime.sleep(RETRY_NS).await,
        }
    };
    for key in 0..work.setup.keys {
        let id = work.call(LAST_READER, key, Call::Get);
        let answer = match execute(&work, &client, &mut client.token(), key, Call::Get, 0).await {
            Ok(answer) => Some(answer),
            Err(error) => {
                work.note(Violation::new(
                    "in the end every key can be read",
                    error.to_string(),
                ));
                None
            }
        };
        work.answer(id, answer);
    }
    client.close().await;
}
