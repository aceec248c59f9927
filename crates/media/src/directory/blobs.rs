//! The small files of a pool: two header copies in `header`, and `checkpoint`.
//!
//! - A checkpoint is replaced by `rename`, so a crash leaves the old one or the new one.
//! - A header copy is overwritten in place and synced before the other is touched, so a crash tears one copy at most.
//! - The first header is written under another name and renamed once both copies are complete: a directory has a header
//!   that was once whole, or no header. So a crash during a creation leaves no pool, and damage is never mistaken for
//!   such a crash.

use std::cell::Cell;
use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::rc::Rc;

use rustix::fs::{CWD, RenameFlags, renameat_with};
use rustix::io::Errno;

use crate::backing::HEADER_COPY_SIZE;
use crate::directory::made::Made;
use crate::error::{failed, out_of_space};
use crate::pool::HEADER_MAGIC;
use crate::{Blob, MediaError};

/// The small files in one directory.
#[derive(Debug)]
pub(super) struct Blobs {
    directory: PathBuf,
    made: Rc<Made>,
    /// Whether the first header is yet to be stored. A header that appears meanwhile belongs to another pool.
    creating: Cell<bool>,
}

impl Blobs {
    pub fn new(directory: PathBuf) -> Self {
        Self::noting(directory, Rc::default())
    }

    /// Like [`Blobs::new`], and notes in `made` the files that it makes.
    pub fn noting(directory: PathBuf, made: Rc<Made>) -> Self {
        Self {
            directory,
            made,
            creating: Cell::new(false),
        }
    }

    /// Overwrites no header from this call until both copies are stored.
    pub fn begin_creation(&self) {
        self.creating.set(true);
    }

    /// Whether the first header of this pool is yet to be stored.
    pub fn are_new(&self) -> Result<bool, MediaError> {
        Ok(self.creating.get() || !self.have_header()?)
    }

    /// The file of a blob and the offset of the blob in it.
    pub fn locate(&self, blob: Blob) -> (PathBuf, u64) {
        match blob {
            Blob::HeaderFirst => (self.header(), 0),
            Blob::HeaderSecond => (self.header(), HEADER_COPY_SIZE),
            Blob::Checkpoint => (self.directory.join("checkpoint"), 0),
        }
    }

    /// Whether a header was ever stored.
    pub fn have_header(&self) -> Result<bool, MediaError> {
        let path = self.header();
        path.try_exists().map_err(failed("looking for", &path))
    }

    /// Reads a blob of up to `size_max` bytes. A longer blob yields one byte more, so that its length shows.
    pub fn load(&self, blob: Blob, size_max: u64) -> Result<Option<Vec<u8>>, MediaError> {
        let (path, offset) = self.locate(blob);
        let file = match File::open(&path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(failed("opening", &path)(error)),
        };
        let mut bytes = Vec::new();
        match blob {
            Blob::Checkpoint => {
                file.take(size_max.saturating_add(1))
                    .read_to_end(&mut bytes)
                    .map_err(failed("reading", &path))?;
            }
            Blob::HeaderFirst | Blob::HeaderSecond => {
                bytes.resize(HEADER_COPY_SIZE as usize, 0);
                let size =
                    read_up_to(&file, &mut bytes, offset).map_err(failed("reading", &path))?;
                bytes.truncate(size);
            }
        }
        Ok(Some(bytes))
    }

    /// Replaces a blob durably.
    pub fn store(&self, blob: Blob, bytes: &[u8]) -> Result<(), MediaError> {
        match blob {
            Blob::Checkpoint => self.replace_checkpoint(bytes)?,
            Blob::HeaderFirst | Blob::HeaderSecond => {
                assert!(
                    bytes.len() as u64 <= HEADER_COPY_SIZE,
                    "a header copy of {} bytes",
                    bytes.len()
                );
                if self.are_new()? {
                    self.create_header(blob, bytes)?
                } else {
                    self.overwrite_header(blob, bytes)?
                }
            }
        }
        Ok(())
    }

    /// Removes half-made files that a crash may have left.
    pub fn remove_leftovers(&self) {
        for name in ["header.new", "checkpoint.new"] {
            // The files cost only space: both are written from their start when they are needed.
            let _best_effort = std::fs::remove_file(self.directory.join(name));
        }
    }

    fn header(&self) -> PathBuf {
        self.directory.join("header")
    }

    fn overwrite_header(&self, blob: Blob, bytes: &[u8]) -> Result<(), MediaError> {
        let (path, offset) = self.locate(blob);
        let file = OpenOptions::new()
            .write(true)
            .open(&path)
            .map_err(failed("opening", &path))?;
        file.write_all_at(bytes, offset).map_err(out_of_space(
            "writing",
            &path,
            bytes.len() as u64,
        ))?;
        // `sync_data` would not be enough: the length of a truncated file changes.
        file.sync_all().map_err(failed("syncing", &path))
    }

    fn create_header(&self, blob: Blob, bytes: &[u8]) -> Result<(), MediaError> {
        let path = self.directory.join("header.new");
        let first = blob == Blob::HeaderFirst;
        let mut options = OpenOptions::new();
        options
            .read(true)
            .write(true)
            .create(first)
            .truncate(false)
            .mode(0o600);
        let file =
            options
                .open(&path)
                .map_err(out_of_space("creating", &path, 2 * HEADER_COPY_SIZE))?;
        if first {
            self.take_over(&path, &file)?;
        }
        let (final_path, offset) = self.locate(blob);
        file.write_all_at(bytes, offset).map_err(out_of_space(
            "writing",
            &path,
            2 * HEADER_COPY_SIZE,
        ))?;
        file.sync_all().map_err(failed("syncing", &path))?;
        if first {
            return Ok(());
        }
        rename_to_nothing(&path, &final_path).map_err(|error| match error.kind() {
            io::ErrorKind::AlreadyExists => MediaError::Exists {
                path: self.directory.clone(),
            },
            _ => failed("renaming", &path)(error),
        })?;
        self.made.note_rename(&path, &final_path);
        self.creating.set(false);
        sync_directory(&self.directory)
    }

    /// Empties the file that becomes the header, unless its content is foreign.
    fn take_over(&self, path: &Path, file: &File) -> Result<(), MediaError> {
        if !is_half_header(file).map_err(failed("reading", path))? {
            return Err(MediaError::Unsuitable {
                path: path.to_owned(),
                reason: "it is in the way of the header of a new pool, and no creation left it; move it away",
            });
        }
        file.set_len(0).map_err(failed("emptying", path))?;
        self.made
            .note(path, file)
            .map_err(failed("looking at", path))
    }

    fn replace_checkpoint(&self, bytes: &[u8]) -> Result<(), MediaError> {
        let path = self.directory.join("checkpoint.new");
        let written = self.write_new(&path, bytes);
        if written.is_err() {
            // On a full medium other files need its space. The old checkpoint stays.
            let _best_effort = std::fs::remove_file(&path);
        }
        written?;
        let to = self.locate(Blob::Checkpoint).0;
        std::fs::rename(&path, &to).map_err(failed("renaming", &path))?;
        self.made.note_rename(&path, &to);
        sync_directory(&self.directory)
    }

    fn write_new(&self, path: &Path, bytes: &[u8]) -> Result<(), MediaError> {
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(true).mode(0o600);
        let mut file =
            options
                .open(path)
                .map_err(out_of_space("creating", path, bytes.len() as u64))?;
        self.made
            .note(path, &file)
            .map_err(failed("looking at", path))?;
        file.write_all(bytes)
            .map_err(out_of_space("writing", path, bytes.len() as u64))?;
        file.sync_all()
            .map_err(out_of_space("syncing", path, bytes.len() as u64))
    }
}

/// Whether an interrupted creation of a header may leave these bytes: none, zeros, or a first copy followed by
/// anything.
pub(super) fn is_half_header(file: &File) -> io::Result<bool> {
    let size_max = 2 * HEADER_COPY_SIZE;
    let mut bytes = vec![0; size_max as usize];
    let size = read_up_to(file, &mut bytes, 0)?;
    let is_own = bytes[..size].starts_with(&HEADER_MAGIC) || bytes.iter().all(|byte| *byte == 0);
    Ok(is_own && file.metadata()?.len() <= size_max)
}

/// Renames `from` unless `to` exists.
fn rename_to_nothing(from: &Path, to: &Path) -> io::Result<()> {
    match renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE) {
        // The file system cannot do both in one step.
        Err(Errno::INVAL | Errno::NOSYS) if !to.try_exists()? => std::fs::rename(from, to),
        Err(Errno::INVAL | Errno::NOSYS) => Err(io::ErrorKind::AlreadyExists.into()),
        renamed => Ok(renamed?),
    }
}

/// Makes the names in a directory durable.
pub(super) fn sync_directory(directory: &Path) -> Result<(), MediaError> {
    let opened = File::open(directory).map_err(failed("opening", directory))?;
    opened.sync_all().map_err(failed("syncing", directory))
}

/// Reads as many bytes as the file has at `offset`, and returns their number.
fn read_up_to(file: &File, into: &mut [u8], offset: u64) -> io::Result<usize> {
    let mut done = 0;
    while done < into.len() {
        match file.read_at(&mut into[done..], offset + done as u64) {
            Ok(0) => break,
            Ok(size) => done += size,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(done)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn blobs() -> (tempfile::TempDir, Blobs) {
        let directory = tempfile::tempdir().unwrap();
        let blobs = Blobs::new(directory.path().to_owned());
        (directory, blobs)
    }

    fn load(blobs: &Blobs, blob: Blob) -> Option<Vec<u8>> {
        blobs.load(blob, 1000).unwrap()
    }

    /// Needs the rename: without it the header would appear with one copy missing.
    #[test]
    fn the_first_header_appears_when_both_copies_are_there() {
        let (directory, blobs) = blobs();
        blobs.store(Blob::HeaderFirst, b"first").unwrap();
        assert!(!blobs.have_header().unwrap());
        assert_eq!(load(&blobs, Blob::HeaderFirst), None);
        blobs.store(Blob::HeaderSecond, b"second").unwrap();
        assert!(
            load(&blobs, Blob::HeaderFirst)
                .unwrap()
                .starts_with(b"first\0")
        );
        assert_eq!(load(&blobs, Blob::HeaderSecond).unwrap(), b"second");
        assert!(!directory.path().join("header.new").exists());

        blobs.store(Blob::HeaderSecond, b"SECOND").unwrap();
        blobs.store(Blob::HeaderFirst, b"FIRST").unwrap();
        assert!(
            load(&blobs, Blob::HeaderFirst)
                .unwrap()
                .starts_with(b"FIRST\0")
        );
        assert_eq!(load(&blobs, Blob::HeaderSecond).unwrap(), b"SECOND");
    }

    #[test]
    fn a_checkpoint_is_replaced_whole() {
        let (directory, blobs) = blobs();
        assert_eq!(load(&blobs, Blob::Checkpoint), None);
        blobs.store(Blob::Checkpoint, &[1; 500]).unwrap();
        blobs.store(Blob::Checkpoint, &[2; 300]).unwrap();
        assert_eq!(load(&blobs, Blob::Checkpoint).unwrap(), [2; 300]);
        assert!(!directory.path().join("checkpoint.new").exists());
    }

    /// Needs the bound: without it a file of a terabyte, sparse or not, ends the process for lack of memory.
    #[test]
    fn files_of_any_size_are_read_only_until_they_prove_too_long() {
        let (directory, blobs) = blobs();
        let checkpoint = File::create(directory.path().join("checkpoint")).unwrap();
        checkpoint.set_len(1 << 40).unwrap();
        assert_eq!(load(&blobs, Blob::Checkpoint).unwrap().len(), 1001);
        for (length, first, second) in [
            (0, 0, 0),
            (100, 100, 0),
            (4096, 4096, 0),
            (5000, 4096, 904),
            (100_000, 4096, 4096),
        ] {
            File::create(directory.path().join("header"))
                .unwrap()
                .set_len(length)
                .unwrap();
            assert_eq!(load(&blobs, Blob::HeaderFirst).unwrap().len(), first);
            assert_eq!(load(&blobs, Blob::HeaderSecond).unwrap().len(), second);
        }
    }

    #[test]
    fn leftovers_of_a_crash_are_removed() {
        let (directory, blobs) = blobs();
        blobs.store(Blob::HeaderFirst, b"first").unwrap();
        std::fs::write(directory.path().join("checkpoint.new"), b"half").unwrap();
        blobs.remove_leftovers();
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_directory_in_the_place_of_a_file_is_an_error_that_names_it() {
        let (directory, blobs) = blobs();
        std::fs::create_dir(directory.path().join("checkpoint")).unwrap();
        let refused = blobs.load(Blob::Checkpoint, 10).unwrap_err().to_string();
        assert!(refused.contains("checkpoint"), "{refused}");
        assert!(blobs.store(Blob::Checkpoint, b"x").is_err());
    }
}
