//! A run for people: calls and answers of clients in the words of their store, and ends of processes.
//!
//! Moments of a history have no time, so the run notes the virtual time and the event of each moment. Text is made only
//! when a report needs it.

use std::fmt;

use stonecast_base::Nanoseconds;

use crate::history::{History, Moment, NEVER, Operation};

/// An entry of the timeline.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Happening {
    /// Virtual time.
    pub at_ns: Nanoseconds,
    /// Number of events of the world so far.
    pub event: u64,
    /// The description.
    pub what: String,
}

impl fmt::Display for Happening {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (microseconds, rest) = (self.at_ns / 1000, self.at_ns % 1000);
        write!(
            formatter,
            "{microseconds:>9}.{rest:03} us  event {:>8}  {}",
            self.event, self.what
        )
    }
}

/// Notes for a timeline.
#[derive(Default)]
pub(crate) struct Notes {
    /// Moments with their time and event.
    times: Vec<(Moment, Nanoseconds, u64)>,
    /// Entries that are not in the history.
    marks: Vec<(Moment, Happening)>,
}

impl Notes {
    /// Notes that the history is at `moment`, at time `at_ns`, after `event` events.
    pub fn pass(&mut self, moment: Moment, at_ns: Nanoseconds, event: u64) {
        if self.times.last().is_none_or(|(last, ..)| *last < moment) {
            self.times.push((moment, at_ns, event));
        }
    }

    /// Adds an entry that is not in the history.
    pub fn mark(&mut self, moment: Moment, at_ns: Nanoseconds, event: u64, what: String) {
        self.marks.push((moment, Happening { at_ns, event, what }));
    }

    /// All entries, in order.
    pub fn tell<C, A>(&self, history: &History<C, A>, words: Words<C, A>) -> Vec<Happening> {
        let mut all = Vec::new();
        for operation in history.operations() {
            all.push((
                operation.called,
                self.at(operation.called, words.call(operation)),
            ));
            if operation.answer.is_some() && operation.answered != NEVER {
                all.push((
                    operation.answered,
                    self.at(operation.answered, words.answer(operation)),
                ));
            }
        }
        // A mark follows the history's entries of the same moment, and sorting keeps that order.
        all.extend(self.marks.iter().cloned());
        all.sort_by_key(|(moment, happening)| (*moment, happening.event));
        all.into_iter().map(|(_, happening)| happening).collect()
    }

    fn at(&self, moment: Moment, what: String) -> Happening {
        let index = self.times.partition_point(|(noted, ..)| *noted < moment);
        let (_, at_ns, event) = self
            .times
            .get(index)
            .or(self.times.last())
            .copied()
            .unwrap_or_default();
        Happening { at_ns, event, what }
    }
}

/// The client of operations that the run itself calls, at its end.
pub(crate) const LAST_READER: u32 = u32::MAX;

/// The words of a store for its calls and answers.
pub(crate) struct Words<C, A> {
    /// A call about a part: `put key 7`.
    pub call: fn(u32, &C) -> String,
    /// The answer to such a call: `told of its put of key 7: stored`.
    pub answer: fn(u32, &C, Option<&A>) -> String,
}

impl<C, A> Clone for Words<C, A> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<C, A> Copy for Words<C, A> {}

impl<C, A> Words<C, A> {
    fn call(self, operation: &Operation<C, A>) -> String {
        let what = (self.call)(operation.part, &operation.call);
        format!("{}: {what}", client(operation.client))
    }

    fn answer(self, operation: &Operation<C, A>) -> String {
        let what = (self.answer)(operation.part, &operation.call, operation.answer.as_ref());
        format!("{}: {what}", client(operation.client))
    }

    /// An operation and its answer.
    pub fn describe(self, operation: &Operation<C, A>) -> String {
        format!("{}; {}", self.call(operation), self.answer(operation))
    }
}

fn client(number: u32) -> String {
    if number == LAST_READER {
        "the last reader".to_owned()
    } else {
        format!("client {number}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_answers_and_ends_stand_in_one_order_with_their_times() {
        let words = Words {
            call: |part, what: &&str| format!("{what} {part}"),
            answer: |part, what, told: Option<&u32>| format!("told of its {what} {part}: {told:?}"),
        };
        let mut history = History::new(6);
        let mut notes = Notes::default();
        let put = history.call(2, Some(0), 5, "put");
        notes.pass(1, 1_500, 10);
        history.answer(put, Some(3));
        notes.pass(2, 2_000, 20);
        notes.mark(2, 2_100, 21, "the power of the server is cut".into());
        history.crash(0);
        notes.pass(3, 2_100, 21);
        history.call(LAST_READER, Some(0), 4, "get");
        notes.pass(4, 9_000_001, 30);
        let told: Vec<String> = notes
            .tell(&history, words)
            .iter()
            .map(Happening::to_string)
            .collect();
        let expected = [
            "        1.500 us  event       10  client 2: put 5",
            "        2.000 us  event       20  client 2: told of its put 5: Some(3)",
            "        2.100 us  event       21  the power of the server is cut",
            "     9000.001 us  event       30  the last reader: get 4",
        ];
        assert_eq!(told, expected);
        assert_eq!(
            words.describe(&history.operations()[0]),
            "client 2: put 5; client 2: told of its put 5: Some(3)"
        );
    }
}
