//! Grants of extents to write to, and of rights to publish, as far as log and index allow them.

use stonecast_fabric::QueuePair;
use stonecast_log::{SEGMENT_HEADER_UNITS, UNIT_SIZE};
use stonecast_session::Lease;

use super::Clients;
use super::extent::Extent;
use crate::server::journal::NoSegment;
use crate::server::shortage::refuse_space;
use crate::server::state::State;
use crate::wire::{Answer, Grant, Verdict};

/// Gives a client an extent with room for `size` bytes.
pub(in crate::server) fn grant_lease(
    state: &mut State,
    qp: QueuePair,
    size: u32,
    publishes: bool,
) -> Answer {
    let sessions = &state.clients.sessions;
    let session = sessions.get(qp);
    let Some(session) = session.filter(|session| session.may_lease(publishes)) else {
        return Verdict::Invalid.into();
    };
    // The return of another extent may be on its way, after this request.
    let Some(slot) = session.leases.free_slot() else {
        return Verdict::Busy.into();
    };
    let units = size.div_ceil(UNIT_SIZE as u32);
    if units > state.journal.format().segment_units() - SEGMENT_HEADER_UNITS {
        return Verdict::Invalid.into();
    }
    if size == 0 && state.journal.space.is_short() {
        // The extent is leased ahead. If segments run short, each client has only the extent to which it writes.
        return Verdict::Busy.into();
    }
    let segment = match state.journal.take_for_client(units) {
        Ok(segment) => segment,
        Err(NoSegment::Pending) => return Verdict::Busy.into(),
        Err(NoSegment::Failed) => return Verdict::SpaceFailed.into(),
        Err(NoSegment::NoSpace) => {
            let verdict = refuse_space(state, units);
            let version = state.shards.number_with(verdict);
            return Answer::Verdict { verdict, version };
        }
    };
    let (end, _) = state.journal.end(segment);
    match state.clients.lender.open(qp, (segment, end), publishes) {
        Ok(lease) => hold_lease(state, qp, slot, lease),
        Err(part) => {
            let extent = part.into_unopened();
            let Extent { segment, .. } = extent.expect("its only window was refused");
            state.journal.give_back(segment);
            Verdict::Busy.into()
        }
    }
}

/// Notes the lease, and returns the answer for its client.
fn hold_lease(state: &mut State, qp: QueuePair, slot: usize, lease: Lease<Extent>) -> Answer {
    state.note_given();
    let Extent {
        segment, publishes, ..
    } = *lease.object();
    let space = &mut state.journal.space;
    if publishes {
        space.lend(segment);
    }
    let rkey = lease.windows()[0];
    let session = state.clients.sessions.get_mut(qp).expect("it asks");
    session.leases.hold(slot, lease);
    let of = space.state(segment);
    Answer::Lease(Grant {
        slot: slot as u8,
        segment,
        generation: of.generation,
        start: of.end,
        last: of.last,
        durable: of.durable,
        rkey: rkey.0,
    })
}

/// Gives the client of `qp` new rights to publish, in place of earlier ones.
pub(in crate::server) fn grant_rights(state: &mut State, qp: QueuePair) -> Answer {
    state.clients.end_rights(qp);
    let Clients {
        sessions,
        publishing,
        departures,
        ..
    } = &mut state.clients;
    let session = sessions.get_mut(qp);
    let session = session.filter(|session| session.staging.is_none());
    let (Some(counter), Some(session)) = (publishing.counter, session) else {
        return Verdict::Invalid.into();
    };
    if !state.shards.published().index().may_be_published() {
        return Verdict::Busy.into();
    }
    let opened = (state.shards.published().table(), counter);
    match publishing.grant((qp, session.path), opened, &state.journal.sequences) {
        Ok((lease, granted)) => {
            session.rights = Some(lease);
            Answer::Rights(granted)
        }
        Err(part) => {
            part.into_iter()
                .for_each(|part| departures.end_unheld(part));
            Verdict::Busy.into()
        }
    }
}
