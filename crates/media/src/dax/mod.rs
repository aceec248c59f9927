//! A pool on a device that *is* persistent memory: a character device of persistent memory (`/dev/dax0.0`), mapped
//! whole.
//!
//! ```text
//!   0            header, first copy                 4096
//!   4 KiB        header, second copy                4096
//!   8 KiB        device record                      64       state of the device, process that serves
//!   64 KiB       prepared map                       512 KiB  one bit for 256 KiB of log
//!   2 MiB        log                                capacity
//!   2 MiB + capacity                                checkpoint, two slots of equal size, to the end of the device
//! ```
//!
//! A device has no file system: no names, no holes, no `write`. This module provides the guarantees that a directory
//! gets from its file system:
//! - *Creation is whole or not at all*: the state in the device record is one word, and becomes *pool* only after
//!   everything before it was written back. A crash leaves *creating*, which the next creation starts over.
//! - *Unprepared bytes read as zero*: creation clears the log, at the speed of memory. The prepared map names the parts
//!   prepared since, so that a restart reads nothing else.
//! - *A checkpoint is replaced whole*: it goes into the slot of the older checkpoint ([`slots`]).
//! - *Locks* are locks of open file descriptions on the device's inode: one for the server, and one for the mapped
//!   description, which all clients of a run share ([`crate::earlier_writers`]).
//!
//! Everything but the log is written back line by line, whatever the means of the pool: the metadata are small and
//! rarely written.

mod lock;
mod metadata;
mod slots;

use std::cell::{OnceCell, RefCell};
use std::fs::{File, OpenOptions};
use std::path::{Path, PathBuf};
use std::rc::Rc;

use rustix::mm::MapFlags;
use stonecast_base::{MIB, Span};

use crate::dax::lock::Lock;
use crate::dax::metadata::{METADATA_SIZE, Metadata, State};
use crate::dax::slots::Slots;
use crate::dax_facts::{DEVICE_NAME, Facts};
use crate::earlier_writers::{EarlierWriters, Writers};
use crate::error::failed;
use crate::mapped_region::{MappedRegion, Sealing, Writable};
use crate::means::{Medium, MediumKind, choose_means};
use crate::persistent_mapping::{Mechanism, PersistentMapping};
use crate::power_cycle::boot_identifier;
use crate::volatile_memory::volatile_memory;
use crate::write_back::Processor;
use crate::{
    AppendedLog, Backing, Blob, LogOptions, Means, MediaError, PersistentRegion, Prepared, Region,
};

/// Share of a device, as its inverse, that is reserved for checkpoints if the owner names no size of the log.
const CHECKPOINT_SHARE: u64 = 16;

/// A device of persistent memory that holds a pool or will hold one.
#[derive(Debug)]
pub struct DaxBacking {
    path: PathBuf,
    facts: Facts,
    metadata: Metadata,
    power_cycle: u128,
    log: OnceCell<Log>,
    /// `None` if this process only inspects.
    lock: Option<Lock>,
    /// Whether the first header copy of a pool that is being created was stored.
    first_copy_stored: RefCell<bool>,
}

#[derive(Debug)]
struct Log {
    region: Rc<PersistentMapping>,
    slots: Slots,
    earlier_writers: EarlierWriters,
}

impl DaxBacking {
    /// Takes a device for a new pool. The device must hold neither a pool nor other data.
    pub fn create(path: &Path) -> Result<Self, MediaError> {
        let backing = Self::new(path, Facts::of(path)?, true)?;
        backing.check_creatable()?;
        Ok(backing)
    }

    /// Opens a device to serve the pool on it.
    pub fn open(path: &Path) -> Result<Self, MediaError> {
        let facts = Facts::of(path)?;
        // This first look takes no lock and leaves no note: the device may have nothing to do with pools.
        Self::new(path, facts, false)?.check_has_pool()?;
        let backing = Self::new(path, facts, true)?;
        backing.check_has_pool()?;
        Ok(backing)
    }

    /// Opens a device to read its pool. Changes nothing, and works while a server uses the device.
    pub fn inspect(path: &Path) -> Result<Self, MediaError> {
        let backing = Self::new(path, Facts::of(path)?, false)?;
        backing.check_has_pool()?;
        Ok(backing)
    }

    fn new(path: &Path, facts: Facts, serve: bool) -> Result<Self, MediaError> {
        if facts.size < 2 * METADATA_SIZE {
            let reason = "it is smaller than 4 MiB";
            return Err(MediaError::Unsuitable {
                path: path.to_owned(),
                reason,
            });
        }
        let metadata = Metadata::new(map(path, 0, METADATA_SIZE, serve)?);
        let lock = if serve {
            Some(Lock::acquire(path, &metadata)?)
        } else {
            None
        };
        let power_cycle = boot_identifier()?;
        let first_copy_stored = RefCell::new(false);
        Ok(Self {
            path: path.to_owned(),
            facts,
            metadata,
            power_cycle,
            log: OnceCell::new(),
            lock,
            first_copy_stored,
        })
    }

    fn check_has_pool(&self) -> Result<(), MediaError> {
        match self.metadata.state() {
            State::Pool => Ok(()),
            State::Creating | State::Empty | State::Foreign => Err(MediaError::NotFound {
                path: self.path.clone(),
            }),
        }
    }

    fn check_creatable(&self) -> Result<(), MediaError> {
        match self.metadata.state() {
            State::Pool => Err(MediaError::Exists {
                path: self.path.clone(),
            }),
            // A crash during a creation leaves nothing that belongs to anyone.
            State::Creating | State::Empty => Ok(()),
            State::Foreign => Err(MediaError::Unsuitable {
                path: self.path.clone(),
                reason: "it holds data that are not a pool; if they are not needed, clear its first 2 MiB (daxio --zero)",
            }),
        }
    }

    fn opened_log(&self) -> &Log {
        self.log.get().expect("the pool opens the log first")
    }

    /// The means of the pool, or the reason why the pool has none.
    fn means(&self, options: LogOptions) -> Result<Means, MediaError> {
        let medium = Medium {
            file_system: DEVICE_NAME,
            kind: MediumKind::DaxDevice,
            can_write_back: Processor::detect().is_some(),
            domain: Some(self.facts.domain),
        };
        choose_means(medium, options.platform, options.durability).map_err(|reason| {
            MediaError::CannotPromise {
                path: self.path.clone(),
                reason,
            }
        })
    }

    fn serve_log(&self, options: LogOptions) -> Result<Log, MediaError> {
        let mechanism = match self.means(options)? {
            Means::WriteBack => {
                let processor = Processor::detect()
                    .expect("the means was chosen because the processor has the instruction");
                Mechanism::WriteBack(processor)
            }
            Means::Fence => Mechanism::Fence,
            Means::Process => Mechanism::Process,
            Means::FileSync => unreachable!("a device is never synced"),
        };
        let file = open(&self.path, true)?;
        let earlier_writers = EarlierWriters::of_other_runs_than(&file, Writers::Clients)
            .map_err(failed("locking", &self.path))?;
        let memory = MappedRegion::map(file.into(), METADATA_SIZE, options.capacity, Writable::Yes);
        let region = Rc::new(PersistentMapping::new(
            memory.map_err(failed("mapping", &self.path))?,
            mechanism,
        ));
        let fresh = self.metadata.state() != State::Pool;
        if fresh {
            self.metadata.set_state(State::Creating);
            self.metadata.note_process(std::process::id());
            self.metadata.clear();
            clear(&region);
        }
        let slots = self.slots(options.capacity, true)?;
        if fresh {
            slots.clear();
        }
        Ok(Log {
            region,
            slots,
            earlier_writers,
        })
    }

    fn inspect_log(&self, options: LogOptions) -> Result<Log, MediaError> {
        let region = Rc::new(PersistentMapping::new(
            map(&self.path, METADATA_SIZE, options.capacity, false)?,
            Mechanism::Process,
        ));
        Ok(Log {
            region,
            slots: self.slots(options.capacity, false)?,
            earlier_writers: EarlierWriters::none(),
        })
    }

    fn slots(&self, capacity: u64, serve: bool) -> Result<Slots, MediaError> {
        let offset = METADATA_SIZE + capacity;
        Ok(Slots::new(map(
            &self.path,
            offset,
            self.facts.size - offset,
            serve,
        )?))
    }
}

impl Backing for DaxBacking {
    fn name(&self) -> String {
        self.path.display().to_string()
    }

    fn place(&self) -> PathBuf {
        self.path.clone()
    }

    fn capacity_max(&self, segment_size: u64) -> Option<u64> {
        let room = self.facts.size.saturating_sub(METADATA_SIZE);
        let room = room - room / CHECKPOINT_SHARE;
        Some(room - room.checked_rem(segment_size).unwrap_or(0))
    }

    fn in_use_by(&self) -> Option<u32> {
        lock::holder(&self.path, &self.metadata)
    }

    fn locate(&self, blob: Blob) -> (String, u64) {
        let offset = match blob {
            Blob::HeaderFirst | Blob::HeaderSecond => metadata::header_offset(blob),
            Blob::Checkpoint => self
                .log
                .get()
                .map_or(0, |log| METADATA_SIZE + log.region.size()),
        };
        (self.name(), offset)
    }

    fn open_log(&self, options: LogOptions) -> Result<Rc<dyn PersistentRegion>, MediaError> {
        assert!(self.log.get().is_none(), "the log is opened once");
        let room = self
            .facts
            .size
            .saturating_sub(METADATA_SIZE + Slots::SIZE_MIN);
        if options.capacity > room {
            return Err(MediaError::NoSpace {
                path: self.path.clone(),
                size: options.capacity,
            });
        }
        let log = if self.lock.is_some() {
            self.serve_log(options)?
        } else {
            self.inspect_log(options)?
        };
        let region = Rc::clone(&log.region);
        self.log.set(log).expect("no other call opens the log");
        Ok(region)
    }

    fn prepare(&self, span: Span) -> Result<Prepared, MediaError> {
        assert!(self.lock.is_some(), "an inspection prepares nothing");
        let size = self.opened_log().region.size();
        assert!(span.fits(size), "{span:?} is not in a log of {size} bytes");
        self.metadata.mark_prepared(span);
        Ok(Prepared::Ready)
    }

    fn occupied(&self) -> Result<Vec<Span>, MediaError> {
        Ok(self.metadata.prepared(self.opened_log().region.size()))
    }

    fn load(&self, blob: Blob) -> Result<Option<Vec<u8>>, MediaError> {
        Ok(match blob {
            Blob::Checkpoint => self.opened_log().slots.load(),
            Blob::HeaderFirst | Blob::HeaderSecond if self.metadata.state() == State::Pool => {
                Some(self.metadata.header(blob))
            }
            Blob::HeaderFirst | Blob::HeaderSecond => None,
        })
    }

    fn store(&self, blob: Blob, bytes: &[u8]) -> Result<(), MediaError> {
        assert!(self.lock.is_some(), "an inspection stores nothing");
        if blob == Blob::Checkpoint {
            self.opened_log().slots.store(bytes);
            return Ok(());
        }
        self.metadata.set_header(blob, bytes);
        if self.metadata.state() == State::Creating {
            let first_was_stored = self.first_copy_stored.replace(true);
            if first_was_stored {
                self.metadata.set_state(State::Pool);
            }
        }
        Ok(())
    }

    fn volatile(&self, name: &str, size: u64) -> Result<Rc<dyn Region>, MediaError> {
        volatile_memory(name, size, Sealing::FutureWrite)
    }

    fn volatile_for_all(&self, name: &str, size: u64) -> Result<Rc<dyn Region>, MediaError> {
        volatile_memory(name, size, Sealing::None)
    }

    fn earlier_writers_are_gone(&self) -> bool {
        self.opened_log().earlier_writers.are_gone()
    }

    fn log_for_appends(&self) -> Result<Option<AppendedLog>, MediaError> {
        let (file, capacity) = (open(&self.path, true)?, self.opened_log().region.size());
        let appended = AppendedLog::map(file, METADATA_SIZE, capacity);
        appended.map(Some).map_err(failed("mapping", &self.path))
    }

    fn power_cycle(&self) -> u128 {
        self.power_cycle
    }
}

fn open(path: &Path, writable: bool) -> Result<File, MediaError> {
    OpenOptions::new()
        .read(true)
        .write(writable)
        .open(path)
        .map_err(failed("opening", path))
}

fn map(path: &Path, offset: u64, size: u64, writable: bool) -> Result<MappedRegion, MediaError> {
    let file = open(path, writable)?;
    let access = if writable {
        Writable::Yes
    } else {
        Writable::No
    };
    MappedRegion::map_with(file.into(), offset, size, access, MapFlags::SHARED)
        .map_err(failed("mapping", path))
}

/// Overwrites a log with zeros and makes the zeros durable.
fn clear(log: &PersistentMapping) {
    let zeros = vec![0; MIB as usize];
    let mut offset = 0;
    while offset < log.size() {
        let size = (log.size() - offset).min(MIB);
        log.write(offset, &zeros[..size as usize]);
        let done = log.make_durable(&[Span::new(offset, size)]);
        done.expect("stores to memory cannot fail");
        offset += size;
    }
}

#[cfg(test)]
mod tests;
