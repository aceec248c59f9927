//! Receive queues that many queue pairs share: of ordinary buffers, or of buffers that take many messages.

use std::collections::VecDeque;
use std::task::Waker;

use stonecast_fabric::{
    Appended, Opcode, Placement, QueuePair, ReceiveRequest, Status, WorkCompletion,
};
use stonecast_media::MappedRegion;

use crate::append::{AppendLayout, AppendQueue, Arrival};
use crate::completion_queue::CompletionQueues;

/// Strides of all buffers of a multi-packet queue together, unless more are requested. The slots take 16 bytes each, of
/// which only touched pages exist.
pub(crate) const SLOTS: u64 = 1 << 18;
/// The most strides that may be requested: 1 GiB of slots.
pub(crate) const SLOTS_MAX: u64 = 1 << 26;

#[derive(Debug)]
pub(crate) struct SharedReceiveQueueState {
    pub(crate) capacity: usize,
    pub(crate) buffers: Buffers,
    /// Queue pairs that take from it, with their completion queue for arrivals.
    pub(crate) users: Vec<User>,
}

/// The buffers of a queue.
#[derive(Debug)]
pub(crate) enum Buffers {
    /// One message each.
    Single(VecDeque<ReceiveRequest>),
    /// Many messages each.
    Multi(Box<MultiPacket>),
}

/// A multi-packet queue.
#[derive(Debug)]
pub(crate) struct MultiPacket {
    pub(crate) memory: MappedRegion,
    pub(crate) queue: AppendQueue,
    /// Whether each message makes a completion.
    tells: bool,
    /// The messages that the owner has not requested yet. `None`: the owner has never requested any.
    appended: Option<Vec<Appended>>,
    /// Woken by the next message.
    waiter: Option<Waker>,
    /// Whether the memory held a value that no honest peer writes.
    is_broken: bool,
    /// Buffers that took their last message, and that the owner has not requested yet.
    pub(crate) consumed: Vec<u64>,
}

/// A queue pair that takes from a shared queue.
#[derive(Clone, Copy, Debug)]
pub(crate) struct User {
    pub(crate) queue_pair: u32,
    pub(crate) receive_cq: u32,
}

impl SharedReceiveQueueState {
    /// The facts that requesters must know of a multi-packet queue.
    pub(crate) fn append(&self) -> Option<(AppendLayout, &MappedRegion)> {
        match &self.buffers {
            Buffers::Single(_) => None,
            Buffers::Multi(multi) => Some((multi.queue.layout(), &multi.memory)),
        }
    }
}

impl MultiPacket {
    pub(crate) fn new(memory: MappedRegion, layout: AppendLayout, tells: bool) -> Self {
        Self {
            memory,
            queue: AppendQueue::new(layout),
            tells,
            appended: None,
            waiter: None,
            is_broken: false,
            consumed: Vec::new(),
        }
    }

    /// Whether messages are a reason to wake the device.
    pub(crate) fn wakes(&self) -> bool {
        self.tells || self.waiter.is_some()
    }

    /// Whether there may be arrivals to take. A requester that stands still rings when it publishes.
    pub(crate) fn has_arrivals(&self) -> bool {
        !self.queue.is_held_up() && !self.queue.is_empty(&self.memory)
    }

    /// Takes the messages that were noted since the last call. Returns whether these are all that have arrived.
    pub(crate) fn take_appended(
        &mut self,
        waiter: Option<&Waker>,
        into: &mut Vec<Appended>,
    ) -> bool {
        self.waiter = waiter.cloned();
        let is_followed = self.appended.is_some();
        into.append(self.appended.get_or_insert_default());
        is_followed && !self.is_broken && !self.queue.is_held_up()
    }

    /// Takes the arrivals. `Err` if the memory holds a value that no honest peer writes: then none of its content can
    /// be trusted. Returns whether there were any arrivals.
    pub(crate) fn take_arrivals(
        &mut self,
        users: &[User],
        is_claimed: impl Fn(u64) -> bool,
        (cqs, woken): (&mut CompletionQueues, &mut Vec<Waker>),
    ) -> Result<bool, crate::ring::Hostile> {
        let mut worked = false;
        loop {
            let next = self.queue.next(&self.memory, &is_claimed);
            self.is_broken |= next.is_err();
            let Some(arrival) = next? else { break };
            worked = true;
            match arrival {
                Arrival::Message {
                    wr_id,
                    queue_pair,
                    offset,
                    size,
                } => {
                    // No one is told of a message on a destroyed queue pair.
                    let user = users.iter().find(|user| user.queue_pair == queue_pair);
                    let placement = Placement {
                        offset: offset as u32,
                        size,
                    };
                    if let Some(appended) = &mut self.appended {
                        appended.push(Appended { wr_id, placement });
                    }
                    if let Some(user) = user.filter(|_| self.tells) {
                        cqs.push(user.receive_cq, received(queue_pair, wr_id, placement));
                    }
                }
                Arrival::Consumed { wr_id } => self.consumed.push(wr_id),
            }
        }
        if worked && let Some(waiter) = self.waiter.take() {
            woken.push(waiter);
        }
        Ok(worked)
    }
}

fn received(queue_pair: u32, wr_id: u64, placement: Placement) -> WorkCompletion {
    let qp = QueuePair(queue_pair);
    WorkCompletion {
        wr_id,
        status: Status::Success,
        opcode: Opcode::Receive,
        qp,
        immediate: 0,
        placement,
    }
}
