//! The errors of operations.
//!
//! An error takes at most three words. A result is moved to its caller, and a move of a hundred bytes is noticeable in
//! a read that is a load. Facts that need more room are boxed.

use stonecast_backup::LedgerError;
use stonecast_base::{Corruption, MIB};
use stonecast_fabric::DeviceError;
use stonecast_lineage::Epoch;
use stonecast_log::LedgerFull;
use stonecast_media::{MediaError, PersistError};
use stonecast_node::NodeError;
use stonecast_persist::execute::NoCommit;

/// Whether a failed operation had an effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Nothing was done.
    None,
    /// The operation may have taken effect, or may still do so. Find out by reading, or retry with the same
    /// [`crate::Token`].
    Unknown,
}

/// A connection that was refused.
#[derive(Debug, thiserror::Error)]
#[error("cannot connect to {address}: {reason}")]
pub struct Refusal {
    /// Address of the server.
    pub address: String,
    /// Reason that the server gave.
    pub reason: String,
}

/// The reason why an operation failed. [`StoreError::effect`] tells what the failure means for the data.
///
/// The enum is exhaustive on purpose: a new variant does not compile until every match that gives
/// errors a meaning names it.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The key is empty or too long.
    #[error(
        "key of {size} bytes: keys have 1 to {max} bytes; nothing was done. {}",
        if *.size == 0 { "Name a key" } else { "Shorten the key, or take its hash as the key" }
    )]
    KeySize {
        /// The length of the key.
        size: usize,
        /// The longest length.
        max: usize,
    },
    /// The value is too long.
    #[error(
        "value of {size} bytes: values have at most {max} bytes; nothing was done. Split the value over several keys"
    )]
    ValueSize {
        /// The length of the value.
        size: usize,
        /// The longest length.
        max: usize,
    },
    /// The pool is full.
    #[error(
        "no space: the pool is full, with {:.1} MiB of live records in {:.1} MiB; reads and deletes continue. Delete keys, or export them into a pool with more --capacity",
        mib(*live),
        mib(*capacity)
    )]
    NoSpace {
        /// Bytes of the records that are live.
        live: u64,
        /// Bytes of the pool.
        capacity: u64,
    },
    /// The file system that the pool lies on is full.
    #[error(
        "no space left on the file system that the pool lies on; nothing was done, reads and deletes continue. Free space there, or move the pool; the server's messages name the path"
    )]
    MediumFull,
    /// Other clients hold the room, or room is being made, and none became free in time.
    #[error(
        "the server is busy: for 20 s and more it had no room for the record, though the pool is not full. Nothing was done; try again"
    )]
    Busy,
    /// The index is full, and the server has no memory for a larger one.
    #[error(
        "the index is full and the server has no memory for a larger one; nothing was done, reads and deletes continue. Delete keys, or give the server more memory"
    )]
    IndexFull,
    /// The medium failed to allocate space, though the medium is not full.
    #[error(
        "the server's medium failed to allocate space; nothing was done. Look for errors of the disk on the server's machine"
    )]
    SpaceFailed,
    /// The server refused the request as invalid.
    #[error("the server refused the request as invalid; nothing was done")]
    Invalid,
    /// The server does not lead the key's shard in the term that the client named.
    #[error(
        "the server does not lead the key's shard: the cluster has changed, up to epoch {epoch} at least. This attempt has done nothing"
    )]
    NotPrimary {
        /// The epoch of the configuration that the server knows.
        epoch: Epoch,
    },
    /// The shard of the key has fewer copies than the policy of the cluster asks for.
    #[error(
        "the key's shard has {found} copies, fewer than the policy of the cluster asks for; nothing was done. Start the nodes that are missing, or add one"
    )]
    TooFewCopies {
        /// Copies of the shard.
        found: u64,
    },
    /// The nodes of the cluster take no entry that is as long as the record.
    #[error(
        "the record is too long for the nodes of the cluster, whose longest entry has {max} bytes; nothing was done. Split the value over several keys"
    )]
    EntrySize {
        /// Bytes of the longest entry.
        max: u64,
    },
    /// The batch names too many keys.
    #[error(
        "a batch that changes {count} keys: batches change at most {max}; nothing was done. Split the batch"
    )]
    BatchKeys {
        /// Keys that the batch changes.
        count: usize,
        /// Keys that the largest batch changes.
        max: usize,
    },
    /// The batch names too many keys.
    #[error(
        "a batch that names {count} keys: batches name at most {max}, changed or only expected; nothing was done. Split the batch"
    )]
    BatchNames {
        /// Keys that the batch names.
        count: usize,
        /// Keys that the largest batch names.
        max: usize,
    },
    /// The batch is too long.
    #[error(
        "a batch of {size} bytes: batches have at most {max} in this pool, with keys, values and what the log adds; nothing was done. Split the batch"
    )]
    BatchSize {
        /// Bytes of the batch.
        size: usize,
        /// Bytes of the longest batch.
        max: usize,
    },
    /// The chunks of a long value were dropped before the record that names them came: more than ten minutes passed, or
    /// the server was started again meanwhile.
    #[error(
        "the value is written in chunks, and the server has dropped some of them: writing took more than ten minutes, or the server was started again. Nothing was done; write the value again"
    )]
    ChunksGone,
    /// A chunk of a long value was not stored, or may lie there without a record that names it.
    #[error(
        "a chunk of the value was not stored: {reason}. Nothing was done; write the value again"
    )]
    ChunkFailed {
        /// The reason.
        reason: &'static str,
    },
    /// The server is of a cluster, which takes one key at a time.
    #[error(
        "the server is alone on a pool of a cluster, and takes no batches; nothing was done. Start it as a node of its cluster, or write one key at a time"
    )]
    NoBatch,
    /// The keys of a batch are of several shards of a cluster. Nothing was done.
    #[error(
        "the keys {} and {} of one batch are of different shards of the cluster; nothing was done. A batch takes keys of one shard: apply one batch for each shard, or keep the values together in one key",
        keys[0].escape_ascii(), keys[1].escape_ascii()
    )]
    BatchShards {
        /// The first key of the batch, and a key of another shard.
        keys: Box<[Vec<u8>; 2]>,
    },
    /// The server cannot keep the records that a backup has to read.
    #[error("the server cannot be backed up while it serves: {reason}")]
    NoHold {
        /// Reason, and remedy.
        reason: &'static str,
    },
    /// The server no longer keeps records for the backup.
    #[error(
        "the backup has lost its hold: it read more slowly than others wrote, or another backup has begun. Nothing was written to the store; begin again, when fewer keys are overwritten"
    )]
    HoldLost,
    /// The version on which a backup is to be based is later than everything in the store.
    #[error(
        "the backup is to be based on version {base}, and the store has not got beyond version {version}: the base is of another store, or the store was set back. Make a full backup"
    )]
    BaseBeyond {
        /// The version of the base.
        base: u64,
        /// The version of the store.
        version: u64,
    },
    /// A pool without a seed of a cluster cannot be a copy.
    #[error(
        "the pool belongs to no cluster, and its records are hashed by a seed of its own: let the node begin with a new pool"
    )]
    NoClusterPool,
    /// The node of a cluster has ended.
    #[error("the node has ended: {0}")]
    Node(#[source] Box<NodeError>),
    /// The token belongs to a write so long ago that the server has forgotten the outcome.
    #[error(
        "the write was first sent too long ago, and the server has forgotten its outcome. Find out by reading"
    )]
    Forgotten,
    /// Clients of a server that ended without closing the pool may still publish in it.
    #[error(
        "processes that were clients of the last server still have the log mapped, and may publish in it; nothing was changed. End them, then start the server again"
    )]
    Publishers,
    /// Clients of this server cannot publish their overwrites themselves.
    #[error("clients cannot publish overwrites themselves: {reason}")]
    Publication {
        /// Reason, and remedy.
        reason: &'static str,
    },
    /// The pool belongs to a cluster, and may lack records that its node has reported to others.
    #[error(
        "the pool is of a cluster, and {reason}: its node may have told others of records that are gone. Take the node out (`stonecast cluster remove NODE`), remove the pool, and start the node with a new one"
    )]
    CopyLost {
        /// The event in which the pool may have lost records.
        reason: &'static str,
    },
    /// The ledger of the pool has no room for the histories of its shards.
    #[error(transparent)]
    Ledger(#[from] LedgerFull),
    /// Bytes are corrupt.
    #[error(transparent)]
    Corrupt(Box<Corruption>),
    /// The connection ended before the answer came.
    #[error("the connection to the server ended{}", if *.unknown { " before it answered: the outcome is unknown" } else { "; nothing was done" })]
    Disconnected {
        /// Whether the operation had been sent.
        unknown: bool,
    },
    /// The server refused the connection.
    #[error(transparent)]
    Refused(Box<Refusal>),
    /// The peer violated the protocol.
    #[error("protocol violation: {what}")]
    Protocol {
        /// The violation.
        what: &'static str,
    },
    /// The server could not make the write durable.
    #[error(
        "the server could not make the write durable; its outcome is unknown. See the server's messages"
    )]
    NotPersisted,
    /// No plan makes writes durable on the platform that the pool declares.
    #[error("cannot serve durable writes: {0}")]
    NoPlan(#[source] Box<NoCommit>),
    /// The fabric refused a call.
    #[error(transparent)]
    Device(Box<DeviceError>),
    /// The medium refused a call.
    #[error(transparent)]
    Media(Box<MediaError>),
}

impl StoreError {
    /// The server at `address` refused the connection.
    pub fn refused(address: &str, reason: impl Into<String>) -> Self {
        Self::Refused(Box::new(Refusal {
            address: address.to_owned(),
            reason: reason.into(),
        }))
    }

    /// Whether the write failed for want of room. Nothing was done, and the connection can be used.
    pub fn is_for_want_of_room(&self) -> bool {
        matches!(self, Self::NoSpace { .. } | Self::MediumFull | Self::Busy)
    }

    /// The effect that the failed operation had on the data.
    pub fn effect(&self) -> Effect {
        match self {
            Self::Disconnected { unknown: true }
            | Self::NotPersisted
            | Self::Protocol { .. }
            | Self::Forgotten => Effect::Unknown,
            Self::KeySize { .. }
            | Self::ValueSize { .. }
            | Self::NoSpace { .. }
            | Self::MediumFull
            | Self::Busy
            | Self::IndexFull
            | Self::SpaceFailed
            | Self::Invalid
            | Self::NotPrimary { .. }
            | Self::TooFewCopies { .. }
            | Self::EntrySize { .. }
            | Self::BatchKeys { .. }
            | Self::BatchNames { .. }
            | Self::BatchSize { .. }
            | Self::ChunksGone
            | Self::ChunkFailed { .. }
            | Self::NoBatch
            | Self::BatchShards { .. }
            | Self::NoHold { .. }
            | Self::HoldLost
            | Self::BaseBeyond { .. }
            | Self::NoClusterPool
            | Self::Node(_)
            | Self::Publishers
            | Self::Publication { .. }
            | Self::CopyLost { .. }
            | Self::Ledger(_)
            | Self::Corrupt(_)
            | Self::Disconnected { unknown: false }
            | Self::Refused(_)
            | Self::NoPlan(_)
            | Self::Device(_)
            | Self::Media(_) => Effect::None,
        }
    }

    /// Whether the server has refused a write. The server decides about a repeated write only when the server knows
    /// that the earlier attempts did nothing. A refusal therefore means that no attempt has done anything.
    pub fn is_refusal_of_write(&self) -> bool {
        self.is_for_want_of_room()
            || matches!(
                self,
                Self::IndexFull
                    | Self::SpaceFailed
                    | Self::Invalid
                    | Self::ChunksGone
                    | Self::NoBatch
                    | Self::BatchShards { .. }
            )
    }
}

fn mib(bytes: u64) -> f64 {
    bytes as f64 / MIB as f64
}

impl From<Corruption> for StoreError {
    fn from(corruption: Corruption) -> Self {
        Self::Corrupt(Box::new(corruption))
    }
}

impl From<NoCommit> for StoreError {
    fn from(refused: NoCommit) -> Self {
        Self::NoPlan(Box::new(refused))
    }
}

impl From<DeviceError> for StoreError {
    fn from(error: DeviceError) -> Self {
        Self::Device(Box::new(error))
    }
}

impl From<MediaError> for StoreError {
    fn from(error: MediaError) -> Self {
        Self::Media(Box::new(error))
    }
}

impl From<LedgerError> for StoreError {
    fn from(error: LedgerError) -> Self {
        match error {
            LedgerError::Full(full) => Self::Ledger(full),
            LedgerError::Medium(failed) => MediaError::from(failed).into(),
            LedgerError::Failed => MediaError::from(PersistError::Poisoned).into(),
            // Recovery names a home before the first ledger is written, and appends turn no other segment into one.
            other => unreachable!("the ledger of a pool that is served has a home: {other}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An error says what was wrong, what is allowed, and what to do.
    #[test]
    fn a_key_or_value_of_a_wrong_length_is_refused_with_the_limit_and_a_remedy() {
        let words = |size| StoreError::KeySize { size, max: 1024 }.to_string();
        assert_eq!(
            words(1025),
            "key of 1025 bytes: keys have 1 to 1024 bytes; nothing was done. Shorten the key, or take its hash as the key"
        );
        assert_eq!(
            words(0),
            "key of 0 bytes: keys have 1 to 1024 bytes; nothing was done. Name a key"
        );
        let long = StoreError::ValueSize {
            size: 2_000_000,
            max: 1_048_576,
        };
        assert_eq!(
            long.to_string(),
            "value of 2000000 bytes: values have at most 1048576 bytes; nothing was done. Split the value over several keys"
        );
    }

    /// Fails without the boxes.
    #[test]
    fn a_result_of_a_read_is_three_words() {
        assert_eq!(size_of::<Result<Option<u64>, StoreError>>(), 24);
    }
}
