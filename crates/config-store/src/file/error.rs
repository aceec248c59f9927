//! What can be wrong with the files of a store.

use std::io;
use std::path::PathBuf;

use crate::backend::Failure;

/// Files that are not as this store leaves them, or a system that does not do what it is asked.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// No directory.
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
    /// The bytes are not those that were written.
    #[error(
        "{} is damaged: at byte {offset}, found {found}, expected {expected}; no crash of this program leaves that, so look at the disk",
        .path.display()
    )]
    Damaged {
        /// The file.
        path: PathBuf,
        /// Where.
        offset: u64,
        /// What stands there.
        found: String,
        /// What should.
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
        /// Its format.
        found: u64,
        /// The format that is read.
        expected: u64,
    },
    /// A revision that was there is not.
    #[error(
        "{} is gone, and {newest} revisions were there: somebody removed it, or the directory is a part of a copy; restore all of it",
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
        /// How often it was tried.
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
