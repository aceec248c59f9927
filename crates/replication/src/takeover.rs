//! How an heir takes over a shard: one path for failover, restart and cold start.

use std::collections::{BTreeMap, BTreeSet};

use stonecast_base::mutant;
use stonecast_cluster::{Epoch, NodeName, Term};

use crate::copy::ShardCopy;
use crate::entry::Entry;
use crate::lineage::Lineage;
use crate::primary::Primary;

/// How the appends of a peer ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fence {
    /// Nothing of that peer lands any more.
    Quiesced,
    /// The peer stands still inside an append, and may finish it later.
    Unquiesced,
}

/// What the heir does next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Quiesce all append queue pairs of these peers, and report each by [`Takeover::fenced`].
    Quiesce(BTreeSet<NodeName>),
    /// Wait until all leases of earlier terms are over on the own clock, and report it by [`Takeover::leases_over`].
    AwaitLeases,
    /// Take all entries that are in memory ([`Takeover::copy`]), then call [`Takeover::decide`].
    Read,
    /// Persist what was found, then this history, and report it by [`Takeover::kept`].
    Keep(Lineage),
    /// Send history and entries to these copies, and report each that has persisted both by [`Takeover::confirmed`].
    Settle(BTreeSet<NodeName>),
    /// Digest everything that is left, then [serve](Takeover::serve).
    Serve,
}

/// An heir of a shard, from the moment at which its epoch is durable until it serves.
///
/// ```text
///   quiesce peers ──▶ [leases over, if a peer is unquiesced] ──▶ read ──▶ decide: the own log is the history
///     ──▶ keep ──▶ settle on every copy ──▶ [leases over] ──▶ serve
/// ```
///
/// Acknowledged means: on every copy in sync. So the heir's log has everything that was acknowledged, and what it has beyond that was told
/// to nobody: it is settled on all copies before anybody hears of it.
///
/// A crash of the heir on the way leaves copies that have kept its history, and others that have not. Nothing of the new term was told, so the
/// next heir decides by its own log again.
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

/// A takeover in a term that this node has been in. Each start of a primary takes a new term: in its old one it may have given versions
/// and cuts that it does not know any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("term {found} is not new: the node was in epoch {known}; change the configuration first")]
pub struct TermNotNew {
    /// The term of the takeover.
    pub found: Term,
    /// The epoch of the node before.
    pub known: Epoch,
}

impl Takeover {
    /// Begins: `me` is the heir of `term`, which is durable on this node; it was in epoch `before` until then. `lost` are the nodes that
    /// may append in earlier terms: all of `in_sync` and those that the configuration has removed, but `me`.
    ///
    /// # Errors
    /// The node has been in this term: a process that starts again, also in the middle of a takeover, needs another one.
    ///
    /// # Panics
    /// Where `me` is not in sync: a primary has everything.
    pub fn new(
        term: Term,
        before: Epoch,
        me: &NodeName,
        copy: ShardCopy,
        in_sync: BTreeSet<NodeName>,
        lost: impl IntoIterator<Item = NodeName>,
    ) -> Result<Self, TermNotNew> {
        assert!(in_sync.contains(me), "an heir is in sync");
        if term <= before && !mutant!(TermReused) {
            return Err(TermNotNew {
                found: term,
                known: before,
            });
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

    /// What to do next. It stays the same until it is reported.
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
        // What lands after the look at the memory is void. Its sender may call it done until the sender's lease is over.
        if unquiesced && !self.leases_over && !mutant!(UnquiescedIgnored) {
            return Step::AwaitLeases;
        }
        Step::Read
    }

    /// The append queue pairs of `peer` have ended so.
    pub fn fenced(&mut self, peer: &NodeName, fence: Fence) {
        if let Some(known) = self.fences.get_mut(peer) {
            *known = Some(fence);
        }
    }

    /// All leases of earlier terms are over on the own clock: the primaries' and those of their readers, which end within them.
    pub fn leases_over(&mut self) {
        self.leases_over = true;
    }

    /// The copy, to take what is in memory.
    pub fn copy(&mut self) -> &mut ShardCopy {
        &mut self.copy
    }

    /// The own log decides: everything without a gap is the history of the shard, and nothing else of earlier terms is.
    ///
    /// # Panics
    /// Before [`Step::Read`].
    pub fn decide(&mut self) {
        assert_eq!(self.next(), Step::Read, "the memory may change yet");
        self.copy.close(self.term);
        self.progress = Progress::Decided;
        if mutant!(NotSettled) {
            self.progress = Progress::Kept;
        }
    }

    /// What was found and the history are durable here.
    pub fn kept(&mut self) {
        self.progress = self.progress.max(Progress::Kept);
    }

    /// What `copy` is sent: the history, by which it judges, then all entries that may be missing there. It knows most of them.
    pub fn history(&self) -> (Lineage, Vec<Entry>) {
        let entries = self.copy.undigested().iter().copied().collect();
        (self.copy.lineage().clone(), entries)
    }

    /// `copy` has entered the term, and has persisted all of [`Takeover::history`].
    pub fn confirmed(&mut self, copy: &NodeName) {
        self.unconfirmed.remove(copy);
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
