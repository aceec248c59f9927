//! Fills the holes of a log file: space first, then zeros, then a sync.
//!
//! ```text
//!   span      |dddddddd........dddd....|     d data, . hole
//!   allocate            ........    ....      no space here: given back, nothing else changed
//!   overwrite           00000000    0000      front to back, in slices
//!   result    |dddddddddddddddddddddddd|     prepared: no hole left
//! ```
//!
//! - Bytes that are already data are never touched: a client of an earlier run may be writing them.
//! - A crash leaves holes or none; the next request finds and fills the remaining holes. Blocks are allocated before
//!   the first zero is written, so all data have their blocks.
//! - Holes are overwritten and not only allocated: the first store to an allocated, unwritten block changes metadata,
//!   and the next `fdatasync` would pay for a commit of the journal.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::fs::{FallocateFlags, fallocate};
use rustix::io::Errno;
use stonecast_base::{KIB, MIB, Span};

use crate::directory::holes::{data_from, holes};
use crate::directory::lock::SyncNote;
use crate::error::{failed, out_of_space};
use crate::mapped_region::{MappedRegion, Writable};
use crate::mapping::LARGE_PAGE;
use crate::{MediaError, PersistError};

/// The way in which zeros are written.
#[derive(Clone, Copy, Debug)]
pub(super) struct Manner {
    /// Bytes of one write. The page cache takes them as one unit, and a sync writes a unit whole if one byte of it
    /// changed. On ext4 (Linux 6.18), one changed line and `fdatasync` took 87 us and wrote 4 KiB to the disk after
    /// writes of 4 KiB, and took 179 us and wrote 1 MiB after writes of 1 MiB. Small units take long to write: 6 ms for
    /// 4 MiB in units of 4 KiB, of which 3 ms are processor time, and syncs of the log wait for parts of that.
    write_size: u64,
    /// Bytes between two syncs; `None` if nothing is ever synced. Every sync of the log also writes all pending zeros,
    /// so few should be pending.
    slice_size: Option<u64>,
    /// Whether the zeros go into large pages. Not for a file that is synced: a sync writes a whole page.
    large_pages: bool,
}

impl Manner {
    /// The manner for a log that is made durable by syncing its file.
    pub const FILE_SYNC: Self = Self {
        write_size: 16 * KIB,
        slice_size: Some(512 * KIB),
        large_pages: false,
    };
    /// The manner for a log in persistent memory: the file system's metadata must be durable, and no sync waits for
    /// zeros.
    pub const DIRECT: Self = Self {
        write_size: MIB,
        slice_size: Some(MIB),
        large_pages: false,
    };
    /// The manner for a log that survives only processes.
    pub const PROCESS: Self = Self {
        write_size: 2 * MIB,
        slice_size: None,
        large_pages: true,
    };
}

/// The file to which zeros are written. A failed sync of this file is noted like a failed sync of the log: stores to
/// the log may be lost, and the server may be killed before its own next sync reports the failure.
#[derive(Debug)]
pub(super) struct Zeros {
    /// A file with a description of its own, so that the kernel reports an error of its syncs to the other description,
    /// too.
    file: File,
    /// `None` if nothing is ever synced.
    note: Option<SyncNote>,
    sync: fn(&File) -> io::Result<()>,
}

impl Zeros {
    /// Writes to `file`, which is open for writing and not shared.
    pub fn new(file: File, note: Option<SyncNote>) -> Self {
        Self {
            file,
            note,
            sync: File::sync_data,
        }
    }

    /// The same file, with `sync` as the outcome of its syncs.
    #[cfg(test)]
    pub fn syncing_by(self, sync: fn(&File) -> io::Result<()>) -> Self {
        Self { sync, ..self }
    }

    fn sync(&self) -> io::Result<()> {
        (self.sync)(&self.file).inspect_err(|_| {
            if let Some(note) = &self.note {
                note.sync_failed();
            }
        })
    }
}

/// Fills holes of one file. Any thread may call it.
#[derive(Debug)]
pub(super) struct Filler {
    zeros: Zeros,
    path: PathBuf,
    manner: Manner,
    /// Set when the work must end.
    stop: AtomicBool,
}

impl Filler {
    pub fn new(zeros: Zeros, path: PathBuf, manner: Manner) -> Self {
        Self {
            zeros,
            path,
            manner,
            stop: AtomicBool::new(false),
        }
    }

    /// The file, for questions about it.
    pub fn file(&self) -> &File {
        &self.zeros.file
    }

    /// The holes of `span`.
    pub fn holes(&self, span: Span) -> Result<Vec<Span>, MediaError> {
        holes(&self.zeros.file, span).map_err(failed("looking for holes in", &self.path))
    }

    /// The bytes from `offset` on that are no hole.
    pub fn data_from(&self, offset: u64) -> Result<u64, MediaError> {
        data_from(&self.zeros.file, offset).map_err(failed("looking for a hole in", &self.path))
    }

    /// Ends a running [`Filler::fill`] after its next write.
    pub fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }

    /// Fills the holes of `span`. Returns `false` if it was told to stop before the end.
    pub fn fill(&self, span: Span) -> Result<bool, MediaError> {
        let found = self.holes(span)?;
        let rest = if self.manner.large_pages && self.fill_with_large_pages(&found) {
            self.holes(span)?
        } else {
            found.clone()
        };
        for hole in &rest {
            if let Err(error) = self.allocate(*hole) {
                self.give_back(&found);
                return Err(error);
            }
        }
        for hole in &rest {
            if !self.overwrite(*hole)? {
                return Ok(false);
            }
        }
        // Large pages that were not empty remain: a killed run filled a part, or the kernel had no large page then.
        if self.manner.large_pages && !rest.is_empty() {
            self.use_large_pages(span);
        }
        Ok(true)
    }

    /// Fills whole large pages that are holes: the kernel clears each at once, in a quarter of the time of writing its
    /// small pages and joining them. The rest stays a hole, except for single small pages. Returns whether anything may
    /// have changed.
    fn fill_with_large_pages(&self, holes: &[Span]) -> bool {
        let mut changed = false;
        for hole in holes {
            let start = hole.offset.next_multiple_of(LARGE_PAGE as u64);
            let mut end = start;
            while end + LARGE_PAGE as u64 <= hole.offset + hole.size {
                changed = true;
                // The kernel makes a large page where a part of it exists. A write makes that part: without free space
                // a store to a mapping would kill the process.
                if self.zeros.file.write_all_at(&[0], end).is_err() {
                    break;
                }
                end += LARGE_PAGE as u64;
            }
            if end > start {
                self.use_large_pages(Span::new(start, end - start));
            }
        }
        changed
    }

    /// Asks through a mapping of its own: all mappings of a file share the same pages. The first small page of each
    /// large page exists.
    fn use_large_pages(&self, span: Span) {
        // Large pages are a hint: if the file cannot be mapped once more, its pages stay small.
        let Ok(file) = self.zeros.file.try_clone() else {
            return;
        };
        if let Ok(mapped) = MappedRegion::map(file.into(), span.offset, span.size, Writable::Yes) {
            mapped.use_large_pages(Span::new(0, span.size));
        }
    }

    fn allocate(&self, hole: Span) -> Result<(), MediaError> {
        loop {
            match fallocate(
                &self.zeros.file,
                FallocateFlags::KEEP_SIZE,
                hole.offset,
                hole.size,
            ) {
                // Without this call the overwriting allocates, and a failed write or sync reports a lack of space.
                Ok(()) | Err(Errno::OPNOTSUPP | Errno::NOSYS) => return Ok(()),
                Err(Errno::INTR) => {}
                Err(error) => {
                    return Err(out_of_space("allocating space for", &self.path, hole.size)(
                        error,
                    ));
                }
            }
        }
    }

    /// Gives the allocated space back. `holes` are the holes as they were found; no other code writes there before they
    /// are filled.
    fn give_back(&self, holes: &[Span]) {
        for hole in holes {
            let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
            // Space that could not be given back shows as a hole, which the next request fills.
            let _best_effort = fallocate(&self.zeros.file, flags, hole.offset, hole.size);
        }
    }

    /// The error of a failed sync. A sync allocates where the file system cannot allocate earlier.
    fn sync_failed(&self, source: io::Error, size: u64) -> MediaError {
        match out_of_space("syncing", &self.path, size)(source) {
            MediaError::Io {
                path: file, source, ..
            } => PersistError::Sync { file, source }.into(),
            no_space => no_space,
        }
    }

    fn overwrite(&self, hole: Span) -> Result<bool, MediaError> {
        let zeros = vec![0; self.manner.write_size as usize];
        let end = hole.offset + hole.size;
        let slice_size = self.manner.slice_size.unwrap_or(hole.size);
        let mut position = hole.offset;
        while position < end {
            let slice_end = end.min(position + slice_size);
            while position < slice_end {
                if self.stop.load(Ordering::Relaxed) {
                    return Ok(false);
                }
                let size = (slice_end - position).min(self.manner.write_size);
                let written = self
                    .zeros
                    .file
                    .write_all_at(&zeros[..size as usize], position);
                written.map_err(out_of_space("writing zeros to", &self.path, hole.size))?;
                position += size;
            }
            if self.manner.slice_size.is_some() {
                self.zeros
                    .sync()
                    .map_err(|source| self.sync_failed(source, hole.size))?;
            }
        }
        Ok(true)
    }
}
