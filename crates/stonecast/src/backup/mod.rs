//! Backups of a store that continues to serve.
//!
//! ```text
//!   take     a client holds a version of the store, and writes the keys as they were at that version
//!   Chain    a full backup and the incremental ones that follow it: verified as a whole, read as one
//! ```
//!
//! A backup is the state at exactly one version: every write that was acknowledged before the backup began is in it,
//! no write above that version is, and a batch is in it as a whole or not at all. An incremental backup has the
//! records above the version of its base, and the versions of the records that the base has and that are still there.
//! A record whose version is missing was overwritten or deleted: a backup needs no tombstones.
//!
//! ```
//! # let folder = tempfile::tempdir()?;
//! # let server = stonecast::Server::builder(folder.path().join("pool"))
//! #     .durability(stonecast::Durability::Process).serve()?;
//! # let url = server.address().to_string();
//! use stonecast::backup::{Chain, Plan, identity_of, take};
//!
//! let connection = stonecast::local::connect(&url)?;
//! let [monday, tuesday] = ["monday", "tuesday"].map(|day| folder.path().join(day));
//! let scratch = || tempfile::tempfile();
//! connection.run(async |client| {
//!     client.put(b"greeting", b"hello").await?;
//!     let plan = Plan::full(scratch()?).made_at_ms(1_750_000_000_000);
//!     let (file, taken) = take(client, plan, std::fs::File::create_new(&monday)?, |_| {}).await?;
//!     file.sync_all()?;
//!     assert_eq!(taken.records, 1);
//!
//!     client.put(b"reply", b"hello").await?;
//!     let plan = Plan::full(scratch()?).based_on(identity_of(&monday)?);
//!     let (file, taken) = take(client, plan, std::fs::File::create_new(&tuesday)?, |_| {}).await?;
//!     file.sync_all()?;
//!     assert_eq!(taken.records, 1); // the record of Monday is retained by its version
//!     Ok::<(), Box<dyn std::error::Error>>(())
//! })?;
//! let chain = Chain::open(&[monday, tuesday])?;
//! assert_eq!(chain.identity().keys, 2);
//! chain.verify()?;
//! for record in chain.records()? {
//!     assert_eq!(record?.value, b"hello");
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod chain;
mod format;
mod reader;
mod shelf;
mod take;
mod writer;

use std::io;
use std::path::PathBuf;

use stonecast_base::Corruption;

use crate::error::Error;

pub use chain::{Chain, Records};
pub use format::Identity;
pub use reader::identity_of;
pub use take::{Plan, Taken, take};

/// The reason why a backup could not be taken or read.
#[derive(Debug, thiserror::Error)]
pub enum BackupError {
    /// The store refused, or the connection ended.
    #[error(transparent)]
    Store(#[from] Error),
    /// The backup could not be written.
    #[error("cannot write the backup: {0}")]
    Write(#[source] io::Error),
    /// A file could not be read.
    #[error("cannot read {}: {source}", file.display())]
    Read {
        /// The file.
        file: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// A file is damaged, incomplete, or not a backup.
    #[error("{0}. The file is no whole backup: use another one")]
    Corrupt(#[from] Corruption),
    /// A file was written in a format that this program does not know.
    #[error("{} is a backup of format {found}, and this program reads format {known}: use the program that wrote it, or a newer one", file.display())]
    Format {
        /// The file.
        file: PathBuf,
        /// The format of the file.
        found: u32,
        /// The format that this program reads.
        known: u32,
    },
    /// The base is a backup of another pool.
    #[error(
        "the base is a backup of pool {base:032x}, and the server has pool {found:032x}: versions of two pools have nothing in common. Make a full backup"
    )]
    OtherPool {
        /// The pool of the base.
        base: u128,
        /// The pool of the server.
        found: u128,
    },
    /// The files do not follow each other.
    #[error(
        "{} is based on version {base} of pool {pool:032x}, and no file before it has that version: name a full backup, and each incremental one that follows it",
        file.display()
    )]
    Gap {
        /// The file.
        file: PathBuf,
        /// The version on which the file is based.
        base: u64,
        /// The pool of the file.
        pool: u128,
    },
    /// The last file retains a record that no file holds.
    #[error("{} retains the record of version {version}, and no file before it has that record: a file of the chain is of another history. Use another chain", file.display())]
    Missing {
        /// The last file of the chain.
        file: PathBuf,
        /// The version of the record.
        version: u64,
    },
    /// No file was named.
    #[error("no backup is named: name a full backup, and each incremental one that follows it")]
    NoFile,
}
