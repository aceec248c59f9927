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
    /// Bytes of the longest record that is stamped, at most [`BODY_SIZE_MAX`](stonecast_replication::BODY_SIZE_MAX).
    /// Records that are longer than a message of a copy go there in pieces.
    pub record_size_max: u32,
    /// Most bytes of the entries, of all shards that this node leads, that are stamped and not on all copies. A copy
    /// digests no entry before a later one says that the entry is on all copies. Each copy therefore needs room for
    /// this many bytes of each node, beside the entries that await a floor; otherwise a shard that is offered too much
    /// stands still.
    pub unsettled_max: u64,
    /// Longest pause between two turns while there is something to do.
    pub pause_ns: Nanoseconds,
    /// Longest pause between two looks at the memory that peers append to, if the device reports no arrivals. A node
    /// that has found nothing for some looks stops looking: peers wake it. All nodes of a cluster have about the same
    /// pause.
    pub look_ns: Nanoseconds,
    /// Pause before an unanswered letter is repeated, and before a failed link is opened again.
    pub repeat_ns: Nanoseconds,
    /// Longest time that a turn waits for the node's own medium. A node that waits longer ends, so that others lead its
    /// shards.
    pub medium_patience_ns: Nanoseconds,
    /// Time without progress after which a primary or an heir has the configuration drop the copies that it waits for
    /// although their nodes are there. Longer than the patience of these nodes with their medium, which ends them.
    pub copy_patience_ns: Nanoseconds,
    /// Time without writes of a shard after which its copies are told the horizon.
    pub idle_ns: Nanoseconds,
    /// Entries that are digested before the floor rises.
    pub floor_after: u64,
    /// Time after which the floor rises even for fewer entries.
    pub floor_after_ns: Nanoseconds,
    /// Longest rest of a node between two turns.
    pub rest_ns: Nanoseconds,
}

/// The number of looks for entries after the last call of a node, before the node stops looking.
const LOOKS: u64 = 64;
/// The length of silence after which a sender wakes its peer, in looks. The rest of [`LOOKS`] is for the difference
/// between the clocks, and the time until an entry is found.
const QUIET_LOOKS: u64 = 16;

impl Options {
    /// Time after a call of the node in which it looks for entries.
    pub(crate) fn looks_ns(&self) -> Nanoseconds {
        LOOKS * self.look_ns
    }

    /// Time without entries after which the peer may make no looks.
    pub(crate) fn quiet_ns(&self) -> Nanoseconds {
        QUIET_LOOKS * self.look_ns
    }
}

/// Processes of an earlier run, over shared memory: a peer that stopped inside a write may have outlived that run.
pub enum EarlierWriters {
    /// No earlier writer was left at the start.
    Gone,
    /// The medium is asked in each turn whether they are gone
    /// ([`AppendedLog::are_earlier_gone`](stonecast_media::AppendedLog::are_earlier_gone)); the node starts after the
    /// first yes.
    AskedAfter(Box<dyn Fn() -> bool>),
}

/// The memory that appends of other nodes fill. Its segments have room for the ledger of a node with a copy of each
/// shard (`check_ledger_room` of the log): otherwise the node ends when its ledger is full.
pub struct Place {
    /// The half that takes the appends, begun on the node's port.
    pub intake: Intake,
    /// The log that the entries are in.
    pub region: Rc<dyn PersistentRegion>,
    /// The key by which the entries prove themselves.
    pub key: AppendKey,
    /// Whether processes of an earlier run may still write there.
    pub earlier_writers: EarlierWriters,
}
