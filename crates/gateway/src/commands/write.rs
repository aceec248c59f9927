//! Writing: units of commands on one key, and commands on many keys.
//!
//! ```text
//!   SET                         put                            whatever was there
//!   anything else               read -> apply -> compare-and-put on the version that was read
//!                                 ^------- somebody else was faster -------'
//! ```
//!
//! The version is compared by the server at the moment of the write, so a unit is atomic against every other client, also
//! those that do not come through a gateway.

use std::collections::HashSet;

use smallvec::{SmallVec, smallvec};
use stonecast_store_direct::{Condition, Written};

use super::error::CommandError;
use super::operation::{Arguments, Operation};
use super::reply::Reply;
use super::store::Store;
use super::value::{Value, ValueCommand};
use crate::join::in_order;

/// Replies of a unit, in the order of its commands.
pub type Replies<'a> = SmallVec<[Reply<'a>; 1]>;

/// Does the operations of one unit: several on one key, or one on many keys.
pub async fn write_unit<'a>(store: &Store, unit: &[Operation<'a>]) -> Replies<'a> {
    match unit {
        [Operation::SetMany(pairs)] => smallvec![set_many(store, *pairs).await.unwrap_or_else(Reply::Error)],
        [Operation::DeleteMany(keys)] => smallvec![delete_many(store, *keys).await.unwrap_or_else(Reply::Error)],
        [Operation::Value { key, command: ValueCommand::Delete }] => {
            let deleted = store.delete(key, Condition::None).await;
            smallvec![deleted.map_or_else(Reply::Error, |written| Reply::Integer(written.is_some().into()))]
        }
        _ => {
            let result = write_value(store, unit).await;
            result.unwrap_or_else(|error| unit.iter().map(|_| Reply::Error(error.clone())).collect())
        }
    }
}

async fn write_value<'a>(store: &Store, unit: &[Operation<'a>]) -> Result<Replies<'a>, CommandError> {
    let [Operation::Value { key, command: first }, ..] = *unit else {
        unreachable!("a unit of several operations is on one key")
    };
    if first.is_blind() {
        let (replies, value, _) = apply(unit, None);
        match value {
            Some(bytes) => drop(store.put(key, &bytes, Condition::None).await?),
            None => drop(store.delete(key, Condition::None).await?),
        }
        return Ok(replies);
    }
    let _turn = store.turn(key).await;
    loop {
        let mut bytes = Vec::new();
        let version = store.get(key, &mut bytes).await?;
        let (replies, value, changed) = apply(unit, version.map(|_| bytes.into()));
        let done = match (value, version) {
            _ if !changed => true,
            (Some(bytes), version) => {
                let condition = version.map_or(Condition::Absent, Condition::Version);
                matches!(store.put(key, &bytes, condition).await?, Written::Done(_))
            }
            (None, Some(version)) => matches!(store.delete(key, Condition::Version(version)).await?, Some(Written::Done(_))),
            // Made and deleted again: nobody has seen it.
            (None, None) => true,
        };
        if done {
            return Ok(replies);
        }
    }
}

/// Applies the commands of a unit to a value: replies, the value after, whether it was written.
fn apply<'a>(unit: &[Operation<'a>], mut value: Value<'a>) -> (Replies<'a>, Value<'a>, bool) {
    let mut changed = false;
    let replies = unit.iter().map(|operation| {
        let Operation::Value { command, .. } = operation else { unreachable!("a unit of several operations is on one key") };
        command.apply(&mut value, &mut changed)
    });
    let replies = replies.collect();
    (replies, value, changed)
}

async fn set_many<'a>(store: &Store, pairs: Arguments<'a>) -> Result<Reply<'a>, CommandError> {
    let pair_count = pairs.len() / 2;
    let mut seen = HashSet::with_capacity(pair_count);
    // Of a key that is named twice the last value counts.
    let mut wanted: Vec<usize> = (0..pair_count).rev().filter(|&index| seen.insert(pairs.at(2 * index))).collect();
    wanted.reverse();
    let puts = wanted.iter().map(|&index| store.put(pairs.at(2 * index), pairs.at(2 * index + 1), Condition::None));
    let (done, failure) = count(puts, |_| true).await;
    match failure {
        None => Ok(Reply::Ok),
        Some(error) => Err(error.in_part(done, wanted.len())),
    }
}

async fn delete_many<'a>(store: &Store, keys: Arguments<'a>) -> Result<Reply<'a>, CommandError> {
    let deletes = keys.iter().map(|key| store.delete(key, Condition::None));
    let (done, failure) = count(deletes, |written| written.is_some()).await;
    match failure {
        None => Ok(Reply::Integer(done as i64)),
        Some(error) => Err(error.in_part(done, keys.len())),
    }
}

/// Runs writes together: how many `had_effect`, and the first failure.
async fn count<T>(
    writes: impl Iterator<Item = impl Future<Output = Result<T, CommandError>>>,
    had_effect: impl Fn(T) -> bool,
) -> (usize, Option<CommandError>) {
    let (mut done, mut failure) = (0, None);
    in_order(writes, |result| match result {
        Ok(written) => done += usize::from(had_effect(written)),
        Err(error) => {
            failure.get_or_insert(error);
        }
    })
    .await;
    (done, failure)
}
