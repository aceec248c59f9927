//! What a writer knows about the memory of its domain: the bytes as they will be when everything staged is applied, the free blocks, and the
//! transaction that is open.

use std::collections::BTreeMap;

use stonecast_base::{Span, mutant};

use super::allocator::{Allocator, Block, SpaceFault, order_of};
use crate::wire::{Entries, Pointer};

/// The open transaction of a writer, and everything that it rests on.
///
/// An operation is executed before it is logged. The blocks and the log space that it needs are therefore known, and taken, before anything is
/// acknowledged: whoever executes the same operations again, in the same order, finds room for them.
#[derive(Clone, Debug)]
pub struct Workspace {
    allocator: Allocator,
    /// Words that staged operations have changed, by their place.
    staged: BTreeMap<u64, u64>,
    /// Log sequence number of the last operation.
    lsn: u64,
    entries: Entries,
    /// Words of bits that the open transaction changes.
    bits: BTreeMap<u64, u64>,
}

/// What one operation changes. A draft that is dropped changes nothing.
#[derive(Debug)]
pub struct Draft<'a> {
    workspace: &'a mut Workspace,
    lsn: u64,
    entries: Entries,
    taken: Vec<Block>,
    freed: Vec<Block>,
    is_done: bool,
}

impl Workspace {
    /// A workspace without staged operations.
    pub fn new(allocator: Allocator) -> Self {
        Self {
            allocator,
            staged: BTreeMap::new(),
            lsn: 0,
            entries: Entries::default(),
            bits: BTreeMap::new(),
        }
    }

    /// Begins an operation. `lsn` is the number of its record, or, for an operation that the back-end executes, of its transaction. It is the generation of
    /// the blocks that the operation takes.
    ///
    /// # Panics
    /// If an operation with this number or a later one was committed.
    pub fn draft(&mut self, lsn: u64) -> Draft<'_> {
        assert!(lsn > self.lsn, "record {lsn} behind {}", self.lsn);
        Draft {
            workspace: self,
            lsn,
            entries: Entries::default(),
            taken: Vec::new(),
            freed: Vec::new(),
            is_done: false,
        }
    }

    /// Bytes of the body of the open transaction.
    pub fn open_size(&self) -> usize {
        self.entries.body().len() + self.bits.len() * 16
    }

    /// Closes the open transaction: its entries, in the order in which they are applied. Bits come first, since nobody reads them but writers.
    pub fn close(&mut self) -> Entries {
        let mut entries = Entries::default();
        for (place, word) in std::mem::take(&mut self.bits) {
            entries.push_word(place, word);
        }
        entries.append(&std::mem::take(&mut self.entries));
        entries
    }

    /// Replaces bytes that were read from the pool by what staged operations make of them.
    pub fn patch(&self, span: Span, bytes: &mut [u8]) {
        let first = span.offset / 8 * 8;
        for (&place, word) in self.staged.range(first..span.offset + span.size) {
            for (index, byte) in word.to_le_bytes().into_iter().enumerate() {
                let offset = (place + index as u64).checked_sub(span.offset);
                if let Some(into) = offset.and_then(|offset| bytes.get_mut(offset as usize)) {
                    *into = byte;
                }
            }
        }
    }

    /// Reads a place as it will be when everything staged is applied.
    pub fn view(
        &self,
        span: Span,
        read: &mut dyn FnMut(Span) -> Option<Vec<u8>>,
    ) -> Option<Vec<u8>> {
        let mut bytes = read(span)?;
        self.patch(span, &mut bytes);
        Some(bytes)
    }

    /// Forgets what was staged: everything is applied, so the pool has it.
    pub fn note_applied(&mut self) {
        self.staged.clear();
    }

    /// Adds a slab that the back-end has given, all of whose units are free.
    pub fn add_empty_slab(&mut self, slab: u64) {
        self.allocator.add_empty_slab(slab);
    }

    /// The free blocks.
    pub fn allocator(&self) -> &Allocator {
        &self.allocator
    }
}

impl Draft<'_> {
    /// Takes a block for `size` bytes.
    ///
    /// # Errors
    /// [`SpaceFault::NoSpace`]: the operation cannot be executed, and the draft is dropped.
    pub fn allocate(&mut self, size: u64) -> Result<Pointer, SpaceFault> {
        let block = self.workspace.allocator.take(size)?;
        self.taken.push(block);
        let generation = match mutant!(GenerationNotRaised) {
            true => 0,
            false => self.lsn,
        };
        Ok(Pointer::new(block.unit, generation))
    }

    /// Frees a block for `size` bytes, which nothing links any more.
    ///
    /// # Errors
    /// [`SpaceFault::NotTaken`]: the structure is damaged, and the draft is dropped.
    pub fn free(&mut self, pointer: Pointer, size: u64) -> Result<(), SpaceFault> {
        let block = Block {
            unit: pointer.unit(),
            order: order_of(size),
        };
        let end = block.unit + block.units();
        let overlaps = |other: &Block| other.unit < end && block.unit < other.unit + other.units();
        if !self.workspace.allocator.is_taken(block) || self.freed.iter().any(overlaps) {
            return Err(SpaceFault::NotTaken { pointer, size });
        }
        self.freed.push(block);
        Ok(())
    }

    /// Stores whole words.
    pub fn write(&mut self, offset: u64, bytes: &[u8]) {
        self.entries.push(offset, bytes);
    }

    /// Stores a word.
    pub fn write_word(&mut self, offset: u64, word: u64) {
        self.entries.push_word(offset, word);
    }

    /// Bytes that the draft adds to the body of the open transaction, at most.
    pub fn size_max(&self) -> usize {
        let units = self.taken.iter().chain(&self.freed).map(Block::units);
        // A block of many units has many words of bits. One of few units may have two.
        let words: u64 = units.map(|units| units.div_ceil(64) + 1).sum();
        self.entries.body().len() + 16 * words as usize
    }

    /// Makes the draft a part of the open transaction.
    pub fn commit(mut self) {
        self.is_done = true;
        self.workspace.lsn = self.lsn;
        let workspace = &mut *self.workspace;
        for (blocks, is_used) in [(&self.taken, true), (&self.freed, false)] {
            for block in blocks {
                let words = workspace.allocator.mark(*block, is_used);
                workspace.bits.extend(words);
            }
        }
        // What an operation frees is used again behind its entries, by blocks of another generation.
        for block in self.freed.drain(..) {
            workspace.allocator.give_back(block);
        }
        for entry in self.entries.iter() {
            for (index, word) in entry.bytes.as_chunks::<8>().0.iter().enumerate() {
                let place = entry.offset + index as u64 * 8;
                workspace.staged.insert(place, u64::from_le_bytes(*word));
            }
        }
        workspace.entries.append(&self.entries);
    }
}

impl Drop for Draft<'_> {
    fn drop(&mut self) {
        if !self.is_done {
            for block in self.taken.drain(..) {
                self.workspace.allocator.give_back(block);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::space::SlabGeometry;

    fn workspace() -> Workspace {
        let geometry = SlabGeometry::new(1 << 14, 1 << 14);
        let mut allocator = Allocator::new(geometry);
        allocator.add_slab(0, &vec![0; geometry.bits_size() as usize]);
        Workspace::new(allocator)
    }

    /// Needs the drop of a draft.
    #[test]
    fn an_operation_that_finds_no_room_leaves_no_trace() {
        let mut workspace = workspace();
        let before = workspace.allocator().free_units();
        let mut draft = workspace.draft(5);
        draft.allocate(4096).unwrap();
        draft.write_word(1 << 14, 1);
        draft.allocate(1 << 15).unwrap_err();
        drop(draft);
        assert_eq!(workspace.allocator().free_units(), before);
        assert!(workspace.close().is_empty());
    }

    /// Needs the bits among the entries, and the generation.
    #[test]
    fn a_freed_block_is_used_again_under_another_generation() {
        let mut workspace = workspace();
        let mut draft = workspace.draft(5);
        let first = draft.allocate(8192).unwrap();
        draft.commit();
        let bits: Vec<u64> = workspace.close().iter().map(|entry| entry.offset).collect();
        assert_eq!(bits, [(1 << 14) + 16, (1 << 14) + 24]);
        let mut draft = workspace.draft(6);
        draft.allocate(8192).unwrap_err();
        draft.free(first, 8192).unwrap();
        draft.free(first, 8192).unwrap_err();
        draft.commit();
        let again = workspace.draft(7).allocate(8192).unwrap();
        assert_eq!(again.unit(), first.unit());
        assert_ne!(again, first);
    }

    #[test]
    fn what_was_staged_is_read_before_it_is_applied() {
        let mut workspace = workspace();
        let mut draft = workspace.draft(5);
        draft.write(1 << 14, &[1; 16]);
        draft.write_word((1 << 14) + 8, u64::from_le_bytes([2; 8]));
        draft.commit();
        let mut bytes = [0; 12];
        workspace.patch(Span::new((1 << 14) + 4, 12), &mut bytes);
        assert_eq!(bytes, [1, 1, 1, 1, 2, 2, 2, 2, 2, 2, 2, 2]);
        workspace.note_applied();
        let mut bytes = [0; 8];
        workspace.patch(Span::new(1 << 14, 8), &mut bytes);
        assert_eq!(bytes, [0; 8]);
    }
}
