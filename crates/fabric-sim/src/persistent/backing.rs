//! A place for a pool in the simulated world.

use std::cell::Cell;
use std::path::PathBuf;
use std::rc::Rc;

use stonecast_base::Span;
use stonecast_media::{
    Backing, Blob, Durability, LogOptions, Means, MediaError, PersistenceDomain, PersistentRegion,
    Prepared, Region,
};

use crate::machine::dram;
use crate::memory::Memory;
use crate::persistent::{Module, PersistentMemory};

/// The view of a module for the operating system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum MediumKind {
    /// A file in a page cache.
    File,
    /// Persistent memory, mapped directly.
    Direct,
}

/// One value for each process that opens the pool.
pub struct SimBacking {
    module: Rc<Module>,
    /// Blobs that may still be stored before the power fails, if it fails in the middle of a store.
    stores_left: Cell<Option<u32>>,
    power_cut: Cell<bool>,
}

impl SimBacking {
    /// The pool on `module`, or the place for one.
    pub fn new(module: &Rc<Module>) -> Self {
        Self {
            module: module.clone(),
            stores_left: Cell::new(None),
            power_cut: Cell::new(false),
        }
    }

    /// Cuts the power in the middle of the store that follows `stores` more: that store is torn, and every later call
    /// fails. A change of the log's length counts as a store, and is not done. The module knows what is left.
    pub fn cut_power_after(&self, stores: u32) {
        self.stores_left.set(Some(stores));
    }

    /// Whether the power failed, as requested with [`SimBacking::cut_power_after`].
    pub fn power_was_cut(&self) -> bool {
        self.power_cut.get()
    }

    /// Counts a store that is about to be done, or fails because the power failed, or fails now.
    fn count_store(&self) -> Result<(), MediaError> {
        let left = self.stores_left.get();
        if left == Some(0) || self.power_cut.get() {
            self.power_cut.set(true);
            let source = std::io::Error::other("the power has failed");
            return Err(MediaError::Io {
                doing: "storing",
                path: self.place(),
                source,
            });
        }
        self.stores_left.set(left.map(|left| left - 1));
        Ok(())
    }

    fn kind(&self) -> MediumKind {
        match self.module.platform.persistence_domain {
            PersistenceDomain::PageFile => MediumKind::File,
            PersistenceDomain::Volatile
            | PersistenceDomain::Dmp
            | PersistenceDomain::Mhp
            | PersistenceDomain::Wsp => MediumKind::Direct,
        }
    }

    /// Cuts the power while `blob` is stored: a header copy is torn, a checkpoint is replaced as a whole or not at all.
    fn tear(&self, blob: Blob, bytes: &[u8]) {
        self.power_cut.set(true);
        if blob != Blob::Checkpoint {
            let old = self.module.blob(blob);
            let old = old.as_deref().unwrap_or_default();
            // A disk tears between sectors, memory between words: there, in the middle of the header's content.
            let whole = if self.kind() == MediumKind::File {
                bytes.len() / 2
            } else {
                TORN_AT.min(bytes.len())
            };
            let mut torn = bytes[..whole].to_vec();
            torn.extend(old.get(torn.len()..).unwrap_or_default());
            self.module.set_blob(blob, &torn);
        }
    }
}

/// Bytes of a header that a torn store to memory leaves: magic, version, checksum, and a part of the checksummed bytes.
const TORN_AT: usize = 64;

/// The means of making bytes durable there, chosen as a directory of files would choose.
fn choose(kind: MediumKind, options: LogOptions) -> Result<Means, &'static str> {
    use PersistenceDomain::{Dmp, Mhp, PageFile, Volatile, Wsp};
    match (
        options.durability,
        options.platform.persistence_domain,
        kind,
    ) {
        (Durability::Process, _, _) => Ok(Means::Process),
        (Durability::Power, PageFile, _) => Ok(Means::FileSync),
        (Durability::Power, Dmp, MediumKind::Direct) => Ok(Means::WriteBack),
        (Durability::Power, Mhp | Wsp, MediumKind::Direct) => Ok(Means::Fence),
        (Durability::Power, Volatile, _) => Err("the medium is declared volatile"),
        (Durability::Power, Dmp | Mhp | Wsp, MediumKind::File) => {
            Err("the medium is a file in a page cache")
        }
    }
}

impl Backing for SimBacking {
    fn name(&self) -> String {
        "simulated log".to_owned()
    }

    fn place(&self) -> PathBuf {
        "simulated pool".into()
    }

    fn locate(&self, blob: Blob) -> (String, u64) {
        match blob {
            Blob::HeaderFirst => ("simulated header".to_owned(), 0),
            Blob::HeaderSecond => ("simulated header".to_owned(), 4096),
            Blob::Checkpoint => ("simulated checkpoint".to_owned(), 0),
        }
    }

    fn open_log(&self, options: LogOptions) -> Result<Rc<dyn PersistentRegion>, MediaError> {
        let means = choose(self.kind(), options).map_err(|reason| MediaError::CannotPromise {
            path: self.place(),
            reason: reason.to_owned(),
        })?;
        let fresh = self.module.blob(Blob::HeaderFirst).is_none()
            && self.module.blob(Blob::HeaderSecond).is_none();
        // A pool that was growing may have left a longer log, of which nothing was ever prepared.
        let is_longer = self.module.log.size.get() > options.capacity
            && self.module.is_unprepared_from(options.capacity);
        if fresh || is_longer {
            self.module.log.size.set(options.capacity);
        }
        if self.module.log.size.get() != options.capacity {
            return Err(stonecast_base::Corruption {
                what: "length of the log".into(),
                file: self.name().into(),
                offset: 0,
                found: self.module.log.size.get().to_string(),
                expected: options.capacity.to_string(),
            }
            .into());
        }
        if means == Means::FileSync {
            // The data that a killed run left in the page cache are made durable before anything is read.
            self.module.sync_now();
        }
        Ok(Rc::new(PersistentMemory::new(
            self.module.clone(),
            options.capacity,
            means,
            self.name(),
        )))
    }

    fn grow_log(&self, _: u64, to: u64) -> Result<(), MediaError> {
        self.count_store()?;
        self.module.time.charge(self.module.profile.file_sync_ns);
        self.module.log.size.set(to);
        Ok(())
    }

    fn prepare(&self, span: Span) -> Result<Prepared, MediaError> {
        assert!(
            span.fits(self.module.log.size.get()),
            "{span:?} is not in the log"
        );
        match self.module.prepare(span) {
            None => Err(MediaError::NoSpace {
                path: self.place(),
                size: span.size,
            }),
            Some(done) if done > self.module.time.clock() => Ok(Prepared::Pending),
            Some(_) => Ok(Prepared::Ready),
        }
    }

    fn occupied(&self) -> Result<Vec<Span>, MediaError> {
        Ok(self.module.occupied())
    }

    fn load(&self, blob: Blob) -> Result<Option<Vec<u8>>, MediaError> {
        Ok(self.module.blob(blob).map(|bytes| bytes.to_vec()))
    }

    fn store(&self, blob: Blob, bytes: &[u8]) -> Result<(), MediaError> {
        if self.stores_left.get() == Some(0) && !self.power_cut.get() {
            self.tear(blob, bytes);
        }
        self.count_store()?;
        let profile = &self.module.profile;
        self.module
            .time
            .charge(profile.file_sync_ns + bytes.len() as u64 * profile.file_sync_byte_ps / 1000);
        self.module.set_blob(blob, bytes);
        Ok(())
    }

    fn volatile(&self, _: &str, size: u64) -> Result<Rc<dyn Region>, MediaError> {
        Ok(Rc::new(Memory::new(
            size,
            self.module.time.clone(),
            dram(&self.module.profile),
        )))
    }

    fn power_cycle(&self) -> u128 {
        self.module.power_cycle()
    }
}
