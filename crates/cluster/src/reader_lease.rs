//! The lease that a primary gives to a reader.
//!
//! A reader reads a primary's memory without asking the primary. The reader's lease bounds the time for which the
//! memory is current. The lease ends within the primary's own lease. So an heir that waits for its predecessor's lease
//! has waited for the leases of readers, too.
//!
//! ```text
//!   begin -- READs --> covers?      the lease at the end of the read holds, and is of the term in which the read began
//! ```
//!
//! A lease that holds at the end says nothing of bytes that came earlier: the node may have lost the lead since, and
//! may have taken it again. The node then leads in a later term. The bytes are of an earlier term, whose last writes
//! may be void.

use stonecast_base::{Nanoseconds, mutant};

use crate::configuration::Term;
use crate::name::NodeName;
use crate::timing::Timing;

/// The offer of a primary to a reader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReaderOffer {
    /// The time for which the reader may count on the lease, from the moment at which it sent its request.
    pub held_ns: Nanoseconds,
}

/// The term in which a read of one group began.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BegunRead {
    term: Term,
}

/// A reader's lease on one group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReaderLease {
    node: NodeName,
    term: Term,
    /// The end of the lease on the reader's clock.
    end: Nanoseconds,
    /// The greatest age of a time that the reader's clock shows.
    tick_ns: Nanoseconds,
}

impl ReaderLease {
    /// Makes the lease that `node`, primary in `term`, offered in answer to a request sent at `sent_at`. `clock`
    /// declares the reader's clock, which may be coarse: its tick counts here, and so does its drift beyond that of the
    /// offer's clock.
    pub fn new(
        node: NodeName,
        term: Term,
        offer: ReaderOffer,
        sent_at: Nanoseconds,
        clock: Timing,
    ) -> Self {
        let held_ns = offer.held_ns.saturating_sub(clock.drift_of(offer.held_ns));
        Self {
            node,
            term,
            end: sent_at.saturating_add(held_ns),
            tick_ns: clock.tick_ns,
        }
    }

    /// The node whose memory may be read.
    #[inline]
    pub fn node(&self) -> &NodeName {
        &self.node
    }

    /// The primary's term.
    #[inline]
    pub fn term(&self) -> Term {
        self.term
    }

    /// Returns whether the lease holds by a clock that says `now`. The time counts as one tick later.
    #[inline]
    pub fn holds(&self, now: Nanoseconds) -> bool {
        now.saturating_add(self.tick_ns) < self.end
    }

    /// Begins a read, whose READs go to the memory of this lease's node. Only the lease at the end of the read has to
    /// hold.
    #[inline]
    pub fn begin(&self) -> BegunRead {
        BegunRead { term: self.term }
    }

    /// Returns whether the bytes of the read `begun` count. The bytes count if this lease, the reader's latest, is of
    /// the same term and holds by a clock that says `now`, read after the last READ. A term has one primary, so the
    /// node is the same, too.
    #[inline]
    pub fn covers(&self, begun: BegunRead, now: Nanoseconds) -> bool {
        let is_same_term = begun.term == self.term || mutant!(TermNotCompared);
        is_same_term && self.holds(now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::configuration::Epoch;

    #[test]
    fn a_coarse_clock_counts_as_one_tick_later_than_it_says() {
        let clock = Timing {
            tick_ns: 4_000_000,
            ..Timing::DEDICATED_CORES
        };
        let offer = ReaderOffer {
            held_ns: 10_000_000,
        };
        let lease = ReaderLease::new("a".parse().unwrap(), Term::default(), offer, 0, clock);
        assert!(lease.holds(5_989_999));
        assert!(
            !lease.holds(5_990_000),
            "10 ms, less 0.01 ms of drift, less 4 ms"
        );
    }

    fn lease(term: u64, sent_at: Nanoseconds) -> ReaderLease {
        let offer = ReaderOffer {
            held_ns: 10_000_000,
        };
        let clock = Timing::DEDICATED_CORES;
        ReaderLease::new("a".parse().unwrap(), Epoch(term), offer, sent_at, clock)
    }

    #[test]
    fn a_read_counts_under_a_renewed_lease_of_its_term_and_under_none_of_a_later_term() {
        let begun = lease(3, 0).begin();
        assert!(lease(3, 0).covers(begun, 5_000_000));
        assert!(!lease(3, 0).covers(begun, 20_000_000), "the lease is over");
        assert!(lease(3, 15_000_000).covers(begun, 20_000_000));
        assert!(
            !lease(4, 15_000_000).covers(begun, 20_000_000),
            "the node took the lead again"
        );
    }
}
