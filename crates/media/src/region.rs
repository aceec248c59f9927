//! Bytes that other parties may access at any time.

use std::marker::PhantomData;
use std::os::fd::BorrowedFd;
use std::ptr::NonNull;

use stonecast_base::Nanoseconds;

use crate::Writable;

/// A fixed number of bytes that a network card, another process or another thread may access at any time.
///
/// Offsets count bytes from the start. A call outside `0..size()` is a bug of the caller and panics; the caller checks
/// offsets that come from outside. 8-byte operations need 8-byte alignment.
///
/// `read` and `write` copy each aligned 8-byte word inside the range whole (never half old, half new). There is no
/// promise across words. `load` is an acquire and `store` a release: a party that `load`s a stored value sees
/// everything that was written before the `store`.
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
    /// Replaces the aligned word at `offset` if it is `current`. `Ok` and `Err` carry the old word.
    fn compare_exchange(&self, offset: u64, current: u64, new: u64) -> Result<u64, u64>;
    /// Adds to the aligned word at `offset`, wrapping, and returns the old word.
    fn fetch_add(&self, offset: u64, add: u64) -> u64;
    /// A hint that `size` bytes at `offset` will be read soon. Never fails and changes nothing.
    fn prefetch(&self, offset: u64, size: u64) {
        let _ = (offset, size);
    }
    /// The file through which another process reaches these bytes, if any.
    fn share(&self) -> Option<Share<'_>> {
        None
    }
    /// The place of the bytes in this process, fixed for the life of the region; `None` if the region is not a mapping.
    fn mapped_at(&self) -> Option<MappedPlace<'_>> {
        None
    }
    /// Time that the medium needs to read `size` bytes; 0 on real media, where time passes by itself.
    fn read_cost(&self, size: u64) -> Nanoseconds {
        let _ = size;
        0
    }
}

/// The bytes of a mapping, for hardware that addresses memory. Only a mapping creates this value, so the value names no
/// other memory of this program. The processor never reads or writes through it, but through the region.
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

    /// Size in bytes.
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
    /// The descriptor that the owner mapped, open for reading and writing. The party that hands the descriptor on
    /// decides about rights.
    pub file: BorrowedFd<'a>,
    /// Offset of the region in the file, in bytes; a multiple of the page size.
    pub file_offset: u64,
    /// Whether `file` was sealed against new writable mappings (`F_SEAL_FUTURE_WRITE`), so that no other process can
    /// get write access, whatever descriptor it receives.
    pub write_sealed: bool,
}
