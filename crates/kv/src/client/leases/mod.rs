//! The extents that this client holds, asked for and given back.

mod extents;

use std::cell::RefCell;
use std::future::poll_fn;
use std::rc::Rc;
use std::task::Waker;

use super::connection::Connection;
use crate::error::StoreError;
use crate::wire::{Accesses, Answer, Grant, Release, Request, Verdict};

use extents::Extents;
pub(super) use extents::Spot;

/// See the module documentation.
pub(super) struct Leases {
    connection: Rc<Connection>,
    extents: RefCell<Extents>,
}

impl Leases {
    /// No extents; `access` says where log and staging memory are.
    pub fn new(connection: Rc<Connection>, access: &Accesses) -> Self {
        let extents = RefCell::new(Extents::new(&connection.welcome, access));
        Self {
            connection,
            extents,
        }
    }

    /// Whether records go to staging memory, so that this client does not know their final places.
    pub fn copies(&self) -> bool {
        self.extents.borrow().copies()
    }

    /// Whether a record of `size` bytes has a place without a further lease. Extents unused for so long that the server may
    /// take them back are given back first.
    pub fn has_room(self: &Rc<Self>, size: u64) -> bool {
        let now = self.connection.runtime.now();
        let unused = self.extents.borrow_mut().use_at(now);
        self.release_beside(unused);
        self.extents.borrow().has_room(size)
    }

    /// The place of a record that takes `size` bytes, and lies at `ring_offset` of the staging ring. The caller has checked
    /// that there is one.
    pub fn place(&self, size: u64, ring_offset: u64) -> Spot {
        self.extents
            .borrow_mut()
            .place(size, ring_offset)
            .expect("there is room, it was just looked at")
    }

    /// Makes room for a record of `size` bytes. `Some`: there is none, for the reason that the server gives.
    pub async fn make_room(
        self: &Rc<Self>,
        size: u64,
    ) -> Result<Option<(Verdict, u64)>, StoreError> {
        let advanced = self.extents.borrow_mut().advance(size);
        if let Some(old) = advanced {
            self.release_beside(old);
            return Ok(None);
        }
        if !self.extents.borrow_mut().begin_leasing() {
            // Another put is leasing.
            poll_fn(|context| self.extents.borrow_mut().poll_leased(context)).await;
            return Ok(None);
        }
        // In a task of its own: a put that is given up while its lease is under way must not lose the lease.
        let leases = self.clone();
        self.connection
            .in_task(async move { leases.lease_next(size).await })
            .await
    }

    /// Leases the next extent beside the caller, if it is time to. A failure shows when the extent is needed.
    pub fn lease_ahead(self: &Rc<Self>) {
        if self.extents.borrow().should_lease_ahead() && self.extents.borrow_mut().begin_leasing() {
            let leases = self.clone();
            self.connection.runtime.spawn(Box::pin(async move {
                let _ = leases.lease_next(0).await;
            }));
        }
    }

    /// Leases the next extent; `begin_leasing` was called.
    async fn lease_next(&self, size: u64) -> Result<Option<(Verdict, u64)>, StoreError> {
        let guard = Leasing(&self.extents);
        let leased = self.ask(size, false).await?;
        drop(guard);
        match leased {
            Ok(grant) => {
                let displaced = self.extents.borrow_mut().put_next(grant);
                if let Some(slot) = displaced {
                    self.release(slot).await?;
                }
                Ok(None)
            }
            Err(refused) => Ok(Some(refused)),
        }
    }

    /// Asks for an extent with room for a record of `size` bytes, which this client stamps itself if it `publishes`.
    pub async fn ask(
        &self,
        size: u64,
        publishes: bool,
    ) -> Result<Result<Grant, (Verdict, u64)>, StoreError> {
        let size_asked = size as u32;
        let request = Request::Lease {
            size: size_asked,
            publishes,
        };
        match self.connection.request(request).await? {
            Answer::Lease(grant) => match self.extents.borrow().fault(&grant, size) {
                Some(what) => Err(StoreError::Protocol { what }),
                None => Ok(Ok(grant)),
            },
            Answer::Verdict { verdict, version } => Ok(Err((verdict, version))),
            _ => Err(StoreError::Protocol {
                what: "the answer to a lease request is none",
            }),
        }
    }

    /// Gives an extent back. Everything written into it was posted before.
    pub async fn release(&self, slot: u8) -> Result<(), StoreError> {
        self.connection
            .request(Request::Release(Release { slot }))
            .await
            .map(drop)
    }

    /// Gives extents back beside the caller.
    pub fn release_beside(self: &Rc<Self>, slots: impl IntoIterator<Item = u8>) {
        for slot in slots {
            let leases = self.clone();
            self.connection.runtime.spawn(Box::pin(async move {
                // A server that is gone takes nothing back.
                let _ = leases.release(slot).await;
            }));
        }
    }

    /// Gives the extent in use back, which has no room for what is to be written.
    pub fn give_up(self: &Rc<Self>) {
        let slot = self.extents.borrow_mut().give_up();
        self.release_beside(slot);
    }

    /// Gives all extents back, behind all writes that were posted to them, so that no write on its way is refused.
    pub fn give_up_all(self: &Rc<Self>) {
        let all = self.take_all();
        self.release_beside(all);
    }

    /// Gives up all extents, and returns their slots for their return.
    pub fn take_all(&self) -> Vec<u8> {
        self.extents.borrow_mut().take_all()
    }

    /// The server has taken back the lease of `slot`.
    pub fn was_taken_back(self: &Rc<Self>, slot: u8) {
        let was_held = self.extents.borrow_mut().forget(slot);
        self.release_beside(was_held.then_some(slot));
    }
}

/// Ends the leasing however the request ends, also when its future is dropped.
struct Leasing<'a>(&'a RefCell<Extents>);

impl Drop for Leasing<'_> {
    fn drop(&mut self) {
        let waiting = self.0.borrow_mut().end_leasing();
        waiting.into_iter().for_each(Waker::wake);
    }
}
