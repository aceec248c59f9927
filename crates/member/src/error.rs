//! Why a node is no member, or no longer.

use stonecast_cluster::{ChangeError, NodeName, Stale};

/// Why a node is not a member of its cluster. Its store stops serving.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MemberError {
    /// The node could not be registered.
    #[error("{name} cannot be registered: {error}")]
    NotRegistered {
        /// The node.
        name: NodeName,
        /// Why.
        error: ChangeError,
    },
    /// The pool is of another cluster, or the store has another one: it was restored from a copy, perhaps.
    #[error(transparent)]
    Stale(#[from] Stale),
    /// The epoch could not be made durable, so nothing may be answered in it.
    #[error("the epoch cannot be kept: {reason}: mend the medium and start {name} again")]
    EpochNotKept {
        /// The node.
        name: NodeName,
        /// Why.
        reason: String,
    },
    /// The configuration names the node no longer.
    #[error("{name} was taken out of the configuration")]
    Forgotten {
        /// The node.
        name: NodeName,
    },
    /// The pool was started by another process.
    #[error("{name} was started again: this is its start {own}, and the last one is {known}")]
    Superseded {
        /// The node.
        name: NodeName,
        /// The incarnation of this process.
        own: u64,
        /// The latest one.
        known: u64,
    },
    /// The member was stopped by its owner.
    #[error("the member was stopped")]
    Stopped,
}
