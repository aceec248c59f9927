//! The retire chain: blocks that only snapshots of earlier versions reach, oldest first, on the medium.
//!
//! ```text
//!   table of structures ─▶ head chunk ─▶ ... ─▶ tail chunk          chunk: link, 127 entries
//!                          from                 to                  entry: unit, power of two of the units
//! ```
//!
//! A block goes into the chain in the transaction that unlinks it, and is freed by an operation of its own. A crash
//! therefore leaves no used block outside all versions, and no free block in the current version. No reader holds the
//! chain up: a snapshot whose blocks were freed and used again ends.

use super::tag::word_at;
use crate::space::{Draft, SpaceFault, order_of};
use crate::wire::{Pointer, UNIT_SIZE};

/// Bytes of a chunk.
pub(super) const CHUNK_SIZE: u64 = 1024;
/// Entries of a chunk.
pub(super) const CHUNK_ENTRIES: u32 = CHUNK_SIZE as u32 / 8 - 1;

/// The ends of the chain.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct RetireChain {
    /// The chunk with the oldest entry, and the chunk that takes the next entry.
    pub head: Pointer,
    pub tail: Pointer,
    /// The index of the oldest entry in its chunk, and of the next entry in the tail.
    pub from: u32,
    pub to: u32,
    /// Units of all blocks in the chain.
    pub units: u64,
}

fn units_of(size: u64) -> u64 {
    1 << order_of(size)
}

fn entry_place(chunk: Pointer, index: u32) -> u64 {
    chunk.offset() + 8 + u64::from(index) * 8
}

impl RetireChain {
    /// Adds a block at the end.
    pub fn push(
        &mut self,
        draft: &mut Draft<'_>,
        (pointer, size): (Pointer, u64),
    ) -> Result<(), SpaceFault> {
        if self.tail.is_null() || self.to == CHUNK_ENTRIES {
            let chunk = draft.allocate(CHUNK_SIZE)?;
            draft.write_word(chunk.offset(), 0);
            match self.tail.is_null() {
                true => (self.head, self.from) = (chunk, 0),
                false => draft.write_word(self.tail.offset(), chunk.word()),
            }
            (self.tail, self.to) = (chunk, 0);
        }
        let word = pointer.unit() << 8 | u64::from(order_of(size));
        draft.write_word(entry_place(self.tail, self.to), word);
        self.to += 1;
        self.units += units_of(size);
        Ok(())
    }

    /// Frees the oldest blocks of the head chunk, at most `limit`. `bytes` is the content of the chunk. Returns the
    /// number of freed blocks.
    pub fn free_oldest(
        &mut self,
        draft: &mut Draft<'_>,
        bytes: &[u8],
        limit: u32,
    ) -> Result<u32, SpaceFault> {
        let is_tail = self.head == self.tail;
        let end = if is_tail { self.to } else { CHUNK_ENTRIES };
        let upto = end.min(self.from.saturating_add(limit));
        let mut freed = 0;
        while self.from < upto {
            let entry = word_at(bytes, 1 + self.from as usize);
            let (unit, order) = (entry >> 8, entry & 0xff);
            let pointer = Pointer::new(unit, 0);
            // A damaged entry frees nothing: no block is that large.
            let size = UNIT_SIZE << order.min(30);
            draft.free(pointer, size)?;
            self.units = self.units.saturating_sub(units_of(size));
            self.from += 1;
            freed += 1;
        }
        if self.from == end {
            let next = if is_tail { 0 } else { word_at(bytes, 0) };
            draft.free(self.head, CHUNK_SIZE)?;
            (self.head, self.from) = (Pointer::from_word(next), 0);
            if is_tail {
                *self = Self::default();
            }
        }
        Ok(freed)
    }

    /// The blocks that wait in a chunk, with their sizes, and the chunk after it. `bytes` is the content of the chunk.
    pub fn entries(&self, chunk: Pointer, bytes: &[u8]) -> (Vec<(Pointer, u64)>, Pointer) {
        let from = if chunk == self.head { self.from } else { 0 };
        let to = match chunk == self.tail {
            true => self.to.min(CHUNK_ENTRIES),
            false => CHUNK_ENTRIES,
        };
        let entry = |index: u32| {
            let word = word_at(bytes, 1 + index as usize);
            (
                Pointer::new(word >> 8 & ((1 << 40) - 1), 0),
                UNIT_SIZE << (word & 0xff).min(30),
            )
        };
        let next = match chunk == self.tail {
            true => Pointer::NULL,
            false => Pointer::from_word(word_at(bytes, 0)),
        };
        ((from..to).map(entry).collect(), next)
    }
}
