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
use crate::wire::{Entries, Entry, LogKey};

/// Another copy of the pool, as the back-end that fills the copy sees it.
pub trait Mirror {
    /// Makes the bytes of `spans`, as the pool holds them, durable in the copy. The calls come one after the other, and
    /// each copies what the calls before have left out of these places.
    fn copy<'a>(&'a self, spans: &'a [Span]) -> Copying<'a>;
}

/// A copy that is being made.
pub type Copying<'a> = Pin<Box<dyn Future<Output = Result<(), MirrorLost>> + 'a>>;

/// The mirror does not answer any more. Nothing is acknowledged without it.
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
    /// Names the pool.
    pub uuid: u128,
    /// The plan that makes the back-end's own stores durable.
    commit: Commit,
    /// The description of the memory for front-ends.
    lending: Lending,
    /// Whether no front-end of an earlier run can write any more; `None`: none can.
    earlier_writers_are_gone: Option<Rc<dyn Fn() -> bool>>,
    /// The other copy.
    mirror: Option<Rc<dyn Mirror>>,
}

impl Medium {
    /// The pool called `uuid` in `region`, which is declared to be `platform`. Everything has to outlive the failure
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
        })
    }

    /// The same medium, of which `mirror` holds a copy: from now on, bytes are durable when they are durable in both.
    #[must_use]
    pub fn mirrored_by(mut self, mirror: Rc<dyn Mirror>) -> Self {
        self.mirror = Some(mirror);
        self
    }

    /// Whether a mirror holds a copy.
    pub(crate) fn is_mirrored(&self) -> bool {
        self.mirror.is_some()
    }

    /// The same medium, on which front-ends of earlier runs may write to their logs until `are_gone` says that they
    /// cannot. Till then these logs are given to nobody.
    #[must_use]
    pub fn until(mut self, are_gone: Rc<dyn Fn() -> bool>) -> Self {
        self.earlier_writers_are_gone = Some(are_gone);
        self
    }

    /// Whether no front-end of an earlier run can write any more.
    pub(crate) fn earlier_writers_are_gone(&self) -> bool {
        let are_gone = self.earlier_writers_are_gone.as_ref();
        are_gone.is_none_or(|are_gone| are_gone())
    }

    /// Refuses a pool that may not be served as it is.
    pub(crate) fn check_standing(&self) -> Result<(), StandingError> {
        let Some(standing) = Standing::read(self.bytes()) else {
            return Ok(());
        };
        let generation = standing.generation;
        match standing.role {
            Role::Copying | Role::Mirror => Err(StandingError::IsMirror { generation }),
            Role::BackEnd if standing.mirror != 0 && !self.is_mirrored() => {
                Err(StandingError::Bound)
            }
            Role::BackEnd => Ok(()),
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

    /// Makes `spans` durable here, and in the mirror if there is one. Both go on at the same time.
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
