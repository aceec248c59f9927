//! The memory from which answers are sent.
//!
//! ```text
//!   | short 0 | short 1 | ... | long 0 | long 1 | ...      message n: slot n modulo the number of slots, short if it fits
//! ```
//!
//! A slot is reused after as many further messages as there are slots. Each of these answers a request that the peer
//! sent after it had received the earlier answers. A peer has at most as many unanswered requests as there are slots,
//! so by then it has received the message of this slot. A peer that breaks the rule harms only its own answers.

use stonecast_fabric::{LocalSpan, MemoryRegion, Operation, Port, QueuePair};

/// A ring of slots, from which one connection sends its answers.
#[derive(Debug)]
pub struct AnswerRing {
    region: MemoryRegion,
    slots: u64,
    /// Bytes of a short slot; 0 without short slots.
    short: u64,
    /// Bytes of a long slot.
    long: u64,
    sent: u64,
    stuck: bool,
}

impl AnswerRing {
    /// Bytes of memory for `slots` answers in transit, each of at most `long` bytes, and most of at most `short`.
    pub const fn size(slots: u64, short: u64, long: u64) -> u64 {
        slots * (short + long)
    }

    /// A ring in `region`, whose size is given by [`AnswerRing::size`].
    pub fn new(region: MemoryRegion, slots: u64, short: u64, long: u64) -> Self {
        assert!(
            slots > 0 && Self::size(slots, short, long) <= region.size,
            "{slots} slots of {short} and {long} bytes fit {region:?}"
        );
        Self {
            region,
            slots,
            short,
            long,
            sent: 0,
            stuck: false,
        }
    }

    /// The memory of the ring.
    pub fn region(&self) -> MemoryRegion {
        self.region
    }

    /// Sends `answer` after the earlier ones. If the send queue is full, the peer does not take its answers: this
    /// answer is lost, and [`AnswerRing::is_stuck`] is true afterwards.
    ///
    /// # Panics
    ///
    /// If the answer is longer than a long slot.
    pub fn send(&mut self, port: &Port, qp: QueuePair, answer: &[u8]) {
        let size = answer.len() as u64;
        assert!(size <= self.long, "an answer of {size} bytes fits a slot");
        let slot = self.sent % self.slots;
        let offset = if size <= self.short {
            slot * self.short
        } else {
            self.slots * self.short + slot * self.long
        };
        self.sent += 1;
        let memory = port.device().memory(self.region);
        memory.write(offset, answer);
        let local = LocalSpan {
            region: self.region,
            offset,
            size: size as u32,
        };
        self.stuck |= port.post(qp, [Operation::Send { local }]).is_err();
        if self.short > 0 {
            // Most answers are short, and the prefetch brings in the line of the next one.
            memory.prefetch(self.sent % self.slots * self.short, self.short);
        }
    }

    /// Whether an answer could not be sent, so that the connection must be ended.
    pub fn is_stuck(&self) -> bool {
        self.stuck
    }
}
