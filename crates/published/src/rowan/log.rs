//! A log that one thread fills: a t-log, a backup's log of RPC-KV, the log of a cleaner.

use std::cell::Cell;
use std::rc::Rc;

use smallvec::SmallVec;
use stonecast_base::{Nanoseconds, Span};
use stonecast_fabric::Runtime;

use super::segments::{LogKind, State};
use super::store::Store;
use crate::PublishedError;

/// The pause before a full server is looked at again.
const PAUSE_NS: Nanoseconds = 5_000;

/// A log of a thread.
pub(crate) struct Log {
    store: Rc<Store>,
    runtime: Rc<dyn Runtime>,
    kind: LogKind,
    /// The segment that is being filled, and the bytes that are taken.
    tail: Cell<Option<(u32, u64)>>,
}

impl Log {
    /// An empty log.
    pub fn new(store: Rc<Store>, runtime: Rc<dyn Runtime>, kind: LogKind) -> Self {
        let tail = Cell::new(None);
        Self {
            store,
            runtime,
            kind,
            tail,
        }
    }

    /// Appends an entry, and persists it. Returns its place. If the server is full, the append waits for cleaners.
    pub async fn append(&self, entry: &[u8]) -> Result<u64, PublishedError> {
        let store = &self.store;
        let mut spans = SmallVec::new();
        let place = loop {
            if let Some(place) = self.reserve(entry.len() as u64, &mut spans) {
                break place;
            }
            if !store.is_cleaned() {
                return Err(PublishedError::Full);
            }
            self.runtime.sleep(PAUSE_NS).await;
        };
        store.memory.write(place, entry);
        spans.push(Span::new(place, entry.len() as u64));
        drop(store.commit.persist(&*store.memory, &spans).await?);
        // The next entry goes behind this one: the prefetch brings its lines in meanwhile.
        let next = place + entry.len() as u64;
        store.memory.prefetch(next, entry.len() as u64);
        Ok(place)
    }

    /// Takes the place of an entry. Adds the changed words of the segment table to `spans`.
    fn reserve(&self, size: u64, spans: &mut SmallVec<[Span; 3]>) -> Option<u64> {
        let segments = &self.store.segments;
        let (segment, taken) = match self.tail.get() {
            Some((segment, taken)) if taken + size <= segments.size() => (segment, taken),
            full => {
                let (segment, word) = segments.take(self.kind)?;
                spans.push(word);
                if let Some((full, _)) = full {
                    spans.push(segments.set(full, State::Used));
                    self.store.note_full(full);
                }
                (segment, 0)
            }
        };
        self.tail.set(Some((segment, taken + size)));
        let place = segments.start(segment) + taken;
        if self.kind == LogKind::Primary {
            segments.count_pending(segment, true);
        }
        Some(place)
    }
}
