//! Who serves a device: a lock of an open file description (`F_OFD_SETLK`) on the first byte of its inode. It ends with the
//! process, however that ends. The number of the process stands in the device record, for people.

use std::fs::{File, OpenOptions};
use std::path::Path;

use nix::errno::Errno;
use nix::fcntl::{FcntlArg, fcntl};
use nix::libc;

use crate::MediaError;
use crate::device::metadata::Metadata;
use crate::earlier_writers::bytes;
use crate::error::failed;

/// The lock, held until dropped.
#[derive(Debug)]
pub(super) struct Lock {
    _file: File,
}

impl Lock {
    /// Takes the lock of the device at `path`, and notes the process in its record if it holds a pool.
    pub fn acquire(path: &Path, metadata: &Metadata) -> Result<Self, MediaError> {
        let file = OpenOptions::new().read(true).write(true).open(path).map_err(failed("opening", path))?;
        match fcntl(&file, FcntlArg::F_OFD_SETLK(&bytes(libc::F_WRLCK, 0, 1))) {
            Ok(_) => {}
            Err(Errno::EAGAIN | Errno::EACCES) => {
                return Err(MediaError::InUse { path: path.to_owned(), pid: metadata.noted_process() });
            }
            Err(error) => return Err(failed("locking", path)(std::io::Error::from(error))),
        }
        metadata.note_process(std::process::id());
        Ok(Self { _file: file })
    }
}

/// The process that serves the device, without touching the lock. The number alone proves nothing: it outlives its process.
pub(super) fn holder(path: &Path, metadata: &Metadata) -> Option<u32> {
    let file = File::open(path).ok()?;
    let mut found = bytes(libc::F_RDLCK, 0, 1);
    fcntl(&file, FcntlArg::F_OFD_GETLK(&mut found)).ok()?;
    if i32::from(found.l_type) == libc::F_UNLCK { None } else { metadata.noted_process() }
}
