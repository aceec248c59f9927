//! Receive queues: own, shared, multi-packet.

use stonecast_fabric::{
    DeviceError, Opcode, Placement, ReceiveQueue, ReceiveRequest, SharedReceiveQueueOptions,
    Status, WorkCompletion,
};

use super::completion::completion;
use super::{Net, SharedQueue, Stage};
use crate::faults::Fault;

/// Longest time without a buffer in a shared receive queue.
const EXHAUSTED_NS_MAX: u64 = 5_000_000;
/// Longest time without one in a queue of one's own: longer than most senders try.
const NOT_READY_NS_MAX: u64 = 300_000_000;

/// Where a message goes at the responder, and what its arrival tells.
pub(super) struct Landing {
    pub wr_id: u64,
    /// Region of the buffer, and where in it the message goes.
    pub region: u32,
    pub offset: u64,
    /// Bytes from the start of the buffer.
    pub place: u32,
    /// A multi-packet buffer that is given back before this arrival, or after it.
    pub before: Option<u64>,
    pub after: Option<u64>,
}

/// What a receive queue has for a message.
pub(super) enum Buffer {
    Landing(Landing),
    /// Nothing now.
    NotReady,
    /// Nothing, ever; the status of the requester.
    Invalid(Status),
    /// A buffer that is too small and is used up by that.
    TooSmall(u64),
}

impl Net {
    /// Takes a buffer for a SEND of `size` bytes that arrived on queue pair `to`.
    pub(super) fn land(&mut self, to: u32, size: u32) -> Buffer {
        if self.withholds(to) {
            return Buffer::NotReady;
        }
        if self
            .shared_queue(to)
            .is_some_and(|queue| queue.options.multi_packet_stride.is_some())
        {
            return self.append(to, size);
        }
        let Some(buffer) = self.take_buffer(to) else {
            return Buffer::NotReady;
        };
        if size > buffer.local.size {
            return Buffer::TooSmall(buffer.wr_id);
        }
        Buffer::Landing(whole(&buffer))
    }

    /// Whether the NIC has no buffer ready for queue pair `to`, although there may be some.
    fn withholds(&mut self, to: u32) -> bool {
        let now = self.time.now();
        let Some(own) = self.qp(to).map(|qp| qp.receives.not_ready_until) else {
            return false;
        };
        let shared = self.shared_queue(to).map(|queue| queue.exhausted_until);
        if shared.is_some() && self.faults.strikes(Fault::QueueExhausted) {
            self.faults.hit(Fault::QueueExhausted);
            let pause = self.faults.between(1000, EXHAUSTED_NS_MAX);
            self.shared_queue(to)
                .expect("just looked up")
                .exhausted_until = now + pause;
            if pause.is_multiple_of(4) {
                // Now and then it is the queue of completions that is too small.
                let qp = self.qp(to).expect("just looked up");
                let overrun = (qp.context, qp.options.receive_cq.0);
                self.irregular.overrun.push(overrun);
            }
            return true;
        }
        if shared.is_none() && self.faults.strikes(Fault::ReceiverNotReady) {
            self.faults.hit(Fault::ReceiverNotReady);
            let pause = self.faults.between(0, NOT_READY_NS_MAX);
            // Most are over at the first retry; one in eight outlasts all of them.
            let until = if pause.is_multiple_of(8) {
                now + pause
            } else {
                now
            };
            self.qp(to)
                .expect("just looked up")
                .receives
                .not_ready_until = until;
            return true;
        }
        own > now || shared.is_some_and(|until| until > now)
    }

    /// Takes a buffer for the immediate of a WRITE_WITH_IMM.
    pub(super) fn land_immediate(&mut self, to: u32) -> Buffer {
        if self.withholds(to) {
            return Buffer::NotReady;
        }
        match self.take_buffer(to) {
            Some(buffer) => Buffer::Landing(whole(&buffer)),
            None => Buffer::NotReady,
        }
    }

    /// Whether queue pair `to` receives into a multi-packet queue.
    pub(super) fn appends(&mut self, to: u32) -> bool {
        self.shared_queue(to)
            .is_some_and(|queue| queue.options.multi_packet_stride.is_some())
    }

    /// The place of a message in the first buffer of a multi-packet queue that has room.
    fn append(&mut self, to: u32, size: u32) -> Buffer {
        let queue = self.shared_queue(to).expect("the caller looked");
        let stride = queue
            .options
            .multi_packet_stride
            .expect("the caller looked");
        let needed = size.div_ceil(stride).max(1);
        let mut before = None;
        let mut index = 0;
        loop {
            let Some(&buffer) = queue.buffers.get(index) else {
                return Buffer::NotReady;
            };
            let strides = buffer.local.size / stride;
            if needed > strides {
                return Buffer::Invalid(Status::RemoteInvalidRequest);
            }
            let taken = if index == 0 { queue.taken } else { 0 };
            if taken + needed > strides {
                // The rest of this buffer stays unused. Only the first one is taken in part.
                before = Some(buffer.wr_id);
                index += 1;
                continue;
            }
            if index > 0 {
                queue.buffers.pop_front();
            }
            queue.taken = taken + needed;
            let full = queue.taken == strides;
            if full {
                queue.buffers.pop_front();
                queue.taken = 0;
            }
            let place = taken * stride;
            return Buffer::Landing(Landing {
                wr_id: buffer.wr_id,
                region: buffer.local.region.index,
                offset: buffer.local.offset + u64::from(place),
                place,
                before,
                after: full.then_some(buffer.wr_id),
            });
        }
    }

    /// Tells of an arrival.
    pub(super) fn tell_arrival(
        &mut self,
        to: u32,
        landing: &Landing,
        opcode: Opcode,
        immediate: u32,
        size: u32,
    ) {
        if let Some(wr_id) = landing.before {
            self.tell(
                to,
                completion(wr_id, Status::Success, Opcode::BufferConsumed, to),
            );
        }
        let placement = Placement {
            offset: landing.place,
            size,
        };
        self.tell(
            to,
            WorkCompletion {
                immediate,
                placement,
                ..completion(landing.wr_id, Status::Success, opcode, to)
            },
        );
        if let Some(wr_id) = landing.after {
            self.tell(
                to,
                completion(wr_id, Status::Success, Opcode::BufferConsumed, to),
            );
        }
    }

    /// Puts a completion into the receive completion queue of `to`.
    pub(super) fn tell(&mut self, to: u32, completion: WorkCompletion) {
        let Some(qp) = self.qp(to) else { return };
        let (context, cq) = (qp.context, qp.options.receive_cq.0);
        self.complete(context, cq, completion);
    }

    /// Posts receive buffers.
    pub fn post_receive(
        &mut self,
        context: u32,
        queue: ReceiveQueue,
        requests: &[ReceiveRequest],
    ) -> Result<(), DeviceError> {
        if requests
            .iter()
            .any(|request| self.local(context, request.local).is_none())
        {
            return Err(DeviceError::Malformed {
                reason: "a receive buffer leaves its region",
            });
        }
        let (buffers, capacity) = match queue {
            ReceiveQueue::Own(qp) => {
                let qp = self.own_qp(context, qp)?;
                if qp.options.shared_receive_queue.is_some() {
                    return Err(DeviceError::Malformed {
                        reason: "the queue pair receives into a shared queue",
                    });
                }
                (&mut qp.receives.buffers, qp.options.receive_capacity)
            }
            ReceiveQueue::Shared(shared) => {
                let missing = DeviceError::NoSuch {
                    what: "shared receive queue",
                    index: u64::from(shared.0),
                };
                let shared = self.contexts[context as usize]
                    .shared
                    .get_mut(shared.0 as usize)
                    .ok_or(missing)?;
                (&mut shared.buffers, shared.options.capacity)
            }
        };
        if buffers.len() + requests.len() > capacity as usize {
            return Err(DeviceError::QueueFull { capacity });
        }
        buffers.extend(requests);
        if let ReceiveQueue::Own(qp) = queue
            && self.own_qp(context, qp)?.connection.stage == Stage::Failed
        {
            self.flush_receives(qp.0);
        }
        Ok(())
    }

    /// Completes the own receive buffers of a failed queue pair.
    pub(super) fn flush_receives(&mut self, number: u32) {
        let Some(qp) = self.qp(number) else { return };
        for buffer in std::mem::take(&mut qp.receives.buffers) {
            self.tell(
                number,
                completion(
                    buffer.wr_id,
                    Status::WorkRequestFlushed,
                    Opcode::Receive,
                    number,
                ),
            );
        }
    }

    /// The shared receive queue of `number`, if it has one.
    pub(super) fn shared_queue(&mut self, number: u32) -> Option<&mut SharedQueue> {
        let qp = self.qp(number)?;
        let (context, queue) = (qp.context, qp.options.shared_receive_queue?);
        self.contexts[context as usize]
            .shared
            .get_mut(queue.0 as usize)
    }

    fn take_buffer(&mut self, to: u32) -> Option<ReceiveRequest> {
        match self.shared_queue(to) {
            Some(queue) => queue.buffers.pop_front(),
            None => self.qp(to)?.receives.buffers.pop_front(),
        }
    }
}

impl SharedQueue {
    /// An empty queue.
    pub fn new(options: SharedReceiveQueueOptions) -> Self {
        Self {
            options,
            buffers: Default::default(),
            taken: 0,
            placed: 0,
            exhausted_until: 0,
        }
    }

    /// Raises the moment until which arrivals are placed to `at`, or returns the later one that it is.
    pub(super) fn place_after(
        &mut self,
        at: stonecast_base::Nanoseconds,
    ) -> stonecast_base::Nanoseconds {
        self.placed = self.placed.max(at);
        self.placed
    }
}

fn whole(buffer: &ReceiveRequest) -> Landing {
    let local = buffer.local;
    Landing {
        wr_id: buffer.wr_id,
        region: local.region.index,
        offset: local.offset,
        place: 0,
        before: None,
        after: None,
    }
}
