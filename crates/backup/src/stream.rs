//! Names of what is appended, and how far it is durable.

use stonecast_cluster::Term;

/// The entries of a shard in one term, as one backup gets them. A node that leaves a shard and joins it again gets another stream:
/// nothing that was said of the earlier one counts.
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

/// How a stream stands on a backup.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    /// Every entry up to this version is durable.
    Reached(u64),
    /// The backup takes no more of it, for good.
    Closed,
}
