//! Files that an address names.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

/// The bit of a file's mode that lets every user read it.
const OTHERS_MAY_READ: u32 = 0o004;

/// A file that an address names and that cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("{}: {reason}", .path.display())]
pub struct UnusableFile {
    /// The file.
    pub path: PathBuf,
    /// The fault and the remedy.
    pub reason: String,
}

/// The error about the file at `path`.
pub fn unusable(path: &Path, reason: impl ToString) -> UnusableFile {
    UnusableFile {
        path: path.to_owned(),
        reason: reason.to_string(),
    }
}

/// The bytes of a file.
pub fn read_file(path: &Path) -> Result<Vec<u8>, UnusableFile> {
    fs::read(path).map_err(|error| unusable(path, error))
}

/// The bytes of a file with a secret.
pub fn read_secret(path: &Path) -> Result<Vec<u8>, UnusableFile> {
    let status = fs::metadata(path).map_err(|error| unusable(path, error))?;
    if status.permissions().mode() & OTHERS_MAY_READ != 0 {
        let reason = "every user may read this file; restrict it with `chmod o=`";
        return Err(unusable(path, reason));
    }
    read_file(path)
}
