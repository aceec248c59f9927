//! The root line of a structure: a block of one line, behind the structure's anchor.

use super::tag::{TagKey, word_at};
use super::traversal::Stale;
use crate::space::{Draft, SpaceFault};
use crate::wire::Pointer;

/// Bytes of the line.
pub(super) const ROOT_LINE_SIZE: u64 = 64;

/// The part of a structure that changes when it grows, and the number of its items.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Root {
    /// The directory of a hash table, or the topmost node of a tree.
    pub(super) top: Pointer,
    /// A hash table: the directory has 2^level words. A tree: levels above the leaves.
    pub(super) level: u32,
    pub(super) length: u64,
}

impl Root {
    fn bytes(&self, tags: TagKey, anchor: Pointer) -> [u8; ROOT_LINE_SIZE as usize] {
        let mut bytes = [0; ROOT_LINE_SIZE as usize];
        let words = [self.length, self.top.word(), self.level.into()];
        for (index, word) in words.into_iter().enumerate() {
            bytes[8 + index * 8..][..8].copy_from_slice(&word.to_le_bytes());
        }
        tags.seal(anchor, 0, &mut bytes);
        bytes
    }

    /// Makes the line of a new structure. Returns its anchor.
    pub(super) fn create(self, draft: &mut Draft<'_>, tags: TagKey) -> Result<Pointer, SpaceFault> {
        let anchor = draft.allocate(ROOT_LINE_SIZE)?;
        self.write(draft, tags, anchor);
        Ok(anchor)
    }

    /// Writes the whole line.
    pub(super) fn write(&self, draft: &mut Draft<'_>, tags: TagKey, anchor: Pointer) {
        draft.write(anchor.offset(), &self.bytes(tags, anchor));
    }

    /// Writes tag and length: all that changes if the structure does not grow.
    pub(super) fn write_length(&self, draft: &mut Draft<'_>, tags: TagKey, anchor: Pointer) {
        draft.write(anchor.offset(), &self.bytes(tags, anchor)[..16]);
    }

    /// The root in a line.
    pub(super) fn parse(
        tags: TagKey,
        anchor: Pointer,
        level_max: u32,
        bytes: &[u8],
    ) -> Result<Self, Stale> {
        let place = anchor.span(ROOT_LINE_SIZE);
        let is_line = bytes.len() as u64 == place.size && tags.is_sealed(anchor, 0, bytes);
        let level = is_line.then(|| word_at(bytes, 3));
        match level.filter(|level| *level <= level_max.into()) {
            None => Err(Stale {
                place,
                what: "root line",
            }),
            Some(level) => Ok(Self {
                top: Pointer::from_word(word_at(bytes, 2)),
                level: level as u32,
                length: word_at(bytes, 1),
            }),
        }
    }
}
