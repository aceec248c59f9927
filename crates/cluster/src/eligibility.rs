//! The judgement on the pool of a node that starts: for each group, whether the pool is a copy.
//!
//! The change that registers the start decides ([`Configuration::register`]), so no configuration names a start whose
//! copies are in doubt.

use std::collections::BTreeMap;

use stonecast_media::Durability;

use crate::configuration::{Configuration, Node, Nonce, Subject};

/// The worst event in the life of a pool since it was last served.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Survived {
    /// The pool was closed.
    Close,
    /// The processes of the pool died.
    ProcessDeath,
    /// The machine of the pool lost power, or may have lost power.
    PowerLoss,
}

/// The part of one group that a node finds in its pool.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FoundCopy {
    /// No version up to this one is missing.
    pub contiguous: u64,
    /// The highest version that was ever known to be on all copies.
    pub horizon: u64,
}

/// The content of a pool, as its node finds it at a start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// The worst event that the pool had to survive.
    pub survived: Survived,
    /// The groups that have a record in the pool. A node persists that record before its first entry of a group. If a
    /// group has no record, no write to the group was acknowledged while this node was in sync. Such a copy is empty,
    /// and whole.
    pub copies: BTreeMap<Subject, FoundCopy>,
}

impl Found {
    /// A pool that was closed and never persisted anything.
    pub const fn nothing() -> Self {
        Self {
            survived: Survived::Close,
            copies: BTreeMap::new(),
        }
    }
}

/// A start of a node, as it is registered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Start {
    /// The node as it describes itself.
    pub node: Node,
    /// The cluster of the pool, as its epoch cell says; `None` if the pool was never in a cluster.
    pub cluster: Option<Nonce>,
    /// The content of the pool.
    pub found: Found,
}

impl Start {
    /// The first start of a node, with a new pool.
    pub const fn first(node: Node) -> Self {
        Self {
            node,
            cluster: None,
            found: Found::nothing(),
        }
    }
}

/// The reason why a pool is no copy of a group.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotACopy {
    /// The pool is of another cluster, of an earlier life of this cluster, or of none.
    #[error("the pool is of another cluster, or was in none")]
    OtherCluster,
    /// The worst event is more than the pool promises to survive.
    #[error(
        "the machine lost power, and the pool promises to survive the death of processes alone"
    )]
    PromiseExceeded,
    /// Versions that were on all copies are missing.
    #[error("versions from {first} to {horizon} are missing, and were on all copies")]
    Gap {
        /// The first missing version.
        first: u64,
        /// The highest version that is known to have been on all copies.
        horizon: u64,
    },
    /// The node of the copy is there, and has taken no entry.
    #[error(
        "the node grants leases, and has taken no entry for {waited_ns} ns: its log may have no free segment"
    )]
    TakesNothing {
        /// The time for which the primary has waited.
        waited_ns: u64,
    },
}

impl Configuration {
    /// Checks that the pool of `start` is a copy of `subject` that counts. The pool must be of this cluster, its
    /// promise must cover the worst event, and it must have every version that was known to be on all copies.
    pub(crate) fn judge(&self, start: &Start, subject: &Subject) -> Result<(), NotACopy> {
        if start.cluster != Some(self.nonce) {
            return Err(NotACopy::OtherCluster);
        }
        let promise = start.node.survives.parse();
        if start.found.survived == Survived::PowerLoss && promise != Ok(Durability::Power) {
            return Err(NotACopy::PromiseExceeded);
        }
        let copy = start.found.copies.get(subject).copied();
        let copy = copy.unwrap_or_default();
        if copy.contiguous < copy.horizon {
            return Err(NotACopy::Gap {
                first: copy.contiguous + 1,
                horizon: copy.horizon,
            });
        }
        Ok(())
    }
}
