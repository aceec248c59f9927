//! A register with versions and conditional writes: one key of a store.
//!
//! Versions grow with each write of a key, so the versions in answers fix the order of those writes. That order is a
//! promise in itself, and keeps the search short: versions are the ranks of writes. All values that no answer mentions
//! are one value to the search, since they are indistinguishable.

use std::collections::HashMap;

use smallvec::SmallVec;

use crate::history::{self, NEVER};
use crate::linearizability::{self, Step, Verdict};
use crate::model::Model;
use crate::values::ValueId;

/// Operations of registers.
pub type Operation = history::Operation<Call, Answer>;
/// A history of registers; each key is a part.
pub type History = history::History<Call, Answer>;

/// The condition of a write on the present value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expected {
    /// The key is absent.
    Absent,
    /// The value has this version.
    Version(u64),
}

/// The call of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Call {
    /// Reads the value.
    Get,
    /// Stores a value.
    Put(ValueId),
    /// Stores a value if the present one is as expected.
    PutIf(ValueId, Expected),
    /// Removes the value.
    Delete,
}

/// The answer to a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// A value and its version; `None`: the key is absent.
    Got(Option<(ValueId, u64)>),
    /// A value, whose version is not told; [`ValueId::ABSENT`]: the key is absent.
    Saw(ValueId),
    /// Stored, with this version.
    Stored(u64),
    /// Stored, with a version that is not told.
    Wrote,
    /// Not stored, because the condition did not hold for the present version; `None`: the key is absent, or the
    /// version is not told.
    Conflict(Option<u64>),
    /// Whether there was a value to remove.
    Removed(bool),
    /// The key is absent now, whether or not there was a value to remove.
    Cleared,
    /// Nothing was done.
    Refused,
}

impl Call {
    /// The value that the call stores.
    pub fn value(self) -> Option<ValueId> {
        match self {
            Self::Put(value) | Self::PutIf(value, _) => Some(value),
            Self::Get | Self::Delete => None,
        }
    }
}

/// Stands for every value that may have been written and that no answer mentions.
const UNTOLD: ValueId = ValueId(u32::MAX);

/// The effect of an operation on the value of its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Action {
    /// The operation read this value.
    Read(ValueId),
    /// The operation found another value than the wanted one.
    Refuse(Wanted),
    Write(ValueId),
    Swap(Wanted, ValueId),
    Remove,
    RemoveNothing,
    Clear,
}

/// The condition of a write, in terms of values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wanted {
    Value(ValueId),
    /// A version that no answer connects with a value: some unknown value.
    Unknown,
}

impl Wanted {
    fn holds(self, value: ValueId) -> bool {
        match self {
            Self::Value(wanted) => value == wanted,
            Self::Unknown => false,
        }
    }
}

/// A register without versions, in terms of actions, which contain the answers.
struct Register;

impl Model for Register {
    type State = ValueId;
    type Call = Action;
    type Answer = ();

    fn start(&self) -> ValueId {
        ValueId::ABSENT
    }

    fn apply(&self, value: &ValueId, action: &Action, _: Option<&()>) -> Option<ValueId> {
        let value = *value;
        match *action {
            Action::Read(read) => (value == read).then_some(value),
            Action::Refuse(wanted) => (!wanted.holds(value)).then_some(value),
            Action::Write(new) => Some(new),
            Action::Swap(wanted, new) => wanted.holds(value).then_some(new),
            Action::Remove => (value != ValueId::ABSENT).then_some(ValueId::ABSENT),
            Action::RemoveNothing => (value == ValueId::ABSENT).then_some(value),
            Action::Clear => Some(ValueId::ABSENT),
        }
    }

    fn changes(&self, action: &Action, _: Option<&()>) -> bool {
        matches!(
            action,
            Action::Write(_) | Action::Swap(..) | Action::Remove | Action::Clear
        )
    }
}

/// Checks the operations on one key that was absent at first, in the order of their calls. `finally` is the value of
/// the key after all operations, if it was read. Visits at most `states_max` states.
pub fn check<'a>(
    operations: impl Iterator<Item = &'a Operation> + Clone,
    finally: Option<ValueId>,
    states_max: usize,
) -> Verdict {
    let told = match Told::of(operations.clone()) {
        Ok(told) => told,
        Err(stuck) => {
            return Verdict::NotLinearizable {
                explained: 0,
                stuck: Some(stuck),
            };
        }
    };
    let steps = operations.enumerate();
    let mut steps: Vec<_> = steps
        .filter_map(|(number, operation)| told.step(number, operation, finally))
        .collect();
    if let Some(value) = finally {
        // A read after everything, with an answer that is never too late.
        steps.push(Step {
            called: linearizability::after_all(&steps),
            answered: NEVER,
            call: Action::Read(value),
            answer: Some(()),
            rank: None,
            number: None,
        });
    }
    linearizability::check_steps(&Register, steps, states_max)
}

/// The facts that follow from all answers together.
struct Told {
    /// The value of each version.
    versions: HashMap<u64, ValueId>,
    /// The versions of each value that an answer mentions.
    made: HashMap<ValueId, SmallVec<[u64; 1]>>,
    /// Number of calls that write each value.
    calls: HashMap<ValueId, usize>,
}

impl Told {
    /// Collects the facts of all answers. An error is the number of the first operation whose answer contradicts
    /// earlier ones: a version of two values, or a value with more versions than calls.
    fn of<'a>(operations: impl Iterator<Item = &'a Operation> + Clone) -> Result<Self, usize> {
        let mut told = Self {
            versions: HashMap::new(),
            made: HashMap::new(),
            calls: HashMap::new(),
        };
        for value in operations
            .clone()
            .filter_map(|operation| operation.call.value())
        {
            *told.calls.entry(value).or_default() += 1;
        }
        for (number, operation) in operations.enumerate() {
            let (value, version) = match (operation.call.value(), operation.answer) {
                (_, Some(Answer::Got(Some(got)))) => got,
                (Some(value), Some(Answer::Stored(version))) => (value, version),
                (_, Some(Answer::Saw(value))) => {
                    told.made.entry(value).or_default();
                    continue;
                }
                _ => continue,
            };
            let before = told.versions.insert(version, value);
            let known = told.made.entry(value).or_default();
            if !known.contains(&version) {
                known.push(version);
            }
            // A write of unknown outcome may be repeated. Its value then has at most one version for each call.
            let calls = told.calls.get(&value).copied().unwrap_or(0);
            if before.is_some_and(|before| before != value) || known.len() > calls.max(1) {
                return Err(number);
            }
        }
        Ok(told)
    }

    /// An operation as the search sees it; `None`: the operation has no visible effect.
    fn step(
        &self,
        number: usize,
        operation: &Operation,
        finally: Option<ValueId>,
    ) -> Option<Step<Action, ()>> {
        let mut action = self.action(operation)?;
        let rank = match (action, operation.answer) {
            (Action::Write(_) | Action::Swap(..), Some(Answer::Stored(version))) => Some(version),
            // A version that was read may come from any of several calls.
            (Action::Write(value) | Action::Swap(_, value), _) if self.calls[&value] == 1 => {
                self.made.get(&value).and_then(|made| made.first().copied())
            }
            _ => None,
        };
        if let Action::Write(value) | Action::Swap(_, value) = &mut action
            && !self.made.contains_key(value)
            && finally != Some(*value)
        {
            *value = UNTOLD;
        }
        Some(Step {
            called: operation.called,
            answered: operation.answered,
            call: action,
            answer: operation.answer.map(|_| ()),
            rank,
            number: Some(number),
        })
    }

    /// The effect of an operation; `None`: no visible effect.
    fn action(&self, operation: &Operation) -> Option<Action> {
        let wanted = |expected| match expected {
            Expected::Absent => Wanted::Value(ValueId::ABSENT),
            Expected::Version(version) => self
                .versions
                .get(&version)
                .map_or(Wanted::Unknown, |&value| Wanted::Value(value)),
        };
        Some(match (operation.call, operation.answer) {
            (_, Some(Answer::Refused)) | (Call::Get, None) => return None,
            (Call::Get, Some(Answer::Got(found))) => {
                Action::Read(found.map_or(ValueId::ABSENT, |(value, _)| value))
            }
            (Call::Get, Some(Answer::Saw(value))) => Action::Read(value),
            (Call::Put(value), Some(Answer::Stored(_) | Answer::Wrote) | None) => {
                Action::Write(value)
            }
            (Call::PutIf(value, expected), Some(Answer::Stored(_) | Answer::Wrote) | None) => {
                Action::Swap(wanted(expected), value)
            }
            (Call::PutIf(_, expected), Some(Answer::Conflict(_))) => {
                Action::Refuse(wanted(expected))
            }
            (Call::Delete, Some(Answer::Removed(true)) | None) => Action::Remove,
            (Call::Delete, Some(Answer::Removed(false))) => Action::RemoveNothing,
            (Call::Delete, Some(Answer::Cleared)) => Action::Clear,
            (call, Some(answer)) => panic!("{answer:?} does not answer {call:?}"),
        })
    }
}

#[cfg(test)]
mod tests;
