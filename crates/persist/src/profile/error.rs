//! Errors of profiles.

use std::io;
use std::path::PathBuf;

use crate::platform::Contradiction;

/// The reason why no profile was found. Each message includes a remedy.
#[derive(Debug, thiserror::Error)]
pub enum ProfileError {
    /// The file cannot be read.
    #[error("cannot read the profile {}: {source}; give the path of a profile or one of the names {shipped}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The profiles that need no file.
        shipped: String,
        /// The system's error.
        source: io::Error,
    },
    /// A line has an error: syntax, an unknown key, a missing key, or an unknown value.
    #[error("{origin}:{line}:{column}: {problem}")]
    Invalid {
        /// The file.
        origin: String,
        /// Line, from 1.
        line: usize,
        /// Column, from 1.
        column: usize,
        /// The error, and the allowed answers.
        problem: String,
    },
    /// Two lines cannot both be true.
    #[error("{origin}:{line}:{column}: {contradiction}")]
    Contradiction {
        /// The file.
        origin: String,
        /// Line of the axis to change, from 1.
        line: usize,
        /// Column, from 1.
        column: usize,
        /// The contradiction.
        contradiction: Contradiction,
    },
}
