//! The reasons why a back-end does not go on with a domain.

use stonecast_base::Corruption;
use stonecast_media::PersistError;

use super::medium::MirrorLost;
use crate::wire::{EntryFault, RecordFault};

/// The reason why a back-end does not go on with a domain.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DomainError {
    /// The medium failed, and the durable content is unknown. The pool has to be closed and recovered.
    #[error(transparent)]
    Persist(#[from] PersistError),
    /// The mirror is lost. As after [`DomainError::Persist`], the pool has to be closed and recovered.
    #[error(transparent)]
    Mirror(#[from] MirrorLost),
    /// The pool holds bytes that no crash leaves behind.
    #[error(transparent)]
    Corrupt(#[from] Corruption),
    /// The owner of the tenure wrote a transaction without the right to do so. The transaction and all later records do
    /// not count; the tenure has to end.
    #[error("record {lsn} of tenure {tenure}: {fault}")]
    Refused {
        /// Log sequence number of the record.
        lsn: u64,
        /// The tenure.
        tenure: u32,
        /// The fault.
        fault: EntryFault,
    },
    /// The tenure word was raised: records of the old tenure count only in the hand-over.
    #[error("tenure {tenure} is over: the tenure word is {word}")]
    Over {
        /// The tenure of the log.
        tenure: u32,
        /// The tenure word.
        word: u32,
    },
    /// An earlier tenure has a log that was not handed over.
    #[error("tenure {tenure} has to be handed over first")]
    Held {
        /// The tenure of the log.
        tenure: u32,
    },
    /// No tenure lasts.
    #[error("no tenure is granted")]
    Vacant,
    /// The log has no room for the transactions of the back-end, because its writer reserved none.
    #[error("no room in the log for the execution of operation {operation}: {fault}")]
    NoRoom {
        /// Number of the operation.
        operation: u64,
        /// The missing room.
        fault: crate::tenure::LogFull,
    },
    /// A record that was durable is missing or damaged.
    #[error(
        "record {lsn} of tenure {tenure} was durable, as records up to {horizon} were, and does not check: {fault}"
    )]
    Gap {
        /// Log sequence number of the first record that does not check.
        lsn: u64,
        /// The tenure.
        tenure: u32,
        /// Log sequence number after the last record that was durable.
        horizon: u64,
        /// The content of the record's place.
        fault: RecordFault,
    },
}
