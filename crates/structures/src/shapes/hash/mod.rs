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
//! The top bits of a key's hash choose the segment, the low bits the bucket. A bucket without room splits its segment:
//! two new segments take its items, the directory is changed, and the buckets of the old segment are marked as dead. A
//! reader that comes through an old directory finds a dead bucket, or one of another part of the hashes, and begins
//! again from the root.
//!
//! A directory of the largest size no longer grows. From then on, a segment without room is replaced by a segment of
//! twice as many buckets.
//!
//! A tag covers the whole bucket, so the absence of a key is as certain as its presence.

mod bucket;
mod change;
mod find;
mod in_call;
mod part;
mod scrap;
mod walk;

use crate::space::{Draft, SpaceFault};
use crate::wire::Pointer;

use super::length::Length;
use super::root::Root;
use super::tag::TagKey;
pub use change::{Change, ChangePlan};
pub use find::{Find, Found};
pub use in_call::Directory;
pub use part::{HashPart, PartWalk};
pub(super) use scrap::{directory_part, segment_part};
pub use walk::Walk;

use bucket::{BUCKET_SIZE, BUCKETS};

/// The largest number of bits by which the directory chooses. A transaction holds a directory of this size.
const DEPTH_MAX: u32 = 16;
/// The width of the widest segment: it has 2^width times the buckets of the narrowest. A transaction holds two of them,
/// and marks one as dead.
const WIDTH_MAX: u32 = 5;
/// The lowest bit of a hash that belongs to the fingerprint: the bits below choose a bucket of the widest segment.
const FINGERPRINT_BIT: u32 = BUCKETS.ilog2() + WIDTH_MAX;
/// The largest level of a directory.
pub(super) const LEVEL_MAX: u32 = DEPTH_MAX;

/// A hash table of a domain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HashTable {
    anchor: Pointer,
    tags: TagKey,
    /// Bytes that a reader reads of an item before it knows the item's size.
    item_hint: usize,
    /// The directory chooses by this number of bits at most; beyond it segments grow wider.
    depth_max: u32,
}

impl HashTable {
    /// The table whose root line lies behind `anchor`. `item_hint` is the number of bytes of a typical item with its
    /// header.
    pub fn new(anchor: Pointer, tags: TagKey, item_hint: usize) -> Self {
        Self {
            anchor,
            tags,
            item_hint: item_hint.max(super::ITEM_HEADER_SIZE),
            depth_max: DEPTH_MAX,
        }
    }

    /// Reads the number of keys.
    pub fn length(&self) -> Length {
        Length::of_root(self.anchor, self.tags)
    }

    /// Makes an empty table. Returns its anchor.
    ///
    /// # Errors
    /// [`SpaceFault`].
    pub fn create(draft: &mut Draft<'_>, tags: TagKey) -> Result<Pointer, SpaceFault> {
        let segment = bucket::new_segment(draft, 0)?;
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

    /// The number of the place of an encoded key among all keys: changes of keys in this order reach each segment once.
    pub fn place_of(&self, key: &[u8]) -> u64 {
        self.hash_of(key).0
    }

    /// The hash of a key.
    fn hash_of(&self, key: &[u8]) -> KeyHash {
        KeyHash(self.tags.hash_of(key))
    }
}

/// The hash of a key: the top bits choose the segment, the lowest 5 to 10 bits the bucket, the 8 above these 10 are the
/// fingerprint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct KeyHash(u64);

impl KeyHash {
    /// The segment in a directory of 2^`depth` segments.
    fn prefix(self, depth: u32) -> u64 {
        // A shift by 64 bits would overflow.
        self.0.checked_shr(64 - depth).unwrap_or(0)
    }

    /// The first hash after those that have `depth` bits in common with this one; `None`: these are the last ones.
    fn behind(self, depth: u32) -> Option<u64> {
        let next = (self.prefix(depth) + 1).checked_shl(64 - depth);
        next.filter(|next| *next != 0)
    }

    /// The bucket in a segment of this width.
    fn bucket(self, width: u32) -> u64 {
        self.0 % bucket::buckets(width)
    }

    fn fingerprint(self) -> u64 {
        self.0 >> FINGERPRINT_BIT & 0xff
    }

    /// The pointer to the item of this key at a block that was taken: the high byte of its generation is the
    /// fingerprint.
    fn item_pointer(self, block: Pointer) -> Pointer {
        let generation = self.fingerprint() << 16 | block.generation() & 0xffff;
        Pointer::new(block.unit(), generation)
    }

    fn may_be(self, word: Pointer) -> bool {
        !word.is_null() && word.generation() >> 16 == self.fingerprint()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use stonecast_base::Span;

    use super::*;
    use crate::shapes::{Answer, drive};
    use crate::space::{Allocator, SlabGeometry, Workspace};
    use crate::wire::Verb;

    const SLAB_SIZE: u64 = 1 << 20;
    const SLABS: u64 = 3;

    /// Needs segments that grow wider: a directory of 2^2 words alone has room for 1,792 items, and for fewer with
    /// hashes as they come.
    #[test]
    fn a_table_whose_directory_is_full_grows_by_wider_segments() {
        let geometry = SlabGeometry::new(SLAB_SIZE, SLAB_SIZE);
        let mut allocator = Allocator::new(geometry);
        (0..SLABS).for_each(|slab| allocator.add_empty_slab(slab));
        let free = allocator.free_units();
        let mut workspace = Workspace::new(allocator);
        let tags = TagKey::of(crate::wire::LogKey(3), 1, 1);
        let mut draft = workspace.draft(1);
        let anchor = HashTable::create(&mut draft, tags).unwrap();
        draft.commit();
        let table = HashTable {
            depth_max: 2,
            ..HashTable::new(anchor, tags, 64)
        };
        let mut memory = vec![0; ((SLABS + 1) * SLAB_SIZE) as usize];
        let mut lsn = 1;
        let mut apply = |workspace: &mut Workspace, memory: &mut Vec<u8>, verb, key: u64| {
            lsn += 1;
            for entry in workspace.close().iter() {
                memory[entry.offset as usize..][..entry.bytes.len()].copy_from_slice(entry.bytes);
            }
            workspace.note_applied();
            let key = key.to_be_bytes();
            let read =
                |span: Span| Some(memory[span.offset as usize..][..span.size as usize].to_vec());
            let plan = drive(table.change(verb, &key, &key), read).unwrap();
            let mut draft = workspace.draft(lsn);
            let answer = plan.apply(&mut draft).unwrap();
            draft.commit();
            answer
        };
        let keys = 6_000;
        for key in 0..keys {
            let answer = apply(&mut workspace, &mut memory, Verb::Insert, key);
            assert_eq!(answer, Answer::Existed(false));
        }
        apply(&mut workspace, &mut memory, Verb::Remove, keys);
        let read = |span: Span| Some(memory[span.offset as usize..][..span.size as usize].to_vec());
        let contents = drive(table.walk(), read).unwrap();
        let items: BTreeMap<Vec<u8>, Vec<u8>> = contents.items.into_iter().collect();
        assert_eq!((contents.length, items.len() as u64), (keys, keys));
        let widest = contents.blocks.iter().map(|(_, size)| *size).max();
        assert!(widest >= Some(bucket::segment_size(2)), "{widest:?}");
        let units = |size: &u64| size.div_ceil(64).next_power_of_two();
        let used: u64 = contents.blocks.iter().map(|(_, size)| units(size)).sum();
        assert_eq!(used + workspace.allocator().free_units(), free);
        for key in 0..keys + 100 {
            let found = drive(table.find(&key.to_be_bytes()), read).unwrap();
            let expected = key.to_be_bytes();
            assert_eq!(found.value(), (key < keys).then_some(&expected[..]));
        }
    }
}
