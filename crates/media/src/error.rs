//! What can go wrong with a medium.

use std::io;
use std::path::PathBuf;

use stonecast_base::Corruption;

/// Making bytes durable failed. What reached the medium is unknown; the region is poisoned.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PersistError {
    /// The operating system reported an error of the device.
    #[error("syncing {file} failed: {source}; what was written since the last sync is unknown, restart to recover")]
    Sync {
        /// The file.
        file: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// An earlier call failed, so this one cannot promise anything.
    #[error("the pool is poisoned by an earlier sync error; restart the server to recover")]
    Poisoned,
}

/// Opening, creating or growing a pool failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MediaError {
    /// A call of the operating system failed.
    #[error("{doing} {path}: {source}")]
    Io {
        /// What was attempted, as a verb ("opening", "mapping").
        doing: &'static str,
        /// On what.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The medium has no room.
    #[error("no space left on {path} for {size} bytes")]
    NoSpace {
        /// The file that could not grow.
        path: PathBuf,
        /// How many bytes it was to grow by.
        size: u64,
    },
    /// Bytes that are not what they must be.
    #[error(transparent)]
    Corrupt(#[from] Corruption),
    /// Another server has the pool open.
    #[error("{path} is in use by another process{}; stop that server first", .pid.map(|p| format!(" (process {p})")).unwrap_or_default())]
    InUse {
        /// The pool.
        path: PathBuf,
        /// Who, where the lock names one.
        pid: Option<u32>,
    },
    /// There is no pool here.
    #[error("there is no pool at {path}; `stonecast serve --data {path}` creates one")]
    NotFound {
        /// Where one was expected.
        path: PathBuf,
    },
    /// A pool is there already.
    #[error("{path} holds a pool already")]
    Exists {
        /// Where one was to be created.
        path: PathBuf,
    },
    /// The pool was written by a format that this version does not know.
    #[error("pool {path} has format version {found}, this program reads up to {supported}; use a newer stonecast")]
    UnsupportedVersion {
        /// The pool.
        path: PathBuf,
        /// Its version.
        found: u32,
        /// The newest that this program knows.
        supported: u32,
    },
    /// The pool uses incompatible features that this version does not know.
    #[error(
        "pool {path} needs features that this program does not have (incompatible feature bits {unknown:#x}); use a newer stonecast"
    )]
    UnsupportedFeatures {
        /// The pool.
        path: PathBuf,
        /// The bits that are unknown.
        unknown: u64,
    },
    /// The medium cannot keep the promise that was asked for.
    #[error("{path} cannot promise --durability power: {reason}; use --durability process, or put the pool on a durable medium")]
    CannotPromise {
        /// The pool.
        path: PathBuf,
        /// Why.
        reason: String,
    },
    /// The options contradict each other or the pool.
    #[error("{0}")]
    Options(String),
    /// Making bytes durable failed.
    #[error(transparent)]
    Persist(#[from] PersistError),
}
