//! Bytes that another party may read or write at any time.

use std::marker::PhantomData;
use std::os::fd::BorrowedFd;
use std::ptr::NonNull;

use stonecast_base::Nanoseconds;

use crate::Writable;

/// A fixed number of bytes that a network card, another process or another thread may touch at any time.
///
/// Offsets are bytes from the start. A call outside `0..size()` is a bug of the caller and stops the program; offsets
/// that come from outside are checked before they get here. 8-byte operations need 8-byte alignment.
///
/// `read` and `write` promise: each aligned 8-byte word that lies wholly in the copy is copied whole (never half old, half
/// new); nothing is promised across words. `load` is an acquire, `store` a release: what was written before a `store` is seen by whoever `load`s
/// the stored value.
pub trait Region {
    /// Length in bytes; never changes.
    fn size(&self) -> u64;
    /// Copies out `into.len()` bytes from `offset`.
    fn read(&self, offset: u64, into: &mut [u8]);
    /// Copies in `from` at `offset`. Visible to others at an unspecified moment before the next release.
    fn write(&self, offset: u64, from: &[u8]);
    /// Loads the aligned word at `offset`.
    fn load(&self, offset: u64) -> u64;
    /// Stores the aligned word at `offset`.
    fn store(&self, offset: u64, value: u64);
    /// Replaces the aligned word at `offset` if it is `current`. `Ok` and `Err` carry the word found.
    fn compare_exchange(&self, offset: u64, current: u64, new: u64) -> Result<u64, u64>;
    /// Adds to the aligned word at `offset`, wrapping, and returns the word found.
    fn fetch_add(&self, offset: u64, add: u64) -> u64;
    /// A hint that `size` bytes at `offset` will be read soon. Never fails, changes nothing.
    fn prefetch(&self, offset: u64, size: u64) {
        let _ = (offset, size);
    }
    /// How another process reaches these bytes; `None` where it cannot.
    fn share(&self) -> Option<Share<'_>> {
        None
    }
    /// Where the bytes lie in this process, the same for the life of the region; `None` where they are no mapping of it.
    fn mapped_at(&self) -> Option<MappedPlace<'_>> {
        None
    }
    /// Time that the medium needs to read `size` bytes; 0 on real media, where it passes by itself.
    fn read_cost(&self, size: u64) -> Nanoseconds {
        let _ = size;
        0
    }
}

/// The bytes of a mapping, for hardware that finds memory by address. Only a mapping makes one, so that what it names is
/// no other memory of this program. Nobody reads or writes through it: the processor has the region for that.
#[derive(Clone, Copy, Debug)]
pub struct MappedPlace<'a> {
    address: NonNull<u8>,
    size: u64,
    writable: Writable,
    mapping: PhantomData<&'a ()>,
}

impl MappedPlace<'_> {
    pub(crate) fn new(address: NonNull<u8>, size: u64, writable: Writable) -> Self {
        Self {
            address,
            size,
            writable,
            mapping: PhantomData,
        }
    }

    /// The first byte.
    pub fn address(&self) -> NonNull<u8> {
        self.address
    }

    /// Bytes.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Whether the mapping allows stores.
    pub fn writable(&self) -> Writable {
        self.writable
    }
}

/// A file whose mapping is the region.
pub struct Share<'a> {
    /// The descriptor that the owner mapped, open for reading and writing. Whoever hands it on decides the rights.
    pub file: BorrowedFd<'a>,
    /// Where the region starts in the file, in bytes; a multiple of the page size.
    pub file_offset: u64,
    /// Whether `file` was sealed against new writable mappings (`F_SEAL_FUTURE_WRITE`), so that no other process can
    /// get write access, whatever it is handed.
    pub write_sealed: bool,
}
