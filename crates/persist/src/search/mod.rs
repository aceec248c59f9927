//! Finds the cheapest sound program for a scenario by trying all cheaper programs first.
//!
//! The search knows neither the published tables nor the planner: it enumerates programs by cost (round trips, then
//! steps of the responder, then work requests) and asks the litmus model. The first sound one is the cheapest.
//! `space.rs` lists the programs that the enumeration leaves out, and argues that none of them matters.

#[cfg(test)]
mod brute_force;
mod compare;
mod space;

use std::collections::HashMap;

use stonecast_media::PersistenceDomain;

use crate::litmus::{Hardware, Rules, Scratch, is_sound};
use crate::platform::Platform;
use crate::program::Program;
use crate::scenario::{Operation, Update};
use crate::step::{Item, Message, Step};

use space::{LENGTH_MAX, RequesterSteps, interleaved, requesters, responders};

pub use compare::{Comparison, Difference, compare};

/// The operations that may carry the values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Scope {
    /// The operation carries `a` and `b`, as in the published tables. ATOMIC_WRITE counts as a WRITE.
    Pure,
    /// The operation carries `a`; any operation carries `b`.
    Mixed,
}

/// Searches, and keeps the results for platforms that the model cannot tell apart.
#[derive(Default)]
pub struct Searcher {
    found: HashMap<Question, Option<Program>>,
    scratch: Scratch,
    programs: u64,
}

/// Everything that an answer depends on.
#[derive(PartialEq, Eq, Hash)]
struct Question {
    hardware: Hardware,
    update: Update,
    carriers: Vec<Vec<Step>>,
}

impl Searcher {
    /// The cheapest sound program of at most 12 steps, or none.
    pub fn cheapest(
        &mut self,
        platform: &Platform,
        operation: Operation,
        update: Update,
        scope: Scope,
    ) -> Option<Program> {
        if platform.persistence == PersistenceDomain::Volatile {
            return None;
        }
        let carriers = carriers(platform, operation, update, scope);
        let mut hardware = Hardware::of(platform, Rules::ALL).for_verdicts();
        if !carriers
            .iter()
            .flatten()
            .any(|carrier| matches!(carrier, Step::Send(_)))
        {
            hardware = hardware.without_values_in_messages();
        }
        let question = Question {
            hardware,
            update,
            carriers,
        };
        if let Some(found) = self.found.get(&question) {
            return found.clone();
        }
        let writes_back = !matches!(
            platform.persistence,
            PersistenceDomain::Mhp | PersistenceDomain::Wsp
        );
        let found = self.first_sound(&question, writes_back);
        self.found.insert(question, found.clone());
        found
    }

    /// Number of programs that the model has judged.
    pub fn programs(&self) -> u64 {
        self.programs
    }

    fn first_sound(&mut self, question: &Question, writes_back: bool) -> Option<Program> {
        let Question {
            hardware,
            update,
            carriers,
        } = question;
        let items: &[Item] = if update.is_compound() {
            &[Item::A, Item::B]
        } else {
            &[Item::A]
        };
        let mut all: Vec<RequesterSteps> = carriers
            .iter()
            .flat_map(|carriers| requesters(carriers))
            .collect();
        all.sort_by_key(|requester| {
            (
                requester.round_trips,
                requester.operations + requester.acks as u32,
            )
        });
        for of_same_round_trips in all.chunk_by(|one, other| one.round_trips == other.round_trips) {
            for length in 0..LENGTH_MAX {
                for requester in of_same_round_trips {
                    for responder in responders(requester, items, writes_back, length) {
                        let program = interleaved(&requester.steps, &responder);
                        self.programs += 1;
                        if is_sound(*hardware, &program, *update, &mut self.scratch) {
                            return Some(program);
                        }
                    }
                }
            }
        }
        None
    }
}

/// The ways in which the values may travel: for each, one operation for `a` and perhaps one for `b`, or one for both.
fn carriers(
    platform: &Platform,
    operation: Operation,
    update: Update,
    scope: Scope,
) -> Vec<Vec<Step>> {
    let of = |item| match operation {
        Operation::Write => Step::Write(item),
        Operation::WriteImmediate => Step::WriteImmediate(item),
        Operation::Send => Step::Send(Message::Value(item)),
        Operation::Append => Step::Append(Message::Value(item)),
    };
    let Update::Compound { large } = update else {
        return vec![vec![of(Item::A)]];
    };
    let atomic = platform.atomic_write && !large;
    let mut for_b = vec![of(Item::B)];
    if atomic && (operation == Operation::Write || scope == Scope::Mixed) {
        for_b.push(Step::WriteAtomic(Item::B));
    }
    if scope == Scope::Mixed {
        for_b.extend([
            Step::Write(Item::B),
            Step::WriteImmediate(Item::B),
            Step::Send(Message::Value(Item::B)),
        ]);
        for_b.sort_unstable();
        for_b.dedup();
    }
    let mut ways: Vec<Vec<Step>> = for_b.into_iter().map(|b| vec![of(Item::A), b]).collect();
    match operation {
        Operation::Send => ways.push(vec![Step::Send(Message::Both)]),
        Operation::Append => ways.push(vec![Step::Append(Message::Both)]),
        Operation::Write | Operation::WriteImmediate => {}
    }
    ways
}
