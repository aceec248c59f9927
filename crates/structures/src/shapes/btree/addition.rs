//! A key on its way into a node: its slot, and the words that change, beside the bytes of the node.

use std::ops::Range;

use smallvec::SmallVec;

use crate::shapes::tag::TagKey;

use super::geometry::SLOT_HEADER_SIZE;
use super::node::{IN_BLOCK, Slots, ValueView, fingerprint, partition_point};

/// The bytes of a node that change when a key is put into it.
pub(super) struct Addition {
    /// The first byte of the slot in the node.
    slot_start: usize,
    /// Whole words.
    slot: SmallVec<[u8; 128]>,
    /// The first byte of the changed words in the node.
    words_start: usize,
    words: SmallVec<[u64; 16]>,
}

impl Addition {
    /// Puts a key into a free slot. `index` is the word of the key's slot, if the key has one.
    ///
    /// # Panics
    /// Panics if the node is full and the key is new.
    pub fn new(
        slots: &Slots<'_>,
        tags: TagKey,
        index: Option<usize>,
        (key, value): (&[u8], ValueView<'_>),
    ) -> Self {
        let pointer;
        let (value_word, value) = match value {
            ValueView::Inline(bytes) => (bytes.len() as u64, bytes),
            ValueView::Block(block, size) => {
                pointer = block.word().to_le_bytes();
                (size as u64 | IN_BLOCK, &pointer[..])
            }
        };
        let (count, number) = slots.free_slot();
        let sizes = key.len() as u64 | value_word << 32;
        let mut slot = SmallVec::with_capacity(SLOT_HEADER_SIZE + key.len() + value.len() + 8);
        slot.extend_from_slice(&sizes.to_le_bytes());
        slot.extend_from_slice(key);
        slot.extend_from_slice(value);
        assert!(slot.len() <= slots.geometry.slot_size(), "the slot fits");
        let word = slots.tag_of(tags, number, &slot) | fingerprint(key);
        slot.resize(slot.len().next_multiple_of(8), 0);
        let mut words = SmallVec::new();
        words.push(word);
        let first = index.unwrap_or_else(|| {
            assert!(count < slots.geometry.slots(), "the node has room");
            let first = partition_point(count, |index| slots.key(slots.word(index)) < key);
            (first..count).for_each(|index| words.push(slots.word(index)));
            first
        });
        Self {
            slot_start: slots.geometry.slot_offset(number),
            slot,
            words_start: slots.geometry.words_offset() + first * 8,
            words,
        }
    }

    /// The bytes of the slot in the node.
    pub fn slot(&self) -> Range<usize> {
        self.slot_start..self.slot_start + self.slot.len()
    }

    /// The new content of the slot.
    pub fn slot_bytes(&self) -> &[u8] {
        &self.slot
    }

    /// The bytes of the changed words in the node.
    pub fn words(&self) -> Range<usize> {
        self.words_start..self.words_start + self.words.len() * 8
    }

    /// Puts the changed words into the head of the node, or into the whole node.
    pub fn put_words(&self, head: &mut [u8]) {
        let places = head[self.words()].as_chunks_mut::<8>().0;
        for (place, word) in places.iter_mut().zip(&self.words) {
            *place = word.to_le_bytes();
        }
    }
}
