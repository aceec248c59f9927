//! Errors of published designs.

use stonecast_fabric::{DeviceError, Status};
use stonecast_media::PersistError;

/// An operation of a published design failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PublishedError {
    /// The device refused an operation.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// Bytes could not be made durable.
    #[error(transparent)]
    Persist(#[from] PersistError),
    /// A work request failed; the connection is no longer usable.
    #[error("a work request failed: {0}")]
    Failed(Status),
    /// The server refused the connection, or is gone.
    #[error("no connection: {0}")]
    Connection(String),
    /// A key or value has a length other than the store's.
    #[error(
        "{what} has {size} bytes, but this store's have {expected}: published designs use one length for all"
    )]
    Size {
        /// Key or value.
        what: &'static str,
        /// The length of the key or value.
        size: usize,
        /// The store's length.
        expected: usize,
    },
    /// The table or the log is full.
    #[error("no space: the published design cannot take more")]
    Full,
    /// A copy could not be made: the entry may count or not.
    #[error("a copy of the entry could not be made; whether the operation took effect is unknown")]
    Unknown,
    /// The server is not the primary of the key's shard.
    #[error("the server is not the primary of the key's shard; ask for the shard's new place")]
    Elsewhere,
    /// The peer sent an invalid message.
    #[error("the peer sent an invalid message: {0}")]
    Protocol(&'static str),
}
