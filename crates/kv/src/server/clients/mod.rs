//! Connections of clients, with their leases and windows.
//!
//! ```text
//!   sessions   the connected clients, each with its holdings             sessions.rs
//!   accept     a place, memory, queue pair, welcome                      accept.rs
//!   windows    to read index and log through, to stage records           windows.rs
//!   leases     extents of the log that a client writes to                extent.rs, leases.rs
//!   rights     to publish overwrites, and what is announced              rights.rs, publishing.rs
//!   grants     of both, as far as log and index allow them               grants.rs
//!   terms      in which the client treats this node as the primary       terms.rs
//!   answers    one message for the answers of a batch                    answers.rs
//!   served     counts of the clients of each path                        served.rs
//!   end        all of it comes back, once nothing opens it               end.rs, returns.rs
//! ```
//!
//! Every right of a client is a memory window of the client's own queue pair, so that the right ends with that client
//! and with no other.
//!
//! [`Clients`] has all components that own state. The rules in `grants.rs` and `returns.rs` also change log and index,
//! so they take the [`State`](super::state::State).

mod accept;
mod answers;
pub(super) mod end;
mod extent;
pub(super) mod grants;
mod leases;
mod places;
mod publishing;
mod receives;
pub(super) mod returns;
mod rights;
mod served;
mod sessions;
mod terms;
mod windows;

use stonecast_fabric::QueuePair;

use super::space::Space;
use crate::wire::limits::LEASE_RECLAIM_NS;

pub(super) use accept::Admission;
pub(super) use end::Departures;
pub(super) use leases::Lender;
pub use places::Places;
pub(super) use publishing::{Publishing, publishing_refusal, wait_for_publishers};
pub(super) use receives::Receives;
pub(super) use served::Served;
pub(super) use sessions::{Session, Sessions};
pub(super) use windows::Doors;

/// The components of the connection side. Each component owns its state; the leases and windows of a client are in its
/// [`Session`].
pub(super) struct Clients {
    pub sessions: Sessions,
    pub admission: Admission,
    pub doors: Doors,
    pub lender: Lender,
    pub publishing: Publishing,
    pub departures: Departures,
    pub served: Served,
}

impl Clients {
    /// Reclaims, because space is short, leases of extents and rights to publish that clients did not use for long; the
    /// rights end with the next `settle_returned`. The clients ask again when they write. Returns the number of
    /// extents; `None` if nothing was reclaimed.
    pub fn reclaim_unused(&mut self, space: &mut Space) -> Option<usize> {
        let unused = self
            .publishing
            .find_unused(&mut self.sessions, LEASE_RECLAIM_NS);
        let count = self
            .lender
            .reclaim_unused(&mut self.sessions, space, &self.departures);
        (count > 0 || unused > 0).then_some(count)
    }

    /// Takes all rights to publish away from the client of `qp`, with the extents lent to it.
    pub fn end_rights(&mut self, qp: QueuePair) {
        if let Some(session) = self.sessions.get_mut(qp) {
            self.departures.end_rights(session);
        }
    }
}
