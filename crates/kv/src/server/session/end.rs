//! The end of connections, and of what clients hold.
//!
//! What a client may write to goes to no other client before the fabric says that nothing can arrive through its windows any more. Where
//! the fabric cannot say so (a stopped client may still be in the middle of a write), a segment is left alone for good: its records
//! stay readable, its rest is wasted until the pool is opened again.

use std::rc::Rc;

use stonecast_fabric::QueuePair;
use stonecast_session::{Ended, Ending, Lease};

use super::{Extent, Session};
use crate::server::publishers::{PublishingRights, Returned, Ring, Stamper};
use crate::server::{Server, State};
use crate::wire::limits::SERVER_RECEIVES;

/// Rounds in which the arrivals of a queue pair are taken over before it goes: all shared receive buffers, 64 a round, and
/// some to spare for those of other clients.
pub(in crate::server) const PUMPS_MAX: u32 = SERVER_RECEIVES / 64 * 2;

/// What clients lease.
pub(in crate::server) enum Leased {
    /// To write records to.
    Extent(Extent),
    /// To publish. It ends before the extents that its client stamps in.
    Rights(PublishingRights),
}

impl Leased {
    /// Whether a client that stands still inside of it may publish when it goes on.
    fn publishes(&self) -> bool {
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

/// What ends where a client loses `rights` and `extents`.
pub(in crate::server) fn ending(
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

impl Server {
    /// Takes back everything that the client of `qp` holds.
    pub(in crate::server) fn end_session(&self, qp: QueuePair) {
        let Some(session) = self.state.borrow_mut().sessions.all.remove(&qp) else {
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
        ending.regions.extend(staging);
        ending
            .regions
            .extend(receives.map(|buffers| buffers.region));
        ending.regions.push(answers.region());
        self.revocations.begin(ending);
    }

    /// Ends the connection that is called `id`, unless it is that of `qp` itself. Nothing that is still on its way through
    /// it is looked at afterwards.
    pub(in crate::server) fn end_session_called(&self, id: u64, qp: QueuePair) {
        let state = self.state.borrow();
        let mut all = state.sessions.all.iter();
        let named = all
            .find(|(_, session)| session.id == id)
            .map(|(&named, _)| named);
        drop(state);
        if let Some(named) = named.filter(|&named| named != qp) {
            self.end_session(named);
        }
    }

    /// Ends all connections: clients that wait for an answer are told that none will come.
    pub(in crate::server) fn end_all_sessions(&self) {
        let all: Vec<QueuePair> = self.state.borrow().sessions.all.keys().copied().collect();
        all.into_iter().for_each(|qp| self.end_session(qp));
    }

    /// Takes what clients have lost and cannot reach any more.
    pub(in crate::server) fn take_revoked(&self) {
        let idle = std::mem::take(&mut *self.idle_rights.borrow_mut());
        idle.into_iter().for_each(|qp| self.end_rights(qp));
        let state = &mut *self.state.borrow_mut();
        for ended in self.revocations.take_ended() {
            self.settle_ended(state, ended);
        }
    }

    /// Gives segments back, and forgets rings that no client writes to any more.
    fn settle_ended(&self, state: &mut State, ended: Ended<Leased>) {
        let Ended {
            revoked,
            unquiesced,
        } = ended;
        // A client stopped in the middle of publishing may finish it at any time: what was lent to it stays as it is.
        let may_publish = unquiesced.iter().any(|part| part.object().publishes());
        if may_publish {
            self.may_be_publishing.set(true);
        }
        let (mut ended_ring, mut extents) = (None::<Rc<Ring>>, Vec::new());
        for part in revoked {
            match part.into_object() {
                Leased::Rights(rights) => ended_ring = Some(rights.into_ring()),
                Leased::Extent(extent) if extent.publishes && may_publish => {}
                Leased::Extent(extent) => extents.push(extent),
            }
        }
        if !extents.is_empty() {
            state.cleaner.note_given_back();
        }
        for Extent {
            segment, publishes, ..
        } in extents
        {
            let stamper = match (publishes, &ended_ring) {
                (false, _) => Stamper::Server,
                (true, Some(_)) => Stamper::DeadClient,
                (true, None) => Stamper::Client,
            };
            self.take_over(state, &Returned { segment, stamper });
            state
                .unpersisted
                .extend(state.space.give_back(segment, &*self.log));
        }
        if let Some(ended) = ended_ring.filter(|_| !may_publish) {
            self.drain_intents(state);
            state.rings.retain(|ring| !Rc::ptr_eq(ring, &ended));
        }
    }
}
