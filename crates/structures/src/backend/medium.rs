//! The pool's bytes, and the plan that makes them durable.

use std::pin::Pin;
use std::rc::Rc;

use futures_util::future::join;
use stonecast_base::{LINE_SIZE, Span, mutant};
use stonecast_media::{DeclaredPlatform, Durability, PersistError, PersistentRegion, Region};
use stonecast_persist::execute::{Commit, Lending, NoCommit};
use stonecast_persist::{Persisted, Platform};

use super::error::DomainError;
use super::standing::{Role, Standing, StandingError};
use crate::standing_record::StandingStore;
use crate::wire::{Entries, Entry, LogKey};

/// Another copy of the pool, as the back-end that fills the copy sees it.
pub trait Mirror {
    /// Makes the bytes of `spans`, as the pool holds them, durable in the copy. The calls come one after the other, and
    /// each copies the bytes of these places that the calls before have left out.
    fn copy<'a>(&'a self, spans: &'a [Span]) -> Copying<'a>;
}

/// A copy that is being made.
pub type Copying<'a> = Pin<Box<dyn Future<Output = Result<(), MirrorLost>> + 'a>>;

/// The mirror no longer answers. Nothing is acknowledged without the mirror.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the mirror is lost: {reason}. Nothing is acknowledged without the mirror: bring it back and start the back-end again, or detach it"
)]
pub struct MirrorLost {
    /// The reason, in words.
    pub reason: String,
}

/// A pool as the back-end writes it.
pub struct Medium {
    /// The bytes of the pool.
    pub region: Rc<dyn PersistentRegion>,
    /// Seed of the tags of records.
    pub key: LogKey,
    /// The name of the pool.
    pub uuid: u128,
    /// The plan that makes the back-end's own stores durable.
    commit: Commit,
    /// The description of the memory for front-ends.
    lending: Lending,
    /// Tells whether all front-ends of earlier runs have stopped writing; `None`: all have.
    earlier_writers_are_gone: Option<Rc<dyn Fn() -> bool>>,
    /// The other copy.
    mirror: Option<Rc<dyn Mirror>>,
    /// The store of the standing record that both copies share.
    record: Option<Rc<StandingStore>>,
}

impl Medium {
    /// The pool called `uuid` in `region`, which is declared to be `platform`. All bytes have to survive the failure
    /// `durability`.
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
            mirror: None,
            record: None,
        })
    }

    /// This medium with a copy in `mirror`: from now on, bytes are durable when they are durable in both.
    #[must_use]
    pub fn mirrored_by(mut self, mirror: Rc<dyn Mirror>) -> Self {
        self.mirror = Some(mirror);
        self
    }

    /// This medium with a standing record in `store`: the record decides whether the mirror is promoted or the pool is
    /// detached, and the mirror promotes itself. Both copies have to name the same store.
    #[must_use]
    pub fn recorded_in(mut self, store: Rc<StandingStore>) -> Self {
        self.record = Some(store);
        self
    }

    /// The store of the standing record.
    pub(crate) fn record(&self) -> Option<&Rc<StandingStore>> {
        self.record.as_ref()
    }

    /// Whether a mirror holds a copy.
    pub(crate) fn is_mirrored(&self) -> bool {
        self.mirror.is_some()
    }

    /// This medium, on which front-ends of earlier runs may write to their logs until `are_gone` denies it. These logs
    /// are not reused before.
    #[must_use]
    pub fn until(mut self, are_gone: Rc<dyn Fn() -> bool>) -> Self {
        self.earlier_writers_are_gone = Some(are_gone);
        self
    }

    /// Whether all front-ends of earlier runs have stopped writing.
    pub(crate) fn earlier_writers_are_gone(&self) -> bool {
        let are_gone = self.earlier_writers_are_gone.as_ref();
        are_gone.is_none_or(|are_gone| are_gone())
    }

    /// Refuses a pool that does not belong to a back-end, or has a standing record that the server does not know.
    pub(crate) fn check_role(&self) -> Result<(), StandingError> {
        let Some(standing) = Standing::read(self.bytes()) else {
            return Ok(());
        };
        let generation = standing.generation;
        match standing.role {
            Role::Copying | Role::Mirror => Err(StandingError::IsMirror { generation }),
            Role::BackEnd => self.check_record(&standing),
        }
    }

    /// Refuses a server that does not know the standing record of the pool.
    pub(crate) fn check_record(&self, standing: &Standing) -> Result<(), StandingError> {
        match standing.is_recorded && self.record.is_none() {
            true => Err(StandingError::Recorded),
            false => Ok(()),
        }
    }

    /// Refuses a pool that may not be served without its mirror.
    pub(crate) fn check_mirror(&self) -> Result<(), StandingError> {
        let standing = Standing::read(self.bytes());
        let is_bound = standing.is_some_and(|standing| standing.mirror != 0);
        match is_bound && !self.is_mirrored() {
            true => Err(StandingError::Bound),
            false => Ok(()),
        }
    }

    /// The generation of the back-end among the copies of the pool.
    pub(crate) fn generation(&self) -> u64 {
        Standing::read(self.bytes()).map_or(0, |standing| standing.generation)
    }

    /// The description of the memory for front-ends.
    pub(crate) fn lending(&self) -> &Lending {
        &self.lending
    }

    /// The bytes of the pool, to read and write.
    pub fn bytes(&self) -> &dyn Region {
        &*self.region
    }

    /// Makes `spans` durable here, and in the mirror if the pool has one. Both copies work at the same time.
    pub(crate) async fn persist(&self, spans: &[Span]) -> Result<Persisted, DomainError> {
        let here = self.persist_here(spans);
        let Some(mirror) = self.mirror.as_ref().filter(|_| !mutant!(MirrorNotAwaited)) else {
            return Ok(here.await?);
        };
        let (persisted, copied) = join(here, mirror.copy(spans)).await;
        copied?;
        Ok(persisted?)
    }

    /// Makes `spans` durable in this copy alone: words about the copy itself.
    pub(crate) async fn persist_here(&self, spans: &[Span]) -> Result<Persisted, PersistError> {
        self.commit.persist(&*self.region, spans).await
    }

    /// Writes the entries in order: a reader that sees an entry sees all earlier entries. The changed lines are added
    /// to `dirty`.
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
