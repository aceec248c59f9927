//! The pool's bytes, and the plan that makes them durable.

use std::rc::Rc;

use stonecast_base::{LINE_SIZE, Span};
use stonecast_media::{DeclaredPlatform, Durability, PersistError, PersistentRegion, Region};
use stonecast_persist::execute::{Commit, Lending, NoCommit};
use stonecast_persist::{Persisted, Platform};

use crate::wire::{Entries, Entry, LogKey};

/// A pool as the back-end writes it.
pub struct Medium {
    /// The bytes of the pool.
    pub region: Rc<dyn PersistentRegion>,
    /// Seed of the tags of records.
    pub key: LogKey,
    /// Names the pool.
    pub uuid: u128,
    /// The plan that makes the back-end's own stores durable.
    commit: Commit,
    /// The description of the memory for front-ends.
    lending: Lending,
    /// Whether no front-end of an earlier run can write any more; `None`: none can.
    earlier_writers_are_gone: Option<Rc<dyn Fn() -> bool>>,
}

impl Medium {
    /// The pool called `uuid` in `region`, which is declared to be `platform`. Everything has to outlive the failure `durability`.
    ///
    /// # Errors
    /// [`NoCommit`]: nothing survives there, or the region is not as declared.
    pub fn new(
        region: Rc<dyn PersistentRegion>,
        (platform, durability): (DeclaredPlatform, Durability),
        key: LogKey,
        uuid: u128,
    ) -> Result<Self, NoCommit> {
        let commit = Commit::choose(platform, durability, region.means())?;
        let lending = Lending {
            platform: Platform::of(platform),
            durability,
        };
        Ok(Self {
            region,
            key,
            uuid,
            commit,
            lending,
            earlier_writers_are_gone: None,
        })
    }

    /// The same medium, on which front-ends of earlier runs may write to their logs until `are_gone` says that they cannot. Till then these logs are given to
    /// nobody.
    #[must_use]
    pub fn until(mut self, are_gone: Rc<dyn Fn() -> bool>) -> Self {
        self.earlier_writers_are_gone = Some(are_gone);
        self
    }

    /// Whether no front-end of an earlier run can write any more.
    pub(super) fn earlier_writers_are_gone(&self) -> bool {
        let are_gone = self.earlier_writers_are_gone.as_ref();
        are_gone.is_none_or(|are_gone| are_gone())
    }

    /// The description of the memory for front-ends.
    pub(crate) fn lending(&self) -> &Lending {
        &self.lending
    }

    /// The bytes of the pool, to read and write.
    pub fn bytes(&self) -> &dyn Region {
        &*self.region
    }

    /// Makes `spans` durable.
    pub(crate) async fn persist(&self, spans: &[Span]) -> Result<Persisted, PersistError> {
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
            // A store is a release, so earlier stores are visible before it.
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
