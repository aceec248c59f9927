//! A store as its users see it: futures, with three threads that do the work.
//!
//! Reads, changes and watches have a thread each, so none of them waits for a call of another kind. Changes take turns:
//! of two changes that expect the same revision the second could only conflict. One read answers all waiting reads.

use std::io;
use std::ops::RangeInclusive;
use std::sync::{Arc, mpsc};
use std::thread;

use futures_channel::oneshot;
use stonecast_cluster::{ConfigStore, Pending, Revision, StoreError, Stored, Swap, VALUE_SIZE_MAX};

use crate::backend::{Backend, Failure};
use crate::board::{Board, Until};

/// The revisions that a value may have: etcd counts with signed numbers, and uses 0 for an absent key.
const REVISIONS: RangeInclusive<u64> = 1..=i64::MAX as u64;

/// The destination of the answer to a read.
type Read = oneshot::Sender<Result<Option<Stored>, Failure>>;

/// A compare-and-set, and the destination of its answer.
struct Change {
    expected: Option<Revision>,
    bytes: Vec<u8>,
    answer: oneshot::Sender<Result<Swap, Failure>>,
}

/// A store with its threads.
pub struct Front {
    name: String,
    reads: mpsc::Sender<Read>,
    changes: mpsc::Sender<Change>,
    board: Arc<Board>,
}

impl Front {
    /// Starts the threads of the store `name`.
    pub fn start(name: &str, backend: impl Backend) -> io::Result<Self> {
        let (reads, asked) = mpsc::channel();
        let for_reads = backend.clone();
        spawn("config-reads", move || do_reads(for_reads, &asked))?;
        // If one of the others cannot be started, the earlier threads end with their senders.
        let (changes, asked) = mpsc::channel();
        let for_changes = backend.clone();
        spawn("config-changes", move || do_changes(for_changes, &asked))?;
        let board = Arc::new(Board::default());
        let of_thread = board.clone();
        spawn("config-watch", move || of_thread.run(backend))?;
        Ok(Self {
            name: name.to_owned(),
            reads,
            changes,
            board,
        })
    }

    async fn ask_to_read(&self) -> Result<Option<Stored>, Failure> {
        let (answer, answered) = oneshot::channel();
        let sent = self.reads.send(answer);
        sent.expect("the thread of reads lives as long as its store");
        answered.await.expect("the thread of reads answers")
    }

    async fn ask_to_change(
        &self,
        expected: Option<Revision>,
        bytes: Vec<u8>,
    ) -> Result<Swap, Failure> {
        let (answer, answered) = oneshot::channel();
        let sent = self.changes.send(Change {
            expected,
            bytes,
            answer,
        });
        sent.expect("the thread of changes lives as long as its store");
        answered.await.expect("the thread of changes answers")
    }

    async fn later_than(&self, since: Option<Revision>) -> Result<Stored, Failure> {
        let mut has_waited = true;
        loop {
            let until = match self.ask_to_read().await {
                Ok(Some(stored)) if Some(stored.revision) > since => return Ok(stored),
                Ok(_) if has_waited => Until::LaterThan(since),
                // The other thread saw a later value, which is gone again.
                Ok(_) => Until::NextLook,
                Err(Failure::Passing(_)) => Until::NextLook,
                Err(failure) => {
                    // A watching task asks again at once, and the thread pauses after failures.
                    self.board.wait(Until::NextLook).await;
                    return Err(failure);
                }
            };
            has_waited = self.board.wait(until).await;
        }
    }
}

fn spawn(name: &str, work: impl FnOnce() + Send + 'static) -> io::Result<()> {
    let thread = thread::Builder::new().name(name.to_owned());
    thread.spawn(work).map(drop)
}

/// Reads on request. A read that begins answers all requests so far: a silent etcd delays no task for longer than the
/// current read and the next one, however many wait.
fn do_reads(mut backend: impl Backend, asked: &mpsc::Receiver<Read>) {
    while let Ok(first) = asked.recv() {
        let mut waiting = vec![first];
        waiting.extend(asked.try_iter());
        // The asking task may be gone.
        waiting.retain(|answer| !answer.is_canceled());
        if waiting.is_empty() {
            continue;
        }
        let read = backend.read();
        for answer in waiting {
            let _ = answer.send(read.clone());
        }
    }
}

/// Executes changes one after the other. A change that no task waits for is not begun.
fn do_changes(mut backend: impl Backend, asked: &mpsc::Receiver<Change>) {
    for change in asked {
        if change.answer.is_canceled() {
            continue;
        }
        let swap = backend.swap(change.expected, &change.bytes);
        // The asking task may be gone.
        let _ = change.answer.send(swap);
    }
}

impl ConfigStore for Front {
    fn name(&self) -> &str {
        &self.name
    }

    fn read(&self) -> Pending<'_, Result<Option<Stored>, StoreError>> {
        Box::pin(async {
            let read = self.ask_to_read().await;
            read.map_err(|failure| failure.of(&self.name))
        })
    }

    fn compare_and_set(
        &self,
        expected: Option<Revision>,
        bytes: &[u8],
    ) -> Pending<'_, Result<Swap, StoreError>> {
        let (size, bytes) = (bytes.len(), bytes.to_vec());
        Box::pin(async move {
            if size > VALUE_SIZE_MAX {
                let reason =
                    format!("the value has {size} bytes, and the limit is {VALUE_SIZE_MAX}");
                return Err(Failure::Lasting(reason).of(&self.name));
            }
            if expected.is_some_and(|expected| !REVISIONS.contains(&expected.0)) {
                return Ok(Swap::Conflict);
            }
            let swap = self.ask_to_change(expected, bytes).await;
            swap.map_err(|failure| failure.of(&self.name))
        })
    }

    fn changed(&self, since: Option<Revision>) -> Pending<'_, Result<Stored, StoreError>> {
        Box::pin(async move {
            let later = self.later_than(since).await;
            later.map_err(|failure| failure.of(&self.name))
        })
    }
}

impl Drop for Front {
    fn drop(&mut self) {
        self.board.close();
    }
}
