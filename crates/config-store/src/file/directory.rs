//! The directory: names of revisions, and the operations on them.

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use stonecast_cluster::{Revision, Stored};

use super::error::FileError;
use super::linking::{Link, Linked, judge};
use super::revision::{self, SIZE_MAX};

const PREFIX: &str = "revision-";
const DIGITS: usize = 20;
/// Prefix of the files that a writer writes before it links them.
const UNLINKED: &str = ".unlinked-";
/// Age of a temporary file at which its writer counts as dead. A writer that was only stopped finds no file to link, so
/// nothing is done.
const UNLINKED_MAX: Duration = Duration::from_secs(3600);
/// The most revisions that one change supersedes: more than one only where killed writers have left some.
const SUPERSEDED_MAX: u32 = 64;
/// Number of times that a value may be superseded while it is read.
const LOOKS_MAX: u32 = 100;

/// Makes the file names of this process distinct.
static COUNTER: AtomicU64 = AtomicU64::new(0);

/// A directory of revisions, and the knowledge about it.
#[derive(Clone)]
pub struct Directory {
    path: PathBuf,
    link: Link,
    /// The highest revision seen so far; 0 before the first one.
    newest: u64,
    /// The highest revision whose name is durable.
    synced: u64,
    /// Whether all names were listed.
    is_listed: bool,
}

impl Directory {
    /// The directory at `path`, which need not exist.
    pub fn new(path: &Path) -> Self {
        Self {
            path: path.to_owned(),
            link: |own, name| fs::hard_link(own, name),
            newest: 0,
            synced: 0,
            is_listed: false,
        }
    }

    /// This directory, on a file system whose `link` behaves like `link`.
    #[cfg(test)]
    pub fn with_link(self, link: Link) -> Self {
        Self { link, ..self }
    }

    fn path_of(&self, revision: u64) -> PathBuf {
        self.path.join(format!("{PREFIX}{revision:0DIGITS$}"))
    }

    fn error(&self, doing: &'static str, path: PathBuf) -> impl FnOnce(io::Error) -> FileError {
        let directory = self.path.clone();
        move |source| match source.kind() {
            ErrorKind::NotFound if !directory.exists() => {
                FileError::NoDirectory { path: directory }
            }
            _ => FileError::System {
                doing,
                path,
                source,
            },
        }
    }

    /// Makes the directory unless it exists, and makes its name durable: the process that made it may have died before
    /// that.
    pub fn create(&self) -> Result<(), FileError> {
        match fs::create_dir(&self.path) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            made => made.map_err(self.error("making", self.path.clone()))?,
        }
        let parent = self.path.parent().filter(|parent| *parent != Path::new(""));
        let parent = parent.unwrap_or(Path::new(".")).to_owned();
        match sync_directory(&parent) {
            // Another program made the directory: this process had no right to, or the directory is the root of another
            // file system.
            Err(error)
                if matches!(
                    error.kind(),
                    ErrorKind::PermissionDenied | ErrorKind::InvalidInput
                ) =>
            {
                Ok(())
            }
            synced => synced.map_err(self.error("syncing", parent)),
        }
    }

    fn exists(&self, revision: u64) -> Result<bool, FileError> {
        let path = self.path_of(revision);
        match fs::symlink_metadata(&path) {
            Ok(_) => Ok(true),
            Err(error) if error.kind() == ErrorKind::NotFound && self.path.is_dir() => Ok(false),
            Err(error) => Err(self.error("looking for", path)(error)),
        }
    }

    /// The newest revision; 0 if nothing was ever stored.
    ///
    /// Names stay, so if one exists all lower ones do. The search for the highest doubles the step and then halves it.
    pub fn newest(&mut self) -> Result<u64, FileError> {
        if !self.is_listed {
            self.newest = self.list()?;
            self.is_listed = true;
        }
        let mut low = self.newest;
        if low > 0 && !self.exists(low)? {
            return Err(FileError::Gone {
                path: self.path_of(low),
                newest: low,
            });
        }
        let mut step = 1;
        while self.exists(low + step)? {
            low += step;
            step *= 2;
        }
        // `low` exists and `low + step` does not.
        while step > 1 {
            step /= 2;
            if self.exists(low + step)? {
                low += step;
            }
        }
        self.newest = low;
        Ok(low)
    }

    /// The highest name, with a check of all names below it: a missing name was removed by another program.
    fn list(&self) -> Result<u64, FileError> {
        let mut found = Vec::new();
        let entries = fs::read_dir(&self.path);
        for entry in entries.map_err(self.error("listing", self.path.clone()))? {
            let entry = entry.map_err(self.error("listing", self.path.clone()))?;
            let name = entry.file_name();
            found.extend(name.to_str().and_then(revision_of));
        }
        found.sort_unstable();
        let newest = found.last().copied().unwrap_or(0);
        // A list that is read while names are added may lack some of them, so a second look decides.
        for missing in (1..newest).filter(|revision| found.binary_search(revision).is_err()) {
            if !self.exists(missing)? {
                return Err(FileError::Gone {
                    path: self.path_of(missing),
                    newest,
                });
            }
        }
        Ok(newest)
    }

    /// The newest value.
    pub fn read(&mut self) -> Result<Option<Stored>, FileError> {
        for _ in 0..LOOKS_MAX {
            let newest = self.newest()?;
            if newest == 0 {
                return Ok(None);
            }
            let path = self.path_of(newest);
            let status = fs::metadata(&path).map_err(self.error("looking at", path.clone()))?;
            // Opening a pipe would wait for its other end.
            if !status.is_file() {
                return Err(FileError::Damaged {
                    path,
                    offset: 0,
                    found: "something that is not a file".to_owned(),
                    expected: "the newest revision".to_owned(),
                });
            }
            let file = read_file(&path).map_err(self.error("reading", path.clone()))?;
            let Some(bytes) = revision::decode(&path, newest, file)? else {
                if self.exists(newest + 1)? {
                    continue;
                }
                return Err(FileError::Damaged {
                    path,
                    offset: 0,
                    found: "nothing".to_owned(),
                    expected: "the newest revision".to_owned(),
                });
            };
            if self.synced < newest {
                self.sync()?;
                self.synced = newest;
            }
            return Ok(Some(Stored {
                revision: Revision(newest),
                bytes,
            }));
        }
        Err(FileError::Restless {
            path: self.path.clone(),
            looks: LOOKS_MAX,
        })
    }

    /// Writes `value` as `revision`, unless another writer has taken it.
    pub fn link(&self, revision: u64, value: &[u8]) -> Result<Linked, FileError> {
        let (unlinked, name) = (
            self.write_unlinked(&revision::encode(revision, value))?,
            self.path_of(revision),
        );
        let linked = judge((self.link)(&unlinked, &name), &unlinked, &name);
        let error = self.error("linking", name);
        // A later writer removes a remaining name.
        let _ = fs::remove_file(&unlinked);
        linked.map_err(error)
    }

    /// A file with these bytes, synced unless it is empty, under a unique name.
    fn write_unlinked(&self, bytes: &[u8]) -> Result<PathBuf, FileError> {
        let (path, mut file) = loop {
            let (process, number) = (process::id(), COUNTER.fetch_add(1, Ordering::Relaxed));
            let path = self.path.join(format!("{UNLINKED}{process}-{number}"));
            match OpenOptions::new().write(true).create_new(true).open(&path) {
                // The name was left by a process of the same number, or made by one in another container.
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
                opened => break (path.clone(), opened.map_err(self.error("making", path))?),
            }
        };
        let written = match bytes {
            [] => Ok(()),
            _ => file.write_all(bytes).and_then(|()| file.sync_all()),
        };
        written.map_err(|source| {
            // The first error is the one to report.
            let _ = fs::remove_file(&path);
            self.error("writing", path.clone())(source)
        })?;
        Ok(path)
    }

    /// Makes all names durable.
    pub fn sync(&self) -> Result<(), FileError> {
        sync_directory(&self.path).map_err(self.error("syncing", self.path.clone()))
    }

    /// Replaces `revision`, and the revisions below it that still have values, by empty files, as far as possible: this
    /// saves space, and nothing depends on it. Now and then it removes files of dead writers.
    pub fn supersede(&self, revision: u64) {
        for (superseded, revision) in (1..=revision).rev().enumerate() {
            let path = self.path_of(revision);
            let has_value = fs::metadata(&path).is_ok_and(|status| status.len() > 0);
            if !has_value || superseded as u32 == SUPERSEDED_MAX {
                break;
            }
            let Ok(empty) = self.write_unlinked(&[]) else {
                break;
            };
            if fs::rename(&empty, &path).is_err() {
                let _ = fs::remove_file(&empty);
                break;
            }
        }
        if revision.is_multiple_of(u64::from(SUPERSEDED_MAX)) {
            self.remove_unlinked();
        }
    }

    fn remove_unlinked(&self) {
        let Ok(entries) = fs::read_dir(&self.path) else {
            return;
        };
        for entry in entries.flatten() {
            let is_unlinked = entry.file_name().to_string_lossy().starts_with(UNLINKED);
            let modified = entry.metadata().and_then(|status| status.modified());
            let age = modified.map(|modified| SystemTime::now().duration_since(modified));
            if is_unlinked && matches!(age, Ok(Ok(age)) if age > UNLINKED_MAX) {
                // Another writer may have been faster.
                let _ = fs::remove_file(entry.path());
            }
        }
    }
}

/// The revision with this name: only names that this store gives count.
fn revision_of(name: &str) -> Option<u64> {
    let digits = name.strip_prefix(PREFIX)?;
    let is_name = digits.len() == DIGITS && digits.bytes().all(|byte| byte.is_ascii_digit());
    digits.parse().ok().filter(|_| is_name)
}

fn read_file(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path)?
        .take(SIZE_MAX + 1)
        .read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn sync_directory(path: &Path) -> io::Result<()> {
    File::open(path)?.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_name_that_a_store_gives_names_a_revision() {
        assert_eq!(revision_of("revision-00000000000000000007"), Some(7));
        for name in [
            "revision-7",
            "revision-000000000000000000007",
            "revision-+0000000000000000007",
            "revision-00000000000000000007.bak",
            "revision-99999999999999999999",
            ".unlinked-1-1",
        ] {
            assert_eq!(revision_of(name), None, "{name}");
        }
    }
}
