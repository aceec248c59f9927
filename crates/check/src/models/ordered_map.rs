//! An ordered map with ranges. Ranges look at several keys at one moment, so the whole object is one part.

use std::collections::BTreeMap;

use crate::model::Model;
use crate::values::ValueId;

/// A map that is empty at first.
#[derive(Clone, Copy, Debug, Default)]
pub struct OrderedMap;

/// The call of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Call {
    /// Stores a value, with or without a present one.
    Insert(u32, ValueId),
    /// Stores a value if the key is absent.
    InsertIfAbsent(u32, ValueId),
    /// Removes a key.
    Remove(u32),
    /// Reads the value of a key.
    Get(u32),
    /// Reads the keys from the first one to the last one, both included, in order.
    Range(u32, u32),
}

/// The answer to a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The value of the key before the call, or at the call of a GET.
    Value(Option<ValueId>),
    /// The keys of a range with their values.
    Entries(Vec<(u32, ValueId)>),
}

impl Model for OrderedMap {
    type State = BTreeMap<u32, ValueId>;
    type Call = Call;
    type Answer = Answer;

    fn start(&self) -> Self::State {
        BTreeMap::new()
    }

    fn apply(
        &self,
        state: &Self::State,
        call: &Call,
        answer: Option<&Answer>,
    ) -> Option<Self::State> {
        let mut next = state.clone();
        let told = match *call {
            Call::Insert(key, value) => Answer::Value(next.insert(key, value)),
            Call::InsertIfAbsent(key, value) => {
                next.entry(key).or_insert(value);
                Answer::Value(state.get(&key).copied())
            }
            Call::Remove(key) => Answer::Value(next.remove(&key)),
            Call::Get(key) => Answer::Value(state.get(&key).copied()),
            Call::Range(first, last) => {
                let entries = state.range(first..=last);
                Answer::Entries(entries.map(|(&key, &value)| (key, value)).collect())
            }
        };
        answer.is_none_or(|answer| *answer == told).then_some(next)
    }

    fn changes(&self, call: &Call, _: Option<&Answer>) -> bool {
        !matches!(call, Call::Get(_) | Call::Range(..))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::history::{History, OperationId};
    use crate::linearizability::{STATES_MAX, Verdict, check};

    type MapHistory = History<Call, Answer>;

    fn judged(history: &MapHistory) -> Verdict {
        check(&OrderedMap, history.of_part(0), STATES_MAX)
    }

    fn call(history: &mut MapHistory, call: Call) -> OperationId {
        history.call(0, Some(0), 0, call)
    }

    fn done(history: &mut MapHistory, asked: Call, told: Answer) {
        let id = call(history, asked);
        history.answer(id, Some(told));
    }

    fn value(value: u32) -> Answer {
        Answer::Value((value != 0).then_some(ValueId(value)))
    }

    #[test]
    fn a_key_has_the_value_inserted_last_and_an_insert_returns_the_value_before() {
        let mut history = History::new(1);
        done(&mut history, Call::Insert(3, ValueId(1)), value(0));
        done(&mut history, Call::InsertIfAbsent(3, ValueId(2)), value(1));
        done(&mut history, Call::Get(3), value(1));
        done(&mut history, Call::Remove(3), value(1));
        done(&mut history, Call::InsertIfAbsent(3, ValueId(4)), value(0));
        assert_eq!(judged(&history), Verdict::Linearizable);
        done(&mut history, Call::Get(3), value(1));
        assert!(matches!(
            judged(&history),
            Verdict::NotLinearizable { explained: 5, .. }
        ));
    }

    /// Fails unless the whole object is one part: key by key both histories are right.
    #[test]
    fn a_range_is_read_at_one_moment() {
        let story = |entries: &[(u32, u32)]| {
            let mut history = History::new(1);
            let range = call(&mut history, Call::Range(1, 9));
            done(&mut history, Call::Insert(5, ValueId(1)), value(0));
            done(&mut history, Call::Insert(2, ValueId(2)), value(0));
            let entries = entries.iter().map(|&(key, value)| (key, ValueId(value)));
            history.answer(range, Some(Answer::Entries(entries.collect())));
            judged(&history)
        };
        for right in [&[][..], &[(5, 1)], &[(2, 2), (5, 1)]] {
            assert_eq!(story(right), Verdict::Linearizable, "{right:?}");
        }
        assert!(
            matches!(story(&[(2, 2)]), Verdict::NotLinearizable { .. }),
            "the second insert is seen without the first"
        );
    }

    #[test]
    fn an_insert_without_an_answer_may_be_seen_later_but_not_taken_back() {
        let mut history = History::new(1);
        call(&mut history, Call::Insert(5, ValueId(1)));
        done(&mut history, Call::Range(0, 9), Answer::Entries(Vec::new()));
        done(&mut history, Call::Get(5), value(1));
        assert_eq!(judged(&history), Verdict::Linearizable);
        done(&mut history, Call::Range(0, 9), Answer::Entries(Vec::new()));
        assert!(matches!(
            judged(&history),
            Verdict::NotLinearizable { explained: 2, .. }
        ));
    }
}
