//! A run in words for people: calls and answers of clients, and ends of processes.
//!
//! Moments of a history have no time; the run notes the virtual time and the event of each moment.
//! The words are made only when a report needs them.

use std::fmt;

use stonecast_base::Nanoseconds;

use crate::history::{Answer, Call, Expected, History, Moment, NEVER, Operation};

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

    /// Everything, in order.
    pub fn tell(&self, history: &History) -> Vec<Happening> {
        let mut all = Vec::new();
        for operation in history.operations() {
            all.push((
                operation.called,
                self.at(operation.called, describe_call(operation)),
            ));
            if operation.answer != Answer::Unknown && operation.answered != NEVER {
                all.push((
                    operation.answered,
                    self.at(operation.answered, describe_answer(operation)),
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

fn who(operation: &Operation) -> String {
    if operation.client == u32::MAX {
        "the last reader".to_owned()
    } else {
        format!("client {}", operation.client)
    }
}

fn describe_call(operation: &Operation) -> String {
    let key = operation.key;
    let asks = match operation.call {
        Call::Get => format!("get key {key}"),
        Call::Put(value) => format!("put key {key} = {}", value),
        Call::PutIf(value, Expected::Absent) => {
            format!("put key {key} = {} if it is absent", value)
        }
        Call::PutIf(value, Expected::Version(version)) => {
            format!("put key {key} = {} if it is at version {version}", value)
        }
        Call::Delete => format!("delete key {key}"),
    };
    format!("{}: {asks}", who(operation))
}

/// An operation and its answer.
pub(crate) fn describe(operation: &Operation) -> String {
    format!(
        "{}; {}",
        describe_call(operation),
        describe_answer(operation)
    )
}

fn describe_answer(operation: &Operation) -> String {
    let told = match operation.answer {
        Answer::Got(None) => "it is absent".to_owned(),
        Answer::Got(Some((value, version))) => {
            format!("it is {} at version {version}", value)
        }
        Answer::Stored(version) => format!("stored at version {version}"),
        Answer::Conflict(None) => "not stored: it is absent".to_owned(),
        Answer::Conflict(Some(version)) => format!("not stored: it is at version {version}"),
        Answer::Removed(true) => "removed".to_owned(),
        Answer::Removed(false) => "nothing was there".to_owned(),
        Answer::Refused => "nothing was done".to_owned(),
        Answer::Unknown => "perhaps it was done".to_owned(),
    };
    let asked = match operation.call {
        Call::Get => "get",
        Call::Put(_) | Call::PutIf(..) => "put",
        Call::Delete => "delete",
    };
    format!(
        "{}: told of its {asked} of key {}: {told}",
        who(operation),
        operation.key
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::values::ValueId;

    #[test]
    fn an_operation_is_told_in_words() {
        let mut history = History::new(1);
        let put = history.call(2, 0, Call::PutIf(ValueId(7), Expected::Absent));
        history.answer(put, Answer::Conflict(Some(3)));
        assert_eq!(
            describe(&history.operations()[0]),
            "client 2: put key 0 = value 7 if it is absent; client 2: told of its put of key 0: not stored: it is at version 3"
        );
    }

    #[test]
    fn what_clients_did_and_what_ended_stand_in_one_order_with_their_times() {
        let mut history = History::new(1);
        let mut notes = Notes::default();
        let put = history.call(2, 0, Call::Put(ValueId(7)));
        notes.pass(1, 1_500, 10);
        history.answer(put, Answer::Stored(3));
        notes.pass(2, 2_000, 20);
        notes.mark(2, 2_100, 21, "the power of the server is cut".into());
        history.crash();
        notes.pass(3, 2_100, 21);
        let get = history.call(1, 0, Call::Get);
        notes.pass(4, 9_000_001, 30);
        let _ = get;
        let told: Vec<String> = notes
            .tell(&history)
            .iter()
            .map(Happening::to_string)
            .collect();
        let expected = [
            "        1.500 us  event       10  client 2: put key 0 = value 7",
            "        2.000 us  event       20  client 2: told of its put of key 0: stored at version 3",
            "        2.100 us  event       21  the power of the server is cut",
            "     9000.001 us  event       30  client 1: get key 0",
        ];
        assert_eq!(told, expected);
    }
}
