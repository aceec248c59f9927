//! Towers of a skip list.

use std::ops::Range;

use stonecast_base::Span;

use crate::shapes::classic::Sizes;
use crate::shapes::tag::{TAG_SIZE, TagKey, word_at};
use crate::shapes::traversal::Stale;
use crate::space::Draft;
use crate::wire::Pointer;

/// Levels of the highest tower. With a quarter of the towers of each level in the next one, a million keys need ten.
pub(super) const LEVELS: usize = 10;
/// Bytes of tag, sizes and item.
const LINKS_OFFSET: usize = 24;
/// Bytes before the key.
const HEADER_SIZE: usize = LINKS_OFFSET + 8 * LEVELS;
const VALUE_SIZE_SHIFT: u64 = 16;

/// A tower that was checked, or the head of the list, which has no key and no item.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Tower {
    pub pointer: Pointer,
    /// The block of the value, and the bytes of the value.
    pub item: (Pointer, usize),
    pub links: [Pointer; LEVELS],
    pub key: Vec<u8>,
}

/// Bytes of a tower of a list with these sizes.
pub(super) fn tower_size(sizes: Sizes) -> u64 {
    (HEADER_SIZE + sizes.key_size_max()) as u64
}

/// The bytes of the pool that hold the tower behind `pointer`.
pub(super) fn tower_place(sizes: Sizes, pointer: Pointer) -> Span {
    pointer.span(tower_size(sizes))
}

impl Tower {
    /// The head of an empty list.
    pub fn head(pointer: Pointer) -> Self {
        Self {
            pointer,
            item: (Pointer::NULL, 0),
            links: [Pointer::NULL; LEVELS],
            key: Vec::new(),
        }
    }

    /// Whether this is the head.
    pub fn is_head(&self) -> bool {
        self.item.0.is_null()
    }

    /// Checks a tower that was read from behind `pointer`.
    pub fn parse(
        (sizes, tags): (Sizes, TagKey),
        pointer: Pointer,
        bytes: &[u8],
    ) -> Result<Self, Stale> {
        let stale = Stale {
            place: tower_place(sizes, pointer),
            what: "tower of a skip list",
        };
        if bytes.len() as u64 != tower_size(sizes) || !tags.is_sealed(pointer, 0, bytes) {
            return Err(stale);
        }
        let word = word_at(bytes, 1);
        let key_size = (word & 0xffff) as usize;
        let value_size = word >> VALUE_SIZE_SHIFT & 0xff_ffff;
        let key = bytes[HEADER_SIZE..].get(..key_size).ok_or(stale)?;
        let link = |level| Pointer::from_word(word_at(bytes, LINKS_OFFSET / 8 + level));
        Ok(Self {
            pointer,
            item: (Pointer::from_word(word_at(bytes, 2)), value_size as usize),
            links: std::array::from_fn(link),
            key: key.to_vec(),
        })
    }

    fn bytes(&self, (sizes, tags): (Sizes, TagKey)) -> Vec<u8> {
        let (item, value_size) = self.item;
        let sizes_word = self.key.len() as u64 | (value_size as u64) << VALUE_SIZE_SHIFT;
        let words = [sizes_word, item.word()].into_iter();
        let words = words.chain(self.links.map(Pointer::word));
        let mut bytes = vec![0; tower_size(sizes) as usize];
        for (index, word) in words.enumerate() {
            bytes[TAG_SIZE + index * 8..][..8].copy_from_slice(&word.to_le_bytes());
        }
        bytes[HEADER_SIZE..][..self.key.len()].copy_from_slice(&self.key);
        tags.seal(self.pointer, 0, &mut bytes);
        bytes
    }

    /// Writes a tower that no reader has.
    pub fn write_whole(&self, draft: &mut Draft<'_>, of: (Sizes, TagKey)) {
        draft.write(self.pointer.offset(), &self.bytes(of));
    }

    /// Writes the links of some levels. A reader that comes in between finds a tag that does not match its bytes.
    pub fn write_links(&self, draft: &mut Draft<'_>, of: (Sizes, TagKey), levels: Range<usize>) {
        let bytes = self.bytes(of);
        let (start, end) = (
            LINKS_OFFSET + 8 * levels.start,
            LINKS_OFFSET + 8 * levels.end,
        );
        let offset = self.pointer.offset();
        draft.write_in_order(offset + start as u64, &bytes[start..end]);
        draft.write_in_order(offset, &bytes[..TAG_SIZE]);
    }

    /// Writes the pointer to another value.
    pub fn write_item(&self, draft: &mut Draft<'_>, of: (Sizes, TagKey)) {
        draft.write_in_order(self.pointer.offset(), &self.bytes(of)[..LINKS_OFFSET]);
    }
}
