//! Extents of the log to which clients write.
//!
//! A lease opens the rest of one segment to one queue pair through a memory window. The lease ends when the client
//! gives it back, leaves it unused while space is short, or is gone. [`end`](super::end) then decides about the
//! segment.

use std::rc::Rc;

use stonecast_base::{Nanoseconds, Span};
use stonecast_fabric::{Access, MemoryRegion, Port, QueuePair, Runtime};
use stonecast_log::{LogFormat, SEGMENT_HEADER_UNITS, UNIT_SIZE};
use stonecast_session::{Lease, Lessor, Opening};

use super::{Departures, Session, Sessions};
use crate::server::State;
use crate::server::journal::NoSegment;
use crate::server::shortage::refuse_space;
use crate::server::space::Space;
use crate::wire::limits::{LEASE_RECLAIM_NS, LEASE_TURN_NS};
use crate::wire::{Answer, Grant, Verdict};

/// The rest of a segment, to which one client writes.
#[derive(Clone, Copy, Debug)]
pub(in crate::server) struct Extent {
    pub segment: u32,
    /// Whether the client stamps the records that it writes there.
    pub publishes: bool,
    /// The segment's end when the client last advanced, and that time.
    seen: (u32, Nanoseconds),
}

impl Extent {
    /// Notes the segment's end. Returns whether the client has written there lately.
    fn is_used(&mut self, end: u32, now: Nanoseconds) -> bool {
        if end != self.seen.0 {
            self.seen = (end, now);
        }
        now.saturating_sub(self.seen.1) < LEASE_RECLAIM_NS
    }
}

impl Session {
    /// Takes the leases of a client that writes to none of its extents.
    fn reclaim_unused(
        &mut self,
        mut end_of: impl FnMut(u32) -> u32,
        now: Nanoseconds,
    ) -> Vec<Lease<Extent>> {
        // A client that writes to one extent also uses the extent that it leased ahead, since the client relies on it.
        let mut is_used = false;
        for lease in self.leases.held_mut() {
            let extent = lease.object_mut();
            if !extent.publishes {
                is_used |= extent.is_used(end_of(extent.segment), now);
            }
        }
        self.leases
            .reclaim(|lease| !is_used && !lease.object().publishes)
    }

    /// Whether the client may lease extents; with `publishes`, to stamp its own records there.
    fn may_lease(&self, publishes: bool) -> bool {
        self.staging.is_none() && (!publishes || self.rights.is_some())
    }
}

/// Leases extents to clients, and recalls leases.
pub(in crate::server) struct Lender {
    port: Rc<Port>,
    runtime: Rc<dyn Runtime>,
    /// The memory of the log. Each window opens a part to one client.
    log: MemoryRegion,
    format: LogFormat,
    /// The epoch of all leases: the opening of the pool.
    epoch: u64,
    /// Whether a client waits for room that is leased to others. The next client that writes to a lease is asked to
    /// return that lease.
    is_wanted: bool,
}

impl Lender {
    pub fn new(
        (port, runtime): (Rc<Port>, Rc<dyn Runtime>),
        log: MemoryRegion,
        format: LogFormat,
        epoch: u64,
    ) -> Self {
        Self {
            port,
            runtime,
            log,
            format,
            epoch,
            is_wanted: false,
        }
    }

    /// Notes that a writer waits for leased room.
    pub fn ask_back(&mut self) {
        self.is_wanted = true;
    }

    /// Notes that an appender was given a segment, so no writer waits.
    pub fn note_given(&mut self) {
        self.is_wanted = false;
    }

    /// Opens the unwritten part of a segment, from unit `end` on, and nothing below.
    fn open(
        &self,
        qp: QueuePair,
        (segment, end): (u32, u32),
        publishes: bool,
    ) -> Result<Lease<Extent>, Lease<Extent>> {
        let now = self.runtime.now();
        let first = u64::from(end) * UNIT_SIZE;
        let opening = Opening {
            region: self.log,
            span: Span::new(
                self.format.position(segment, 0) + first,
                self.format.segment_size - first,
            ),
            access: Access::REMOTE_WRITE,
        };
        let extent = Extent {
            segment,
            publishes,
            seen: (end, now),
        };
        let lessor = Lessor {
            port: &self.port,
            epoch: self.epoch,
        };
        let leased = lessor.grant(qp, extent, &[opening], now);
        leased.map_err(|(part, _)| part)
    }

    /// The verdict on a write that is done, in a segment leased to the client of `qp`. The verdict recalls the lease if
    /// other clients wait for room.
    pub fn verdict_on_done(
        &mut self,
        sessions: &mut Sessions,
        qp: QueuePair,
        segment: u32,
    ) -> Verdict {
        if !self.is_wanted {
            return Verdict::Done;
        }
        let now = self.runtime.now();
        let had_its_turn = |lease: &&mut Lease<Extent>| {
            let extent = lease.object();
            extent.segment == segment && !extent.publishes && lease.held_for(now) >= LEASE_TURN_NS
        };
        let held = sessions.get_mut(qp).map(|session| &mut session.leases);
        let Some(lease) = held.and_then(|leases| leases.held_mut().find(had_its_turn)) else {
            return Verdict::Done;
        };
        // A lease that is not returned is recalled again later, not with each answer until then.
        lease.recall(now);
        self.is_wanted = false;
        Verdict::DoneReturn
    }

    /// Reclaims leases that were unused for long. Returns their number.
    pub fn reclaim_unused(
        &self,
        sessions: &mut Sessions,
        space: &mut Space,
        departures: &Departures,
    ) -> usize {
        let now = self.runtime.now();
        let mut count = 0;
        for (_, session) in sessions.iter_mut() {
            let unused = session.reclaim_unused(|segment| space.state(segment).end, now);
            if !unused.is_empty() {
                count += unused.len();
                // The leases of each client end separately, so that a client that was stopped in a write delays no
                // other client.
                departures.end_extents(unused);
            }
        }
        count
    }
}

impl Sessions {
    /// Whether extents leased to clients have room for `units`, or, if cleaning gains a segment in total (`is_gain`),
    /// dead records to clean: clients use extents up, return them, or lose them after a while. The server does not know
    /// yet how much of its extent a publishing client has used.
    pub fn lease_room(&self, space: &Space, units: u32, is_gain: bool) -> bool {
        self.leased().any(|extent| {
            space.has_worthwhile_room(extent.segment, units)
                || is_gain && space.has_dead(extent.segment)
        })
    }

    /// The answer to an invalid record, written to `slot`. A client is not at fault if its lease was taken back after a
    /// long time without use: the time was measured by this machine's clock, and the client's clock may differ.
    pub fn verdict_on_stray(&self, qp: QueuePair, slot: u8) -> Verdict {
        let is_reclaimed = |session: &Session| session.leases.is_reclaimed(slot.into());
        match self.get(qp).is_some_and(is_reclaimed) {
            true => Verdict::Busy,
            false => Verdict::Invalid,
        }
    }

    /// The lease in `slot` that the client of `qp` gives back.
    pub fn give_back(&mut self, qp: QueuePair, slot: u8) -> Option<Lease<Extent>> {
        self.get_mut(qp)?.leases.give_back(slot.into())
    }
}

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
    // The return of another extent may be on its way, behind this request.
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
