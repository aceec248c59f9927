//! A client of the run.

use std::collections::HashMap;
use std::rc::Rc;

use rand::RngExt as _;
use stonecast_base::{Nanoseconds, Random, random_from_seed};
use stonecast_fabric_sim::{Fault, Process};
use stonecast_kv::{
    ClusterClient, ClusterError, Condition, Effect, Expiry, FoundKey, PutRules, StoreError, Token,
    Written,
};

use crate::history::OperationId;
use crate::kv::chunked_size;
use crate::kv_cluster::batches;
use crate::kv_cluster::subject::KvCluster;
use crate::models::register::{Answer, Call, Expected};
use crate::oracles::values;
use crate::timeline::LAST_READER;
use crate::values::{VALUE_SIZE_MIN, ValueId, encode};
use crate::violation::Violation;

/// A moment that no clock of a run comes to.
const FAR_MS: u64 = 1 << 50;
/// Pause before a client that found no cluster tries again.
const RETRY_NS: Nanoseconds = 1_000_000;

/// A write and its name, with which it is repeated.
#[derive(Clone)]
pub(super) struct NamedWrite {
    pub id: OperationId,
    pub key: u32,
    pub call: Call,
    pub size: usize,
    pub token: Option<Token>,
}

/// The life of one client, until the script is done. `seed` distinguishes it from the others.
pub(super) async fn live(subject: Rc<KvCluster>, process: Process, number: u32, seed: u64) {
    let mut random = random_from_seed(seed);
    let mut pairs = Pairs::new(&subject, seed);
    let mut versions = HashMap::new();
    let (mut unfinished, mut batches) = (Vec::new(), Vec::new());
    let Some(client) = connect(&subject, &process).await else {
        return;
    };
    while subject.left.get() > 0 {
        subject.left.set(subject.left.get() - 1);
        if let Some(write) = unfinished.pop() {
            subject.testimony.hit(Fault::RepeatedWrite);
            unfinished.extend(repeat(&subject, &client, write).await);
            continue;
        }
        if let Some(batch) = batches.pop() {
            batches.extend(batches::repeat(&subject, &client, batch).await);
            continue;
        }
        let percent = subject.setup.batches_percent;
        if percent > 0 && random.random_range(0..100) < percent {
            let applied = batches::apply(&subject, &client, number, &mut random, &mut versions);
            batches.extend(applied.await);
            continue;
        }
        let key = pick_key(&subject, &mut random);
        let call = pick_call(&subject, &mut random, versions.get(&key).copied());
        let size = pick_size(&subject, key, &mut random);
        if let (Call::Get, Some(other)) = (call, pairs.pick(&subject, key)) {
            read_both(&subject, &client, number, [key, other], &mut versions).await;
            continue;
        }
        let id = subject.testimony.call(number, None, key, call);
        let mut write = NamedWrite {
            id,
            key,
            call,
            size,
            token: None,
        };
        if subject.setup.names_writes && call != Call::Get {
            name(&subject, &client, &mut write).await;
            // An attempt that reached no primary has used no name.
            if write.token.as_ref().is_some_and(Token::may_be_done) {
                subject.name_write(number, write.clone());
            }
        }
        let what = (key, call, size);
        let executed = execute(&subject, &client, &mut write.token, what).await;
        let answer = answer_of(&subject, executed);
        note_version(&mut versions, key, answer);
        let percent = subject.setup.faults.repeated_write_percent;
        let repeats = answer.is_none() && random.random_range(0..100) < percent;
        if repeats {
            unfinished.push(write);
        } else {
            subject.testimony.answer(id, answer);
        }
    }
    client.close().await;
}

/// The choices of second keys. They are not drawn from the random source of the other choices, which the seeds of known
/// findings depend on.
struct Pairs {
    random: Random,
    percent: u32,
}

impl Pairs {
    fn new(subject: &KvCluster, seed: u64) -> Self {
        Self {
            random: random_from_seed(seed ^ 0x7365_636f_6e64),
            percent: subject.setup.pairs_percent,
        }
    }

    /// The key that is read together with `key`; `None`: `key` is read alone.
    fn pick(&mut self, subject: &KvCluster, key: u32) -> Option<u32> {
        let is_pair = self.random.random_range(0..100) < self.percent;
        let other = is_pair.then(|| pick_key(subject, &mut self.random))?;
        (other != key).then_some(other)
    }
}

/// Reads two keys in one call. Each of them is a read of its own: the two values are no snapshot.
async fn read_both(
    subject: &KvCluster,
    client: &ClusterClient,
    number: u32,
    keys: [u32; 2],
    versions: &mut HashMap<u32, u64>,
) {
    let testimony = &subject.testimony;
    let ids = keys.map(|key| testimony.call(number, None, key, Call::Get));
    let names = keys.map(|key| &subject.keys[key as usize][..]);
    let found = client.multi_get(&names).await;
    for ((key, id), found) in keys.into_iter().zip(ids).zip(found) {
        let read = found.map(|found| got(subject, key, found));
        let answer = answer_of(subject, read);
        note_version(versions, key, answer);
        testimony.answer(id, answer);
    }
}

/// Notes the version that an answer tells about `key`.
fn note_version(versions: &mut HashMap<u32, u64>, key: u32, answer: Option<Answer>) {
    match answer {
        Some(Answer::Got(Some((_, version))) | Answer::Stored(version)) => {
            versions.insert(key, version);
        }
        _ => _ = versions.remove(&key),
    }
}

/// Connects, as soon as there is a cluster to connect to. `None`: the process has no port.
async fn connect(subject: &KvCluster, process: &Process) -> Option<ClusterClient> {
    let port = process.port(64).ok()?;
    loop {
        let store = subject.service().store(&port, &process.runtime());
        if let Some(client) = subject.connect(process, Rc::new(store)).await {
            return Some(client);
        }
        process.runtime().sleep(RETRY_NS).await;
    }
}

/// Repeats a write of unknown outcome with its token. Returns the write if its outcome is still unknown.
async fn repeat(
    subject: &KvCluster,
    client: &ClusterClient,
    mut write: NamedWrite,
) -> Option<NamedWrite> {
    let what = (write.key, write.call, write.size);
    subject.testimony.history.borrow_mut().again(write.id, None);
    match execute(subject, client, &mut write.token, what).await {
        Ok(answer) => subject.testimony.answer(write.id, Some(answer)),
        Err(error) => {
            answer_of(subject, Err(error));
            return Some(write);
        }
    }
    None
}

/// The answer to an operation; `None`: its outcome is unknown.
pub(super) fn answer_of(
    subject: &KvCluster,
    executed: Result<Answer, ClusterError>,
) -> Option<Answer> {
    let error = match executed {
        Ok(answer) => return Some(answer),
        Err(error) => error,
    };
    let is_of_the_surroundings = matches!(
        error,
        ClusterError::Unknown { .. }
            | ClusterError::NotServed { .. }
            | ClusterError::Unanswered { .. }
            | ClusterError::Configuration(_)
            // Too few nodes are left for a while, or the node that leads has started again since the first attempt.
            | ClusterError::Store(StoreError::TooFewCopies { .. } | StoreError::Forgotten)
    );
    if !is_of_the_surroundings {
        let oracle = "clients see no errors but those of their surroundings";
        subject
            .testimony
            .note(Violation::new(oracle, error.to_string()));
    }
    (error.effect() == Effect::None).then_some(Answer::Refused)
}

/// Names a write before it is sent: an attempt that cannot succeed makes the name, which may have been used from then
/// on. So whoever repeats the write asks for its outcome first, as the client itself would after a lost answer.
async fn name(subject: &KvCluster, client: &ClusterClient, write: &mut NamedWrite) {
    let key = &subject.keys[write.key as usize];
    let rules = rules_of(ValueId::ABSENT, Condition::Version(u64::MAX));
    // Nothing comes of it, whatever the outcome.
    let _refused = client.put_with(&mut write.token, key, b"", rules).await;
}

pub(super) async fn execute(
    subject: &KvCluster,
    client: &ClusterClient,
    token: &mut Option<Token>,
    (key, call, size): (u32, Call, usize),
) -> Result<Answer, ClusterError> {
    let name = &subject.keys[key as usize];
    let mut bytes = Vec::new();
    match call {
        Call::Get => {
            let found = client.find(name, &mut bytes).await?;
            Ok(got(subject, key, found.map(|found| (bytes, found))))
        }
        Call::Put(value) => {
            encode(value, size, &mut bytes);
            let rules = rules_of(value, Condition::None);
            let put = client.put_with(token, name, &bytes, rules);
            Ok(stored(put.await?))
        }
        Call::PutIf(value, expected) => {
            encode(value, size, &mut bytes);
            let condition = match expected {
                Expected::Absent => Condition::Absent,
                Expected::Version(version) => Condition::Version(version),
            };
            let rules = rules_of(value, condition);
            let put = client.put_with(token, name, &bytes, rules);
            Ok(stored(put.await?))
        }
        Call::Delete => {
            let removed = client.delete_with(token, name, Condition::None).await?;
            Ok(Answer::Removed(removed.is_some()))
        }
    }
}

/// The answer to a read of `key` that found this value, which is judged.
fn got(subject: &KvCluster, key: u32, found: Option<(Vec<u8>, FoundKey)>) -> Answer {
    let Some((bytes, FoundKey { version, expires })) = found else {
        return Answer::Got(None);
    };
    let history = subject.testimony.history.borrow();
    let judged = values::identify(key, &bytes)
        .and_then(|value| values::judge(&history, key, value).map(|()| value));
    drop(history);
    match judged {
        Ok(value) => {
            if expires != moment_of(value) {
                let oracle = "a key has the moment of its value";
                let what = format!("{expires:?} of value {}", value.0);
                subject.testimony.note(Violation::new(oracle, what));
            }
            Answer::Got(Some((value, version)))
        }
        Err(violation) => {
            subject.testimony.note(violation);
            Answer::Refused
        }
    }
}

/// The moment of a key with this value; half of the values have one. The moment lies far beyond the run, since the
/// model has no time: the histories show that moments are carried, and that readers get along with the time of a shard.
pub(super) fn moment_of(value: ValueId) -> Option<Expiry> {
    let number = u64::from(value.0);
    let has_moment = !number.is_multiple_of(2);
    has_moment.then(|| Expiry::at_ms(FAR_MS + number)).flatten()
}

fn rules_of(value: ValueId, condition: Condition) -> PutRules {
    PutRules {
        condition,
        expires: moment_of(value),
    }
}

fn stored(written: Written) -> Answer {
    match written {
        Written::Done(version) => Answer::Stored(version),
        Written::Conflict(present) => Answer::Conflict(present),
    }
}

pub(super) fn pick_key(subject: &KvCluster, random: &mut Random) -> u32 {
    // Half of the operations go to a quarter of the keys, so that operations on one key meet.
    let keys = subject.setup.keys;
    match random.random() {
        true => random.random_range(0..keys.div_ceil(4)),
        false => random.random_range(0..keys),
    }
}

fn pick_size(subject: &KvCluster, key: u32, random: &mut Random) -> usize {
    let setup = &subject.setup;
    chunked_size(setup.chunked_percent, key, random)
        .unwrap_or_else(|| random.random_range(VALUE_SIZE_MIN..=setup.value_size_max))
}

fn pick_call(subject: &KvCluster, random: &mut Random, version: Option<u64>) -> Call {
    match random.random_range(0..100) {
        0..35 => Call::Get,
        35..50 => Call::Delete,
        50..65 => {
            let expected = version.map_or(Expected::Absent, Expected::Version);
            Call::PutIf(subject.fresh_value(), expected)
        }
        _ => Call::Put(subject.fresh_value()),
    }
}

/// Completes some operations after everything has healed. Returns when all of them are answered.
pub(super) async fn get_on(subject: Rc<KvCluster>, process: Process, number: u32, count: u32) {
    let Some(client) = connect(&subject, &process).await else {
        return;
    };
    let mut left = count;
    while left > 0 {
        let key = (number + left) % subject.setup.keys;
        let call = match left % 3 {
            0 => Call::Put(subject.fresh_value()),
            1 => Call::Get,
            _ => Call::Delete,
        };
        let id = subject.testimony.call(number, None, key, call);
        let executed = execute(&subject, &client, &mut None, (key, call, 40)).await;
        let answer = answer_of(&subject, executed);
        left -= u32::from(answer.is_some_and(|answer| answer != Answer::Refused));
        subject.testimony.answer(id, answer);
    }
    client.close().await;
}

/// Reads every key at the end of the run, as a client sees it.
pub(super) async fn read_all(subject: Rc<KvCluster>, process: Process) {
    let Some(client) = connect(&subject, &process).await else {
        return;
    };
    for key in 0..subject.setup.keys {
        let id = subject.testimony.call(LAST_READER, None, key, Call::Get);
        let read = execute(&subject, &client, &mut None, (key, Call::Get, 0)).await;
        if let Err(error) = &read {
            let oracle = "in the end every key can be read";
            let violation = Violation::new(oracle, error.to_string());
            subject.testimony.note(violation);
        }
        subject.testimony.answer(id, read.ok());
    }
    client.close().await;
}
