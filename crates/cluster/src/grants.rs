//! The leases that a copy gives to primaries.
//!
//! A copy gives a lease to one primary and term at a time. A copy gives no lease in an epoch below its own, no lease
//! while an earlier primary may still hold a lease of this copy, and, after its start, no lease until every lease that
//! it may have forgotten is over. The lease of a primary ends with the earliest of the leases of all copies in sync.
//! Each copy in sync can therefore wait for that end alone, on its own clock, and no other node manages leases.

use std::collections::BTreeMap;

use stonecast_base::{Nanoseconds, mutant};

use crate::configuration::{Epoch, Subject, Term};
use crate::name::NodeName;
use crate::timing::Timing;

/// The reason why a copy gives no lease.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GrantRefused {
    /// The request is of another epoch. If that epoch is below the copy's epoch, the requester is deposed, or late. If
    /// it is above, the copy has to raise its own epoch first.
    #[error("the request is of epoch {asked}, and this copy is in epoch {known}")]
    OtherEpoch {
        /// Epoch of the request.
        asked: Epoch,
        /// Epoch of the copy.
        known: Epoch,
    },
    /// An earlier lease may still be held.
    #[error("an earlier lease is over in {left_ns} ns at the latest")]
    NotOver {
        /// Time until the end of the lease, on the copy's clock.
        left_ns: Nanoseconds,
    },
}

#[derive(Clone, Debug)]
struct Grant {
    holder: NodeName,
    term: Term,
    /// End of the grant, on the copy's clock.
    over_at: Nanoseconds,
}

/// The leases that one copy has given. The leases are kept only in memory: after a start, a copy waits for the leases
/// that it has forgotten.
#[derive(Clone, Debug)]
pub struct Grants {
    timing: Timing,
    epoch: Epoch,
    /// End of all leases that were given before the start.
    forgotten_over_at: Nanoseconds,
    last: BTreeMap<Subject, Grant>,
}

impl Grants {
    /// A copy that starts at `now` in `epoch`. `longest` is the longest lease that the configurations known to this
    /// node ever allowed: leases of an earlier policy may still run.
    pub fn new(longest: Timing, timing: Timing, epoch: Epoch, now: Nanoseconds) -> Self {
        let forgotten_over_at = match mutant!(GrantForgotten) {
            true => 0,
            false => now + longest.awaited(longest.duration_ns),
        };
        Self {
            timing,
            epoch,
            forgotten_over_at,
            last: BTreeMap::new(),
        }
    }

    /// Enters `epoch`, which is durable. Requests of earlier epochs are granted nothing afterwards. `timing` is the
    /// timing of the new configuration. Earlier leases keep their own timing.
    ///
    /// # Panics
    ///
    /// If `epoch` is below the copy's own.
    pub fn enter(&mut self, epoch: Epoch, timing: Timing) {
        assert!(epoch >= self.epoch, "epochs ascend");
        self.epoch = epoch;
        self.timing = timing;
    }

    /// Gives the lease of `subject` to `holder`, primary in `term`, at `now`. Returns the time for which the holder may
    /// count on the lease, from the moment at which it sent the request of `epoch`.
    pub fn grant(
        &mut self,
        subject: &Subject,
        holder: &NodeName,
        term: Term,
        epoch: Epoch,
        now: Nanoseconds,
    ) -> Result<Nanoseconds, GrantRefused> {
        if epoch != self.epoch {
            return Err(GrantRefused::OtherEpoch {
                asked: epoch,
                known: self.epoch,
            });
        }
        let over_at = self.over_for_others_at(subject, holder, term);
        if now < over_at {
            return Err(GrantRefused::NotOver {
                left_ns: over_at - now,
            });
        }
        let duration = self.timing.duration_ns;
        // An earlier grant of the same term may be longer, under an earlier policy. Its holder still counts on that
        // grant.
        let given = self.last.get(subject).map_or(0, |grant| grant.over_at);
        let grant = Grant {
            holder: holder.clone(),
            term,
            over_at: given.max(now + self.timing.awaited(duration)),
        };
        self.last.insert(subject.clone(), grant);
        Ok(self.timing.held(duration))
    }

    /// Notes that the predecessor of `heir`, primary from `term` on, has ended and consents. The grants of this copy in
    /// earlier terms no longer bind it, and the heir's first lease waits for none of them. A consent to an earlier heir
    /// says nothing.
    pub fn consented(&mut self, subject: &Subject, heir: &NodeName, term: Term) {
        let last = self.last.get(subject);
        if last.is_none_or(|grant| grant.term < term) {
            let grant = Grant {
                holder: heir.clone(),
                term,
                over_at: 0,
            };
            self.last.insert(subject.clone(), grant);
        }
    }

    /// The end of every lease of `subject` that this copy has given, on the copy's clock. After that moment the copy
    /// may stand for heir.
    pub fn over_at(&self, subject: &Subject) -> Nanoseconds {
        let last = self.last.get(subject).map_or(0, |grant| grant.over_at);
        last.max(self.forgotten_over_at)
    }

    /// Returns whether this copy gave its last lease of `subject` to `holder` in `term`. The consent of a predecessor
    /// is no lease: the holder still gets the time for its first one.
    pub fn has_granted(&self, subject: &Subject, holder: &NodeName, term: Term) -> bool {
        let last = self.last_of(subject, holder, term);
        last.is_some_and(|grant| grant.over_at > 0)
    }

    fn last_of(&self, subject: &Subject, holder: &NodeName, term: Term) -> Option<&Grant> {
        let last = self.last.get(subject);
        last.filter(|grant| grant.holder == *holder && grant.term == term)
    }

    fn over_for_others_at(&self, subject: &Subject, holder: &NodeName, term: Term) -> Nanoseconds {
        // A lease of `subject` that was granted since the start cannot be among the forgotten leases.
        if self.last_of(subject, holder, term).is_some() || mutant!(PredecessorNotAwaited) {
            return 0;
        }
        self.over_at(subject)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIMING: Timing = Timing::DEDICATED_CORES;

    fn subject() -> Subject {
        Subject::BackEnd("orders".to_owned())
    }

    fn name(text: &str) -> NodeName {
        text.parse().unwrap()
    }

    /// A copy long after its start.
    fn copy() -> Grants {
        Grants::new(TIMING, TIMING, Epoch(1), 0)
    }

    const START: Nanoseconds = 1_000_000_000;

    #[test]
    fn a_copy_gives_nothing_until_what_it_has_forgotten_is_over() {
        let mut copy = copy();
        let early = copy.grant(&subject(), &name("a"), Epoch(1), Epoch(1), 5_000_000);
        assert!(matches!(early, Err(GrantRefused::NotOver { left_ns }) if left_ns > 5_000_000));
        let late = copy.grant(&subject(), &name("a"), Epoch(1), Epoch(1), 10_011_000);
        assert_eq!(late, Ok(9_989_000));
    }

    #[test]
    fn an_heir_gets_a_lease_when_that_of_its_predecessor_is_over_and_not_before() {
        let mut copy = copy();
        copy.grant(&subject(), &name("a"), Epoch(1), Epoch(1), START)
            .unwrap();
        copy.enter(Epoch(2), TIMING);
        let over_at = START + 10_011_000;
        assert_eq!(copy.over_at(&subject()), over_at);
        let ask =
            |copy: &mut Grants, now| copy.grant(&subject(), &name("b"), Epoch(2), Epoch(2), now);
        assert_eq!(
            ask(&mut copy, over_at - 1),
            Err(GrantRefused::NotOver { left_ns: 1 })
        );
        assert!(ask(&mut copy, over_at).is_ok());
    }

    #[test]
    fn the_heir_of_a_move_gets_a_lease_at_once_and_nobody_else_does() {
        let mut copy = copy();
        copy.grant(&subject(), &name("a"), Epoch(1), Epoch(1), START)
            .unwrap();
        copy.enter(Epoch(2), TIMING);
        copy.consented(&subject(), &name("b"), Epoch(2));
        let granted = copy.grant(&subject(), &name("b"), Epoch(2), Epoch(2), START + 1);
        assert_eq!(granted, Ok(9_989_000));
        copy.consented(&subject(), &name("a"), Epoch(1));
        copy.consented(&subject(), &name("b"), Epoch(2));
        copy.enter(Epoch(3), TIMING);
        let early = copy.grant(&subject(), &name("c"), Epoch(3), Epoch(3), START + 2);
        assert!(
            matches!(early, Err(GrantRefused::NotOver { .. })),
            "the lease of b holds, whatever comes late"
        );
    }

    /// Needs the difference: copies would depose the heir of a move, whose lease seems to be over before it began.
    #[test]
    fn a_consent_is_no_grant() {
        let mut copy = copy();
        copy.enter(Epoch(2), TIMING);
        copy.consented(&subject(), &name("b"), Epoch(2));
        assert!(!copy.has_granted(&subject(), &name("b"), Epoch(2)));
        let granted = copy.grant(&subject(), &name("b"), Epoch(2), Epoch(2), START);
        assert!(granted.is_ok() && copy.has_granted(&subject(), &name("b"), Epoch(2)));
    }

    #[test]
    fn a_primary_that_starts_again_waits_for_the_lease_of_its_own_earlier_term() {
        let mut copy = copy();
        copy.grant(&subject(), &name("a"), Epoch(1), Epoch(1), START)
            .unwrap();
        copy.enter(Epoch(2), TIMING);
        let again = copy.grant(&subject(), &name("a"), Epoch(2), Epoch(2), START + 1);
        assert!(matches!(again, Err(GrantRefused::NotOver { .. })));
    }

    #[test]
    fn a_copy_that_knows_a_later_epoch_gives_the_primary_of_an_earlier_one_nothing() {
        let mut copy = copy();
        copy.enter(Epoch(7), TIMING);
        let refused = copy.grant(&subject(), &name("a"), Epoch(6), Epoch(6), START);
        let expected = GrantRefused::OtherEpoch {
            asked: Epoch(6),
            known: Epoch(7),
        };
        assert_eq!(refused, Err(expected));
    }

    #[test]
    fn a_primary_renews_its_lease_while_it_holds_it() {
        let mut copy = copy();
        for beat in 0..5 {
            let now = START + beat * 3_000_000;
            assert!(
                copy.grant(&subject(), &name("a"), Epoch(1), Epoch(1), now)
                    .is_ok()
            );
        }
        assert_eq!(copy.over_at(&subject()), START + 12_000_000 + 10_011_000);
    }

    #[test]
    fn a_shorter_lease_takes_nothing_back_of_a_longer_one_of_the_same_term() {
        let mut copy = copy();
        copy.enter(Epoch(1), Timing::SHARED_CORES);
        copy.grant(&subject(), &name("a"), Epoch(1), Epoch(1), START)
            .unwrap();
        let over_at = copy.over_at(&subject());
        copy.enter(Epoch(2), TIMING);
        let renewed = copy.grant(
            &subject(),
            &name("a"),
            Epoch(1),
            Epoch(2),
            START + 1_000_000,
        );
        assert_eq!(renewed, Ok(9_989_000));
        assert_eq!(
            copy.over_at(&subject()),
            over_at,
            "the holder carries the longer grant into the later epoch"
        );
    }
}
