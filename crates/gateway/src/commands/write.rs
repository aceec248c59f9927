//! Writes: units of commands on one key, and commands on many keys.
//!
//! ```text
//!   SET                         put                            over any old value
//!   anything else               read -> apply -> compare-and-put on the version that was read     combine.rs
//!                                 ^------- another client was faster -------'
//! ```
//!
//! If a key occurs several times in a step, the puts that overwrite the key are in flight together. The store executes
//! the puts in order, except for a put that it sends back because it has no room at the moment. Sent again later, such
//! a put would undo the puts after it. The put is therefore not sent again, and counts as done when the next put of its
//! key is done, which would have overwritten the value at once.
//!
//! The server compares the version at the moment of the write, so a unit is atomic with respect to every other client,
//! including clients that do not come through a gateway.

use std::cell::Cell;
use std::collections::{HashMap, HashSet};

use smallvec::smallvec;
use stonecast_kv::{Condition, PutRules, Written};

use super::combine::{self, Applied};
use super::context::Context;
use super::error::CommandError;
use super::exec;
use super::operation::{Arguments, Operation};
use super::reply::{Replies, Reply};
use super::step::values_returned;
use super::value::{State, ValueCommand};
use crate::counters::Lookups;
use crate::join::in_order;
use crate::reactor::Reactor;
use crate::sizes::KEY_WORK;

/// The number of keys of an MSET that are compared with each other before other connections have their turn: about a
/// millisecond.
const KEYS_A_TURN: usize = 8 << 10;

/// The outcome of a unit.
pub enum Outcome<'a> {
    /// The unit was done, or refused.
    Answered(Replies<'a>),
    /// The unit was not done and shares the outcome of the next unit of its key. The replies are those of a unit that
    /// was done.
    LeftToNext(Replies<'a>),
    /// Nothing was done, because there was no room for the unit's replies, which need this many bytes.
    NeedsRoom(usize),
}

/// Returns, for each unit of a step, the index of the next unit on the same key.
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

/// Runs a unit that only overwrites its key and is followed by another unit on that key in the same step.
pub async fn overwrite<'a>(context: &Context, unit: &[Operation<'a>]) -> Outcome<'a> {
    let [Operation::Value { key, .. }, ..] = *unit else {
        unreachable!("a unit that overwrites is on one key")
    };
    let (replies, state) = apply(unit, State::default(), &Cell::default());
    let bytes = state.value.expect("a unit that overwrites leaves a value");
    match context.store.put_at_once(key, &bytes).await {
        Ok(true) => Outcome::Answered(replies),
        Ok(false) => Outcome::LeftToNext(replies),
        Err(error) => Outcome::Answered(failed(unit, &error)),
    }
}

/// Gives each unit that was left to the next unit of its key the outcome of that unit.
pub fn settle<'a>(
    units: &[&[Operation<'a>]],
    next: &[Option<usize>],
    outcomes: &mut [Outcome<'a>],
) {
    for index in (0..outcomes.len()).rev() {
        if let Some(next) = next[index]
            && let Outcome::LeftToNext(_) = outcomes[index]
            && let Outcome::Answered(replies) = &outcomes[next]
            && let Some(Reply::Error(error)) = replies.first()
        {
            outcomes[index] = Outcome::Answered(failed(units[index], error));
        }
    }
}

/// The replies of a unit that had no effect.
pub fn failed<'a>(unit: &[Operation<'a>], error: &CommandError) -> Replies<'a> {
    unit.iter().map(|_| Reply::Error(error.clone())).collect()
}

/// Runs the operations of a unit: several operations on one key, or one operation on many keys. A reply that returns a
/// value may have `room` bytes.
pub async fn write_unit<'a>(context: &Context, unit: &[Operation<'a>], room: usize) -> Outcome<'a> {
    let result = match unit {
        [Operation::Answer(reply)] => Ok(Outcome::Answered(smallvec![reply.clone()])),
        [Operation::SetMany(pairs)] => set_many(context, *pairs).await.map(answered),
        [Operation::SetManyIfAbsent(pairs)] => {
            let stored = exec::set_many_if_absent(context, *pairs).await;
            stored.map(|stored| answered(Reply::Integer(stored.into())))
        }
        // On the heap: the command is rare, and its future is larger than that of a put.
        [Operation::Transfer(transfer)] => {
            let reply = Box::pin(exec::transfer(context, *transfer)).await;
            reply.map(answered)
        }
        [Operation::DeleteMany(keys)] => delete_many(context, *keys).await.map(answered),
        [
            Operation::Value {
                key,
                command: ValueCommand::Delete,
            },
        ] => {
            let deleted = context.store.delete(key, Condition::None).await;
            deleted.map(|written| answered(Reply::Integer(written.is_some().into())))
        }
        _ => write_value(context, unit, room * values_returned(unit)).await,
    };
    result.unwrap_or_else(|error| Outcome::Answered(failed(unit, &error)))
}

fn answered(reply: Reply<'_>) -> Outcome<'_> {
    Outcome::Answered(smallvec![reply])
}

async fn write_value<'a>(
    context: &Context,
    unit: &[Operation<'a>],
    room: usize,
) -> Result<Outcome<'a>, CommandError> {
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
    let (store, lookups, needed) = (&context.store, Cell::default(), Cell::new(0));
    let now_ms = match needs_time(unit) {
        true => store.time_ms(key).await?,
        false => 0,
    };
    let apply_within_room = |state: State<'a>| {
        let applied = apply(unit, State { now_ms, ..state }, &lookups);
        needed.set(applied.0.iter().map(Reply::size).sum());
        (needed.get() <= room).then_some(applied)
    };
    let replies = if !first.ignores_before() {
        combine::write(store, &context.turns, key, apply_within_room).await?
    } else if let Some((replies, state)) = apply_within_room(State::default()) {
        let rules = PutRules {
            condition: Condition::None,
            expires: state.expires,
        };
        match state.value {
            Some(bytes) => drop(store.put(key, &bytes, rules).await?),
            None => drop(store.delete(key, Condition::None).await?),
        }
        Some(replies)
    } else {
        None
    };
    let Some(replies) = replies else {
        return Ok(Outcome::NeedsRoom(needed.get()));
    };
    store.count_lookups(lookups.get());
    Ok(Outcome::Answered(replies))
}

fn needs_time(unit: &[Operation<'_>]) -> bool {
    let needs = |operation: &Operation<'_>| matches!(operation, Operation::Value { command, .. } if command.needs_time());
    unit.iter().any(needs)
}

/// Applies the commands of a unit to a key. Returns the replies, and the state after them. Sets `lookups` to the keys
/// that the commands looked up for their replies.
fn apply<'a>(unit: &[Operation<'a>], mut state: State<'a>, lookups: &Cell<Lookups>) -> Applied<'a> {
    let mut found = Lookups::default();
    let replies = unit.iter().map(|operation| {
        let Operation::Value { command, .. } = operation else {
            unreachable!("a unit of several operations is on one key")
        };
        if command.looks_up() {
            found.note(state.value.is_some());
        }
        command.apply(&mut state)
    });
    let replies = replies.collect();
    lookups.set(found);
    (replies, state)
}

async fn set_many<'a>(context: &Context, pairs: Arguments<'a>) -> Result<Reply<'a>, CommandError> {
    let wanted = last_of_each_key(&context.thread.reactor, pairs).await;
    let puts = wanted.iter().map(|&index| {
        context.store.put(
            pairs.at(2 * index),
            pairs.at(2 * index + 1),
            Condition::None,
        )
    });
    let (done, failure) = count(&context.thread.reactor, puts, |_| true).await;
    match failure {
        None => Ok(Reply::Ok),
        Some(error) => Err(error.in_part(done, wanted.len())),
    }
}

/// Returns the pairs to store: the last pair of each key. Other connections have their turn meanwhile.
async fn last_of_each_key(reactor: &Reactor, pairs: Arguments<'_>) -> Vec<usize> {
    let count = pairs.len() / 2;
    let mut seen = HashSet::with_capacity(count);
    let mut wanted = Vec::with_capacity(count);
    for index in (0..count).rev() {
        if seen.insert(pairs.at(2 * index)) {
            wanted.push(index);
        }
        if index % KEYS_A_TURN == KEYS_A_TURN - 1 {
            reactor.turn().await;
        }
    }
    wanted.reverse();
    wanted
}

async fn delete_many<'a>(
    context: &Context,
    keys: Arguments<'a>,
) -> Result<Reply<'a>, CommandError> {
    let deletes = keys
        .iter()
        .map(|key| context.store.delete(key, Condition::None));
    let was_there = |written: Option<Written>| written.is_some();
    let (done, failure) = count(&context.thread.reactor, deletes, was_there).await;
    match failure {
        None => Ok(Reply::Integer(done as i64)),
        Some(error) => Err(error.in_part(done, keys.len())),
    }
}

/// Runs writes together. Returns the number of writes for which `had_effect` is true, and the first failure. The
/// store's answers may come without a pause, so the thread looks at its sockets in between.
async fn count<T>(
    reactor: &Reactor,
    writes: impl Iterator<Item = impl Future<Output = Result<T, CommandError>>>,
    had_effect: impl Fn(T) -> bool,
) -> (usize, Option<CommandError>) {
    let (mut done, mut failure) = (0, None);
    in_order(writes, |result| {
        match result {
            Ok(written) => done += usize::from(had_effect(written)),
            Err(error) => {
                failure.get_or_insert(error);
            }
        }
        reactor.note_work(KEY_WORK);
        reactor.look_if_late();
    })
    .await;
    (done, failure)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sizes::{COMMAND_SIZE, WRITE_SIZE};

    /// Calls `check` with the units of SETs on these keys, one unit for each.
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
    fn each_unit_knows_the_next_unit_of_its_key() {
        with_sets(&[b"a", b"b", b"a", b"c", b"a"], |units| {
            assert_eq!(
                next_of_same_key(units),
                [Some(2), None, Some(4), None, None]
            );
        });
    }

    /// Needs the pass from the end to the start: a put may be left to a put that is itself left to a third one, and
    /// shares the outcome of the last.
    #[test]
    fn a_put_that_was_left_to_the_next_put_shares_its_outcome() {
        let outcome = |error: Option<CommandError>, is_left_to_next| {
            let replies = smallvec![error.map_or(Reply::Ok, Reply::Error)];
            match is_left_to_next {
                true => Outcome::LeftToNext(replies),
                false => Outcome::Answered(replies),
            }
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
                outcomes.map(|outcome| match outcome {
                    Outcome::Answered(replies) | Outcome::LeftToNext(replies) => {
                        replies[0].to_string()
                    }
                    Outcome::NeedsRoom(_) => unreachable!("none was made"),
                })
            };
            assert_eq!(settled(None), ["OK"; 5]);
            let refused = "ERR no room";
            assert_eq!(
                settled(Some(CommandError::Refused("no room"))),
                [refused, "OK", refused, refused, "OK"]
            );
        });
    }

    /// Needs the true sizes of the values that a batch holds: otherwise more memory would wait than is counted.
    #[test]
    fn the_reservations_for_a_command_and_a_write_are_enough() {
        fn size_of_future<'c, 'u, F: Future>(
            _: impl Fn(&'c Context, &'u [Operation<'static>], usize) -> F,
        ) -> usize {
            size_of::<F>()
        }
        let unit = size_of_future(|context, unit, room| write_unit(context, unit, room));
        let put = size_of_future(|context, _, _| context.store.put(b"", b"", Condition::None));
        let command = size_of::<Operation<'_>>() + size_of::<Outcome<'_>>();
        println!("{unit} and {put} bytes of futures, {command} bytes of a command");
        assert!(unit.max(put) <= WRITE_SIZE);
        assert!(command <= COMMAND_SIZE);
    }
}
