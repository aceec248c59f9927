//! The takeover of a shard by an heir: one path for failover, restart and cold start.

use std::collections::{BTreeMap, BTreeSet};

use stonecast_base::mutant;
use stonecast_cluster::{NodeName, Term};
use stonecast_lineage::Lineage;

use crate::copy::{Incomplete, ShardCopy};
use crate::entry::Entry;
use crate::primary::Primary;

/// The outcome of quiescing the appends of a peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fence {
    /// No entry of that peer lands any more.
    Quiesced,
    /// The peer stands still inside an append, and may finish it later.
    Unquiesced,
}

/// The next step of an heir.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Quiesce all append queue pairs of these peers, and report each by [`Takeover::fenced`].
    Quiesce(BTreeSet<NodeName>),
    /// Wait until all leases of earlier terms are over on the clock of this node, and report that by
    /// [`Takeover::leases_over`].
    AwaitLeases,
    /// Take all entries that are in memory ([`Takeover::copy`]), then call [`Takeover::decide`].
    Read,
    /// Persist the entries that were found, then this history, and report that by [`Takeover::kept`].
    Keep(Lineage),
    /// Send history and entries to these copies, and report each that has persisted both by [`Takeover::confirmed`].
    Settle(BTreeSet<NodeName>),
    /// Digest everything that is left, then [serve](Takeover::serve).
    Serve,
}

/// An heir of a shard, from the moment at which its epoch is durable until it serves.
///
/// ```text
///   quiesce peers ──▶ [leases over, if a peer is unquiesced] ──▶ read ──▶ decide: the heir's log is the history
///     ──▶ keep ──▶ settle on every copy ──▶ [leases over] ──▶ serve
/// ```
///
/// An heir with the [`Consent`] of its predecessor neither quiesces nor awaits leases.
///
/// An acknowledged write is on every copy in sync, so the heir's log has every acknowledged write. The log may have
/// further entries, which no client has seen: the heir settles them on all copies before it answers with them.
///
/// A crash of the heir before it serves leaves some copies with its history and some without. No client got an answer
/// in the new term, so the next heir decides by its own log again.
#[derive(Debug)]
pub struct Takeover {
    term: Term,
    copy: ShardCopy,
    fences: BTreeMap<NodeName, Option<Fence>>,
    leases_over: bool,
    progress: Progress,
    unconfirmed: BTreeSet<NodeName>,
    in_sync: BTreeSet<NodeName>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Progress {
    Fencing,
    Decided,
    Kept,
}

/// A primary's statement that it has ended and that none of its calls waits ([`Primary::hand_over`]), and that the next
/// change of the configuration named the heir.
///
/// The predecessor gives its consent after three steps, in this order: it hands over, revokes what its readers hold,
/// and then changes the configuration by a compare-and-set of its own term. A predecessor that consents therefore
/// answers nothing from then on, even if its lease holds; no call waits for one of its entries; and no other primary
/// led in between.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Consent {
    /// The term of the heir.
    pub to: Term,
}

/// A takeover in a term in which this copy has been. Each start of a primary takes a new term: in its old term the
/// primary may have given versions and cuts that it no longer knows.
///
/// Terms of other shards and the epoch of the node do not matter: one change may make a node lead several shards.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("term {found} is not new: the copy was in term {known}; change the configuration first")]
pub struct TermNotNew {
    /// The term of the takeover.
    pub found: Term,
    /// The term of the copy.
    pub known: Term,
}

impl Takeover {
    /// Begins the takeover by `me`, the heir of `term`. This node has made `term` or a later epoch durable before.
    /// `lost` are the nodes that may append in earlier terms: all of `in_sync` and those that the configuration has
    /// removed, except `me`.
    ///
    /// # Errors
    /// The copy has been in this term. A process that starts again needs another term, even in the middle of a
    /// takeover.
    ///
    /// # Panics
    /// If `me` is not in sync: only a copy in sync has everything.
    pub fn new(
        term: Term,
        me: &NodeName,
        copy: ShardCopy,
        in_sync: BTreeSet<NodeName>,
        lost: impl IntoIterator<Item = NodeName>,
    ) -> Result<Self, TermNotNew> {
        assert!(in_sync.contains(me), "an heir is in sync");
        let known = copy.lineage().term;
        if term <= known && !mutant!(TermReused) {
            return Err(TermNotNew { found: term, known });
        }
        let mut unconfirmed = in_sync.clone();
        unconfirmed.remove(me);
        Ok(Self {
            term,
            copy,
            fences: lost.into_iter().map(|peer| (peer, None)).collect(),
            leases_over: false,
            progress: Progress::Fencing,
            unconfirmed,
            in_sync,
        })
    }

    /// The next step, which stays the same until the caller reports it.
    pub fn next(&self) -> Step {
        if self.progress == Progress::Fencing {
            return self.next_fence();
        }
        if self.progress == Progress::Decided {
            return Step::Keep(self.copy.lineage().clone());
        }
        if !self.unconfirmed.is_empty() && !mutant!(ServedEarly) {
            return Step::Settle(self.unconfirmed.clone());
        }
        if !self.leases_over && !mutant!(LeasesNotAwaited) {
            return Step::AwaitLeases;
        }
        Step::Serve
    }

    fn next_fence(&self) -> Step {
        let open = self.fences.iter().filter(|(_, fence)| fence.is_none());
        let open: BTreeSet<_> = open.map(|(peer, _)| peer.clone()).collect();
        if !open.is_empty() && !mutant!(AppendsNotFenced) {
            return Step::Quiesce(open);
        }
        let unquiesced = self
            .fences
            .values()
            .any(|fence| *fence == Some(Fence::Unquiesced));
        // An entry that lands after the look at the memory is void. Its sender may call it done until the sender's
        // lease is over.
        if unquiesced && !self.leases_over && !mutant!(UnquiescedIgnored) {
            return Step::AwaitLeases;
        }
        Step::Read
    }

    /// Notes that the append queue pairs of `peer` have ended, as `fence` says. A report after a
    /// [consent](Takeover::consented) has no effect: no peer is left to be fenced.
    ///
    /// # Panics
    /// Without consent, after [`Takeover::decide`]: the heir has read the memory before that peer's appends ended.
    pub fn fenced(&mut self, peer: &NodeName, fence: Fence) {
        if let Some(known) = self.fences.get_mut(peer) {
            assert_eq!(self.progress, Progress::Fencing, "a fence after the look");
            *known = Some(fence);
        }
    }

    /// Notes that all leases of earlier terms are over on the clock of this node: those of primaries, and those of
    /// their readers, which end within them.
    pub fn leases_over(&mut self) {
        self.leases_over = true;
    }

    /// Notes the consent of the predecessor. Its fences and leases stand for those of all earlier terms, so no peer is
    /// left to be fenced or awaited. The consent to another heir has no effect.
    pub fn consented(&mut self, consent: Consent) {
        if consent.to == self.term || mutant!(ConsentOfAnyTerm) {
            self.leases_over = true;
            self.fences.clear();
        }
    }

    /// Notes that a configuration without `copy` is in force: the heir does not wait for `copy`.
    pub fn removed(&mut self, copy: &NodeName) {
        self.unconfirmed.remove(copy);
        self.in_sync.remove(copy);
    }

    /// The copy, so that the caller can hand it the entries in memory.
    pub fn copy(&mut self) -> &mut ShardCopy {
        &mut self.copy
    }

    /// Decides by the heir's own log: everything without a gap is the history of the shard, and nothing else of earlier
    /// terms counts.
    ///
    /// # Errors
    /// The copy has lost entries, and must not lead: another copy takes over.
    ///
    /// # Panics
    /// Before [`Step::Read`]: the memory may still change.
    pub fn decide(&mut self) -> Result<(), Incomplete> {
        assert_eq!(self.next(), Step::Read, "the memory may change yet");
        self.copy.is_complete()?;
        self.copy.close(self.term);
        self.progress = Progress::Decided;
        if mutant!(NotSettled) {
            self.progress = Progress::Kept;
        }
        Ok(())
    }

    /// Notes that the entries that were found and the history are durable here.
    ///
    /// # Panics
    /// Before [`Step::Keep`].
    pub fn kept(&mut self) {
        assert_eq!(self.progress, Progress::Decided, "nothing was decided");
        self.copy.kept(self.term);
        self.progress = Progress::Kept;
    }

    /// The letter to every copy: the history, by which the copy judges, then all entries that the copy may lack. The
    /// copy knows most of them.
    ///
    /// # Panics
    /// Before [`Step::Settle`]: the next heir may decide otherwise after a crash, while the history is only in the
    /// memory of this heir.
    pub fn history(&self) -> (Lineage, Vec<Entry>) {
        assert_eq!(self.progress, Progress::Kept, "the history is not durable");
        let entries = self.copy.undigested().iter().copied().collect();
        (self.copy.lineage().clone(), entries)
    }

    /// Notes that `copy` has entered `term`, and has persisted all of [`Takeover::history`]. A confirmation of another
    /// term, or of a history that was not sent, has no effect.
    pub fn confirmed(&mut self, copy: &NodeName, term: Term) {
        let is_ours = term == self.term || mutant!(ConfirmationOfAnyTerm);
        if is_ours && self.progress == Progress::Kept {
            self.unconfirmed.remove(copy);
        }
    }

    /// Takes the report that `copy` has taken the whole letter of `term`, and lacks entries ([`ShardCopy::all_came`]).
    /// `true`: that copy will never confirm, so the heir has the configuration drop the copy, and then calls
    /// [`Takeover::removed`]. `false`: the report concerns another term, or the copy has confirmed.
    pub fn lacks(&self, copy: &NodeName, term: Term) -> bool {
        let is_ours = term == self.term && self.progress == Progress::Kept;
        is_ours && self.unconfirmed.contains(copy)
    }

    /// The term in which the heir will serve.
    pub fn term(&self) -> Term {
        self.term
    }

    /// Ends the takeover before it serves: a later term is known. The node stays a copy.
    pub fn abandon(self) -> ShardCopy {
        self.copy
    }

    /// Serves. Everything is settled, so the copy's [`digest`](ShardCopy::digest) gives all that the index lacks.
    ///
    /// # Panics
    /// Before [`Step::Serve`].
    pub fn serve<W>(mut self, min_copies: usize, mut digest: impl FnMut(Entry)) -> Primary<W> {
        assert_eq!(self.next(), Step::Serve, "not everything is settled");
        let settled = self.copy.end().version;
        self.copy.raise_horizon(settled);
        while let Some(entry) = self.copy.digest() {
            digest(entry);
        }
        Primary::new(self.copy, self.in_sync, min_copies)
    }
}
