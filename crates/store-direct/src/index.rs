//! The index as its only writer, the server, sees it: buckets of one cache line in memory that clients read one-sided.
//!
//! ```text
//!   bucket b:  | word | word | word | word | word | word | word | control |     64 bytes
//! ```
//!
//! A key's word is in its home bucket or, if that was full, in a later one (wrapping around). `control` counts the words
//! whose home is at or before this bucket and that lie after it: a reader goes on to the next bucket while it is not 0.
//!
//! Invariants: one word per key; a word stays where it is until its key is deleted; each change that readers see is one
//! 8-byte store; a word is stored after what it points to is persisted, and `control` grows before a word is stored
//! beyond and shrinks after it is gone.
//!
//! The memory is volatile: a crash leaves nothing, recovery fills a fresh index.

use std::rc::Rc;

use stonecast_base::LINE_SIZE;
use stonecast_media::Region;

use crate::word::{KeyHash, Word};

/// Words of a bucket that hold keys.
pub(crate) const BUCKET_WORDS: u64 = 7;
/// Byte offset of the control word in its bucket.
pub(crate) const CONTROL_OFFSET: u64 = BUCKET_WORDS * 8;
/// Share of words that may be taken: beyond it chains of full buckets grow long.
const LOAD_MAX_PERCENT: u64 = 85;

/// See the module documentation.
pub(crate) struct Index {
    memory: Rc<dyn Region>,
    bits: u32,
    len: u64,
}

/// Where a word lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    bucket: u64,
    slot: u64,
}

impl Place {
    fn offset(self) -> u64 {
        self.bucket * LINE_SIZE as u64 + self.slot * 8
    }
}

impl Index {
    /// log2 of the number of buckets for a log of `capacity` bytes: a word for each 128 bytes of log, because most
    /// records are larger and one that is smaller may meet a full index.
    pub fn bits_for(capacity: u64) -> u32 {
        (capacity / 1024).max(8).next_power_of_two().trailing_zeros()
    }

    /// Bytes of an index of 2^`bits` buckets.
    pub fn size(bits: u32) -> u64 {
        (1 << bits) * LINE_SIZE as u64
    }

    /// An empty index in zeroed `memory`.
    pub fn new(memory: Rc<dyn Region>, bits: u32) -> Self {
        assert_eq!(memory.size(), Self::size(bits));
        Self { memory, bits, len: 0 }
    }

    /// Number of keys.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// log2 of the number of buckets.
    pub fn bits(&self) -> u32 {
        self.bits
    }

    /// Number of keys that it takes.
    pub fn capacity(&self) -> u64 {
        ((1u64 << self.bits) * BUCKET_WORDS * LOAD_MAX_PERCENT / 100).max(1)
    }

    /// The memory that clients read.
    pub fn memory(&self) -> &Rc<dyn Region> {
        &self.memory
    }

    /// Hints that `hash` will be looked up.
    pub fn prefetch(&self, hash: KeyHash) {
        self.memory.prefetch(hash.bucket(self.bits) * LINE_SIZE as u64, LINE_SIZE as u64);
    }

    /// The words in the home bucket that may belong to `hash`, for prefetching what they point to.
    pub fn candidates(&self, hash: KeyHash) -> impl Iterator<Item = Word> {
        let base = hash.bucket(self.bits) * LINE_SIZE as u64;
        (0..BUCKET_WORDS).map(move |slot| Word(self.memory.load(base + slot * 8))).filter(move |word| word.matches(hash))
    }

    /// Finds the word of the key with `hash` for which `is_key` holds.
    pub fn find(&self, hash: KeyHash, mut is_key: impl FnMut(Word) -> bool) -> Option<(Place, Word)> {
        let buckets = 1u64 << self.bits;
        let home = hash.bucket(self.bits);
        for step in 0..buckets {
            let bucket = (home + step) % buckets;
            let base = bucket * LINE_SIZE as u64;
            for slot in 0..BUCKET_WORDS {
                let word = Word(self.memory.load(base + slot * 8));
                if word.matches(hash) && is_key(word) {
                    return Some((Place { bucket, slot }, word));
                }
            }
            if self.memory.load(base + CONTROL_OFFSET) == 0 {
                return None;
            }
        }
        None
    }

    /// Replaces the word at `place`: the key's next version.
    pub fn replace(&self, place: Place, word: Word) {
        self.memory.store(place.offset(), word.0);
    }

    /// Adds the word of a key that is not in the index. The caller has seen to it that `len` is below `capacity`, so there
    /// is a place.
    pub fn insert(&mut self, hash: KeyHash, word: Word) {
        let buckets = 1u64 << self.bits;
        let home = hash.bucket(self.bits);
        for step in 0..buckets {
            let bucket = (home + step) % buckets;
            for slot in 0..BUCKET_WORDS {
                let place = Place { bucket, slot };
                if self.memory.load(place.offset()) == 0 {
                    for passed in 0..step {
                        self.add_to_control((home + passed) % buckets, 1);
                    }
                    self.memory.store(place.offset(), word.0);
                    self.len += 1;
                    return;
                }
            }
        }
        panic!("an index below its capacity has a free word");
    }

    /// Removes the word of a deleted key.
    pub fn remove(&mut self, hash: KeyHash, place: Place) {
        let buckets = 1u64 << self.bits;
        let home = hash.bucket(self.bits);
        self.memory.store(place.offset(), 0);
        self.len -= 1;
        let mut bucket = home;
        while bucket != place.bucket {
            self.add_to_control(bucket, u64::MAX);
            bucket = (bucket + 1) % buckets;
        }
    }

    /// Calls `visit` with the number and the eight words of each bucket that is not all zero.
    pub fn for_each_bucket(&self, mut visit: impl FnMut(u64, &[u64; 8])) {
        let mut bytes = [0; LINE_SIZE];
        for bucket in 0..1u64 << self.bits {
            self.memory.read(bucket * LINE_SIZE as u64, &mut bytes);
            let words: [u64; 8] =
                std::array::from_fn(|i| u64::from_le_bytes(bytes[i * 8..i * 8 + 8].try_into().expect("8 bytes")));
            if words != [0; 8] {
                visit(bucket, &words);
            }
        }
    }

    /// Stores a bucket of a checkpoint into an index that nobody reads yet.
    pub fn restore_bucket(&mut self, bucket: u64, words: &[u64; 8]) {
        for (slot, &word) in words.iter().enumerate() {
            self.memory.store(bucket * LINE_SIZE as u64 + slot as u64 * 8, word);
        }
        self.len += words[..BUCKET_WORDS as usize].iter().filter(|&&word| word != 0).count() as u64;
    }

    fn add_to_control(&self, bucket: u64, add: u64) {
        let offset = bucket * LINE_SIZE as u64 + CONTROL_OFFSET;
        let count = self.memory.load(offset).wrapping_add(add);
        assert!(count <= 1 << 40, "the control word of bucket {bucket} went below zero");
        self.memory.store(offset, count);
    }
}
