//! Nodes of a tree.

use std::ops::Range;

use stonecast_base::{Span, hash, mutant};

use crate::shapes::tag::{TagKey, word_at};
use crate::shapes::traversal::Stale;
use crate::space::Draft;
use crate::wire::Pointer;

use super::addition::Addition;
use super::aim::Fences;
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
pub(super) const IN_BLOCK: u64 = 1 << 31;

/// A value in a slot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Value {
    /// The bytes.
    Inline(Vec<u8>),
    /// An item without a key that holds this many bytes.
    Block(Pointer, usize),
}

impl Value {
    fn view(&self) -> ValueView<'_> {
        match self {
            Self::Inline(bytes) => ValueView::Inline(bytes),
            Self::Block(pointer, size) => ValueView::Block(*pointer, *size),
        }
    }
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
            Value::Inline(bytes) => pointer_in(bytes),
            Value::Block(..) => Pointer::NULL,
        }
    }
}

/// A slot that was checked, in the bytes of its node.
#[derive(Clone, Copy, Debug)]
pub(super) struct SlotView<'a> {
    /// The index of its word.
    pub index: usize,
    pub key: &'a [u8],
    pub value: ValueView<'a>,
}

/// A value in a slot, in the bytes of its node.
#[derive(Clone, Copy, Debug)]
pub(super) enum ValueView<'a> {
    Inline(&'a [u8]),
    Block(Pointer, usize),
}

impl SlotView<'_> {
    pub fn to_slot(self) -> Slot {
        Slot {
            index: self.index,
            key: self.key.to_vec(),
            value: match self.value {
                ValueView::Inline(bytes) => Value::Inline(bytes.to_vec()),
                ValueView::Block(pointer, size) => Value::Block(pointer, size),
            },
        }
    }
}

pub(super) fn pointer_in(bytes: &[u8]) -> Pointer {
    let word = bytes.first_chunk();
    word.map_or(Pointer::NULL, |word| {
        Pointer::from_word(u64::from_le_bytes(*word))
    })
}

/// Words and slots of a node, in the bytes of the node. Nothing of a slot is checked before it is handed out.
#[derive(Clone, Copy, Debug)]
pub(super) struct Slots<'a> {
    pub pointer: Pointer,
    pub geometry: NodeGeometry,
    bytes: &'a [u8],
}

impl<'a> Slots<'a> {
    /// Words and slots of the leaf behind `pointer`, whose head was checked in the same bytes.
    pub fn of_leaf(geometry: Geometry, pointer: Pointer, bytes: &'a [u8]) -> Self {
        Self {
            pointer,
            geometry: geometry.of_level(0),
            bytes,
        }
    }

    fn stale(&self) -> Stale {
        Stale {
            place: Node::place(self.pointer),
            what: "slot of a node",
        }
    }

    /// The word at `index`; 0: no slot.
    pub fn word(&self, index: usize) -> u64 {
        word_at(self.bytes, self.geometry.words_offset() / 8 + index)
    }

    pub fn words(self) -> impl Iterator<Item = u64> + use<'a> {
        let words = self.bytes[self.geometry.words_offset()..].as_chunks().0;
        let words = words[..self.geometry.slots()].iter();
        let words = words.map(|word| u64::from_le_bytes(*word));
        words.take_while(|word| *word != 0)
    }

    /// The number of keys: of the words before the first one without a slot. A hostile writer may leave other words
    /// behind it.
    pub fn count(&self) -> usize {
        self.words().count()
    }

    /// Whether there is no room for another key.
    pub fn is_full(&self) -> bool {
        self.word(self.geometry.slots() - 1) != 0
    }

    /// The used bytes of the slot with this number.
    fn used(&self, number: usize) -> Option<&'a [u8]> {
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

    /// The key of the slot behind a word, unchecked; empty: the word names no slot.
    pub fn key(&self, word: u64) -> &'a [u8] {
        let start = self.geometry.slot_offset((word >> 8 & 0xff) as usize);
        let slot = self.bytes.get(start..start + self.geometry.slot_size());
        let key = slot.and_then(|slot| {
            let size = u16::from_le_bytes([slot[0], slot[1]]);
            slot[SLOT_HEADER_SIZE..].get(..size.into())
        });
        key.unwrap_or_default()
    }

    /// The number of keys, and the number of a slot that no word names.
    pub fn free_slot(&self) -> (usize, usize) {
        let (mut count, mut used) = (0, [0_u64; 4]);
        for word in self.words() {
            let number = (word >> 8 & 0xff) as usize;
            used[number / 64] |= 1 << (number % 64);
            count += 1;
        }
        let mut parts = used.iter().enumerate();
        let free = parts.find(|(_, part)| **part != u64::MAX);
        let (part, used) = free.expect("there is a slot more than words");
        (count, part * 64 + used.trailing_ones() as usize)
    }

    /// The bytes that the tag of the node covers, and the tag.
    pub fn head(&self) -> &'a [u8] {
        &self.bytes[..self.geometry.head_size()]
    }

    /// The word for a slot with these bytes, without the fingerprint.
    pub fn tag_of(&self, tags: TagKey, number: usize, bytes: &[u8]) -> u64 {
        let part = FIRST_SLOT_PART + number as u64;
        let tag = tags.tag(self.pointer, part, bytes);
        tag & !0xffff | TAKEN | (number as u64) << 8
    }

    /// The first word from `index` on whose slot may hold `key`, and the bytes of that slot in the node.
    pub fn candidate(&self, index: usize, key: &[u8]) -> Option<(usize, Range<usize>)> {
        let fingerprint = fingerprint(key);
        let mut words = self.words().enumerate().skip(index);
        let (index, word) = words.find(|(_, word)| word & 0xff == fingerprint)?;
        let start = self.geometry.slot_offset((word >> 8 & 0xff) as usize);
        Some((index, start..start + self.geometry.slot_size()))
    }

    /// The slot behind a word.
    pub fn slot(&self, tags: TagKey, index: usize) -> Result<SlotView<'a>, Stale> {
        let word = self.word(index);
        let number = (word >> 8 & 0xff) as usize;
        let bytes = self.used(number).filter(|bytes| {
            let is_whole = self.tag_of(tags, number, bytes) == word & !0xff;
            is_whole || mutant!(SlotTagNotChecked)
        });
        let slot = bytes.and_then(|bytes| self.slot_in(index, bytes));
        slot.ok_or(self.stale())
    }

    /// The slot of the word at `index`, in its used bytes.
    fn slot_in(&self, index: usize, bytes: &'a [u8]) -> Option<SlotView<'a>> {
        let sizes = word_at(bytes, 0);
        let key_size = (sizes & 0xffff) as usize;
        if key_size > self.geometry.key_size {
            return None;
        }
        let (key, value) = bytes[SLOT_HEADER_SIZE..].split_at(key_size);
        let value = match sizes >> 32 & IN_BLOCK {
            0 => ValueView::Inline(value),
            _ => {
                let size = (sizes >> 32 & !IN_BLOCK) as usize;
                ValueView::Block(pointer_in(value), size)
            }
        };
        Some(SlotView { index, key, value })
    }

    /// All slots, by key, of a node whose slots were checked before.
    pub fn checked(self) -> impl Iterator<Item = SlotView<'a>> {
        self.words().enumerate().filter_map(move |(index, word)| {
            let bytes = self.used((word >> 8 & 0xff) as usize)?;
            self.slot_in(index, bytes)
        })
    }

    /// All slots, by key.
    pub fn all(self, tags: TagKey) -> impl Iterator<Item = Result<SlotView<'a>, Stale>> {
        (0..self.count()).map(move |index| self.slot(tags, index))
    }

    /// The slot of `key`.
    pub fn find(&self, tags: TagKey, key: &[u8]) -> Result<Option<SlotView<'a>>, Stale> {
        let fingerprint = fingerprint(key);
        for (index, word) in self.words().enumerate() {
            if word & 0xff == fingerprint {
                let slot = self.slot(tags, index)?;
                if slot.key == key {
                    return Ok(Some(slot));
                }
            }
        }
        Ok(None)
    }

    /// The child of an inner node with the highest separator that `is_low_enough`. The separators that lead to it were
    /// not checked: the fences of the child show whether it is the right one.
    pub fn child(
        &self,
        tags: TagKey,
        is_low_enough: impl Fn(&[u8]) -> bool,
    ) -> Result<Pointer, Stale> {
        let end = partition_point(self.geometry.slots(), |index| match self.word(index) {
            0 => false,
            word => is_low_enough(self.key(word)),
        });
        let index = end.checked_sub(1).ok_or(self.stale())?;
        match self.slot(tags, index)?.value {
            ValueView::Inline(bytes) => Ok(pointer_in(bytes)),
            ValueView::Block(..) => Ok(Pointer::NULL),
        }
    }
}

fn stale_node(pointer: Pointer) -> Stale {
    Stale {
        place: Node::place(pointer),
        what: "node",
    }
}

/// The first of `count` indices for which `is_below` does not hold, if it holds for no later index. Otherwise the
/// answer is some index.
pub(super) fn partition_point(count: usize, is_below: impl Fn(usize) -> bool) -> usize {
    let (mut low, mut high) = (0, count);
    while low < high {
        let middle = low.midpoint(high);
        match is_below(middle) {
            true => low = middle + 1,
            false => high = middle,
        }
    }
    low
}

/// A node whose head was checked, in borrowed bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct NodeView<'a> {
    pub level: u32,
    pub fences: Fences<'a>,
    pub right: Pointer,
    /// The record whose operation has made the node, in 48 bits.
    pub birth: u64,
    pub slots: Slots<'a>,
}

impl<'a> NodeView<'a> {
    /// Checks the head of a node of `level` that was read from behind `pointer`.
    pub fn parse(
        (geometry, tags): (Geometry, TagKey),
        pointer: Pointer,
        level: u32,
        bytes: &'a [u8],
    ) -> Result<Self, Stale> {
        if bytes.len() as u64 != NODE_SIZE {
            return Err(stale_node(pointer));
        }
        Self::parse_head((geometry, tags), pointer, level, bytes)
    }

    /// Checks the head of a node of which `bytes` may be a part. Slots that lie after them are stale.
    pub fn parse_head(
        (geometry, tags): (Geometry, TagKey),
        pointer: Pointer,
        level: u32,
        bytes: &'a [u8],
    ) -> Result<Self, Stale> {
        let stale = stale_node(pointer);
        let geometry = geometry.of_level(level);
        let head = bytes.get(..geometry.head_size()).ok_or(stale)?;
        if !tags.is_sealed(pointer, HEAD_PART, head) {
            return Err(stale);
        }
        let sizes = word_at(head, 1);
        let (low_size, high_size) = (sizes & 0xffff, sizes >> 16 & 0xffff);
        let fence = |at: usize, size: u64| {
            let size = size as usize;
            let is_key = size <= geometry.key_size;
            let start = HEADER_SIZE + at * geometry.key_size;
            is_key.then(|| &head[start..start + size]).ok_or(stale)
        };
        if sizes >> 32 & 0xff != u64::from(level) {
            return Err(stale);
        }
        Ok(Self {
            level,
            fences: Fences {
                low: fence(0, low_size)?,
                high: match high_size {
                    NO_FENCE => None,
                    size => Some(fence(1, size)?),
                },
            },
            right: Pointer::from_word(word_at(head, 2)),
            birth: sizes >> 40 << BIRTH_BITS | pointer.generation(),
            slots: Slots {
                pointer,
                geometry,
                bytes,
            },
        })
    }

    /// The node, to be changed.
    pub fn to_node(self) -> Node {
        Node {
            pointer: self.slots.pointer,
            level: self.level,
            low: self.fences.low.to_vec(),
            high: self.fences.high.map(<[u8]>::to_vec),
            right: self.right,
            birth: self.birth,
            geometry: self.slots.geometry,
            bytes: self.slots.bytes.to_vec(),
        }
    }
}

/// A node that is being changed.
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

    pub fn view(&self) -> Slots<'_> {
        Slots {
            pointer: self.pointer,
            geometry: self.geometry,
            bytes: &self.bytes,
        }
    }

    /// All slots, by key.
    pub fn slots(&self, tags: TagKey) -> Result<Vec<Slot>, Stale> {
        let slots = self.view().all(tags);
        slots.map(|slot| Ok(slot?.to_slot())).collect()
    }

    /// The slot of `key`.
    pub fn find(&self, tags: TagKey, key: &[u8]) -> Result<Option<Slot>, Stale> {
        let slot = self.view().find(tags, key)?;
        Ok(slot.map(SlotView::to_slot))
    }

    /// The number of keys that a node of this level has room for.
    pub fn capacity(&self) -> usize {
        self.geometry.slots()
    }

    /// Whether there is no room for another key.
    pub fn is_full(&self) -> bool {
        self.view().is_full()
    }

    /// Whether a value of this size lies in a slot.
    pub fn takes_inline(&self, value_size: usize) -> bool {
        value_size <= self.geometry.value_size
    }

    /// The bytes of the word at `index`.
    fn word_range(&self, index: usize) -> Range<usize> {
        let start = self.geometry.words_offset() + index * 8;
        start..start + 8
    }

    /// Puts a key into a free slot, in these bytes alone. `index` is the word of the key's slot, if the key has one.
    ///
    /// # Panics
    /// Panics if the node is full and the key is new.
    pub fn put(&mut self, tags: TagKey, index: Option<usize>, key: &[u8], value: &Value) -> Placed {
        self.put_view(tags, index, (key, value.view()))
    }

    /// As [`Node::put`].
    pub fn put_view(
        &mut self,
        tags: TagKey,
        index: Option<usize>,
        item: (&[u8], ValueView<'_>),
    ) -> Placed {
        let addition = Addition::new(&self.view(), tags, index, item);
        let (slot, words) = (addition.slot(), addition.words());
        self.bytes[slot.clone()].copy_from_slice(addition.slot_bytes());
        addition.put_words(&mut self.bytes);
        Placed { words, slot }
    }

    /// Removes the word of a slot, in these bytes alone. Returns the words that changed.
    pub fn take(&mut self, index: usize) -> Range<usize> {
        let end = self.view().count();
        let (first, behind) = (self.word_range(index), self.word_range(end).start);
        self.bytes.copy_within(first.end..behind, first.start);
        let last = self.word_range(end - 1);
        self.bytes[last].fill(0);
        index..end
    }

    /// Removes all words from `index` on, in these bytes alone.
    pub fn truncate(&mut self, index: usize) {
        let words = self.word_range(index).start..self.geometry.head_size();
        self.bytes[words].fill(0);
    }

    /// Writes the fields into the head.
    fn seal(&mut self, tags: TagKey) {
        let high_size = self.high.as_ref();
        let high_size = high_size.map_or(NO_FENCE, |high| high.len() as u64);
        let sizes = self.low.len() as u64 | high_size << 16 | u64::from(self.level) << 32;
        let sizes = sizes | self.birth >> BIRTH_BITS << 40;
        let head = &mut self.bytes[..self.geometry.head_size()];
        head[8..16].copy_from_slice(&sizes.to_le_bytes());
        head[16..24].copy_from_slice(&self.right.word().to_le_bytes());
        head[HEADER_SIZE..self.geometry.words_offset()].fill(0);
        let fences = [Some(&self.low), self.high.as_ref()];
        for (at, fence) in fences.into_iter().enumerate() {
            let Some(fence) = fence else { continue };
            let start = HEADER_SIZE + at * self.geometry.key_size;
            head[start..start + fence.len()].copy_from_slice(fence);
        }
        Self::seal_head(tags, self.pointer, head);
    }

    /// Puts the tag in front of the head of a node.
    pub fn seal_head(tags: TagKey, pointer: Pointer, head: &mut [u8]) {
        tags.seal(pointer, HEAD_PART, head);
    }

    /// Writes a new node.
    pub fn write_whole(&mut self, draft: &mut Draft<'_>, tags: TagKey) {
        self.seal(tags);
        let end = self.used_end();
        draft.write_new(self.pointer.offset(), &self.bytes[..end], NODE_SIZE);
    }

    /// The end of the last slot that is in use.
    fn used_end(&self) -> usize {
        let numbers = self.view().words().map(|word| word >> 8 & 0xff);
        let end = numbers.max().map_or(0, |number| number as usize + 1);
        self.geometry.slot_offset(end)
    }

    /// Writes fences, right link and words of a node whose slots stay.
    pub fn write_head(&mut self, draft: &mut Draft<'_>, tags: TagKey) {
        self.seal(tags);
        let head = &self.bytes[..self.geometry.head_size()];
        draft.write(self.pointer.offset(), head);
    }

    /// Writes the changes of [`Node::put`]: the slot, the words, the tag, in this order.
    pub fn write_placed(&mut self, draft: &mut Draft<'_>, tags: TagKey, placed: &Placed) {
        let offset = self.pointer.offset() + placed.slot.start as u64;
        draft.write(offset, &self.bytes[placed.slot.clone()]);
        self.write_range(draft, tags, placed.words.clone());
    }

    /// Writes some words, and the tag.
    pub fn write_words(&mut self, draft: &mut Draft<'_>, tags: TagKey, words: Range<usize>) {
        let words = self.word_range(words.start).start..self.word_range(words.end).start;
        self.write_range(draft, tags, words);
    }

    /// Writes the words in these bytes of the head, and the tag.
    fn write_range(&mut self, draft: &mut Draft<'_>, tags: TagKey, words: Range<usize>) {
        self.seal(tags);
        let offset = self.pointer.offset();
        draft.write(offset + words.start as u64, &self.bytes[words]);
        draft.write(offset, &self.bytes[..8]);
    }
}

/// The places in which [`Node::put`] has put a key.
pub(super) struct Placed {
    /// Bytes of the node with the words that changed.
    words: Range<usize>,
    /// Bytes of the node with the slot.
    slot: Range<usize>,
}

pub(super) fn fingerprint(key: &[u8]) -> u64 {
    hash::xxh3_64(0, key) & 0xff
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::LogKey;

    /// Needs a single meaning of the number of keys: a back-end executes operations of a hostile writer on nodes of
    /// that writer.
    #[test]
    fn a_node_with_a_hole_in_its_words_is_changed_without_a_panic() {
        let tags = TagKey::of(LogKey(1), 0, 1);
        let geometry = Geometry::new(8, 100);
        for hole in 0..geometry.of_level(0).slots() {
            let pointer = Pointer::new(64, 1);
            let fences = (Vec::new(), None);
            let mut node = Node::new(geometry, pointer, 0, fences, Pointer::NULL);
            let value = Value::Inline(vec![7; 100]);
            for key in (0..node.capacity() as u64).rev() {
                node.put(tags, None, &key.to_be_bytes(), &value);
            }
            assert!(node.is_full());
            let slots = node.slots(tags).expect("it is whole");
            assert!(slots.is_sorted_by_key(|slot| slot.key.clone()));
            let word = node.word_range(hole);
            node.bytes[word].fill(0);
            for key in 0..node.capacity() as u64 {
                let found = node.find(tags, &key.to_be_bytes());
                let found = found.expect("its tags are right");
                assert_eq!(found.is_some(), key < hole as u64);
                if let Some(slot) = found {
                    let mut changed = node.clone();
                    assert_eq!(changed.take(slot.index), slot.index..hole);
                    assert_eq!(changed.find(tags, &slot.key), Ok(None));
                    changed.put(tags, None, &slot.key, &value);
                    assert!(matches!(changed.find(tags, &slot.key), Ok(Some(_))));
                }
            }
        }
    }
}
