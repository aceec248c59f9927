//! Messages between a requester and a responder, as long as events name them.

use std::ops::{Index, IndexMut, Range};

use stonecast_base::Span;
use stonecast_fabric::{Operation, Status};

use super::receive::Landing;

/// Parts of a message begin at multiples of this, so that words stay whole.
pub(super) const LINE_SIZE: u64 = 64;

/// The route of a message: queue pairs and the entry of the send queue.
#[derive(Clone, Copy)]
pub(super) struct Route {
    pub from: u32,
    pub to: u32,
    /// Number of its entry in the send queue.
    pub sequence: u64,
    /// The turn of the send queue in which it was transmitted.
    pub turn: u32,
}

/// A message in transit from a requester to a responder and back.
pub(super) struct Message {
    pub route: Route,
    pub operation: Operation,
    pub payload: Vec<u8>,
    pub answer: Answer,
    pub target: Destination,
    pub progress: Progress,
    pub landing: Option<Landing>,
    /// Number of events that name it.
    uses: u8,
}

/// The answer to the requester.
pub(super) struct Answer {
    pub status: Status,
    /// Whether the responder had no receive buffer.
    pub not_ready: bool,
}

/// The target of a message: the responder's region, and its key if there is one.
#[derive(Default)]
pub(super) struct Destination {
    pub region: u32,
    pub offset: u64,
    pub key: Option<u32>,
}

/// The progress of a message's effect.
#[derive(Default)]
pub(super) struct Progress {
    /// Bytes that took effect.
    pub done: u32,
    /// Whether it waited until the memory controller had the earlier data.
    pub waited: bool,
    /// Whether its time has come while an earlier message is not done.
    pub due: bool,
    /// Whether it took effect as a whole, or never will.
    pub settled: bool,
    /// Lines yet to be placed, if they are placed in any order.
    pub scattered: Option<Vec<u32>>,
    /// Bytes that are fetched at a time, if that is less than a packet.
    pub grain: Option<u32>,
    /// Whether the NIC keeps it longer than necessary.
    delayed: bool,
}

impl Message {
    /// The number of lines that a posted message touches.
    pub fn lines(&self) -> u32 {
        if self.payload.is_empty() {
            return 0;
        }
        let span = Span::new(self.target.offset, self.payload.len() as u64).widen(LINE_SIZE);
        (span.size / LINE_SIZE) as u32
    }

    /// The bytes of the payload that lie in the `line`-th line that the message touches.
    pub fn line(&self, line: u32) -> Range<usize> {
        let first = self.target.offset / LINE_SIZE * LINE_SIZE;
        let start = (first + u64::from(line) * LINE_SIZE).saturating_sub(self.target.offset);
        let end = first + (u64::from(line) + 1) * LINE_SIZE - self.target.offset;
        start as usize..(end as usize).min(self.payload.len())
    }
}

/// All messages by number. A number is reused once no event names its message.
#[derive(Default)]
pub(super) struct Messages {
    slots: Vec<Message>,
    free: Vec<u32>,
    /// Messages that a NIC keeps longer than necessary.
    delayed: u64,
}

impl Messages {
    /// Adds a message that one event names.
    pub fn add(&mut self, route: Route, operation: Operation) -> u32 {
        let message = Message {
            route,
            operation,
            payload: Vec::new(),
            answer: Answer {
                status: Status::Success,
                not_ready: false,
            },
            target: Destination::default(),
            progress: Progress::default(),
            landing: None,
            uses: 1,
        };
        match self.free.pop() {
            Some(index) => {
                let slot = &mut self.slots[index as usize];
                let mut payload = std::mem::take(&mut slot.payload);
                payload.clear();
                *slot = Message { payload, ..message };
                index
            }
            None => {
                self.slots.push(message);
                self.slots.len() as u32 - 1
            }
        }
    }

    /// Notes that one more event names the message.
    pub fn retain(&mut self, index: u32) {
        self[index].uses += 1;
    }

    /// Notes that an event that named the message has come, without a successor.
    pub fn release(&mut self, index: u32) {
        let message = &mut self[index];
        message.uses -= 1;
        if message.uses == 0 {
            self.free.push(index);
        }
    }

    /// Notes that the NIC keeps the message longer than necessary.
    pub fn delay(&mut self, index: u32) {
        self[index].progress.delayed = true;
        self.delayed += 1;
    }

    /// Notes that the NIC has released the message.
    pub fn undelay(&mut self, index: u32) {
        if std::mem::take(&mut self[index].progress.delayed) {
            self.delayed -= 1;
        }
    }

    /// The number of messages that NICs keep longer than necessary.
    pub fn delayed(&self) -> u64 {
        self.delayed
    }
}

impl Index<u32> for Messages {
    type Output = Message;

    fn index(&self, index: u32) -> &Message {
        &self.slots[index as usize]
    }
}

impl IndexMut<u32> for Messages {
    fn index_mut(&mut self, index: u32) -> &mut Message {
        &mut self.slots[index as usize]
    }
}
