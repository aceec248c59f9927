//! The lock of a device's server: a lock of an open file description (`F_OFD_SETLK`) on the first byte of the inode.
//! The lock ends with the process, however the process ends. The device record names the process, for people.

use std::fs::{File, OpenOptions};
use std::path::Path;

use crate::MediaError;
use crate::dax::metadata::Metadata;
use crate::description_lock::{others_hold, try_lock};
use crate::error::failed;

/// The lock, held until dropped.
#[derive(Debug)]
pub(super) struct Lock {
    _file: File,
}

impl Lock {
    /// Takes the lock of the device at `path`, and notes the process in the device record if the device holds a pool.
    pub fn acquire(path: &Path, metadata: &Metadata) -> Result<Self, MediaError> {
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .open(path)
            .map_err(failed("opening", path))?;
        if !try_lock(&file, 0).map_err(failed("locking", path))? {
            return Err(MediaError::InUse {
                path: path.to_owned(),
                pid: metadata.noted_process(),
            });
        }
        metadata.note_process(std::process::id());
        Ok(Self { _file: file })
    }
}

/// The process that serves the device. Does not touch the lock. The number in the record alone proves nothing, because
/// the record outlives the process.
pub(super) fn holder(path: &Path, metadata: &Metadata) -> Option<u32> {
    let file = File::open(path).ok()?;
    if others_hold(&file, 0, 1).ok()? {
        metadata.noted_process()
    } else {
        None
    }
}
