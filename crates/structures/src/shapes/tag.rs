//! Tags of blocks: the first word of a block covers the rest of it, its place, its generation and its structure.

use std::fmt;

use stonecast_base::{hash, mutant};

use crate::wire::{LogKey, Pointer};

/// Bytes of a tag.
pub(super) const TAG_SIZE: usize = 8;

/// Seed of the tags of one structure.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct TagKey(u64);

impl fmt::Debug for TagKey {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("TagKey(..)")
    }
}

impl TagKey {
    /// The seed of a structure of a domain of the pool with this key.
    pub fn of(key: LogKey, domain: u32, structure: u32) -> Self {
        let mut bytes = [0; 8];
        bytes[..4].copy_from_slice(&domain.to_le_bytes());
        bytes[4..].copy_from_slice(&structure.to_le_bytes());
        Self(hash::xxh3_64(key.0 ^ 0x7374_7275, &bytes))
    }

    /// The hash of a key of the structure.
    pub(super) fn hash_of(self, key: &[u8]) -> u64 {
        hash::xxh3_64(self.0, key)
    }

    /// The tag of bytes of the block behind `pointer`. `part` distinguishes the parts of a block that have tags of
    /// their own.
    pub(super) fn tag(self, pointer: Pointer, part: u64, bytes: &[u8]) -> u64 {
        let mut place = [0; 16];
        place[..8].copy_from_slice(&pointer.word().to_le_bytes());
        place[8..].copy_from_slice(&part.to_le_bytes());
        hash::xxh3_64(hash::xxh3_64(self.0, &place), bytes)
    }

    /// Puts the tag in front of the bytes that it covers.
    pub(super) fn seal(self, pointer: Pointer, part: u64, bytes: &mut [u8]) {
        let (tag, rest) = bytes.split_at_mut(TAG_SIZE);
        tag.copy_from_slice(&self.tag(pointer, part, rest).to_le_bytes());
    }

    /// Whether the first word of `bytes` is the tag of the others.
    pub(super) fn is_sealed(self, pointer: Pointer, part: u64, bytes: &[u8]) -> bool {
        let Some((tag, rest)) = bytes.split_first_chunk() else {
            return false;
        };
        u64::from_le_bytes(*tag) == self.tag(pointer, part, rest) || mutant!(BlockTagNotChecked)
    }
}

/// The word at `index` of bytes that hold it.
#[inline]
pub(super) fn word_at(bytes: &[u8], index: usize) -> u64 {
    let word = bytes[index * 8..].first_chunk().expect("the bytes hold it");
    u64::from_le_bytes(*word)
}
