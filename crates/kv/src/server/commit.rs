//! Executes the plan that makes bytes of the log durable.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use stonecast_base::Span;
use stonecast_fabric::{Turnstile, Within};
use stonecast_media::{Durability, Means, MediaError, PersistentRegion, Pool};
use stonecast_persist::Persisted;
use stonecast_persist::execute::Commit;

use super::settling::persist_skips;
use super::state::State;
use crate::error::StoreError;

/// Makes bytes of the log durable, by the plan of the medium.
pub(super) struct Committer {
    /// The steps between the receipt of a write and its answer.
    commit: Commit,
    log: Rc<dyn PersistentRegion>,
    syncs_files: bool,
    persists: Cell<u64>,
    turnstile: Turnstile,
}

impl Committer {
    /// A committer for the log of `pool`, by the plan `commit`.
    pub fn new(pool: &Pool, commit: Commit) -> Self {
        let log = pool.log();
        let syncs_files = log.means() == Means::FileSync && pool.durability() == Durability::Power;
        Self {
            commit,
            log,
            syncs_files,
            persists: Cell::new(0),
            turnstile: Turnstile::default(),
        }
    }

    /// Waits until no other task persists, and makes the versions without a record durable, which comes before each
    /// persist of records.
    ///
    /// A task takes the spans that await a persist, and persists them, within one turn: a task that finds nothing to
    /// take then knows that everything is durable.
    pub async fn enter(&self, state: &RefCell<State>) -> Result<Within<'_>, StoreError> {
        let turn = self.turnstile.enter().await;
        persist_skips(state).await?;
        Ok(turn)
    }

    /// Makes `spans` of the log durable. [`publish`](super::shard::Shard::publish) and answers require the returned
    /// proof.
    pub async fn persist(&self, spans: &[Span]) -> Result<Persisted, StoreError> {
        let persisted = self.commit.persist(&*self.log, spans).await;
        let persisted = persisted.map_err(MediaError::from)?;
        self.persists.set(self.persists.get() + 1);
        Ok(persisted)
    }

    /// Whether a persist is a sync of a file. A sync costs the same for one line and for many, so it pays to wait for
    /// more arrivals before the sync.
    pub fn syncs_files(&self) -> bool {
        self.syncs_files
    }

    /// Persists so far.
    pub fn persists(&self) -> u64 {
        self.persists.get()
    }
}
