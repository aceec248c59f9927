//! Answers to one client: as many as fit go out in one message.

use stonecast_base::LINE_SIZE;
use stonecast_fabric::{MemoryRegion, Port, QueuePair};
use stonecast_session::AnswerRing;

use crate::wire::limits::{ANSWER_SIZE_MAX, IN_FLIGHT_MAX};
use crate::wire::{Answer, AnswerWriter};

const SLOTS: u64 = IN_FLIGHT_MAX as u64;

/// Answers to one client.
pub(super) struct Answers {
    ring: AnswerRing,
    writer: AnswerWriter,
}

impl Answers {
    /// Bytes of memory for the answers: a line for each message in flight, since most answers are short, and room for a
    /// long one.
    pub const SIZE: u64 = AnswerRing::size(SLOTS, LINE_SIZE as u64, ANSWER_SIZE_MAX as u64);

    pub fn new(region: MemoryRegion) -> Self {
        Self {
            ring: AnswerRing::new(region, SLOTS, LINE_SIZE as u64, ANSWER_SIZE_MAX as u64),
            writer: AnswerWriter::default(),
        }
    }

    /// The memory of the answers.
    pub fn region(&self) -> MemoryRegion {
        self.ring.region()
    }

    /// Queues an answer after the earlier ones.
    #[inline]
    pub fn queue(&mut self, port: &Port, qp: QueuePair, answer: &Answer) {
        if !self.writer.push(answer) {
            self.send(port, qp);
            assert!(
                self.writer.push(answer),
                "an empty message takes any answer"
            );
        }
    }

    /// Sends the queued answers.
    pub fn send(&mut self, port: &Port, qp: QueuePair) {
        if !self.writer.bytes().is_empty() {
            self.ring.send(port, qp, self.writer.bytes());
            self.writer.clear();
        }
    }

    /// Whether the client does not take its answers. Such a client is disconnected after the batch.
    pub fn is_stuck(&self) -> bool {
        self.ring.is_stuck()
    }
}
