//! Connections of clients, with their leases and windows.
//!
//! ```text
//!   accept     a place, memory, queue pair, welcome                      accept.rs
//!   windows    to read index and log through, to stage records           windows.rs
//!   leases     extents of the log that a client writes to                leases.rs
//!   rights     to publish overwrites, and what is announced              rights.rs
//!   terms      in which the client treats this node as the primary       terms.rs
//!   answers    one message for the answers of a batch                    answers.rs
//!   served     counts of the clients of each path                        served.rs
//!   end        all of it comes back, once nothing opens it               end.rs
//! ```
//!
//! Every right of a client is a memory window of the client's own queue pair, so that the right ends with that client
//! and with no other.

mod accept;
mod answers;
mod end;
mod leases;
mod places;
mod receives;
mod rights;
mod served;
mod terms;
mod windows;

use std::collections::BTreeMap;
use std::rc::Rc;

use stonecast_fabric::{MemoryRegion, PeerIdentity, Port, QueuePair};
use stonecast_session::{Lease, Leases, ReceiveBuffers};

use super::space::Space;
use crate::metrics::ClientPath;
use crate::wire::Answer;
use crate::wire::limits::{LEASE_RECLAIM_NS, LEASES_PER_CLIENT};

use answers::Answers;
use rights::PublishingRights;
use terms::Terms;
use windows::Windows;

pub(super) use accept::Admission;
pub(super) use end::{Departures, settle_returned};
pub(super) use leases::{Extent, Lender, grant_lease};
pub use places::Places;
pub(super) use receives::Receives;
pub(super) use rights::{
    Publishing, drain_intents, grant_rights, publishing_refusal, wait_for_publishers,
};
pub(super) use served::Served;
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

/// One connected client.
pub(super) struct Session {
    /// The number of the session; see [`Welcome::session`](crate::wire::Welcome).
    id: u64,
    /// The identity that the fabric vouches for.
    peer: PeerIdentity,
    /// The path by which the client reaches the store.
    pub path: ClientPath,
    /// Windows for the client's reads, and on its staging memory.
    pub windows: Windows,
    /// The terms that the client named.
    pub terms: Terms,
    /// Extents to which the client writes.
    pub leases: Leases<Extent, LEASES_PER_CLIENT>,
    /// The client's rights to publish.
    rights: Option<Lease<PublishingRights>>,
    /// The memory to which a copying client writes its records.
    pub staging: Option<MemoryRegion>,
    /// Receive buffers of the client's own; `None` if the client shares the buffers of all clients.
    pub receives: Option<ReceiveBuffers>,
    answers: Answers,
}

/// All connected clients.
pub(super) struct Sessions {
    port: Rc<Port>,
    all: BTreeMap<QueuePair, Session>,
}

impl Clients {
    /// Reclaims what clients did not use for long, because space is short: leases of extents, and rights to publish,
    /// which end with the next `settle_returned`. The clients ask again when they write. Returns the number of extents;
    /// `None` if nothing was reclaimed.
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

impl Sessions {
    pub fn new(port: Rc<Port>) -> Self {
        Self {
            port,
            all: BTreeMap::new(),
        }
    }

    /// The number of connected clients.
    pub fn len(&self) -> usize {
        self.all.len()
    }

    /// Adds the client of `qp`.
    fn add(&mut self, qp: QueuePair, session: Session) {
        self.all.insert(qp, session);
    }

    fn remove(&mut self, qp: QueuePair) -> Option<Session> {
        self.all.remove(&qp)
    }

    /// The queue pairs of all clients.
    fn queue_pairs(&self) -> Vec<QueuePair> {
        self.all.keys().copied().collect()
    }

    /// The client of `qp`.
    pub fn get(&self, qp: QueuePair) -> Option<&Session> {
        self.all.get(&qp)
    }

    /// The client of `qp`.
    pub fn get_mut(&mut self, qp: QueuePair) -> Option<&mut Session> {
        self.all.get_mut(&qp)
    }

    /// The queue pair of the connection with the number `id`.
    fn called(&self, id: u64) -> Option<QueuePair> {
        let mut all = self.all.iter();
        all.find(|(_, session)| session.id == id)
            .map(|(&named, _)| named)
    }

    /// All clients.
    pub fn iter(&self) -> impl Iterator<Item = &Session> + Clone {
        self.all.values()
    }

    /// All clients, by queue pair.
    fn iter_mut(&mut self) -> impl Iterator<Item = (QueuePair, &mut Session)> {
        self.all.iter_mut().map(|(&qp, session)| (qp, session))
    }

    /// All leased extents.
    pub fn leased(&self) -> impl Iterator<Item = &Extent> {
        self.iter()
            .flat_map(|session| session.leases.held())
            .map(Lease::object)
    }

    /// Queues an answer behind the earlier ones of this client.
    pub fn answer(&mut self, qp: QueuePair, answer: &Answer) {
        if let Some(session) = self.all.get_mut(&qp) {
            session.answers.queue(&self.port, qp, answer);
        }
    }

    /// Sends the queued answers of every client.
    pub fn send_answers(&mut self) {
        for (&qp, session) in &mut self.all {
            session.answers.send(&self.port, qp);
        }
    }

    /// Clients that do not take their answers.
    pub fn stuck(&self) -> Vec<QueuePair> {
        let stuck =
            |(&qp, session): (&QueuePair, &Session)| session.answers.is_stuck().then_some(qp);
        self.all.iter().filter_map(stuck).collect()
    }
}
