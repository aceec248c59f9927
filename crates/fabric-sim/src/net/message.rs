//! Messages between a requester and a responder, while events name them.

use std::ops::{Index, IndexMut, Range};

use stonecast_base::Span;
use stonecast_fabric::{Operation, Status};

use super::receive::Landing;

/// Parts of a message begin at multiples of this, so that words stay whole.
pub(super) const LINE_SIZE: u64 = 64;

/// The way of a message: queue pairs and the entry of the send queue.
#[derive(Clone, Copy)]
pub(super) struct Route {
    pub from: u32,
    pub to: u32,
    /// Number of its entry in the send queue.
    pub sequence: u64,
    /// The turn of the send queue in which it was transmitted.
    pub turn: u32,
}

/// A message on its way from a requester to a responder and back.
pub(super) struct Message {
    pub route: Route,
    pub operation: Operation,
    pub payload: Vec<u8>,
    pub answer: Answer,
    pub target: Destination,
    pub progress: Progress,
    pub landing: Option<Landing>,
    /// Events that name it.
    uses: u8,
}

/// What the requester learns.
pub(super) struct Answer {
    pub status: Status,
    /// The responder had no receive buffer.
    pub not_ready: bool,
}

/// Where a message takes effect: the responder's region, and its key if there is one.
#[derive(Default)]
pub(super) struct Destination {
    pub region: u32,
    pub offset: u64,
    pub key: Option<u32>,
}

/// How far a message has taken effect.
#[derive(Default)]
pub(super) struct Progress {
    /// Bytes that took effect.
    pub done: u32,
    /// It waited until the memory controller had what was placed before it.
    pub waited: bool,
    /// Its time has come, and an earlier message is not done.
    pub due: bool,
    /// It took effect as a whole, or never will.
    pub settled: bool,
    /// Lines that are still to be placed, where they are placed in any order.
    pub scattered: Option<Vec<u32>>,
    /// Bytes that are fetched at a time, where that is less than a packet.
    pub grain: Option<u32>,
    /// The NIC keeps it for longer than needed.
    delayed: bool,
}

impl Message {
    /// How many lines a posted message touches.
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

/// All messages by number. A number is used again once no event names its message.
#[derive(Default)]
pub(super) struct Messages {
    slots: Vec<Message>,
    free: Vec<u32>,
    /// Messages that a NIC keeps for longer than needed.
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

    /// One more event names the message.
    pub fn retain(&mut self, index: u32) {
        self[index].uses += 1;
    }

    /// An event that names the message has come, and no other one will in its place.
    pub fn release(&mut self, index: u32) {
        let message = &mut self[index];
        message.uses -= 1;
        if message.uses == 0 {
            self.free.push(index);
        }
    }

    /// The NIC keeps the message for longer than needed.
    pub fn delay(&mut self, index: u32) {
        self[index].progress.delayed = true;
        self.delayed += 1;
    }

    /// The NIC keeps the message no longer.
    pub fn undelay(&mut self, index: u32) {
        if std::mem::take(&mut self[index].progress.delayed) {
            self.delayed -= 1;
        }
    }

    /// How many messages NICs keep for longer than needed.
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
