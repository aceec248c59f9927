//! A queue pair as programs see it: posted requests that have not completed, in order.
//!
//! ```text
//!   Fresh --connect--> Calling --accepted--> Connected --trouble, goodbye--> Failed
//!     \---accept--> Accepted --ready--/
//! ```
//!
//! The NIC reports neither the failed operation nor unsignalled successes, so requests are kept here until their
//! completion arrives, or that of a later request. The last request of each batch is always signalled to the NIC.
//!
//! Once the queue pair has failed, nothing is given to the NIC: new posts wait here behind the requests that the NIC
//! still has, and are flushed in their turn.

use std::collections::VecDeque;
use std::rc::Rc;
use std::time::Instant;

use stonecast_fabric::{
    Opcode, Operation, Placement, QueuePair, QueuePairOptions, Status, WorkCompletion, WorkRequest,
};

use crate::control::{LinkId, PeerProfile};
use crate::path::Endpoint;
use crate::verbs::memory::ProtectionDomain;
use crate::verbs::queue_pair::QueuePair as HardwareQueuePair;
use crate::verbs::receive_queue::RawReceive;

/// The state of a queue pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    Fresh,
    Calling(LinkId),
    Accepted(LinkId),
    Connected(LinkId),
    Failed,
}

/// An outstanding send.
#[derive(Clone, Copy, Debug)]
pub(super) struct Posted {
    pub wr_id: u64,
    pub opcode: Opcode,
    pub signalled: bool,
    /// Whether its local bytes are outside their region, so that it can only fail.
    pub outside: bool,
}

/// A waiting receive buffer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Buffer {
    pub wr_id: u64,
    pub raw: RawReceive,
}

/// Entries in posting order: first those that the NIC has, then those that it will never get.
pub(super) struct Lane<T> {
    entries: VecDeque<T>,
    /// Position of the first entry since the queue pair was made.
    first: u64,
    /// The number of entries that the NIC has.
    given: usize,
}

impl<T> Default for Lane<T> {
    fn default() -> Self {
        Self {
            entries: VecDeque::new(),
            first: 0,
            given: 0,
        }
    }
}

impl<T> Lane<T> {
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Position of the next entry.
    pub fn next(&self) -> u64 {
        self.first + self.entries.len() as u64
    }

    /// Adds an entry that the NIC has.
    pub fn give(&mut self, entry: T) {
        assert!(
            self.given == self.entries.len(),
            "nothing goes to the NIC behind what does not"
        );
        self.entries.push_back(entry);
        self.given += 1;
    }

    /// Adds an entry that the NIC does not get.
    pub fn keep(&mut self, entry: T) {
        self.entries.push_back(entry);
    }

    /// Takes the entries up to `position`, which the NIC has completed: the earlier entries, and the entry itself.
    pub fn complete(&mut self, position: u64) -> (Vec<T>, Option<T>) {
        let before = position.saturating_sub(self.first).min(self.given as u64) as usize;
        let passed: Vec<T> = self.entries.drain(..before).collect();
        self.first += before as u64;
        self.given -= before;
        let done = if self.given > 0 && self.first == position {
            self.pop()
        } else {
            None
        };
        (passed, done)
    }

    /// Ends the entries up to `position`, which the NIC has completed.
    pub fn finish(&mut self, position: u64) {
        let count = (position + 1)
            .saturating_sub(self.first)
            .min(self.given as u64) as usize;
        self.entries.drain(..count);
        self.first += count as u64;
        self.given -= count;
    }

    fn pop(&mut self) -> Option<T> {
        let entry = self.entries.pop_front()?;
        self.first += 1;
        self.given = self.given.saturating_sub(1);
        Some(entry)
    }

    /// Takes the entries that the NIC will never get, once it has given back all others.
    pub fn take_kept(&mut self) -> Vec<T> {
        if self.given > 0 {
            return Vec::new();
        }
        self.first += self.entries.len() as u64;
        self.entries.drain(..).collect()
    }

    /// Notes that the NIC was reset: the entries that the NIC had will not complete.
    pub fn take_back(&mut self) {
        self.given = 0;
    }

    /// Whether the NIC has entries that have not completed.
    pub fn is_under_way(&self) -> bool {
        self.given > 0
    }

    pub fn entries(&self) -> impl Iterator<Item = &T> {
        self.entries.iter()
    }
}

pub(super) struct QueuePairState {
    pub hardware: HardwareQueuePair,
    pub options: QueuePairOptions,
    /// The protection domain: the device's, or one for this queue pair alone.
    pub domain: Rc<ProtectionDomain>,
    pub phase: Phase,
    pub sends: Lane<Posted>,
    pub receives: Lane<Buffer>,
    /// The moment since which the program has asked for quiet.
    pub quiescing: Option<Instant>,
    /// Whether the queue pair took its last buffer from the shared receive queue, and that buffer has completed.
    pub has_last_receive: bool,
    /// Sequence number of the first packet of the current attempt.
    pub first_packet: u32,
    pub peer: Option<(Endpoint, PeerProfile)>,
    /// Windows to bind when it is connected.
    pub unbound: Vec<u32>,
    /// Sends that were posted after the acceptance and before the peer was ready to take them.
    pub early: Vec<WorkRequest>,
}

/// The opcode of an operation's completion.
pub(super) fn opcode_of(operation: &Operation) -> Opcode {
    match operation {
        Operation::Write { .. } | Operation::WriteWithImmediate { .. } => Opcode::Write,
        Operation::Send { .. } => Opcode::Send,
        Operation::Read { .. } => Opcode::Read,
        Operation::CompareAndSwap { .. } => Opcode::CompareAndSwap,
        Operation::FetchAndAdd { .. } => Opcode::FetchAndAdd,
        Operation::Flush { .. } => Opcode::Flush,
        Operation::AtomicWrite { .. } => Opcode::AtomicWrite,
    }
}

/// A completion that carries no message.
pub(super) fn completion(qp: u32, wr_id: u64, status: Status, opcode: Opcode) -> WorkCompletion {
    WorkCompletion {
        wr_id,
        status,
        opcode,
        qp: QueuePair(qp),
        immediate: 0,
        placement: Placement { offset: 0, size: 0 },
    }
}

impl QueuePairState {
    /// Completions of requests posted after the failure, once the NIC has returned the earlier ones.
    pub fn flush_kept(&mut self, handle: u32) -> (Vec<WorkCompletion>, Vec<WorkCompletion>) {
        let flushed = |wr_id, opcode| completion(handle, wr_id, Status::WorkRequestFlushed, opcode);
        let sends = self
            .sends
            .take_kept()
            .into_iter()
            .map(|posted| flushed(posted.wr_id, posted.opcode))
            .collect();
        let receives = self
            .receives
            .take_kept()
            .into_iter()
            .map(|buffer| flushed(buffer.wr_id, Opcode::Receive))
            .collect();
        (sends, receives)
    }

    /// Whether completions are due for requests of the NIC: sends, own buffers, buffers of a shared queue.
    pub fn is_under_way(&self) -> bool {
        let shared = self.options.shared_receive_queue.is_some() && !self.has_last_receive;
        self.sends.is_under_way() || self.receives.is_under_way() || shared
    }

    /// The current or future connection.
    pub fn link(&self) -> Option<LinkId> {
        match self.phase {
            Phase::Calling(link) | Phase::Accepted(link) | Phase::Connected(link) => Some(link),
            Phase::Fresh | Phase::Failed => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_completion_ends_everything_up_to_it() {
        let mut lane = Lane::default();
        (0..5).for_each(|number| lane.give(number));
        assert_eq!(lane.complete(2), (vec![0, 1], Some(2)));
        assert_eq!(
            lane.complete(2),
            (vec![], None),
            "ended entries do not end again"
        );
        assert_eq!(lane.complete(4), (vec![3], Some(4)));
        assert_eq!((lane.len(), lane.next()), (0, 5));
    }

    #[test]
    fn finishing_removes_the_entries_up_to_the_position_and_no_others() {
        let mut lane = Lane::default();
        (0..4).for_each(|number| lane.give(number));
        lane.keep(4);
        lane.finish(1);
        lane.finish(0);
        assert_eq!((lane.len(), lane.complete(2)), (3, (vec![], Some(2))));
        lane.finish(4);
        assert_eq!(
            (lane.len(), lane.take_kept()),
            (1, vec![4]),
            "kept entries do not end with those of the NIC"
        );
    }

    #[test]
    fn kept_entries_come_after_those_of_the_nic() {
        let mut lane = Lane::default();
        lane.give(0);
        lane.give(1);
        lane.keep(2);
        assert_eq!(lane.take_kept(), Vec::<i32>::new());
        assert_eq!(lane.complete(0), (vec![], Some(0)));
        assert_eq!(lane.take_kept(), Vec::<i32>::new());
        assert_eq!(lane.complete(1), (vec![], Some(1)));
        assert_eq!(lane.take_kept(), [2]);
        assert_eq!(lane.next(), 3);
    }

    #[test]
    fn entries_taken_back_from_the_nic_end_with_the_kept_ones() {
        let mut lane = Lane::default();
        lane.give(0);
        lane.give(1);
        lane.keep(2);
        assert_eq!(lane.complete(0), (vec![], Some(0)));
        lane.take_back();
        assert!(!lane.is_under_way());
        assert_eq!(lane.take_kept(), [1, 2]);
        assert_eq!(
            lane.complete(1),
            (vec![], None),
            "a late completion ends nothing"
        );
        assert_eq!(lane.next(), 3);
    }

    #[test]
    fn a_completion_of_an_unknown_request_takes_nothing() {
        let mut lane = Lane::default();
        lane.give(0);
        lane.keep(1);
        assert_eq!(lane.complete(1), (vec![0], None));
        assert_eq!(lane.take_kept(), [1]);
    }
}
