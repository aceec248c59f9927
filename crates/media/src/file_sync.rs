//! Makes a file durable by `fdatasync`, and defines the meaning of a failure.
//!
//! A failed `fdatasync` says that some page did not reach the medium, but not which. The kernel also drops the page's
//! dirty mark, so the next call succeeds without writing the page. Hence:
//!
//! - After the first failure every later call fails (*poisoned*).
//! - The first failure is reported once to a hook, which records it for the next run: bytes that the next run reads
//!   from the page cache may not be on the medium.
//!
//! The kernel reports each write-back error once per open file description. So the description that is synced here is
//! never shared: another holder could consume the report.

use std::cell::Cell;
use std::fmt;
use std::io;
use std::path::PathBuf;

use crate::PersistError;

/// Something that can be synced: the boundary to the system, where tests inject failures.
pub(crate) trait SyncTarget {
    /// Returns when the medium has all bytes that the file held at the call.
    fn sync(&self) -> io::Result<()>;
    /// Called once, when `sync` has failed.
    fn sync_failed(&self);
}

/// A file that is made durable as a whole.
pub(crate) struct FileSync {
    name: PathBuf,
    target: Box<dyn SyncTarget>,
    poisoned: Cell<bool>,
}

impl FileSync {
    /// `name` is for messages.
    pub fn new(name: PathBuf, target: Box<dyn SyncTarget>) -> Self {
        Self {
            name,
            target,
            poisoned: Cell::new(false),
        }
    }

    /// Makes all bytes that the file holds durable.
    pub fn sync(&self) -> Result<(), PersistError> {
        if self.poisoned.get() {
            return Err(PersistError::Poisoned);
        }
        self.target.sync().map_err(|source| {
            self.poisoned.set(true);
            self.target.sync_failed();
            PersistError::Sync {
                file: self.name.clone(),
                source,
            }
        })
    }

    /// Whether a call failed before.
    pub fn is_poisoned(&self) -> bool {
        self.poisoned.get()
    }
}

impl fmt::Debug for FileSync {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("FileSync")
            .field("name", &self.name)
            .field("poisoned", &self.poisoned)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::rc::Rc;

    use super::*;

    #[derive(Default)]
    struct Device {
        broken: Cell<bool>,
        syncs: Cell<u32>,
        failures_told: Cell<u32>,
    }

    impl SyncTarget for Rc<Device> {
        fn sync(&self) -> io::Result<()> {
            self.syncs.set(self.syncs.get() + 1);
            // Like the kernel, the fake reports the error once.
            if self.broken.replace(false) {
                Err(io::Error::from_raw_os_error(5))
            } else {
                Ok(())
            }
        }
        fn sync_failed(&self) {
            self.failures_told.set(self.failures_told.get() + 1);
        }
    }

    /// Needs the poison: without it the second call would succeed, as the kernel's call does.
    #[test]
    fn after_a_failed_sync_nothing_is_ever_durable_again() {
        let device = Rc::new(Device::default());
        let file = FileSync::new("log".into(), Box::new(Rc::clone(&device)));
        assert!(file.sync().is_ok());

        device.broken.set(true);
        let failed = file.sync().unwrap_err();
        assert!(
            matches!(&failed, PersistError::Sync { file, source } if file.ends_with("log") && source.raw_os_error() == Some(5))
        );
        for _ in 0..3 {
            assert!(matches!(file.sync(), Err(PersistError::Poisoned)));
        }
        assert_eq!((device.syncs.get(), device.failures_told.get()), (2, 1));
    }
}
