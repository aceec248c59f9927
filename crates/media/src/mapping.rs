//! Address space that shows a range of a file; owns `mmap` and `munmap`.

use std::io;
use std::os::fd::BorrowedFd;
use std::ptr::{self, NonNull};

use rustix::mm::{MapFlags, ProtFlags, mmap, mmap_anonymous, munmap};

/// Bytes of a large page. If address and file offset of a mapping are multiples of this size, the kernel can use large
/// pages, which makes dependent random reads of a large pool 1.4 to 1.9 times as fast.
pub(crate) const LARGE_PAGE: usize = 2 << 20;

/// Mapped memory, shared with every process that maps the same file. Unmapped when dropped.
#[derive(Debug)]
pub(crate) struct Mapping {
    start: NonNull<u8>,
    /// Bytes; a multiple of the page size.
    length: usize,
}

// SAFETY: a mapping is a range of addresses of the process, not of a thread, and `Mapping` gives out only its address;
// code that dereferences the address is responsible for concurrent access.
unsafe impl Send for Mapping {}
// SAFETY: as above; no method changes the value.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Maps `size` bytes, rounded up to whole grains, from `file_offset` of `file`, a multiple of the grain. `flags`
    /// determine the kind of sharing: `MapFlags::SHARED`, or `MapFlags::SHARED_VALIDATE | MapFlags::SYNC`. `grain` is
    /// the page size, or the larger unit of a device of persistent memory, for which the kernel chooses a suitable
    /// address.
    pub fn new(
        file: BorrowedFd<'_>,
        file_offset: u64,
        size: u64,
        grain: u64,
        protection: ProtFlags,
        flags: MapFlags,
    ) -> io::Result<Self> {
        let page = rustix::param::page_size();
        let unusable = || io::Error::from(io::ErrorKind::InvalidInput);
        let length = usize::try_from(grain)
            .ok()
            .and_then(|grain| usize::try_from(size).ok()?.checked_next_multiple_of(grain));
        let length = length.filter(|_| size > 0);
        let length = length
            .filter(|length| *length <= isize::MAX as usize)
            .ok_or_else(unusable)?;
        let offset_in_large_page =
            usize::try_from(file_offset % LARGE_PAGE as u64).map_err(|_| unusable())?;
        if !offset_in_large_page.is_multiple_of(page)
            || file_offset.checked_add(length as u64).is_none()
        {
            return Err(unusable());
        }
        let place = if length < LARGE_PAGE || grain > page as u64 {
            None
        } else {
            Some(Self::reserve(length, offset_in_large_page)?)
        };
        let (at, flags) = match &place {
            None => (ptr::null_mut(), flags),
            Some(reserved) => (reserved.start.as_ptr(), flags | MapFlags::FIXED),
        };
        // SAFETY: without a place the kernel chooses unused addresses. With a place, `at..at + length` is the
        // reservation of this call, aligned to pages and empty. No reference to the memory is ever made.
        let start = unsafe { mmap(at.cast(), length, protection, flags, file, file_offset) }?;
        // The mapping replaced the reservation, so only one of the two may unmap it.
        std::mem::forget(place);
        Ok(Self {
            start: NonNull::new(start.cast()).expect("mmap never returns 0"),
            length,
        })
    }

    /// Reserves `length` bytes of addresses that start at `offset` in a large page.
    fn reserve(length: usize, offset: usize) -> io::Result<Self> {
        let slack = LARGE_PAGE;
        let whole = length
            .checked_add(slack)
            .ok_or_else(|| io::Error::from(io::ErrorKind::InvalidInput))?;
        let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
        // SAFETY: the kernel chooses unused addresses.
        let start = unsafe { mmap_anonymous(ptr::null_mut(), whole, ProtFlags::empty(), flags) }?;
        let start = NonNull::new(start.cast::<u8>()).expect("mmap never returns 0");
        let before = (offset + LARGE_PAGE - start.addr().get() % LARGE_PAGE) % LARGE_PAGE;
        let after = slack - before;
        let head = Self {
            start,
            length: before,
        };
        // SAFETY: `before < slack`, so the address stays inside the reservation.
        let start = unsafe { start.add(before) };
        // SAFETY: `before + length <= whole`.
        let end = unsafe { start.add(length) };
        let tail = Self {
            start: end,
            length: after,
        };
        // Each part is unmapped by its own `drop`; the middle stays.
        drop((head, tail));
        Ok(Self { start, length })
    }

    /// The first byte.
    pub fn start(&self) -> *mut u8 {
        self.start.as_ptr()
    }

    /// Bytes; a multiple of the page size.
    pub fn length(&self) -> usize {
        self.length
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        if self.length == 0 {
            return;
        }
        // SAFETY: this value alone mapped `start..start + length`, which ends with it; no references into the range
        // exist, because none are ever made.
        let unmapped = unsafe { munmap(self.start.as_ptr().cast(), self.length) };
        // The call fails only for addresses that are not mapped, which is a bug, and if a split exceeds the process's
        // limit of mappings, which a destructor cannot remedy.
        debug_assert!(unmapped.is_ok(), "{unmapped:?}");
    }
}
