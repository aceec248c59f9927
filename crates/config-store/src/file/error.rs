//! The faults of a store's files.

use std::io;
use std::path::PathBuf;

use crate::backend::Failure;

/// Files in a state that this store never leaves, or a failed system call.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// The directory does not exist.
    #[error(
        "there is no directory {}: create the cluster first, or correct the path",
        .path.display()
    )]
    NoDirectory {
        /// The directory.
        path: PathBuf,
    },
    /// A call of the operating system failed.
    #[error("{doing} {}: {source}", .path.display())]
    System {
        /// The attempted action.
        doing: &'static str,
        /// The file or directory.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The bytes differ from the bytes that were written.
    #[error(
        "{} is damaged: at byte {offset}, found {found}, expected {expected}; no crash of this program leaves that, so check the disk",
        .path.display()
    )]
    Damaged {
        /// The file.
        path: PathBuf,
        /// The offset of the damage.
        offset: u64,
        /// The content found.
        found: String,
        /// The content expected.
        expected: String,
    },
    /// A newer program wrote it.
    #[error(
        "{} has format {found}, and this program reads format {expected}: use the program that wrote it, or a newer one",
        .path.display()
    )]
    Newer {
        /// The file.
        path: PathBuf,
        /// The format of the file.
        found: u64,
        /// The format that this program reads.
        expected: u64,
    },
    /// A revision that existed is missing.
    #[error(
        "{} is gone, and {newest} revisions were there: it was removed, or the directory is a partial copy; restore all of it",
        .path.display()
    )]
    Gone {
        /// The file.
        path: PathBuf,
        /// The highest revision that is or was there.
        newest: u64,
    },
    /// Revisions are superseded faster than they are read.
    #[error("{}: each of {looks} looks found a value that was superseded meanwhile", .path.display())]
    Restless {
        /// The directory.
        path: PathBuf,
        /// Number of attempts.
        looks: u32,
    },
}

impl From<FileError> for Failure {
    fn from(error: FileError) -> Self {
        match error {
            FileError::Restless { .. } => Self::Passing(error.to_string()),
            _ => Self::Lasting(error.to_string()),
        }
    }
}
