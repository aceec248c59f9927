//! Connections of clients and what they hold.
//!
//! ```text
//!   accept     a place, memory, queue pair, welcome                      accept.rs
//!   windows    to read index and log through, to stage records           windows.rs
//!   leases     extents of the log that a client writes to                leases.rs
//!   answers    one message for the answers of a batch                    answers.rs
//!   end        all of it comes back, once nothing opens it               end.rs
//! ```
//!
//! Every right of a client is a memory window of its own queue pair, so that it ends with that client and with no other.

mod accept;
mod answers;
mod end;
mod leases;
mod windows;

use std::collections::BTreeMap;

use stonecast_base::hash;
use stonecast_fabric::{MemoryRegion, PeerIdentity, Port, QueuePair};
use stonecast_session::{Lease, Leases, ReceiveBuffers};

use super::publishers::PublishingRights;
use crate::metrics::ClientPath;
use crate::wire::Answer;
use crate::wire::limits::LEASES_PER_CLIENT;

use answers::Answers;
use windows::Windows;

pub(super) use end::{Leased, PUMPS_MAX, ending};
pub(super) use leases::Extent;

/// One connected client.
pub(super) struct Session {
    /// See [`Welcome::session`](crate::wire::Welcome).
    id: u64,
    /// The identity that the fabric vouches for.
    peer: PeerIdentity,
    /// How it comes here.
    pub path: ClientPath,
    /// What it may read, and where it may stage.
    pub windows: Windows,
    /// Extents that it writes to.
    pub leases: Leases<Extent, LEASES_PER_CLIENT>,
    /// Its rights to publish.
    pub rights: Option<Lease<PublishingRights>>,
    /// Where a copying client writes its records.
    pub staging: Option<MemoryRegion>,
    /// Receive buffers of its own; none where it shares those of all.
    pub receives: Option<ReceiveBuffers>,
    answers: Answers,
}

/// All connected clients.
#[derive(Default)]
pub(super) struct Sessions {
    all: BTreeMap<QueuePair, Session>,
    /// Connections accepted so far.
    begun: u64,
}

impl Sessions {
    /// How many there are.
    pub fn len(&self) -> usize {
        self.all.len()
    }

    /// The client of `qp`.
    pub fn get(&self, qp: QueuePair) -> Option<&Session> {
        self.all.get(&qp)
    }

    /// The client of `qp`.
    pub fn get_mut(&mut self, qp: QueuePair) -> Option<&mut Session> {
        self.all.get_mut(&qp)
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = &Session> + Clone {
        self.all.values()
    }

    /// All of them, by queue pair.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = (QueuePair, &mut Session)> {
        self.all.iter_mut().map(|(&qp, session)| (qp, session))
    }

    /// All extents that are leased.
    pub fn leased(&self) -> impl Iterator<Item = &Extent> {
        self.iter()
            .flat_map(|session| session.leases.held())
            .map(Lease::object)
    }

    /// A number that names a connection and that no other client can guess.
    fn next_id(&mut self, opening: u32, secret: [u64; 2]) -> u64 {
        self.begun += 1;
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&u64::from(opening).to_le_bytes());
        bytes[8..].copy_from_slice(&self.begun.to_le_bytes());
        hash::siphash24(secret, &bytes)
    }

    /// Queues an answer behind the earlier ones of this client.
    pub fn answer(&mut self, port: &Port, qp: QueuePair, answer: &Answer) {
        if let Some(session) = self.all.get_mut(&qp) {
            session.answers.queue(port, qp, answer);
        }
    }

    /// Sends what is queued for every client.
    pub fn send_answers(&mut self, port: &Port) {
        for (&qp, session) in &mut self.all {
            session.answers.send(port, qp);
        }
    }

    /// Clients that do not take their answers.
    pub fn stuck(&self) -> Vec<QueuePair> {
        let stuck =
            |(&qp, session): (&QueuePair, &Session)| session.answers.is_stuck().then_some(qp);
        self.all.iter().filter_map(stuck).collect()
    }
}
