//! The lease that a primary has from its copies.

use std::collections::BTreeMap;

use stonecast_base::{Nanoseconds, mutant};

use crate::configuration::{Epoch, Group};
use crate::name::NodeName;
use crate::reader_lease::ReaderOffer;
use crate::timing::Timing;

/// A request for leases that was sent to a copy. A grant counts from the moment of sending.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Asked {
    /// The copy.
    pub copy: NodeName,
    /// The epoch of the request.
    pub epoch: Epoch,
    sent_at: Nanoseconds,
}

impl Asked {
    /// A request to `copy` at `now` in `epoch`, before it is sent. One request may ask for the leases of any number of
    /// groups.
    pub fn new(copy: NodeName, epoch: Epoch, now: Nanoseconds) -> Self {
        Self {
            copy,
            epoch,
            sent_at: now,
        }
    }
}

/// The lease of one group's primary in one term. The lease ends with the earliest grant of all copies in sync,
/// including the primary.
///
/// A primary asks itself, too: as a copy, it has granted leases to its predecessor, and may be the only copy in sync
/// that did. No primary therefore holds a lease before every lease of its predecessors is over on the clocks of all
/// copies in sync.
///
/// A grant binds its copy to holder and term until the grant is over, in every epoch. Grants therefore stay valid in
/// later epochs of the same term, and a change elsewhere in the cluster interrupts no lease.
#[derive(Clone, Debug)]
pub struct PrimaryLease {
    epoch: Epoch,
    /// Ends of the copies' grants, on this node's clock; 0 before the first grant.
    ends: BTreeMap<NodeName, Nanoseconds>,
    /// Ends of the grants of joiners that the lease does not need yet.
    joining: BTreeMap<NodeName, Nanoseconds>,
    /// The latest end of this lease before a joiner was included: until that moment, readers may count on a lease that
    /// no joiner has granted.
    promised: Nanoseconds,
}

impl PrimaryLease {
    /// A lease in `epoch` that needs grants of `in_sync`: all nodes in sync, including the primary itself. Nothing is
    /// granted yet.
    ///
    /// # Panics
    ///
    /// If `in_sync` is empty: a primary is in sync.
    pub fn new(epoch: Epoch, in_sync: impl IntoIterator<Item = NodeName>) -> Self {
        let ends: BTreeMap<_, _> = in_sync.into_iter().map(|copy| (copy, 0)).collect();
        assert!(!ends.is_empty(), "a primary is in sync");
        Self {
            epoch,
            ends,
            joining: BTreeMap::new(),
            promised: 0,
        }
    }

    /// Enters `epoch`, in which the group has the same term and the copies of `group`. Grants stay valid. A node in
    /// sync that was not asked before has granted nothing. An included joiner stays included while it joins.
    pub fn enter(&mut self, epoch: Epoch, group: &Group) {
        let ends = std::mem::take(&mut self.ends);
        let joining = std::mem::take(&mut self.joining);
        let granted = |copy: &NodeName| {
            let end = ends.get(copy).or_else(|| joining.get(copy));
            end.copied().unwrap_or(0)
        };
        let needs = |copy: &&NodeName| group.in_sync.contains(*copy) || ends.contains_key(*copy);
        let (needed, not_yet): (Vec<_>, Vec<_>) = group.copies().partition(needs);
        let with_end = |copies: Vec<&NodeName>| {
            let ends = copies.into_iter().map(|copy| (copy.clone(), granted(copy)));
            ends.collect()
        };
        self.epoch = epoch;
        self.ends = with_end(needed);
        self.joining = with_end(not_yet);
    }

    /// Includes `joiner`: from here on, the lease needs a grant of `joiner`, too. A primary includes a joiner before
    /// the joiner is named as in sync. So each node that is ever in sync has granted every lease that an earlier
    /// primary may still hold. A joiner that was asked before interrupts no lease.
    pub fn include(&mut self, joiner: NodeName) {
        let before = self.end();
        let end = self.joining.remove(&joiner).unwrap_or(0);
        self.ends.entry(joiner).or_insert_with(|| {
            self.promised = self.promised.max(before);
            end
        });
    }

    /// Includes `joiner` if the lease stays in force at `now`. Returns whether the joiner may be named as in sync: the
    /// joiner has granted everything that this lease has promised, to readers, too.
    pub fn admit(&mut self, joiner: &NodeName, now: Nanoseconds) -> bool {
        if self.joining.get(joiner).is_some_and(|&end| now < end) {
            self.include(joiner.clone());
        }
        self.ends.contains_key(joiner) && self.holds(now) && self.end() >= self.promised
    }

    /// Notes that `copy` is asked at `now`, before the request is sent. Returns `None` if a grant of `copy` does not
    /// count here.
    pub fn ask(&self, copy: &NodeName, now: Nanoseconds) -> Option<Asked> {
        let counts = self.ends.contains_key(copy) || self.joining.contains_key(copy);
        counts.then(|| Asked::new(copy.clone(), self.epoch, now))
    }

    /// Notes that the copy granted the request for `held_ns`, counted from sending. An answer of another epoch, or one
    /// that comes after a later answer, changes nothing.
    pub fn granted(&mut self, asked: &Asked, held_ns: Nanoseconds) {
        if asked.epoch != self.epoch {
            return;
        }
        let end = self.ends.get_mut(&asked.copy);
        if let Some(end) = end.or_else(|| self.joining.get_mut(&asked.copy)) {
            *end = (*end).max(asked.sent_at.saturating_add(held_ns));
        }
    }

    /// The end of the lease, on this node's clock.
    #[inline]
    pub fn end(&self) -> Nanoseconds {
        let ends = self.ends.values().copied();
        if mutant!(OneGrantEnough) {
            return ends.max().expect("a primary is in sync");
        }
        ends.min().expect("a primary is in sync")
    }

    /// Returns whether the lease holds at `now`.
    #[inline]
    pub fn holds(&self, now: Nanoseconds) -> bool {
        now < self.end()
    }

    /// The copies whose grants end before `moment`. These copies have to be asked again.
    pub fn due(&self, moment: Nanoseconds) -> impl Iterator<Item = &NodeName> {
        let due = self.ends.iter().filter(move |&(_, &end)| end < moment);
        due.map(|(copy, _)| copy)
    }

    /// The offer to a reader at `now`: a lease that ends within this lease, or `None` if no lease is held.
    #[inline]
    pub fn offer(&self, timing: Timing, now: Nanoseconds) -> Option<ReaderOffer> {
        let left = self.end().saturating_sub(now).min(timing.duration_ns);
        if mutant!(GrantBeyondOwn) {
            return self.holds(now).then_some(ReaderOffer {
                held_ns: timing.held(timing.duration_ns),
            });
        }
        let held_ns = timing.held(left);
        (held_ns > 0).then_some(ReaderOffer { held_ns })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::configuration::Subject;

    fn name(text: &str) -> NodeName {
        text.parse().unwrap()
    }

    fn lease() -> PrimaryLease {
        PrimaryLease::new(Epoch(3), [name("b"), name("c")])
    }

    #[test]
    fn a_lease_holds_when_every_copy_has_granted_it_and_ends_with_the_earliest_grant() {
        let mut lease = lease();
        let b = lease.ask(&name("b"), 100).unwrap();
        let c = lease.ask(&name("c"), 130).unwrap();
        lease.granted(&b, 1_000);
        assert!(!lease.holds(140), "one copy has not answered");
        lease.granted(&c, 1_000);
        assert!(lease.holds(1_099));
        assert!(!lease.holds(1_100));
    }

    #[test]
    fn an_answer_counts_from_the_sending_of_its_own_request() {
        let mut lease = lease();
        let first = lease.ask(&name("b"), 100).unwrap();
        let second = lease.ask(&name("b"), 500).unwrap();
        let c = lease.ask(&name("c"), 500).unwrap();
        lease.granted(&c, 1_000);
        lease.granted(&second, 1_000);
        lease.granted(&first, 1_000);
        assert_eq!(
            lease.end(),
            1_500,
            "the late answer to the first request takes nothing back"
        );
    }

    #[test]
    fn an_answer_of_an_earlier_epoch_grants_nothing() {
        let asked = lease().ask(&name("b"), 100).unwrap();
        let mut later = PrimaryLease::new(Epoch(4), [name("b")]);
        later.granted(&asked, 1_000);
        assert!(!later.holds(101));
    }

    #[test]
    fn a_joiner_that_is_included_ends_the_lease_until_it_grants_it() {
        let mut lease = PrimaryLease::new(Epoch(3), [name("a")]);
        let a = lease.ask(&name("a"), 0).unwrap();
        lease.granted(&a, 1_000);
        assert!(lease.holds(1));
        lease.include(name("b"));
        assert!(!lease.holds(1));
        let b = lease.ask(&name("b"), 2).unwrap();
        lease.granted(&b, 1_000);
        assert!(lease.holds(3));
    }

    /// A group with one copy each in `in_sync` and in `joining` for each word there.
    fn group(in_sync: &'static str, joining: &'static str) -> Group {
        let names = |words: &'static str| words.split_whitespace().map(name);
        Group {
            subject: Subject::BackEnd("orders".to_owned()),
            term: Epoch(3),
            primary: name("a"),
            in_sync: names(in_sync).collect(),
            joining: names(joining).map(|name| (name, Epoch(4))).collect(),
            leaving: std::collections::BTreeSet::new(),
        }
    }

    #[test]
    fn a_later_epoch_of_the_same_term_keeps_what_was_granted_and_needs_what_was_not() {
        let mut lease = PrimaryLease::new(Epoch(3), [name("a"), name("b")]);
        for copy in ["a", "b"] {
            let asked = lease.ask(&name(copy), 0).unwrap();
            lease.granted(&asked, 1_000);
        }
        lease.enter(Epoch(4), &group("a b", "c"));
        assert!(lease.holds(1), "nobody took back a grant");
        lease.enter(Epoch(5), &group("a b d", ""));
        assert!(!lease.holds(1), "d has granted nothing");
        lease.enter(Epoch(6), &group("a b", ""));
        assert!(lease.holds(1), "d is removed");
    }

    #[test]
    fn a_joiner_that_has_granted_before_it_is_included_interrupts_no_lease() {
        let mut lease = PrimaryLease::new(Epoch(3), [name("a")]);
        lease.enter(Epoch(4), &group("a", "b"));
        let a = lease.ask(&name("a"), 0).unwrap();
        let b = lease.ask(&name("b"), 0).unwrap();
        lease.granted(&a, 1_000);
        assert!(lease.holds(1), "a joiner is not needed");
        lease.granted(&b, 900);
        lease.include(name("b"));
        assert_eq!(lease.end(), 900);
        lease.enter(Epoch(5), &group("a", "b"));
        assert_eq!(lease.end(), 900, "it stays included while it joins");
    }

    #[test]
    fn a_joiner_is_admitted_when_it_has_granted_all_that_was_promised_before() {
        let mut lease = PrimaryLease::new(Epoch(3), [name("a")]);
        lease.enter(Epoch(4), &group("a", "b"));
        let grant = |lease: &mut PrimaryLease, copy, at| {
            let asked = lease.ask(&name(copy), at).unwrap();
            lease.granted(&asked, 1_000);
        };
        grant(&mut lease, "a", 500);
        assert!(!lease.admit(&name("b"), 600), "b has granted nothing");
        assert!(lease.holds(1_400), "and so it is not included");
        grant(&mut lease, "b", 100);
        assert!(
            !lease.admit(&name("b"), 600),
            "readers may count on more than b has granted"
        );
        assert_eq!(lease.end(), 1_100, "it is included");
        grant(&mut lease, "b", 700);
        assert!(lease.admit(&name("b"), 800));
        assert!(!lease.admit(&name("b"), 1_500), "the lease is over");
        assert!(!lease.admit(&name("d"), 800), "d does not join");
    }

    #[test]
    fn a_node_that_is_not_in_sync_is_not_asked() {
        assert_eq!(lease().ask(&name("d"), 100), None);
    }

    #[test]
    fn no_reader_is_offered_more_than_the_primary_has() {
        let timing = Timing::DEDICATED_CORES;
        let mut lease = PrimaryLease::new(Epoch(3), [name("b")]);
        assert_eq!(lease.offer(timing, 0), None);
        let asked = lease.ask(&name("b"), 0).unwrap();
        lease.granted(&asked, 9_000_000);
        let offer = lease.offer(timing, 8_000_000).unwrap();
        assert_eq!(
            offer.held_ns,
            1_000_000 - 1_000 - 1_000,
            "less drift and tick"
        );
        assert_eq!(lease.offer(timing, 9_000_000), None);
    }
}
