//! The result of a call, and the effect of a failed one.

use stonecast::ErrorKind;
use stonecast::error::StoreError;

/// The first status that is an error. Smaller ones are outcomes, such as a key that is absent, and set no error object.
pub const STONECAST_ERRORS: u32 = 32;

const _: () =
    assert!(Status::Partly as u32 <= STONECAST_ERRORS && STONECAST_ERRORS == Status::Misuse as u32);

/// The result of a call. The numbers do not change between versions; later versions add further ones.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// The call succeeded. A write is durable and visible.
    Ok = 0,
    /// The key is absent. Nothing was done.
    Absent = 1,
    /// The condition of a write did not hold. Nothing was done.
    Conflict = 2,
    /// The iteration is at its end.
    End = 3,
    /// The caller's buffer is too small; nothing was copied.
    TooSmall = 4,
    /// Some pairs of a call were not stored; the outcome of each pair tells.
    Partly = 5,

    /// An argument breaks the contract of this header, or the handle belongs to another thread, or to the process
    /// before a fork.
    Misuse = 32,
    /// The text is not an address.
    Address = 33,
    /// Something that the connection needs is missing or unusable, such as a key file.
    Setup = 34,
    /// No server accepted the connection.
    Unreachable = 35,
    /// The time limit passed without an answer.
    TimedOut = 36,
    /// The pool promises less than the program expects.
    Durability = 37,
    /// The client is closed.
    Closed = 38,
    /// The connection has ended. The client can only be closed.
    Disconnected = 39,
    /// The server refused the connection.
    Refused = 40,
    /// The store does not take this key, value or option, such as a key that is too long.
    Invalid = 41,
    /// The pool, its index or its file system is full, or its medium failed to allocate space.
    NoSpace = 42,
    /// The server had no room for a while, though the pool is not full. Try again later.
    Busy = 43,
    /// The write was first sent too long ago: the server has forgotten its outcome.
    Forgotten = 44,
    /// The cluster is not known, or does not serve the key now.
    Cluster = 45,
    /// The store failed in another way, which the message tells.
    Store = 46,
    /// The library has a defect. The client that was used can only be closed.
    Defect = 47,
}

/// The effect of a failed call on the data.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Nothing was done, and nothing will be.
    None = 0,
    /// The operation was done; the failure came after it.
    Done = 1,
    /// The operation may have been done, or may still be done. Read the key to find out, or repeat a retryable write.
    Unknown = 2,
}

impl Status {
    pub fn of(kind: &ErrorKind) -> Self {
        match kind {
            ErrorKind::Address(_) => Self::Address,
            ErrorKind::Setup(_)
            | ErrorKind::ConfigStore(_)
            | ErrorKind::Node(_)
            | ErrorKind::Mirror(_)
            | ErrorKind::OtherSetting { .. }
            | ErrorKind::TooSmall { .. } => Self::Setup,
            ErrorKind::Unreachable { .. } => Self::Unreachable,
            ErrorKind::Unanswered { .. } | ErrorKind::TimedOut { .. } => Self::TimedOut,
            ErrorKind::Durability { .. } => Self::Durability,
            ErrorKind::Closed => Self::Closed,
            ErrorKind::Cluster(_) => Self::Cluster,
            ErrorKind::Store(error) => Self::of_store(error),
        }
    }

    fn of_store(error: &StoreError) -> Self {
        match error {
            StoreError::KeySize { .. }
            | StoreError::ValueSize { .. }
            | StoreError::EntrySize { .. }
            | StoreError::Invalid => Self::Invalid,
            StoreError::NoSpace { .. }
            | StoreError::MediumFull
            | StoreError::IndexFull
            | StoreError::SpaceFailed => Self::NoSpace,
            StoreError::Busy => Self::Busy,
            StoreError::Forgotten => Self::Forgotten,
            StoreError::Disconnected { .. } | StoreError::Protocol { .. } => Self::Disconnected,
            StoreError::Refused(_) => Self::Refused,
            _ => Self::Store,
        }
    }
}

/// The key was absent, or had this version: the outcome of a write whose condition did not hold.
pub fn of_conflict(version: Option<u64>) -> (Status, u64) {
    match version {
        Some(version) => (Status::Conflict, version),
        None => (Status::Absent, 0),
    }
}
