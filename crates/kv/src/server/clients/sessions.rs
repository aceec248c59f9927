//! The connected clients.

use std::collections::BTreeMap;
use std::rc::Rc;

use stonecast_fabric::{MemoryRegion, PeerIdentity, Port, QueuePair};
use stonecast_media::Region;
use stonecast_session::{Lease, Leases, ReceiveBuffers};

use super::answers::Answers;
use super::extent::Extent;
use super::rights::PublishingRights;
use super::terms::Terms;
use super::windows::Windows;
use crate::metrics::ClientPath;
use crate::wire::Answer;
use crate::wire::limits::LEASES_PER_CLIENT;

/// One connected client.
pub(in crate::server) struct Session {
    /// The number of the session; see [`Welcome::session`](crate::wire::Welcome).
    pub(super) id: u64,
    /// The identity that the fabric vouches for.
    pub(super) peer: PeerIdentity,
    /// The path by which the client reaches the store.
    pub path: ClientPath,
    /// Windows for the client's reads, and on its staging memory.
    pub windows: Windows,
    /// The terms that the client named.
    pub terms: Terms,
    /// Extents to which the client writes.
    pub leases: Leases<Extent, LEASES_PER_CLIENT>,
    /// The client's rights to publish.
    pub(super) rights: Option<Lease<PublishingRights>>,
    /// The memory to which a copying client writes its records.
    pub staging: Option<Staging>,
    /// Receive buffers of the client's own; `None` if the client shares the buffers of all clients.
    pub receives: Option<ReceiveBuffers>,
    pub(super) answers: Answers,
}

/// The memory to which a copying client writes its records.
pub(in crate::server) struct Staging {
    pub region: MemoryRegion,
    pub memory: Rc<dyn Region>,
}

/// All connected clients.
pub(in crate::server) struct Sessions {
    port: Rc<Port>,
    all: BTreeMap<QueuePair, Session>,
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
    pub(super) fn add(&mut self, qp: QueuePair, session: Session) {
        self.all.insert(qp, session);
    }

    pub(super) fn remove(&mut self, qp: QueuePair) -> Option<Session> {
        self.all.remove(&qp)
    }

    /// The queue pairs of all clients.
    pub(super) fn queue_pairs(&self) -> Vec<QueuePair> {
        self.all.keys().copied().collect()
    }

    /// The client of `qp`.
    #[inline]
    pub fn get(&self, qp: QueuePair) -> Option<&Session> {
        self.all.get(&qp)
    }

    /// The client of `qp`.
    pub fn get_mut(&mut self, qp: QueuePair) -> Option<&mut Session> {
        self.all.get_mut(&qp)
    }

    /// The queue pair of the connection with the number `id`.
    pub(super) fn called(&self, id: u64) -> Option<QueuePair> {
        let mut all = self.all.iter();
        all.find(|(_, session)| session.id == id)
            .map(|(&named, _)| named)
    }

    /// All clients.
    pub fn iter(&self) -> impl Iterator<Item = &Session> + Clone {
        self.all.values()
    }

    /// All clients, by queue pair.
    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = (QueuePair, &mut Session)> {
        self.all.iter_mut().map(|(&qp, session)| (qp, session))
    }

    /// All leased extents.
    pub fn leased(&self) -> impl Iterator<Item = &Extent> {
        self.iter()
            .flat_map(|session| session.leases.held())
            .map(Lease::object)
    }

    /// Queues an answer after the earlier ones of this client.
    #[inline]
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
