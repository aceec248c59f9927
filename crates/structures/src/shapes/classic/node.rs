//! Nodes of a binary search tree.

use stonecast_base::Span;

use crate::shapes::tag::{TagKey, word_at};
use crate::shapes::traversal::Stale;
use crate::space::Draft;
use crate::wire::Pointer;

use super::Sizes;

/// Bytes before the key.
const HEADER_SIZE: usize = 40;
/// Bytes of tag, sizes and links: all that changes in a node that stays.
const LINKS_END: usize = 32;
/// Bits of the birth of a node that stand in the pointer to it. As many higher ones stand in the node.
const BIRTH_BITS: u64 = 24;
const VALUE_SIZE_SHIFT: u64 = 16;
const BIRTH_SHIFT: u64 = 40;

/// A side of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    Left,
    Right,
}

/// A node that was checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Node {
    pub pointer: Pointer,
    pub left: Pointer,
    pub right: Pointer,
    /// The block of the value, and the bytes of the value.
    pub item: (Pointer, usize),
    /// The record whose operation has made the node, in 48 bits.
    pub birth: u64,
    pub key: Vec<u8>,
}

impl Sizes {
    /// Bytes of a node.
    pub(super) fn node_size(self) -> u64 {
        (HEADER_SIZE + self.key_size_max()) as u64
    }

    /// The bytes of the pool that hold the node behind `pointer`.
    pub(super) fn node_place(self, pointer: Pointer) -> Span {
        pointer.span(self.node_size())
    }
}

impl Node {
    /// Checks a node that was read from behind `pointer`.
    pub fn parse(
        (sizes, tags): (Sizes, TagKey),
        pointer: Pointer,
        bytes: &[u8],
    ) -> Result<Self, Stale> {
        let stale = Stale {
            place: sizes.node_place(pointer),
            what: "node of a binary tree",
        };
        if bytes.len() as u64 != sizes.node_size() || !tags.is_sealed(pointer, 0, bytes) {
            return Err(stale);
        }
        let word = word_at(bytes, 1);
        let key_size = (word & 0xffff) as usize;
        let value_size = word >> VALUE_SIZE_SHIFT & 0xff_ffff;
        let key = bytes[HEADER_SIZE..].get(..key_size).ok_or(stale)?;
        Ok(Self {
            pointer,
            left: Pointer::from_word(word_at(bytes, 2)),
            right: Pointer::from_word(word_at(bytes, 3)),
            item: (Pointer::from_word(word_at(bytes, 4)), value_size as usize),
            birth: word >> BIRTH_SHIFT << BIRTH_BITS | pointer.generation(),
            key: key.to_vec(),
        })
    }

    /// The child on a side.
    pub fn child(&self, side: Side) -> Pointer {
        match side {
            Side::Left => self.left,
            Side::Right => self.right,
        }
    }

    /// The node with another child on a side.
    pub fn with(mut self, side: Side, child: Pointer) -> Self {
        match side {
            Side::Left => self.left = child,
            Side::Right => self.right = child,
        }
        self
    }

    fn bytes(&self, sizes: Sizes, tags: TagKey) -> Vec<u8> {
        let (item, value_size) = self.item;
        let sizes_word = self.key.len() as u64
            | (value_size as u64) << VALUE_SIZE_SHIFT
            | self.birth >> BIRTH_BITS << BIRTH_SHIFT;
        let links = [self.left, self.right, item].map(Pointer::word);
        let mut bytes = vec![0; sizes.node_size() as usize];
        for (index, word) in [sizes_word].into_iter().chain(links).enumerate() {
            bytes[8 + index * 8..][..8].copy_from_slice(&word.to_le_bytes());
        }
        bytes[HEADER_SIZE..][..self.key.len()].copy_from_slice(&self.key);
        tags.seal(self.pointer, 0, &mut bytes);
        bytes
    }

    /// Writes a node that no reader has.
    pub fn write_whole(&self, draft: &mut Draft<'_>, sizes: Sizes, tags: TagKey) {
        draft.write(self.pointer.offset(), &self.bytes(sizes, tags));
    }

    /// Writes the links of a node. A reader that comes in between finds a tag that does not match its bytes.
    pub fn write_links(&self, draft: &mut Draft<'_>, sizes: Sizes, tags: TagKey) {
        let bytes = self.bytes(sizes, tags);
        draft.write(self.pointer.offset(), &bytes[..LINKS_END]);
    }
}
