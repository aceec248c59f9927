//! Refused entries, and the end of a link.

use stonecast_base::Nanoseconds;
use stonecast_fabric::DeviceError;

use super::ears::Trouble;
use super::sent::Posted;
use crate::stream::StreamName;

/// The reason why the link did not take an entry, or not all of its pieces.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NotSent {
    /// The backup has not granted enough credits. [`BackupLink::credited`](crate::BackupLink::credited) waits for them.
    #[error("an entry of {cost} credits, and the backup has granted {left}")]
    NoCredit {
        /// Cost of the entry.
        cost: u64,
        /// Credits that are left.
        left: u64,
    },
    /// Too many entries, or too many bytes, are appended and not reported.
    #[error("{entries} entries are under way, and this one has no room; take reports first")]
    Full {
        /// Entries under way.
        entries: usize,
    },
    /// The stream was given up, by [`BackupLink::give_up`](crate::BackupLink::give_up) or by the backup.
    #[error(
        "the stream of shard {} in term {}, join {}, was given up", .0.shard, .0.term, .0.join
    )]
    Closed(StreamName),
    /// The device refused the batch. Its entries wait for the next flush.
    #[error(transparent)]
    Refused(DeviceError),
    /// The connection has ended; [`BackupLink::report`](crate::BackupLink::report) says which entries may be persisted.
    #[error("the connection has ended; connect again")]
    Ended,
}

/// The connection has ended. All entries that are known to be persisted were reported before.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "connection {connection} to a backup ended ({trouble}): {} entries may be persisted, {} were never sent", unknown.len(),
    never_sent.len()
)]
pub struct LinkEnded {
    /// Number of the connection.
    pub connection: u64,
    /// The reason why the connection ended.
    pub trouble: Trouble,
    /// Entries that may be persisted, or may become so until the backup has fenced this session.
    pub unknown: Vec<Posted>,
    /// Entries that were never sent.
    pub never_sent: Vec<Posted>,
}

/// The backup granted too few credits for as long as this side waits.
#[derive(Debug, thiserror::Error)]
#[error("no credit for an entry of {size} bytes in {waited_ns} ns: {left} credits are left")]
pub struct NoCreditInTime {
    /// Bytes of the entry.
    pub size: u32,
    /// Credits that are left.
    pub left: u64,
    /// The time.
    pub waited_ns: Nanoseconds,
}
