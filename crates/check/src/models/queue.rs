//! A queue: first in, first out. The whole object is one part.

use std::collections::VecDeque;

use crate::model::Model;
use crate::values::ValueId;

/// A queue that is empty at first.
#[derive(Clone, Copy, Debug, Default)]
pub struct Queue;

/// The call of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Call {
    /// Puts a value at the end.
    Enqueue(ValueId),
    /// Takes the first value.
    Dequeue,
    /// Asks for the number of values.
    Length,
}

/// The answer to a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The value was put at the end.
    Enqueued,
    /// The first value was taken; `None`: the queue was empty.
    Dequeued(Option<ValueId>),
    /// The number of values.
    Length(u64),
}

impl Model for Queue {
    type State = VecDeque<ValueId>;
    type Call = Call;
    type Answer = Answer;

    fn start(&self) -> Self::State {
        VecDeque::new()
    }

    fn apply(
        &self,
        state: &Self::State,
        call: &Call,
        answer: Option<&Answer>,
    ) -> Option<Self::State> {
        let mut next = state.clone();
        let told = match *call {
            Call::Enqueue(value) => {
                next.push_back(value);
                Answer::Enqueued
            }
            Call::Dequeue => Answer::Dequeued(next.pop_front()),
            Call::Length => Answer::Length(state.len() as u64),
        };
        answer.is_none_or(|answer| *answer == told).then_some(next)
    }

    fn changes(&self, call: &Call, answer: Option<&Answer>) -> bool {
        *call != Call::Length && answer != Some(&Answer::Dequeued(None))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::history::History;
    use crate::linearizability::{STATES_MAX, Verdict, check};

    fn judged(history: &History<Call, Answer>) -> Verdict {
        check(&Queue, history.of_part(0), STATES_MAX)
    }

    fn enqueue(history: &mut History<Call, Answer>, value: u32) {
        let id = history.call(0, Some(0), 0, Call::Enqueue(ValueId(value)));
        history.answer(id, Some(Answer::Enqueued));
    }

    fn dequeue(history: &mut History<Call, Answer>, value: Option<u32>) {
        let id = history.call(1, Some(0), 0, Call::Dequeue);
        history.answer(id, Some(Answer::Dequeued(value.map(ValueId))));
    }

    #[test]
    fn the_first_value_in_is_the_first_out() {
        let mut history = History::new(1);
        enqueue(&mut history, 1);
        enqueue(&mut history, 2);
        let mut swapped = history.clone();
        dequeue(&mut history, Some(1));
        dequeue(&mut history, Some(2));
        dequeue(&mut history, None);
        assert_eq!(judged(&history), Verdict::Linearizable);
        dequeue(&mut swapped, Some(2));
        assert_eq!(
            judged(&swapped),
            Verdict::NotLinearizable {
                explained: 2,
                stuck: Some(2)
            }
        );
    }

    #[test]
    fn values_enqueued_together_leave_once_each_in_any_order() {
        let mut history = History::new(1);
        let one = history.call(0, Some(0), 0, Call::Enqueue(ValueId(1)));
        let two = history.call(1, Some(0), 0, Call::Enqueue(ValueId(2)));
        history.answer(one, Some(Answer::Enqueued));
        history.answer(two, Some(Answer::Enqueued));
        dequeue(&mut history, Some(2));
        assert_eq!(judged(&history), Verdict::Linearizable);
        let mut twice = history.clone();
        dequeue(&mut history, Some(1));
        assert_eq!(judged(&history), Verdict::Linearizable);
        dequeue(&mut twice, Some(2));
        assert!(matches!(judged(&twice), Verdict::NotLinearizable { .. }));
    }

    #[test]
    fn a_length_is_counted_at_one_moment() {
        let mut history = History::new(1);
        enqueue(&mut history, 1);
        let length = history.call(2, Some(0), 0, Call::Length);
        enqueue(&mut history, 2);
        dequeue(&mut history, Some(1));
        let mut wrong = history.clone();
        history.answer(length, Some(Answer::Length(2)));
        assert_eq!(judged(&history), Verdict::Linearizable);
        wrong.answer(length, Some(Answer::Length(0)));
        assert!(matches!(judged(&wrong), Verdict::NotLinearizable { .. }));
    }

    /// Fails without the rule that the death of a node cuts off only the operations on this node.
    #[test]
    fn a_value_without_an_answer_may_come_after_the_death_of_another_node_but_not_of_its_own() {
        let story = |dies: u32| {
            let mut history = History::new(1);
            history.call(0, Some(1), 0, Call::Enqueue(ValueId(7)));
            history.crash(dies);
            dequeue(&mut history, None);
            dequeue(&mut history, Some(7));
            judged(&history)
        };
        assert_eq!(story(0), Verdict::Linearizable);
        assert!(matches!(story(1), Verdict::NotLinearizable { .. }));
    }

    /// Fails without the bound: this history has more orders than any machine can try.
    #[test]
    fn a_history_that_is_too_hard_is_undecided_and_does_not_hang() {
        let mut history = History::new(1);
        let calls: Vec<_> = (1..=40)
            .map(|value| history.call(value, Some(0), 0, Call::Enqueue(ValueId(value))))
            .collect();
        for call in calls {
            history.answer(call, Some(Answer::Enqueued));
        }
        (1..=20).for_each(|value| dequeue(&mut history, Some(value)));
        dequeue(&mut history, Some(1));
        let verdict = check(&Queue, history.of_part(0), 10_000);
        assert_eq!(verdict, Verdict::Undecided);
    }
}
