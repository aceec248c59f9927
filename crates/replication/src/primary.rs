//! The primary of a shard: its writes, the nodes that have them, and the calls that wait for them.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use stonecast_base::mutant;
use stonecast_cluster::{NodeName, Term};
use stonecast_lineage::{Lineage, Point};

use crate::copy::ShardCopy;
use crate::entry::{Entry, Kind};
use crate::joining::Stage;
use crate::peers::Peers;
use crate::sending::{Connection, Report, ReportedOutOfOrder};

/// The primary of a shard in one term.
///
/// ```text
///   decide ──▶ stamp ──▶ take_unsent (each copy) ──▶ persisted (each copy) ──▶ settle ──▶ publish, answer
///      └─────▶ refuse ──────────────────────────────────────────────────────────┘
/// ```
///
/// `W` is a call that waits: a write that is to be published and answered, or an answer that appends nothing. The
/// primary is one of the copies, so the caller reports the primary's own persist like that of the others.
///
/// A crash loses all of this: a process that starts again is no longer a primary, since each start of a primary takes a
/// new term.
#[derive(Debug)]
pub struct Primary<W> {
    copy: ShardCopy,
    min_copies: usize,
    peers: Peers,
    is_draining: bool,
    writes: VecDeque<(u64, W)>,
    refusals: BTreeMap<u64, Vec<W>>,
}

/// The state of the primary's lease at the moment at which [`Primary::settle`] is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeaseSays {
    /// The lease was not granted in this term yet.
    NotYet,
    /// The lease holds.
    Holds,
    /// The lease is over, or may be.
    Over,
}

/// Something that waited and may go on, in this order.
#[derive(Debug, PartialEq, Eq)]
pub enum Settled<W> {
    /// The write is on all copies: publish its word, then answer.
    Written(W),
    /// The state that the refusal saw is on all copies: answer.
    Refused(W),
}

/// The calls that waited when a primary ended.
#[derive(Debug)]
pub struct Resigned<W> {
    /// The node stays a copy.
    pub copy: ShardCopy,
    /// Writes that were stamped and are not done. Their outcome is unknown, because an heir may settle them or not.
    pub unknown: Vec<W>,
    /// Refusals that were not sent. Their clients ask the next primary.
    pub unanswered: Vec<W>,
}

/// The reason why a write was not stamped. The write leaves nothing behind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotStamped {
    /// Too few nodes would keep the write.
    #[error(
        "the shard has {found} copies, and a write needs {needed}: add a node, or lower the fewest copies of the policy"
    )]
    TooFewCopies {
        /// Copies that the configuration names.
        found: usize,
        /// `min_copies` of the policy.
        needed: usize,
    },
    /// The shard is about to be led by another node, which the configuration will name.
    #[error("the shard is being handed over: ask its next primary")]
    Draining,
}

impl<W> Primary<W> {
    /// A primary that begins with everything settled on all of `in_sync`, itself included.
    pub(crate) fn new(copy: ShardCopy, in_sync: BTreeSet<NodeName>, min_copies: usize) -> Self {
        Self {
            peers: Peers::new(in_sync, copy.end().version),
            copy,
            min_copies,
            is_draining: false,
            writes: VecDeque::new(),
            refusals: BTreeMap::new(),
        }
    }

    /// The term in which the primary serves.
    pub fn term(&self) -> Term {
        self.copy.lineage().term
    }

    /// The last version that was stamped. A worker gives a higher version to the next write.
    pub fn last(&self) -> u64 {
        self.copy.end().version
    }

    /// Every entry up to this version is persisted on all copies that are awaited.
    pub fn horizon(&self) -> u64 {
        self.copy.horizon()
    }

    /// Everything up to here is published, and every node that entries are sent to has it.
    pub fn digested(&self) -> Point {
        self.copy.digested()
    }

    /// For each copy that is awaited, the entries that it has not reported yet.
    pub fn behind(&self) -> impl Iterator<Item = (&NodeName, u64)> {
        let chain = self.copy.undigested();
        let behind = move |persisted: u64| {
            chain.len() - chain.partition_point(|entry| entry.version <= persisted)
        };
        self.persisted_by()
            .map(move |(name, persisted)| (name, behind(persisted) as u64))
    }

    /// For each copy that is awaited, the version up to which the copy has everything durably.
    pub fn persisted_by(&self) -> impl Iterator<Item = (&NodeName, u64)> {
        let copies = self.peers.progresses();
        copies.map(|(name, progress)| (name, progress.persisted()))
    }

    /// Stamps a write that was decided. The caller persists the write here and appends it to all copies, in the order
    /// of these calls.
    ///
    /// # Errors
    /// The write must not be done, and nothing has changed.
    ///
    /// # Panics
    /// Unless `version` is above the last version.
    pub fn stamp(&mut self, version: u64, write: W) -> Result<Entry, NotStamped> {
        if self.is_draining {
            return Err(NotStamped::Draining);
        }
        let found = self.peers.count();
        if found < self.min_copies {
            return Err(NotStamped::TooFewCopies {
                found,
                needed: self.min_copies,
            });
        }
        assert!(version > self.last(), "versions ascend");
        let entry = self.entry(version, Kind::Record);
        self.copy
            .take(entry)
            .expect("the entry is of this primary's term");
        self.writes.push_back((version, write));
        Ok(entry)
    }

    fn entry(&self, version: u64, kind: Kind) -> Entry {
        Entry {
            shard: self.copy.shard(),
            term: self.term(),
            version,
            previous: self.last(),
            horizon: self.horizon(),
            kind,
        }
    }

    /// The entries to append to `copy` next, in this order on `connection`. Each connection gets each entry once.
    ///
    /// The first call with a later connection begins again with everything that is not persisted. From then on earlier
    /// connections get nothing, and their reports have no effect.
    pub fn take_unsent(&mut self, copy: &NodeName, connection: Connection) -> Vec<Entry> {
        let chain = self.copy.undigested();
        let progress = self.peers.progress(copy);
        progress.map_or_else(Vec::new, |progress| progress.take_unsent(chain, connection))
    }

    /// An entry with the horizon, for a copy that was sent everything else: without that entry a backup of an idle
    /// shard never digests the last writes. The caller appends and reports the entry like a record. `None`: the copy
    /// knows the horizon, or will hear it from entries that are not sent yet.
    pub fn take_idle(&mut self, copy: &NodeName, connection: Connection) -> Option<Entry> {
        let idle = self.entry(self.last(), Kind::Horizon);
        let progress = self.peers.progress(copy)?;
        let is_due = progress.takes_horizon(idle.version, idle.horizon, connection);
        is_due.then_some(idle)
    }

    /// Takes the report that `copy` has an entry durably. Reports of a connection come in the order of sending, one for
    /// each entry. A report of an earlier connection or term, or of a node that has left the copies, has no effect.
    ///
    /// # Errors
    /// Another entry comes next, and nothing has changed.
    pub fn persisted(&mut self, copy: &NodeName, report: Report) -> Result<(), ReportedOutOfOrder> {
        let term = self.term();
        let chain = self.copy.undigested();
        let progress = self.peers.progress(copy);
        match progress.filter(|_| report.term == term) {
            Some(progress) => progress.report(chain, copy, report),
            None => Ok(()),
        }
    }

    /// Notes that a configuration without `copy` is in force: the primary stops waiting for `copy`. Until then `copy`
    /// may become the heir.
    pub fn removed(&mut self, copy: &NodeName) {
        self.peers.removed(copy);
    }

    /// Notes that a configuration that names `copy` as in sync is in force: `copy` counts for the fewest copies.
    pub fn named(&mut self, copy: &NodeName) {
        self.peers.named(copy);
    }

    /// Begins to fill `joiner`, in the join of number `join`: the primary also appends to the joiner everything that is
    /// not on all copies and everything that is stamped from now on, and keeps those entries until the joiner has
    /// persisted them.
    ///
    /// The joiner forgets all that it has of the shard and keeps the returned lineage durably, before it accepts the
    /// first entry ([`Primary::dropped`]). Another call begins the join again, from the start. Entries take a later
    /// connection than all connections that brought this node entries before: a report of an earlier connection may be
    /// of an entry that the joiner has dropped.
    ///
    /// # Panics
    /// If `joiner` is awaited as a copy, or has begun a join of this number.
    pub fn fill(&mut self, joiner: &NodeName, join: u64) -> Lineage {
        assert!(!self.peers.is_awaited(joiner), "{joiner} is a copy");
        // No pull brings the writes between the horizon and the last stamp: they are not published.
        let begin = match mutant!(UnpublishedLeftOut) {
            true => self.last(),
            false => self.horizon(),
        };
        self.peers.fill(joiner, begin, join);
        self.copy.lineage_of_joiner(begin)
    }

    /// Notes that `joiner` has kept the lineage of its join `join`: the primary may append to `joiner`, and `joiner`
    /// may pull everything that is published.
    pub fn dropped(&mut self, joiner: &NodeName, join: u64) {
        self.comes_to(joiner, Stage::Appending, join);
    }

    /// Notes that `joiner` has persisted all that it pulled in its join `join`.
    pub fn pulled(&mut self, joiner: &NodeName, join: u64) {
        self.comes_to(joiner, Stage::Pulled, join);
    }

    fn comes_to(&mut self, joiner: &NodeName, stage: Stage, join: u64) {
        if let Some(joining) = self.peers.joining(joiner) {
            joining.comes_to(stage, join);
        }
    }

    /// Whether the configuration may name `joiner` as in sync. Such a joiner has everything that is published. From the
    /// first `true` on the primary awaits `joiner` like a copy, whether the compare-and-set succeeds or not.
    pub fn admit(&mut self, joiner: &NodeName) -> bool {
        let published = self.horizon();
        self.peers.admit(joiner, published)
    }

    /// Keeps an answer that appends nothing (a conflict, an absent key, an outcome) until the version that the answer
    /// saw is on all copies: that write may be stamped and not done. `None`: the answer saw no record, and any of the
    /// stamped writes may be the delete.
    pub fn refuse(&mut self, saw: Option<u64>, answer: W) {
        let saw = match saw {
            _ if mutant!(RefusalUncommitted) => 0,
            None if mutant!(AbsenceSawNothing) => 0,
            None => self.last(),
            Some(version) => version,
        };
        self.refusals.entry(saw).or_default().push(answer);
    }

    /// The version up to which all copies have everything, if enough of them are named. The version does not fall:
    /// writes that were done stay done.
    fn on_all_copies(&self) -> u64 {
        if self.peers.count() < self.min_copies && !mutant!(FewestAtStampAlone) {
            return self.horizon();
        }
        let persisted = self.peers.persisted();
        *persisted.first().expect("a primary is one of its copies")
    }

    /// The version up to which writes are done.
    fn done(&self) -> u64 {
        if mutant!(PublishedEarly) {
            return self.last();
        }
        if mutant!(MajorityEnough) {
            let persisted = self.peers.persisted();
            return persisted[(persisted.len() - 1) / 2];
        }
        self.on_all_copies()
    }

    /// The calls that may go on, in order. `None`: the lease is over, and the primary must [resign](Self::resign).
    ///
    /// Before its first grant a primary serves and answers nothing: an heir does not await the end of a lease that was
    /// never granted.
    ///
    /// The caller reads `lease` after it has handed over the last report: a primary that stood still must not answer by
    /// an old state.
    pub fn settle(&mut self, lease: LeaseSays) -> Option<Vec<Settled<W>>> {
        if lease == LeaseSays::Over && !mutant!(LeaseUnchecked) {
            let refusals = mutant!(RefusalUnleased);
            return refusals.then(|| self.settled_refusals());
        }
        if lease == LeaseSays::NotYet && !mutant!(UngrantedAnswers) {
            return Some(Vec::new());
        }
        let done = self.done();
        let written = self.writes.partition_point(|&(version, _)| version <= done);
        let written = self.writes.drain(..written);
        let mut settled: Vec<_> = written.map(|(_, write)| Settled::Written(write)).collect();
        self.copy.raise_horizon(self.on_all_copies());
        self.copy.published(self.peers.persisted_by_joiners());
        settled.extend(self.settled_refusals());
        Some(settled)
    }

    fn settled_refusals(&mut self) -> Vec<Settled<W>> {
        let later = self.refusals.split_off(&(self.horizon() + 1));
        let settled = std::mem::replace(&mut self.refusals, later);
        let settled = settled.into_values().flatten();
        settled.map(Settled::Refused).collect()
    }

    /// Whether nothing waits for copies: everything that was stamped is published, and every node that entries are sent
    /// to has it.
    pub fn is_at_rest(&self) -> bool {
        self.writes.is_empty() && self.refusals.is_empty() && self.copy.undigested().is_empty()
    }

    /// The lineage that the primary keeps durably, like [`ShardCopy::raised_floor`] of a copy: everything up to its
    /// floor is published, and joiners have it. The index up to the floor is durable before.
    pub fn raised_floor(&self) -> Option<Lineage> {
        self.copy.raised_floor()
    }

    /// Notes that the lineage that [`Primary::raised_floor`] gave is durable. Returns whether entries up to its floor
    /// may go ([`ShardCopy::floor_kept`]).
    ///
    /// # Panics
    /// If the floor is above what is published.
    pub fn floor_kept(&mut self, kept: Lineage) -> bool {
        self.copy.floor_kept(kept)
    }

    /// Ends the primary: its lease is over, another term is known, or a persist or an append has failed after a stamp.
    pub fn resign(self) -> Resigned<W> {
        let unknown = self.writes.into_iter().map(|(_, write)| write);
        Resigned {
            copy: self.copy,
            unknown: unknown.collect(),
            unanswered: self.refusals.into_values().flatten().collect(),
        }
    }

    /// `true`: the primary stamps nothing from here on, so that everything that waits gets settled. `false`: the
    /// primary stamps again.
    pub fn drain(&mut self, drains: bool) {
        self.is_draining = drains;
    }

    /// Whether the primary drains and no call still waits.
    pub fn is_drained(&self) -> bool {
        let waits = !self.writes.is_empty() || !self.refusals.is_empty();
        self.is_draining && !waits && self.horizon() == self.last()
    }

    /// Ends a primary that has drained, so that another node may lead the shard at once, by the
    /// [`Consent`](crate::Consent) of this primary.
    ///
    /// # Panics
    /// Unless the primary [has drained](Primary::is_drained): a move leaves no write of unknown outcome.
    pub fn hand_over(self) -> ShardCopy {
        assert!(self.is_drained(), "something waits");
        self.copy
    }
}
