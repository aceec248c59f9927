//! A configuration in files of one host: one file for each revision.
//!
//! ```text
//!   cluster/
//!     revision-00000000000000000001     empty: superseded
//!     …
//!     revision-00000000000000000009     a value
//!     revision-00000000000000000010     a value: the newest
//! ```
//!
//! A writer writes and syncs a file under a name of its own, and links it to the name of the next revision. `link`
//! fails if the name exists, so one writer wins, without a lock that a stopped process could keep.
//!
//! Invariants:
//! - *A name that exists stays.* An old revision is replaced by an empty file, in one step, and never removed. So a
//!   writer that was stopped before its `link` and continues after a hundred changes finds the name taken. The newest
//!   revision is the highest name, found without a list of the directory that could change while it is read.
//! - Nothing is answered before the directory is synced: neither `Done` nor a value that was read. So a value that a
//!   program acted on is still there after a power cut.
//! - The last [`KEPT`] revisions are values.

mod directory;
mod error;
mod linking;
mod revision;

use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use stonecast_cluster::{Revision, Stored, Swap};

use self::directory::Directory;
use self::linking::Linked;
use crate::backend::{Backend, Failure};

/// Number of revisions that keep their values.
const KEPT: u64 = 8;
/// The interval at which a watch polls. One poll is one `stat`.
const LOOK_EVERY: Duration = Duration::from_millis(10);
/// The time that a watch polls before it answers that nothing changed.
const LOOK_FOR: Duration = Duration::from_millis(500);

/// A directory of revisions.
#[derive(Clone)]
pub struct FileStore {
    directory: Directory,
}

impl FileStore {
    /// The store in the directory `path`.
    pub fn new(path: &Path) -> Self {
        Self {
            directory: Directory::new(path),
        }
    }
}

impl Backend for FileStore {
    fn read(&mut self) -> Result<Option<Stored>, Failure> {
        Ok(self.directory.read()?)
    }

    fn swap(&mut self, expected: Option<Revision>, bytes: &[u8]) -> Result<Swap, Failure> {
        if expected.is_none() {
            self.directory.create()?;
        }
        let newest = self.directory.newest()?;
        if newest != expected.map_or(0, |expected| expected.0) {
            return Ok(Swap::Conflict);
        }
        let next = newest + 1;
        match self.directory.link(next, bytes)? {
            Linked::Done => {}
            Linked::Taken => return Ok(Swap::Conflict),
            Linked::Unknown(reason) => return Err(Failure::Unknown(reason)),
        }
        self.directory.sync().map_err(|error| {
            Failure::Unknown(format!(
                "revision {next} may be gone after a power cut: {error}"
            ))
        })?;
        self.directory.supersede(next.saturating_sub(KEPT));
        Ok(Swap::Done(Revision(next)))
    }

    /// Polls in a loop. A watch of the kernel is not used: their number is bounded for each user, not every file system
    /// has them, and polling would still be necessary when one overflows.
    fn watch(&mut self, known: Option<Revision>) -> Result<Option<Revision>, Failure> {
        let end = Instant::now() + LOOK_FOR;
        loop {
            let newest = self.directory.newest()?;
            let newest = (newest > 0).then_some(Revision(newest));
            if newest != known || Instant::now() >= end {
                return Ok(newest);
            }
            thread::sleep(LOOK_EVERY);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::{self, ErrorKind};

    use tempfile::TempDir;

    use super::*;

    fn swap_where(link: linking::Link) -> (TempDir, Result<Swap, Failure>) {
        let folder = tempfile::tempdir().unwrap();
        let directory = Directory::new(folder.path()).with_link(link);
        let swap = FileStore { directory }.swap(None, b"value");
        (folder, swap)
    }

    fn value_in(folder: &TempDir) -> Option<Vec<u8>> {
        let read = FileStore::new(folder.path()).read().unwrap();
        read.map(|stored| stored.bytes)
    }

    #[test]
    fn a_change_that_a_network_did_and_answered_wrongly_is_reported_as_done() {
        let answers: [linking::Link; 2] = [
            |own, name| {
                fs::hard_link(own, name)?;
                Err(ErrorKind::AlreadyExists.into())
            },
            |own, name| {
                fs::hard_link(own, name)?;
                Err(io::Error::other("the server does not answer"))
            },
        ];
        for link in answers {
            let (folder, swap) = swap_where(link);
            assert!(matches!(swap, Ok(Swap::Done(Revision(1)))), "{swap:?}");
            assert_eq!(value_in(&folder).as_deref(), Some(&b"value"[..]));
        }
    }

    #[test]
    fn a_change_without_an_answer_from_the_network_has_an_unknown_outcome() {
        let (folder, swap) = swap_where(|_, _| Err(io::Error::other("the server does not answer")));
        assert!(matches!(swap, Err(Failure::Unknown(_))), "{swap:?}");
        let left = fs::read_dir(folder.path()).unwrap().count();
        assert_eq!(left, 0, "the writer's file is removed");
    }

    #[test]
    fn a_file_system_without_links_refuses_a_change() {
        let (folder, swap) = swap_where(|_, _| Err(ErrorKind::PermissionDenied.into()));
        assert!(matches!(swap, Err(Failure::Lasting(_))), "{swap:?}");
        assert_eq!(value_in(&folder), None);
    }
}
