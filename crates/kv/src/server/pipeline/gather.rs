//! Takes arrivals into a batch.

use std::rc::Rc;

use stonecast_base::Span;
use stonecast_fabric::{
    DeviceError, Opcode, Port, QueuePair, ReceiveQueue, ReceiveRequest, Received, Status,
};
use stonecast_log::{STAMP_SIZE, UNIT_SIZE};
use stonecast_media::Region;
use stonecast_session::ReceiveBuffers;

use super::batch::{Item, Owed, RequestBatch};
use super::bundle::take::take_bundle;
use super::{records, requests};
use crate::server::clients::{Receives, Sessions};
use crate::server::report::Reporter;
use crate::server::state::State;
use crate::wire::limits::{BATCH_BYTES_MAX, BATCH_MAX};
use crate::wire::{Verdict, brings_batch, split_immediate};

/// Bytes of a record that are prefetched; the processor fetches the rest of a longer record by itself.
const PREFETCHED_MAX: u64 = 1024;
/// Receive buffers that are posted again with one doorbell: a small part of all.
const REPOSTED_TOGETHER: usize = 64;

/// Owns the receive buffers between two uses.
pub(super) struct Gather {
    port: Rc<Port>,
    receives: Receives,
    reporter: Rc<Reporter>,
    arrivals: Vec<Received>,
    /// Shared receive buffers that are free and not posted, kept from one batch to the next.
    reposts: Vec<ReceiveRequest>,
    message: Vec<u8>,
}

impl Gather {
    pub fn new(port: Rc<Port>, receives: Receives, reporter: Rc<Reporter>) -> Self {
        Self {
            port,
            receives,
            reporter,
            arrivals: Vec::new(),
            reposts: Vec::new(),
            message: Vec::new(),
        }
    }

    /// Takes back the shared buffers of messages that were not taken before their connection ended.
    pub fn take_buffers_back(&mut self, untaken: &[Received]) {
        if let Some(buffers) = self.receives.shared_buffers() {
            let requests = untaken.iter().map(|arrival| buffers.request(arrival.wr_id));
            self.reposts.extend(requests);
        }
    }

    /// Takes arrivals into `batch`, up to its bounds. Returns whether there were any.
    pub fn gather(&mut self, state: &mut State, batch: &mut RequestBatch) -> bool {
        let mut arrivals = std::mem::take(&mut self.arrivals);
        arrivals.clear();
        let mut bytes = batch.bytes.len();
        while batch.items.len() + arrivals.len() < BATCH_MAX && bytes < BATCH_BYTES_MAX {
            let Some(arrival) = self.port.take_received() else {
                break;
            };
            bytes += arrival.placement.size as usize;
            if let Some(buffers) = self.receives.shared_buffers() {
                self.reposts.push(buffers.request(arrival.wr_id));
            }
            if arrival.status == Status::Success {
                self.prefetch_record(state, &arrival);
                arrivals.push(arrival);
            }
        }
        for arrival in &arrivals {
            self.take_arrival(state, batch, arrival);
        }
        self.repost_own(&state.clients.sessions, &arrivals);
        self.arrivals = arrivals;
        !self.arrivals.is_empty()
    }

    /// Prefetches a record. A record that a client has just written lies in the cache of the client's processor, or
    /// comes from a NIC, so all records of a batch are prefetched before the first one is read.
    fn prefetch_record(&self, state: &State, arrival: &Received) {
        if arrival.opcode != Opcode::ReceiveWriteWithImmediate {
            return;
        }
        let (slot, unit) = split_immediate(arrival.immediate);
        let size = STAMP_SIZE as u64 + u64::from(arrival.placement.size);
        let Some(session) = state.clients.sessions.get(arrival.qp) else {
            return;
        };
        let prefetch = |memory: &dyn Region, position: u64| {
            if Span::new(position, size).fits(memory.size()) {
                memory.prefetch(position, size.min(PREFETCHED_MAX));
            }
        };
        match (&session.staging, session.leases.get(usize::from(slot))) {
            (Some(staging), _) => prefetch(&*staging.memory, u64::from(unit) * UNIT_SIZE),
            (None, Some(lease)) => {
                let format = state.journal.format();
                prefetch(
                    &**state.journal.log(),
                    format.position(lease.object().segment, unit),
                );
            }
            (None, None) => {}
        }
    }

    fn take_arrival(&mut self, state: &mut State, batch: &mut RequestBatch, arrival: &Received) {
        let qp = arrival.qp;
        let State {
            clients,
            journal,
            shards,
            ..
        } = state;
        let Some(session) = clients.sessions.get(qp) else {
            return;
        };
        let path = session.path;
        let owed = match arrival.opcode {
            Opcode::ReceiveWriteWithImmediate => {
                match records::take_record((session, journal, shards), batch, arrival) {
                    Some(carrier) if brings_batch(arrival.immediate) => {
                        take_bundle(state, batch, qp, &carrier)
                    }
                    Some(write) => {
                        let refused = state.shards.refusal(write.route.shard, write.on_node.term);
                        match refused.or_else(|| requests::refusal_of_features(state, &write)) {
                            Some(refused) => Owed::Answer(refused),
                            None => batch.push(write),
                        }
                    }
                    None => {
                        let (slot, _) = split_immediate(arrival.immediate);
                        let sessions = &state.clients.sessions;
                        Owed::Answer(sessions.verdict_on_stray(qp, slot).into())
                    }
                }
            }
            _ => match self.buffers_of(&state.clients.sessions, qp) {
                Some(buffers) => {
                    buffers.copy_out(&**self.port.device(), arrival, &mut self.message);
                    requests::take_message(state, &self.reporter, batch, qp, &self.message)
                }
                None => Owed::Answer(Verdict::Invalid.into()),
            },
        };
        batch.items.push(Item { qp, path, owed });
    }

    /// The receive buffers of the client of `qp`, if it is connected.
    fn buffers_of(&self, sessions: &Sessions, qp: QueuePair) -> Option<ReceiveBuffers> {
        match self.receives.shared_buffers() {
            Some(buffers) => Some(buffers),
            None => sessions.get(qp)?.receives,
        }
    }

    /// Posts again the clients' own buffers whose messages were taken over and are not answered
    /// yet.
    fn repost_own(&self, sessions: &Sessions, arrivals: &[Received]) {
        if self.receives.shared_buffers().is_some() {
            return;
        }
        for run in arrivals.chunk_by(|one, next| one.qp == next.qp) {
            let qp = run[0].qp;
            let Some(buffers) = self.buffers_of(sessions, qp) else {
                continue;
            };
            let requests: Vec<ReceiveRequest> = run
                .iter()
                .map(|arrival| buffers.request(arrival.wr_id))
                .collect();
            // A queue pair refuses buffers when its connection has ended; the event of that end follows.
            let _ = self
                .port
                .device()
                .post_receive(ReceiveQueue::Own(qp), &requests);
        }
    }

    /// Posts free shared receive buffers again if there are enough for a doorbell.
    pub fn repost_many(&mut self) -> Result<(), DeviceError> {
        match self.reposts.len() >= REPOSTED_TOGETHER {
            true => self.repost(),
            false => Ok(()),
        }
    }

    /// Posts all free shared receive buffers again.
    pub fn repost(&mut self) -> Result<(), DeviceError> {
        if let Some(queue) = self.receives.shared_queue() {
            let device = self.port.device();
            device.post_receive(ReceiveQueue::Shared(queue), &self.reposts)?;
        }
        self.reposts.clear();
        Ok(())
    }
}
