//! The names of streams, and their standing on a backup.

use stonecast_cluster::Term;

/// The entries of a shard in one term, as one backup gets them. A node that leaves a shard and joins it again gets
/// another stream: answers about the earlier stream do not count.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StreamName {
    /// Number of the shard.
    pub shard: u32,
    /// The term in which the primary stamped.
    pub term: Term,
    /// Number of the backup's join.
    pub join: u64,
}

/// The state of a stream on a backup.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Told {
    pub stream: StreamName,
    pub standing: Standing,
}

/// The standing of a stream on a backup.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    /// Every entry up to this version is durable.
    Reached(u64),
    /// The backup takes no further entries of the stream, ever.
    Closed,
}
