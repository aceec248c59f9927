//! Ended structures, which are taken apart block by block, from the root down.
//!
//! A *heap* on the medium holds the blocks that are still to be taken apart. An operation takes a few blocks off it,
//! frees them, and puts their parts on it. The heap is a stack, so it stays small: it holds the parts of one block of
//! each level.

use stonecast_base::Span;

use super::item::{ITEM_HEADER_SIZE, ItemReader};
use super::retired::CHUNK_SIZE;
use super::root::{ROOT_LINE_SIZE, Root};
use super::sequence;
use super::structure::Structure;
use super::tag::word_at;
use super::traversal::Stale;
use super::{btree::BTree, hash};
use crate::space::{Draft, SpaceFault};
use crate::wire::Pointer;

/// Scraps of a chunk of a heap.
const CHUNK_SCRAPS: u32 = (CHUNK_SIZE as u32 - 8) / 16;
/// Bits of the word that hold the kind of a scrap; the others hold its numbers.
const CODE_BITS: u32 = 8;

/// The content of a block of an ended structure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    /// A block that names no other blocks.
    Block { size: u64 },
    /// The root line or the line.
    Anchor,
    /// A directory of 2^level words, of which the words from `index` on are left.
    Directory { level: u32, index: u32 },
    /// A segment whose buckets from this one on are left.
    Segment { bucket: u32 },
    /// An item of a hash table or queue.
    Item,
    /// An item of a stack, which names the item below it.
    Stacked,
    /// A node of a tree.
    Node { level: u32 },
    /// A node of a binary search tree.
    BinaryNode { size: u64 },
    /// A tower of a skip list, and those behind it.
    Tower { size: u64 },
    /// A chunk of a queue, with the items from the one with this index on. All items of the queue from there on are
    /// `count`.
    Chunk { index: u32, count: u32 },
}

/// A block of an ended structure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Scrap {
    pub pointer: Pointer,
    pub part: Part,
}

/// The result of taking a scrap apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct TakenApart {
    /// The block is free, and has this size. Otherwise the scrap is one of its own parts.
    pub freed: Option<u64>,
    pub parts: Vec<Scrap>,
}

impl Scrap {
    pub fn new(pointer: Pointer, part: Part) -> Self {
        Self { pointer, part }
    }

    /// All of a structure with an anchor.
    pub fn anchor(pointer: Pointer) -> Self {
        Self::new(pointer, Part::Anchor)
    }

    /// All of a version of a B+tree; none if it has no node.
    pub fn version(root: Root) -> Option<Self> {
        let part = Part::Node { level: root.level };
        (!root.top.is_null()).then(|| Self::new(root.top, part))
    }

    fn words(&self) -> [u64; 2] {
        let (code, number) = match self.part {
            Part::Block { size } => (1, size),
            Part::Anchor => (2, 0),
            Part::Directory { level, index } => (3, u64::from(level) << 32 | u64::from(index)),
            Part::Segment { bucket } => (4, bucket.into()),
            Part::Item => (5, 0),
            Part::Stacked => (6, 0),
            Part::Node { level } => (7, level.into()),
            Part::Chunk { index, count } => (8, u64::from(index) << 32 | u64::from(count)),
            Part::BinaryNode { size } => (9, size),
            Part::Tower { size } => (10, size),
        };
        [self.pointer.word(), number << CODE_BITS | code]
    }

    fn parse([pointer, word]: [u64; 2]) -> Option<Self> {
        let number = word >> CODE_BITS;
        let (high, low) = ((number >> 32) as u32, number as u32);
        let part = match word & ((1 << CODE_BITS) - 1) {
            1 => Part::Block { size: number },
            2 => Part::Anchor,
            3 if high <= hash::LEVEL_MAX => Part::Directory {
                level: high,
                index: low,
            },
            4 => Part::Segment { bucket: low },
            5 => Part::Item,
            6 => Part::Stacked,
            7 if low <= 0xff => Part::Node { level: low },
            8 => Part::Chunk {
                index: high,
                count: low,
            },
            // No node is longer.
            9 if number <= 1024 => Part::BinaryNode { size: number },
            10 if number <= 1024 => Part::Tower { size: number },
            _ => return None,
        };
        Some(Self::new(Pointer::from_word(pointer), part))
    }

    /// The bytes that are needed to take the block apart.
    pub fn place(&self) -> Option<Span> {
        let item = ITEM_HEADER_SIZE as u64;
        match self.part {
            Part::Block { .. } => None,
            Part::Anchor => Some(self.pointer.span(ROOT_LINE_SIZE)),
            Part::Directory { level, index } => {
                Some(hash::directory_part(self.pointer, level, index))
            }
            Part::Segment { bucket } => Some(hash::segment_part(self.pointer, bucket)),
            Part::Item => Some(self.pointer.span(item)),
            Part::Stacked => Some(self.pointer.span(item + 8)),
            Part::Node { .. } => Some(self.pointer.span(BTree::node_size())),
            Part::Chunk { .. } => Some(self.pointer.span(sequence::CHUNK_SIZE)),
            Part::BinaryNode { size } | Part::Tower { size } => Some(self.pointer.span(size)),
        }
    }

    /// Takes the block of `structure` apart. `bytes` are those of [`Scrap::place`].
    pub fn take_apart(&self, structure: &Structure, bytes: &[u8]) -> Result<TakenApart, Stale> {
        let whole = |size, parts| TakenApart {
            freed: Some(size),
            parts,
        };
        let wrong = Stale {
            place: self.pointer.span(8),
            what: "part of an ended structure",
        };
        Ok(match (structure, self.part) {
            (_, Part::Block { size }) => whole(size, Vec::new()),
            (_, Part::Item) => whole(ItemReader::size_of(bytes).ok_or(wrong)?, Vec::new()),
            (Structure::HashTable(table), Part::Anchor) => {
                whole(ROOT_LINE_SIZE, table.parts_of_line(*self, bytes)?)
            }
            (Structure::HashTable(table), part) => table.parts_of(*self, part, bytes)?,
            (Structure::BTree(tree), Part::Anchor) => {
                whole(ROOT_LINE_SIZE, tree.parts_of_line(*self, bytes)?)
            }
            (Structure::BTree(tree), Part::Node { level }) => {
                let parts = tree.parts_of_node(*self, level, bytes)?;
                whole(BTree::node_size(), parts)
            }
            (Structure::MvBTree(version), Part::Node { level }) => {
                let parts = version.tree().parts_of_node(*self, level, bytes)?;
                whole(BTree::node_size(), parts)
            }
            (Structure::BinaryTree(tree), Part::Anchor) => {
                whole(ROOT_LINE_SIZE, tree.parts_of_line(*self, bytes)?)
            }
            (Structure::BinaryTree(tree), Part::BinaryNode { size }) => {
                whole(size, tree.parts_of_node(*self, bytes)?)
            }
            (Structure::SkipList(list), Part::Anchor) => {
                whole(ROOT_LINE_SIZE, list.parts_of_line(*self, bytes)?)
            }
            (Structure::SkipList(list), Part::Tower { size }) => {
                whole(size, list.parts_of_tower(*self, bytes)?)
            }
            (Structure::Stack(stack), Part::Anchor) => {
                whole(ROOT_LINE_SIZE, stack.parts_of_line(*self, bytes)?)
            }
            (Structure::Stack(_), Part::Stacked) => {
                let size = ItemReader::size_of(bytes).ok_or(wrong)?;
                let below = Pointer::from_word(word_at(bytes, 2));
                let below = (!below.is_null()).then(|| Self::new(below, Part::Stacked));
                whole(size, below.into_iter().collect())
            }
            (Structure::Queue(queue), Part::Anchor) => {
                whole(ROOT_LINE_SIZE, queue.parts_of_line(*self, bytes)?)
            }
            (Structure::Cursor(cursor), Part::Anchor) => {
                let (block, size) = cursor.block_of_line(self.pointer, bytes)?;
                let block = Self::new(block, Part::Block { size });
                whole(ROOT_LINE_SIZE, vec![block])
            }
            (Structure::Queue(_), Part::Chunk { index, count }) => {
                let parts = sequence::parts_of_chunk(bytes, index, count);
                whole(sequence::CHUNK_SIZE, parts)
            }
            _ => return Err(wrong),
        })
    }
}

/// The remaining blocks of an ended structure: a stack of chunks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Heap {
    /// The chunk on top, and the scraps in it.
    pub chunk: Pointer,
    pub count: u32,
}

impl Heap {
    fn place_of(&self, index: u32) -> u64 {
        self.chunk.offset() + 8 + u64::from(index) * 16
    }

    /// The chunk on top.
    pub fn place(&self) -> Span {
        self.chunk.span(CHUNK_SIZE)
    }

    pub fn is_empty(&self) -> bool {
        self.chunk.is_null()
    }

    /// Puts a scrap on top.
    pub fn push(&mut self, draft: &mut Draft<'_>, scrap: Scrap) -> Result<(), SpaceFault> {
        if self.chunk.is_null() || self.count == CHUNK_SCRAPS {
            let chunk = draft.allocate(CHUNK_SIZE)?;
            draft.write_word(chunk.offset(), self.chunk.word());
            (self.chunk, self.count) = (chunk, 0);
        }
        let bytes: Vec<u8> = scrap
            .words()
            .into_iter()
            .flat_map(u64::to_le_bytes)
            .collect();
        draft.write(self.place_of(self.count), &bytes);
        self.count += 1;
        Ok(())
    }

    /// The scraps on top, `limit` at most, of the chunk with these bytes; the topmost one last.
    pub fn top(&self, bytes: &[u8], limit: u32) -> Option<Vec<Scrap>> {
        let count = self.count.min(CHUNK_SCRAPS);
        let words = |index: u32| {
            let at = 1 + index as usize * 2;
            [word_at(bytes, at), word_at(bytes, at + 1)]
        };
        (count.saturating_sub(limit)..count)
            .map(|index| Scrap::parse(words(index)))
            .collect()
    }

    /// Takes scraps off the top.
    pub fn pop(
        &mut self,
        draft: &mut Draft<'_>,
        bytes: &[u8],
        count: u32,
    ) -> Result<(), SpaceFault> {
        self.count = self.count.min(CHUNK_SCRAPS) - count;
        if self.count == 0 {
            draft.free(self.chunk, CHUNK_SIZE)?;
            *self = self.below(bytes);
        }
        Ok(())
    }

    /// The heap without the chunk on top. `bytes` is the content of that chunk.
    pub fn below(&self, bytes: &[u8]) -> Self {
        let chunk = Pointer::from_word(word_at(bytes, 0));
        let count = if chunk.is_null() { 0 } else { CHUNK_SCRAPS };
        Self { chunk, count }
    }
}
