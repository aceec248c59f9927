//! Linearizability of the operations about one key: is there an order in which each took effect at one moment between its
//! call and its answer, and which explains all answers? (Herlihy and Wing 1990; the search is that of Wing and Gong 1993
//! with the memory of Lowe 2017.)
//!
//! Versions grow with each write of a key, so the versions in answers fix the order of those
//! writes. That is a promise in itself, and it keeps the search short.
//!
//! An operation without an answer may have taken effect or not. One that a crash cut off took
//! effect before the crash or never; that makes it *durable* linearizability (Izraelevitz et al.
//! 2016): an answered write, and a value that was read before a crash, is there after it.
//!
//! ```text
//!   search(done, value):
//!     take every read that may be next and fits the value      (safe: it changes nothing, and cuts nothing off)
//!     all answered operations done: yes
//!     for each other operation that may be next:  search(done + it, its value)
//!   never twice from the same (done, value)
//! ```
//!
//! Operations without an answer would make the search grow without bound, since each may be
//! omitted. So the search merges cases that cannot matter: all values that no answer mentions are
//! equal; of operations with the same effect, the one that was called first and is cut off first
//! goes first; and the search forgets whether an operation was done that is cut off by now.

use std::collections::{HashMap, HashSet};

use smallvec::SmallVec;

use crate::history::{Answer, Call, Expected, Moment, NEVER, Operation};
use crate::values::ValueId;

/// Stands for every value that may have been written and that no answer mentions.
const UNTOLD: ValueId = ValueId(u32::MAX);

/// The answers that no order explains.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotLinearizable {
    /// The largest number of answered operations, in the order of their calls, that some order
    /// explains.
    pub explained: usize,
    /// The first answered operation, in the order of their calls, that no order explains together with those before it.
    pub stuck: Option<Operation>,
}

/// The effect of an operation on the value of its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Action {
    /// The operation read this value.
    Read(ValueId),
    /// The operation found that the value is not as wanted.
    Refuse(Wanted),
    Write(ValueId),
    Swap(Wanted, ValueId),
    Remove,
    RemoveNothing,
}

/// The condition of a write, in terms of values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wanted {
    Value(ValueId),
    /// A version that no answer connects with a value: some unknown value.
    Unknown,
}

#[derive(Clone, Copy, Debug)]
struct Step {
    called: Moment,
    answered: Moment,
    action: Action,
    /// The version that it made, if an answer says it.
    version: Option<u64>,
    operation: Operation,
}

impl Action {
    /// The value afterwards; `None`: the operation cannot take effect on `value` with its answer.
    fn apply(self, value: ValueId) -> Option<ValueId> {
        let holds = |expected| match expected {
            Wanted::Value(wanted) => value == wanted,
            Wanted::Unknown => false,
        };
        match self {
            Self::Read(read) => (value == read).then_some(value),
            Self::Refuse(expected) => (!holds(expected)).then_some(value),
            Self::Write(new) => Some(new),
            Self::Swap(expected, new) => holds(expected).then_some(new),
            Self::Remove => (value != ValueId::ABSENT).then_some(ValueId::ABSENT),
            Self::RemoveNothing => (value == ValueId::ABSENT).then_some(value),
        }
    }

    fn changes(self) -> bool {
        matches!(self, Self::Write(_) | Self::Swap(..) | Self::Remove)
    }
}

/// Checks the operations about one key that was absent at first, in the order of their calls.
/// `finally` is the value of the key after all of them, if it was read.
pub fn check<'a>(
    operations: impl Iterator<Item = &'a Operation> + Clone,
    finally: Option<ValueId>,
) -> Result<(), NotLinearizable> {
    let mut versions = HashMap::new();
    let mut made: HashMap<ValueId, SmallVec<[u64; 1]>> = HashMap::new();
    // A write of unknown outcome may be repeated: then its value has at most one version for each
    // call.
    let mut calls: HashMap<ValueId, usize> = HashMap::new();
    for operation in operations.clone() {
        if let Call::Put(value) | Call::PutIf(value, _) = operation.call {
            *calls.entry(value).or_default() += 1;
        }
    }
    for operation in operations.clone() {
        let told = match (operation.call, operation.answer) {
            (_, Answer::Got(Some(told))) => told,
            (Call::Put(value) | Call::PutIf(value, _), Answer::Stored(version)) => (value, version),
            _ => continue,
        };
        let other = versions
            .insert(told.1, told.0)
            .is_some_and(|before| before != told.0);
        let known = made.entry(told.0).or_default();
        if !known.contains(&told.1) {
            known.push(told.1);
        }
        if other || known.len() > calls.get(&told.0).copied().unwrap_or(0).max(1) {
            return Err(NotLinearizable {
                explained: 0,
                stuck: Some(*operation),
            });
        }
    }
    let mut answered: Vec<Step> = Vec::new();
    let mut unanswered: Vec<Step> = Vec::new();
    for operation in operations {
        let Some(mut action) = action(operation, &versions) else {
            continue;
        };
        let version = match (action, operation.answer) {
            (Action::Write(_) | Action::Swap(..), Answer::Stored(version)) => Some(version),
            // It is unknown which of several calls made a version that was read.
            (Action::Write(value) | Action::Swap(_, value), _) if calls[&value] == 1 => made
                .get(&value)
                .and_then(|versions| versions.first().copied()),
            _ => None,
        };
        if let Action::Write(value) | Action::Swap(_, value) = &mut action
            && !made.contains_key(value)
            && finally != Some(*value)
        {
            *value = UNTOLD;
        }
        let step = Step {
            called: operation.called,
            answered: operation.answered,
            action,
            version,
            operation: *operation,
        };
        if operation.answer == Answer::Unknown {
            &mut unanswered
        } else {
            &mut answered
        }
        .push(step);
    }
    if let Some(value) = finally {
        // A read after everything: later than every call, with an answer that is never too late.
        let last = answered.iter().chain(&unanswered).map(|step| {
            step.called.max(if step.answered == NEVER {
                0
            } else {
                step.answered
            })
        });
        let called = last.max().unwrap_or(0) + 1;
        let answer = Answer::Got((value != ValueId::ABSENT).then_some((value, 0)));
        let operation = Operation {
            client: u32::MAX,
            key: 0,
            call: Call::Get,
            called,
            answer,
            answered: NEVER,
        };
        answered.push(Step {
            called,
            answered: NEVER,
            action: Action::Read(value),
            version: None,
            operation,
        });
    }
    Search {
        answered,
        unanswered,
        seen: HashSet::new(),
        explained: 0,
    }
    .run()
}

/// The effect of an operation; `None`: no visible effect.
fn action(operation: &Operation, versions: &HashMap<u64, ValueId>) -> Option<Action> {
    let expected = |expected| match expected {
        Expected::Absent => Wanted::Value(ValueId::ABSENT),
        Expected::Version(version) => versions
            .get(&version)
            .map_or(Wanted::Unknown, |&value| Wanted::Value(value)),
    };
    Some(match (operation.call, operation.answer) {
        (_, Answer::Refused) => return None,
        (Call::Get, Answer::Got(found)) => {
            Action::Read(found.map_or(ValueId::ABSENT, |(value, _)| value))
        }
        (Call::Put(value), Answer::Stored(_) | Answer::Unknown) => Action::Write(value),
        (Call::PutIf(value, condition), Answer::Stored(_) | Answer::Unknown) => {
            Action::Swap(expected(condition), value)
        }
        (Call::PutIf(_, condition), Answer::Conflict(_)) => Action::Refuse(expected(condition)),
        (Call::Delete, Answer::Removed(true) | Answer::Unknown) => Action::Remove,
        (Call::Delete, Answer::Removed(false)) => Action::RemoveNothing,
        (Call::Get, Answer::Unknown) => return None,
        (call, answer) => panic!("{answer:?} does not answer {call:?}"),
    })
}

/// The done operations of a window, one bit each. As wide as the longest operation needs.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Window(SmallVec<[u64; 4]>);

impl Window {
    fn new(width: usize) -> Self {
        Self(SmallVec::from_elem(0, width.div_ceil(64)))
    }

    fn has(&self, index: usize) -> bool {
        self.0[index / 64] >> (index % 64) & 1 == 1
    }

    fn add(&mut self, index: usize) {
        self.0[index / 64] |= 1 << (index % 64);
    }

    /// Advances past the done operations at the start. Returns their number.
    fn advance(&mut self) -> usize {
        let words = self.0.len();
        let full = self.0.iter().take_while(|word| **word == u64::MAX).count();
        self.0.rotate_left(full);
        self.0[words - full..].fill(0);
        let more = self.0[0].trailing_ones();
        if more > 0 {
            for index in 0..words {
                let carried = self.0.get(index + 1).map_or(0, |next| next << (64 - more));
                self.0[index] = self.0[index] >> more | carried;
            }
        }
        full * 64 + more as usize
    }
}

/// Maximum number of operations that are called while one of `steps`, which are in the order of
/// their calls, is under way.
fn overlap(steps: &[Step]) -> usize {
    let during = |(index, step): (usize, &Step)| {
        steps[index..].partition_point(|later| later.called <= step.answered)
    };
    steps.iter().enumerate().map(during).max().unwrap_or(0)
}

struct Search {
    /// In the order of their calls.
    answered: Vec<Step>,
    unanswered: Vec<Step>,
    /// States from which no path leads to the end.
    seen: HashSet<Done>,
    explained: usize,
}

/// The operations that are done, and the value after them.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Done {
    /// All answered operations before this one are done.
    base: usize,
    /// Which of the answered operations from `base` on are done, one bit each.
    window: Window,
    /// The unanswered operations that are done.
    unanswered: Window,
    value: ValueId,
    /// The highest version made.
    version: u64,
    /// The latest call of all done operations: an operation that a crash before it cut off can no
    /// longer take effect.
    latest: Moment,
}

impl Search {
    fn run(mut self) -> Result<(), NotLinearizable> {
        let window = Window::new(overlap(&self.answered) + 1);
        let unanswered = Window::new(self.unanswered.len().max(1));
        let start = Done {
            base: 0,
            window,
            unanswered,
            value: ValueId::ABSENT,
            version: 0,
            latest: 0,
        };
        let mut stack = vec![start];
        while let Some(done) = stack.pop() {
            let done = self.forget_cut_off(self.take_reads(done));
            self.explained = self.explained.max(done.base);
            if done.base == self.answered.len() {
                return Ok(());
            }
            if self.seen.insert(done.clone()) {
                // The first answered operation is on top, and so tried first.
                self.push_choices(&done, &mut stack);
            }
        }
        Err(NotLinearizable {
            explained: self.explained,
            stuck: self.answered.get(self.explained).map(|step| step.operation),
        })
    }

    /// Operations called before this moment may be next: every pending operation was answered after
    /// it.
    fn horizon(&self, done: &Done) -> Moment {
        let mut horizon = NEVER;
        for (index, step) in self.answered[done.base..].iter().enumerate() {
            if step.called > horizon {
                break;
            }
            if !done.window.has(index) {
                horizon = horizon.min(step.answered);
            }
        }
        horizon
    }

    /// An operation called after this moment comes after a crash, and cuts off operations that may
    /// still take effect.
    fn barrier(&self, done: &Done) -> Moment {
        let open = |(index, step): &(usize, &Step)| {
            !done.unanswered.has(*index) && step.answered > done.latest
        };
        self.unanswered
            .iter()
            .enumerate()
            .filter(open)
            .map(|(_, step)| step.answered)
            .min()
            .unwrap_or(NEVER)
    }

    /// Takes all reads that may be next, change nothing and cut nothing off.
    fn take_reads(&self, mut done: Done) -> Done {
        let barrier = self.barrier(&done);
        loop {
            done.base += done.window.advance();
            let horizon = self.horizon(&done).min(barrier);
            let mut any = false;
            for (index, step) in self.answered[done.base..].iter().enumerate() {
                if step.called > horizon {
                    break;
                }
                let open = !done.window.has(index);
                if open && !step.action.changes() && step.action.apply(done.value).is_some() {
                    done.window.add(index);
                    done.latest = done.latest.max(step.called);
                    any = true;
                }
            }
            if !any {
                return done;
            }
        }
    }

    /// Operations that are cut off by now can no longer take effect: whether they did makes no
    /// difference.
    fn forget_cut_off(&self, mut done: Done) -> Done {
        for (index, _) in self
            .unanswered
            .iter()
            .enumerate()
            .filter(|(_, step)| step.answered <= done.latest)
        {
            done.unanswered.add(index);
        }
        done
    }

    fn push_choices(&self, done: &Done, stack: &mut Vec<Done>) {
        let horizon = self.horizon(done);
        let open = |index: usize| !done.window.has(index);
        let in_reach = self.answered[done.base..]
            .iter()
            .enumerate()
            .take_while(|(_, step)| step.called <= horizon);
        // Writes are in order: none may come before a pending one with a lower version.
        let next_version = in_reach
            .clone()
            .filter(|(index, _)| open(*index))
            .filter_map(|(_, step)| step.version)
            .min();
        let in_order = |step: &Step| {
            step.version.is_none_or(|version| {
                version > done.version && next_version.is_none_or(|next| version <= next)
            })
        };
        let mut firsts: SmallVec<[&Step; 16]> = SmallVec::new();
        for (index, step) in self.unanswered.iter().enumerate() {
            if step.called >= horizon {
                break;
            }
            let open = !done.unanswered.has(index) && step.answered > done.latest;
            // An operation with the same effect that was called earlier and is cut off no later can
            // be exchanged with this one.
            let is_first = |step: &Step| {
                !firsts.iter().any(|first| {
                    (first.action, first.version) == (step.action, step.version)
                        && first.answered <= step.answered
                })
            };
            if !open || !is_first(step) {
                continue;
            }
            firsts.push(step);
            if in_order(step)
                && let Some(value) = step.action.apply(done.value)
                && value != done.value
            {
                let mut next = done.after(step, value);
                next.unanswered.add(index);
                stack.push(next);
            }
        }
        let candidates: Vec<_> = in_reach
            .filter(|(index, step)| open(*index) && in_order(step))
            .collect();
        for (index, step) in candidates.into_iter().rev() {
            if let Some(value) = step.action.apply(done.value) {
                let mut next = done.after(step, value);
                next.window.add(index);
                stack.push(next);
            }
        }
    }
}

impl Done {
    /// The state after `step`, too, which leaves `value`; the caller marks the step as done.
    fn after(&self, step: &Step, value: ValueId) -> Self {
        let version = step.version.unwrap_or(self.version);
        Self {
            value,
            version,
            latest: self.latest.max(step.called),
            ..self.clone()
        }
    }
}

#[cfg(test)]
mod tests {
    use rand::RngExt as _;

    use super::*;

    /// An operation: (call, called, answer, answered).
    type Told = (Call, Moment, Answer, Moment);

    fn judged(told: &[Told], finally: Option<u32>) -> bool {
        let operations: Vec<Operation> = told
            .iter()
            .map(|&(call, called, answer, answered)| Operation {
                client: 0,
                key: 0,
                call,
                called,
                answer,
                answered,
            })
            .collect();
        check(operations.iter(), finally.map(ValueId)).is_ok()
    }

    fn put(value: u32) -> Call {
        Call::Put(ValueId(value))
    }

    fn got(value: u32, version: u64) -> Answer {
        Answer::Got((value != 0).then_some((ValueId(value), version)))
    }

    #[test]
    fn a_read_sees_the_latest_write_or_one_under_way() {
        let first = (put(1), 1, Answer::Stored(1), 2);
        assert!(judged(&[first, (Call::Get, 3, got(1, 1), 4)], None));
        assert!(
            !judged(&[first, (Call::Get, 3, got(0, 0), 4)], None),
            "the write is forgotten"
        );
        let second = (put(2), 3, Answer::Stored(2), 6);
        assert!(judged(
            &[
                first,
                second,
                (Call::Get, 4, got(1, 1), 5),
                (Call::Get, 7, got(2, 2), 8)
            ],
            None
        ));
        let read_new = (Call::Get, 4, got(2, 2), 5);
        assert!(judged(&[first, second, read_new], None));
        assert!(
            !judged(
                &[first, second, read_new, (Call::Get, 6, got(1, 1), 7)],
                None
            ),
            "time runs backwards"
        );
    }

    #[test]
    fn what_has_no_answer_may_be_done_or_not_but_not_undone() {
        let (first, lost) = (
            (put(1), 1, Answer::Stored(1), 2),
            (put(2), 3, Answer::Unknown, NEVER),
        );
        assert!(judged(&[first, lost], Some(1)) && judged(&[first, lost], Some(2)));
        let seen = (Call::Get, 4, got(2, 2), 5);
        assert!(judged(&[first, lost, seen], Some(2)));
        assert!(
            !judged(&[first, lost, seen], Some(1)),
            "a value that was read is gone"
        );
    }

    /// Needs `latest`: without it a write that a crash cut off can still be done after the crash.
    #[test]
    fn what_a_crash_cut_off_is_not_done_after_it() {
        let (first, cut_off) = (
            (put(1), 1, Answer::Stored(1), 2),
            (put(2), 3, Answer::Unknown, 4),
        );
        let after = (Call::Get, 5, got(1, 1), 6);
        assert!(judged(&[first, cut_off, after], Some(1)));
        assert!(
            !judged(&[first, cut_off, after], Some(2)),
            "it comes back from the dead"
        );
    }

    /// Needs the count of the versions of a value: a write that is repeated with its token is one
    /// write.
    #[test]
    fn a_write_that_took_effect_twice_is_found_by_its_versions() {
        let once = (put(1), 1, Answer::Stored(5), 4);
        assert!(judged(&[once, (Call::Get, 5, got(1, 5), 6)], None));
        assert!(!judged(&[once, (Call::Get, 5, got(1, 7), 6)], None));
        assert!(judged(
            &[
                (put(1), 1, Answer::Unknown, NEVER),
                (put(1), 2, Answer::Stored(7), 4),
                (Call::Get, 3, got(1, 5), 6)
            ],
            None
        ));
    }

    /// Needs the comparison of the values of a version: each looks right in its place.
    #[test]
    fn a_version_that_was_given_to_two_values_is_found() {
        assert!(judged(
            &[
                (put(1), 1, Answer::Stored(5), 2),
                (put(2), 3, Answer::Stored(6), 4)
            ],
            None
        ));
        assert!(!judged(
            &[
                (put(1), 1, Answer::Stored(5), 2),
                (put(2), 3, Answer::Stored(5), 4)
            ],
            None
        ));
    }

    #[test]
    fn conditions_are_judged_by_the_value_at_their_moment() {
        let first = (put(1), 1, Answer::Stored(5), 2);
        let swap = |expected, answer, called| {
            (
                Call::PutIf(ValueId(2), expected),
                called,
                answer,
                called + 1,
            )
        };
        assert!(judged(
            &[first, swap(Expected::Version(5), Answer::Stored(6), 3)],
            Some(2)
        ));
        assert!(judged(
            &[first, swap(Expected::Absent, Answer::Conflict(Some(5)), 3)],
            Some(1)
        ));
        assert!(!judged(
            &[first, swap(Expected::Absent, Answer::Stored(6), 3)],
            Some(2)
        ));
        assert!(!judged(
            &[
                first,
                swap(Expected::Version(5), Answer::Conflict(Some(5)), 3)
            ],
            Some(1)
        ));
        let removed = (Call::Delete, 3, Answer::Removed(true), 4);
        assert!(judged(
            &[first, removed, swap(Expected::Absent, Answer::Stored(7), 5)],
            Some(2)
        ));
        assert!(!judged(
            &[first, (Call::Delete, 3, Answer::Removed(false), 4)],
            None
        ));
        assert!(judged(
            &[first, (Call::Delete, 3, Answer::Refused, 4)],
            Some(1)
        ));
    }

    /// Compares the search with a trial of every order of a few operations.
    #[test]
    fn the_search_agrees_with_trying_all_orders() {
        let mut random = stonecast_base::random_from_seed(11);
        let mut yes = 0;
        for _ in 0..20_000 {
            let count = random.random_range(1..7);
            let mut moments: Vec<Moment> = (1..=2 * count as u64).collect();
            use stonecast_base::SliceExt as _;
            moments.shuffle(&mut random);
            let mut told: Vec<Told> = (0..count)
                .map(|index| {
                    let (one, other) = (moments[2 * index], moments[2 * index + 1]);
                    let (called, answered) = (one.min(other), one.max(other));
                    let value = index as u32 + 1;
                    match random.random_range(0..8) {
                        5 => (
                            Call::PutIf(ValueId(9), Expected::Absent),
                            called,
                            Answer::Conflict(None),
                            answered,
                        ),
                        0 => (
                            Call::Delete,
                            called,
                            Answer::Removed(random.random()),
                            answered,
                        ),
                        1 | 2 => (
                            put(value),
                            called,
                            Answer::Stored(random.random_range(0..3) * 10 + u64::from(value)),
                            answered,
                        ),
                        3 => (
                            put(value),
                            called,
                            Answer::Unknown,
                            if random.random() { NEVER } else { answered },
                        ),
                        6 => (
                            Call::Delete,
                            called,
                            Answer::Unknown,
                            if random.random() { NEVER } else { answered },
                        ),
                        _ => (Call::Get, called, Answer::Got(None), answered),
                    }
                })
                .collect();
            told.sort_by_key(|told| told.1);
            // Reads return the value of some write, with its version.
            let written: Vec<Answer> = told
                .iter()
                .filter_map(|told| match told.0 {
                    Call::Put(value) => Some((value, told.2)),
                    _ => None,
                })
                .map(|(value, answer)| match answer {
                    Answer::Stored(version) => got(value.0, version),
                    _ => got(value.0, 100 + u64::from(value.0)),
                })
                .collect();
            for told in told.iter_mut().filter(|told| told.2 == Answer::Got(None)) {
                if !written.is_empty() && random.random_bool(0.8) {
                    told.2 = written[random.random_range(0..written.len())];
                }
            }
            let finally = random
                .random_bool(0.5)
                .then(|| random.random_range(0..count as u32 + 1));
            let expected = naive(&told, finally, &mut vec![false; count], (0, 0), 0);
            yes += u32::from(expected);
            assert_eq!(
                judged(&told, finally),
                expected,
                "{told:?}, finally {finally:?}"
            );
        }
        assert!(
            (2000..18_000).contains(&yes),
            "both answers are tried: {yes} of 20000"
        );
    }

    /// Tries everything.
    fn naive(
        told: &[Told],
        finally: Option<u32>,
        done: &mut Vec<bool>,
        (value, version): (u32, u64),
        latest: Moment,
    ) -> bool {
        let open = |index: usize, done: &[bool]| !done[index] && told[index].2 != Answer::Unknown;
        if (0..told.len()).all(|index| !open(index, done))
            && finally.is_none_or(|finally| finally == value)
        {
            return true;
        }
        (0..told.len()).any(|index| {
            let (call, called, answer, answered) = told[index];
            let overtakes =
                (0..told.len()).any(|other| open(other, done) && told[other].3 < called);
            if done[index] || overtakes || answer == Answer::Unknown && answered < latest {
                return false;
            }
            let next = match (call, answer) {
                (Call::Get, Answer::Got(found)) => {
                    (found.map_or(0, |(value, _)| value.0) == value).then_some(value)
                }
                (Call::Put(new), _) => Some(new.0),
                (Call::PutIf(..), _) => (value != 0).then_some(value),
                (Call::Delete, Answer::Removed(there)) => (there == (value != 0)).then_some(0),
                (Call::Delete, Answer::Unknown) => Some(0),
                _ => None,
            };
            let read = |told: &Told| match (call, told.2) {
                (Call::Put(value), Answer::Got(Some((read, version)))) if read == value => {
                    Some(version)
                }
                _ => None,
            };
            let made = match answer {
                Answer::Stored(made) => made,
                Answer::Unknown => told.iter().find_map(read).unwrap_or(version),
                _ => version,
            };
            let Some(next) = next.filter(|_| made >= version) else {
                return false;
            };
            done[index] = true;
            let found = naive(told, finally, done, (next, made), latest.max(called));
            done[index] = false;
            found
        })
    }

    /// Needs the three rules that merge equivalent cases: without any one of them this does not
    /// end.
    #[test]
    fn many_operations_without_an_answer_are_judged() {
        let mut told: Vec<Told> = Vec::new();
        for round in 0..8u64 {
            let at = round * 1000;
            for index in 0..40 {
                let call = if index % 2 == 0 {
                    Call::Delete
                } else {
                    put((round * 100 + index) as u32 + 1000)
                };
                told.push((call, at + index, Answer::Unknown, at + 999));
            }
            for index in 0..12 {
                told.push((
                    put(index + 1),
                    at + 100,
                    Answer::Stored(round * 100 + u64::from(index) + 1),
                    at + 900,
                ));
            }
            told.push((
                Call::Delete,
                at + 950,
                Answer::Removed(round % 2 == 0),
                at + 960,
            ));
        }
        told.iter_mut()
            .filter(|told| matches!(told.2, Answer::Stored(_)))
            .zip(1..)
            .for_each(|(told, value)| told.0 = put(value));
        assert!(judged(&told, None));
        // The one stale read at the end must be found however many operations might explain it.
        told.push((Call::Get, 9000, got(3, 3), 9001));
        assert!(!judged(&told, None));
    }

    #[test]
    fn a_window_moves_over_what_is_done_at_its_start() {
        let mut window = Window::new(512);
        (0..200)
            .chain([201, 300])
            .for_each(|index| window.add(index));
        assert_eq!(window.advance(), 200);
        let left: Vec<usize> = (0..512).filter(|&index| window.has(index)).collect();
        assert_eq!((left, window.advance()), (vec![1, 100], 0));
    }

    #[test]
    fn ten_thousand_operations_of_one_key_are_judged() {
        let mut random = stonecast_base::random_from_seed(5);
        let mut told: Vec<Told> = Vec::new();
        let mut value = 0;
        for index in 0..10_000u64 {
            // Each takes effect at its own moment; calls and answers reach up to eight operations to either side.
            let at = index * 100;
            let (called, answered) = (
                at.saturating_sub(random.random_range(0..800)),
                at + random.random_range(1..800),
            );
            if random.random_bool(0.5) {
                value = index as u32 + 1;
                let unknown = index % 500 == 0;
                told.push((
                    put(value),
                    called,
                    if unknown {
                        Answer::Unknown
                    } else {
                        Answer::Stored(index + 1)
                    },
                    answered,
                ));
            } else {
                told.push((Call::Get, called, got(value, u64::from(value)), answered));
            }
        }
        told.sort_by_key(|told| told.1);
        assert!(judged(&told, None));
        let early = told
            .iter()
            .find(|told| matches!(told.2, Answer::Got(Some(_))))
            .unwrap()
            .2;
        let late = told
            .iter()
            .rposition(|told| matches!(told.2, Answer::Got(Some(_))))
            .unwrap();
        told[late].2 = early;
        assert!(
            !judged(&told, None),
            "one stale read among ten thousand is found"
        );
    }
}
