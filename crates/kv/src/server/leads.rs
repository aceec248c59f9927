//! The shards that this node leads, each with its term.
//!
//! A server without a cluster leads all of its shards alone, in term 0 of epoch 0.

use stonecast_base::mutant;
use stonecast_lineage::{Epoch, Term};

use crate::wire::{Answer, Verdict};

/// See the module documentation.
pub(super) struct Leads {
    epoch: Epoch,
    /// The term of each shard; `None`: the node does not lead the shard.
    terms: Box<[Option<Term>]>,
}

impl Leads {
    /// A node without a cluster, with so many shards.
    pub fn alone(shards: u32) -> Self {
        Self {
            epoch: Epoch::default(),
            terms: vec![Some(Term::default()); shards as usize].into(),
        }
    }

    /// Notes that the node leads `shard` in `term`, or no longer leads it, in the configuration of `epoch`.
    pub fn change(&mut self, epoch: Epoch, shard: u32, term: Option<Term>) {
        self.epoch = epoch;
        self.terms[shard as usize] = term;
    }

    /// Why a request for `shard` is refused that a client sent in the term `named`; `None` if the node serves the request.
    #[inline]
    pub fn refusal(&self, shard: u32, named: Term) -> Option<Answer> {
        match self.terms.get(shard as usize) {
            Some(&Some(term)) if term == named || mutant!(RequestOutlivesTerm) => None,
            Some(_) => Some(Answer::Verdict {
                verdict: Verdict::NotPrimary,
                version: self.epoch.0,
            }),
            None => Some(Verdict::Invalid.into()),
        }
    }
}
