//! Send queues: posting, transmission, completion in order.

use stonecast_fabric::{
    Capabilities, DeviceError, DisconnectCause, Operation, QueuePair, Status, WorkRequest,
};

use super::completion::{completion, opcode};
use super::message::Route;
use super::queue_pair::Posted;
use super::{Net, Qp, Stage, is_non_posted, local_span};
use crate::faults::{Fault, Place};
use crate::machine::Transport;
use crate::profile::MachineProfile;
use crate::queue::Event;

impl Net {
    /// The queue pair that `context` calls `qp`.
    pub fn own_qp(&mut self, context: u32, qp: QueuePair) -> Result<&mut Qp, DeviceError> {
        let missing = DeviceError::NoSuch {
            what: "queue pair",
            index: u64::from(qp.0),
        };
        self.qp(qp.0)
            .filter(|qp| qp.context == context)
            .ok_or(missing)
    }

    /// Takes a batch, which the NIC notices at `doorbell`.
    pub fn post_send(
        &mut self,
        context: u32,
        qp: QueuePair,
        requests: &[WorkRequest],
        doorbell: stonecast_base::Nanoseconds,
    ) -> Result<(), DeviceError> {
        let capabilities = self.contexts[context as usize].capabilities.clone();
        requests
            .iter()
            .try_for_each(|request| check(&capabilities, &request.operation))?;
        let state = self.own_qp(context, qp)?;
        if matches!(state.connection.stage, Stage::Idle | Stage::Connecting) {
            return Err(DeviceError::Malformed {
                reason: "the queue pair is not connected",
            });
        }
        let capacity = state.options.send_capacity;
        if state.sends.entries.len() + requests.len() > capacity as usize {
            return Err(DeviceError::QueueFull { capacity });
        }
        // Only several outstanding requests make a cascade.
        let outstanding = state
            .sends
            .entries
            .iter()
            .filter(|posted| posted.status.is_none())
            .count()
            + requests.len();
        let connected = state.connection.stage == Stage::Connected;
        let breaks = outstanding > 1
            && connected
            && self
                .faults
                .strikes(Fault::FlushCascade, self.place_of(context));
        let state = self.own_qp(context, qp)?;
        let failed = state.connection.stage == Stage::Failed;
        let status = failed.then_some(Status::WorkRequestFlushed);
        state
            .sends
            .entries
            .extend(requests.iter().map(|&request| Posted {
                request,
                status,
                refusals: 0,
            }));
        if failed {
            self.retire(qp.0);
        } else if breaks {
            self.faults.hit(Fault::FlushCascade);
            self.fail(
                qp.0,
                DisconnectCause::QueuePairError,
                Status::RemoteOperation,
            );
        } else {
            self.time.push(doorbell, Event::Doorbell(qp.0));
        }
        Ok(())
    }

    /// Sends every message that may be sent.
    pub fn transmit(&mut self, number: u32) {
        while self.transmit_one(number).is_some() {}
    }

    /// Sends one message; `None` if none can be sent at this moment.
    fn transmit_one(&mut self, number: u32) -> Option<()> {
        let now = self.time.now();
        let qp = self.qps.get(number as usize)?.as_deref()?;
        if qp.connection.stage != Stage::Connected || qp.sends.held {
            return None;
        }
        let (context, sequence, turn) = (qp.context, qp.sends.next, qp.sends.turn);
        let request = qp
            .sends
            .entries
            .get((sequence - qp.sends.base) as usize)?
            .request;
        let non_posted = is_non_posted(&request.operation);
        // A profile with its sources is large: its numbers are looked up instead of copied for each message.
        let &MachineProfile {
            nic_non_posted_max,
            nic_inline_bytes,
            pcie_read_ns,
            pcie_write_ns,
            ..
        } = self.profile_of(context);
        if request.fence && qp.sends.non_posted > 0
            || non_posted && qp.sends.non_posted >= nic_non_posted_max
        {
            return None;
        }
        let peer = qp
            .connection
            .peer
            .expect("a connected queue pair has a peer");
        let to = self.qps[peer as usize]
            .as_ref()
            .map_or(context, |peer| peer.context);
        let message = self.messages.add(
            Route {
                from: number,
                to: peer,
                sequence,
                turn,
            },
            request.operation,
        );
        if !self.fetch(context, message) {
            self.messages.release(message);
            let qp = self.qp(number).expect("just looked up");
            qp.sends.held = true;
            qp.sends.entries[(sequence - qp.sends.base) as usize].status =
                Some(Status::LocalProtection);
            self.retire(number);
            return None;
        }
        let qp = self.qp(number).expect("just looked up");
        qp.sends.next += 1;
        qp.sends.non_posted += u64::from(non_posted);
        let size = self.messages[message].payload.len() as u64;
        let fetched = if size > nic_inline_bytes {
            now + pcie_read_ns
        } else {
            now
        };
        let (machine, target) = (self.machine_of(context), self.machine_of(to));
        let leaves = fetched + self.nics.outbound_stall(machine);
        let sent = self.nics.depart(machine, leaves, size);
        let arrival = sent + self.nics.travel(machine, target);
        let lost = self
            .faults
            .strikes(Fault::ErrorNotExecuted, Place::Link(machine, target));
        let passage = if lost {
            None
        } else {
            self.nics.passage(machine, target, sent, arrival)
        };
        let Some(arrival) = passage else {
            if lost {
                self.faults.hit(Fault::ErrorNotExecuted);
            }
            // Later messages do not get through either: messages of a queue pair arrive in order or not at all.
            self.qp(number).expect("just looked up").sends.held = true;
            self.give_up_later(message);
            return None;
        };
        let qp = self.qp(number).expect("just looked up");
        qp.sends.last_arrival = qp.sends.last_arrival.max(arrival);
        let arrival = qp.sends.last_arrival;
        self.time.push(arrival, Event::Arrive(message));
        if !non_posted && self.transport_of(context) == Transport::Iwarp {
            self.messages.retain(message);
            self.time
                .push(fetched + pcie_write_ns, Event::Acknowledge(message));
        }
        Some(())
    }

    /// Copies the local bytes of a message; false if they do not exist, or if there is no room for its result.
    fn fetch(&mut self, context: u32, index: u32) -> bool {
        let operation = self.messages[index].operation;
        let Some(span) = local_span(&operation) else {
            return true;
        };
        let mut payload = std::mem::take(&mut self.messages[index].payload);
        let local = self.local(context, span);
        if let Some(local) = local
            && !is_non_posted(&operation)
        {
            payload.resize(span.size as usize, 0);
            local.memory.read(span.offset, &mut payload);
        }
        let sound = local.is_some();
        self.messages[index].payload = payload;
        sound
    }

    /// Handles the answer to a message.
    pub fn acknowledge(&mut self, index: u32) {
        let message = &self.messages[index];
        let (number, sequence, status, not_ready) = (
            message.route.from,
            message.route.sequence,
            message.answer.status,
            message.answer.not_ready,
        );
        let operation = message.operation;
        let now = self.time.now();
        let waits = self.qp(number).and_then(|qp| qp.sends.waiting(sequence));
        // After a failure of the queue pair, nothing waits for the answer.
        let Some(position) = waits else {
            return self.messages.release(index);
        };
        if not_ready {
            self.messages.release(index);
            return self.retry_later(number, position, sequence, now);
        }
        let mut status = status;
        if status == Status::Success && is_non_posted(&operation) && !self.bring_back(number, index)
        {
            status = Status::LocalProtection;
        }
        let qp = self.qp(number).expect("just looked up");
        qp.sends.entries[position].status = Some(status);
        qp.sends.non_posted -= u64::from(is_non_posted(&operation));
        qp.sends.held |= status != Status::Success;
        self.messages.release(index);
        self.retire(number);
        self.transmit(number);
    }

    /// Writes the result of a READ or an atomic; false if its local memory is gone.
    fn bring_back(&mut self, number: u32, index: u32) -> bool {
        let message = &self.messages[index];
        let Some(span) = local_span(&message.operation) else {
            return true;
        };
        let context = self.qps[number as usize]
            .as_ref()
            .expect("just looked up")
            .context;
        let Some(local) = self.local(context, span) else {
            return false;
        };
        local.memory.write(span.offset, &message.payload);
        true
    }

    fn retry_later(
        &mut self,
        number: u32,
        position: usize,
        sequence: u64,
        now: stonecast_base::Nanoseconds,
    ) {
        let qp = self.qp(number).expect("just looked up");
        let posted = &mut qp.sends.entries[position];
        posted.refusals += 1;
        if posted.refusals > qp.options.rnr_retry_count {
            posted.status = Some(Status::RnrRetryExceeded);
            return self.retire(number);
        }
        qp.sends.next = sequence;
        let at = now + qp.options.rnr_retry_delay_ns;
        self.time.push(at, Event::Retry(number));
    }

    /// Retries after the pause that follows a refusal.
    pub fn retry(&mut self, number: u32) {
        if let Some(qp) = self.qp(number) {
            qp.sends.held = false;
            self.transmit(number);
        }
    }

    /// Voids the messages of `number` in transit from `sequence` on, and holds back the rest.
    pub(super) fn hold_from(&mut self, number: u32, sequence: u64) {
        let Some(qp) = self.qp(number) else { return };
        qp.sends.turn += 1;
        qp.sends.held = true;
        // The refused request counts until its answer arrives.
        let until = sequence.saturating_sub(qp.sends.base) as usize + 1;
        let waits =
            |posted: &&Posted| posted.status.is_none() && is_non_posted(&posted.request.operation);
        qp.sends.non_posted = qp.sends.entries.iter().take(until).filter(waits).count() as u64;
    }

    /// Reports the finished requests at the front of the send queue.
    pub(super) fn retire(&mut self, number: u32) {
        loop {
            let Some(qp) = self.qp(number) else { return };
            let Some(status) = qp.sends.entries.front().and_then(|posted| posted.status) else {
                return;
            };
            let posted = qp.sends.entries.pop_front().expect("just looked");
            qp.sends.base += 1;
            qp.sends.next = qp.sends.next.max(qp.sends.base);
            let (context, cq, failed) =
                (qp.context, qp.options.send_cq.0, status != Status::Success);
            let stage = qp.connection.stage;
            if failed || posted.request.signalled {
                let completion = completion(
                    posted.request.wr_id,
                    status,
                    opcode(&posted.request.operation),
                    number,
                );
                self.complete(context, cq, completion);
            }
            if failed && stage != Stage::Failed {
                self.fail(
                    number,
                    DisconnectCause::QueuePairError,
                    Status::WorkRequestFlushed,
                );
            }
        }
    }

    /// Gives every outstanding request on the send queue a status, the first one `first`.
    pub(super) fn flush_sends(&mut self, number: u32, first: Status) {
        let Some(qp) = self.qp(number) else { return };
        let mut status = first;
        for posted in qp
            .sends
            .entries
            .iter_mut()
            .filter(|posted| posted.status != Some(Status::Success))
        {
            posted.status = Some(status);
            status = Status::WorkRequestFlushed;
        }
        self.retire(number);
    }
}

/// The faults of an operation that do not depend on the peer.
fn check(has: &Capabilities, operation: &Operation) -> Result<(), DeviceError> {
    let unsupported = |capability| {
        Err(DeviceError::Unsupported {
            device: has.name.clone(),
            capability,
        })
    };
    use stonecast_fabric::FlushPlacement::{Global, Persistent};
    match operation {
        Operation::Send { local } if local.size > has.send_size_max => Err(DeviceError::Limit {
            what: "bytes of a SEND",
            limit: u64::from(has.send_size_max),
        }),
        Operation::CompareAndSwap { local, .. } | Operation::FetchAndAdd { local, .. }
            if local.size != 8 =>
        {
            Err(DeviceError::Malformed {
                reason: "an atomic brings back 8 bytes",
            })
        }
        Operation::Flush {
            placement: Global, ..
        } if !has.flush_global => unsupported("FLUSH with global visibility"),
        Operation::Flush {
            placement: Persistent,
            ..
        } if !has.flush_persistent => unsupported("FLUSH with persistence"),
        Operation::Flush { size: 0, .. } => Err(DeviceError::Malformed {
            reason: "a FLUSH of no bytes",
        }),
        Operation::AtomicWrite { .. } if !has.atomic_write => unsupported("ATOMIC_WRITE"),
        _ => Ok(()),
    }
}
