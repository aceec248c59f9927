//! A reader of a domain over a connection.

use std::rc::Rc;

use stonecast_base::Span;
use stonecast_fabric::Placing;

use super::back_end::BackEnd;
use super::error::FrontEndError;
use super::served::Served;
use crate::backend::{PoolGeometry, Territory};
use crate::shapes::{ReadRoots, Roots, Stale, Structure, Traversal, hash};

/// Times that a traversal begins again because what it read was stale.
pub(super) const TRIES_MAX: u32 = 1000;

/// A reader of a domain.
pub struct Reader {
    pub(super) back_end: Rc<BackEnd>,
    pub(super) domain: u32,
    pub(super) territory: Territory,
}

impl Reader {
    /// Drives a traversal until it ends. If the reader shares memory with the back-end, the serving word is read before and after.
    ///
    /// # Errors
    /// [`FrontEndError::Stale`] after many tries.
    pub async fn end_of<T: Traversal>(
        &mut self,
        make: impl Fn() -> T,
    ) -> Result<T::End, FrontEndError> {
        let placing = self.back_end.port().device().placing();
        let shares_memory = placing == Placing::RequesterProcessor;
        let mut tries = 0;
        loop {
            let nothing = |_: Span, _: &mut [u8]| {};
            let ended = match shares_memory {
                true => {
                    let served = Served::new(make(), PoolGeometry::serving_word());
                    self.back_end
                        .drive(&self.territory, served, nothing)
                        .await?
                }
                false => {
                    self.back_end
                        .drive(&self.territory, make(), nothing)
                        .await?
                }
            };
            match ended {
                Ok(end) => return Ok(end),
                Err(stale) if tries == TRIES_MAX => return Err(FrontEndError::Stale(stale)),
                // The domain may have got another slab.
                Err(Stale { place, .. }) if !self.territory.holds(place) => {
                    self.territory = self.back_end.territory(self.domain).await?;
                }
                Err(_) => {}
            }
            tries += 1;
        }
    }

    /// The structures of the domain.
    ///
    /// # Errors
    /// As [`Reader::end_of`].
    pub async fn roots(&mut self) -> Result<Roots, FrontEndError> {
        let (key, domain) = (self.back_end.log_key, self.domain);
        let root = self.territory.root;
        self.end_of(|| ReadRoots::new(key, domain, root)).await
    }

    /// The value of an encoded key in a structure with keys; `None`: it has none, or the structure has no keys.
    ///
    /// # Errors
    /// As [`Reader::end_of`].
    pub async fn get(
        &mut self,
        structure: &Structure,
        key: &[u8],
    ) -> Result<Option<Vec<u8>>, FrontEndError> {
        match structure {
            Structure::HashTable(table) => {
                let found = self.end_of(|| table.find(key)).await?;
                Ok(hash::Found::into_value(found))
            }
            Structure::BTree(tree) => self.end_of(|| tree.find(key)).await,
            Structure::Stack(_) | Structure::Queue(_) => Ok(None),
        }
    }
}
