//! The ledger of a pool, shared by the intake and the store above it.
//!
//! ```text
//!   store    keep, drop_shard, change  --.                        .--> home       the segment with the slots that it is written into
//!   intake   floors, turns of segments --'-- ledger in memory ----'--> a segment that turns gets a copy, and is the next home
//!                                                 persist
//! ```
//!
//! A change is made in memory, at once. [`SharedLedger::persist`] makes all changes durable that were made before the
//! call. Calls that wait at the same time share a write.
//!
//! Invariants:
//! - A ledger is durable before the next one is written, into the home or into a segment that turns: the next one may
//!   take the slot of the one before.
//! - The home is durably a segment that appends fill, and does not turn.
//! - A segment that goes back to records is not the last one with a durable ledger.
//!
//! A crash leaves a ledger with all durable changes. The ledger may have any later change, but no change without all
//! changes that were made before it.

mod book;

use std::cell::RefCell;
use std::rc::Rc;

use stonecast_base::mutant;
use stonecast_fabric::{Turnstile, Within};
use stonecast_lineage::Lineage;
use stonecast_log::{
    EntryFormat, Ledger, LedgerFull, Lineages, LogFormat, SegmentState, Turn, Turned,
};
use stonecast_media::{PersistError, PersistentRegion};
use stonecast_persist::execute::Commit;

use book::Book;

/// A handle on the ledger of a pool. Its clones are handles on the same ledger.
#[derive(Clone)]
pub struct SharedLedger {
    shared: Rc<Shared>,
}

struct Shared {
    region: Rc<dyn PersistentRegion>,
    format: LogFormat,
    commit: Commit,
    book: RefCell<Book>,
    /// The writer of a ledger.
    writer: Turnstile,
}

/// A moment in the order of all changes of a ledger.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Change(u64);

/// The reason why changes of a ledger are not durable. The changes stay in memory.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LedgerError {
    /// The ledger has no room. A later call succeeds once the ledger has fewer rows.
    #[error(transparent)]
    Full(#[from] LedgerFull),
    /// No segment is filled by appends, so no ledger can be written.
    #[error("no segment is filled by appends yet, so no ledger can be kept; lend one")]
    NoHome,
    /// The medium failed: any of the changes that were not durable may be lost. No handle writes again.
    #[error(transparent)]
    Medium(#[from] PersistError),
    /// The medium failed before.
    #[error("the medium of the ledger has failed; open the pool anew")]
    Failed,
}

impl SharedLedger {
    /// Shares `ledger`, as it was read from the log `region`, with the segment that gets the next one. Nothing of it
    /// counts as durable before the first [`SharedLedger::persist`]: it may be visible and not persisted.
    pub fn new(
        ledger: Ledger,
        home: Option<SegmentState>,
        (region, format): (Rc<dyn PersistentRegion>, LogFormat),
        commit: Commit,
    ) -> Self {
        let book = RefCell::new(Book::new(ledger, home));
        let writer = Turnstile::default();
        Self {
            shared: Rc::new(Shared {
                region,
                format,
                commit,
                book,
                writer,
            }),
        }
    }

    /// Looks at the ledger, with all changes in memory.
    pub fn read<T>(&self, look: impl FnOnce(&Ledger) -> T) -> T {
        look(self.shared.book.borrow().ledger())
    }

    /// Changes the ledger in memory, by one change in the order of all. A later write of anybody may make the change
    /// durable, so all that it relies on is durable already.
    pub fn change<T>(&self, change: impl FnOnce(&mut Ledger) -> T) -> T {
        self.shared.book.borrow_mut().change(change)
    }

    /// The history of `shard`; `None`: the node keeps no copy.
    pub fn lineage(&self, shard: u32) -> Option<Lineage> {
        self.read(|ledger| ledger.lineages().of(shard).cloned())
    }

    /// [`Ledger::keep`], in memory.
    pub fn keep(&self, shard: u32, lineage: Lineage, given: u64) {
        self.change(|ledger| ledger.keep(shard, lineage, given));
    }

    /// [`Ledger::drop_shard`], in memory.
    pub fn drop_shard(&self, shard: u32, lineage: Lineage, version: u64) {
        self.change(|ledger| ledger.drop_shard(shard, lineage, version));
    }

    /// The last change so far.
    pub fn changed(&self) -> Change {
        Change(self.shared.book.borrow().changed())
    }

    /// The last change up to which all changes are durable.
    pub fn durable(&self) -> Change {
        Change(self.shared.book.borrow().durable())
    }

    /// The number of ledgers written into homes so far. Each write took one persist.
    pub fn writes(&self) -> u64 {
        self.shared.book.borrow().writes()
    }

    /// Makes all changes durable that were made before the call. Dropping the future loses nothing: the next call
    /// continues.
    ///
    /// # Errors
    /// [`LedgerError`].
    pub async fn persist(&self) -> Result<(), LedgerError> {
        let wanted = self.changed();
        let within = self.enter().await?;
        match self.durable() >= wanted {
            true => Ok(()),
            false => self.write(&within).await,
        }
    }

    /// The floors of all shards: the intake may treat entries up to these points as old. Entries above a floor may
    /// count in a later history, although they are void in this one.
    pub(crate) fn with_floors<T>(&self, look: impl FnOnce(&Lineages) -> T) -> T {
        look(self.shared.book.borrow().floors())
    }

    /// Names the segment that gets the next ledger, until the next call.
    pub(crate) fn move_home(&self, home: Option<SegmentState>) {
        self.shared.book.borrow_mut().move_home(home);
    }

    /// Takes a step of `turn`, which may write the ledger into the segment that turns.
    ///
    /// # Errors
    /// [`LedgerError`]: the step was not taken.
    pub(crate) async fn step(
        &self,
        turn: &mut Turn,
        entries: &dyn EntryFormat,
    ) -> Result<Turned, LedgerError> {
        let within = self.enter().await?;
        self.finish(&within).await?;
        let Shared {
            region,
            format,
            book,
            ..
        } = &*self.shared;
        let turned = book
            .borrow_mut()
            .carry(|ledger| turn.step(&**region, format, entries, ledger));
        Ok(turned?)
    }

    /// Makes everything durable outside of segment `number`, which goes back to records.
    ///
    /// # Errors
    /// [`LedgerError`].
    pub(crate) async fn leave(&self, number: u32) -> Result<(), LedgerError> {
        let within = self.enter().await?;
        let is_elsewhere = self.read(|ledger| ledger.home() != Some(number));
        if is_elsewhere && self.durable() == self.changed() || mutant!(ReturnedBeforeFloors) {
            return Ok(());
        }
        self.write(&within).await
    }

    async fn enter(&self) -> Result<Within<'_>, LedgerError> {
        let within = self.shared.writer.enter().await;
        match self.shared.book.borrow().has_failed() {
            true => Err(LedgerError::Failed),
            false => Ok(within),
        }
    }

    async fn write(&self, within: &Within<'_>) -> Result<(), LedgerError> {
        self.finish(within).await?;
        let Shared {
            region,
            format,
            book,
            ..
        } = &*self.shared;
        book.borrow_mut().write(&**region, format)?;
        self.finish(within).await
    }

    /// Makes the ledger durable that was written last, by this call or by one that was dropped.
    async fn finish(&self, _: &Within<'_>) -> Result<(), LedgerError> {
        let Shared {
            region,
            commit,
            book,
            ..
        } = &*self.shared;
        let Some(span) = book.borrow().unfinished() else {
            return Ok(());
        };
        let persisted = commit.persist(&**region, &[span]).await;
        Ok(book.borrow_mut().finished(persisted)?)
    }
}
