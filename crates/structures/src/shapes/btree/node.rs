//! Nodes of a tree.

use stonecast_base::{Span, hash, mutant};

use crate::shapes::tag::{TagKey, word_at};
use crate::shapes::traversal::Stale;
use crate::space::Draft;
use crate::wire::Pointer;

use super::geometry::{Geometry, HEADER_SIZE, NODE_SIZE, NodeGeometry, SLOT_HEADER_SIZE};

/// Parts of a node that have tags of their own: the head, and each slot.
const HEAD_PART: u64 = 0;
const FIRST_SLOT_PART: u64 = 1;
/// The size of a high fence that is above all keys.
const NO_FENCE: u64 = 0xffff;
/// Bits of the birth of a node that stand in its head; the lower ones stand in the pointer to it.
pub(super) const BIRTH_BITS: u64 = 24;
/// A bit that each word has, so that no word of a slot is 0.
const TAKEN: u64 = 1 << 16;
/// Mark of a value that lies in a block of its own.
const IN_BLOCK: u64 = 1 << 31;

/// A value in a slot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Value {
    /// The bytes.
    Inline(Vec<u8>),
    /// An item without a key that holds this many bytes.
    Block(Pointer, usize),
}

/// A slot that was checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Slot {
    /// The index of its word.
    pub index: usize,
    pub key: Vec<u8>,
    pub value: Value,
}

impl Slot {
    /// The child, if the node is an inner one.
    pub fn child(&self) -> Pointer {
        match &self.value {
            Value::Inline(bytes) => match bytes.first_chunk() {
                Some(word) => Pointer::from_word(u64::from_le_bytes(*word)),
                None => Pointer::NULL,
            },
            Value::Block(..) => Pointer::NULL,
        }
    }
}

/// A node whose head was checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Node {
    pub pointer: Pointer,
    pub level: u32,
    pub low: Vec<u8>,
    /// Above all keys of the node; `None`: no key is too high.
    pub high: Option<Vec<u8>>,
    pub right: Pointer,
    /// The record whose operation has made the node, in 48 bits.
    pub birth: u64,
    geometry: NodeGeometry,
    /// The bytes of the words and slots, at their places.
    bytes: Vec<u8>,
}

impl Node {
    /// An empty node between two fences.
    pub fn new(
        geometry: Geometry,
        pointer: Pointer,
        level: u32,
        (low, high): (Vec<u8>, Option<Vec<u8>>),
        right: Pointer,
    ) -> Self {
        Self {
            pointer,
            level,
            low,
            high,
            right,
            birth: 0,
            geometry: geometry.of_level(level),
            bytes: vec![0; NODE_SIZE as usize],
        }
    }

    /// The bytes of the pool that hold the node behind `pointer`.
    pub fn place(pointer: Pointer) -> Span {
        pointer.span(NODE_SIZE)
    }

    /// Checks the head of a node of `level` that was read from behind `pointer`.
    pub fn parse(
        (geometry, tags): (Geometry, TagKey),
        pointer: Pointer,
        level: u32,
        bytes: &[u8],
    ) -> Result<Self, Stale> {
        let stale = Stale {
            place: Self::place(pointer),
            what: "node",
        };
        let geometry = geometry.of_level(level);
        let head = bytes.get(..geometry.head_size()).ok_or(stale)?;
        if bytes.len() as u64 != NODE_SIZE || !tags.is_sealed(pointer, HEAD_PART, head) {
            return Err(stale);
        }
        let sizes = word_at(head, 1);
        let (low_size, high_size) = (sizes & 0xffff, sizes >> 16 & 0xffff);
        let fence = |at: usize, size: u64| {
            let size = size as usize;
            let is_key = size <= geometry.key_size;
            let start = HEADER_SIZE + at * geometry.key_size;
            is_key
                .then(|| head[start..start + size].to_vec())
                .ok_or(stale)
        };
        if sizes >> 32 & 0xff != level.into() {
            return Err(stale);
        }
        Ok(Self {
            pointer,
            level,
            low: fence(0, low_size)?,
            high: match high_size {
                NO_FENCE => None,
                size => Some(fence(1, size)?),
            },
            right: Pointer::from_word(word_at(head, 2)),
            birth: sizes >> 40 << BIRTH_BITS | pointer.generation(),
            geometry,
            bytes: bytes.to_vec(),
        })
    }

    fn stale(&self) -> Stale {
        Stale {
            place: Self::place(self.pointer),
            what: "slot of a node",
        }
    }

    /// Whether the node holds `key`, if any node of its level does.
    pub fn holds(&self, key: &[u8]) -> bool {
        let is_low = self.high.as_deref().is_none_or(|high| key < high);
        (*self.low <= *key && is_low) || mutant!(FenceIgnored)
    }

    /// The word at `index`; 0: no slot.
    fn word(&self, index: usize) -> u64 {
        word_at(&self.bytes, self.geometry.words_offset() / 8 + index)
    }

    fn set_word(&mut self, index: usize, word: u64) {
        let at = self.geometry.words_offset() + index * 8;
        self.bytes[at..at + 8].copy_from_slice(&word.to_le_bytes());
    }

    /// The used bytes of the slot with this number.
    fn slot_bytes(&self, number: usize) -> Option<&[u8]> {
        let start = self.geometry.slot_offset(number);
        let bytes = self.bytes.get(start..start + self.geometry.slot_size())?;
        let sizes = word_at(bytes, 0);
        let key_size = (sizes & 0xffff) as usize;
        let value_size = match sizes >> 32 & IN_BLOCK {
            0 => (sizes >> 32) as usize,
            _ => 8,
        };
        bytes.get(..SLOT_HEADER_SIZE + key_size + value_size)
    }

    /// The word for the slot with this number, whose content is in place.
    fn word_of(&self, tags: TagKey, number: usize) -> Option<u64> {
        let bytes = self.slot_bytes(number)?;
        let key_size = (word_at(bytes, 0) & 0xffff) as usize;
        let key = &bytes[SLOT_HEADER_SIZE..][..key_size];
        let part = FIRST_SLOT_PART + number as u64;
        let tag = tags.tag(self.pointer, part, bytes);
        Some(tag & !0xffff | TAKEN | (number as u64) << 8 | fingerprint(key))
    }

    /// The slot behind a word.
    fn slot(&self, tags: TagKey, index: usize) -> Result<Slot, Stale> {
        let word = self.word(index);
        let number = (word >> 8 & 0xff) as usize;
        let is_whole = self.word_of(tags, number) == Some(word) || mutant!(SlotTagNotChecked);
        let bytes = self.slot_bytes(number).filter(|_| is_whole);
        let bytes = bytes.ok_or(self.stale())?;
        let sizes = word_at(bytes, 0);
        if (sizes & 0xffff) as usize > self.geometry.key_size {
            return Err(self.stale());
        }
        let (key, value) = bytes[SLOT_HEADER_SIZE..].split_at((sizes & 0xffff) as usize);
        let value = match sizes >> 32 & IN_BLOCK {
            0 => Value::Inline(value.to_vec()),
            _ => {
                let size = (sizes >> 32 & !IN_BLOCK) as usize;
                let word = value.first_chunk().expect("a pointer has 8 bytes");
                Value::Block(Pointer::from_word(u64::from_le_bytes(*word)), size)
            }
        };
        Ok(Slot {
            index,
            key: key.to_vec(),
            value,
        })
    }

    fn taken(&self) -> impl Iterator<Item = usize> {
        (0..self.geometry.slots()).filter(|index| self.word(*index) != 0)
    }

    /// All slots, by key.
    pub fn slots(&self, tags: TagKey) -> Result<Vec<Slot>, Stale> {
        let mut slots = Vec::new();
        for index in self.taken() {
            slots.push(self.slot(tags, index)?);
        }
        slots.sort_by(|one, other| one.key.cmp(&other.key));
        Ok(slots)
    }

    /// The slot of `key`.
    pub fn find(&self, tags: TagKey, key: &[u8]) -> Result<Option<Slot>, Stale> {
        let fingerprint = fingerprint(key);
        for index in self.taken() {
            if self.word(index) & 0xff == fingerprint {
                let slot = self.slot(tags, index)?;
                if slot.key == key {
                    return Ok(Some(slot));
                }
            }
        }
        Ok(None)
    }

    /// The child of an inner node with the highest separator that `is_low_enough`.
    pub fn child(
        &self,
        tags: TagKey,
        is_low_enough: impl Fn(&[u8]) -> bool,
    ) -> Result<Pointer, Stale> {
        let slots = self.slots(tags)?;
        let child = slots.iter().rev().find(|slot| is_low_enough(&slot.key));
        child.map(Slot::child).ok_or(self.stale())
    }

    /// The number of keys that a node of this level has room for.
    pub fn capacity(&self) -> usize {
        self.geometry.slots()
    }

    /// Whether there is no room for another key.
    pub fn is_full(&self) -> bool {
        self.taken().count() == self.geometry.slots()
    }

    /// Whether a value of this size lies in a slot.
    pub fn takes_inline(&self, value_size: usize) -> bool {
        value_size <= self.geometry.value_size
    }

    /// Puts a key into a free slot, in these bytes alone. `index` is the word of the key's slot, if the key has one.
    ///
    /// # Panics
    /// If the node is full and the key is new.
    pub fn put(&mut self, tags: TagKey, index: Option<usize>, key: &[u8], value: &Value) -> Placed {
        let used: Vec<u64> = self
            .taken()
            .map(|index| self.word(index) >> 8 & 0xff)
            .collect();
        let number = (0..=self.geometry.slots())
            .find(|number| !used.contains(&(*number as u64)))
            .expect("there is a slot more than words");
        let index = index.unwrap_or_else(|| {
            let free = (0..self.geometry.slots()).find(|index| self.word(*index) == 0);
            free.expect("the node has room")
        });
        let (value_word, value_bytes) = match value {
            Value::Inline(bytes) => (bytes.len() as u64, bytes.clone()),
            Value::Block(pointer, size) => (
                *size as u64 | IN_BLOCK,
                pointer.word().to_le_bytes().to_vec(),
            ),
        };
        let sizes = key.len() as u64 | value_word << 32;
        let mut bytes = [&sizes.to_le_bytes()[..], key, &value_bytes].concat();
        bytes.resize(bytes.len().next_multiple_of(8), 0);
        let start = self.geometry.slot_offset(number);
        self.bytes[start..start + bytes.len()].copy_from_slice(&bytes);
        let word = self.word_of(tags, number).expect("the slot fits");
        self.set_word(index, word);
        Placed {
            index,
            slot: start..start + bytes.len(),
        }
    }

    /// Takes the word of a slot out, in these bytes alone.
    pub fn take(&mut self, index: usize) {
        self.set_word(index, 0);
    }

    /// Brings the head in line with the fields.
    fn head(&self, tags: TagKey) -> Vec<u8> {
        let mut head = self.bytes[..self.geometry.head_size()].to_vec();
        head[..self.geometry.words_offset()].fill(0);
        let high_size = self
            .high
            .as_ref()
            .map_or(NO_FENCE, |high| high.len() as u64);
        let sizes = self.low.len() as u64 | high_size << 16 | u64::from(self.level) << 32;
        let sizes = sizes | self.birth >> BIRTH_BITS << 40;
        head[8..16].copy_from_slice(&sizes.to_le_bytes());
        head[16..24].copy_from_slice(&self.right.word().to_le_bytes());
        let fences = [Some(&self.low), self.high.as_ref()];
        for (at, fence) in fences.into_iter().enumerate() {
            let Some(fence) = fence else { continue };
            let start = HEADER_SIZE + at * self.geometry.key_size;
            head[start..start + fence.len()].copy_from_slice(fence);
        }
        tags.seal(self.pointer, HEAD_PART, &mut head);
        head
    }

    /// Writes a new node.
    pub fn write_whole(&self, draft: &mut Draft<'_>, tags: TagKey) {
        let head = self.head(tags);
        let end = self.used_end();
        let bytes = [&head[..], &self.bytes[head.len()..end]].concat();
        draft.write(self.pointer.offset(), &bytes);
    }

    /// The end of the last slot that is in use.
    fn used_end(&self) -> usize {
        let numbers = self.taken().map(|index| self.word(index) >> 8 & 0xff);
        let end = numbers.max().map_or(0, |number| number as usize + 1);
        self.geometry.slot_offset(end)
    }

    /// Writes fences, right link and words of a node whose slots stay.
    pub fn write_head(&self, draft: &mut Draft<'_>, tags: TagKey) {
        draft.write(self.pointer.offset(), &self.head(tags));
    }

    /// Writes what [`Node::put`] has changed: the slot, its word, the tag, in this order.
    pub fn write_placed(&self, draft: &mut Draft<'_>, tags: TagKey, placed: &Placed) {
        let offset = self.pointer.offset() + placed.slot.start as u64;
        draft.write(offset, &self.bytes[placed.slot.clone()]);
        self.write_word(draft, tags, placed.index);
    }

    /// Writes the word at `index`, and the tag.
    pub fn write_word(&self, draft: &mut Draft<'_>, tags: TagKey, index: usize) {
        let at = (self.geometry.words_offset() + index * 8) as u64;
        let offset = self.pointer.offset();
        draft.write_word(offset + at, self.word(index));
        draft.write(offset, &self.head(tags)[..8]);
    }
}

/// Where [`Node::put`] has put a key.
pub(super) struct Placed {
    /// The index of the word.
    pub index: usize,
    /// Bytes of the node.
    slot: std::ops::Range<usize>,
}

fn fingerprint(key: &[u8]) -> u64 {
    hash::xxh3_64(0, key) & 0xff
}
