//! The memory of a domain as its writer knows it: the bytes as they will be when everything staged is applied, the free
//! blocks, and the open transaction.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use stonecast_base::{Span, mutant};

use super::allocator::{Allocator, Block, SpaceFault, order_of};
use super::image::{Image, Undo};
use super::recall::Recall;
use crate::shapes::{Place, Places};
use crate::wire::{Entries, Pointer, UNIT_SIZE};

/// Bytes of the header of an entry.
const ENTRY_HEADER_SIZE: usize = 8;
/// Bytes of an entry of one word.
const WORD_ENTRY_SIZE: usize = ENTRY_HEADER_SIZE + 8;

/// The open transaction of a writer, and everything that it rests on.
///
/// An operation is executed before it is logged. The blocks and the log space that it needs are therefore known, and
/// taken, before anything is acknowledged: a second execution of the same operations, in the same order and in one
/// transaction, takes the same blocks.
///
/// Blocks that the open transaction has taken are *fresh*: no reader reaches them before it is applied. Their final
/// content is written in one entry in front of everything that links them, however often they change. Blocks that the
/// transaction frees are used again only by later transactions. Entries in order are the exception: they are stored
/// after the fresh blocks, one after the other.
#[derive(Clone, Debug)]
pub struct Workspace {
    allocator: Allocator,
    image: Image,
    /// Log sequence number of the last operation.
    lsn: u64,
    /// The changes of the open transaction in blocks that readers reach, in order.
    entries: Entries,
    /// The content of fresh blocks, by their offset.
    fresh: BTreeMap<u64, FreshBlock>,
    /// Bytes of the entries of fresh blocks.
    fresh_size: usize,
    freed: Vec<Block>,
    /// Blocks that the open transaction has taken and freed. No reader ever finds them, and another block in their
    /// place might have the same pointer.
    unused: Vec<Block>,
    /// Words of bits that the open transaction changes.
    bits: BTreeMap<u64, u64>,
    /// Words that are stored behind everything else.
    last: BTreeMap<u64, u64>,
    /// The words of lines before the open transaction, by their place.
    before: BTreeMap<u64, u64>,
    drafted: Drafted,
}

/// The writes of a draft. They are empty without a draft, and keep their memory for the next one.
#[derive(Clone, Debug, Default)]
struct Drafted {
    entries: Entries,
    /// The words that were written, as the writer knew them before.
    undo: Undo,
}

/// The content of a block as far as it was written.
#[derive(Clone, Debug, PartialEq, Eq)]
struct FreshBlock {
    block: Block,
    bytes: Vec<u8>,
}

/// The changes of one operation. A draft that is dropped changes nothing.
#[derive(Debug)]
pub struct Draft<'a> {
    workspace: &'a mut Workspace,
    lsn: u64,
    /// Entries that are stored after all fresh blocks, also where they change one.
    in_order: Entries,
    taken: BTreeSet<Block>,
    freed: Vec<Block>,
    /// Blocks that only older snapshots reach.
    retired: Vec<(Pointer, u64)>,
    last: BTreeMap<u64, u64>,
    /// The words of lines before, as far as they were read.
    before: BTreeMap<u64, u64>,
}

fn span_of(block: Block) -> Span {
    Span::new(block.unit * UNIT_SIZE, block.units() * UNIT_SIZE)
}

fn holds(span: Span, offset: u64) -> bool {
    (span.offset..span.offset + span.size).contains(&offset)
}

/// The words of bytes, each with its place.
fn words_of(offset: u64, bytes: &[u8]) -> impl Iterator<Item = (u64, u64)> {
    let words = bytes.as_chunks::<8>().0.iter();
    let words = words.map(|word| u64::from_le_bytes(*word));
    (offset..).step_by(8).zip(words)
}

impl Workspace {
    /// A workspace without staged operations.
    pub fn new(allocator: Allocator) -> Self {
        Self {
            allocator,
            image: Image::default(),
            lsn: 0,
            entries: Entries::default(),
            fresh: BTreeMap::new(),
            fresh_size: 0,
            freed: Vec::new(),
            unused: Vec::new(),
            bits: BTreeMap::new(),
            last: BTreeMap::new(),
            before: BTreeMap::new(),
            drafted: Drafted::default(),
        }
    }

    /// Begins an operation. `lsn` is the number of its record, or, for an operation that the back-end executes, of its
    /// transaction. It is the generation of the blocks that the operation takes.
    ///
    /// # Panics
    /// Panics if an operation with a later number was committed.
    pub fn draft(&mut self, lsn: u64) -> Draft<'_> {
        assert!(lsn >= self.lsn, "record {lsn} behind {}", self.lsn);
        Draft {
            workspace: self,
            lsn,
            in_order: Entries::default(),
            taken: BTreeSet::new(),
            freed: Vec::new(),
            retired: Vec::new(),
            last: BTreeMap::new(),
            before: BTreeMap::new(),
        }
    }

    /// Bytes of the body of the open transaction.
    pub fn open_size(&self) -> usize {
        let words = self.bits.len() + self.last.len();
        self.entries.body().len() + self.fresh_size + words * WORD_ENTRY_SIZE
    }

    /// Closes the open transaction: its entries, in the order in which they are applied. Bits come first, since only
    /// writers read them; then fresh blocks, then the links to them, then the words that change everything at once.
    pub fn close(&mut self) -> Entries {
        let is_annulled = self.is_annulled();
        self.before.clear();
        if is_annulled {
            self.entries = Entries::default();
            self.bits.clear();
        }
        let mut entries = Entries::default();
        for (place, word) in std::mem::take(&mut self.bits) {
            entries.push_word(place, word);
        }
        let links = std::mem::take(&mut self.entries);
        let last = std::mem::take(&mut self.last);
        if mutant!(RootBeforeTable) {
            last.iter()
                .for_each(|(place, word)| entries.push_word(*place, *word));
        }
        self.fresh_size = 0;
        for (offset, FreshBlock { bytes, .. }) in std::mem::take(&mut self.fresh) {
            if !bytes.is_empty() {
                entries.push(offset, &bytes);
            }
        }
        entries.append(&links);
        for (place, word) in last {
            entries.push_word(place, word);
        }
        for block in self.freed.drain(..).chain(self.unused.drain(..)) {
            self.allocator.give_back(block);
        }
        self.image.note_published();
        entries
    }

    /// Whether the open transaction leaves everything as it was, like a push and the pop behind it: nothing is fresh or
    /// freed, and each word that it writes is known to have held the same before the transaction. Any further change in
    /// the transaction makes the answer false.
    fn is_annulled(&self) -> bool {
        let has_blocks = !self.fresh.is_empty() || !self.freed.is_empty();
        if has_blocks || !self.last.is_empty() {
            return false;
        }
        let is_known =
            |place: &u64| self.before.contains_key(place) || mutant!(AnnulledBehindOthers);
        // A transaction of many operations usually has an unknown word, and then need not be put in order.
        let written = || {
            self.entries
                .iter()
                .flat_map(|entry| words_of(entry.offset, entry.bytes))
        };
        if !written().all(|(place, _)| is_known(&place)) {
            return false;
        }
        let last: BTreeMap<u64, u64> = written().collect();
        let is_as_before = |(place, word): (&u64, &u64)| {
            self.before.get(place).is_none_or(|before| before == word)
        };
        last.iter().all(is_as_before)
    }

    /// Takes the places of the next step of a walk. Returns those that have to be read; `None`: all of them are known,
    /// and their bytes are at hand.
    pub(crate) fn ask(&mut self, recall: &mut Recall, places: &[Place]) -> Option<Places> {
        recall.ask(&mut self.image, places)
    }

    /// Takes bytes of the pool, and puts staged words over them.
    pub(crate) fn take(&mut self, recall: &mut Recall, read: &[Vec<u8>]) {
        recall.take(&mut self.image, read);
    }

    /// Notes that the oldest transaction that was closed and not applied is applied, so the pool has it.
    pub fn note_applied(&mut self) {
        self.image.note_applied();
    }

    /// Forgets the words of the pool, those of closed transactions included: the caller puts the words of transactions
    /// that are not applied over the words that it reads from now on.
    pub fn forget(&mut self) {
        self.image.forget();
    }

    /// Adds a slab that the back-end has given, all of whose units are free.
    pub fn add_empty_slab(&mut self, slab: u64) {
        self.allocator.add_empty_slab(slab);
    }

    /// The free blocks.
    pub fn allocator(&self) -> &Allocator {
        &self.allocator
    }

    /// The fresh block that holds `offset`.
    fn fresh_at(&self, offset: u64) -> Option<&FreshBlock> {
        let (_, fresh) = self.fresh.range(..=offset).next_back()?;
        holds(span_of(fresh.block), offset).then_some(fresh)
    }

    /// Makes the entries of the draft a part of the open transaction.
    fn take_drafted(&mut self) {
        let mut drafted = std::mem::take(&mut self.drafted);
        if self.fresh.is_empty() {
            self.entries.append(&drafted.entries);
            drafted.entries.clear();
        }
        for entry in drafted.entries.iter() {
            if !self.write_fresh(entry.offset, entry.bytes) {
                self.entries.push(entry.offset, entry.bytes);
            }
        }
        drafted.entries.clear();
        drafted.undo.clear();
        self.drafted = drafted;
    }

    /// Writes to a fresh block. Returns false if no fresh block holds the place.
    fn write_fresh(&mut self, offset: u64, bytes: &[u8]) -> bool {
        let Some((start, fresh)) = self.fresh.range_mut(..=offset).next_back() else {
            return false;
        };
        let at = (offset - start) as usize;
        if at as u64 >= span_of(fresh.block).size {
            return false;
        }
        let end = at + bytes.len();
        if fresh.bytes.len() < end {
            self.fresh_size += match fresh.bytes.is_empty() {
                true => ENTRY_HEADER_SIZE + end,
                false => end - fresh.bytes.len(),
            };
            fresh.bytes.resize(end, 0);
        }
        fresh.bytes[at..end].copy_from_slice(bytes);
        true
    }
}

impl Draft<'_> {
    /// Takes a block for `size` bytes.
    ///
    /// # Errors
    /// [`SpaceFault::NoSpace`]: the operation cannot be executed, and the draft is dropped.
    pub fn allocate(&mut self, size: u64) -> Result<Pointer, SpaceFault> {
        let block = self.workspace.allocator.take(size)?;
        self.taken.insert(block);
        let generation = match mutant!(GenerationNotRaised) {
            true => 0,
            false => self.lsn,
        };
        Ok(Pointer::new(block.unit, generation))
    }

    /// Frees a block for `size` bytes that is no longer linked.
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
        let is_part = |fresh: &FreshBlock| fresh.block != block;
        let is_taken = self.taken.contains(&block)
            || self.workspace.allocator.is_taken(block)
                && !self
                    .workspace
                    .fresh_at(pointer.offset())
                    .is_some_and(is_part);
        if !is_taken || self.freed.iter().any(overlaps) {
            return Err(SpaceFault::NotTaken { pointer, size });
        }
        self.freed.push(block);
        Ok(())
    }

    /// Frees a block that older snapshots may still reach. A fresh block is free at once, since no snapshot has it; any
    /// other block goes into the retire chain.
    ///
    /// # Errors
    /// The errors of [`Draft::free`].
    pub fn retire(&mut self, pointer: Pointer, size: u64) -> Result<(), SpaceFault> {
        if self.is_fresh(pointer) || mutant!(RetiredAtOnce) {
            return self.free(pointer, size);
        }
        self.retired.push((pointer, size));
        Ok(())
    }

    /// The blocks that were retired since the last call, each with its size.
    pub(crate) fn take_retired(&mut self) -> Vec<(Pointer, u64)> {
        std::mem::take(&mut self.retired)
    }

    /// Whether blocks were retired.
    pub(crate) fn has_retired(&self) -> bool {
        !self.retired.is_empty()
    }

    /// Whether no reader can have reached the block: the open transaction has taken it.
    pub fn is_fresh(&self, pointer: Pointer) -> bool {
        let unit = pointer.unit();
        let is_own = self.taken.iter().any(|block| block.unit == unit);
        is_own || self.workspace.fresh.contains_key(&pointer.offset())
    }

    /// The generation of the blocks that the draft takes.
    pub fn lsn(&self) -> u64 {
        self.lsn
    }

    /// Stores whole words.
    pub fn write(&mut self, offset: u64, bytes: &[u8]) {
        self.note_written(offset, bytes);
        self.workspace.drafted.entries.push(offset, bytes);
    }

    /// Stores the first words of a new block of `size` bytes. No walk interprets the rest, whatever the pool holds
    /// there, so the writer knows the rest as zeros and never reads it.
    pub fn write_new(&mut self, offset: u64, bytes: &[u8], size: u64) {
        let rest = vec![0; size as usize - bytes.len()];
        self.note_written(offset + bytes.len() as u64, &rest);
        self.write(offset, bytes);
    }

    /// Stores a word.
    pub fn write_word(&mut self, offset: u64, word: u64) {
        self.write(offset, &word.to_le_bytes());
    }

    /// Stores whole words after all that was stored before, and after all fresh blocks, even if they lie in one: a
    /// reader may have reached the block by an earlier entry.
    pub fn write_in_order(&mut self, offset: u64, bytes: &[u8]) {
        if mutant!(LinksMerged) {
            return self.write(offset, bytes);
        }
        self.note_written(offset, bytes);
        self.in_order.push(offset, bytes);
    }

    /// Stores a word behind everything else of the transaction: the block that it names is whole, and of several such
    /// words of one place the last one counts.
    pub fn write_last(&mut self, offset: u64, word: u64) {
        self.note_written(offset, &word.to_le_bytes());
        self.last.insert(offset, word);
    }

    /// Stores whole words over words that were read. A transaction that leaves all of its words as they were is empty.
    pub fn write_over(&mut self, offset: u64, before: &[u8], bytes: &[u8]) {
        for (place, word) in words_of(offset, before) {
            self.before.entry(place).or_insert(word);
        }
        self.write(offset, bytes);
    }

    fn note_written(&mut self, offset: u64, bytes: &[u8]) {
        let Workspace { image, drafted, .. } = &mut *self.workspace;
        image.write(offset, bytes, &mut drafted.undo);
    }

    /// The node that fills a place, if it is known in the decoded form `T`.
    pub(crate) fn decoded<T: 'static>(&mut self, span: Span) -> Option<Rc<T>> {
        self.workspace.image.decoded(span)
    }

    /// The bytes of a place that lies in one node, if all of its words are known.
    pub(crate) fn known(&mut self, span: Span) -> Option<&[u8]> {
        self.workspace.image.known(span)
    }

    /// Keeps the decoded form of the node that fills `span` until the node changes.
    pub(crate) fn keep_decoded<T: 'static>(&mut self, span: Span, node: T) {
        self.workspace.image.keep_decoded(span, node);
    }

    /// Takes the places of the next step of a walk, as [`Workspace::ask`] does, with the words of this draft.
    pub(crate) fn ask(&mut self, recall: &mut Recall, places: &[Place]) -> Option<Places> {
        self.workspace.ask(recall, places)
    }

    /// Takes bytes of the pool, as [`Workspace::take`] does, and also puts the words of this draft over them.
    pub(crate) fn take(&mut self, recall: &mut Recall, read: &[Vec<u8>]) {
        self.workspace.take(recall, read);
    }

    /// Bytes that the draft adds to the body of the open transaction, at most.
    pub fn size_max(&self) -> usize {
        let blocks = self.taken.iter().chain(&self.freed);
        // A block of many units has many words of bits. One of few units may have two.
        let words: u64 = blocks.map(|block| block.units().div_ceil(64) + 1).sum();
        let mut size = (words as usize + self.last.len()) * WORD_ENTRY_SIZE;
        size += self.in_order.body().len();
        // A fresh block is written up to the last word that was ever written to it.
        let mut ends: BTreeMap<u64, usize> = BTreeMap::new();
        for entry in self.workspace.drafted.entries.iter() {
            let of_draft = self.taken.iter().map(|block| span_of(*block));
            let fresh = of_draft
                .chain(
                    self.workspace
                        .fresh_at(entry.offset)
                        .map(|fresh| span_of(fresh.block)),
                )
                .find(|block| holds(*block, entry.offset));
            match fresh {
                None => size += ENTRY_HEADER_SIZE + entry.bytes.len(),
                Some(block) => {
                    let end = ends.entry(block.offset).or_default();
                    let here = (entry.offset - block.offset) as usize + entry.bytes.len();
                    *end = here.max(*end);
                }
            }
        }
        for (offset, end) in ends {
            let known = self.workspace.fresh.get(&offset);
            let known = known.map_or(0, |fresh| fresh.bytes.len());
            size += end.saturating_sub(known) + ENTRY_HEADER_SIZE;
        }
        size
    }

    /// Makes the draft a part of the open transaction.
    pub fn commit(mut self) {
        assert!(self.retired.is_empty(), "retired blocks are in the chain");
        let (taken, freed) = (
            std::mem::take(&mut self.taken),
            std::mem::take(&mut self.freed),
        );
        let workspace = &mut *self.workspace;
        workspace.lsn = self.lsn;
        for &block in &taken {
            let bytes = Vec::new();
            let fresh = FreshBlock { block, bytes };
            workspace.fresh.insert(span_of(block).offset, fresh);
        }
        let taken = taken.iter().map(|block| (*block, true));
        for (block, is_used) in taken.chain(freed.iter().map(|block| (*block, false))) {
            let words = workspace.allocator.mark(block, is_used);
            workspace.bits.extend(words);
        }
        workspace.take_drafted();
        workspace.entries.append(&self.in_order);
        workspace.last.extend(std::mem::take(&mut self.last));
        for (place, word) in std::mem::take(&mut self.before) {
            workspace.before.entry(place).or_insert(word);
        }
        for block in freed {
            match workspace.fresh.remove(&span_of(block).offset) {
                // These bytes were never written.
                Some(FreshBlock { bytes, .. }) => {
                    if !bytes.is_empty() {
                        workspace.fresh_size -= ENTRY_HEADER_SIZE + bytes.len();
                    }
                    workspace.unused.push(block);
                }
                None => workspace.freed.push(block),
            }
        }
    }
}

impl Drop for Draft<'_> {
    fn drop(&mut self) {
        for block in std::mem::take(&mut self.taken) {
            self.workspace.allocator.give_back(block);
        }
        let Workspace { image, drafted, .. } = &mut *self.workspace;
        image.restore(&mut drafted.undo);
        drafted.entries.clear();
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
    fn a_freed_block_is_used_again_by_a_later_transaction_under_another_generation() {
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
        workspace.draft(7).allocate(8192).unwrap_err();
        workspace.close();
        let again = workspace.draft(7).allocate(8192).unwrap();
        assert_eq!(again.unit(), first.unit());
        assert_ne!(again, first);
    }

    /// Needs the fresh blocks: a reader that finds the link finds the last content, whatever was written when.
    #[test]
    fn a_fresh_block_is_written_once_and_before_the_first_link_to_it() {
        let mut workspace = workspace();
        let mut draft = workspace.draft(5);
        let block = draft.allocate(128).unwrap();
        draft.write(block.offset(), &[1; 16]);
        draft.write_word(1 << 14, block.word());
        draft.write_last(8, 1);
        draft.commit();
        let mut draft = workspace.draft(6);
        assert!(draft.is_fresh(block));
        draft.write_word(block.offset() + 24, 2);
        draft.write_last(8, 3);
        let size = draft.size_max();
        let before = workspace_size(&draft);
        draft.commit();
        assert!(workspace.open_size() <= before + size);
        let size = workspace.open_size();
        let entries = workspace.close();
        assert_eq!(entries.body().len(), size);
        let offsets: Vec<(u64, usize)> = entries
            .iter()
            .map(|entry| (entry.offset, entry.bytes.len()))
            .collect();
        assert_eq!(offsets[1..], [(block.offset(), 32), (1 << 14, 8), (8, 8)]);
        assert!(!workspace.draft(7).is_fresh(block));
    }

    fn workspace_size(draft: &Draft<'_>) -> usize {
        draft.workspace.open_size()
    }

    /// Needs the blocks that a draft has taken among those that may be freed, and their rest until the transaction is
    /// closed.
    #[test]
    fn a_block_that_is_taken_and_freed_at_once_leaves_nothing_and_is_not_taken_again_meanwhile() {
        let mut workspace = workspace();
        let before = workspace.allocator().free_units();
        let mut draft = workspace.draft(5);
        let block = draft.allocate(128).unwrap();
        draft.write(block.offset(), &[1; 16]);
        draft.retire(block, 128).unwrap();
        draft.commit();
        // The back-end gives all operations that a writer has left the same generation.
        let mut draft = workspace.draft(5);
        assert_ne!(draft.allocate(128), Ok(block));
        drop(draft);
        let changed = workspace.close();
        assert!(changed.iter().all(|entry| entry.bytes == [0; 8]));
        assert_eq!(workspace.allocator().free_units(), before);
    }
}
