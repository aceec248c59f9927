//! Receive buffers, own and shared.

use std::io;
use std::rc::Rc;

use stonecast_base::Span;
use stonecast_fabric::{
    CompletionQueue as CompletionQueueHandle, DeviceError, ReceiveQueue, ReceiveRequest,
    SharedReceiveQueue, SharedReceiveQueueOptions,
};

use super::State;
use super::completions::{CompletionQueueState, WorkId};
use super::queue_pair::{Buffer, Phase};
use crate::verbs::completion::CompletionQueue;
use crate::verbs::memory::ProtectionDomain;
use crate::verbs::receive_queue::{RawReceive, SharedReceiveQueue as HardwareQueue};

/// A shared receive queue, and the owners of the buffers that the NIC has.
pub(super) struct SharedQueueState {
    pub hardware: Rc<HardwareQueue>,
    pub capacity: u32,
    /// Whether no buffer is posted again here.
    in_order: bool,
    /// The buffers that are posted, by slot.
    slots: Vec<Option<Buffer>>,
    free: Vec<u32>,
}

impl SharedQueueState {
    /// Takes the buffer of a slot, which becomes free, and returns the program's identifier.
    pub fn take(&mut self, slot: u32) -> Option<u64> {
        let buffer = self.slots.get_mut(slot as usize)?.take()?;
        self.free.push(slot);
        Some(buffer.wr_id)
    }

    /// Gives a buffer that the NIC used up without a message to the NIC again. False: this queue keeps its order, and
    /// the buffer belongs to its owner.
    pub fn post_again(&self, slot: u32) -> bool {
        if self.in_order {
            return false;
        }
        if let Some(Some(buffer)) = self.slots.get(slot as usize) {
            // There is room, because the buffer was just taken out. A queue that accepts nothing belongs to a device
            // that is gone.
            let _ = self.hardware.post(&[buffer.raw]);
        }
        true
    }
}

/// Completions that the device's own requests may add to a queue at the same time.
const OWN_COMPLETIONS: u32 = 16;

impl State {
    pub(super) fn create_completion_queue(
        &mut self,
        capacity: u32,
    ) -> Result<CompletionQueueHandle, DeviceError> {
        let limit = self.hardware.facts.completion_queue_depth_max;
        let wanted = capacity.saturating_add(OWN_COMPLETIONS);
        let hardware = CompletionQueue::new(
            &self.hardware.channel,
            wanted.min(limit).max(1),
            self.cqs.next_handle(),
        )
        .map_err(|source| DeviceError::System {
            doing: "making a completion queue",
            source,
        })?;
        // A queue that is shorter than requested must not overrun either, so the queue pairs that fit are counted.
        let unpromised = (wanted > limit).then(|| limit.saturating_sub(OWN_COMPLETIONS));
        let state = CompletionQueueState {
            hardware,
            taken: Default::default(),
            unpromised,
            promised_shared: Vec::new(),
        };
        Ok(CompletionQueueHandle(self.cqs.insert(state)))
    }

    pub(super) fn create_shared_receive_queue(
        &mut self,
        options: SharedReceiveQueueOptions,
    ) -> Result<SharedReceiveQueue, DeviceError> {
        if options.multi_packet.is_some() {
            return Err(DeviceError::Unsupported {
                device: self.abilities.name.clone(),
                capability: "multi-packet receive queues: they need a NIC and a driver that offer them for reliable \
                             connections; slots of one size (`stonecast_fabric::append`) do the same work",
            });
        }
        let limit = self
            .hardware
            .facts
            .shared_receive_depth_max
            .min(WorkId::SLOTS_MAX);
        if options.capacity > limit {
            return Err(DeviceError::Limit {
                what: "buffers of a shared receive queue",
                limit: limit.into(),
            });
        }
        let hardware = HardwareQueue::new(&self.hardware.domain, options.capacity.max(1)).map_err(
            |source| DeviceError::System {
                doing: "making a shared receive queue",
                source,
            },
        )?;
        let slots = vec![None; options.capacity as usize];
        let free = (0..options.capacity).rev().collect();
        Ok(SharedReceiveQueue(self.srqs.insert(SharedQueueState {
            hardware,
            capacity: options.capacity,
            in_order: options.in_order,
            slots,
            free,
        })))
    }

    pub(super) fn post_receive(
        &mut self,
        queue: ReceiveQueue,
        requests: &[ReceiveRequest],
    ) -> Result<(), DeviceError> {
        match queue {
            ReceiveQueue::Own(qp) => self.post_own(qp.0, requests),
            ReceiveQueue::Shared(srq) => self.post_shared(srq.0, requests),
        }
    }

    fn post_own(&mut self, handle: u32, requests: &[ReceiveRequest]) -> Result<(), DeviceError> {
        let qp = self.qps.get(handle)?;
        if qp.options.shared_receive_queue.is_some() {
            return Err(DeviceError::Malformed {
                reason: "own buffers for a queue pair that takes from a shared queue",
            });
        }
        let capacity = qp.options.receive_capacity;
        if qp.receives.len() + requests.len() > capacity as usize {
            return Err(DeviceError::QueueFull { capacity });
        }
        let (first, domain) = (qp.receives.next(), qp.domain.clone());
        let raws = self.raw_receives(
            &domain,
            requests,
            (first..).map(|position| WorkId::Receive(position).encode()),
        )?;
        let qp = self.qps.get_mut(handle)?;
        let buffers = requests
            .iter()
            .zip(raws.iter())
            .map(|(request, &raw)| Buffer {
                wr_id: request.wr_id,
                raw,
            });
        if qp.phase == Phase::Failed {
            buffers.for_each(|buffer| qp.receives.keep(buffer));
            self.flush_kept(handle);
            return Ok(());
        }
        qp.hardware.post_receives(&raws).map_err(refused)?;
        buffers.for_each(|buffer| qp.receives.give(buffer));
        Ok(())
    }

    fn post_shared(&mut self, handle: u32, requests: &[ReceiveRequest]) -> Result<(), DeviceError> {
        let srq = self.srqs.get(handle)?;
        if srq.free.len() < requests.len() {
            return Err(DeviceError::QueueFull {
                capacity: srq.capacity,
            });
        }
        let slots: Vec<u32> = srq
            .free
            .iter()
            .rev()
            .take(requests.len())
            .copied()
            .collect();
        let raws = self.raw_receives(
            &self.hardware.domain.clone(),
            requests,
            slots
                .iter()
                .map(|&slot| WorkId::Shared(handle, slot).encode()),
        )?;
        let srq = self.srqs.get_mut(handle)?;
        srq.hardware.post(&raws).map_err(refused)?;
        srq.free.truncate(srq.free.len() - slots.len());
        for ((request, raw), slot) in requests.iter().zip(raws).zip(slots) {
            srq.slots[slot as usize] = Some(Buffer {
                wr_id: request.wr_id,
                raw,
            });
        }
        Ok(())
    }

    /// Buffers in the terms of the NIC. A buffer outside its region is refused here: the NIC would notice only when a
    /// message arrives.
    fn raw_receives(
        &mut self,
        domain: &Rc<ProtectionDomain>,
        requests: &[ReceiveRequest],
        wr_ids: impl Iterator<Item = u64>,
    ) -> Result<Vec<RawReceive>, DeviceError> {
        requests
            .iter()
            .zip(wr_ids)
            .map(|(request, wr_id)| {
                let region = self.regions.get_mut(request.local.region.index)?;
                if !region.holds(Span::new(request.local.offset, request.local.size.into())) {
                    return Err(DeviceError::Malformed {
                        reason: "a receive buffer outside its region",
                    });
                }
                let raw = region.raw(request.local, domain)?;
                region.check_written()?;
                Ok(RawReceive {
                    wr_id,
                    address: raw.address,
                    size: raw.size,
                    lkey: raw.lkey,
                })
            })
            .collect()
    }
}

fn refused(source: io::Error) -> DeviceError {
    DeviceError::System {
        doing: "posting receive buffers",
        source,
    }
}
