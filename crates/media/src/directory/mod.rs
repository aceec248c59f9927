//! A pool in a directory of an ordinary file system: on a disk, on persistent memory, or in memory.
//!
//! ```text
//!   DIR/header       two copies, at 0 and 4096           blobs
//!   DIR/log          one sparse file, mapped             log, prepare
//!   DIR/checkpoint   replaced by rename                  blobs
//!   DIR/lock         flock of the server, as of log      lock
//! ```
//!
//! Invariants:
//! - A server holds the lock from before the first read of the header until the backing is gone, or longer. An
//!   inspection takes no lock and opens nothing for writing.
//! - A file that does not belong to a pool is never changed.
//! - When [`Backing::open_log`] returns, all bytes that a noted failed sync left in the page cache are durable.
//!   Recovery of the log marks the bytes that a failure without a note may have left there (`docs/design/0002`).

mod awake;
mod blobs;
mod claim;
mod fill;
mod holes;
mod lock;
mod log;
mod made;
mod medium;
mod prepare;

use std::cell::{RefCell, RefMut};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::UNIX_EPOCH;

use stonecast_base::{Corruption, MIB, Span};

use crate::directory::awake::Awake;
use crate::directory::blobs::Blobs;
use crate::directory::claim::Claim;
use crate::directory::lock::Lock;
use crate::directory::log::{Log, SyncedLog};
use crate::directory::made::Made;
use crate::error::failed;
use crate::file_sync::SyncTarget;
use crate::mapped_region::Sealing;
use crate::power_cycle::boot_identifier;
use crate::volatile_memory::volatile_memory;
use crate::{
    AppendedLog, Backing, Blob, LogOptions, Means, MediaError, PersistentRegion, Prepared, Region,
    persistent_mapping::PersistentMapping,
};

pub(crate) use medium::detect as detect_medium;

/// A pool's directory.
#[derive(Debug)]
pub struct DirectoryBacking {
    directory: PathBuf,
    blobs: Blobs,
    power_cycle: u128,
    log: RefCell<Option<Log>>,
    /// `None` if this process only inspects.
    lock: Option<Rc<Lock>>,
    made: Rc<Made>,
    /// `None` if the pool existed before.
    claim: Option<Claim>,
}

impl DirectoryBacking {
    /// Takes a directory for a new pool, and makes the directory if it is missing.
    pub fn create(directory: &Path) -> Result<Self, MediaError> {
        Self::refuse_log_without_header(directory)?;
        let claim = Claim::new(directory)?;
        let locked = claim
            .make_names_durable(&mut blobs::sync_directory)
            .and_then(|()| Self::locked(directory));
        let backing = locked.inspect_err(|_| claim.remove_made())?;
        if backing.blobs.have_header()? {
            Err(MediaError::Exists {
                path: directory.to_owned(),
            })
        } else {
            backing.blobs.begin_creation();
            Ok(Self {
                claim: Some(claim),
                ..backing
            })
        }
    }

    /// Refuses a log that has data but no header: such a log belongs to a pool that lost its header, not to an
    /// interrupted creation.
    fn refuse_log_without_header(directory: &Path) -> Result<(), MediaError> {
        let blobs = Blobs::new(directory.to_owned());
        let log = directory.join("log");
        if blobs.have_header()? || !log::has_data(&log)? {
            return Ok(());
        }
        Err(Corruption {
            what: "pool header".into(),
            file: blobs
                .locate(Blob::HeaderFirst)
                .0
                .display()
                .to_string()
                .into(),
            offset: 0,
            found: format!("no such file, though {} has data", log.display()),
            expected: "two copies of the header; restore the file from a copy of the pool, or move the log away to begin anew"
                .into(),
        }
        .into())
    }

    /// Opens a directory to serve the pool in it.
    pub fn open(directory: &Path) -> Result<Self, MediaError> {
        // Checked before anything is written: the directory may have nothing to do with pools.
        if !Blobs::new(directory.to_owned()).have_header()? {
            return Err(MediaError::NotFound {
                path: directory.to_owned(),
            });
        }
        let backing = Self::locked(directory)?;
        backing.blobs.remove_leftovers();
        Ok(backing)
    }

    /// Opens a directory to read the pool in it. Changes nothing, and works while a server uses the pool; see
    /// [`Backing::in_use_by`].
    pub fn inspect(directory: &Path) -> Result<Self, MediaError> {
        let backing = Self::new(directory, None, Rc::default())?;
        if backing.blobs.have_header()? {
            return Ok(backing);
        }
        Self::refuse_log_without_header(directory)?;
        Err(MediaError::NotFound {
            path: directory.to_owned(),
        })
    }

    fn locked(directory: &Path) -> Result<Self, MediaError> {
        let made = Rc::new(Made::default());
        let lock = Lock::acquire(directory, &made)?;
        Self::new(directory, Some(Rc::new(lock)), made)
    }

    fn new(directory: &Path, lock: Option<Rc<Lock>>, made: Rc<Made>) -> Result<Self, MediaError> {
        let directory = directory.to_owned();
        let blobs = Blobs::noting(directory.clone(), Rc::clone(&made));
        Ok(Self {
            directory,
            blobs,
            power_cycle: boot_identifier()?,
            log: RefCell::new(None),
            lock,
            made,
            claim: None,
        })
    }

    fn log_path(&self) -> PathBuf {
        self.directory.join("log")
    }

    fn opened_log(&self) -> RefMut<'_, Log> {
        RefMut::map(self.log.borrow_mut(), |log| {
            log.as_mut().expect("the pool opens the log first")
        })
    }

    /// Like [`Backing::open_log`]. `target` stands between the log and the system call that syncs it.
    fn open_log_with(
        &self,
        options: LogOptions,
        target: impl FnOnce(SyncedLog) -> Box<dyn SyncTarget>,
    ) -> Result<Rc<PersistentMapping>, MediaError> {
        assert!(self.log.borrow().is_none(), "the log is opened once");
        let path = self.log_path();
        let log = match &self.lock {
            None => log::inspect(&path, options.capacity)?,
            Some(lock) => {
                let fresh = self.blobs.are_new()?;
                if fresh {
                    log::create(&path, options.capacity, &self.made)?;
                    lock.hold_log(&self.directory)?;
                }
                let note = || {
                    lock.note(self.power_cycle)
                        .map_err(failed("sharing", &lock::file_of(&self.directory)))
                };
                let (note, notes_zeros) = (note()?, note()?);
                let opened = log::serve(&path, &self.directory, options, notes_zeros, |file| {
                    target(SyncedLog {
                        file,
                        note,
                        awake: Awake::start(),
                    })
                });
                if opened.is_err() && fresh {
                    // A failed creation leaves nothing, not even a name that looks like a pool.
                    self.made.remove(&path);
                }
                opened?
            }
        };
        let region = Rc::clone(&log.region);
        *self.log.borrow_mut() = Some(log);
        self.make_good(&region)?;
        Ok(region)
    }

    /// Makes the content of the page cache durable: the stores of a killed run, and the bytes that a failed sync left
    /// behind.
    fn make_good(&self, region: &PersistentMapping) -> Result<(), MediaError> {
        let Some(lock) = self
            .lock
            .as_ref()
            .filter(|_| region.means() == Means::FileSync)
        else {
            return Ok(());
        };
        let sync_failed = lock.sync_failed_in() == Some(self.power_cycle);
        if sync_failed {
            region.mark_changed(&self.occupied()?);
        }
        region.sync_all()?;
        if sync_failed {
            lock.forget_sync_failure()
                .map_err(failed("writing", &lock::file_of(&self.directory)))?;
        }
        Ok(())
    }
}

impl Backing for DirectoryBacking {
    fn name(&self) -> String {
        self.log_path().display().to_string()
    }

    fn place(&self) -> PathBuf {
        self.directory.clone()
    }

    fn in_use_by(&self) -> Option<u32> {
        lock::holder(&self.directory)
    }

    fn locate(&self, blob: Blob) -> (String, u64) {
        let (path, offset) = self.blobs.locate(blob);
        (path.display().to_string(), offset)
    }

    fn open_log(&self, options: LogOptions) -> Result<Rc<dyn PersistentRegion>, MediaError> {
        Ok(self.open_log_with(options, |log| Box::new(log))?)
    }

    fn grow_log(&self, from: u64, to: u64) -> Result<(), MediaError> {
        assert!(self.lock.is_some(), "an inspection changes nothing");
        log::grow(&self.log_path(), from, to)
    }

    fn prepare(&self, span: Span) -> Result<Prepared, MediaError> {
        assert!(self.lock.is_some(), "an inspection prepares nothing");
        let mut log = self.opened_log();
        assert!(
            span.fits(log.region.size()),
            "{span:?} is not in a log of {} bytes",
            log.region.size()
        );
        log.preparer.prepare(span)
    }

    fn occupied(&self) -> Result<Vec<Span>, MediaError> {
        let log = self.opened_log();
        let whole = Span::new(0, log.region.size());
        holes::data(log.preparer.file(), whole)
            .map_err(failed("looking for data in", &self.log_path()))
    }

    fn load(&self, blob: Blob) -> Result<Option<Vec<u8>>, MediaError> {
        // No index image is larger than its log, except an empty one.
        let capacity = self
            .log
            .borrow()
            .as_ref()
            .map_or(0, |log| log.region.size());
        self.blobs.load(blob, capacity.max(MIB))
    }

    fn store(&self, blob: Blob, bytes: &[u8]) -> Result<(), MediaError> {
        assert!(self.lock.is_some(), "an inspection stores nothing");
        self.blobs.store(blob, bytes)
    }

    fn volatile(&self, name: &str, size: u64) -> Result<Rc<dyn Region>, MediaError> {
        volatile_memory(name, size, Sealing::FutureWrite)
    }

    fn volatile_for_all(&self, name: &str, size: u64) -> Result<Rc<dyn Region>, MediaError> {
        volatile_memory(name, size, Sealing::None)
    }

    fn discard(&self) {
        if let Some(claim) = &self.claim {
            claim.give_back(&self.made);
        }
    }

    fn earlier_writers_are_gone(&self) -> bool {
        self.opened_log().earlier_writers.are_gone()
    }

    fn log_for_appends(&self) -> Result<Option<AppendedLog>, MediaError> {
        let capacity = self.opened_log().region.size();
        log::serve_appends(&self.log_path(), capacity).map(Some)
    }

    /// Inode numbers are reused after a file is gone, so the time of creation is part of the value, if the file system
    /// keeps one.
    fn home(&self) -> u128 {
        let Ok(status) = std::fs::metadata(self.log_path()) else {
            return 0;
        };
        let created = status
            .created()
            .ok()
            .and_then(|time| time.duration_since(UNIX_EPOCH).ok());
        let created_ns = created.map_or(0, |time| time.as_nanos() as u64);
        u128::from(created_ns) << 64 | u128::from(status.ino())
    }

    fn power_cycle(&self) -> u128 {
        self.power_cycle
    }
}

#[cfg(test)]
mod tests;
