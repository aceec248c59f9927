//! The reasons why a node ends, and why it takes no write.

use stonecast_backup::{IntakeError, NotLinked};
use stonecast_base::Nanoseconds;
use stonecast_cluster::Nonce;
use stonecast_member::MemberError;
use stonecast_replication::{LaterTerm, NotStamped};

use crate::store::NotDurable;

/// The reason why a node has ended. The node has resigned and renews no lease; its copies are the
/// durable ones.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NodeError {
    /// The node is no longer a member of its cluster, or never became one.
    #[error(transparent)]
    Member(#[from] MemberError),
    /// The memory for appends failed, or is not as declared.
    #[error(transparent)]
    Intake(#[from] IntakeError),
    /// The medium of the store failed.
    #[error(transparent)]
    Store(#[from] NotDurable),
    /// The medium of the store, or of the memory for appends, has not ended its work.
    #[error(
        "the medium has not ended its work in {waited_ns} ns: the node has given its shards up"
    )]
    MediumHangs {
        /// The time.
        waited_ns: Nanoseconds,
    },
    /// The log of the store has had no room for records of other nodes, and cleaning has made none.
    #[error(
        "the pool has had no room for records of other nodes in {waited_ns} ns: the node has given its shards up; enlarge the pool with `stonecast grow`, or begin with a larger one"
    )]
    NoRoom {
        /// The time.
        waited_ns: Nanoseconds,
    },
    /// The pool has the history of a shard of another cluster, or of a store that served the pool alone. Its terms mean
    /// nothing here.
    #[error(
        "shard {shard}: the pool has a history of the cluster {found}, and the node is of {expected}; begin with a new pool"
    )]
    OtherCluster {
        /// The shard.
        shard: u32,
        /// The cluster of the history; zero: a store that served the pool alone.
        found: Nonce,
        /// The cluster of the node.
        expected: Nonce,
    },
    /// The pool has an entry of a term that the node had not entered: its history was lost.
    #[error("shard {shard}: {later}")]
    LaterTerm {
        /// The shard.
        shard: u32,
        /// The entry.
        later: LaterTerm,
    },
}

impl NodeError {
    /// Whether the cluster has ended the node, or has not taken it. The pool of the node is sound.
    pub fn is_of_the_cluster(&self) -> bool {
        matches!(self, Self::Member(_))
    }
}

/// The reason why a peer has no link.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NoLink {
    #[error("the configuration names no address")]
    NoAddress,
    #[error(transparent)]
    NotLinked(#[from] NotLinked),
}

/// The reason why a write was not stamped. The write leaves no trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotServed {
    /// Another node leads the shard, or no node does.
    #[error("this node does not lead shard {shard}: ask its primary")]
    NotThePrimary {
        /// The shard.
        shard: u32,
    },
    /// A record without a byte is no record.
    #[error("a record of shard {shard} without a byte: an entry has a body")]
    Empty {
        /// The shard.
        shard: u32,
    },
    /// No copy takes the record.
    #[error(
        "a record of {size} bytes, and the longest one has {longest}; cut the value into pieces"
    )]
    TooLong {
        /// Bytes of the record.
        size: u64,
        /// Bytes of the longest.
        longest: u32,
    },
    /// The copies have no room for a further entry: [`Node::room`](crate::Node::room) waits until they have.
    #[error(
        "entries of {unsettled} bytes wait for the copies of this node's shards, and {limit} may: wait for room"
    )]
    NoRoom {
        /// Bytes of the entries that wait, as the copies with the coarsest places count them.
        unsettled: u64,
        /// The most bytes.
        limit: u64,
    },
    /// The primary takes no write at this moment.
    #[error(transparent)]
    NotStamped(#[from] NotStamped),
}
