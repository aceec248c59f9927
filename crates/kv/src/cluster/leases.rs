//! The leases of one node's memory, one for each shard that this client has entered.
//!
//! ```text
//!   begin -- READs of a GET --> covers?     the lease after the last READ holds, and is of the term in which the GET began
//!                               if not:     renew, and read again
//! ```
//!
//! One request renews the leases of all shards of the node. A task renews them at half of their length as long as they
//! are used; a client that pauses renews them with its next GET.

use std::cell::{Cell, RefCell};

use stonecast_base::{Nanoseconds, mutant};
use stonecast_cluster::{BegunRead, NodeName, ReaderLease, ReaderOffer, Term, Timing};

use crate::client::Client;
use crate::error::StoreError;

/// The declaration of this client's clock. A lease is as long as its offer; the length in this
/// declaration does not count.
const CLOCK: Timing = Timing::SHARED_CORES;

pub(super) struct ReaderLeases {
    node: NodeName,
    of_shards: RefCell<Box<[Option<ReaderLease>]>>,
    /// The length of the latest offer.
    held_ns: Cell<Nanoseconds>,
    /// Whether a GET has looked at a lease since the latest renewal.
    is_used: Cell<bool>,
}

impl ReaderLeases {
    /// No lease on any of this many shards of `node`.
    pub fn new(node: NodeName, shards: u32) -> Self {
        Self {
            node,
            of_shards: RefCell::new(vec![None; shards as usize].into()),
            held_ns: Cell::new(0),
            is_used: Cell::new(false),
        }
    }

    /// Begins a GET in `term` of `shard`, at the time `now`. `None`: no lease of this term holds.
    pub fn begin(&self, shard: u32, term: Term, now: Nanoseconds) -> Option<BegunRead> {
        self.is_used.set(true);
        let leases = self.of_shards.borrow();
        let lease = leases[shard as usize].as_ref()?;
        (lease.term() == term && lease.holds(now)).then(|| lease.begin())
    }

    /// Begins a GET whose READs are executed in the call, in `term` of `shard`. The clock is read once, after the
    /// READs. `None`: the client has no lease of this term.
    #[inline]
    pub fn begin_in_call(&self, shard: u32, term: Term) -> Option<BegunRead> {
        self.is_used.set(true);
        let leases = self.of_shards.borrow();
        let lease = leases[shard as usize].as_ref()?;
        (lease.term() == term).then(|| lease.begin())
    }

    /// Returns whether the result of the GET `begun` counts. The time `now` is after the last READ
    /// of that GET.
    #[inline]
    pub fn covers(&self, shard: u32, begun: BegunRead, now: Nanoseconds) -> bool {
        let leases = self.of_shards.borrow();
        let lease = leases[shard as usize].as_ref();
        lease.is_some_and(|lease| lease.covers(begun, now)) || mutant!(ReadUnchecked)
    }

    /// Asks the node for leases on all shards that `client` has entered, with one request. A shard
    /// for which the node has no lease to give keeps its present lease until that lease ends. The
    /// client leaves a shard that the node does not lead in the entered term.
    pub async fn renew(
        &self,
        client: &Client,
        now: impl Fn() -> Nanoseconds,
    ) -> Result<(), StoreError> {
        self.is_used.set(false);
        // The answer says nothing about terms that the client enters while the answer is on its
        // way.
        let shards = 0..client.shards();
        let entered: Vec<Option<Term>> = shards.map(|it| client.term(it)).collect();
        let sent_at = now();
        let offered = client.ask_lease().await?;
        if let Some(lapsed) = offered.lapsed
            && let Some(lease) = self.of_shards.borrow_mut().get_mut(lapsed as usize)
        {
            *lease = None;
        }
        // A request that waits for room may be overtaken by one that enters a later term.
        let stayed = |(shard, term): (u32, &Option<Term>)| {
            let is_covered = offered.covers(shard) || mutant!(LeaseOfAllShards);
            term.filter(|&term| is_covered && client.term(shard) == Some(term))
        };
        let covered: Vec<_> = (0..).zip(&entered).map(stayed).collect();
        self.note(&covered, offered.held_ns, sent_at);
        Ok(())
    }

    fn note(&self, covered: &[Option<Term>], held_ns: Nanoseconds, sent_at: Nanoseconds) {
        self.held_ns.set(held_ns);
        let offer = ReaderOffer { held_ns };
        for (lease, term) in self.of_shards.borrow_mut().iter_mut().zip(covered) {
            if let Some(term) = *term {
                let node = self.node.clone();
                *lease = Some(ReaderLease::new(node, term, offer, sent_at, CLOCK));
            }
        }
    }

    /// The pause before the next renewal; `None` if no GET needs one.
    pub fn due_in(&self) -> Option<Nanoseconds> {
        let half = self.held_ns.get() / 2;
        (self.is_used.get() && half > 0).then_some(half)
    }
}
