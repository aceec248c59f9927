//! Files that this process made in a directory, identified as the kernel knows them.
//!
//! A name proves nothing: another file may have taken the name since. So a file is compared before it is removed. (The
//! kernel cannot compare and remove in one step; a file that takes the name between the two steps is lost.)

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fs::{File, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// Identifies a file. Inode numbers are reused after a file is gone, so the time of creation is part of the identity,
/// if the file system keeps one.
type Identity = (u64, u64, Option<SystemTime>);

/// The files that this process made.
#[derive(Debug, Default)]
pub(super) struct Made(RefCell<BTreeMap<PathBuf, Identity>>);

impl Made {
    /// Notes that `file` at `path` was made, or taken over without content.
    pub fn note(&self, path: &Path, file: &File) -> io::Result<()> {
        let identity = identity(&file.metadata()?);
        self.0.borrow_mut().insert(path.to_owned(), identity);
        Ok(())
    }

    /// Notes that the file made at `from` was moved to `to`.
    pub fn note_rename(&self, from: &Path, to: &Path) {
        let mut made = self.0.borrow_mut();
        if let Some(identity) = made.remove(from) {
            made.insert(to.to_owned(), identity);
        }
    }

    /// Removes the file at `path`, if this process made that file there.
    pub fn remove(&self, path: &Path) {
        let made = self.0.borrow_mut().remove(path);
        let found = path.symlink_metadata().ok().as_ref().map(identity);
        if made.is_some() && made == found {
            // If the file cannot be removed, the next creation takes it over or names it in a refusal.
            let _best_effort = std::fs::remove_file(path);
        }
    }
}

fn identity(status: &Metadata) -> Identity {
    (status.dev(), status.ino(), status.created().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Needs the comparison: a removal by name alone would remove a foreign file.
    #[test]
    fn a_made_file_is_removed_and_a_file_that_took_its_place_stays() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        let made = Made::default();
        for name in ["stays", "replaced", "renamed"] {
            made.note(&path(name), &File::create(path(name)).unwrap())
                .unwrap();
        }
        for name in ["moved", "foreign"] {
            std::fs::write(path(name), "precious").unwrap();
        }
        std::fs::rename(path("moved"), path("replaced")).unwrap();
        std::fs::rename(path("renamed"), path("other")).unwrap();
        made.note_rename(&path("renamed"), &path("other"));
        for name in ["stays", "replaced", "renamed", "other", "foreign"] {
            made.remove(&path(name));
        }
        let left: Vec<bool> = ["stays", "replaced", "other", "foreign"]
            .map(|name| path(name).exists())
            .into();
        assert_eq!(left, [false, true, false, true]);
    }
}
