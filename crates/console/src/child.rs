//! A server that another program starts: the server reports when it is ready, and ends with the program.

use std::io::{self, Write as _};
use std::path::Path;

use rustix::process::{Signal, getppid, set_parent_process_death_signal};

use crate::failure::Failure;

/// Requests SIGTERM for this process at the end of the process `parent`.
pub fn end_with(parent: i32) -> Result<(), Failure> {
    set_parent_process_death_signal(Some(Signal::TERM))?;
    // The parent may already be gone.
    if getppid().is_none_or(|present| present.as_raw_nonzero().get() != parent) {
        return Err(Failure::operation(format!(
            "process {parent} is gone, and --exit-with-parent ends this server with it"
        )));
    }
    Ok(())
}

/// Writes the file as a whole or not at all: a program that waits for the file reads it at once.
pub fn write_ready_file(path: &Path) -> Result<(), Failure> {
    let refuse =
        |error: io::Error| Failure::operation(format!("cannot write {}: {error}", path.display()));
    let folder = path
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty())
        .unwrap_or(Path::new("."));
    let mut file = tempfile::NamedTempFile::new_in(folder).map_err(refuse)?;
    writeln!(file, "{}", std::process::id()).map_err(refuse)?;
    file.persist(path)
        .map(drop)
        .map_err(|error| refuse(error.error))
}
