//! Batches of the run's clients: one operation on several keys.
//!
//! ```text
//!   history     key 3: put value 7    key 5: delete    key 1: put value 8      one operation for each key,
//!                   rank 0                rank 1           rank 2              called and answered together
//!   evidence    somebody saw value 8 at version 42: the batch was done, with the versions 40, 41 and 42
//! ```
//!
//! The history has a part for each key, and is judged key by key. The parts of a batch belong together: if one answer
//! shows that a batch was done, all of its parts were, each with its version. The judgement of the history adds these
//! answers first ([`complete`]), so that a batch counts on all keys or on none. A batch is done before its server dies,
//! like every operation.

use std::collections::HashMap;

use rand::RngExt as _;
use stonecast_base::Random;
use stonecast_kv::{Applied, Batch, Client, Expectation, Expiry};

use crate::history::OperationId;
use crate::kv::client::{Work, judge_error};
use crate::kv::contents::Contents;
use crate::models::register::{Answer, Call, Expected, History};
use crate::values::{VALUE_SIZE_MIN, ValueId, encode};
use crate::violation::Violation;

/// The largest number of keys in a batch.
const KEYS_MAX: u32 = 4;
/// The longest value in a batch: the records of a batch fit into one segment.
const VALUE_SIZE_MAX: usize = 3000;
/// Percentage of batches that expect something of their first key.
const EXPECTING_PERCENT: u32 = 30;

const WHOLE: &str = "a batch is done on all of its keys or on none";

/// The operations of a batch, in the order of the versions of its changes.
pub(crate) type Bundle = Vec<OperationId>;

/// Applies a random batch. `versions` has the versions that the client knows. `false`: the connection is over.
pub(crate) async fn apply(
    work: &Work,
    client: &Client,
    number: u32,
    random: &mut Random,
    versions: &mut HashMap<u32, u64>,
) -> bool {
    let setup = &work.setup;
    let fresh = || work.fresh_value();
    let key_of = |random: &mut Random| random.random_range(0..setup.keys);
    let changes = pick(random, (setup.deletes_percent, fresh), key_of, versions);
    let longest = setup.value_size_max;
    let batch = batch_of(&work.keys, &changes, (random, longest), |_| None);
    let call = |&(key, call): &(u32, Call)| work.call(number, key, call);
    let bundle: Bundle = changes.iter().map(call).collect();
    changes.iter().for_each(|(key, _)| _ = versions.remove(key));
    work.batches.borrow_mut().push(bundle.clone());
    let (answers, goes_on) = match client.apply(&batch).await {
        Ok(applied) => {
            let note = |violation| work.note(violation);
            (told(&work.keys, &changes, applied, note), true)
        }
        Err(error) => {
            let (answer, goes_on) = judge_error(work, &error);
            (vec![answer; changes.len()], goes_on)
        }
    };
    for ((&(key, _), id), answer) in changes.iter().zip(bundle).zip(answers) {
        if let Some(Answer::Stored(version)) = answer {
            versions.insert(key, version);
        }
        work.answer(id, answer);
    }
    goes_on
}

/// Draws the changes of a batch, of different keys: each key from `key_of`, and each value from `fresh_value`.
pub(crate) fn pick(
    random: &mut Random,
    (deletes_percent, fresh_value): (u32, impl Fn() -> ValueId),
    mut key_of: impl FnMut(&mut Random) -> u32,
    versions: &HashMap<u32, u64>,
) -> Vec<(u32, Call)> {
    let mut changes: Vec<(u32, Call)> = Vec::new();
    for _ in 0..random.random_range(2..=KEYS_MAX) {
        let key = key_of(random);
        if changes.iter().any(|(other, _)| *other == key) {
            continue;
        }
        let expects = changes.is_empty() && random.random_range(0..100) < EXPECTING_PERCENT;
        let call = if expects {
            let version = versions.get(&key).copied();
            let expected = version.map_or(Expected::Absent, Expected::Version);
            Call::PutIf(fresh_value(), expected)
        } else if random.random_range(0..100) < deletes_percent {
            Call::Delete
        } else {
            Call::Put(fresh_value())
        };
        changes.push((key, call));
    }
    changes
}

/// The batch of `changes` of these keys. Values have at most so many bytes, and the moments that `expires` gives.
pub(crate) fn batch_of(
    keys: &[Vec<u8>],
    changes: &[(u32, Call)],
    (random, longest): (&mut Random, usize),
    expires: impl Fn(ValueId) -> Option<Expiry>,
) -> Batch {
    let (mut batch, mut bytes) = (Batch::new(), Vec::new());
    for &(key, call) in changes {
        let name = &keys[key as usize];
        if let Call::PutIf(_, expected) = call {
            batch.expect(
                name,
                match expected {
                    Expected::Absent => Expectation::Absent,
                    Expected::Version(version) => Expectation::Version(version),
                },
            );
        }
        match call.value() {
            Some(value) => {
                let longest = longest.clamp(VALUE_SIZE_MIN, VALUE_SIZE_MAX);
                let size = random.random_range(VALUE_SIZE_MIN..=longest);
                encode(value, size, &mut bytes);
                batch.put_until(name, &bytes, expires(value));
            }
            None => _ = batch.delete(name),
        }
    }
    batch
}

/// The answers to the operations of a batch. `note` takes what a store must not answer.
pub(crate) fn told(
    keys: &[Vec<u8>],
    changes: &[(u32, Call)],
    applied: Applied,
    note: impl Fn(Violation),
) -> Vec<Option<Answer>> {
    match applied {
        Applied::Done(versions) => {
            if versions.end - versions.start != changes.len() as u64 {
                let found = format!("{} changes have the versions {versions:?}", changes.len());
                note(Violation::new(WHOLE, found));
            }
            let changes = changes.iter().zip(versions);
            changes
                .map(|((_, call), version)| Some(done(*call, version)))
                .collect()
        }
        Applied::Contradicted { key } => {
            let answer = |(name, call): &(u32, Call)| {
                let is_named = keys[*name as usize] == key;
                if is_named && !matches!(call, Call::PutIf(..)) {
                    let found =
                        format!("key {name} contradicts a batch that expects nothing of it");
                    note(Violation::new(WHOLE, found));
                }
                // The batch does not return the version that made it fail.
                Some(match is_named {
                    true => Answer::Conflict(None),
                    false => Answer::Refused,
                })
            };
            changes.iter().map(answer).collect()
        }
    }
}

/// The answer to a change that a batch has done at `version`.
fn done(call: Call, version: u64) -> Answer {
    match call.value() {
        Some(_) => Answer::Stored(version),
        None => Answer::Cleared,
    }
}

/// The batch and the rank of each value that a batch puts.
fn places(history: &History, batches: &[Bundle]) -> HashMap<ValueId, (usize, u64)> {
    let mut places = HashMap::new();
    for (number, bundle) in batches.iter().enumerate() {
        for (rank, &id) in (0..).zip(bundle) {
            if let Some(value) = history.operation(id).call.value() {
                places.insert(value, (number, rank));
            }
        }
    }
    places
}

/// Adds the answers that others prove: a read value of a batch proves that the whole batch was done.
pub(crate) fn complete(history: &History, batches: &[Bundle]) -> History {
    let (places, mut complete) = (places(history, batches), history.clone());
    let operations = history.operations().iter();
    let seen = operations.filter_map(|operation| match operation.answer {
        Some(Answer::Got(Some((value, version)))) => Some((*places.get(&value)?, version)),
        _ => None,
    });
    for ((number, rank), version) in seen {
        for (other, &id) in (0..).zip(&batches[number]) {
            let operation = history.operation(id);
            if operation.answer.is_none() {
                complete.learn(id, done(operation.call, version + other - rank));
            }
        }
    }
    complete
}

/// Judges the content after a crash: of a batch that has left a value, no other key may have an older content.
pub(crate) fn judge(
    history: &History,
    batches: &[Bundle],
    contents: &Contents,
) -> Result<(), Violation> {
    let places = places(history, batches);
    for (value, version) in contents.keys.iter().flatten() {
        let Some(&(number, rank)) = places.get(value) else {
            continue;
        };
        for (other, &id) in (0..).zip(&batches[number]) {
            let change = history.operation(id);
            let least = version + other - rank;
            let is_there = match (contents.keys[change.part as usize], change.call.value()) {
                (Some((_, found)), Some(_)) => found >= least,
                (Some((_, found)), None) => found > least,
                (None, None) => true,
                (None, Some(_)) => may_be_deleted_after(history, id),
            };
            if !is_there {
                let key = change.part;
                let found = contents.keys[key as usize];
                let found = crate::values::describe(found);
                let text = format!(
                    "{value} at version {version} is that of a batch, whose change of key {key} has version {least}; the key has {found}"
                );
                return Err(Violation::new(WHOLE, text));
            }
        }
    }
    Ok(())
}

/// Whether the value that operation `id` puts may have been deleted after it.
fn may_be_deleted_after(history: &History, id: OperationId) -> bool {
    let put = history.operation(id);
    history.of_part(put.part).any(|operation| {
        operation.call == Call::Delete
            && operation.answer != Some(Answer::Refused)
            && operation.answered > put.called
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put(value: u32) -> Call {
        Call::Put(ValueId(value))
    }

    fn contents(keys: &[Option<(u32, u64)>]) -> Contents {
        let found = keys.iter();
        let found = found.map(|key| key.map(|(value, version)| (ValueId(value), version)));
        Contents {
            keys: found.collect(),
            torn_tails: 0,
        }
    }

    /// A history of three keys with values 1, 2 and 3, and a batch that puts values 4 and 5 and deletes the third.
    fn history(answer: impl Fn(Call) -> Option<Answer>) -> (History, Vec<Bundle>) {
        let mut history = History::new(3);
        for (key, value) in [(0, 1), (1, 2), (2, 3)] {
            let id = history.call(0, Some(0), key, put(value));
            history.answer(id, Some(Answer::Stored(u64::from(value))));
        }
        let calls = [(0, put(4)), (1, put(5)), (2, Call::Delete)];
        let batch = calls.map(|(key, call)| history.call(0, Some(0), key, call));
        history.crash(0);
        for ((_, call), id) in calls.into_iter().zip(batch) {
            history.answer(id, answer(call));
        }
        (history, vec![batch.to_vec()])
    }

    #[test]
    fn a_batch_of_unknown_outcome_has_left_everything_or_nothing() {
        let (history, batches) = history(|_| None);
        let judge = |keys| judge(&history, &batches, &contents(keys)).is_ok();
        assert!(judge(&[Some((1, 1)), Some((2, 2)), Some((3, 3))]));
        assert!(judge(&[Some((4, 4)), Some((5, 5)), None]));
        assert!(judge(&[Some((4, 7)), Some((6, 9)), None]));
        assert!(!judge(&[Some((4, 4)), Some((2, 2)), None]));
        assert!(!judge(&[Some((4, 4)), None, None]));
        assert!(!judge(&[Some((4, 4)), Some((5, 5)), Some((3, 3))]));
    }

    /// Needs the answers that other answers prove: each key alone has an order that explains its answers.
    #[test]
    fn a_read_of_one_key_proves_the_batch_for_the_reads_of_all() {
        let (mut history, batches) = history(|_| None);
        for (key, value) in [(0, 4), (1, 2)] {
            let id = history.call(1, Some(0), key, Call::Get);
            let version = u64::from(value);
            history.answer(id, Some(Answer::Got(Some((ValueId(value), version)))));
        }
        let judge = crate::kv::judge_history;
        assert!(judge(&history).is_none());
        let found = judge(&complete(&history, &batches)).expect("the second read is too old");
        assert!(found.found.contains("key 1"), "{}", found.found);
    }
}
