//! What can go wrong with a medium.

use std::io;
use std::path::{Path, PathBuf};

use stonecast_base::Corruption;

/// Making bytes durable failed. What reached the medium is unknown; the region is poisoned.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PersistError {
    /// The operating system reported an error of the device.
    #[error(
        "syncing {file} failed: {source}; what was written since the last sync is unknown, restart to recover"
    )]
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
    /// Both copies of the pool header are damaged, so nobody knows what the other files mean.
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
        /// Who, where the lock names one.
        pid: Option<u32>,
    },
    /// There is no pool here.
    #[error("there is no pool at {path}; `stonecast serve --data {path}` creates one")]
    NotFound {
        /// Where one was expected.
        path: PathBuf,
    },
    /// Files are there that are no pool's.
    #[error(
        "{path} holds no pool, and other files: {names}; name a folder that is for the pool alone, or one that is not there yet"
    )]
    Foreign {
        /// Where a pool was to be created.
        path: PathBuf,
        /// Some of them.
        names: String,
    },
    /// A pool is there already.
    #[error("{path} holds a pool already")]
    Exists {
        /// Where one was to be created.
        path: PathBuf,
    },
    /// The pool was written by a format that this version does not know.
    #[error(
        "pool {path} has format version {found}, this program reads up to {supported}; use a newer stonecast"
    )]
    UnsupportedVersion {
        /// The pool.
        path: PathBuf,
        /// Its version.
        found: u32,
        /// The newest that this program knows.
        supported: u32,
    },
    /// The pool was written by a format that this version does not read any more.
    #[error(
        "pool {path} has format version {found}, this program reads {supported}; export it with the stonecast that wrote it, and \
         import it into a new pool"
    )]
    OutdatedVersion {
        /// The pool.
        path: PathBuf,
        /// Its version.
        found: u32,
        /// The one that this program reads.
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
    /// The pool uses features that this version does not know and that forbid it to write.
    #[error(
        "pool {path} can only be inspected by this program (read-only compatible feature bits {unknown:#x} are unknown); \
         use a newer stonecast to serve it"
    )]
    ReadOnlyFeatures {
        /// The pool.
        path: PathBuf,
        /// The bits that are unknown.
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
        /// Its log.
        log: String,
        /// Where it is; see [`Backing::home`](crate::Backing::home).
        found: u128,
        /// Where it was last served.
        expected: u128,
    },
    /// The pool was opened as often as its format can count.
    #[error(
        "pool {path} was opened 2^32 times, its format cannot count further; export it and import it into a new pool"
    )]
    EpochsExhausted {
        /// The pool.
        path: PathBuf,
    },
    /// The place cannot hold a pool at all, whatever it promises.
    #[error("{path} cannot hold a pool: {reason}")]
    Unsuitable {
        /// The place.
        path: PathBuf,
        /// Cause and cure.
        reason: &'static str,
    },
    /// The medium cannot keep the promise that was asked for.
    #[error(
        "{path} cannot promise --durability power: {reason}; use --durability process, or put the pool on a durable medium"
    )]
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

/// Turns an error of the system into one that names what was attempted and on what.
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

/// As [`failed`], for a call that takes `size` bytes of space: a full medium is an error of its own.
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
