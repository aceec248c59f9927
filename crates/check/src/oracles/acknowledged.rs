//! Acknowledged writes survive, and so do values that were read: after a crash each key has a value
//! that some order of the answers before the crash explains.

use crate::history::NEVER;
use crate::linearizability::{STATES_MAX, Verdict};
use crate::models::register::{self, Answer, Call, History};
use crate::values::ValueId;
use crate::violation::Violation;

/// For each key, the values that it may have after a crash at the present moment of a history. Keys
/// whose history did not grow are not examined again.
#[derive(Default)]
pub struct Allowed {
    keys: Vec<Key>,
}

#[derive(Clone, Default)]
struct Key {
    /// The part of the history that was examined: calls, calls that may still take effect, answers.
    seen: (usize, usize, usize),
    values: Vec<ValueId>,
}

impl Allowed {
    /// Updates the values.
    pub fn update(&mut self, history: &History) {
        self.keys.resize(history.parts() as usize, Key::default());
        for (number, key) in (0..).zip(&mut self.keys) {
            let calls = history.of_part(number).count();
            let open = history
                .of_part(number)
                .filter(|operation| operation.answered == NEVER)
                .count();
            let answers = history
                .of_part(number)
                .filter(|operation| operation.answer.is_some())
                .count();
            if key.values.is_empty() || key.seen != (calls, open, answers) {
                *key = Key {
                    seen: (calls, open, answers),
                    values: values_after_crash(history, number),
                };
            }
        }
    }

    /// Allows for each key only the value of the last write, answered or not. No store keeps this
    /// promise; it shows that a broken promise is found and reported.
    pub fn demand_newest(&mut self, history: &History) {
        for (number, key) in (0..).zip(&mut self.keys) {
            let newest = history
                .of_part(number)
                .filter(|operation| !matches!(operation.call, Call::Get))
                .last();
            let Some(newest) = newest else { continue };
            key.values = vec![newest.call.value().unwrap_or(ValueId::ABSENT)];
            // The next update computes the values again.
            key.seen = (usize::MAX, usize::MAX, usize::MAX);
        }
    }

    /// The values that `key` may have.
    pub fn of_key(&self, key: u32) -> &[ValueId] {
        &self.keys[key as usize].values
    }

    /// Judges the value of each key.
    pub fn judge(&self, found: impl IntoIterator<Item = (u32, ValueId)>) -> Option<Violation> {
        found
            .into_iter()
            .find(|(key, value)| !self.of_key(*key).contains(value))
            .map(|(key, value)| {
                let allowed: Vec<String> =
                    self.of_key(key).iter().map(ToString::to_string).collect();
                let allowed = allowed.join(", ");
                Violation::new(
                    "acknowledged writes survive",
                    format!("key {key} has {value} after the crash, not one of: {allowed}"),
                )
            })
    }
}

/// The values that `key` may have if all pending operations are cut off at this moment.
fn values_after_crash(history: &History, key: u32) -> Vec<ValueId> {
    // A write that was answered before the call of another answered write cannot be the last.
    let writes = || {
        history
            .of_part(key)
            .filter(|operation| !matches!(operation.call, Call::Get))
    };
    let done = |answer| {
        matches!(
            answer,
            Some(Answer::Stored(_) | Answer::Wrote | Answer::Removed(true) | Answer::Cleared)
        )
    };
    let last_call = writes()
        .filter(|write| done(write.answer))
        .map(|write| write.called)
        .max()
        .unwrap_or(0);
    let mut candidates: Vec<ValueId> = writes()
        .filter(|write| {
            write.answered > last_call
                && !matches!(write.answer, Some(Answer::Refused | Answer::Conflict(_)))
        })
        .map(|write| write.call.value().unwrap_or(ValueId::ABSENT))
        .collect();
    if last_call == 0 {
        candidates.push(ValueId::ABSENT);
    }
    candidates.sort_unstable();
    candidates.dedup();
    if candidates.len() > 1 {
        // A value that the search leaves undecided stays allowed: the oracle never objects without a reason.
        candidates.retain(|&value| {
            let verdict = register::check(history.of_part(key), Some(value), STATES_MAX);
            !matches!(verdict, Verdict::NotLinearizable { .. })
        });
    }
    candidates
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put(value: u32) -> Call {
        Call::Put(ValueId(value))
    }

    #[test]
    fn after_a_crash_a_key_has_an_answered_or_a_pending_value() {
        let mut history = History::new(1);
        let mut allowed = Allowed::default();
        let mut values = |history: &History| {
            allowed.update(history);
            allowed
                .of_key(0)
                .iter()
                .map(|value| value.0)
                .collect::<Vec<_>>()
        };
        assert_eq!(values(&history), [0]);
        let first = history.call(0, Some(0), 0, put(1));
        assert_eq!(values(&history), [0, 1]);
        history.answer(first, Some(Answer::Stored(1)));
        assert_eq!(values(&history), [1]);
        let (second, third) = (
            history.call(0, Some(0), 0, put(2)),
            history.call(1, Some(0), 0, put(3)),
        );
        assert_eq!(values(&history), [1, 2, 3]);
        history.answer(third, Some(Answer::Stored(2)));
        assert_eq!(values(&history), [2, 3]);
        let read = history.call(1, Some(0), 0, Call::Get);
        history.answer(read, Some(Answer::Got(Some((ValueId(3), 2)))));
        assert_eq!(
            values(&history),
            [2, 3],
            "the second may still come after the read"
        );
        history.answer(second, Some(Answer::Stored(3)));
        let read = history.call(1, Some(0), 0, Call::Get);
        history.answer(read, Some(Answer::Got(Some((ValueId(2), 3)))));
        assert_eq!(values(&history), [2], "the value read last stays");
        assert!(allowed.judge([(0, ValueId(2))]).is_none());
        assert!(allowed.judge([(0, ValueId(3))]).is_some());
    }
}
