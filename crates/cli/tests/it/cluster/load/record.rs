//! The record of a load that has ended, and its judgement.

use stonecast_check::history::Moment;
use stonecast_check::linearizability::{STATES_MAX, Verdict};
use stonecast_check::models::register::{self, Answer, Call, History, Operation};
use stonecast_check::values::ValueId;

/// The history of a load, and the last value of each key.
pub struct Record {
    pub history: History,
    pub last: Vec<ValueId>,
}

impl Record {
    /// Every call of every key took effect at one moment between call and answer, and everything that was acknowledged
    /// is there.
    pub fn assert_linearizable(&self) {
        let operations = self.history.operations();
        let unknown = operations.iter().filter(|it| it.answer.is_none());
        let refused = (operations.iter()).filter(|it| it.answer == Some(Answer::Refused));
        println!(
            "{} operations, {} refused, {} without an answer",
            self.history.answers(),
            refused.count(),
            unknown.count()
        );
        for key in 0..self.history.parts() {
            let (operations, last) = (self.of_key(key), self.last[key as usize]);
            let verdict = judge(&operations, last);
            let lines = operations
                .iter()
                .map(|operation| format!("{operation:?}\n"));
            let story = || lines.collect::<String>();
            assert_eq!(
                verdict,
                Verdict::Linearizable,
                "key {key}, at last {last}:\n{}",
                story()
            );
        }
    }

    /// The same record is refused once acknowledged writes are gone from it, or a read is stale.
    pub fn assert_tampering_is_noticed(&self) {
        let mut stale_reads = 0;
        for key in 0..self.history.parts() {
            let (mut operations, last) = (self.of_key(key), self.last[key as usize]);
            let Some((first, overwritten)) = first_overwritten(&operations) else {
                continue;
            };
            let lost = judge(&operations, first);
            assert!(is_refused(lost), "key {key}, lost writes: {lost:?}");
            let is_later_read = |it: &&mut Operation| {
                it.called > overwritten
                    && matches!(it.answer, Some(Answer::Saw(_) | Answer::Got(_)))
            };
            if let Some(read) = operations.iter_mut().rev().find(is_later_read) {
                read.answer = Some(Answer::Saw(first));
                let stale = judge(&operations, last);
                assert!(is_refused(stale), "key {key}, a stale read: {stale:?}");
                stale_reads += 1;
            }
        }
        assert!(stale_reads > 0, "a key was overwritten, and then read");
    }

    fn of_key(&self, key: u32) -> Vec<Operation> {
        self.history.of_part(key).copied().collect()
    }
}

fn judge(operations: &[Operation], last: ValueId) -> Verdict {
    register::check(operations.iter(), Some(last), STATES_MAX)
}

fn is_refused(verdict: Verdict) -> bool {
    matches!(verdict, Verdict::NotLinearizable { .. })
}

/// Whether each of so many clients has read, written, written on a condition that held, and deleted.
pub fn all_took_part(history: &History, clients: usize) -> bool {
    let mut did = vec![[false; 4]; clients];
    for operation in history.operations() {
        let kind = match (operation.call, operation.answer) {
            (Call::Get, Some(Answer::Got(_) | Answer::Saw(_))) => 0,
            (Call::Put(_), Some(Answer::Stored(_) | Answer::Wrote)) => 1,
            (Call::PutIf(..), Some(Answer::Stored(_) | Answer::Wrote)) => 2,
            (Call::Delete, Some(Answer::Removed(_))) => 3,
            _ => continue,
        };
        did[operation.client as usize][kind] = true;
    }
    did.into_iter().flatten().all(|did| did)
}

/// The value of the first acknowledged write, and the moment at which it was overwritten for certain; `None`: it may be
/// the last one.
fn first_overwritten(operations: &[Operation]) -> Option<(ValueId, Moment)> {
    let is_done = |it: &&Operation| matches!(it.answer, Some(Answer::Stored(_) | Answer::Wrote));
    let first = operations.iter().find(is_done)?;
    let mut writes = operations.iter().filter(is_done);
    let next = writes.find(|it| it.called > first.answered)?;
    Some((first.call.value()?, next.answered))
}

/// Two writes through the library and two through a gateway, each followed by a read through the other one.
#[test]
fn a_record_with_a_lost_write_or_a_stale_read_is_refused() {
    let mut history = History::new(1);
    for number in 1..=4 {
        let value = ValueId(number);
        let (wrote, saw) = match number % 2 {
            0 => (Answer::Wrote, Answer::Got(Some((value, number.into())))),
            _ => (Answer::Stored(number.into()), Answer::Saw(value)),
        };
        let write = history.call(0, None, 0, Call::Put(value));
        history.answer(write, Some(wrote));
        let read = history.call(1, None, 0, Call::Get);
        history.answer(read, Some(saw));
    }
    let record = Record {
        history,
        last: vec![ValueId(4)],
    };
    record.assert_linearizable();
    record.assert_tampering_is_noticed();
}
