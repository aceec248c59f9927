//! Buckets and segments.

use stonecast_base::{Span, mutant};

use crate::shapes::tag::{TagKey, word_at};
use crate::space::{Draft, SpaceFault};
use crate::wire::Pointer;

use super::{DEPTH_MAX, KeyHash, WIDTH_MAX};

/// Bytes of a bucket: a tag, a control word, and words of items.
pub(super) const BUCKET_SIZE: u64 = 128;
/// Buckets of a segment of width 0.
pub(super) const BUCKETS: u64 = 32;
/// Bits of a segment's generation; its width stands above them.
const GENERATION_BITS: u32 = 20;
/// Words before those of the items.
const CONTROL_WORDS: usize = 2;
/// Items of a bucket.
pub(super) const SLOTS: usize = BUCKET_SIZE as usize / 8 - CONTROL_WORDS;

/// The control word of a bucket whose segment was split. No depth is that large.
const DEAD: u64 = 0xff;

/// A bucket that was checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Bucket {
    control: u64,
    pub words: [Pointer; SLOTS],
}

/// Buckets of a segment of this width.
pub(super) const fn buckets(width: u32) -> u64 {
    BUCKETS << width
}

/// Bytes of a segment of this width.
pub(super) const fn segment_size(width: u32) -> u64 {
    BUCKET_SIZE * buckets(width)
}

/// The pointer to a segment of this width in a block that was taken.
pub(super) fn segment_pointer(block: Pointer, width: u32) -> Pointer {
    let generation = block.generation() & ((1 << GENERATION_BITS) - 1);
    Pointer::new(
        block.unit(),
        u64::from(width) << GENERATION_BITS | generation,
    )
}

/// Takes a block for a segment.
pub(super) fn new_segment(draft: &mut Draft<'_>, width: u32) -> Result<Pointer, SpaceFault> {
    let block = draft.allocate(segment_size(width))?;
    Ok(segment_pointer(block, width))
}

/// The width of the segment that a pointer names. A damaged pointer gives at most the largest width.
pub(super) fn width_of(segment: Pointer) -> u32 {
    ((segment.generation() >> GENERATION_BITS) as u32).min(WIDTH_MAX)
}

/// The place of a bucket in a segment.
pub(super) fn place(segment: Pointer, bucket: u64) -> Span {
    Span::new(segment.offset() + bucket * BUCKET_SIZE, BUCKET_SIZE)
}

impl Bucket {
    /// The bucket of a segment for the hashes whose first `depth` bits are `prefix`.
    fn new((depth, prefix): (u32, u64), words: [Pointer; SLOTS]) -> Self {
        let control = u64::from(depth) | prefix << 8;
        Self { control, words }
    }

    /// The bucket in `bytes`; `None` if they hold none.
    pub fn parse(tags: TagKey, segment: Pointer, bucket: u64, bytes: &[u8]) -> Option<Self> {
        let is_bucket = bytes.len() as u64 == BUCKET_SIZE && tags.is_sealed(segment, bucket, bytes);
        is_bucket.then(|| Self {
            control: word_at(bytes, 1),
            words: std::array::from_fn(|slot| {
                Pointer::from_word(word_at(bytes, CONTROL_WORDS + slot))
            }),
        })
    }

    pub fn bytes(&self, tags: TagKey, segment: Pointer, bucket: u64) -> Vec<u8> {
        let words = self.words.iter().map(|word| word.word());
        let words = [0, self.control].into_iter().chain(words);
        let mut bytes: Vec<u8> = words.flat_map(u64::to_le_bytes).collect();
        tags.seal(segment, bucket, &mut bytes);
        bytes
    }

    /// Bits of the hash that the segment's keys have in common.
    pub fn depth(&self) -> u32 {
        (self.control & 0xff) as u32
    }

    /// Whether this bucket is the one for keys with this hash.
    pub fn is_home_of(&self, hash: KeyHash) -> bool {
        let depth = self.depth();
        depth <= DEPTH_MAX && hash.prefix(depth) == self.control >> 8
    }

    /// Replaces the word of a slot. The word is stored before the tag.
    pub fn write_slot(
        &mut self,
        draft: &mut Draft<'_>,
        tags: TagKey,
        (segment, bucket): (Pointer, u64),
        slot: usize,
        word: Pointer,
    ) {
        self.words[slot] = word;
        let bytes = self.bytes(tags, segment, bucket);
        let offset = place(segment, bucket).offset;
        let at = (CONTROL_WORDS + slot) as u64 * 8;
        draft.write_word(offset + at, word.word());
        draft.write(offset, &bytes[..8]);
    }
}

/// Writes a new segment with these items.
///
/// # Panics
/// Panics if a bucket has no room for its items.
pub(super) fn write_segment(
    draft: &mut Draft<'_>,
    tags: TagKey,
    segment: Pointer,
    part: (u32, u64),
    items: &[(KeyHash, Pointer)],
) {
    let width = width_of(segment);
    let mut of_buckets = vec![Vec::new(); buckets(width) as usize];
    for (hash, word) in items {
        of_buckets[hash.bucket(width) as usize].push(*word);
    }
    let mut bytes = Vec::new();
    for (bucket, of_bucket) in of_buckets.into_iter().enumerate() {
        let mut words = [Pointer::NULL; SLOTS];
        words[..of_bucket.len()].copy_from_slice(&of_bucket);
        let new = Bucket::new(part, words);
        bytes.extend_from_slice(&new.bytes(tags, segment, bucket as u64));
    }
    draft.write(segment.offset(), &bytes);
}

/// Marks the buckets of a segment as dead, so that a reader with an old directory notices.
pub(super) fn kill_segment(draft: &mut Draft<'_>, tags: TagKey, segment: Pointer) {
    if mutant!(DeadNotMarked) {
        return;
    }
    let dead = Bucket {
        control: DEAD,
        words: [Pointer::NULL; SLOTS],
    };
    for bucket in 0..buckets(width_of(segment)) {
        let bytes = dead.bytes(tags, segment, bucket);
        draft.write(place(segment, bucket).offset, &bytes);
    }
}
