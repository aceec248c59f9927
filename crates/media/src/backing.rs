//! Where a pool lives: the boundary between a pool and the outside. Small, so that a directory of files, a device and
//! a simulated medium all fit behind it.

use std::path::PathBuf;
use std::rc::Rc;

use stonecast_base::Span;

use crate::{DeclaredPlatform, Durability, MediaError, PersistentRegion, Region};

/// The small byte strings that a backing keeps beside the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Blob {
    /// First copy of the pool header.
    HeaderFirst,
    /// Second copy of the pool header.
    HeaderSecond,
    /// Checkpoint of the index.
    Checkpoint,
}

/// Distance of the two header copies, and the most bytes that one may have. One page, so that no write of one copy
/// touches the other's.
pub(crate) const HEADER_COPY_SIZE: u64 = 4096;

/// Whether space can be written yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Prepared {
    /// Every byte is allocated on the medium: writing it cannot fail for want of space.
    Ready,
    /// Being prepared beside the caller; ask again.
    Pending,
}

/// What a backing must know to open the log. It stands in the header, so the pool brings it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogOptions {
    /// Length in bytes.
    pub capacity: u64,
    /// What the operator declared.
    pub platform: DeclaredPlatform,
    /// What the pool promises.
    pub durability: Durability,
}

/// Where a pool lives.
pub trait Backing {
    /// A name for messages: the path of the log.
    fn name(&self) -> String;

    /// Where the pool is, as its user names it.
    fn place(&self) -> PathBuf;

    /// For messages: the file that holds a blob, and the offset of the blob in it.
    fn locate(&self, blob: Blob) -> (String, u64);

    /// The largest log of whole segments that a place of fixed size has room for; `None` where only the medium's free
    /// space limits it.
    fn capacity_max(&self, _segment_size: u64) -> Option<u64> {
        None
    }

    /// The process that serves the pool now, where the backing can tell. Asked by who inspects.
    fn in_use_by(&self) -> Option<u32> {
        None
    }

    /// Opens the log: its full capacity, of which only prepared spans may be written. Unprepared bytes read as zero.
    /// While no header was ever stored, the log is created; afterwards it must be there, with exactly that length.
    ///
    /// Chooses the means of making bytes durable from what is declared and what the backing detects, and refuses where
    /// they cannot keep the promise. Called once, by the pool, before [`Backing::prepare`] and [`Backing::occupied`].
    fn open_log(&self, options: LogOptions) -> Result<Rc<dyn PersistentRegion>, MediaError>;

    /// Allocates the space of `span` of the log. Idempotent; to be asked in each run of a server before anybody writes
    /// there. A crash leaves it allocated or not; its content is what it was, zeros if it was never written.
    fn prepare(&self, span: Span) -> Result<Prepared, MediaError>;

    /// The spans of the log that hold anything at all; what lies outside them reads as zero.
    fn occupied(&self) -> Result<Vec<Span>, MediaError>;

    /// Reads a blob whole; `None` if it was never stored. What was cut off or added outside comes back as it is.
    fn load(&self, blob: Blob) -> Result<Option<Vec<u8>>, MediaError>;

    /// Replaces a blob, durably where the medium is. A crash leaves the old or the new bytes, for header copies
    /// possibly torn ones (that is why there are two). The very first header appears whole or not at all, once both
    /// copies were stored. Where a checkpoint has no room in a place of fixed size, an empty one takes its place.
    fn store(&self, blob: Blob, bytes: &[u8]) -> Result<(), MediaError>;

    /// Fresh zeroed volatile memory that clients may map but, where the system can enforce it, never write.
    fn volatile(&self, name: &str, size: u64) -> Result<Rc<dyn Region>, MediaError>;

    /// The same, for memory that other processes may be allowed to change, too.
    fn volatile_for_all(&self, name: &str, size: u64) -> Result<Rc<dyn Region>, MediaError> {
        self.volatile(name, size)
    }

    /// Removes a pool that was created through this value, where the backing can: the place is as it was before. Only while
    /// nobody was served from it. Of a pool that was there before nothing is touched.
    fn discard(&self) {}

    /// Whether no process of an earlier run can still write to the log. Asked after [`Backing::open_log`], and again as
    /// long as one can: what that may write to must not be given to others, since it may be in the middle of a store. Once
    /// they are gone they stay gone.
    fn earlier_writers_are_gone(&self) -> bool {
        true
    }

    /// A value that tells the place of the log from that of any copy of it, and stays when the place is renamed or the
    /// machine starts again; 0 where there is none. May be asked before [`Backing::open_log`].
    fn home(&self) -> u128 {
        0
    }

    /// A value that changes whenever the medium may have lost bytes that were written but not persisted (a boot
    /// identifier on real machines).
    fn power_cycle(&self) -> u128;
}
