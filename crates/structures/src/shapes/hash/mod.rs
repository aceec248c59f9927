//! A hash table: a directory of segments, which grows by one segment at a time.
//!
//! ```text
//!   anchor ─▶ root line: directory, depth, length
//!   directory:  0b00 ─▶ segment of depth 1          a segment has 32 buckets of 128 bytes
//!               0b01 ─┘                             bucket: tag, control, 14 words
//!               0b10 ─▶ segment of depth 2          word ─▶ item: key and value
//!               0b11 ─▶ segment of depth 2
//! ```
//!
//! The top bits of a key's hash choose the segment, the low bits the bucket. A bucket without room splits its segment: two new segments take its items, the
//! directory is changed, and the buckets of the old segment are marked as dead. A reader that comes through an old directory finds a dead bucket, or one of another
//! part of the hashes, and begins again from the root.
//!
//! A tag covers the whole bucket, so *no such key* is as certain as a word that was found.

mod bucket;
mod change;
mod find;
mod scrap;
mod walk;

use crate::space::{Draft, SpaceFault};
use crate::wire::Pointer;

use super::root::Root;
use super::tag::TagKey;
pub use change::{Change, ChangePlan};
pub use find::{Find, Found};
pub(super) use scrap::{directory_part, segment_place};
pub use walk::Walk;

use bucket::{BUCKET_SIZE, BUCKETS, SEGMENT_SIZE};

/// The largest number of bits by which the directory chooses. A transaction holds a directory of this size.
const DEPTH_MAX: u32 = 16;
/// The largest level of a directory.
pub(super) const LEVEL_MAX: u32 = DEPTH_MAX;

/// A hash table of a domain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HashTable {
    anchor: Pointer,
    tags: TagKey,
    /// Bytes that a reader reads of an item before it knows the item's size.
    item_hint: usize,
}

impl HashTable {
    /// The table whose root line lies behind `anchor`. `item_hint`: bytes of a usual item with its header.
    pub fn new(anchor: Pointer, tags: TagKey, item_hint: usize) -> Self {
        Self {
            anchor,
            tags,
            item_hint: item_hint.max(super::ITEM_HEADER_SIZE),
        }
    }

    /// Makes an empty table. Returns its anchor.
    ///
    /// # Errors
    /// [`SpaceFault`].
    pub fn create(draft: &mut Draft<'_>, tags: TagKey) -> Result<Pointer, SpaceFault> {
        let segment = draft.allocate(SEGMENT_SIZE)?;
        let directory = draft.allocate(8)?;
        bucket::write_segment(draft, tags, segment, (0, 0), &[]);
        draft.write_word(directory.offset(), segment.word());
        let root = Root {
            top: directory,
            level: 0,
            length: 0,
        };
        root.create(draft, tags)
    }

    /// The hash of a key.
    fn hash_of(&self, key: &[u8]) -> KeyHash {
        KeyHash(self.tags.hash_of(key))
    }
}

/// The hash of a key: the top bits choose the segment, the lowest 5 bits the bucket, the next 8 are the fingerprint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct KeyHash(u64);

impl KeyHash {
    /// The segment in a directory of 2^`depth` segments.
    fn prefix(self, depth: u32) -> u64 {
        // A shift by 64 bits would be an overflow.
        self.0.checked_shr(64 - depth).unwrap_or(0)
    }

    fn bucket(self) -> u64 {
        self.0 % BUCKETS
    }

    fn fingerprint(self) -> u64 {
        (self.0 / BUCKETS) & 0xff
    }

    /// The pointer to the item of this key at a block that was taken: the high byte of its generation is the fingerprint.
    fn item_pointer(self, block: Pointer) -> Pointer {
        let generation = self.fingerprint() << 16 | block.generation() & 0xffff;
        Pointer::new(block.unit(), generation)
    }

    fn may_be(self, word: Pointer) -> bool {
        !word.is_null() && word.generation() >> 16 == self.fingerprint()
    }
}
