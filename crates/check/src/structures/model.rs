//! The specification of each part of a domain: a key of a structure with keys, a stack, or a queue.

use crate::model::Model;
use crate::timeline::Words;
use crate::values::ValueId;

/// The call of an operation on a part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Call {
    /// Gives the key a value.
    Insert(ValueId),
    /// Removes the key.
    Remove,
    /// Puts a value on top, or at the end.
    Push(ValueId),
    /// Takes the value that comes next.
    Pop,
    /// Asks for the value of the key, or for the value that comes next.
    Look,
}

/// The answer to a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// Whether the key had a value before.
    Existed(bool),
    /// The value was put.
    Pushed,
    /// The value that was found or taken; none: [`ValueId::ABSENT`].
    Value(ValueId),
}

/// The kind of a part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    Key,
    Stack,
    Queue,
}

impl Model for Part {
    type State = Vec<ValueId>;
    type Call = Call;
    type Answer = Answer;

    fn start(&self) -> Self::State {
        Vec::new()
    }

    fn apply(
        &self,
        state: &Self::State,
        call: &Call,
        answer: Option<&Answer>,
    ) -> Option<Self::State> {
        let mut next = state.clone();
        let or_absent = |value: Option<ValueId>| Answer::Value(value.unwrap_or(ValueId::ABSENT));
        let told = match call {
            Call::Insert(value) => {
                next = vec![*value];
                Answer::Existed(!state.is_empty())
            }
            Call::Remove => {
                next.clear();
                Answer::Existed(!state.is_empty())
            }
            Call::Push(value) => {
                next.push(*value);
                Answer::Pushed
            }
            Call::Pop if *self == Self::Stack => or_absent(next.pop()),
            Call::Pop => or_absent((!next.is_empty()).then(|| next.remove(0))),
            Call::Look if *self == Self::Stack => or_absent(state.last().copied()),
            Call::Look => or_absent(state.first().copied()),
        };
        answer.is_none_or(|answer| *answer == told).then_some(next)
    }

    fn changes(&self, call: &Call, answer: Option<&Answer>) -> bool {
        *call != Call::Look && answer != Some(&Answer::Value(ValueId::ABSENT))
    }
}

/// The words of a domain.
pub(crate) const WORDS: Words<Call, Answer> = Words {
    call: |part, call| format!("part {part}: {call:?}"),
    answer: |part, call, answer| match answer {
        Some(answer) => format!("part {part}: {call:?}: {answer:?}"),
        None => format!("part {part}: {call:?}: perhaps it was done"),
    },
};
