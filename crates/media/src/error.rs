//! Errors of a medium.

use std::io;
use std::path::{Path, PathBuf};

use stonecast_base::Corruption;

use crate::pool::Content;

/// Making bytes durable failed. It is unknown which bytes reached the medium, and the region is poisoned.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PersistError {
    /// The operating system reported an error of the device.
    #[error(
        "syncing {file} failed: {source}; the fate of the writes since the last sync is unknown; restart the server to recover"
    )]
    Sync {
        /// The file.
        file: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// An earlier call failed, so this call can promise nothing.
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
        /// The attempt, as a verb ("opening", "mapping").
        doing: &'static str,
        /// The file or place.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The medium has no free space.
    #[error("no space left on {path} for {size} bytes")]
    NoSpace {
        /// The file that could not grow.
        path: PathBuf,
        /// Bytes by which it was to grow.
        size: u64,
    },
    /// Bytes on the medium failed a check.
    #[error(transparent)]
    Corrupt(#[from] Corruption),
    /// Both copies of the pool header are damaged, so the other files cannot be read.
    #[error("{first}; and the other copy too: {second}; restore the file from a backup")]
    HeaderLost {
        /// Damage of the first copy.
        first: Corruption,
        /// Damage of the second copy.
        second: Corruption,
    },
    /// Another server has the pool open.
    #[error("{path} is in use by another process{}; stop that server first", .pid.map(|p| format!(" (process {p})")).unwrap_or_default())]
    InUse {
        /// The pool.
        path: PathBuf,
        /// The process, if the lock names one.
        pid: Option<u32>,
    },
    /// No pool is here.
    #[error("there is no pool at {path}; `stonecast serve --data {path}` creates one")]
    NotFound {
        /// The place where a pool was expected.
        path: PathBuf,
    },
    /// The place holds files that belong to no pool.
    #[error(
        "{path} holds no pool, and other files: {names}; name a folder that holds only the pool, or a folder that does not exist yet"
    )]
    Foreign {
        /// The place where a pool was to be created.
        path: PathBuf,
        /// Some of the files.
        names: String,
    },
    /// The place holds a pool already.
    #[error("{path} holds a pool already")]
    Exists {
        /// The place where a pool was to be created.
        path: PathBuf,
    },
    /// The pool has a newer format than this program knows.
    #[error(
        "pool {path} has format version {found}, but this program reads up to {supported}; use a newer stonecast"
    )]
    UnsupportedVersion {
        /// The pool.
        path: PathBuf,
        /// Version of its format.
        found: u32,
        /// The newest version that this program knows.
        supported: u32,
    },
    /// The pool has an older format than this program reads.
    #[error(
        "pool {path} has format version {found}, but this program reads {supported}; export it with the stonecast that wrote it, and \
         import it into a new pool"
    )]
    OutdatedVersion {
        /// The pool.
        path: PathBuf,
        /// Version of its format.
        found: u32,
        /// The version that this program reads.
        supported: u32,
    },
    /// The pool's content is not of the kind for which it was opened.
    #[error(
        "{path} is a pool of {found}, not of {expected}; {}",
        match found {
            Content::Structures => "serve it with --structures",
            Content::KeysAndValues => "serve it with --data",
        }
    )]
    OtherContent {
        /// The pool.
        path: PathBuf,
        /// The content.
        found: Content,
        /// The content that was expected.
        expected: Content,
    },
    /// The pool uses incompatible features that this program does not know.
    #[error(
        "pool {path} needs features that this program does not have (incompatible feature bits {unknown:#x}); use a newer stonecast"
    )]
    UnsupportedFeatures {
        /// The pool.
        path: PathBuf,
        /// The unknown feature bits.
        unknown: u64,
    },
    /// The pool uses features that this program does not know and that forbid it to write.
    #[error(
        "pool {path} can only be inspected by this program (read-only compatible feature bits {unknown:#x} are unknown); \
         use a newer stonecast to serve it"
    )]
    ReadOnlyFeatures {
        /// The pool.
        path: PathBuf,
        /// The unknown feature bits.
        unknown: u64,
    },
    /// The pool is a copy that was made while the pool was served.
    #[error(
        "pool {path} was copied while it was served, so writes that were acknowledged may be missing here: {log} is file \
         {found:#x}, served was {expected:#x}; copy a pool when its server has ended, or serve this one as it is with \
         --accept-copy"
    )]
    Copied {
        /// The pool.
        path: PathBuf,
        /// The log.
        log: String,
        /// The home of the copy; see [`Backing::home`](crate::Backing::home).
        found: u128,
        /// The home in which the pool was last served.
        expected: u128,
    },
    /// The pool was opened as many times as its format can count.
    #[error(
        "pool {path} was opened 2^32 times, and its format cannot count further; export it and import it into a new pool"
    )]
    OpeningsExhausted {
        /// The pool.
        path: PathBuf,
    },
    /// A pool that is to grow was not closed in order.
    #[error(
        "pool {path} was not closed, and only a closed pool grows; serve it with `stonecast serve`, end that server in order, and \
         grow the pool then"
    )]
    NotClosed {
        /// The pool.
        path: PathBuf,
    },
    /// A pool was to get a smaller capacity than it has.
    #[error(
        "pool {path} has a capacity of {capacity} bytes, and no pool shrinks to {asked}; back it up, and restore it into a new pool"
    )]
    Shrink {
        /// The pool.
        path: PathBuf,
        /// Bytes that it has.
        capacity: u64,
        /// Bytes that it was to have.
        asked: u64,
    },
    /// A pool of this kind does not grow.
    #[error("pool {path} cannot grow: {reason}")]
    CannotGrow {
        /// The pool.
        path: PathBuf,
        /// Cause and remedy.
        reason: &'static str,
    },
    /// The place cannot hold a pool of any kind.
    #[error("{path} cannot hold a pool: {reason}")]
    Unsuitable {
        /// The place.
        path: PathBuf,
        /// Cause and remedy.
        reason: &'static str,
    },
    /// The medium cannot keep the promise that the pool is to make.
    #[error(
        "{path} cannot promise --durability power: {reason}; use --durability process, or put the pool on a durable medium"
    )]
    CannotPromise {
        /// The pool.
        path: PathBuf,
        /// Cause and remedy.
        reason: String,
    },
    /// The options contradict each other or the pool.
    #[error("{0}")]
    Options(String),
    /// Making bytes durable failed.
    #[error(transparent)]
    Persist(#[from] PersistError),
}

/// Turns an error of the system into one that names the attempt and the path.
pub(crate) fn failed<E: Into<io::Error>>(
    doing: &'static str,
    path: &Path,
) -> impl FnOnce(E) -> MediaError {
    move |source| MediaError::Io {
        doing,
        path: path.to_owned(),
        source: source.into(),
    }
}

/// Like [`failed`], for a call that takes `size` bytes of space: a full medium is an error of its own.
pub(crate) fn out_of_space<E: Into<io::Error>>(
    doing: &'static str,
    path: &Path,
    size: u64,
) -> impl FnOnce(E) -> MediaError {
    move |source| {
        let source = source.into();
        match source.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => MediaError::NoSpace {
                path: path.to_owned(),
                size,
            },
            _ => MediaError::Io {
                doing,
                path: path.to_owned(),
                source,
            },
        }
    }
}
