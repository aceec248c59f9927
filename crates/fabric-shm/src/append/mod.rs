//! Receiver-placed appends: many requesters put messages next to each other into buffers that one receiver posted,
//! without its help.
//!
//! ```text
//!   buffers in posted order          serial 0            serial 1            serial 2
//!                                |##|###|#|.......|   |####|##|--cursor                 |
//!   a message takes whole strides; one that does not fit the rest of a buffer goes to the start of the next
//!
//!   requester                                            receiver, at its own position
//!     c := cursor, find the place                          slot of the position published?  take it, clear the slot
//!     intent := c (in its connection area)                 not published, position = cursor? nothing more
//!     mark the slot of c as a start                        not published, a live intent names it? come back later
//!     cursor: c -> behind the message (one CAS)            otherwise it is the hole of a dead requester:
//!     copy                                                    go on at the next marked slot or at the cursor
//!     publish (queue pair, size) in the slot of c
//!     intent := none
//! ```
//!
//! A cursor is the serial of a buffer and a stride in it. Every stride of every posted buffer has a slot. The slot of a
//! reservation is that of the cursor value that it was made from, even if its message went to the next buffer.
//!
//! Invariants:
//! - Only the receiver posts buffers, clears slots, and moves its own position; it believes nothing that it reads.
//! - A reservation is one compare-and-swap of the cursor, so it is whole or absent, and where there is no room the
//!   cursor does not move.
//! - The start of a reservation is marked before the cursor moves past it, with its full cursor value and never
//!   backwards. So the holes of the dead end at marks, and a mark of another round is not mistaken for one.
//! - An intent is stored before the swap and removed after the publication. So for a position that the cursor has
//!   passed, either its slot is published, or a live intent names it, or its requester is dead. The receiver looks at
//!   the slot again after the intents.
//!
//! A requester that dies before the swap leaves a mark that says the truth. One that dies after it leaves a hole of known
//! length. One that dies after the publication leaves a message. One that is stopped between swap and publication holds
//! up the receiver at its position, as long as it lives and its connection is not quiesced.

use std::collections::VecDeque;

use crate::primitive::Memory;
use crate::ring::Hostile;

/// Bytes of the shared head of an append queue: cursor and count of posted buffers, each on lines of its own.
const HEAD_SIZE: u64 = 4096;
const CURSOR: u64 = 0;
const POSTED: u64 = 128;
/// Bytes of a buffer's descriptor: serial + 1, region, offset, strides, first slot.
const DESCRIPTOR_SIZE: u64 = 64;
/// Bytes of a slot: mark, publication.
const SLOT_SIZE: u64 = 16;
/// Bits of a cursor that count strides.
const STRIDE_BITS: u32 = 24;
/// Most strides of one buffer.
pub(crate) const STRIDES_MAX: u64 = 1 << (STRIDE_BITS - 1);
const PUBLISHED: u64 = 1 << 63;
/// The message lies at the start of the next buffer.
const IN_NEXT: u64 = 1 << 62;
/// Longest message, which shares a word with the queue pair.
pub(crate) const MESSAGE_SIZE_MAX: u32 = (1 << 30) - 1;

/// How large the parts of an append queue are; both sides know it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct AppendLayout {
    /// Most posted buffers.
    pub(crate) capacity: u32,
    /// Strides of all posted buffers together; a power of two.
    pub(crate) slots: u64,
    /// Bytes.
    pub(crate) stride: u32,
}

/// A place in the sequence of buffers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Cursor {
    serial: u64,
    stride: u64,
}

/// A posted buffer as the requesters see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Buffer {
    /// Index of its region.
    pub(crate) region: u32,
    /// Bytes from the region's start.
    pub(crate) offset: u64,
    /// Length in strides.
    pub(crate) strides: u64,
    first_slot: u64,
}

/// Where a message goes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reservation {
    slot: u64,
    in_next: bool,
    /// Into which buffer.
    pub(crate) buffer: Buffer,
    /// Bytes from the start of that buffer.
    pub(crate) offset: u64,
}

/// Why there is no reservation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// No posted buffer has room.
    NoBuffer,
    /// The message is longer than a whole buffer.
    TooLong,
    /// The receiver wrote something that no honest one writes.
    Hostile,
}

impl AppendLayout {
    /// Bytes of shared memory, or `None` if the numbers cannot be right.
    pub(crate) fn size(&self) -> Option<u64> {
        let valid = self.capacity > 0
            && self.stride > 0
            && self.slots.is_power_of_two()
            && self.slots <= 1 << 32;
        valid.then(|| self.slots_start() + self.slots * SLOT_SIZE)
    }

    fn slots_start(&self) -> u64 {
        HEAD_SIZE + u64::from(self.capacity) * DESCRIPTOR_SIZE
    }

    fn descriptor(&self, serial: u64) -> u64 {
        HEAD_SIZE + (serial % u64::from(self.capacity)) * DESCRIPTOR_SIZE
    }

    fn mark(&self, slot: u64) -> u64 {
        self.slots_start() + (slot & (self.slots - 1)) * SLOT_SIZE
    }

    fn publication(&self, slot: u64) -> u64 {
        self.mark(slot) + 8
    }

    fn strides(&self, size: u32) -> u64 {
        u64::from(size.div_ceil(self.stride)).max(1)
    }
}

impl Cursor {
    fn pack(self) -> u64 {
        self.serial << STRIDE_BITS | self.stride
    }

    fn unpack(word: u64) -> Self {
        Self {
            serial: word >> STRIDE_BITS,
            stride: word & ((1 << STRIDE_BITS) - 1),
        }
    }

    /// As it stands in intents and marks, where 0 means none.
    fn named(self) -> u64 {
        self.pack() + 1
    }

    /// Behind `strides` more strides of a buffer that has `of`.
    fn behind(self, strides: u64, of: u64) -> Self {
        let stride = self.stride + strides;
        if stride >= of {
            Self {
                serial: self.serial + 1,
                stride: 0,
            }
        } else {
            Self { stride, ..self }
        }
    }
}

/// Reserves room for a message of `size` bytes. `intents` holds the requester's intent in the word at `intent`.
pub(crate) fn reserve(
    layout: AppendLayout,
    memory: &impl Memory,
    intents: &impl Memory,
    intent: u64,
    size: u32,
) -> Result<Reservation, Refusal> {
    let strides = layout.strides(size);
    loop {
        let word = memory.load(CURSOR);
        let from = Cursor::unpack(word);
        match place(layout, memory, from, strides) {
            Ok((buffer, here, first_slot)) => {
                let in_next = here != from;
                intents.store(intent, from.named());
                crate::step::step("append: intent stored");
                let slot = first_slot + from.stride;
                mark(memory, layout.mark(slot), from.named());
                crate::step::step("append: start marked");
                if memory
                    .compare_exchange(CURSOR, word, here.behind(strides, buffer.strides).pack())
                    .is_ok()
                {
                    crate::step::step("append: reserved");
                    let offset = here.stride * u64::from(layout.stride);
                    return Ok(Reservation {
                        slot,
                        in_next,
                        buffer,
                        offset,
                    });
                }
            }
            // What was read may have been replaced while others moved the cursor; then it means nothing.
            Err(_) if memory.load(CURSOR) != word => {}
            Err(refusal) => {
                intents.store(intent, 0);
                return Err(refusal);
            }
        }
    }
}

/// Where a message of `strides` goes that finds the cursor at `from`: its buffer, its place, and the first slot of the
/// buffer of `from`.
fn place(
    layout: AppendLayout,
    memory: &impl Memory,
    from: Cursor,
    strides: u64,
) -> Result<(Buffer, Cursor, u64), Refusal> {
    let posted = memory.load(POSTED);
    if from.serial >= posted {
        return if from.serial > posted {
            Err(Refusal::Hostile)
        } else {
            Err(Refusal::NoBuffer)
        };
    }
    let buffer = read_descriptor(layout, memory, from.serial).ok_or(Refusal::Hostile)?;
    if from.stride >= buffer.strides {
        return Err(Refusal::Hostile);
    }
    if strides <= buffer.strides - from.stride {
        return Ok((buffer, from, buffer.first_slot));
    }
    if from.stride == 0 {
        return Err(Refusal::TooLong);
    }
    let next = Cursor {
        serial: from.serial + 1,
        stride: 0,
    };
    if next.serial >= posted {
        return Err(Refusal::NoBuffer);
    }
    let first_slot = buffer.first_slot;
    let buffer = read_descriptor(layout, memory, next.serial).ok_or(Refusal::Hostile)?;
    if strides > buffer.strides {
        Err(Refusal::TooLong)
    } else {
        Ok((buffer, next, first_slot))
    }
}

fn read_descriptor(layout: AppendLayout, memory: &impl Memory, serial: u64) -> Option<Buffer> {
    let at = layout.descriptor(serial);
    let named = memory.load(at);
    let buffer = Buffer {
        region: u32::try_from(memory.load(at + 8)).ok()?,
        offset: memory.load(at + 16),
        strides: memory.load(at + 24),
        first_slot: memory.load(at + 32),
    };
    (named == serial + 1 && buffer.strides > 0 && buffer.strides <= STRIDES_MAX).then_some(buffer)
}

/// Raises the mark to `named`. Never lowers it: a requester that slept for a round must not hide a later start.
fn mark(memory: &impl Memory, at: u64, named: u64) {
    let mut found = memory.load(at);
    while found < named {
        match memory.compare_exchange(at, found, named) {
            Ok(_) => return,
            Err(now) => found = now,
        }
    }
}

/// Shows the receiver a message that was copied to where `reservation` says.
pub(crate) fn publish(
    layout: AppendLayout,
    memory: &impl Memory,
    intents: &impl Memory,
    intent: u64,
    reservation: &Reservation,
    queue_pair: u32,
    size: u32,
) {
    assert!(size <= MESSAGE_SIZE_MAX);
    let flags = if reservation.in_next {
        PUBLISHED | IN_NEXT
    } else {
        PUBLISHED
    };
    memory.store(
        layout.publication(reservation.slot),
        flags | u64::from(size) << 32 | u64::from(queue_pair),
    );
    crate::step::step("append: published");
    intents.store(intent, 0);
}

/// What the receiver finds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Arrival {
    /// A message.
    Message {
        /// What the receiver called the buffer.
        wr_id: u64,
        /// For which of its queue pairs.
        queue_pair: u32,
        /// Bytes from the start of the buffer.
        offset: u64,
        /// Length in bytes.
        size: u32,
    },
    /// The buffer has taken its last message.
    Consumed {
        /// What the receiver called the buffer.
        wr_id: u64,
    },
}

/// The receiver's private side.
#[derive(Debug)]
pub(crate) struct AppendQueue {
    layout: AppendLayout,
    /// Posted and not consumed, oldest first: what the receiver called it, its strides and first slot.
    buffers: VecDeque<Posted>,
    /// Buffers posted ever.
    posted: u64,
    /// First slot of the next buffer.
    next_slot: u64,
    position: Cursor,
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
            found: VecDeque::new(),
        }
    }

    /// The shape that requesters must know.
    pub(crate) fn layout(&self) -> AppendLayout {
        self.layout
    }

    /// Whether buffers of these numbers of strides can be posted now.
    pub(crate) fn has_room(&self, strides: impl ExactSizeIterator<Item = u64>) -> bool {
        let oldest = self
            .buffers
            .front()
            .map_or(self.next_slot, |buffer| buffer.first_slot);
        self.buffers.len() + strides.len() <= self.layout.capacity as usize
            && self.next_slot - oldest + strides.sum::<u64>() <= self.layout.slots
    }

    /// Posts a buffer behind the others; `has_room` was asked.
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

    /// Whether something may have arrived. Cheap.
    pub(crate) fn is_empty(&self, memory: &impl Memory) -> bool {
        self.found.is_empty() && memory.load(CURSOR) == self.position.pack()
    }

    /// The next arrival. `is_claimed(named)` says whether the intent of a live requester is `named`.
    pub(crate) fn next(
        &mut self,
        memory: &impl Memory,
        is_claimed: impl Fn(u64) -> bool,
    ) -> Result<Option<Arrival>, Hostile> {
        loop {
            if let Some(found) = self.found.pop_front() {
                return Ok(Some(found));
            }
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
                    return Ok(None);
                }
                // The publication comes before the end of the intent, so one that was missed above is seen now.
                word = memory.load(publication);
            }
            if word & PUBLISHED == 0 {
                self.move_to(self.hole_end(memory, cursor));
            } else {
                memory.store(publication, 0);
                self.take(word)?;
            }
        }
    }

    /// Takes the message whose publication is `word`, reserved from the own position.
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

    /// Where the hole at the own position ends: at the next start, which was marked, or at the cursor. A reservation
    /// ends in its buffer or in the next.
    fn hole_end(&self, memory: &impl Memory, cursor: Cursor) -> Cursor {
        let mut at = self.position;
        for buffer in self.buffers.iter().take(2) {
            while at.stride < buffer.strides {
                if at == cursor {
                    return cursor;
                }
                let is_start =
                    memory.load(self.layout.mark(buffer.first_slot + at.stride)) == at.named();
                if is_start && at != self.position {
                    return at;
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

    /// Moves the own position, past the ends of buffers if need be.
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

#[cfg(all(test, not(loom)))]
mod tests;

#[cfg(all(test, loom))]
mod models;
