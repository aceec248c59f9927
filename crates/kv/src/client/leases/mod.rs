//! The leases of this client: requested, held and given back.

mod extents;

use std::cell::RefCell;
use std::future::poll_fn;
use std::rc::Rc;
use std::task::Waker;

use stonecast_base::Nanoseconds;

use super::connection::Connection;
use crate::error::StoreError;
use crate::wire::{Accesses, Answer, Grant, Release, Request, Verdict};

use extents::Extents;
pub(super) use extents::Spot;

/// The leases of this client.
pub(super) struct Leases {
    connection: Rc<Connection>,
    extents: RefCell<Extents>,
}

impl Leases {
    /// No extents; `access` holds the addresses of log and staging memory.
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

    /// Whether a record of `size` bytes has a place without a further lease. Extents that have been unused long enough
    /// for the server to take them back are given back first.
    pub fn has_room(self: &Rc<Self>, size: u64) -> bool {
        let now = self.connection.runtime.now();
        let unused = self.extents.borrow_mut().use_at(now);
        self.release_beside(unused);
        self.extents.borrow().has_room(size)
    }

    /// The place of a record of `size` bytes that lies at `ring_offset` of the staging ring. The caller has checked
    /// that there is room.
    pub fn place(&self, size: u64, ring_offset: u64) -> Spot {
        self.extents
            .borrow_mut()
            .place(size, ring_offset)
            .expect("the caller has checked that there is room")
    }

    /// Makes room for a record of `size` bytes. `Some`: the log has no room, for the reason that the server gives.
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
        // The request runs in a task of its own: a put that is given up during the request must not lose the lease.
        let leases = self.clone();
        self.connection
            .in_task(async move { leases.lease_next(size).await })
            .await
    }

    /// Leases the next extent in a task beside the caller, if it is time. A failure shows when the extent is needed.
    pub fn lease_ahead(self: &Rc<Self>) {
        if self.extents.borrow().should_lease_ahead() && self.extents.borrow_mut().begin_leasing() {
            let leases = self.clone();
            self.connection.runtime.spawn(Box::pin(async move {
                let _ = leases.lease_next(0).await;
            }));
        }
    }

    /// Leases the next extent. The caller has called `begin_leasing`.
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

    /// Asks for an extent with room for a record of `size` bytes. With `publishes`, this client itself stamps the
    /// records of the extent.
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
                what: "the answer to a lease request is neither a lease nor a verdict",
            }),
        }
    }

    /// Gives an extent back. The caller has posted all writes into the extent before.
    pub async fn release(&self, slot: u8) -> Result<(), StoreError> {
        self.connection
            .request(Request::Release(Release { slot }))
            .await
            .map(drop)
    }

    /// Gives extents back in tasks beside the caller.
    pub fn release_beside(self: &Rc<Self>, slots: impl IntoIterator<Item = u8>) {
        for slot in slots {
            let leases = self.clone();
            self.connection.runtime.spawn(Box::pin(async move {
                // A server that is gone takes nothing back.
                let _ = leases.release(slot).await;
            }));
        }
    }

    /// Gives back the extent in use, which has no room for the next record.
    pub fn give_up(self: &Rc<Self>) {
        let slot = self.extents.borrow_mut().give_up();
        self.release_beside(slot);
    }

    /// Gives all extents back, after all writes that were posted to the extents, so that no write in flight is
    /// refused.
    pub fn give_up_all(self: &Rc<Self>) {
        let all = self.take_all();
        self.release_beside(all);
    }

    /// Gives back extents that were not in use for `unused_ns`.
    pub fn give_up_unused(self: &Rc<Self>, unused_ns: Nanoseconds) {
        let now = self.connection.runtime.now();
        let unused = self.extents.borrow_mut().take_unused(now, unused_ns);
        self.release_beside(unused);
    }

    /// Gives up all extents, and returns their slots for their return.
    pub fn take_all(&self) -> Vec<u8> {
        self.extents.borrow_mut().take_all()
    }

    /// Notes that the server has taken back the lease of `slot`.
    pub fn was_taken_back(self: &Rc<Self>, slot: u8) {
        let was_held = self.extents.borrow_mut().forget(slot);
        self.release_beside(was_held.then_some(slot));
    }
}

/// Ends the leasing when the request ends or its future is dropped.
struct Leasing<'a>(&'a RefCell<Extents>);

impl Drop for Leasing<'_> {
    fn drop(&mut self) {
        let waiting = self.0.borrow_mut().end_leasing();
        waiting.into_iter().for_each(Waker::wake);
    }
}
