//! Turns reports of the NIC, its device and the control plane into completions and events.

use stonecast_fabric::{DisconnectCause, Opcode, Placement, QueuePair, Status, WorkCompletion};

use super::completions::{WorkId, arrival_of, status_of};
use super::queue_pair::{Phase, Posted, completion, opcode_of};
use super::{State, quirks};
use crate::control::EndCause;
use crate::verbs::completion::RawCompletion;
use crate::verbs::event::{DeviceEvent, next_event};

/// Polls between two checks of the device's events: each check is a system call, and the events also show in failed
/// completions.
const POLLS_PER_EVENT_LOOK: u32 = 8192;
/// Completions taken from the NIC in one go when a program asks for few.
const TAKE_AHEAD: usize = 32;

impl State {
    /// Makes all possible progress besides the completion queues.
    pub(super) fn progress(&mut self) {
        if self.control.has_events() {
            self.hear_control();
        }
        self.collecting.polls += 1;
        if self.collecting.polls >= POLLS_PER_EVENT_LOOK {
            self.collecting.polls = 0;
            self.hear_device();
        }
    }

    /// Takes the events of the device.
    pub(super) fn hear_device(&mut self) {
        while let Some(event) = next_event(&self.hardware.context) {
            match event {
                DeviceEvent::CompletionQueueOverrun(cq) => self.fail_all(|state, handle| {
                    let options = state.qps.get(handle).map(|qp| qp.options);
                    options
                        .is_ok_and(|options| options.send_cq.0 == cq || options.receive_cq.0 == cq)
                }),
                DeviceEvent::QueuePairFailed(number) => {
                    if let Some(&handle) = self.connections.by_number.get(&number) {
                        self.fail(handle, DisconnectCause::QueuePairError, true);
                    }
                }
                DeviceEvent::LastReceive(number) => {
                    if let Some(&handle) = self.connections.by_number.get(&number)
                        && let Ok(qp) = self.qps.get_mut(handle)
                    {
                        qp.has_last_receive = true;
                    }
                }
                DeviceEvent::DeviceGone => self.fail_all(|_, _| true),
                DeviceEvent::Other => {}
            }
        }
    }

    fn fail_all(&mut self, concerned: impl Fn(&Self, u32) -> bool) {
        let handles: Vec<u32> = self.qps.iter().map(|(handle, _)| handle).collect();
        for handle in handles {
            if concerned(self, handle) {
                self.fail(handle, DisconnectCause::QueuePairError, true);
            }
        }
    }

    /// Ends the connection of a queue pair, once. `tell`: whether the peer must still be told.
    pub(super) fn fail(&mut self, handle: u32, cause: DisconnectCause, tell: bool) {
        let Ok(qp) = self.qps.get_mut(handle) else {
            return;
        };
        let Some(link) = qp.link() else { return };
        let was_known = matches!(qp.phase, Phase::Accepted(_) | Phase::Connected(_));
        qp.phase = Phase::Failed;
        for request in std::mem::take(&mut qp.early) {
            let (wr_id, opcode) = (request.wr_id, opcode_of(&request.operation));
            qp.sends.keep(Posted {
                wr_id,
                opcode,
                signalled: request.signalled,
                outside: false,
            });
        }
        // Outstanding requests complete with an error, and no request of the peer is executed. A queue pair that is
        // already in the error state enters it again, which makes its queues notice later requests.
        let _ = qp.hardware.fail();
        self.connections.by_link.remove(&link);
        if tell {
            let cause = if cause == DisconnectCause::QueuePairError {
                EndCause::QueuePairError
            } else {
                EndCause::Requested
            };
            self.control.hang_up(link, cause);
        }
        if was_known {
            self.connections
                .events
                .push_back(stonecast_fabric::ConnectionEvent::Disconnected {
                    qp: QueuePair(handle),
                    cause,
                });
        }
        self.flush_kept(handle);
    }

    /// Returns the requests posted after the failure to the program, in their turn.
    pub(super) fn flush_kept(&mut self, handle: u32) {
        let Ok(qp) = self.qps.get_mut(handle) else {
            return;
        };
        let (sends, receives) = qp.flush_kept(handle);
        let options = qp.options;
        if let Ok(cq) = self.cqs.get_mut(options.send_cq.0) {
            cq.taken.extend(sends);
        }
        if let Ok(cq) = self.cqs.get_mut(options.receive_cq.0) {
            cq.taken.extend(receives);
        }
    }

    /// Completions for the program, at most `limit`.
    pub(super) fn take_completions(
        &mut self,
        cq: u32,
        limit: usize,
        into: &mut Vec<WorkCompletion>,
    ) -> usize {
        self.collect(cq, limit.min(TAKE_AHEAD));
        let Ok(queue) = self.cqs.get_mut(cq) else {
            return 0;
        };
        let count = queue.taken.len().min(limit);
        into.extend(queue.taken.drain(..count));
        count
    }

    /// Takes completions from the NIC until there are `enough` for the program. Returns whether a binding succeeded, if
    /// one completed.
    pub(super) fn collect(&mut self, cq: u32, enough: usize) -> Option<bool> {
        let mut bound = None;
        loop {
            let Ok(queue) = self.cqs.get(cq) else {
                return bound;
            };
            let missing = enough.saturating_sub(queue.taken.len()).min(TAKE_AHEAD);
            if missing == 0 {
                return bound;
            }
            let hardware = queue.hardware.clone();
            let mut batch = std::mem::take(&mut self.collecting.raw);
            // An error of the call itself means that the device is gone, which its event reports.
            let polled = hardware.poll(missing, |raw| batch.push(raw));
            for raw in batch.drain(..) {
                bound = self.take(cq, raw).or(bound);
            }
            self.collecting.raw = batch;
            let Ok(count) = polled else { return bound };
            if count < missing || bound.is_some() {
                return bound;
            }
        }
    }

    /// Takes a completion of the NIC. Returns whether a binding succeeded, if it was one.
    pub(super) fn take(&mut self, cq: u32, raw: RawCompletion) -> Option<bool> {
        match WorkId::decode(raw.wr_id) {
            WorkId::Send(position) => self.sent(cq, position, raw),
            WorkId::Receive(position) => self.received(cq, position, raw),
            WorkId::Shared(queue, slot) => self.received_shared(cq, queue, slot, raw),
            WorkId::Binding => return Some(status_of(raw.status) == Status::Success),
        }
        None
    }

    /// Completes a send, and with it the unsignalled sends before it.
    fn sent(&mut self, cq: u32, position: u64, raw: RawCompletion) {
        let Some(&handle) = self.connections.by_number.get(&raw.qp_number) else {
            return;
        };
        let Ok(qp) = self.qps.get_mut(handle) else {
            return;
        };
        let (_, done) = qp.sends.complete(position);
        let Some(posted) = done else { return };
        let status = quirks::status_of_send(
            status_of(raw.status),
            &posted,
            qp.phase == Phase::Failed,
            &self.hardware.facts,
        );
        if (status != Status::Success || posted.signalled)
            && let Ok(queue) = self.cqs.get_mut(cq)
        {
            queue
                .taken
                .push_back(completion(handle, posted.wr_id, status, posted.opcode));
        }
        self.after(handle, status);
    }

    fn received(&mut self, cq: u32, position: u64, raw: RawCompletion) {
        let Some(&handle) = self.connections.by_number.get(&raw.qp_number) else {
            return;
        };
        let Ok(qp) = self.qps.get_mut(handle) else {
            return;
        };
        let (_, done) = qp.receives.complete(position);
        let Some(buffer) = done else { return };
        self.arrived(cq, handle, buffer.wr_id, raw);
    }

    fn received_shared(&mut self, cq: u32, queue: u32, slot: u32, raw: RawCompletion) {
        let Ok(srq) = self.srqs.get_mut(queue) else {
            return;
        };
        let handle = self.connections.by_number.get(&raw.qp_number).copied();
        if quirks::takes_no_buffer(status_of(raw.status)) && srq.post_again(slot) {
            if let Some(handle) = handle {
                self.after(handle, Status::WorkRequestFlushed);
            }
            return;
        }
        let Some(wr_id) = srq.take(slot) else { return };
        if let Some(handle) = handle {
            self.arrived(cq, handle, wr_id, raw);
        }
    }

    fn arrived(&mut self, cq: u32, handle: u32, wr_id: u64, raw: RawCompletion) {
        let status = quirks::status_of_receive(raw.status, &self.hardware.facts);
        let found = if status == Status::Success {
            let opcode = arrival_of(raw.opcode);
            let immediate = if opcode == Opcode::ReceiveWriteWithImmediate {
                raw.immediate
            } else {
                0
            };
            let placement = Placement {
                offset: 0,
                size: raw.byte_count,
            };
            WorkCompletion {
                immediate,
                placement,
                ..completion(handle, wr_id, status, opcode)
            }
        } else {
            completion(handle, wr_id, status, Opcode::Receive)
        };
        if let Ok(queue) = self.cqs.get_mut(cq) {
            queue.taken.push_back(found);
        }
        self.after(handle, status);
    }

    /// Acts on a completion: a failed one ends the connection, and any may make room for the entries that wait behind
    /// it.
    fn after(&mut self, handle: u32, status: Status) {
        if status != Status::Success {
            self.fail(handle, DisconnectCause::QueuePairError, true);
        }
        self.flush_kept(handle);
    }
}
