//! Extents of the log to which clients write.
//!
//! A lease opens the rest of one segment to one queue pair through a memory window. The lease ends when the client
//! gives it back, leaves it unused while space is short, or is gone. [`end`](super::end) then decides about the
//! segment.

use std::rc::Rc;

use stonecast_base::{Nanoseconds, Span};
use stonecast_fabric::{Access, MemoryRegion, Port, QueuePair, Runtime};
use stonecast_log::{LogFormat, UNIT_SIZE};
use stonecast_session::{Lease, Lessor, Opening};

use super::end::Departures;
use super::extent::Extent;
use super::sessions::{Session, Sessions};
use crate::server::space::Space;
use crate::wire::Verdict;
use crate::wire::limits::LEASE_TURN_NS;

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
    pub(super) fn may_lease(&self, publishes: bool) -> bool {
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
    pub(super) fn open(
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
