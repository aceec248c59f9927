//! What the primary of a shard knows of its writes: who has them, which are done, and what waits for them.

use std::collections::{BTreeMap, VecDeque};

use stonecast_base::mutant;
use stonecast_cluster::{NodeName, Term};

use crate::copy::ShardCopy;
use crate::entry::{Entry, Kind};
use crate::joining::Joining;
use crate::lineage::Lineage;

/// The primary of a shard in one term.
///
/// ```text
///   decide ──▶ stamp ──▶ take_unsent (each backup) ──▶ persisted (each copy) ──▶ settle ──▶ publish, answer
///      └─────▶ refuse ───────────────────────────────────────────────────────────┘
/// ```
///
/// `W` is what waits: a write that is to be published and answered, or an answer that appends nothing. The primary is one of its own
/// copies, so its own persist is reported like that of the others.
///
/// A crash loses all of it: the process that starts again is no primary any more, since each start of a primary takes a new term.
#[derive(Debug)]
pub struct Primary<W> {
    copy: ShardCopy,
    min_copies: usize,
    copies: BTreeMap<NodeName, Progress>,
    joiners: BTreeMap<NodeName, Joining>,
    writes: VecDeque<(u64, W)>,
    refusals: BTreeMap<u64, Vec<W>>,
}

/// Versions up to which a node was sent everything, and has everything durably.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Progress {
    pub sent: u64,
    pub persisted: u64,
}

impl Progress {
    /// Of a node that lacks nothing up to `version`.
    pub fn up_to(version: u64) -> Self {
        Self {
            sent: version,
            persisted: version,
        }
    }
}

/// What the lease of the primary says at the moment at which [`Primary::settle`] is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeaseSays {
    /// It holds.
    Holds,
    /// It is over, or nobody knows.
    Over,
}

/// Something that waited and may go on, in this order.
#[derive(Debug, PartialEq, Eq)]
pub enum Settled<W> {
    /// The write is on all copies: publish its word, then answer.
    Written(W),
    /// What the refusal saw is on all copies: answer.
    Refused(W),
}

/// What becomes of what waited when a primary ends.
#[derive(Debug)]
pub struct Resigned<W> {
    /// The node stays a copy.
    pub copy: ShardCopy,
    /// Writes that were stamped and are not done: an heir may settle them or not. Their outcome is unknown.
    pub unknown: Vec<W>,
    /// Refusals that nobody was told. Their clients ask the next primary.
    pub unanswered: Vec<W>,
}

/// Why a write was not stamped. Nothing of it exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the shard has {found} copies, and a write needs {needed}: add a node, or lower the fewest copies of the policy"
)]
pub struct TooFewCopies {
    /// Copies that are awaited.
    pub found: usize,
    /// `min_copies` of the policy.
    pub needed: usize,
}

/// A copy reports something that was not sent to it, or leaves out what was. End its connection.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{copy} reports version {found}, where version {expected:?} comes next")]
pub struct ReportedOutOfOrder {
    /// The copy.
    pub copy: NodeName,
    /// The version that it reports.
    pub found: u64,
    /// The next version that was sent to it; `None`: all that was sent is persisted.
    pub expected: Option<u64>,
}

impl<W> Primary<W> {
    /// Begins with everything settled on all of `in_sync`, the primary itself included.
    pub(crate) fn new(
        copy: ShardCopy,
        in_sync: impl IntoIterator<Item = NodeName>,
        min_copies: usize,
    ) -> Self {
        let settled = copy.end().version;
        let progress = Progress::up_to(settled);
        Self {
            copy,
            min_copies,
            copies: in_sync.into_iter().map(|name| (name, progress)).collect(),
            joiners: BTreeMap::new(),
            writes: VecDeque::new(),
            refusals: BTreeMap::new(),
        }
    }

    /// The term that is served.
    pub fn term(&self) -> Term {
        self.copy.lineage().term
    }

    /// The last version that was stamped. A worker gives higher ones.
    pub fn last(&self) -> u64 {
        self.copy.end().version
    }

    /// Every entry up to this version is persisted on all copies that are awaited.
    pub fn horizon(&self) -> u64 {
        self.copy.horizon()
    }

    /// Stamps a write that was decided. The caller persists it here and appends it to all copies, in the order of this call.
    ///
    /// # Errors
    /// There are too few copies, and nothing has changed.
    ///
    /// # Panics
    /// Unless `version` is above the last one.
    pub fn stamp(&mut self, version: u64, write: W) -> Result<Entry, TooFewCopies> {
        if self.copies.len() < self.min_copies {
            return Err(TooFewCopies {
                found: self.copies.len(),
                needed: self.min_copies,
            });
        }
        assert!(version > self.last(), "versions ascend");
        let entry = self.entry(version, Kind::Record);
        self.copy.take(entry).expect("the term is the own one");
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

    /// The horizon for backups of a shard in which nothing is written: without it they never digest the last writes.
    pub fn idle(&self) -> Entry {
        self.entry(self.last(), Kind::Horizon)
    }

    /// The entries that are to be appended to `copy` next, in this order on one connection. Each is given once, until the connection ends.
    pub fn take_unsent(&mut self, copy: &NodeName) -> Vec<Entry> {
        let entries = self.copy.undigested();
        let Some(progress) = progress_of(&mut self.copies, &mut self.joiners, copy) else {
            return Vec::new();
        };
        let sent = progress.sent;
        let first = entries.partition_point(|entry| entry.version <= sent);
        progress.sent = entries.back().map_or(sent, |last| last.version.max(sent));
        entries.range(first..).copied().collect()
    }

    /// The connection to `copy` is a new one: what is not persisted there is sent again.
    pub fn reconnected(&mut self, copy: &NodeName) {
        if let Some(progress) = progress_of(&mut self.copies, &mut self.joiners, copy)
            && !mutant!(ResentFromLastSent)
        {
            progress.sent = progress.persisted;
        }
    }

    /// `copy` has the entry of `version` durably, as the plan for its platform says. Reports come in the order of sending, one for each entry.
    /// A report by a node that is no copy any more says nothing.
    ///
    /// # Errors
    /// Another version comes next, and nothing has changed.
    pub fn persisted(&mut self, copy: &NodeName, version: u64) -> Result<(), ReportedOutOfOrder> {
        let entries = self.copy.undigested();
        let Some(progress) = progress_of(&mut self.copies, &mut self.joiners, copy) else {
            return Ok(());
        };
        let next = entries.partition_point(|entry| entry.version <= progress.persisted);
        let expected = entries.get(next).map(|entry| entry.version);
        let expected = expected.filter(|&next| next <= progress.sent);
        if expected != Some(version) && !mutant!(PersistedOutOfOrder) {
            return Err(ReportedOutOfOrder {
                copy: copy.clone(),
                found: version,
                expected,
            });
        }
        progress.persisted = version;
        Ok(())
    }

    /// A configuration without `copy` is in force: nobody waits for it any more. Not before: an heir may be that copy.
    pub fn removed(&mut self, copy: &NodeName) {
        self.copies.remove(copy);
        self.joiners.remove(copy);
    }

    /// Begins to fill `joiner`: everything that is stamped from now on is appended to it, too, and is kept until the joiner has persisted it.
    ///
    /// The joiner forgets all that it has of the shard and keeps the lineage that is returned, durably, before it accepts the first entry. Called
    /// again, the joiner begins anew.
    ///
    /// # Panics
    /// Where `joiner` is awaited as a copy.
    pub fn fill(&mut self, joiner: &NodeName) -> Lineage {
        assert!(!self.copies.contains_key(joiner), "{joiner} is a copy");
        self.joiners
            .insert(joiner.clone(), Joining::after(self.last()));
        Lineage {
            term: self.term(),
            floor: self.copy.end(),
            cuts: BTreeMap::new(),
        }
    }

    /// Whether `joiner` may pull what is published: everything that was stamped before its first append is.
    pub fn may_pull(&self, joiner: &NodeName) -> bool {
        let joining = self.joiners.get(joiner);
        joining.is_some_and(|joining| joining.may_pull(self.horizon()))
    }

    /// `joiner` has persisted all that it pulled.
    pub fn pulled(&mut self, joiner: &NodeName) {
        if let Some(joining) = self.joiners.get_mut(joiner) {
            joining.pulled();
        }
    }

    /// Whether the configuration may name `joiner` as in sync. It has everything that is published, and from the first `true` on it is awaited like
    /// a copy, whatever becomes of the compare-and-set.
    pub fn admit(&mut self, joiner: &NodeName) -> bool {
        let published = self.horizon();
        let joining = self.joiners.get(joiner);
        let filled = joining.filter(|joining| joining.is_filled(published));
        if let Some(progress) = filled.map(|joining| joining.progress) {
            if mutant!(NamedBeforeAwaited) {
                return true;
            }
            self.joiners.remove(joiner);
            self.copies.insert(joiner.clone(), progress);
        }
        self.copies.contains_key(joiner)
    }

    /// Keeps an answer that appends nothing (a conflict, an absent key, an outcome) until the version that it saw is on all copies. What it
    /// saw may be stamped and not done.
    pub fn refuse(&mut self, saw: u64, answer: W) {
        let saw = if mutant!(RefusalUncommitted) { 0 } else { saw };
        self.refusals.entry(saw).or_default().push(answer);
    }

    /// The version up to which all copies have everything.
    fn on_all_copies(&self) -> u64 {
        let persisted = self.copies.values().map(|one| one.persisted);
        persisted.min().expect("a primary is one of its copies")
    }

    /// The version up to which writes are done.
    fn done(&self) -> u64 {
        if mutant!(PublishedEarly) {
            return self.last();
        }
        if mutant!(MajorityEnough) {
            let mut persisted: Vec<_> = self.copies.values().map(|one| one.persisted).collect();
            persisted.sort_unstable();
            return persisted[(persisted.len() - 1) / 2];
        }
        self.on_all_copies()
    }

    /// What may go on, in order. `None`: the lease is over, and the caller has the primary [resign](Self::resign).
    ///
    /// `lease` is asked after the last report that was handed over: a primary that stood still must not tell what it saw before.
    pub fn settle(&mut self, lease: LeaseSays) -> Option<Vec<Settled<W>>> {
        if lease == LeaseSays::Over && !mutant!(LeaseUnchecked) {
            let refusals = mutant!(RefusalUnleased);
            return refusals.then(|| self.settled_refusals());
        }
        let done = self.done();
        let written = self.writes.partition_point(|&(version, _)| version <= done);
        let written = self.writes.drain(..written);
        let mut settled: Vec<_> = written.map(|(_, write)| Settled::Written(write)).collect();
        self.copy.raise_horizon(self.on_all_copies());
        let joiners = self.joiners.values().map(|one| one.progress.persisted);
        let kept_for_joiners = joiners.min().unwrap_or(u64::MAX);
        self.copy.published(kept_for_joiners);
        settled.extend(self.settled_refusals());
        Some(settled)
    }

    fn settled_refusals(&mut self) -> Vec<Settled<W>> {
        let later = self.refusals.split_off(&(self.horizon() + 1));
        let settled = std::mem::replace(&mut self.refusals, later);
        let settled = settled.into_values().flatten();
        settled.map(Settled::Refused).collect()
    }

    /// Ends the primary: its lease is over, another term is known, or a persist or an append has failed behind a stamp.
    pub fn resign(self) -> Resigned<W> {
        let unknown = self.writes.into_iter().map(|(_, write)| write);
        Resigned {
            copy: self.copy,
            unknown: unknown.collect(),
            unanswered: self.refusals.into_values().flatten().collect(),
        }
    }
}

/// How far a node is that entries are sent to.
fn progress_of<'a>(
    copies: &'a mut BTreeMap<NodeName, Progress>,
    joiners: &'a mut BTreeMap<NodeName, Joining>,
    node: &NodeName,
) -> Option<&'a mut Progress> {
    let joining = joiners.get_mut(node).map(|one| &mut one.progress);
    joining.or_else(|| copies.get_mut(node))
}
