//! Regions of real memory: a mapping of a file, or of memory that has only a descriptor.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};

use rustix::fs::{
    FileType, MemfdFlags, Mode, SealFlags, fchmod, fcntl_add_seals, fcntl_get_seals, fstat,
    ftruncate, memfd_create,
};
use rustix::io::Errno;
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise};
use stonecast_base::{LINE_SIZE, Span};

use crate::copy::{copy_in, copy_out, lines_across};
use crate::dax_facts::alignment_of;
use crate::futex::FutexWord;
use crate::mapping::{LARGE_PAGE, Mapping};
use crate::{MappedPlace, Region, Share};

/// Whether a mapping allows stores.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Writable {
    /// Loads and stores.
    Yes,
    /// Loads only. A store is a bug of the caller and stops the program.
    No,
}

/// The rights that created memory withholds from every holder of a descriptor. The size is always fixed and no seal can
/// be added, so no peer can shorten the memory under a mapping, which would kill a process that touches it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sealing {
    /// None: a holder may map and write the memory.
    None,
    /// Writing, except through the mapping that already exists.
    FutureWrite,
}

/// Real memory, which other processes may map too.
///
/// ```text
///   mapping   |<----------------- whole pages, or whole units of a device ----------------->|
///   region    |<- lead ->|<-- size bytes -->|                          no lead but on devices
/// ```
#[derive(Debug)]
pub struct MappedRegion {
    mapping: Mapping,
    /// Bytes of the mapping before the region.
    lead: usize,
    size: u64,
    writable: Writable,
    file: OwnedFd,
    file_offset: u64,
    seals: SealFlags,
}

impl MappedRegion {
    /// New zeroed memory without a name in any directory; `name` shows in `/proc`. This process may write it.
    pub fn create_memory(name: &str, size: u64, sealing: Sealing) -> io::Result<Self> {
        let file = create_memory_file(name)?;
        let page = rustix::param::page_size() as u64;
        let length = size
            .checked_next_multiple_of(page)
            .ok_or(io::ErrorKind::InvalidInput)?;
        ftruncate(&file, length)?;
        // The writable mapping must exist before the seal that forbids new ones.
        let mut region = Self::map(file, 0, size, Writable::Yes)?;
        region.seals = SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL;
        if sealing == Sealing::FutureWrite {
            region.seals |= SealFlags::FUTURE_WRITE;
        }
        fcntl_add_seals(&region.file, region.seals)?;
        region.advise_large_pages();
        Ok(region)
    }

    /// Maps `size` bytes from `file_offset` of `file`, a multiple of the page size. A device with larger units is
    /// mapped in whole units. The file must already have the bytes: touching a page after its end would kill the
    /// process. For a file from an untrusted peer, see [`MappedRegion::cannot_shrink`].
    pub fn map(file: OwnedFd, file_offset: u64, size: u64, writable: Writable) -> io::Result<Self> {
        Self::map_with(file, file_offset, size, writable, MapFlags::SHARED)
    }

    /// Like [`MappedRegion::map`]; `flags` determine how stores reach the medium.
    pub(crate) fn map_with(
        file: OwnedFd,
        file_offset: u64,
        size: u64,
        writable: Writable,
        flags: MapFlags,
    ) -> io::Result<Self> {
        let status = fstat(&file)?;
        let length = u64::try_from(status.st_size).unwrap_or(0);
        if FileType::from_raw_mode(status.st_mode) == FileType::RegularFile
            && !Span::new(file_offset, size).fits(length)
        {
            let message =
                format!("{size} bytes at {file_offset} are not in a file of {length} bytes");
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, message));
        }
        let protection = match writable {
            Writable::Yes => ProtFlags::READ | ProtFlags::WRITE,
            Writable::No => ProtFlags::READ,
        };
        let page = rustix::param::page_size() as u64;
        let grain = match FileType::from_raw_mode(status.st_mode) {
            FileType::CharacterDevice => alignment_of(&file).unwrap_or(page).max(page),
            _ => page,
        };
        if !file_offset.is_multiple_of(page) {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let lead = file_offset % grain;
        let whole = size
            .checked_add(lead)
            .filter(|_| size > 0)
            .ok_or(io::ErrorKind::InvalidInput)?;
        let mapping = Mapping::new(
            file.as_fd(),
            file_offset - lead,
            whole,
            grain,
            protection,
            flags,
        )?;
        let lead = lead as usize;
        // Only memory files have seals; for any other file the query is an error.
        let seals = fcntl_get_seals(&file).unwrap_or(SealFlags::empty());
        Ok(Self {
            mapping,
            lead,
            size,
            writable,
            file,
            file_offset,
            seals,
        })
    }

    /// Whether the system keeps every process from shortening the file, so that touching this region can never fail.
    pub fn cannot_shrink(&self) -> bool {
        self.seals.contains(SealFlags::SHRINK)
    }

    /// Whether this mapping allows stores.
    pub fn writable(&self) -> Writable {
        self.writable
    }

    /// The mapped file.
    pub fn file(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }

    /// Loads the aligned word at `offset`, unordered with any other access.
    #[inline]
    pub fn load_relaxed(&self, offset: u64) -> u64 {
        self.word(offset).load(Ordering::Relaxed)
    }

    /// Copies `size` bytes at `from_offset` of another mapping directly to `offset`: whole lines, of less than 2 KiB.
    /// Each aligned word is loaded and stored whole. Returns false and copies nothing for any other request.
    #[inline]
    pub fn copy_lines(
        &self,
        offset: u64,
        from: &MappedPlace<'_>,
        from_offset: u64,
        size: u64,
    ) -> bool {
        self.assert_writable();
        let into = self.address(offset, size);
        assert!(
            Span::new(from_offset, size).fits(from.size()),
            "{size} bytes at {from_offset} are not in a mapping of {} bytes",
            from.size()
        );
        let from = from.address().as_ptr().wrapping_add(from_offset as usize);
        // SAFETY: both ranges were checked to be inside their mappings, which live as long as the borrows; the mapping
        // of `into` is writable (asserted).
        unsafe { lines_across(from, into, size as usize) }
    }

    /// The aligned 4-byte word at `offset`, for sleeping.
    pub fn futex_word(&self, offset: u64) -> FutexWord<'_> {
        let address = self.address(offset, 4).cast::<u32>();
        assert!(
            address.is_aligned(),
            "offset {offset} is not aligned to 4 bytes"
        );
        // SAFETY: `address` checked that 4 bytes are inside the mapping, which lives as long as `self`; aligned by the
        // assertion; every party accesses the word atomically, because regions give no other access to words.
        FutexWord::new(unsafe { AtomicU32::from_ptr(address) }, self.writable)
    }

    /// Brings `span` into memory, for reading, so that the first access causes no fault. A hint: if the kernel cannot
    /// do it, the access faults.
    pub fn populate(&self, span: Span) {
        self.advise(span, Advice::LinuxPopulateRead);
    }

    /// Like [`MappedRegion::populate`], for writing. Every page of `span` of a file counts as changed afterwards.
    pub fn populate_for_writing(&self, span: Span) {
        self.assert_writable();
        self.advise(span, Advice::LinuxPopulateWrite);
    }

    /// Moves the whole large pages of `span` into large pages, in memory files (memfd, tmpfs) and where the kernel has
    /// large pages to spare. Allocates memory that was not allocated; changes no content. A hint: without it, random
    /// reads of a large memory take up to half as long again.
    ///
    /// Needs no setting of the machine: the kernel gives large pages on this call with any defaults.
    pub fn use_large_pages(&self, span: Span) {
        self.assert_writable();
        let start = span.offset.next_multiple_of(LARGE_PAGE as u64);
        let end = (span.offset + span.size) / LARGE_PAGE as u64 * LARGE_PAGE as u64;
        if end <= start {
            return;
        }
        for page in (start..end).step_by(LARGE_PAGE) {
            // The kernel makes no large page where no page exists.
            self.word(page).fetch_add(0, Ordering::Relaxed);
        }
        // One call for all: each call waits until all processors have released their cached pages.
        let address = self.address(start, end - start);
        // SAFETY: the bytes lie in the mapping (asserted by `address`), which lives as long as `self`; the advice
        // changes no content and no right, only the physical pages. Old kernels and other file systems refuse the call,
        // and so does a kernel without contiguous memory: pages stay small.
        let _hint =
            unsafe { libc::madvise(address.cast(), (end - start) as usize, libc::MADV_COLLAPSE) };
    }

    /// Asks for large pages where the system gives them on request. No effect elsewhere.
    fn advise_large_pages(&self) {
        self.advise(Span::new(0, self.size), Advice::LinuxHugepage);
    }

    fn advise(&self, span: Span, advice: Advice) {
        let span = span.widen(rustix::param::page_size() as u64);
        let room = (self.mapping.length() - self.lead) as u64;
        assert!(
            span.fits(room),
            "{span:?} is not in a region of {} bytes",
            self.size
        );
        let start = self
            .mapping
            .start()
            .wrapping_add(self.lead + span.offset as usize)
            .cast();
        // SAFETY: the pages lie in the mapping (asserted), which lives as long as `self`. The kinds of advice that this
        // file names change no content.
        let _hint = unsafe { madvise(start, span.size as usize, advice) };
    }

    /// The address of `size` bytes at `offset`.
    #[inline]
    pub(crate) fn address(&self, offset: u64, size: u64) -> *mut u8 {
        assert!(
            Span::new(offset, size).fits(self.size),
            "{size} bytes at {offset} are not in a region of {} bytes",
            self.size
        );
        self.mapping
            .start()
            .wrapping_add(self.lead + offset as usize)
    }

    #[inline]
    fn word(&self, offset: u64) -> &AtomicU64 {
        let address = self.address(offset, 8).cast::<u64>();
        assert!(
            address.is_aligned(),
            "offset {offset} is not aligned to 8 bytes"
        );
        // SAFETY: `address` checked that 8 bytes are inside the mapping, which lives as long as `self`; aligned by the
        // assertion. Others change the bytes only by single aligned accesses (`copy`, atomics, a network card), and an
        // atomic is made for memory that changes under its reader.
        unsafe { AtomicU64::from_ptr(address) }
    }

    #[inline]
    fn assert_writable(&self) {
        assert!(
            self.writable == Writable::Yes,
            "a store to memory that is mapped read-only"
        );
    }
}

impl Region for MappedRegion {
    fn size(&self) -> u64 {
        self.size
    }

    #[inline]
    fn read(&self, offset: u64, into: &mut [u8]) {
        let from = self.address(offset, into.len() as u64);
        // SAFETY: `address` checked that the bytes are inside the mapping, which consists of whole pages and so of
        // whole words, and is readable; `into` is borrowed exclusively, so it is no part of a mapping that is shared.
        unsafe { copy_out(from, into.as_mut_ptr(), into.len()) };
    }

    #[inline]
    fn write(&self, offset: u64, from: &[u8]) {
        self.assert_writable();
        let into = self.address(offset, from.len() as u64);
        // SAFETY: `address` checked that the bytes are inside the mapping, which is writable (asserted); `from` is
        // borrowed, so it does not change and is no part of a mapping that is shared.
        unsafe { copy_in(from.as_ptr(), into, from.len()) };
    }

    #[inline]
    fn load(&self, offset: u64) -> u64 {
        // For memory that is mapped for reading alone, atomics promise relaxed loads only.
        let value = self.load_relaxed(offset);
        fence(Ordering::Acquire);
        value
    }

    #[inline]
    fn store(&self, offset: u64, value: u64) {
        self.assert_writable();
        self.word(offset).store(value, Ordering::Release);
    }

    fn compare_exchange(&self, offset: u64, current: u64, new: u64) -> Result<u64, u64> {
        self.assert_writable();
        self.word(offset)
            .compare_exchange(current, new, Ordering::SeqCst, Ordering::SeqCst)
    }

    fn fetch_add(&self, offset: u64, add: u64) -> u64 {
        self.assert_writable();
        self.word(offset).fetch_add(add, Ordering::SeqCst)
    }

    #[inline]
    fn prefetch(&self, offset: u64, size: u64) {
        prefetch_lines(self.address(offset, size), size as usize);
    }

    fn mapped_at(&self) -> Option<MappedPlace<'_>> {
        NonNull::new(self.address(0, self.size))
            .map(|address| MappedPlace::new(address, self.size, self.writable))
    }

    fn share(&self) -> Option<Share<'_>> {
        // A reader has no rights to give: the owner decides about the rights of others.
        (self.writable == Writable::Yes).then(|| Share {
            file: self.file.as_fd(),
            file_offset: self.file_offset,
            write_sealed: self.seals.contains(SealFlags::FUTURE_WRITE),
        })
    }
}

/// Prefetches the lines of `size` bytes from `start` on.
#[inline(always)]
pub(crate) fn prefetch_lines(start: *const u8, size: usize) {
    use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
    let end = start.wrapping_add(size);
    let mut line = start.map_addr(|address| address & !(LINE_SIZE - 1));
    while line < end {
        // SAFETY: the instruction belongs to SSE, which every x86-64 processor has. It is a hint and never faults,
        // whatever the address.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(line.cast()) };
        line = line.wrapping_add(LINE_SIZE);
    }
}

/// A memory file that can be sealed and, if the kernel can forbid it, never executed.
fn create_memory_file(name: &str) -> io::Result<OwnedFd> {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    let file = match memfd_create(name, flags | MemfdFlags::NOEXEC_SEAL) {
        // Kernels before 6.3 do not know the flag.
        Err(Errno::INVAL) => memfd_create(name, flags)?,
        created => created?,
    };
    // By default a receiver of the descriptor may reopen the file through `/proc`, with more rights than the descriptor
    // has.
    fchmod(&file, Mode::RUSR | Mode::WUSR)?;
    Ok(file)
}

#[cfg(test)]
mod tests;
