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
//!     cursor: c -> after the run (one CAS)                 otherwise it is the hole of a dead requester:
//!     copy the messages of the run                            go on at the next marked slot or at the cursor,
//!     publish (queue pair, size) in the slots of all          and clear the slots that are passed
//!       messages but the first, then in the slot of c
//!     intent := none
//! ```
//!
//! Messages that a requester posted together are reserved together, as a run in one buffer: one swap of the cursor, one
//! mark and one intent serve all of them.
//!
//! A cursor is the serial of a buffer and a stride in it. Every stride of every posted buffer has a slot. The slot of
//! the first message of a run is that of the cursor value that the run was reserved from, even if the run went to the
//! next buffer; the other messages have the slots of their places.
//!
//! Invariants:
//! - Only the receiver posts buffers, clears slots, and moves its own position; it trusts nothing that it reads.
//! - A reservation is one compare-and-swap of the cursor, so it is whole or absent. If there is no room, the cursor
//!   does not move.
//! - The start of a reservation is marked before the cursor moves past it, with its full cursor value and never
//!   backwards. So the holes of dead requesters end at marks, and a mark of another round cannot be mistaken for the
//!   end of a hole.
//! - An intent is stored before the swap and removed after the publication. So for the start of a run that the cursor
//!   has passed, either its slot is published, or a live intent names it, or its requester is dead. The receiver reads
//!   the slot again after the intents.
//! - The first message of a run is published last. So the receiver reaches the other messages only when all are
//!   published.
//!
//! A requester that dies before the swap leaves a valid mark. A requester that dies after the swap leaves a hole of
//! known length, and one that dies after the publication leaves its messages. A requester that is stopped between swap
//! and publication blocks the receiver at its position, as long as the requester lives and its connection is not
//! quiesced.

mod receiver;
mod requester;

pub(crate) use receiver::{AppendQueue, Arrival};
pub(crate) use requester::{Refusal, Reservation, finish, publish, reserve};

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
/// The most strides of one buffer.
pub(crate) const STRIDES_MAX: u64 = 1 << (STRIDE_BITS - 1);
const PUBLISHED: u64 = 1 << 63;
/// The message lies at the start of the next buffer.
const IN_NEXT: u64 = 1 << 62;
/// Longest message, which shares a word with the queue pair.
pub(crate) const MESSAGE_SIZE_MAX: u32 = (1 << 30) - 1;

/// The sizes of the parts of an append queue, known to both sides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct AppendLayout {
    /// The most posted buffers.
    pub(crate) capacity: u32,
    /// Strides of all posted buffers together; a power of two.
    pub(crate) slots: u64,
    /// Bytes of a stride.
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
        // A division costs as much as copying a small message.
        match size <= self.stride {
            true => 1,
            false => u64::from(size.div_ceil(self.stride)),
        }
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

    /// The form in intents and marks, where 0 means none.
    fn named(self) -> u64 {
        self.pack() + 1
    }

    /// The cursor `strides` strides further, in a buffer of `of` strides.
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

#[cfg(all(test, not(loom)))]
mod tests;

#[cfg(all(test, loom))]
mod models;
