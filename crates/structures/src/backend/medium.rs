//! The pool's bytes, and the plan that makes them durable.

use std::rc::Rc;

use stonecast_base::{LINE_SIZE, Span};
use stonecast_media::{PersistError, PersistentRegion, Region};
use stonecast_persist::Persisted;
use stonecast_persist::execute::Commit;

use crate::wire::{Entries, Entry, LogKey};

/// A pool as the back-end writes it.
pub struct Medium {
    /// The bytes of the pool.
    pub region: Rc<dyn PersistentRegion>,
    /// The plan that makes them durable.
    pub commit: Commit,
    /// Seed of the tags of records.
    pub key: LogKey,
    /// Names the pool.
    pub uuid: u128,
}

impl Medium {
    /// The bytes of the pool, to read and write.
    pub fn bytes(&self) -> &dyn Region {
        &*self.region
    }

    /// Makes `spans` durable.
    pub(super) async fn persist(&self, spans: &[Span]) -> Result<Persisted, PersistError> {
        self.commit.persist(&*self.region, spans).await
    }

    /// Writes the entries in order: a reader that sees one sees all before it. The changed lines are added to `dirty`.
    pub(super) fn write_entries<'a>(
        &self,
        entries: impl Iterator<Item = Entry<'a>>,
        dirty: &mut Vec<Span>,
    ) {
        for entry in entries {
            let (rest, last) = entry
                .bytes
                .split_last_chunk::<8>()
                .expect("an entry has a word");
            if !rest.is_empty() {
                self.region.write(entry.offset, rest);
            }
            // A store is a release, so what was written before it is visible before it.
            self.region
                .store(entry.offset + rest.len() as u64, u64::from_le_bytes(*last));
            dirty.push(entry.span().widen(LINE_SIZE as u64));
        }
    }

    /// Applies a transaction that is durable.
    pub(super) fn apply(&self, _: &Persisted, entries: &Entries, dirty: &mut Vec<Span>) {
        self.write_entries(entries.iter(), dirty);
    }
}
