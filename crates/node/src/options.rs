//! The settings of a node, and its surroundings.

use std::rc::Rc;

use stonecast_backup::{Intake, LinkOptions};
use stonecast_base::Nanoseconds;
use stonecast_media::PersistentRegion;
use stonecast_replication::AppendKey;

/// Settings of a node.
#[derive(Clone, Debug)]
pub struct Options {
    /// Options of the links to backups, with the hello of this node.
    pub link: LinkOptions,
    /// Bytes of the longest entry that is stamped, with its header: no more than [`LinkOptions::staging_size`], and than every intake of the cluster
    /// takes. A peer that takes less has no link, and its shards are not served.
    pub entry_size_max: u32,
    /// Pause between two turns.
    pub pause_ns: Nanoseconds,
    /// Pause before an unanswered letter is repeated, and before a failed link is tried again.
    pub repeat_ns: Nanoseconds,
    /// Longest time that a turn waits for the node's own medium. A node that waits longer ends, so that others lead its shards.
    pub medium_patience_ns: Nanoseconds,
    /// Time without writes of a shard after which its copies are told the horizon.
    pub idle_ns: Nanoseconds,
    /// Entries that are digested before the floor rises.
    pub floor_after: u64,
}

/// The memory that appends of other nodes fill.
pub struct Place {
    /// The half that takes the appends, begun on the node's port.
    pub intake: Intake,
    /// The log that the entries are in.
    pub region: Rc<dyn PersistentRegion>,
    /// The key by which the entries prove themselves.
    pub key: AppendKey,
}
