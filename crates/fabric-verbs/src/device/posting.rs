//! Makes queue pairs, and posts to them.

use std::rc::Rc;

use stonecast_base::Span;
use stonecast_fabric::{
    DeviceError, FlushPlacement, LocalSpan, Operation, QueuePair, QueuePairOptions, RemoteAddress,
    WorkRequest,
};

use super::State;
use super::completions::WorkId;
use super::queue_pair::{Lane, Phase, Posted, QueuePairState, opcode_of};
use crate::verbs::memory::ProtectionDomain;
use crate::verbs::posting::{Posting, RawPlace, RawSpan, Stamp};
use crate::verbs::queue_pair::{QueuePair as HardwareQueuePair, WantedQueuePair};

/// Bindings of windows that may wait in a send queue beside the program's posts.
const OWN_REQUESTS: u32 = 4;

impl State {
    pub(super) fn create_queue_pair(
        &mut self,
        options: QueuePairOptions,
    ) -> Result<QueuePair, DeviceError> {
        let limit = self.hardware.facts.queue_depth_max;
        if options
            .send_capacity
            .saturating_add(OWN_REQUESTS)
            .max(options.receive_capacity)
            > limit
        {
            return Err(DeviceError::Limit {
                what: "entries of a send or receive queue",
                limit: limit.into(),
            });
        }
        self.promise_completions(&options)?;
        match self.make_queue_pair(options) {
            Ok(qp) => Ok(qp),
            Err(error) => {
                self.take_back_completions(&options);
                Err(error)
            }
        }
    }

    fn make_queue_pair(&mut self, options: QueuePairOptions) -> Result<QueuePair, DeviceError> {
        let shared = match options.shared_receive_queue {
            Some(srq) => Some(self.srqs.get(srq.0)?.hardware.clone()),
            None => None,
        };
        let domain = self.domain_for(&options)?;
        let wanted = WantedQueuePair {
            domain: &domain,
            send_cq: &self.cqs.get(options.send_cq.0)?.hardware,
            receive_cq: &self.cqs.get(options.receive_cq.0)?.hardware,
            shared: shared.as_ref(),
            send_capacity: options.send_capacity.max(1) + OWN_REQUESTS,
            receive_capacity: options.receive_capacity.max(1),
            extra: self.abilities.extra,
        };
        let system = |doing| move |source| DeviceError::System { doing, source };
        let hardware = HardwareQueuePair::new(&wanted).map_err(system("making a queue pair"))?;
        hardware
            .initialize(&self.hardware.port, self.abilities.has_flush_persistent)
            .map_err(system("preparing a queue pair for its port"))?;
        let number = hardware.number();
        let handle = self.qps.insert(QueuePairState {
            hardware,
            options,
            domain,
            phase: Phase::Fresh,
            sends: Lane::default(),
            receives: Lane::default(),
            first_packet: 0,
            peer: None,
            quiescing: None,
            has_last_receive: false,
            unbound: Vec::new(),
            early: Vec::new(),
        });
        self.connections.by_number.insert(number, handle);
        Ok(QueuePair(handle))
    }

    /// The protection domain for a new queue pair.
    fn domain_for(&self, options: &QueuePairOptions) -> Result<Rc<ProtectionDomain>, DeviceError> {
        if self.abilities.extra.windows || !options.windows {
            return Ok(self.hardware.domain.clone());
        }
        if options.shared_receive_queue.is_some() {
            return Err(DeviceError::Unsupported {
                device: self.abilities.name.clone(),
                capability: "memory windows, and their replacement keeps queue pairs with windows from sharing a receive \
                             queue",
            });
        }
        ProtectionDomain::new(&self.hardware.context).map_err(|source| DeviceError::System {
            doing: "making a protection domain",
            source,
        })
    }

    /// Counts the completions that a queue pair may cause.
    fn promise_completions(&mut self, options: &QueuePairOptions) -> Result<(), DeviceError> {
        let full = |left: u32| DeviceError::Limit {
            what: "entries of a completion queue that are free",
            limit: left.into(),
        };
        self.cqs
            .get_mut(options.send_cq.0)?
            .promise(options.send_capacity)
            .map_err(full)?;
        let receives = match options.shared_receive_queue {
            None => options.receive_capacity,
            // The buffers count once, however many queue pairs take from the queue.
            Some(srq) => {
                let capacity = self.srqs.get(srq.0)?.capacity;
                let queue = self.cqs.get_mut(options.receive_cq.0)?;
                if queue.promised_shared.contains(&srq.0) {
                    return Ok(());
                }
                queue.promised_shared.push(srq.0);
                capacity
            }
        };
        let promised = self.cqs.get_mut(options.receive_cq.0)?.promise(receives);
        if let Err(left) = promised {
            let queue = self.cqs.get_mut(options.receive_cq.0)?;
            queue.promised_shared.retain(|shared| {
                options
                    .shared_receive_queue
                    .is_none_or(|srq| srq.0 != *shared)
            });
            self.cqs
                .get_mut(options.send_cq.0)?
                .take_back(options.send_capacity);
            return Err(full(left));
        }
        Ok(())
    }

    /// Undoes [`State::promise_completions`] for a queue pair that is gone. The promise to a shared queue remains.
    pub(super) fn take_back_completions(&mut self, options: &QueuePairOptions) {
        if let Ok(queue) = self.cqs.get_mut(options.send_cq.0) {
            queue.take_back(options.send_capacity);
        }
        if options.shared_receive_queue.is_none()
            && let Ok(queue) = self.cqs.get_mut(options.receive_cq.0)
        {
            queue.take_back(options.receive_capacity);
        }
    }

    pub(super) fn post_send(
        &mut self,
        qp: QueuePair,
        requests: &[WorkRequest],
    ) -> Result<(), DeviceError> {
        requests
            .iter()
            .try_for_each(|request| self.check(&request.operation))?;
        let state = self.qps.get(qp.0)?;
        let capacity = state.options.send_capacity;
        match state.phase {
            Phase::Accepted(_) | Phase::Connected(_) | Phase::Failed => {}
            _ => {
                return Err(DeviceError::Malformed {
                    reason: "a send on a queue pair that was never connected",
                });
            }
        }
        if state.sends.len() + state.early.len() + requests.len() > capacity as usize {
            return Err(DeviceError::QueueFull { capacity });
        }
        if matches!(state.phase, Phase::Accepted(_)) {
            // The peer's queue pair drops packets that arrive before it is connected, which would cost at least a
            // retransmission.
            self.qps.get_mut(qp.0)?.early.extend_from_slice(requests);
            return Ok(());
        }
        let Some(last) = requests.len().checked_sub(1) else {
            return Ok(());
        };
        let outside = requests
            .iter()
            .map(|request| self.is_outside(&request.operation))
            .collect::<Result<Vec<_>, _>>()?;
        let posted = requests
            .iter()
            .zip(outside)
            .map(|(request, outside)| Posted {
                wr_id: request.wr_id,
                opcode: opcode_of(&request.operation),
                signalled: request.signalled,
                outside,
            });
        if state.phase == Phase::Failed {
            let state = self.qps.get_mut(qp.0)?;
            posted.for_each(|posted| state.sends.keep(posted));
            self.flush_kept(qp.0);
            return Ok(());
        }
        let first = state.sends.next();
        // All spans are resolved before the batch begins: an invalid span refuses the whole batch.
        let domain = state.domain.clone();
        let locals = requests
            .iter()
            .map(|request| self.raw_local(&domain, &request.operation));
        let locals = locals.collect::<Result<Vec<_>, _>>()?;
        let state = self.qps.get_mut(qp.0)?;
        let mut posting = Posting::begin(&state.hardware);
        for (index, (request, local)) in requests.iter().zip(locals).enumerate() {
            let wr_id = WorkId::Send(first + index as u64).encode();
            // The last request is always signalled, so that the unsignalled requests before it leave the queue with it.
            let stamp = Stamp {
                wr_id,
                signalled: request.signalled || index == last,
                fence: request.fence,
            };
            post(&mut posting, stamp, &request.operation, local);
        }
        posting.commit().map_err(|source| DeviceError::System {
            doing: "posting sends",
            source,
        })?;
        posted.for_each(|posted| state.sends.give(posted));
        Ok(())
    }

    /// Posts the requests that were posted before the peer was ready.
    pub(super) fn post_early(&mut self, handle: u32) -> Result<(), DeviceError> {
        let early = std::mem::take(&mut self.qps.get_mut(handle)?.early);
        self.post_send(QueuePair(handle), &early)
    }

    /// The faults of an operation that do not depend on the peer.
    fn check(&self, operation: &Operation) -> Result<(), DeviceError> {
        let lacks = |capability| {
            Err(DeviceError::Unsupported {
                device: self.abilities.name.clone(),
                capability,
            })
        };
        match *operation {
            Operation::Send { local } if local.size > self.abilities.send_size_max => {
                Err(DeviceError::Limit {
                    what: "bytes of a SEND",
                    limit: self.abilities.send_size_max.into(),
                })
            }
            Operation::Write { local, .. }
            | Operation::WriteWithImmediate { local, .. }
            | Operation::Read { local, .. }
                if local.size > self.hardware.port.message_size_max =>
            {
                Err(DeviceError::Limit {
                    what: "bytes of a WRITE or READ",
                    limit: self.hardware.port.message_size_max.into(),
                })
            }
            Operation::CompareAndSwap { local, .. } | Operation::FetchAndAdd { local, .. }
                if local.size != 8 =>
            {
                Err(DeviceError::Malformed {
                    reason: "the local span of an atomic is not 8 bytes",
                })
            }
            Operation::Flush { size: 0, .. } => Err(DeviceError::Malformed {
                reason: "a FLUSH of no bytes",
            }),
            Operation::Flush {
                placement: FlushPlacement::Global,
                ..
            } if !(self.abilities.extra.flush && self.hardware.facts.flush_global) => {
                lacks("FLUSH with global visibility")
            }
            Operation::Flush {
                placement: FlushPlacement::Persistent,
                ..
            } if !self.abilities.has_flush_persistent => lacks("FLUSH with persistence"),
            // The length passes through 32 bits in some kernels: a longer range would silently be written back in part.
            Operation::Flush { size, .. } if size > u64::from(u32::MAX) => {
                Err(DeviceError::Limit {
                    what: "bytes of a FLUSH",
                    limit: u32::MAX.into(),
                })
            }
            Operation::AtomicWrite { .. } if !self.abilities.extra.atomic_write => {
                lacks("ATOMIC_WRITE")
            }
            _ => Ok(()),
        }
    }

    /// The local bytes of an operation, in the terms of the NIC.
    fn raw_local(
        &mut self,
        domain: &Rc<ProtectionDomain>,
        operation: &Operation,
    ) -> Result<Option<RawSpan>, DeviceError> {
        local_of(operation)
            .map(|local| self.regions.get_mut(local.region.index)?.raw(local, domain))
            .transpose()
    }

    /// Whether an operation names local bytes outside their region.
    fn is_outside(&self, operation: &Operation) -> Result<bool, DeviceError> {
        let Some(local) = local_of(operation) else {
            return Ok(false);
        };
        Ok(!self
            .regions
            .get(local.region.index)?
            .holds(Span::new(local.offset, local.size.into())))
    }
}

/// The local bytes of an operation.
fn local_of(operation: &Operation) -> Option<LocalSpan> {
    match *operation {
        Operation::Write { local, .. }
        | Operation::WriteWithImmediate { local, .. }
        | Operation::Send { local }
        | Operation::Read { local, .. }
        | Operation::CompareAndSwap { local, .. }
        | Operation::FetchAndAdd { local, .. } => Some(local),
        Operation::Flush { .. } | Operation::AtomicWrite { .. } => None,
    }
}

/// A place of the peer. A range that wraps around the end of all addresses names no memory, and some responders compute
/// its end wrongly; it is replaced by one at address 0, where no region lies.
pub(super) fn place(remote: RemoteAddress, size: u64) -> RawPlace {
    let address = if remote.address.checked_add(size).is_some() {
        remote.address
    } else {
        0
    };
    RawPlace {
        address,
        rkey: remote.rkey.0,
    }
}

fn post(posting: &mut Posting<'_>, stamp: Stamp, operation: &Operation, local: Option<RawSpan>) {
    let span = || local.expect("the operation names local bytes");
    let size = local.map_or(8, |local| u64::from(local.size));
    match *operation {
        Operation::Write { remote, .. } => posting.write(stamp, span(), place(remote, size)),
        Operation::WriteWithImmediate {
            remote, immediate, ..
        } => {
            posting.write_with_immediate(stamp, span(), place(remote, size), immediate);
        }
        Operation::Send { .. } => posting.send(stamp, span()),
        Operation::Read { remote, .. } => posting.read(stamp, span(), place(remote, size)),
        Operation::CompareAndSwap {
            remote,
            expected,
            swap,
            ..
        } => {
            posting.compare_and_swap(stamp, span(), place(remote, size), expected, swap);
        }
        Operation::FetchAndAdd { remote, add, .. } => {
            posting.fetch_and_add(stamp, span(), place(remote, size), add)
        }
        Operation::Flush {
            remote,
            size,
            placement,
        } => posting.flush(stamp, place(remote, size), size, placement),
        Operation::AtomicWrite { remote, value } => {
            posting.atomic_write(stamp, place(remote, size), value)
        }
    }
}

#[cfg(test)]
mod tests {
    use stonecast_fabric::Rkey;

    use super::*;

    #[test]
    fn a_range_that_wraps_around_is_sent_to_an_address_without_memory() {
        let remote = |address| RemoteAddress {
            address,
            rkey: Rkey(1),
        };
        assert_eq!(place(remote(u64::MAX - 7), 4096).address, 0);
        assert_eq!(place(remote(u64::MAX - 8), 8).address, u64::MAX - 8);
    }
}
