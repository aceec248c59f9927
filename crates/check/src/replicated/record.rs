//! The record of a run in the words of this crate.

use std::collections::BTreeMap;

use stonecast_replication_sim::{Call as Asked, Outcome, SHARDS, Step, Told, Wish, Word};

use crate::history::{Moment, OperationId};
use crate::kv::WORDS;
use crate::models::register::{Answer, Call, Expected, History};
use crate::timeline::{Happening, Notes};
use crate::values::ValueId;

/// Time between two events in a timeline. The world of replication has no clock.
const EVENT_NS: u64 = 1_000;

/// The calls and answers of a run, in one order with all other events.
pub(super) struct RunRecord {
    pub history: History,
    /// Nothing goes wrong after this moment.
    pub healed: Moment,
    notes: Notes,
    /// The operations, by the numbers of their calls.
    operations: BTreeMap<u64, OperationId>,
}

impl RunRecord {
    /// Makes the record of a run with `keys` keys in each shard. The keys of a shard follow the keys of the previous
    /// shard.
    pub fn of(outcome: &Outcome, keys: u32) -> Self {
        let mut record = Self {
            history: History::new(SHARDS * keys),
            healed: 0,
            notes: Notes::default(),
            operations: BTreeMap::new(),
        };
        for shown in &outcome.shown {
            record.take(&shown.step, shown.event, keys);
        }
        record
    }

    /// The run as text for people.
    pub fn timeline(&self) -> Vec<Happening> {
        self.notes.tell(&self.history, WORDS)
    }

    fn take(&mut self, step: &Step, event: u64, keys: u32) {
        let at_ns = event * EVENT_NS;
        match step {
            Step::Called(asked) => {
                let key = asked.shard * keys + u32::from(asked.key);
                let operation = self.history.call(asked.client, None, key, call(asked));
                self.operations.insert(asked.number, operation);
            }
            Step::Answered(asked, told) => {
                let operation = self.operations[&asked.number];
                self.history.answer(operation, Some(answer(asked, *told)));
            }
            Step::Healed => {
                self.healed = self.history.tick();
                let healed = "nothing goes wrong from here on".to_owned();
                self.notes.mark(self.healed, at_ns, event, healed);
            }
            Step::Other(what) => self
                .notes
                .mark(self.history.now(), at_ns, event, what.clone()),
        }
        self.notes.pass(self.history.now(), at_ns, event);
    }
}

/// Each write has a value of its own: the number of its call.
fn value(number: u64) -> ValueId {
    ValueId(number.try_into().expect("a run has few calls"))
}

fn call(asked: &Asked) -> Call {
    match asked.wish {
        Wish::Get => Call::Get,
        Wish::Put => Call::Put(value(asked.number)),
        Wish::Add => Call::PutIf(value(asked.number), Expected::Absent),
        Wish::Delete => Call::Delete,
    }
}

fn answer(asked: &Asked, told: Told) -> Answer {
    let present = |word: Word| word.write.present.then_some(word);
    match (asked.wish, told) {
        (Wish::Delete, Told::Done(_)) => Answer::Removed(true),
        (_, Told::Done(word)) => Answer::Stored(word.point.version),
        (Wish::Delete, Told::Saw(_)) => Answer::Removed(false),
        (Wish::Get, Told::Saw(word)) => {
            let found = word.and_then(present);
            Answer::Got(found.map(|word| (value(word.write.number), word.point.version)))
        }
        (_, Told::Saw(word)) => {
            Answer::Conflict(word.and_then(present).map(|word| word.point.version))
        }
    }
}
