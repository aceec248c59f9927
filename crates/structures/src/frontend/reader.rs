//! A reader of a domain over a connection.

use std::rc::Rc;

use stonecast_base::mutant;
use stonecast_fabric::Placing;

use super::back_end::BackEnd;
use super::cache::PlaceCache;
use super::error::FrontEndError;
use super::served::Served;
use crate::backend::{PoolGeometry, Territory};
use crate::shapes::{ReadRoots, Roots, Stale, Structure, Traversal};

/// The most times that a traversal begins again because a place was stale.
pub(super) const TRIES_MAX: u32 = 1000;

/// A reader of a domain.
pub struct Reader {
    pub(super) back_end: Rc<BackEnd>,
    pub(super) domain: u32,
    pub(super) territory: Territory,
    pub(super) cache: PlaceCache,
}

impl Reader {
    /// Remembers at most `size` bytes of inner places. A remembered place may be old; the places that it leads to show
    /// its age, so answers are as fresh as without the memory. At first, a reader remembers nothing.
    #[must_use]
    pub fn remembering(mut self, size: u64) -> Self {
        self.cache = PlaceCache::new(size);
        self
    }

    /// Drives a traversal until it ends. If the reader shares memory with the back-end, the serving word is read before
    /// and after.
    ///
    /// # Errors
    /// [`FrontEndError::Stale`] after many tries.
    pub async fn end_of<T: Traversal>(
        &mut self,
        make: impl Fn() -> T,
    ) -> Result<T::End, FrontEndError> {
        let mut tries = 0;
        loop {
            match self.end_once(make(), tries == 0).await? {
                Ok(end) => return Ok(end),
                Err(stale) if tries == TRIES_MAX => return Err(FrontEndError::Stale(stale)),
                Err(stale) => self.note_stale(stale).await?,
            }
            tries += 1;
        }
    }

    /// Drives a traversal once. `trusts`: remembered places are taken as they are.
    pub(super) async fn end_once<T: Traversal>(
        &mut self,
        traversal: T,
        trusts: bool,
    ) -> Result<Result<T::End, Stale>, FrontEndError> {
        let placing = self.back_end.port().device().placing();
        let memory = (&mut self.cache, trusts);
        let (back_end, territory) = (&self.back_end, &self.territory);
        match placing == Placing::RequesterProcessor {
            true => {
                let served = Served::new(traversal, PoolGeometry::serving_word());
                back_end.drive_remembering(territory, served, memory).await
            }
            false => {
                back_end
                    .drive_remembering(territory, traversal, memory)
                    .await
            }
        }
    }

    /// A traversal begins again, and reads everything: the domain may have got another slab.
    pub(super) async fn note_stale(&mut self, stale: Stale) -> Result<(), FrontEndError> {
        if !self.territory.holds(stale.place) {
            self.territory = self.back_end.territory(self.domain).await?;
        }
        self.back_end.count_retry();
        Ok(())
    }

    /// Drives a traversal of the structure `number` of the table `roots` until it ends. A multi-version structure is
    /// read as it was when the table was read.
    ///
    /// # Errors
    /// [`FrontEndError::TooOld`]: nodes of the version are used again. Read the table again.
    /// [`FrontEndError::NoStructure`]: the table has no such structure, or the structure has ended since. Otherwise the
    /// errors of [`Reader::end_of`].
    pub async fn end_in<T: Traversal>(
        &mut self,
        roots: &Roots,
        number: u32,
        make: impl Fn(&Structure) -> T,
    ) -> Result<T::End, FrontEndError> {
        let structure = roots.structure(number).ok_or(FrontEndError::NoStructure)?;
        let mut tries = 0;
        loop {
            let stale = match self.end_once(make(&structure), tries == 0).await? {
                Ok(end) => return Ok(end),
                Err(stale) if tries == TRIES_MAX => return Err(FrontEndError::Stale(stale)),
                Err(stale) => stale,
            };
            self.note_stale(stale).await?;
            // The first try may have met an old place of the cache, or a slab that the reader did not know.
            let may_be_old = tries > 0 && stale.place != PoolGeometry::serving_word();
            if may_be_old && !mutant!(AgeIgnored) {
                self.check_age(number, &structure).await?;
            }
            tries += 1;
        }
    }

    /// Checks that the table of structures still names `structure`. The blocks of a version are used again only after
    /// a later table.
    async fn check_age(&mut self, number: u32, structure: &Structure) -> Result<(), FrontEndError> {
        match self.roots().await?.structure(number) {
            None => Err(FrontEndError::NoStructure),
            Some(current) if current != *structure => Err(FrontEndError::TooOld),
            Some(_) => Ok(()),
        }
    }

    /// The value that comes next in the stack or queue `number` of the table `roots`; `None`: the structure is empty,
    /// or has keys.
    ///
    /// # Errors
    /// The errors of [`Reader::end_in`].
    pub async fn peek(
        &mut self,
        roots: &Roots,
        number: u32,
    ) -> Result<Option<Vec<u8>>, FrontEndError> {
        let structure = roots.structure(number).ok_or(FrontEndError::NoStructure)?;
        match structure.peek() {
            Some(peek) => self.end_in(roots, number, |_| peek.clone()).await,
            None => Ok(None),
        }
    }

    /// The structures of the domain.
    ///
    /// # Errors
    /// The errors of [`Reader::end_of`].
    pub async fn roots(&mut self) -> Result<Roots, FrontEndError> {
        let (key, domain) = (self.back_end.log_key, self.domain);
        let root = self.territory.root;
        self.end_of(|| ReadRoots::new(key, domain, root)).await
    }

    /// The value of an encoded key in the structure `number` of the table `roots`; `None`: the key has none, or the
    /// structure has no keys.
    ///
    /// # Errors
    /// The errors of [`Reader::end_in`].
    pub async fn get(
        &mut self,
        roots: &Roots,
        number: u32,
        key: &[u8],
    ) -> Result<Option<Vec<u8>>, FrontEndError> {
        let structure = roots.structure(number).ok_or(FrontEndError::NoStructure)?;
        if !structure.has_keys() {
            return Ok(None);
        }
        let find = |structure: &Structure| structure.find(key).expect("the structure has keys");
        self.end_in(roots, number, find).await
    }
}
