//! The receiver's side: posts buffers, and takes the messages that were published in them.

use std::collections::VecDeque;

use super::{
    AppendLayout, CURSOR, Cursor, IN_NEXT, MESSAGE_SIZE_MAX, POSTED, PUBLISHED, STRIDES_MAX,
};
use crate::primitive::Memory;
use crate::ring::Hostile;

/// A finding of the receiver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Arrival {
    /// A message.
    Message {
        /// The identifier that the receiver gave the buffer.
        wr_id: u64,
        /// The receiver's queue pair.
        queue_pair: u32,
        /// Bytes from the start of the buffer.
        offset: u64,
        /// Length in bytes.
        size: u32,
    },
    /// The buffer has taken its last message.
    Consumed {
        /// The identifier that the receiver gave the buffer.
        wr_id: u64,
    },
}

/// The receiver's private side.
#[derive(Debug)]
pub(crate) struct AppendQueue {
    layout: AppendLayout,
    /// Posted and not consumed, oldest first: identifier, strides and first slot.
    buffers: VecDeque<Posted>,
    /// Buffers ever posted.
    posted: u64,
    /// First slot of the next buffer.
    next_slot: u64,
    position: Cursor,
    /// Whether a live requester stands still in the middle of a message at the position.
    is_held_up: bool,
    /// Found and not handed out yet.
    found: VecDeque<Arrival>,
}

#[derive(Clone, Copy, Debug)]
struct Posted {
    wr_id: u64,
    strides: u64,
    first_slot: u64,
}

impl AppendQueue {
    pub(crate) fn new(layout: AppendLayout) -> Self {
        let position = Cursor {
            serial: 0,
            stride: 0,
        };
        Self {
            layout,
            buffers: VecDeque::new(),
            posted: 0,
            next_slot: 0,
            position,
            is_held_up: false,
            found: VecDeque::new(),
        }
    }

    /// The layout that requesters must know.
    pub(crate) fn layout(&self) -> AppendLayout {
        self.layout
    }

    /// Whether buffers of these numbers of strides can be posted at this moment.
    pub(crate) fn has_room(&self, strides: impl ExactSizeIterator<Item = u64>) -> bool {
        let oldest = self
            .buffers
            .front()
            .map_or(self.next_slot, |buffer| buffer.first_slot);
        self.buffers.len() + strides.len() <= self.layout.capacity as usize
            && self.next_slot - oldest + strides.sum::<u64>() <= self.layout.slots
    }

    /// Posts a buffer after the others; the caller has checked `has_room`.
    pub(crate) fn post(
        &mut self,
        memory: &impl Memory,
        wr_id: u64,
        region: u32,
        offset: u64,
        strides: u64,
    ) {
        assert!(strides > 0 && strides <= STRIDES_MAX && self.has_room([strides].into_iter()));
        let first_slot = self.next_slot;
        let at = self.layout.descriptor(self.posted);
        for (index, word) in [
            self.posted + 1,
            u64::from(region),
            offset,
            strides,
            first_slot,
        ]
        .into_iter()
        .enumerate()
        {
            memory.store(at + 8 * index as u64, word);
        }
        self.buffers.push_back(Posted {
            wr_id,
            strides,
            first_slot,
        });
        self.next_slot += strides;
        self.posted += 1;
        memory.store(POSTED, self.posted);
    }

    /// Whether the last search for an arrival ended at the message of a live requester that has not published it.
    pub(crate) fn is_held_up(&self) -> bool {
        self.is_held_up
    }

    /// Whether something may have arrived. Cheap.
    pub(crate) fn is_empty(&self, memory: &impl Memory) -> bool {
        self.found.is_empty() && memory.load(CURSOR) == self.position.pack()
    }

    /// The next arrival. `is_claimed(named)` tells whether the intent of a live requester equals `named`.
    pub(crate) fn next(
        &mut self,
        memory: &impl Memory,
        is_claimed: impl Fn(u64) -> bool,
    ) -> Result<Option<Arrival>, Hostile> {
        loop {
            if let Some(found) = self.found.pop_front() {
                return Ok(Some(found));
            }
            self.is_held_up = false;
            let cursor = Cursor::unpack(memory.load(CURSOR));
            if cursor == self.position {
                return Ok(None);
            }
            let ahead =
                (cursor.serial, cursor.stride) > (self.position.serial, self.position.stride);
            let inside =
                cursor.serial < self.posted || (cursor.serial == self.posted && cursor.stride == 0);
            let Some(&buffer) = self.buffers.front().filter(|_| ahead && inside) else {
                return Err(Hostile);
            };
            let publication = self
                .layout
                .publication(buffer.first_slot + self.position.stride);
            let mut word = memory.load(publication);
            if word & PUBLISHED == 0 {
                if is_claimed(self.position.named()) {
                    self.is_held_up = true;
                    return Ok(None);
                }
                // The publication comes before the end of the intent, so a publication missed above is visible here.
                word = memory.load(publication);
            }
            if word & PUBLISHED == 0 {
                self.move_to(self.skip_hole(memory, cursor));
            } else {
                memory.store(publication, 0);
                self.take(word)?;
            }
        }
    }

    /// Takes the message with publication `word`, reserved from the receiver's position.
    fn take(&mut self, word: u64) -> Result<(), Hostile> {
        if word & IN_NEXT != 0 {
            self.move_to(Cursor {
                serial: self.position.serial + 1,
                stride: 0,
            });
        }
        let buffer = *self.buffers.front().ok_or(Hostile)?;
        let size = (word >> 32) as u32 & MESSAGE_SIZE_MAX;
        let strides = self.layout.strides(size);
        if strides > buffer.strides - self.position.stride {
            return Err(Hostile);
        }
        let offset = self.position.stride * u64::from(self.layout.stride);
        self.found.push_back(Arrival::Message {
            wr_id: buffer.wr_id,
            queue_pair: word as u32,
            offset,
            size,
        });
        self.move_to(self.position.behind(strides, buffer.strides));
        Ok(())
    }

    /// The end of the hole at the receiver's position: the next marked start, or the cursor. A reservation ends in its
    /// buffer or in the next. Slots inside are cleared: a requester that died while it published a run has left
    /// publications there, which must not be taken for messages of the slots' next round.
    fn skip_hole(&self, memory: &impl Memory, cursor: Cursor) -> Cursor {
        let mut at = self.position;
        for buffer in self.buffers.iter().take(2) {
            while at.stride < buffer.strides {
                if at == cursor {
                    return cursor;
                }
                let slot = buffer.first_slot + at.stride;
                let is_start = memory.load(self.layout.mark(slot)) == at.named();
                if is_start && at != self.position {
                    return at;
                }
                let publication = self.layout.publication(slot);
                if memory.load(publication) != 0 {
                    memory.store(publication, 0);
                }
                at.stride += 1;
            }
            at = Cursor {
                serial: at.serial + 1,
                stride: 0,
            };
        }
        at
    }

    /// Moves the position of the receiver, past the ends of buffers if necessary.
    fn move_to(&mut self, position: Cursor) {
        while self.position.serial < position.serial {
            let Some(buffer) = self.buffers.pop_front() else {
                break;
            };
            self.found.push_back(Arrival::Consumed {
                wr_id: buffer.wr_id,
            });
            self.position.serial += 1;
        }
        self.position = position;
    }
}
