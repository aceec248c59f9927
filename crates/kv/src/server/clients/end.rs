//! The end of connections, and of the leases and windows of clients.
//!
//! Memory that a client may write to goes to no other client before the fabric confirms that nothing more can arrive
//! through the client's windows. If the fabric cannot confirm that (a stopped client may still be in the middle of a
//! write), the segment is not used again: its records stay readable, and its rest is wasted until the pool is opened
//! again.

use std::rc::Rc;

use stonecast_fabric::{Port, QueuePair, Received, Rkey, Runtime};
use stonecast_session::{Ended, Ending, Lease, Revocations};

use super::extent::Extent;
use super::rights::PublishingRights;
use super::sessions::{Session, Sessions};
use crate::wire::limits::SERVER_RECEIVES;

/// Rounds in which the arrivals of a queue pair are taken over before it is destroyed: enough for all shared receive
/// buffers, 64 a round, and some to spare for the arrivals of other clients.
const PUMPS_MAX: u32 = SERVER_RECEIVES / 64 * 2;

/// Memory that a client leases.
pub(super) enum Leased {
    /// An extent to which the client writes records.
    Extent(Extent),
    /// Rights to publish, which end before the extents in which their client stamps records.
    Rights(PublishingRights),
}

impl Leased {
    /// Whether a client that was stopped inside this memory may publish when it continues.
    pub(super) fn publishes(&self) -> bool {
        match self {
            Self::Extent(extent) => extent.publishes,
            Self::Rights(_) => true,
        }
    }
}

impl From<Extent> for Leased {
    fn from(extent: Extent) -> Self {
        Self::Extent(extent)
    }
}

impl From<PublishingRights> for Leased {
    fn from(rights: PublishingRights) -> Self {
        Self::Rights(rights)
    }
}

/// The leases that end when a client loses `rights` and `extents`.
fn ending(
    rights: Option<Lease<PublishingRights>>,
    extents: impl IntoIterator<Item = Lease<Extent>>,
) -> Ending<Leased> {
    let regions = rights.iter().map(|lease| lease.object().region());
    Ending {
        regions: regions.collect(),
        leases: rights
            .map(Lease::widen)
            .into_iter()
            .chain(extents.into_iter().map(Lease::widen))
            .collect(),
        ..Ending::default()
    }
}

/// Ends the leases and windows that clients lose.
pub(in crate::server) struct Departures {
    /// Memory that clients lose, until no key opens it.
    revocations: Revocations<Leased>,
    /// Whether rights to publish were taken from a client that was stopped inside a publication, and may finish that
    /// publication at any time.
    may_be_publishing: bool,
}

impl Departures {
    pub fn new(port: Rc<Port>, runtime: Rc<dyn Runtime>) -> Self {
        Self {
            revocations: Revocations::new(port, runtime, PUMPS_MAX),
            may_be_publishing: false,
        }
    }

    /// Whether any revocation has not ended yet.
    pub fn are_under_way(&self) -> bool {
        self.revocations.under_way() > 0
    }

    /// Whether an extent or rights to publish are being taken back.
    pub fn bring_leases(&self) -> bool {
        self.revocations.leases_to_come() > 0
    }

    /// Whether a client was stopped inside a publication, and may finish that publication at any time.
    pub fn may_be_publishing(&self) -> bool {
        self.may_be_publishing
    }

    /// Notes that a client was stopped inside a publication, and may finish that publication at any time.
    pub(super) fn note_publishing(&mut self) {
        self.may_be_publishing = true;
    }

    /// The leases that have ended since the last call.
    pub(super) fn take_ended(&self) -> Vec<Ended<Leased>> {
        self.revocations.take_ended()
    }

    /// Messages that the server had not taken when their connection ended.
    pub fn take_untaken(&self) -> Vec<Received> {
        self.revocations.take_untaken()
    }

    /// Ends the connection of `qp`, and takes back all leases and windows of its client.
    pub fn end_session(&self, sessions: &mut Sessions, qp: QueuePair) {
        let Some(session) = sessions.remove(qp) else {
            return;
        };
        let Session {
            windows,
            leases,
            rights,
            staging,
            receives,
            answers,
            ..
        } = session;
        let mut ending = ending(rights, leases.into_held());
        ending.connection = Some(qp);
        ending.windows = windows.into_read_windows();
        ending.regions.extend(staging.map(|staging| staging.region));
        ending
            .regions
            .extend(receives.map(|buffers| buffers.region));
        ending.regions.push(answers.region());
        self.revocations.begin(ending);
    }

    /// Ends the connection with the number `id`, unless that is the connection of `qp` itself. The server takes no
    /// later message from that connection.
    pub fn end_session_called(&self, sessions: &mut Sessions, id: u64, qp: QueuePair) {
        if let Some(named) = sessions.called(id).filter(|&named| named != qp) {
            self.end_session(sessions, named);
        }
    }

    /// Ends all connections, so that waiting clients learn that no answer will come.
    pub fn end_all_sessions(&self, sessions: &mut Sessions) {
        for qp in sessions.queue_pairs() {
            self.end_session(sessions, qp);
        }
    }

    /// Takes all rights to publish away from a client, with the extents lent to it.
    pub fn end_rights(&self, session: &mut Session) {
        if let Some(rights) = session.rights.take() {
            // The client may still return the extent that it was lent.
            let lent = session.leases.reclaim(|lease| lease.object().publishes);
            self.revocations.begin(ending(Some(rights), lent));
        }
    }

    /// Ends rights to publish that could be granted only in part.
    pub(super) fn end_unheld(&self, rights: Lease<PublishingRights>) {
        self.revocations.begin(ending(Some(rights), None));
    }

    /// Ends leases of extents.
    pub fn end_extents(&self, extents: impl IntoIterator<Item = Lease<Extent>>) {
        self.revocations.begin(ending(None, extents));
    }

    /// Closes a window that a client has left.
    pub fn end_window(&self, rkey: Rkey) {
        self.revocations.begin(Ending {
            windows: vec![rkey],
            ..Ending::default()
        });
    }
}
