//! Gives spans of the log their space before they are written.
//!
//! A store to a mapped page kills the process (SIGBUS) if the file system finds no block for the page. So every hole of
//! a span is filled first (`fill.rs`). A separate thread fills the holes, because that takes milliseconds; the thread
//! touches nothing but the file.

use std::fs::File;
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use stonecast_base::Span;

use crate::directory::fill::Filler;
pub(super) use crate::directory::fill::{Manner, Zeros};
use crate::error::failed;
use crate::span_set::SpanSet;
use crate::{MediaError, Prepared};

/// State that the caller and the thread share.
#[derive(Debug)]
struct Shared {
    filler: Filler,
    path: PathBuf,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// Spans that are known to have space. Some file systems report zeros as holes forever.
    ready: SpanSet,
    /// Spans that were handed to the thread.
    pending: Vec<Span>,
    /// Failures that have not been reported yet.
    failed: Vec<(Span, MediaError)>,
}

impl State {
    /// The end of the bytes of `data` that stay data: the thread may give the space of a pending span back.
    fn data_end(&self, data: Span) -> u64 {
        let pending = self.pending.iter().map(|pending| pending.offset);
        let behind = pending.filter(|&start| start >= data.offset);
        let end = data.offset + data.size;
        behind.min().map_or(end, |start| start.min(end))
    }
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
            filler: Filler::new(zeros, path.clone(), manner),
            path,
            state: Mutex::default(),
        };
        Self {
            shared: Arc::new(shared),
            thread: None,
        }
    }

    /// The file, for questions about it.
    pub fn file(&self) -> &File {
        self.shared.filler.file()
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
        // A span is also pending if only a part of it is: the thread may be writing bytes there that show as data.
        if state.pending.iter().any(|pending| overlap(*pending, span)) {
            return Ok(Prepared::Pending);
        }
        let data = self.shared.filler.data_from(span.offset)?;
        if data >= span.size {
            // Each look at a file that has all of its space would go through all pages after the span.
            let end = state.data_end(Span::new(span.offset, data));
            state
                .ready
                .insert(Span::new(span.offset, end - span.offset));
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
        self.shared.filler.stop();
        if let Some((sender, thread)) = self.thread.take() {
            drop(sender);
            // `work` keeps errors in the state, so the thread has no panic to report.
            let _ended = thread.join();
        }
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        // No code panics while the state is half changed, so a panic on the other side leaves nothing to repair.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The body of the thread, until the sender is dropped or the owner goes away.
fn work(shared: &Shared, requests: &Receiver<Span>) {
    for span in requests {
        let result = shared.filler.fill(span);
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
    use std::io;
    use std::os::unix::fs::{FileExt as _, MetadataExt as _};
    use std::path::Path;
    use std::time::Duration;

    use stonecast_base::{GIB, KIB, MIB};

    use super::*;
    use crate::directory::holes::{data, holes};
    use crate::directory::lock::Lock;
    use crate::directory::made::Made;
    use crate::mapped_region::MappedRegion;
    use crate::{PersistError, Sealing};

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

    /// Needs the memory of data after a span: a look at the last span of a file goes through few pages, and one at the
    /// first through all.
    #[test]
    fn one_look_at_a_full_file_finds_all_of_its_space_but_for_a_span_that_is_being_filled() {
        let (file, path) = log();
        let zeros = vec![0; SIZE as usize];
        file.as_file().write_all_at(&zeros, 0).unwrap();
        let mut preparer = preparer(&path, Manner::PROCESS);
        let filling = Span::new(4 * MIB, MIB);
        preparer.shared.state().pending.push(filling);
        let first = Span::new(MIB, MIB);
        assert_eq!(preparer.prepare(first).unwrap(), Prepared::Ready);
        let known = |span| preparer.shared.state().ready.covers(span);
        assert!(known(Span::new(MIB, 3 * MIB)));
        assert!(!known(Span::new(0, MIB)) && !known(Span::new(4 * MIB, 1)));
        preparer.shared.state().pending.clear();
        let second = Span::new(4 * MIB, 10);
        assert_eq!(preparer.prepare(second).unwrap(), Prepared::Ready);
        let known = |span| preparer.shared.state().ready.covers(span);
        assert!(known(Span::new(MIB, SIZE - MIB)));
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

    /// Needs the second search for holes after the large pages: without it the parts that they did not fill would count
    /// as prepared.
    #[test]
    fn a_span_of_large_pages_and_parts_of_them_is_filled_with_zeros_whatever_pages_the_kernel_has()
    {
        let memory = MappedRegion::create_memory("log", SIZE, Sealing::None).unwrap();
        let file = || File::from(memory.file().try_clone_to_owned().unwrap());
        let written = Span::new(4 * MIB + 64 * KIB, 64 * KIB);
        file()
            .write_all_at(&vec![7; written.size as usize], written.offset)
            .unwrap();
        let mut preparer = Preparer::new(Zeros::new(file(), None), "log".into(), Manner::PROCESS);
        // In order: a part of a large page, a large page, a large page with data in it, a part.
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

    /// A crash in the middle leaves some parts written and others not. Needs the search for holes: overwriting the
    /// whole span would destroy the bytes of a client, and taking the span for prepared would leave holes.
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
    fn a_span_that_an_earlier_run_prepared_is_ready_at_once() {
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

    /// A file that is open only for reading fails as a broken device does.
    #[test]
    fn a_failure_is_reported_once_and_the_next_request_tries_again() {
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

    /// Needs the note: a server that is killed before its own next sync never reports the failure.
    #[test]
    fn a_failed_sync_of_zeros_is_noted_and_reported_as_a_failed_sync() {
        let directory = tempfile::tempdir().unwrap();
        let lock = Lock::acquire(directory.path(), &Made::default()).unwrap();
        let (file, path) = log();
        let writable = file.reopen().unwrap();
        let zeros = Zeros::new(writable, Some(lock.note(77).unwrap()))
            .syncing_by(|_| Err(io::Error::from_raw_os_error(5)));
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
    fn dropping_the_preparer_stops_the_work() {
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
