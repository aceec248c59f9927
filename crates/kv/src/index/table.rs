//! One table of the index: buckets of one cache line in memory that clients read one-sided.
//!
//! A key's word is in its home bucket or, if that bucket was full, in a later one (wrapping around). A reader continues
//! with the next bucket while the count is not 0. Words in a bucket that is marked as moved do not count: another table
//! has taken them over.
//!
//! Invariants: there is one word per key. A word keeps its place until its key is deleted. Each change that readers see
//! is one 8-byte store. A word is stored after its record is persisted. The count grows before a word is stored in a
//! later bucket and shrinks after that word is removed.
//!
//! The memory is volatile: a crash leaves nothing, and recovery fills a new table.

use std::rc::Rc;
use std::sync::atomic::{Ordering, fence};

use stonecast_base::LINE_SIZE;
use stonecast_media::Region;

use crate::wire::{BUCKET_WORDS, Bucket, CONTROL_OFFSET, KeyHash, MOVED, Word, table_size};

/// One table of the index.
pub(crate) struct Table {
    memory: Rc<dyn Region>,
    bits: u32,
}

/// The place of a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub bucket: u64,
    slot: u64,
}

impl Place {
    fn offset(self) -> u64 {
        self.bucket * LINE_SIZE as u64 + self.slot * 8
    }
}

impl Table {
    /// Bytes of a table of 2^`bits` buckets.
    pub fn size(bits: u32) -> u64 {
        table_size(bits)
    }

    /// An empty table in zeroed `memory`.
    pub fn new(memory: Rc<dyn Region>, bits: u32) -> Self {
        assert_eq!(memory.size(), Self::size(bits));
        Self { memory, bits }
    }

    /// log2 of the number of buckets.
    pub fn bits(&self) -> u32 {
        self.bits
    }

    /// Number of buckets.
    pub fn buckets(&self) -> u64 {
        1 << self.bits
    }

    /// Number of words for keys.
    pub fn words(&self) -> u64 {
        self.buckets() * BUCKET_WORDS
    }

    /// The memory that clients read.
    pub fn memory(&self) -> &Rc<dyn Region> {
        &self.memory
    }

    /// Hints that `hash` will be looked up.
    pub fn prefetch(&self, hash: KeyHash) {
        self.memory
            .prefetch(hash.bucket(self.bits) * LINE_SIZE as u64, LINE_SIZE as u64);
    }

    /// Calls `each` with the words in the home bucket that may belong to `hash`, so that their records can be
    /// prefetched.
    #[inline]
    pub fn each_candidate(&self, hash: KeyHash, mut each: impl FnMut(Word)) {
        let mut line = [0; LINE_SIZE];
        let bucket = self.read(hash.bucket(self.bits), &mut line);
        let mut candidates = bucket.candidates(hash);
        while let Some((_, word)) = bucket.next_of(&mut candidates) {
            each(word);
        }
    }

    /// The words of a bucket, empty words included.
    pub fn words_of(&self, bucket: u64) -> impl Iterator<Item = Word> {
        let mut line = [0; LINE_SIZE];
        self.read(bucket, &mut line).words().into_iter()
    }

    /// Reads a bucket into `line`, each word whole. One copy of the line costs less than eight loads.
    #[inline]
    fn read<'a>(&self, bucket: u64, line: &'a mut [u8; LINE_SIZE]) -> Bucket<'a> {
        self.memory.read(bucket * LINE_SIZE as u64, line);
        // A copy is no acquire. The record that a client has published with a word is read after the word.
        fence(Ordering::Acquire);
        Bucket::parse(line)
    }

    /// The words of `bucket`, and of the later buckets to which its keys may have overflowed. Words of other keys are
    /// among them.
    pub fn words_near(&self, bucket: u64) -> impl Iterator<Item = Word> {
        let mut goes_on = true;
        let near = (0..self.buckets()).map(move |step| (bucket + step) & (self.buckets() - 1));
        let near = near.take_while(move |&passed| {
            std::mem::replace(&mut goes_on, self.control(passed) & !MOVED != 0)
        });
        let words = near.flat_map(|near| self.words_of(near));
        words.filter(|&word| word != Word::EMPTY)
    }

    /// Finds the word of the key with `hash` for which `is_key` holds.
    pub fn find(
        &self,
        hash: KeyHash,
        mut is_key: impl FnMut(Word) -> bool,
    ) -> Option<(Place, Word)> {
        let mut line = [0; LINE_SIZE];
        for bucket in self.buckets_for(hash) {
            let read = self.read(bucket, &mut line);
            let mut candidates = read.candidates(hash);
            while let Some((slot, word)) = read.next_of(&mut candidates) {
                if is_key(word) {
                    let slot = slot as u64;
                    return Some((Place { bucket, slot }, word));
                }
            }
            if self.control(bucket) & !MOVED == 0 {
                return None;
            }
        }
        None
    }

    /// Stores `word` at `place`.
    pub fn store(&self, place: Place, word: Word) {
        self.memory.store(place.offset(), word.0);
    }

    /// Replaces `old` at `place` by `word`. Returns false if another word is there.
    pub fn exchange(&self, place: Place, old: Word, word: Word) -> bool {
        self.memory
            .compare_exchange(place.offset(), old.0, word.0)
            .is_ok()
    }

    /// The place of a word of a bucket.
    pub fn place(&self, bucket: u64, slot: u64) -> Place {
        Place { bucket, slot }
    }

    /// The word at `place`.
    pub fn word(&self, place: Place) -> Word {
        Word(self.memory.load(place.offset()))
    }

    /// Adds the word of a key that is not in the table; `word` makes the word from its place. The caller has checked
    /// that there is a free place.
    pub fn insert(&self, hash: KeyHash, word: impl FnOnce(Place) -> Word) -> Place {
        for bucket in self.buckets_for(hash) {
            let free = self.words_of(bucket).position(|word| word == Word::EMPTY);
            if let Some(slot) = free {
                let place = Place {
                    bucket,
                    slot: slot as u64,
                };
                self.buckets_for(hash)
                    .take_while(|&passed| passed != bucket)
                    .for_each(|passed| self.add_to_control(passed, 1));
                self.store(place, word(place));
                return place;
            }
        }
        panic!("a table below its capacity has a free word");
    }

    /// Removes `old`, the word of a deleted key, from `place`. Returns false if another word is there.
    pub fn remove(&self, hash: KeyHash, place: Place, old: Word) -> bool {
        if !self.exchange(place, old, Word::EMPTY) {
            return false;
        }
        for passed in self
            .buckets_for(hash)
            .take_while(|&passed| passed != place.bucket)
        {
            self.add_to_control(passed, u64::MAX);
        }
        true
    }

    /// Tells readers that another table has taken over the content of `bucket`.
    pub fn mark_moved(&self, bucket: u64) {
        let offset = bucket * LINE_SIZE as u64 + CONTROL_OFFSET;
        self.memory.store(offset, self.memory.load(offset) | MOVED);
    }

    /// Calls `visit` with the number and the eight words of each bucket that is not all zero.
    pub fn for_each_bucket(&self, mut visit: impl FnMut(u64, &[u64; 8])) {
        for bucket in 0..self.buckets() {
            let mut line = [0; LINE_SIZE];
            self.read(bucket, &mut line);
            let words = zerocopy::transmute!(line);
            if words != [0; 8] {
                visit(bucket, &words);
            }
        }
    }

    /// Stores a bucket of a checkpoint into a table that has no readers yet.
    pub fn restore_bucket(&self, bucket: u64, words: &[u64; 8]) {
        for (slot, &word) in words.iter().enumerate() {
            self.memory
                .store(bucket * LINE_SIZE as u64 + slot as u64 * 8, word);
        }
    }

    /// All buckets from the home of `hash` on, wrapping around.
    fn buckets_for(&self, hash: KeyHash) -> impl Iterator<Item = u64> {
        let (home, buckets) = (hash.bucket(self.bits), self.buckets());
        (0..buckets).map(move |step| (home + step) & (buckets - 1))
    }

    fn control(&self, bucket: u64) -> u64 {
        self.memory.load(bucket * LINE_SIZE as u64 + CONTROL_OFFSET)
    }

    fn add_to_control(&self, bucket: u64, add: u64) {
        let control = self.control(bucket);
        let count = (control & !MOVED).wrapping_add(add);
        assert!(
            count <= 1 << 40,
            "the count of bucket {bucket} went below zero"
        );
        self.memory.store(
            bucket * LINE_SIZE as u64 + CONTROL_OFFSET,
            control & MOVED | count,
        );
    }
}
