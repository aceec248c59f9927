//! `EXEC`: the commands of a transaction, done as a whole.
//!
//! ```text
//!   read all keys that the commands look at -> apply the commands, in order -> one batch: expectations and changes
//!     ^------------------ a key that was read has another version by now -------------------'
//! ```
//!
//! The batch expects each key in the state in which the key was read or watched. If the store takes the batch, the
//! replies belong to the one moment at which the store decided, beside any reads and writes of other clients. A
//! transaction that changes nothing is confirmed in the same way.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::collections::btree_map;
use std::mem;

use smallvec::SmallVec;
use stonecast_kv::{Applied, Batch, Expectation};

use super::batch::Run;
use super::context::Context;
use super::error::CommandError;
use super::expiry::NewExpiry;
use super::operation::{Arguments, Control, Operation};
use super::reply::Reply;
use super::transaction::{WATCHED_MAX, Watched};
use super::transfer::Transfer;
use super::value::{SetAnswer, SetCondition, State, ValueCommand};
use crate::outlet::End;
use crate::sizes::{KEY_WORK, SMALL_REPLIES, VALUE_IN_CHUNKS_ROOM};

/// Attempts at a transaction that loses against other clients.
const ATTEMPTS_MAX: usize = 256;
/// The most bytes of values that a transaction reads, and the most bytes that it returns.
const VALUES_MAX: usize = 8 << 20;
/// Bytes of the reply to a command beside the values in it.
const ANSWER_SIZE: usize = 32;
/// The most keys that are read together.
const KEYS_TOGETHER: usize = 32;

/// A key of a transaction.
struct Slot<'a> {
    state: State<'a>,
    /// The version that was read; `None`: the key was not read. The inner `None`: the key was absent.
    base: Option<Option<u64>>,
}

type Slots<'a> = BTreeMap<&'a [u8], Slot<'a>>;

/// The reply to a command of a transaction.
enum Answer<'a> {
    One(Reply<'a>),
    Many(Vec<Reply<'a>>),
}

/// The outcome of a transaction that did not fail.
enum Outcome<'a> {
    Done(Vec<Answer<'a>>),
    /// A watched key has another version.
    Lost,
}

/// Runs `EXEC`. The inner error is the reply to the client.
pub async fn exec(run: &mut Run<'_, '_>) -> Result<Result<(), CommandError>, End> {
    let Some((queue, watched)) = run.session.transaction.end() else {
        return Ok(Err(CommandError::Refused("EXEC without MULTI")));
    };
    if queue.is_broken() {
        return Ok(Err(CommandError::TransactionAborted));
    }
    let context = run.context;
    let user = run.session.user().clone();
    let operations = queue.operations(&user);
    run.session.written.note(&operations, &context.store);
    let (mut attempts, mut reserved) = (0, SMALL_REPLIES);
    loop {
        // Each transaction under way holds the values that it has read.
        let turn = context.transactions.take(1).await;
        let prepared = match prepare(context, &operations, &watched).await {
            Ok(prepared) => prepared,
            Err(error) => return Ok(Err(error)),
        };
        let Some((answers, batch)) = prepared else {
            return Ok(write(run, Outcome::Lost));
        };
        // The replies have their room before anything is done. A client that does not take its replies holds no turn
        // meanwhile.
        let size: usize = answers.iter().map(Answer::size).sum();
        if size > VALUES_MAX {
            return Ok(Err(CommandError::TransactionReadsTooMuch));
        }
        let size = size + answers.len() * ANSWER_SIZE;
        if size > reserved && !run.outlet.try_room(size) {
            drop((answers, batch, turn));
            if !run.outlet.room(size).await? {
                return Ok(Err(CommandError::NoRoomForReplies));
            }
            reserved = size;
            continue;
        }
        run.outlet.note_work(operations.len() * KEY_WORK + size);
        match commit(context, &batch, &watched).await {
            Ok(Applied::Done(_)) => {
                let counters = &context.thread.counters;
                for spec in queue.specs() {
                    counters.commands[spec.id as usize].add(1);
                }
                return Ok(write(run, Outcome::Done(answers)));
            }
            Ok(Applied::Contradicted { key }) if watched.contains_key(&key) => {
                return Ok(write(run, Outcome::Lost));
            }
            Ok(Applied::Contradicted { .. }) => attempts += 1,
            Err(error) => return Ok(Err(error)),
        }
        if attempts == ATTEMPTS_MAX {
            return Ok(Err(CommandError::TransactionLost));
        }
        run.outlet.take_turn().await;
    }
}

/// Applies the batch of a transaction. A batch that only expects one key, as it was read a moment ago, is done without
/// the store. A watched key may have changed before `EXEC`, so the store is asked about it.
async fn commit(
    context: &Context,
    batch: &Batch,
    watched: &Watched,
) -> Result<Applied, CommandError> {
    let is_one_read = batch.len() == 1 && batch.changed().next().is_none() && watched.is_empty();
    match batch.is_empty() || is_one_read {
        true => Ok(Applied::Done(0..0)),
        false => context.store.apply(batch).await,
    }
}

fn write(run: &mut Run<'_, '_>, outcome: Outcome<'_>) -> Result<(), CommandError> {
    match outcome {
        Outcome::Lost => run.writer().null_array(),
        Outcome::Done(answers) => {
            run.writer().array(answers.len());
            for answer in answers {
                match answer {
                    Answer::One(reply) => run.reply(&reply),
                    Answer::Many(replies) => {
                        run.writer().array(replies.len());
                        replies.iter().for_each(|reply| run.reply(reply));
                    }
                }
            }
        }
    }
    Ok(())
}

/// Reads the keys of a transaction, and applies its commands to them. `None`: a watched key has another version.
async fn prepare<'a>(
    context: &Context,
    operations: &[Operation<'a>],
    watched: &Watched,
) -> Result<Option<(Vec<Answer<'a>>, Batch)>, CommandError> {
    let mut slots = read_all(context, operations).await?;
    let is_current = |(key, slot): (&&[u8], &Slot<'_>)| match (slot.base, watched.get(*key)) {
        (Some(read), Some(watched)) => read == *watched,
        _ => true,
    };
    if !slots.iter().all(is_current) {
        return Ok(None);
    }
    let now_ms = match operations.iter().any(needs_time) {
        // All keys of a transaction that is done are of one shard, which has one time.
        true => {
            context
                .store
                .time_ms(slots.keys().next().copied().unwrap_or_default())
                .await?
        }
        false => 0,
    };
    let answers = operations.iter();
    let answers = answers.map(|it| apply(it, &mut slots, now_ms)).collect();
    Ok(Some((answers, batch_of(&slots, watched))))
}

/// The batch that leaves the keys in their states if they are as they were read, or watched.
fn batch_of(slots: &Slots<'_>, watched: &Watched) -> Batch {
    let mut batch = Batch::new();
    let expected = |version: Option<u64>| version.map_or(Expectation::Absent, Expectation::Version);
    for (key, version) in watched {
        batch.expect(key, expected(*version));
    }
    for (&key, Slot { state, base }) in slots {
        if let Some(base) = *base {
            batch.expect(key, expected(base));
        }
        match &state.value {
            _ if !state.is_changed => {}
            Some(value) => _ = batch.put_until(key, value, state.expires),
            None if *base == Some(None) => {}
            None => _ = batch.delete(key),
        }
    }
    batch
}

/// Reads the keys whose values the commands look at before they overwrite them.
async fn read_all<'a>(
    context: &Context,
    operations: &[Operation<'a>],
) -> Result<Slots<'a>, CommandError> {
    let mut slots = Slots::new();
    let mut wanted: Vec<&'a [u8]> = Vec::new();
    let mut note = |key: &'a [u8], is_read: bool| {
        if let btree_map::Entry::Vacant(vacant) = slots.entry(key) {
            let state = State::default();
            vacant.insert(Slot { state, base: None });
            wanted.extend(is_read.then_some(key));
        }
    };
    for operation in operations {
        match operation {
            Operation::Value { key, command } => note(key, !command.ignores_before()),
            Operation::GetMany(keys) | Operation::CountMany(keys) | Operation::DeleteMany(keys) => {
                keys.iter().for_each(|key| note(key, true))
            }
            Operation::SetMany(pairs) => keys_of(*pairs).for_each(|key| note(key, false)),
            Operation::SetManyIfAbsent(pairs) => keys_of(*pairs).for_each(|key| note(key, true)),
            Operation::Transfer(transfer) => {
                note(transfer.from, true);
                note(transfer.to, true);
            }
            Operation::Answer(_) | Operation::Control(_) => {}
        }
    }
    let (mut rest, mut size) = (&wanted[..], 0);
    let mut values = context.take_values();
    while !rest.is_empty() {
        let together = &rest[..rest.len().min(KEYS_TOGETHER)];
        let found = context
            .store
            .get_many(together, VALUE_IN_CHUNKS_ROOM, &mut values);
        let found = found.await?;
        for (index, &key) in together[..found].iter().enumerate() {
            let read = values.get(index);
            size += read.map_or(0, |(value, _)| value.len());
            let value = read.map(|(value, _)| Cow::Owned(value.to_vec()));
            let state = State {
                expires: values.expires(index),
                ..State::of(value)
            };
            let base = Some(read.map(|(_, version)| version));
            slots.insert(key, Slot { state, base });
        }
        if size > VALUES_MAX {
            return Err(CommandError::TransactionReadsTooMuch);
        }
        rest = &rest[found..];
    }
    context.give_values(values);
    Ok(slots)
}

/// Applies a command to the keys of its transaction.
fn apply<'a>(operation: &Operation<'a>, slots: &mut Slots<'a>, now_ms: u64) -> Answer<'a> {
    let mut on = |key: &'a [u8], command: ValueCommand<'a>| {
        let slot = slots.get_mut(key).expect("all keys have slots");
        slot.state.now_ms = now_ms;
        command.apply(&mut slot.state)
    };
    let is_one = |reply: &Reply<'_>| matches!(reply, Reply::Integer(1));
    Answer::One(match operation {
        Operation::Value { key, command } => on(key, *command),
        Operation::GetMany(keys) => {
            return Answer::Many(keys.iter().map(|key| on(key, ValueCommand::Get)).collect());
        }
        Operation::CountMany(keys) => {
            let found = keys.iter().map(|key| on(key, ValueCommand::Exists));
            Reply::Integer(found.filter(is_one).count() as i64)
        }
        Operation::DeleteMany(keys) => {
            let found = keys.iter().map(|key| on(key, ValueCommand::Delete));
            Reply::Integer(found.filter(is_one).count() as i64)
        }
        Operation::SetMany(pairs) => {
            pairs_of(*pairs).for_each(|(key, value)| _ = on(key, set(value)));
            Reply::Ok
        }
        Operation::SetManyIfAbsent(pairs) => {
            let mut found = keys_of(*pairs).map(|key| on(key, ValueCommand::Exists));
            match found.any(|reply| is_one(&reply)) {
                true => Reply::Integer(0),
                false => {
                    drop(found);
                    pairs_of(*pairs).for_each(|(key, value)| _ = on(key, set(value)));
                    Reply::Integer(1)
                }
            }
        }
        Operation::Answer(reply) => reply.clone(),
        Operation::Transfer(transfer) => apply_transfer(*transfer, slots),
        // A transaction has no other copies, and its writes are not there yet.
        Operation::Control(Control::Wait(_)) => Reply::Integer(0),
        Operation::Control(_) => Reply::Ok,
    })
}

/// Stores the `pairs` if none of the keys is there. Returns whether they were stored.
pub async fn set_many_if_absent(
    context: &Context,
    pairs: Arguments<'_>,
) -> Result<bool, CommandError> {
    let mut batch = Batch::new();
    for (key, value) in pairs_of(pairs) {
        batch.expect(key, Expectation::Absent).put(key, value);
    }
    let applied = context.store.apply(&batch).await?;
    Ok(matches!(applied, Applied::Done(_)))
}

/// Gives the value of a key to another key.
pub async fn transfer<'a>(
    context: &Context,
    transfer: Transfer<'a>,
) -> Result<Reply<'a>, CommandError> {
    let operations = [Operation::Transfer(transfer)];
    for _ in 0..ATTEMPTS_MAX {
        let _turn = context.transactions.take(1).await;
        let mut slots = read_all(context, &operations).await?;
        let reply = apply_transfer(transfer, &mut slots);
        let watched = Watched::default();
        let batch = batch_of(&slots, &watched);
        if let Applied::Done(_) = commit(context, &batch, &watched).await? {
            return Ok(reply);
        }
    }
    Err(CommandError::TransactionLost)
}

/// Applies a transfer to its two keys.
fn apply_transfer<'a>(transfer: Transfer<'a>, slots: &mut Slots<'a>) -> Reply<'a> {
    let missing = "all keys have slots";
    if transfer.is_onto_itself() {
        let slot = slots.get(transfer.from).expect(missing);
        return transfer.apply_onto_itself(&slot.state);
    }
    // The state is put back: a map lends one of its values at a time.
    let mut from = mem::take(&mut slots.get_mut(transfer.from).expect(missing).state);
    let to = slots.get_mut(transfer.to).expect(missing);
    let reply = transfer.apply(&mut from, &mut to.state);
    slots.get_mut(transfer.from).expect(missing).state = from;
    reply
}

/// Watches `keys`, in the versions that they have now.
pub async fn watch(run: &mut Run<'_, '_>, keys: Arguments<'_>) -> Result<(), CommandError> {
    if run.session.transaction.watched.len() + keys.len() > WATCHED_MAX {
        return Err(CommandError::TooManyWatched);
    }
    let keys: SmallVec<[&[u8]; 4]> = keys.iter().collect();
    let (mut rest, mut values) = (&keys[..], run.context.take_values());
    while !rest.is_empty() {
        let together = &rest[..rest.len().min(KEYS_TOGETHER)];
        let store = &run.context.store;
        let found = store
            .get_many(together, VALUE_IN_CHUNKS_ROOM, &mut values)
            .await?;
        for (index, key) in together[..found].iter().enumerate() {
            let version = values.get(index).map(|(_, version)| version);
            let watched = &mut run.session.transaction.watched;
            watched.entry(key.to_vec()).or_insert(version);
        }
        rest = &rest[found..];
    }
    run.context.give_values(values);
    run.writer().ok();
    Ok(())
}

fn set(value: &[u8]) -> ValueCommand<'_> {
    ValueCommand::Set {
        value,
        condition: SetCondition::Always,
        answer: SetAnswer::Done,
        expiry: NewExpiry::Never,
    }
}

fn pairs_of<'a>(pairs: Arguments<'a>) -> impl Iterator<Item = (&'a [u8], &'a [u8])> {
    (0..pairs.len() / 2).map(move |index| (pairs.at(2 * index), pairs.at(2 * index + 1)))
}

fn keys_of<'a>(pairs: Arguments<'a>) -> impl Iterator<Item = &'a [u8]> {
    pairs_of(pairs).map(|(key, _)| key)
}

fn needs_time(operation: &Operation<'_>) -> bool {
    matches!(operation, Operation::Value { command, .. } if command.needs_time())
}

impl Answer<'_> {
    /// Bytes of the values that the reply returns.
    fn size(&self) -> usize {
        match self {
            Self::One(reply) => reply.size(),
            Self::Many(replies) => replies.iter().map(|reply| reply.size() + 16).sum(),
        }
    }
}
