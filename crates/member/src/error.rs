//! The errors that end a membership.

use stonecast_cluster::{ChangeError, NodeName, Stale};

/// The reason why a node is not a member of its cluster. Its store stops serving.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MemberError {
    /// The node could not be registered.
    #[error("{name} cannot be registered: {error}")]
    NotRegistered {
        /// The node.
        name: NodeName,
        /// The reason.
        error: ChangeError,
    },
    /// The pool is of another cluster, or the store has the configuration of another cluster. The store may have been
    /// restored from a copy.
    #[error(transparent)]
    Stale(#[from] Stale),
    /// The epoch could not be made durable, so the node may not answer in that epoch.
    #[error("the epoch cannot be kept: {reason}: mend the medium and start {name} again")]
    EpochNotKept {
        /// The node.
        name: NodeName,
        /// The reason.
        reason: String,
    },
    /// The configuration does not name the node.
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
        /// The latest incarnation.
        known: u64,
    },
    /// The member was stopped by its owner.
    #[error("the member was stopped")]
    Stopped,
}
