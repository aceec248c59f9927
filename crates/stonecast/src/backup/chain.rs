//! A full backup and the incremental backups that follow it, read as one.
//!
//! The records of the chain, in the order of its files, are in the order of their versions. A record counts if the last
//! file retains its version, or holds the record. Both lists ascend, so one pass reads a chain of any size.

use std::path::PathBuf;

use super::BackupError;
use super::format::Identity;
use super::reader::{FilePart, FileReader, identity_of};
use crate::entry::Record;

/// A full backup, and the incremental backups that follow it.
pub struct Chain {
    files: Vec<(PathBuf, Identity)>,
}

impl Chain {
    /// The chain of `files`, in any order. The call reads and checks the headers, and checks that each file follows the
    /// one before.
    ///
    /// # Errors
    /// [`BackupError::Gap`] for a file whose base is missing, and the errors of [`identity_of`].
    pub fn open(files: &[PathBuf]) -> Result<Self, BackupError> {
        let identified = files
            .iter()
            .map(|file| Ok((file.clone(), identity_of(file)?)));
        let mut files = identified.collect::<Result<Vec<_>, BackupError>>()?;
        files.sort_by_key(|(_, identity)| identity.version);
        let (_, first) = files.first().ok_or(BackupError::NoFile)?;
        let (pool, mut version) = (first.pool, 0);
        for (file, identity) in &files {
            if identity.base != version || identity.pool != pool {
                return Err(BackupError::Gap {
                    file: file.clone(),
                    base: identity.base,
                    pool: identity.pool,
                });
            }
            version = identity.version;
        }
        Ok(Self { files })
    }

    /// The state that the chain restores.
    pub fn identity(&self) -> &Identity {
        let (_, identity) = self.files.last().expect("a chain has a file");
        identity
    }

    /// Reads every byte of the chain, and checks that each file is whole and that the chain has each record of its
    /// state. Returns the number of bytes of keys and values in that state.
    ///
    /// # Errors
    /// [`BackupError::Corrupt`] with file, offset, and what was found and expected; [`BackupError::Missing`].
    pub fn verify(&self) -> Result<u64, BackupError> {
        let mut bytes = 0;
        for record in self.records()? {
            let record = record?;
            bytes += (record.key.len() + record.value.len()) as u64;
        }
        Ok(bytes)
    }

    /// The records of the state, in ascending order of their versions.
    ///
    /// # Errors
    /// The errors of [`identity_of`]. The iterator returns the errors of [`Chain::verify`], and ends with the first
    /// one.
    pub fn records(&self) -> Result<Records, BackupError> {
        let (last, _) = self.files.last().expect("a chain has a file");
        let readers = self
            .files
            .iter()
            .rev()
            .map(|(file, _)| FileReader::open(file));
        let mut retained = FileReader::open(last)?;
        Ok(Records {
            next_retained: next_retained(&mut retained)?,
            retained,
            readers: readers.collect::<Result<_, _>>()?,
            has_failed: false,
        })
    }
}

/// The records of a chain.
pub struct Records {
    /// The files that are not read yet, the first one at the end.
    readers: Vec<FileReader>,
    /// Reads the versions that the last file retains.
    retained: FileReader,
    next_retained: Option<u64>,
    has_failed: bool,
}

/// The next version that the file of `reader` retains.
fn next_retained(reader: &mut FileReader) -> Result<Option<u64>, BackupError> {
    Ok(match reader.next()? {
        Some(FilePart::Retained(version)) => Some(version),
        Some(FilePart::Record(_)) | None => None,
    })
}

impl Records {
    fn next_record(&mut self) -> Result<Option<Record>, BackupError> {
        loop {
            let is_last = self.readers.len() == 1;
            let Some(reader) = self.readers.last_mut() else {
                return Ok(None);
            };
            match reader.next()? {
                Some(FilePart::Retained(_)) => {}
                Some(FilePart::Record(record)) if is_last => {
                    self.check_all_retained()?;
                    return Ok(Some(record));
                }
                Some(FilePart::Record(record)) => match self.next_retained {
                    Some(version) if version == record.version => {
                        self.next_retained = next_retained(&mut self.retained)?;
                        return Ok(Some(record));
                    }
                    Some(version) if version < record.version => {
                        return Err(self.missing(version));
                    }
                    // The key was written or deleted later.
                    _ => {}
                },
                None => {
                    self.readers.pop();
                    if is_last {
                        self.check_all_retained()?;
                    }
                }
            }
        }
    }

    /// Checks that the iterator has returned every retained record.
    fn check_all_retained(&self) -> Result<(), BackupError> {
        match self.next_retained {
            Some(version) => Err(self.missing(version)),
            None => Ok(()),
        }
    }

    fn missing(&self, version: u64) -> BackupError {
        BackupError::Missing {
            file: self.retained.path().to_owned(),
            version,
        }
    }
}

impl Iterator for Records {
    type Item = Result<Record, BackupError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.has_failed {
            return None;
        }
        let next = self.next_record().transpose();
        self.has_failed = matches!(next, Some(Err(_)));
        next
    }
}
