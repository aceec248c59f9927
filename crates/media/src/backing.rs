//! The boundary between a pool and its medium. The boundary is small, so that a directory of files, a device of
//! persistent memory and a simulated medium all fit behind it.

use std::path::PathBuf;
use std::rc::Rc;

use stonecast_base::Span;

use crate::{AppendedLog, DeclaredPlatform, Durability, MediaError, PersistentRegion, Region};

/// A small byte string that a backing keeps beside the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Blob {
    /// First copy of the pool header.
    HeaderFirst,
    /// Second copy of the pool header.
    HeaderSecond,
    /// Checkpoint of the index.
    Checkpoint,
}

/// Distance between the two header copies, and the largest size of a copy, in bytes. One page, so that a write of one
/// copy never touches the other.
pub(crate) const HEADER_COPY_SIZE: u64 = 4096;

/// Whether a span of the log can be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Prepared {
    /// Every byte is allocated on the medium, so a write cannot fail for lack of space.
    Ready,
    /// The span is being prepared in the background; the caller asks again.
    Pending,
}

/// The facts that a backing needs to open the log. The pool reads them from its header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogOptions {
    /// Length in bytes.
    pub capacity: u64,
    /// The platform, as the operator declared it.
    pub platform: DeclaredPlatform,
    /// The promise of the pool.
    pub durability: Durability,
}

/// The medium of one pool.
pub trait Backing {
    /// A name for messages: the path of the log.
    fn name(&self) -> String;

    /// The path of the pool, as its user wrote it.
    fn place(&self) -> PathBuf;

    /// The file that holds a blob and the offset of the blob in that file, for messages.
    fn locate(&self, blob: Blob) -> (String, u64);

    /// Size in bytes of the largest log of whole segments that fits in a place of fixed size; `None` where only the
    /// free space of the medium limits the log.
    fn capacity_max(&self, _segment_size: u64) -> Option<u64> {
        None
    }

    /// The process that is serving the pool, if the backing can tell. Meant for inspection.
    fn in_use_by(&self) -> Option<u32> {
        None
    }

    /// Opens the log: its full capacity, of which only prepared spans may be written. Unprepared bytes read as zero.
    /// The call creates the log as long as no header has been stored; afterwards the log must exist with exactly that
    /// length, or be longer by bytes that were never written: [`Backing::grow_log`] may have left them, and a server
    /// cuts them off.
    ///
    /// The backing chooses the means of making bytes durable from the declaration and from what it detects, and refuses
    /// where no means keeps the promise. The pool calls this once, before [`Backing::prepare`] and
    /// [`Backing::occupied`].
    fn open_log(&self, options: LogOptions) -> Result<Rc<dyn PersistentRegion>, MediaError>;

    /// Makes the log longer, durably, from `from` bytes to `to`: the new bytes read as zero, and are not prepared.
    /// Bytes after `from` that an earlier call left are kept if nothing was ever written there, and otherwise are
    /// damage. A crash leaves the old length or the new one. As long as the header has the old capacity,
    /// [`Backing::open_log`] takes the log as it was. The pool calls this instead of [`Backing::open_log`].
    fn grow_log(&self, _from: u64, _to: u64) -> Result<(), MediaError> {
        Err(MediaError::CannotGrow {
            path: self.place(),
            reason: "its medium has a fixed size; back it up, and restore it into a new pool on a larger one",
        })
    }

    /// Allocates the space of `span` of the log. Idempotent. Every run of a server calls this before it writes there. A
    /// crash leaves the space allocated or not, and its content unchanged: zeros if it was never written.
    fn prepare(&self, span: Span) -> Result<Prepared, MediaError>;

    /// The spans of the log that may hold anything but zeros.
    fn occupied(&self) -> Result<Vec<Span>, MediaError>;

    /// Reads a whole blob; `None` if it was never stored. Bytes that were cut off or added from outside are neither
    /// restored nor removed.
    fn load(&self, blob: Blob) -> Result<Option<Vec<u8>>, MediaError>;

    /// Replaces a blob, durably where the medium is durable. A crash leaves the old or the new bytes. A crash may also
    /// tear a header copy, which is why there are two. The first header of a pool appears whole or not at all, and only
    /// after both copies are stored. A checkpoint that does not fit in a place of fixed size is replaced by an empty
    /// one.
    fn store(&self, blob: Blob, bytes: &[u8]) -> Result<(), MediaError>;

    /// New volatile memory, zeroed. Clients may map this memory but never write it, as far as the system can enforce
    /// that.
    fn volatile(&self, name: &str, size: u64) -> Result<Rc<dyn Region>, MediaError>;

    /// Like [`Backing::volatile`], for memory that other processes may be allowed to change.
    fn volatile_for_all(&self, name: &str, size: u64) -> Result<Rc<dyn Region>, MediaError> {
        self.volatile(name, size)
    }

    /// Removes a pool that was created through this value, if the backing can, and restores the place. The call is
    /// meant for a pool that has served no client. A pool that existed before stays untouched.
    fn discard(&self) {}

    /// Whether no process of an earlier run can still write to the log. A server asks after [`Backing::open_log`], and
    /// asks again while the answer is `false`: such a process may be in the middle of a store, so its memory must not
    /// be reused. Once the answer is `true`, it stays `true`.
    fn earlier_writers_are_gone(&self) -> bool {
        true
    }

    /// The log for nodes that append to it. Nodes count apart from clients: a client that outlives a run delays no
    /// party that waits for nodes. `None`: nodes get the region of [`Backing::open_log`], and
    /// [`Backing::earlier_writers_are_gone`] speaks of them, too. A run calls this once, after [`Backing::open_log`].
    fn log_for_appends(&self) -> Result<Option<AppendedLog>, MediaError> {
        Ok(None)
    }

    /// A value that distinguishes the place of the log from the place of any copy. The value survives a rename of the
    /// place and a restart of the machine. 0 if the place has no such value. May be called before
    /// [`Backing::open_log`].
    fn home(&self) -> u128 {
        0
    }

    /// A value that changes whenever the medium may have lost bytes that were written but not persisted (a boot
    /// identifier on real machines).
    fn power_cycle(&self) -> u128;
}
