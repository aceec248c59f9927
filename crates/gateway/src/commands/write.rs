//! Writing: units of commands on one key, and commands on many keys.
//!
//! ```text
//!   SET                         put                            whatever was there
//!   anything else               read -> apply -> compare-and-put on the version that was read     combine.rs
//!                                 ^------- another client was faster -------'
//! ```
//!
//! A key that comes again and again in a step is overwritten by several puts that are under way together. The store does them
//! in their order, but for one that it sends back because it has no room at the moment: done again later, that one would undo
//! the puts after it. So it is not done again; it counts as done when the next put of its key is, which overwrote it at once.
//!
//! The version is compared by the server at the moment of the write, so a unit is atomic against every other client, also
//! those that do not come through a gateway.

use std::cell::Cell;
use std::collections::{HashMap, HashSet};

use smallvec::{SmallVec, smallvec};
use stonecast_kv::Condition;

use super::combine;
use super::error::CommandError;
use super::operation::{Arguments, Operation};
use super::reply::Reply;
use super::store::Store;
use super::value::{Value, ValueCommand};
use crate::counters::Lookups;
use crate::join::in_order;

/// Replies of a unit, in the order of its commands.
pub type Replies<'a> = SmallVec<[Reply<'a>; 1]>;

/// What became of a unit whose key may come again in its step.
#[derive(Default)]
pub struct Overwritten<'a> {
    /// As if it was done.
    pub replies: Replies<'a>,
    /// It was not done: it fares as the next unit of its key.
    pub is_left_to_next: bool,
}

/// For each unit of a step the place of the next one on the same key.
pub fn next_of_same_key(units: &[&[Operation<'_>]]) -> Vec<Option<usize>> {
    let mut latest = HashMap::with_capacity(units.len());
    let mut next = vec![None; units.len()];
    for (index, unit) in units.iter().enumerate().rev() {
        if let [Operation::Value { key, .. }, ..] = **unit {
            next[index] = latest.insert(key, index);
        }
    }
    next
}

/// Does a unit that only overwrites its key, and that another one of the same step follows.
pub async fn overwrite<'a>(store: &Store, unit: &[Operation<'a>]) -> Overwritten<'a> {
    let [Operation::Value { key, .. }, ..] = *unit else {
        unreachable!("a unit that overwrites is on one key")
    };
    let (replies, value, _) = apply(unit, None, &Cell::default());
    let bytes = value.expect("a unit that overwrites leaves a value");
    match store.put_at_once(key, &bytes).await {
        Ok(is_done) => Overwritten {
            replies,
            is_left_to_next: !is_done,
        },
        Err(error) => Overwritten {
            replies: failed(unit, &error),
            is_left_to_next: false,
        },
    }
}

/// Lets the units that were left to the next one of their key fare as that one did.
pub fn settle<'a>(
    units: &[&[Operation<'a>]],
    next: &[Option<usize>],
    outcomes: &mut [Overwritten<'a>],
) {
    for index in (0..outcomes.len()).rev() {
        if let Some(next) = next[index]
            && outcomes[index].is_left_to_next
            && let Some(Reply::Error(error)) = outcomes[next].replies.first()
        {
            outcomes[index].replies = failed(units[index], error);
        }
    }
}

fn failed<'a>(unit: &[Operation<'a>], error: &CommandError) -> Replies<'a> {
    unit.iter().map(|_| Reply::Error(error.clone())).collect()
}

/// Does the operations of one unit: several on one key, or one on many keys.
pub async fn write_unit<'a>(store: &Store, unit: &[Operation<'a>]) -> Replies<'a> {
    match unit {
        [Operation::SetMany(pairs)] => {
            smallvec![set_many(store, *pairs).await.unwrap_or_else(Reply::Error)]
        }
        [Operation::DeleteMany(keys)] => {
            smallvec![delete_many(store, *keys).await.unwrap_or_else(Reply::Error)]
        }
        [
            Operation::Value {
                key,
                command: ValueCommand::Delete,
            },
        ] => {
            let deleted = store.delete(key, Condition::None).await;
            smallvec![deleted.map_or_else(Reply::Error, |written| Reply::Integer(
                written.is_some().into()
            ))]
        }
        _ => {
            let result = write_value(store, unit).await;
            result.unwrap_or_else(|error| failed(unit, &error))
        }
    }
}

async fn write_value<'a>(
    store: &Store,
    unit: &[Operation<'a>],
) -> Result<Replies<'a>, CommandError> {
    let [
        Operation::Value {
            key,
            command: first,
        },
        ..,
    ] = *unit
    else {
        unreachable!("a unit of several operations is on one key")
    };
    let lookups = Cell::default();
    if first.is_blind() {
        let (replies, value, _) = apply(unit, None, &lookups);
        match value {
            Some(bytes) => drop(store.put(key, &bytes, Condition::None).await?),
            None => drop(store.delete(key, Condition::None).await?),
        }
        store.count_lookups(lookups.get());
        return Ok(replies);
    }
    let replies = combine::write(store, key, |value| apply(unit, value, &lookups)).await?;
    store.count_lookups(lookups.get());
    Ok(replies)
}

/// Applies the commands of a unit to a value: replies, the value after, whether it was written. `lookups` becomes what they
/// looked up for their replies.
fn apply<'a>(
    unit: &[Operation<'a>],
    mut value: Value<'a>,
    lookups: &Cell<Lookups>,
) -> (Replies<'a>, Value<'a>, bool) {
    let mut changed = false;
    let mut found = Lookups::default();
    let replies = unit.iter().map(|operation| {
        let Operation::Value { command, .. } = operation else {
            unreachable!("a unit of several operations is on one key")
        };
        if command.looks_up() {
            found.note(value.is_some());
        }
        command.apply(&mut value, &mut changed)
    });
    let replies = replies.collect();
    lookups.set(found);
    (replies, value, changed)
}

async fn set_many<'a>(store: &Store, pairs: Arguments<'a>) -> Result<Reply<'a>, CommandError> {
    let pair_count = pairs.len() / 2;
    let mut seen = HashSet::with_capacity(pair_count);
    // Of a key that is named twice the last value counts.
    let mut wanted: Vec<usize> = (0..pair_count)
        .rev()
        .filter(|&index| seen.insert(pairs.at(2 * index)))
        .collect();
    wanted.reverse();
    let puts = wanted.iter().map(|&index| {
        store.put(
            pairs.at(2 * index),
            pairs.at(2 * index + 1),
            Condition::None,
        )
    });
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

#[cfg(test)]
mod tests {
    use super::*;

    /// The units of SETs on these keys, each a unit.
    fn with_sets(keys: &[&'static [u8]], check: impl FnOnce(&[&[Operation<'static>]])) {
        let input: Vec<u8> = keys
            .iter()
            .flat_map(|key| [b"SET", *key, b"1"].concat())
            .collect();
        let input: &'static [u8] = input.leak();
        let mut start = 0;
        let places = keys.iter().map(|key| {
            let ends = [0, 3, 3 + key.len(), 4 + key.len()].map(|end| start + end as u32);
            start = ends[3];
            vec![ends[0]..ends[1], ends[1]..ends[2], ends[2]..ends[3]]
        });
        let places: Vec<_> = places.collect();
        let operations: Vec<_> = places
            .leak()
            .iter()
            .map(|places| Operation::read(Arguments::new(input, places)).1)
            .collect();
        let units: Vec<&[Operation<'static>]> = operations.chunks(1).collect();
        check(&units);
    }

    #[test]
    fn each_unit_knows_the_next_one_of_its_key() {
        with_sets(&[b"a", b"b", b"a", b"c", b"a"], |units| {
            assert_eq!(
                next_of_same_key(units),
                [Some(2), None, Some(4), None, None]
            );
        });
    }

    /// Needs the way from the end to the start: a put that is left to one that is itself left to another fares as the last.
    #[test]
    fn what_was_left_to_the_next_put_fares_as_that_one() {
        let outcome = |error: Option<CommandError>, is_left_to_next| Overwritten {
            replies: smallvec![error.map_or(Reply::Ok, Reply::Error)],
            is_left_to_next,
        };
        with_sets(&[b"a", b"b", b"a", b"a", b"b"], |units| {
            let next = next_of_same_key(units);
            let settled = |last_of_a: Option<CommandError>| {
                let mut outcomes = [
                    outcome(None, true),
                    outcome(None, false),
                    outcome(None, true),
                    outcome(last_of_a, false),
                    outcome(None, false),
                ];
                settle(units, &next, &mut outcomes);
                outcomes.map(|outcome| outcome.replies[0].to_string())
            };
            assert_eq!(settled(None), ["OK"; 5]);
            let refused = "ERR no room";
            assert_eq!(
                settled(Some(CommandError::Refused("no room"))),
                [refused, "OK", refused, refused, "OK"]
            );
        });
    }
}
