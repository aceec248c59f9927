//! Extents of the log that clients write to.
//!
//! A lease opens the rest of one segment to one queue pair through a memory window. It ends when the client gives it back, does not
//! use it where space is short, or is gone; [`end`](super::end) says what becomes of the segment.

use stonecast_base::{Nanoseconds, Span};
use stonecast_fabric::{Access, QueuePair};
use stonecast_log::{SEGMENT_HEADER_UNITS, UNIT_SIZE};
use stonecast_session::{Lease, Lessor, Opening};

use super::Session;
use super::end::ending;
use crate::server::space::{Purpose, Taken};
use crate::server::{Server, State};
use crate::wire::limits::{LEASE_RECLAIM_NS, LEASE_TURN_NS};
use crate::wire::{Answer, Grant, Verdict};

/// The rest of a segment, as one client writes to it.
#[derive(Clone, Copy, Debug)]
pub(in crate::server) struct Extent {
    pub segment: u32,
    /// Whether the client stamps what it writes there.
    pub publishes: bool,
    /// The segment's end when it was last seen that the client goes on, and when that was.
    seen: (u32, Nanoseconds),
}

impl Extent {
    /// Notes how far the client has come. Whether it writes there, or did so lately.
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
        // A client that writes to one extent uses the one that it leased ahead, too: it counts on it.
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
}

impl Server {
    /// Takes leases back that were not used for long, and that space is short for. Their clients lease anew when they write
    /// again. Whether there were any.
    pub(in crate::server) fn reclaim_unused(&self, state: &mut State) -> bool {
        let idle = self.reclaim_rights(&mut state.sessions, LEASE_RECLAIM_NS);
        let State {
            sessions,
            space,
            cleaner,
            ..
        } = state;
        let now = self.runtime.now();
        let mut count = 0;
        for (_, session) in sessions.iter_mut() {
            let unused = session.reclaim_unused(|segment| space.state(segment).end, now);
            if !unused.is_empty() {
                count += unused.len();
                // Each client's for itself: one that stands still in a write keeps no other waiting.
                self.revocations.begin(ending(None, unused));
            }
        }
        let any = count > 0 || !idle.is_empty();
        self.idle_rights.borrow_mut().extend(idle);
        if any {
            cleaner.note_reclaimed(count);
        }
        any
    }

    /// Whether what is leased to clients has room for `units`, or something to clean where all in all there `is_gain`: they use it
    /// up, return it, or lose it after a while. What a client that publishes has used of it is not known yet.
    pub(in crate::server) fn is_room_leased(
        &self,
        state: &State,
        units: u32,
        is_gain: bool,
    ) -> bool {
        state.sessions.leased().any(|extent| {
            state.space.has_worthwhile_room(extent.segment, units)
                || is_gain && state.space.has_dead(extent.segment)
        })
    }

    /// The verdict on a write that is done, to the client of `qp`, in a segment that it leases: others may wait for one.
    pub(in crate::server) fn verdict_on_done(&self, qp: QueuePair, segment: u32) -> Verdict {
        if !self.lease_wanted.get() {
            return Verdict::Done;
        }
        let state = &mut *self.state.borrow_mut();
        let now = self.runtime.now();
        let had_its_turn = |lease: &&mut Lease<Extent>| {
            let extent = lease.object();
            extent.segment == segment && !extent.publishes && lease.held_for(now) >= LEASE_TURN_NS
        };
        let held = state
            .sessions
            .get_mut(qp)
            .map(|session| &mut session.leases);
        let Some(lease) = held.and_then(|leases| leases.held_mut().find(had_its_turn)) else {
            return Verdict::Done;
        };
        // Where it is not returned it is asked for again, not with each answer until then.
        lease.recall(now);
        self.lease_wanted.set(false);
        Verdict::DoneReturn
    }

    /// Gives a client an extent with room for `size` bytes.
    pub(in crate::server) fn grant_lease(
        &self,
        qp: QueuePair,
        size: u32,
        publishes: bool,
    ) -> Answer {
        let refuse = |verdict| Answer::Verdict {
            verdict,
            version: 0,
        };
        let state = &mut *self.state.borrow_mut();
        let may_lease = |session: &&Session| {
            session.staging.is_none() && (!publishes || session.rights.is_some())
        };
        let Some(session) = state.sessions.get(qp).filter(may_lease) else {
            return refuse(Verdict::Invalid);
        };
        // What the client gives back may be behind this request, on its way.
        let Some(slot) = session.leases.free_slot() else {
            return refuse(Verdict::Busy);
        };
        let units = size.div_ceil(UNIT_SIZE as u32);
        if units > self.format.segment_units() - SEGMENT_HEADER_UNITS {
            return refuse(Verdict::Invalid);
        }
        if size == 0 && state.space.is_short() {
            // It is leased ahead: where segments run short, each client has the one that it writes to.
            return refuse(Verdict::Busy);
        }
        let segment = match self.take_segment(state, units) {
            Ok(segment) => segment,
            Err(refusal) => return refusal,
        };
        match self.lease_extent(state, qp, segment, publishes) {
            Ok(lease) => self.hold_lease(state, qp, slot, lease),
            Err(part) => {
                let extent = part.into_unopened();
                let Extent { segment, .. } = extent.expect("its only window was refused");
                let seal = state.space.give_back(segment, &*self.log);
                state.unpersisted.extend(seal);
                refuse(Verdict::Busy)
            }
        }
    }

    /// A segment with room for `units`, its header written; or what to say instead.
    fn take_segment(&self, state: &mut State, units: u32) -> Result<u32, Answer> {
        let refuse = |verdict, version| Err(Answer::Verdict { verdict, version });
        match state.space.take(units, Purpose::Put) {
            Ok(Taken::Segment { number, fresh }) => {
                if fresh {
                    let segment = state.space.state(number);
                    let span = segment.write_header(&*self.log, &self.format);
                    state.unpersisted.push(span);
                }
                Ok(number)
            }
            Ok(Taken::Pending) => refuse(Verdict::Busy, 0),
            Ok(Taken::NoSpace) => {
                let verdict = self.refuse_space(state, units);
                refuse(verdict, state.number_with(verdict))
            }
            Err(error) => {
                self.note_trouble(error);
                state.counters.space_failures += 1;
                refuse(Verdict::SpaceFailed, 0)
            }
        }
    }

    /// Opens the part of a segment that is not written yet, and nothing below.
    fn lease_extent(
        &self,
        state: &mut State,
        qp: QueuePair,
        segment: u32,
        publishes: bool,
    ) -> Result<Lease<Extent>, Lease<Extent>> {
        let (end, now) = (state.space.state(segment).end, self.runtime.now());
        let first = u64::from(end) * UNIT_SIZE;
        let opening = Opening {
            region: self.log_region,
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
            epoch: self.pool.opening().into(),
        };
        let leased = lessor.grant(qp, extent, &[opening], now);
        leased.map_err(|(part, _)| part)
    }

    /// Notes the lease and tells its client.
    fn hold_lease(
        &self,
        state: &mut State,
        qp: QueuePair,
        slot: usize,
        lease: Lease<Extent>,
    ) -> Answer {
        state.cleaner.note_given();
        self.lease_wanted.set(false);
        let Extent {
            segment, publishes, ..
        } = *lease.object();
        if publishes {
            state.space.lend(segment);
        }
        let rkey = lease.windows()[0];
        let session = state.sessions.get_mut(qp).expect("it asks");
        session.leases.hold(slot, lease);
        let of = state.space.state(segment);
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

    /// What to say of a record that breaks the rules, written to `slot`. A lease that was taken back because it was not used
    /// for long, by this machine's clock, is no fault of the client: its clock may say otherwise.
    pub(in crate::server) fn verdict_on_stray(&self, qp: QueuePair, slot: u8) -> Verdict {
        let state = self.state.borrow();
        let session = state.sessions.get(qp);
        if session.is_some_and(|session| session.leases.is_reclaimed(slot.into())) {
            Verdict::Busy
        } else {
            Verdict::Invalid
        }
    }

    /// Ends a lease that the client gives back.
    pub(in crate::server) fn release(&self, qp: QueuePair, slot: u8) {
        let state = &mut *self.state.borrow_mut();
        let returned = state
            .sessions
            .get_mut(qp)
            .and_then(|session| session.leases.give_back(slot.into()));
        if let Some(lease) = returned {
            self.revocations.begin(ending(None, [lease]));
        }
    }
}
