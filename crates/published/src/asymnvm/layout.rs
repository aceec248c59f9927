//! The memory of a back-end: well-known pages, the two logs of each instance, and slabs.
//!
//! ```text
//!   page of instance 0 │ ... │ operation log 0 │ memory log 0 │ ... │ slabs of instance 0 │ slabs of instance 1 │ ...
//! ```
//!
//! An instance is what one lock protects: one data structure.

use stonecast_base::Span;
use stonecast_structures::{SlabGeometry, Territory};

/// Bytes of the page of an instance.
const PAGE_SIZE: u64 = 4096;
/// Records of the lock-ahead log.
pub(super) const LOCK_AHEAD_RECORDS: u64 = 16;

/// The sizes of a back-end's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct AsymLayout {
    /// Structures that the memory has room for.
    pub instances: u32,
    /// Bytes of each log.
    pub log_size: u64,
    /// Bytes of a slab, a power of two of at least 4,096.
    pub slab_size: u64,
    /// Slabs of an instance.
    pub slabs: u64,
}

/// The words of an instance's page, each in a line of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Word {
    /// The write lock: its owner, or 0.
    Lock = 0,
    /// The sequence number: odd while the back-end changes the structure.
    Sequence = 1,
    /// LPN: where the next transaction of the memory log begins that is not applied.
    Applied = 2,
    /// The commit word: the end of the memory log. One WRITE changes it with OPN.
    Tail = 3,
    /// OPN: the position of the first operation whose memory log is not in the memory log.
    Covered = 4,
    /// The root word of the structures.
    Root = 5,
    /// Records of the lock-ahead log so far.
    LockRecords = 6,
}

impl AsymLayout {
    /// Bytes of the memory.
    pub fn size(&self) -> u64 {
        self.data_start() + u64::from(self.instances) * self.slabs * self.slab_size
    }

    fn data_start(&self) -> u64 {
        let logs = u64::from(self.instances) * (PAGE_SIZE + 2 * self.log_size);
        logs.next_multiple_of(self.slab_size)
    }

    pub(super) fn word(&self, instance: u32, word: Word) -> u64 {
        let line = match word {
            Word::Covered => Word::Tail as u64 * 64 + 8,
            word => word as u64 * 64,
        };
        u64::from(instance) * PAGE_SIZE + line
    }

    /// A record of the lock-ahead log.
    pub(super) fn lock_record(&self, instance: u32, number: u64) -> u64 {
        u64::from(instance) * PAGE_SIZE + 1024 + number % LOCK_AHEAD_RECORDS * 64
    }

    /// The slot of a request for blocks, and that of its answer.
    pub(super) fn request(&self, instance: u32) -> [u64; 2] {
        let page = u64::from(instance) * PAGE_SIZE;
        [page + 2048, page + 2112]
    }

    pub(super) fn operation_log(&self, instance: u32) -> u64 {
        u64::from(self.instances) * PAGE_SIZE + u64::from(instance) * 2 * self.log_size
    }

    pub(super) fn memory_log(&self, instance: u32) -> u64 {
        self.operation_log(instance) + self.log_size
    }

    /// The bytes of an instance's slabs.
    pub fn data(&self, instance: u32) -> Span {
        let size = self.slabs * self.slab_size;
        Span::new(self.data_start() + u64::from(instance) * size, size)
    }

    /// The memory of an instance as the traversals of `structures` see it.
    pub fn territory(&self, instance: u32) -> Territory {
        let first = u64::from(instance) * self.slabs;
        Territory {
            root: Span::new(self.word(instance, Word::Root), 8),
            geometry: SlabGeometry::new(self.data_start(), self.slab_size),
            slabs: (first..first + self.slabs).collect(),
        }
    }

    pub(super) fn to_words(self) -> [u64; 4] {
        [
            self.instances.into(),
            self.log_size,
            self.slab_size,
            self.slabs,
        ]
    }

    pub(super) fn from_words([instances, log_size, slab_size, slabs]: [u64; 4]) -> Self {
        Self {
            instances: instances as u32,
            log_size,
            slab_size,
            slabs,
        }
    }
}
