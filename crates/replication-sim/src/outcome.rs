//! The record of a run, for oracles and for people.

use std::collections::BTreeMap;

use stonecast_base::hash;

use crate::clients::{Call, Told};
use crate::state::Word;

/// Something that happened, in the order of events.
#[derive(Clone, Debug)]
pub struct Shown {
    /// The number of the event.
    pub event: u64,
    /// The happening.
    pub step: Step,
}

/// A happening.
#[derive(Clone, Debug)]
pub enum Step {
    /// A client calls.
    Called(Call),
    /// A client is answered.
    Answered(Call, Told),
    /// Nothing goes wrong from here on.
    Healed,
    /// Anything else, for people.
    Other(String),
}

/// A node led a shard in a term: it stamped or served as its primary.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Claim {
    /// The shard.
    pub shard: u32,
    /// The term.
    pub term: u64,
    /// The node.
    pub node: usize,
}

/// Counts of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Steps of the world.
    pub events: u64,
    /// Calls of clients.
    pub calls: u64,
    /// Answers to clients.
    pub answers: u64,
    /// Heirs that came to serve.
    pub takeovers: u64,
    /// Removed nodes that came back.
    pub joins: u64,
    /// Shards that were handed over to an heir that awaited no lease.
    pub moves: u64,
}

/// The record of a run.
#[derive(Default)]
pub struct Outcome {
    /// The counts of the run.
    pub counts: Counts,
    /// Number of times that each mishap befell a node, by the name of its class.
    pub mishaps: BTreeMap<&'static str, u64>,
    /// The happenings of the run, in their order.
    pub shown: Vec<Shown>,
    /// Leaders of terms.
    pub claims: Vec<Claim>,
    /// At the end, of each shard: the nodes in sync, and the writes that each of them has, in the order of versions.
    pub copies: Vec<Vec<(usize, Vec<Word>)>>,
    /// The hash of everything that was shown: equal runs have equal hashes.
    pub hash: u64,
}

impl Outcome {
    pub(crate) fn show(&mut self, step: Step) {
        let event = self.counts.events;
        self.hash = hash::xxh3_64(self.hash, format!("{event} {step:?}").as_bytes());
        self.shown.push(Shown { event, step });
    }

    pub(crate) fn claim(&mut self, claim: Claim) {
        if self.claims.last() != Some(&claim) {
            self.claims.push(claim);
        }
    }

    pub(crate) fn befell(&mut self, class: &'static str) {
        *self.mishaps.entry(class).or_default() += 1;
    }
}
