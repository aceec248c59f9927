//! The shards that this node leads, each with its term.
//!
//! A server without a cluster leads all of its shards alone, in term 0 of epoch 0.

use std::rc::Rc;

use stonecast_base::{Nanoseconds, mutant};
use stonecast_lineage::{Epoch, Term};

use crate::wire::{Answer, ReaderLeaseGrant, Verdict};

pub(super) struct Leads {
    epoch: Epoch,
    /// The term of each shard; `None`: the node does not lead the shard.
    terms: Box<[Option<Term>]>,
    offers: Offers,
}

/// The length of the lease that the node can offer to a reader of a shard that it leads in a term,
/// at this moment; `None` if the node holds no lease itself.
pub type Offers = Rc<dyn Fn(u32, Term) -> Option<Nanoseconds>>;

impl Leads {
    /// A node without a cluster, with this many shards.
    pub fn alone(shards: u32) -> Self {
        Self {
            epoch: Epoch::default(),
            terms: vec![Some(Term::default()); shards as usize].into(),
            offers: Rc::new(|_, _| None),
        }
    }

    /// Notes that the node leads `shard` in `term`, or no longer leads it, in the configuration of `epoch`.
    pub fn change(&mut self, epoch: Epoch, shard: u32, term: Option<Term>) {
        self.epoch = epoch;
        self.terms[shard as usize] = term;
    }

    /// Whether the node leads `shard`.
    pub fn leads(&self, shard: u32) -> bool {
        self.terms[shard as usize].is_some()
    }

    /// The term in which the node leads `shard`; `None`: the node does not lead it.
    pub fn term_of(&self, shard: u32) -> Option<Term> {
        self.terms[shard as usize]
    }

    /// Asks `offers` for the leases of readers from now on.
    pub fn offer_by(&mut self, offers: Offers) {
        self.offers = offers;
    }

    /// The lease of a reader that has `entered` shards. The lease covers the shards on which the
    /// node holds a lease itself, and is as long as the shortest of those leases.
    pub fn reader_lease(&self, entered: impl Iterator<Item = (u32, Term)>) -> ReaderLeaseGrant {
        let mut grant = ReaderLeaseGrant {
            held_ns: Nanoseconds::MAX,
            lapsed: None,
            covered: 0,
        };
        for (shard, term) in entered {
            if self.refusal(shard, term).is_some() {
                grant.lapsed = Some(shard);
            } else if let Some(offered) = (self.offers)(shard, term).filter(|&it| it > 0) {
                grant.held_ns = grant.held_ns.min(offered);
                grant.covered |= 1 << shard;
            }
        }
        if grant.covered == 0 {
            grant.held_ns = 0;
        }
        grant
    }

    /// The reason to refuse a request for `shard` that a client sent in the term `named`; `None` if
    /// the node serves the request.
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
