//! Giving spans of the log their space before anybody writes there.
//!
//! A store to a page of a mapping for which the file system finds no block kills the process (SIGBUS). So each hole of a
//! span is allocated first, then overwritten with zeros, and both made durable:
//!
//! ```text
//!   span      |dddddddd........dddd....|     d data, . hole
//!   allocate            ........    ....      no space here: given back, nothing else changed
//!   overwrite           00000000    0000      front to back, in slices
//!   result    |dddddddddddddddddddddddd|     prepared: no hole left
//! ```
//!
//! - Bytes that are data already are never touched: a client of an earlier run may be writing them.
//! - A crash leaves holes or none; what is left of them is found and filled at the next request. Blocks are allocated
//!   before the first zero is written, so whatever shows as data has its blocks.
//! - Overwritten rather than only allocated: the first store to an allocated, unwritten block changes metadata, and the
//!   next `fdatasync` would pay for a commit of the journal.
//!
//! The work is done by a thread, because it takes milliseconds. The thread only ever touches the file.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use rustix::fs::{FallocateFlags, fallocate};
use rustix::io::Errno;
use stonecast_base::{KIB, MIB, Span};

use crate::directory::holes::holes;
use crate::directory::lock::SyncNote;
use crate::error::{failed, out_of_space};
use crate::mapped_region::{MappedRegion, Writable};
use crate::mapping::LARGE_PAGE;
use crate::span_set::SpanSet;
use crate::{MediaError, PersistError, Prepared};

/// How zeros are written.
#[derive(Clone, Copy, Debug)]
pub(super) struct Manner {
    /// Bytes of one write. The page cache takes them as one unit, and a sync writes a unit whole if one byte of it
    /// changed. Measured on ext4, Linux 6.18, one changed line and `fdatasync`: 87 us and 4 KiB to the disk after writes
    /// of 4 KiB; 179 us and 1 MiB to the disk after writes of 1 MiB. Small units take long to write: 6 ms for 4 MiB in
    /// units of 4 KiB, 3 ms of them the processor's, and syncs of the log wait for parts of that.
    write_size: u64,
    /// After how many bytes to sync; `None` where nothing is ever synced. A sync of the log by anybody writes all zeros
    /// that are waiting, so few should ever wait.
    slice_size: Option<u64>,
    /// Whether what was written is brought into large pages. Not where single lines are synced: a page is written whole.
    large_pages: bool,
}

impl Manner {
    /// For a log that is made durable by syncing its file.
    pub const FILE_SYNC: Self = Self {
        write_size: 16 * KIB,
        slice_size: Some(512 * KIB),
        large_pages: false,
    };
    /// For a log in persistent memory: the file system's metadata must be durable, nothing waits for zeros.
    pub const DIRECT: Self = Self {
        write_size: MIB,
        slice_size: Some(MIB),
        large_pages: false,
    };
    /// For a log that survives processes only.
    pub const PROCESS: Self = Self {
        write_size: 2 * MIB,
        slice_size: None,
        large_pages: true,
    };
}

/// The file that zeros are written to. A sync of it that fails is noted as one of the log's own: it may have lost what was
/// stored meanwhile, and the server that is told of that by its next sync may not live to see it.
#[derive(Debug)]
pub(super) struct Zeros {
    /// A description of its own, so that errors of its syncs are reported elsewhere too.
    file: File,
    /// `None`: nothing is ever synced.
    note: Option<SyncNote>,
    sync: fn(&File) -> io::Result<()>,
}

impl Zeros {
    /// `file` is open for writing and shared with nobody.
    pub fn new(file: File, note: Option<SyncNote>) -> Self {
        Self {
            file,
            note,
            sync: File::sync_data,
        }
    }

    fn sync(&self) -> io::Result<()> {
        (self.sync)(&self.file).inspect_err(|_| {
            if let Some(note) = &self.note {
                note.sync_failed();
            }
        })
    }
}

/// What caller and thread share.
#[derive(Debug)]
struct Shared {
    zeros: Zeros,
    path: PathBuf,
    manner: Manner,
    state: Mutex<State>,
    /// The owner goes away.
    stop: AtomicBool,
}

#[derive(Debug, Default)]
struct State {
    /// Known to have space. Kept because some file systems show zeros as holes for ever.
    ready: SpanSet,
    /// Handed to the thread.
    pending: Vec<Span>,
    /// Failed and not told yet.
    failed: Vec<(Span, MediaError)>,
}

/// Prepares spans of one file.
#[derive(Debug)]
pub(super) struct Preparer {
    shared: Arc<Shared>,
    thread: Option<(Sender<Span>, JoinHandle<()>)>,
}

impl Preparer {
    pub fn new(zeros: Zeros, path: PathBuf, manner: Manner) -> Self {
        let shared = Shared {
            zeros,
            path,
            manner,
            state: Mutex::default(),
            stop: AtomicBool::new(false),
        };
        Self {
            shared: Arc::new(shared),
            thread: None,
        }
    }

    /// The file, for questions about it.
    pub fn file(&self) -> &File {
        &self.shared.zeros.file
    }

    /// Prepares `span`, not empty; see [`crate::Backing::prepare`].
    pub fn prepare(&mut self, span: Span) -> Result<Prepared, MediaError> {
        assert!(span.size > 0, "nothing to prepare");
        let mut state = self.shared.state();
        if state.ready.covers(span) {
            return Ok(Prepared::Ready);
        }
        if let Some(index) = state.failed.iter().position(|(failed, _)| *failed == span) {
            return Err(state.failed.swap_remove(index).1);
        }
        // Also if only a part of the span is under way: what shows as data there may be written at this moment.
        if state.pending.iter().any(|pending| overlap(*pending, span)) {
            return Ok(Prepared::Pending);
        }
        if holes(&self.shared.zeros.file, span)
            .map_err(failed("looking for holes in", &self.shared.path))?
            .is_empty()
        {
            state.ready.insert(span);
            return Ok(Prepared::Ready);
        }
        state.pending.push(span);
        drop(state);
        self.hand_over(span)?;
        Ok(Prepared::Pending)
    }

    fn hand_over(&mut self, span: Span) -> Result<(), MediaError> {
        let (sender, _) = match &mut self.thread {
            Some(thread) => thread,
            None => {
                let (sender, receiver) = channel();
                let shared = Arc::clone(&self.shared);
                let builder = std::thread::Builder::new().name("stonecast-space".to_owned());
                let thread = builder.spawn(move || work(&shared, &receiver));
                let thread = thread
                    .map_err(failed("starting a thread for", &self.shared.path))
                    .inspect_err(|_| {
                        self.shared
                            .state()
                            .pending
                            .retain(|pending| *pending != span);
                    })?;
                self.thread.insert((sender, thread))
            }
        };
        sender
            .send(span)
            .expect("the thread receives until the sender is dropped");
        Ok(())
    }
}

impl Drop for Preparer {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Relaxed);
        if let Some((sender, thread)) = self.thread.take() {
            drop(sender);
            // It has no panic to report: `work` keeps errors in the state.
            let _ended = thread.join();
        }
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        // No state is ever half changed while the lock is held, so a panic of the other side leaves nothing to repair.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Fills the holes of `span`; `false`: told to stop before the end.
    fn fill(&self, span: Span) -> Result<bool, MediaError> {
        let find =
            || holes(&self.zeros.file, span).map_err(failed("looking for holes in", &self.path));
        let found = find()?;
        let rest = if self.manner.large_pages && self.fill_with_large_pages(&found) {
            find()?
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
        // Large pages that were not empty: filled in part by a run that was killed, or refused before.
        if self.manner.large_pages && !rest.is_empty() {
            self.use_large_pages(span);
        }
        Ok(true)
    }

    /// Fills whole large pages that are holes: the kernel clears each at once, which takes a quarter of the time of writing
    /// its small pages and bringing them together. What was not filled is still a hole, but for a small page here and
    /// there. Whether anything may have changed.
    fn fill_with_large_pages(&self, holes: &[Span]) -> bool {
        let mut changed = false;
        for hole in holes {
            let start = hole.offset.next_multiple_of(LARGE_PAGE as u64);
            let mut end = start;
            while end + LARGE_PAGE as u64 <= hole.offset + hole.size {
                changed = true;
                // A large page is made of one that is there at least in part. By a write: where there is no space a store
                // to a mapping would kill.
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

    /// Through a mapping of its own: which pages hold a file is the same for all that map it. The first page of each large
    /// one is there.
    fn use_large_pages(&self, span: Span) {
        // A hint: where the file cannot be mapped once more, its pages stay small.
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
                // Without the call the overwriting allocates, and a failure of it or of the sync says that there is no
                // space.
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

    /// Gives back what was allocated: the holes as they were found. Nobody else writes there before they are filled.
    fn give_back(&self, holes: &[Span]) {
        for hole in holes {
            let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
            // Space that could not be given back is found as a hole and used at the next request.
            let _best_effort = fallocate(&self.zeros.file, flags, hole.offset, hole.size);
        }
    }

    /// A sync allocates where the file system cannot do it before.
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

/// The thread: until the sender is dropped, or the owner goes away.
fn work(shared: &Shared, requests: &Receiver<Span>) {
    for span in requests {
        let result = shared.fill(span);
        let mut state = shared.state();
        state.pending.retain(|pending| *pending != span);
        match result {
            Ok(true) => state.ready.insert(span),
            Ok(false) => return,
            Err(error) => state.failed.push((span, error)),
        }
    }
}

fn overlap(a: Span, b: Span) -> bool {
    a.offset < b.offset + b.size && b.offset < a.offset + a.size
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt as _;
    use std::path::Path;
    use std::time::Duration;

    use stonecast_base::GIB;

    use super::*;
    use crate::Sealing;
    use crate::directory::holes::data;
    use crate::directory::lock::Lock;
    use crate::directory::made::Made;

    const SIZE: u64 = 8 * MIB;

    fn log() -> (tempfile::NamedTempFile, PathBuf) {
        let file = tempfile::NamedTempFile::new().unwrap();
        file.as_file().set_len(SIZE).unwrap();
        let path = file.path().to_owned();
        (file, path)
    }

    fn preparer(path: &Path, manner: Manner) -> Preparer {
        let file = File::options().read(true).write(true).open(path).unwrap();
        Preparer::new(Zeros::new(file, None), path.to_owned(), manner)
    }

    fn until_ready(preparer: &mut Preparer, span: Span) {
        while preparer.prepare(span).unwrap() == Prepared::Pending {
            std::thread::sleep(Duration::from_micros(200));
        }
    }

    #[test]
    fn a_prepared_span_is_allocated_and_zero_and_nothing_else_is() {
        for manner in [Manner::FILE_SYNC, Manner::DIRECT, Manner::PROCESS] {
            let (file, path) = log();
            let mut preparer = preparer(&path, manner);
            let span = Span::new(MIB, 2 * MIB);
            assert_eq!(preparer.prepare(span).unwrap(), Prepared::Pending);
            until_ready(&mut preparer, span);
            assert_eq!(
                preparer.prepare(Span::new(MIB + 5, 1)).unwrap(),
                Prepared::Ready
            );
            assert_eq!(data(file.as_file(), Span::new(0, SIZE)).unwrap(), [span]);
            assert!(file.as_file().metadata().unwrap().blocks() * 512 >= 2 * MIB);
            let mut bytes = vec![1; 2 << 20];
            file.as_file().read_exact_at(&mut bytes, MIB).unwrap();
            assert!(bytes.iter().all(|byte| *byte == 0));
        }
    }

    /// Needs holes to be looked for again behind the large pages: what they did not fill would count as prepared.
    #[test]
    fn a_span_of_large_pages_and_parts_of_them_is_filled_whole_and_zero_whatever_the_kernel_has() {
        let memory = MappedRegion::create_memory("log", SIZE, Sealing::None).unwrap();
        let file = || File::from(memory.file().try_clone_to_owned().unwrap());
        let written = Span::new(4 * MIB + 64 * KIB, 64 * KIB);
        file()
            .write_all_at(&vec![7; written.size as usize], written.offset)
            .unwrap();
        let mut preparer = Preparer::new(Zeros::new(file(), None), "log".into(), Manner::PROCESS);
        // A part of a large page, a large page, one with data in it, a part.
        let span = Span::new(MIB, 6 * MIB);
        until_ready(&mut preparer, span);
        assert_eq!(data(&file(), Span::new(0, SIZE)).unwrap(), [span]);
        let mut bytes = vec![1; SIZE as usize];
        file().read_exact_at(&mut bytes, 0).unwrap();
        let expected = |at: u64| {
            if (written.offset..written.offset + written.size).contains(&at) {
                7
            } else {
                0
            }
        };
        assert!((0..SIZE).all(|at| bytes[at as usize] == expected(at)));
    }

    /// What a crash in the middle leaves: parts written, parts not. Needs the search for holes: an overwriting of the whole
    /// span would destroy what a client wrote, and taking the span for prepared would leave holes.
    #[test]
    fn a_span_that_was_prepared_in_part_is_completed_and_its_data_stay() {
        let (file, path) = log();
        let written = [
            Span::new(MIB, 64 * KIB),
            Span::new(2 * MIB - 64 * KIB, 64 * KIB),
        ];
        for span in written {
            file.as_file()
                .write_all_at(&vec![7; span.size as usize], span.offset)
                .unwrap();
        }
        let mut preparer = preparer(&path, Manner::FILE_SYNC);
        let span = Span::new(MIB, MIB);
        assert_eq!(preparer.prepare(span).unwrap(), Prepared::Pending);
        until_ready(&mut preparer, span);
        assert_eq!(holes(file.as_file(), span).unwrap(), []);
        let mut bytes = vec![1; 1 << 20];
        file.as_file().read_exact_at(&mut bytes, MIB).unwrap();
        for (index, byte) in bytes.iter().enumerate() {
            let ours = written
                .iter()
                .any(|part| (part.offset..part.offset + part.size).contains(&(MIB + index as u64)));
            assert_eq!(*byte, if ours { 7 } else { 0 }, "byte {index}");
        }
    }

    #[test]
    fn what_an_earlier_run_prepared_is_ready_at_once() {
        let (_file, path) = log();
        let span = Span::new(0, MIB);
        until_ready(&mut preparer(&path, Manner::PROCESS), span);
        let mut next_run = preparer(&path, Manner::PROCESS);
        assert_eq!(next_run.prepare(span).unwrap(), Prepared::Ready);
        assert!(next_run.thread.is_none());
    }

    /// Needs the search for overlapping requests.
    #[test]
    fn a_span_that_overlaps_one_under_way_is_pending_too() {
        let (_file, path) = log();
        let mut preparer = preparer(&path, Manner::PROCESS);
        preparer.shared.state().pending.push(Span::new(MIB, MIB));
        preparer
            .file()
            .write_all_at(&vec![0; 2 << 20], MIB)
            .unwrap();
        assert_eq!(
            preparer.prepare(Span::new(2 * MIB - 1, MIB)).unwrap(),
            Prepared::Pending
        );
        assert_eq!(
            preparer.prepare(Span::new(2 * MIB, MIB)).unwrap(),
            Prepared::Ready
        );
    }

    /// A file that is open for reading only fails as a broken device does.
    #[test]
    fn a_failure_is_told_once_and_the_next_request_tries_again() {
        let (file, path) = log();
        let readable = File::open(&path).unwrap();
        let mut preparer = Preparer::new(Zeros::new(readable, None), path, Manner::PROCESS);
        for _ in 0..2 {
            assert_eq!(
                preparer.prepare(Span::new(0, MIB)).unwrap(),
                Prepared::Pending
            );
            let failure = loop {
                match preparer.prepare(Span::new(0, MIB)) {
                    Ok(Prepared::Pending) => std::thread::sleep(Duration::from_micros(200)),
                    other => break other,
                }
            };
            assert!(
                matches!(
                    failure,
                    Err(MediaError::Io {
                        doing: "allocating space for",
                        ..
                    })
                ),
                "{failure:?}"
            );
        }
        assert_eq!(data(file.as_file(), Span::new(0, SIZE)).unwrap(), []);
    }

    /// Needs the note: what the group commit's own sync would have been told of dies with a server that is killed before.
    #[test]
    fn a_failed_sync_of_zeros_is_noted_and_told_as_what_it_is() {
        let directory = tempfile::tempdir().unwrap();
        let lock = Lock::acquire(directory.path(), &Made::default()).unwrap();
        let (file, path) = log();
        let writable = file.reopen().unwrap();
        let zeros = Zeros {
            sync: |_| Err(io::Error::from_raw_os_error(5)),
            ..Zeros::new(writable, Some(lock.note(77).unwrap()))
        };
        let mut preparer = Preparer::new(zeros, path, Manner::FILE_SYNC);
        let failure = loop {
            match preparer.prepare(Span::new(0, MIB)) {
                Ok(Prepared::Pending) => std::thread::sleep(Duration::from_micros(200)),
                other => break other,
            }
        };
        assert!(
            matches!(failure, Err(MediaError::Persist(PersistError::Sync { .. }))),
            "{failure:?}"
        );
        assert_eq!(lock.sync_failed_in(), Some(77));
    }

    #[test]
    fn going_away_stops_the_work() {
        let (file, path) = log();
        file.as_file().set_len(GIB).unwrap();
        let mut preparer = preparer(&path, Manner::FILE_SYNC);
        for half in [0, GIB / 2] {
            preparer.prepare(Span::new(half, GIB / 2)).unwrap();
        }
        drop(preparer);
        let left = data(file.as_file(), Span::new(0, GIB)).unwrap();
        assert!(
            left.iter().map(|span| span.size).sum::<u64>() < GIB,
            "all of it was still prepared"
        );
    }
}
