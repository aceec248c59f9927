//! The operations of a domain by their numbers, as its writers staged them. The log gives each operation one number, so
//! the possible contents of a state are known exactly.

use std::collections::HashMap;

use crate::history::{History, OperationId};
use crate::linearizability::Step;
use crate::model::Model as _;
use crate::values::ValueId;
use crate::violation::Violation;

use super::model::{Answer, Call, Part};

/// The values of each part of the domain.
pub(super) type Parts = Vec<Vec<ValueId>>;

/// The effect of an operation on one part, and the answer.
pub(super) type Effect = (u32, Call, Answer);

/// An operation. One that concerns no part has no effects; a group has several.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    /// 0: the operation is never retried.
    pub token: u64,
    pub effects: Vec<Effect>,
    /// The call of each effect in the history.
    pub ids: Vec<OperationId>,
}

/// The knowledge about an operation of the history.
struct Fate<'a> {
    /// The place of its effect among the effects of all operations.
    rank: u64,
    answer: &'a Answer,
    /// Whether the operation counts whatever happens.
    is_certain: bool,
}

/// The operations of a domain by their numbers, from 1.
#[derive(Clone, Debug)]
pub(super) struct Ledger {
    kinds: Vec<Part>,
    entries: Vec<Entry>,
    /// The tenure that began last, and the operations that had counted at its beginning.
    tenure: u32,
    counted: u64,
    /// Operations up to these numbers were told as durable, and as published.
    durable: u64,
    published: u64,
}

/// The state that a recovery finds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Contents {
    /// Operations that count.
    pub operations: u64,
    pub parts: Parts,
}

impl Ledger {
    /// No operations on a domain with these parts.
    pub fn new(kinds: Vec<Part>) -> Self {
        Self {
            kinds,
            entries: Vec::new(),
            tenure: 0,
            counted: 0,
            durable: 0,
            published: 0,
        }
    }

    /// Notes that a tenure begins after so many operations. Later operations of its predecessors never count. A
    /// front-end that hung since its tenure was granted may come late.
    pub fn begin(&mut self, tenure: u32, operations: u64) -> Result<(), Violation> {
        if tenure < self.tenure {
            return Ok(());
        }
        self.check_count(operations)?;
        self.entries.truncate(operations as usize);
        (self.tenure, self.counted) = (tenure, operations);
        Ok(())
    }

    fn check_count(&self, operations: u64) -> Result<(), Violation> {
        if operations < self.durable {
            let durable = self.durable;
            return Err(Violation::new(
                "what was told as durable is there",
                format!("{operations} operations count, and {durable} were told"),
            ));
        }
        if operations > self.entries.len() as u64 {
            return Err(Violation::new(
                "what counts was staged",
                format!("{operations} operations count, {}", self.entries.len()),
            ));
        }
        Ok(())
    }

    /// Notes an operation that was staged in a tenure, after which the domain's last operation has this number. An
    /// operation that the owner of an earlier tenure stages never counts.
    pub fn stage(&mut self, tenure: u32, number: u64, entry: Entry) -> Result<(), Violation> {
        if tenure < self.tenure {
            return Ok(());
        }
        let known = self.entries.iter().position(|of| of.token == entry.token);
        let known = known.filter(|_| entry.token != 0);
        let count = self.entries.len() as u64;
        match known {
            Some(at) if number == count && self.entries[at] == entry => return Ok(()),
            None if number == count + 1 => {}
            _ => {
                return Err(Violation::new(
                    "an operation with a token is done once",
                    format!("operation {number} after {count}: {entry:?}, known at {known:?}"),
                ));
            }
        }
        let mut parts = self.after(count);
        for (part, call, answer) in &entry.effects {
            let state = &mut parts[*part as usize];
            let next = self.kinds[*part as usize].apply(state, call, Some(answer));
            *state = next.ok_or_else(|| {
                let found = format!("part {part}: {call:?} told {answer:?} of {state:?}");
                Violation::new("a structure answers as its specification does", found)
            })?;
        }
        self.entries.push(entry);
        Ok(())
    }

    /// Notes that everything that was staged in a tenure up to this number was told as durable, or as published.
    pub fn tell(&mut self, tenure: u32, number: u64, is_published: bool) -> Result<(), Violation> {
        if tenure < self.tenure && number > self.counted {
            let counted = self.counted;
            let found = format!("{number} operations were told, and {counted} count");
            return Err(Violation::new("a tenure that is over tells nothing", found));
        }
        if tenure == self.tenure {
            self.durable = number.max(self.durable);
            if is_published {
                self.published = number.max(self.published);
            }
        }
        Ok(())
    }

    /// The values of each part after so many operations.
    fn after(&self, operations: u64) -> Parts {
        let mut parts: Parts = self.kinds.iter().map(Part::start).collect();
        let entries = self.entries.iter().take(operations as usize);
        for (part, call, answer) in entries.flat_map(|entry| &entry.effects) {
            let state = &mut parts[*part as usize];
            let next = self.kinds[*part as usize].apply(state, call, Some(answer));
            *state = next.expect("it was checked when it was staged");
        }
        parts
    }

    /// Judges the state that a recovery found.
    pub fn judge(&self, found: &Contents) -> Result<(), Violation> {
        self.check_count(found.operations)?;
        let expected = self.after(found.operations);
        match expected == found.parts {
            true => Ok(()),
            false => Err(Violation::new(
                "a crash leaves the operations that count, in order",
                format!(
                    "after {} operations {:?} instead of {expected:?}",
                    found.operations, found.parts
                ),
            )),
        }
    }

    /// The operations on a part as a search for their order sees them. Operations take effect in the order of their
    /// numbers. One without an answer that counts has taken effect, and has the answer that it was staged with; one
    /// that no tenure has staged, or that did not count when the next tenure began, never takes effect.
    pub fn steps(&self, history: &History<Call, Answer>, part: u32) -> Vec<Step<Call, Answer>> {
        let fates = self.fates();
        let steps = history.ids_of_part(part).enumerate();
        let steps = steps.filter_map(|(number, id)| {
            let (operation, fate) = (history.operation(id), fates.get(&id));
            if operation.answer.is_none() && fate.is_none() {
                return None;
            }
            let certain = fate.filter(|fate| fate.is_certain);
            let certain = certain.map(|fate| fate.answer);
            Some(Step {
                called: operation.called,
                answered: operation.answered,
                call: operation.call.clone(),
                answer: operation.answer.as_ref().or(certain).cloned(),
                rank: fate.map(|fate| fate.rank),
                number: Some(number),
            })
        });
        steps.collect()
    }

    fn fates(&self) -> HashMap<OperationId, Fate<'_>> {
        let certain = self.counted.max(self.durable);
        let numbered = (1..).zip(&self.entries);
        let effects = numbered.flat_map(|(number, entry)| {
            let effects = entry.ids.iter().zip(&entry.effects);
            effects.map(move |(id, (.., answer))| (*id, answer, number <= certain))
        });
        let ranked = (1..).zip(effects);
        let fates = ranked.map(|(rank, (id, answer, is_certain))| {
            let fate = Fate {
                rank,
                answer,
                is_certain,
            };
            (id, fate)
        });
        fates.collect()
    }

    /// The operations that are published: a snapshot shows these at least.
    pub fn published(&self) -> u64 {
        self.published
    }

    /// Judges the values that a snapshot showed of some parts: those after one number of operations, which is no less
    /// than `from`.
    pub fn judge_snapshot(
        &self,
        from: u64,
        found: &[(u32, Vec<ValueId>)],
    ) -> Result<(), Violation> {
        let shows = |operations: &u64| {
            let parts = self.after(*operations);
            found
                .iter()
                .all(|(part, held)| parts[*part as usize] == *held)
        };
        let mut moments = from..=self.entries.len() as u64;
        match moments.any(|operations| shows(&operations)) {
            true => Ok(()),
            false => Err(Violation::new(
                "a snapshot shows a prefix of the operations",
                format!("{found:?} after no number of operations from {from} on"),
            )),
        }
    }
}
