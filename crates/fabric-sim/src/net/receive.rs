//! Receive queues: own, shared, multi-packet.

use std::collections::VecDeque;
use std::task::Waker;

use smallvec::SmallVec;
use stonecast_base::mutant;
use stonecast_fabric::{
    Appended, DeviceError, Opcode, Placement, ReceiveQueue, ReceiveRequest,
    SharedReceiveQueueOptions, Status, WorkCompletion,
};

use super::completion::completion;
use super::{Filling, Net, SharedQueue, Stage};
use crate::faults::Fault;

/// Longest time without a buffer in a shared receive queue.
const EXHAUSTED_NS_MAX: u64 = 5_000_000;
/// Longest time without a buffer in a queue pair's own queue: longer than most senders try.
const NOT_READY_NS_MAX: u64 = 300_000_000;

/// The destination of a message at the responder, and the content of its arrival.
pub(super) struct Landing {
    pub wr_id: u64,
    /// Region of the buffer, and the offset of the message in it.
    pub region: u32,
    pub offset: u64,
    /// Bytes from the start of the buffer.
    pub place: u32,
    /// The multi-packet buffer that takes it.
    pub shared: Option<MultiPacketPlace>,
}

/// A buffer of a multi-packet queue.
#[derive(Clone, Copy)]
pub(super) struct MultiPacketPlace {
    context: u32,
    queue: u32,
    /// Number of the buffer, counted from the first that was posted to its queue.
    serial: u64,
    /// Whether its messages make completions.
    tells: bool,
}

/// The answer of a receive queue to a message.
pub(super) enum Buffer {
    Landing(Landing),
    /// No buffer at this moment.
    NotReady,
    /// No buffer, ever; the status of the requester.
    Invalid(Status),
    /// A buffer that is too small, and is used up.
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
            .is_some_and(|queue| queue.options.multi_packet.is_some())
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
        let Some((own, context)) = self
            .qp(to)
            .map(|qp| (qp.receives.not_ready_until, qp.context))
        else {
            return false;
        };
        let place = self.place_of(context);
        let shared = self.shared_queue(to).map(|queue| queue.exhausted_until);
        if shared.is_some() && self.faults.strikes(Fault::QueueExhausted, place) {
            self.faults.hit(Fault::QueueExhausted);
            let pause = self.faults.between(1000, EXHAUSTED_NS_MAX);
            self.shared_queue(to)
                .expect("just looked up")
                .exhausted_until = now + pause;
            if pause.is_multiple_of(4) {
                // Now and then the completion queue is too small instead.
                let qp = self.qp(to).expect("just looked up");
                let overrun = (qp.context, qp.options.receive_cq.0);
                self.irregular.overrun.push(overrun);
            }
            return true;
        }
        if shared.is_none() && self.faults.strikes(Fault::ReceiverNotReady, place) {
            self.faults.hit(Fault::ReceiverNotReady);
            let pause = self.faults.between(0, NOT_READY_NS_MAX);
            // Most of these pauses are over at the first retry; one in eight outlasts all retries.
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
            .is_some_and(|queue| queue.options.multi_packet.is_some())
    }

    /// The place of a message in the first buffer of a multi-packet queue that has room.
    fn append(&mut self, to: u32, size: u32) -> Buffer {
        let qp = self.qp(to).expect("the caller looked");
        let number = qp
            .options
            .shared_receive_queue
            .expect("the caller looked")
            .0;
        let context = qp.context;
        let queue = &mut self.contexts[context as usize].shared[number as usize];
        let options = queue.options.multi_packet.expect("the caller looked");
        let needed = size.div_ceil(options.stride).max(1);
        // The rest of the first buffer stays unused if the message does not fit there. Only the first buffer is taken
        // in part.
        let skipped = queue.buffers.front().is_some_and(|buffer| {
            queue.taken > 0 && queue.taken + needed > buffer.local.size / options.stride
        });
        let (index, taken) = if skipped { (1, 0) } else { (0, queue.taken) };
        let Some(&buffer) = queue.buffers.get(index) else {
            return Buffer::NotReady;
        };
        let strides = buffer.local.size / options.stride;
        if needed > strides {
            return Buffer::Invalid(Status::RemoteInvalidRequest);
        }
        if skipped {
            queue.close_front();
        }
        let serial = queue.reserve();
        queue.taken = taken + needed;
        if queue.taken == strides {
            queue.close_front();
        }
        let place = taken * options.stride;
        let shared = MultiPacketPlace {
            context,
            queue: number,
            serial,
            tells: options.completions || mutant!(SilenceBroken),
        };
        self.give_back(context, number);
        Buffer::Landing(Landing {
            wr_id: buffer.wr_id,
            region: buffer.local.region.index,
            offset: buffer.local.offset + u64::from(place),
            place,
            shared: Some(shared),
        })
    }

    /// Notes that a message had its effect on its multi-packet buffer, or will have none.
    pub(super) fn leave_buffer(&mut self, landing: &Landing) {
        let Some(place) = landing.shared else { return };
        self.contexts[place.context as usize].shared[place.queue as usize].leave(place.serial);
        self.give_back(place.context, place.queue);
    }

    /// Notes that a message for `landing` died: a buffer of the queue pair's own queue completes with an error, a place
    /// among others stays empty.
    pub(super) fn flush_landing(&mut self, to: u32, landing: &Landing) {
        if landing.shared.is_none() {
            let status = Status::WorkRequestFlushed;
            self.tell(to, completion(landing.wr_id, status, Opcode::Receive, to));
        }
        if !mutant!(BufferLostWithSender) {
            self.leave_buffer(landing);
        }
    }

    /// Gives back the finished buffers of a multi-packet queue, after the completions of their messages.
    fn give_back(&mut self, context: u32, number: u32) {
        let state = &mut self.contexts[context as usize];
        let late = state.completions.iter().map(|queue| queue.late_until).max();
        let queue = &mut state.shared[number as usize];
        let now = self.time.now();
        let at = late.unwrap_or(0).max(queue.late_until).max(now);
        let done: SmallVec<[u64; 2]> = std::iter::from_fn(|| queue.pop_done()).collect();
        if !done.is_empty() {
            queue.late_until = at;
        }
        for wr_id in done {
            if at > now {
                self.give_back_later(context, number, wr_id, at);
            } else {
                self.give_back_now(context, number, wr_id);
            }
        }
    }

    /// Hands a buffer of a multi-packet queue to its owner.
    pub(super) fn give_back_now(&mut self, context: u32, number: u32, wr_id: u64) {
        let queue = &mut self.contexts[context as usize].shared[number as usize];
        queue.consumed.push_back(wr_id);
        self.note_arrival(context);
    }

    /// Takes the buffers of a multi-packet queue that were given back.
    pub fn take_consumed(&mut self, context: u32, number: u32, into: &mut Vec<u64>) -> usize {
        let queues = self.contexts.get_mut(context as usize);
        let Some(queue) = queues.and_then(|context| context.shared.get_mut(number as usize)) else {
            return 0;
        };
        into.extend(&queue.consumed);
        std::mem::take(&mut queue.consumed).len()
    }

    /// Takes the messages of a multi-packet queue that have arrived since the last call. Returns whether these are all.
    pub fn take_appended(
        &mut self,
        (context, number): (u32, u32),
        waiter: Option<&Waker>,
        into: &mut Vec<Appended>,
    ) -> bool {
        let queues = self.contexts.get_mut(context as usize);
        let Some(queue) = queues.and_then(|context| context.shared.get_mut(number as usize)) else {
            return false;
        };
        queue.waiter = waiter.cloned();
        let is_followed = queue.appended.is_some();
        into.append(queue.appended.get_or_insert_default());
        is_followed
    }

    /// Notes a message whose queue is followed.
    fn note_appended(&mut self, landing: &Landing, placement: Placement) {
        let Some(place) = landing.shared else { return };
        let queue = &mut self.contexts[place.context as usize].shared[place.queue as usize];
        if let Some(appended) = &mut queue.appended {
            let wr_id = landing.wr_id;
            appended.push(Appended { wr_id, placement });
            self.news.wakers.extend(queue.waiter.take());
        }
    }

    /// Reports an arrival.
    pub(super) fn tell_arrival(
        &mut self,
        to: u32,
        landing: &Landing,
        opcode: Opcode,
        immediate: u32,
        size: u32,
    ) {
        let placement = Placement {
            offset: landing.place,
            size,
        };
        self.note_appended(landing, placement);
        if landing.is_silent() {
            return;
        }
        self.tell(
            to,
            WorkCompletion {
                immediate,
                placement,
                ..completion(landing.wr_id, Status::Success, opcode, to)
            },
        );
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

    /// Completes the receive buffers that a failed queue pair has for itself.
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
            filling: VecDeque::new(),
            first: 0,
            consumed: VecDeque::new(),
            appended: None,
            waiter: None,
            late_until: 0,
        }
    }

    /// Assigns a message to the first buffer, and returns the number of the buffer.
    fn reserve(&mut self) -> u64 {
        let opens = self.filling.back().is_none_or(|last| last.closed);
        if opens {
            let wr_id = self.buffers.front().expect("the caller looked").wr_id;
            self.filling.push_back(Filling {
                wr_id,
                pending: 0,
                closed: false,
            });
        }
        let last = self.filling.back_mut().expect("just looked");
        last.pending += 1;
        self.first + self.filling.len() as u64 - 1
    }

    /// Closes the first buffer, which took at least one message.
    fn close_front(&mut self) {
        self.buffers.pop_front();
        self.taken = 0;
        self.filling
            .back_mut()
            .expect("the buffer took a message")
            .closed = true;
    }

    /// Notes that a message has left the buffer with this number.
    fn leave(&mut self, serial: u64) {
        self.filling[(serial - self.first) as usize].pending -= 1;
    }

    /// Takes the oldest buffer if all its messages have arrived.
    fn pop_done(&mut self) -> Option<u64> {
        let oldest = self.filling.front()?;
        if !oldest.closed || oldest.pending > 0 {
            return None;
        }
        self.first += 1;
        self.filling.pop_front().map(|done| done.wr_id)
    }

    /// Raises the moment until which arrivals are placed to `at`, or returns the present moment if it is later.
    pub(super) fn place_after(
        &mut self,
        at: stonecast_base::Nanoseconds,
    ) -> stonecast_base::Nanoseconds {
        self.placed = self.placed.max(at);
        self.placed
    }
}

impl Landing {
    /// Whether its arrivals make no completion.
    pub fn is_silent(&self) -> bool {
        self.shared.is_some_and(|place| !place.tells)
    }
}

fn whole(buffer: &ReceiveRequest) -> Landing {
    let local = buffer.local;
    Landing {
        wr_id: buffer.wr_id,
        region: local.region.index,
        offset: local.offset,
        place: 0,
        shared: None,
    }
}
