//! The index as its only writer, the server, sees it: a table that clients read one-sided, and that grows while they
//! read.
//!
//! ```text
//!              nearly full            all copied                all marked
//!   one table ------------> copying  ------------>  marking   ------------> one table, twice as large
//!               readers use  old          old, or new where marked     new
//!               changes go   to old, and to new                        to new, after the old home is marked
//!               to           where copied
//! ```
//!
//! *Copying*: the old table stays whole and current; copied buckets are kept equal. *Marking*: the new table is whole
//! and current; a reader that finds a marked bucket in the old table asks the server for the new one. Before a key
//! changes, its home bucket in the old table is marked. A reader that found no mark therefore began before the change,
//! and its result was true at some moment during the call, even the absence of a key.
//!
//! **Claims.** If clients publish overwrites themselves, a word may change at any moment, by CAS, to the word of a
//! newer record of the same key; only the server makes and empties words. The server keeps clients off a word by a
//! claim: a size class too high, which readers accept and publishing clients leave alone. A word that is copied to a
//! larger table stays claimed in the old table, and the store that adds a new word to a copied bucket adds a claimed
//! word.
//!
//! Copying and marking advance in small steps between batches, in proportion to the bytes written, so that no request
//! waits for them.
//!
//! Top bits of the hash choose the bucket: a bucket's keys go to its two children in the larger table, except for keys
//! that overflowed into a later bucket. A word does not contain the hash of its key; the hash is calculated from the
//! key in the log.

mod generations;
mod look_up;
mod table;

use std::rc::Rc;

use stonecast_base::{LINE_SIZE, mutant};
use stonecast_log::{RECORD_START_SIZE, RecordHeader};
use stonecast_media::Region;

use crate::wire::{BUCKET_WORDS, INDEX_BITS_MAX, KeyHash, KeyMap, Word};

pub(crate) use generations::{GENERATIONS, Generations};
pub(crate) use look_up::{
    FoundRecord, Judged, Location, LookUp, LookUpStep, Recall, Wanted, WholeChunk, WholeRecord,
    first_read_size, whole_size,
};
pub(crate) use table::{Place, Table};

/// log2 of the least number of buckets: a page of memory.
const INDEX_BITS_MIN: u32 = 6;
/// Share of words that may be taken. Beyond this share, chains of full buckets grow long.
const LOAD_MAX_PERCENT: u64 = 85;
/// Share of taken words at which a growth begins. The remaining words up to `LOAD_MAX_PERCENT` exceed the keys that are
/// added during the growth.
const LOAD_GROW_PERCENT: u64 = 70;
/// Share of taken words in a table made for a known number of keys.
const LOAD_START_PERCENT: u64 = 60;
/// Buckets whose keys are fetched from the log together.
const BUCKETS_PER_FETCH: u64 = 16;
/// Bytes of a record that are fetched ahead for its hash: the header and most keys.
const FETCH_SIZE: u64 = 2 * LINE_SIZE as u64;

/// The index of a shard, as the server writes it.
pub(crate) struct Index {
    table: Table,
    len: u64,
    growth: Growth,
    /// Whether clients change words.
    is_shared: bool,
}

/// The progress of a growth. The numbers are buckets of the old table.
enum Growth {
    None,
    Copying { new: Table, copied: u64 },
    Marking { old: Table, marked: u64 },
}

/// The result of a step of a growth.
pub(crate) enum GrowthStep {
    /// The growth continues.
    Continues,
    /// The copying has ended: the new table is current.
    Switched,
    /// The marking has ended: no reader starts with the old table.
    Ended,
}

/// The hash of the key of the record at `position`, and the header of the record. `None` if no record is there.
/// `scratch` is reused.
fn record_at(
    log: &dyn Region,
    keys: KeyMap,
    position: u64,
    scratch: &mut Vec<u8>,
) -> Option<(KeyHash, RecordHeader)> {
    let mut start = [0; RECORD_START_SIZE];
    if position.checked_add(start.len() as u64)? > log.size() {
        return None;
    }
    log.read(position, &mut start);
    let header = RecordHeader::parse(&start).ok()?;
    let key_position = position + header.key_start() as u64;
    if header.key_size() as u64 > log.size() - key_position {
        return None;
    }
    scratch.resize(header.key_size(), 0);
    log.read(key_position, scratch);
    Some((keys.route_of(header.form(), scratch).hash, header))
}

impl Index {
    /// log2 of the number of buckets for `keys` keys.
    pub fn bits_for(keys: u64) -> u32 {
        let buckets = keys
            .saturating_mul(100)
            .div_ceil(BUCKET_WORDS * LOAD_START_PERCENT)
            .max(1);
        buckets
            .next_power_of_two()
            .trailing_zeros()
            .clamp(INDEX_BITS_MIN, INDEX_BITS_MAX)
    }

    /// An empty index in zeroed `memory`.
    pub fn new(memory: Rc<dyn Region>, bits: u32) -> Self {
        Self {
            table: Table::new(memory, bits),
            len: 0,
            growth: Growth::None,
            is_shared: false,
        }
    }

    /// Lets clients change words, too.
    pub fn share(&mut self) {
        self.is_shared = true;
    }

    /// Whether clients may change words of the current table. Clients may not while a reader may begin with the old
    /// table, since only the server marks that table before a key changes.
    pub fn may_be_published(&self) -> bool {
        self.is_shared && !matches!(self.growth, Growth::Marking { .. })
    }

    /// Number of keys.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Number of keys that the index takes without growing further.
    pub fn capacity(&self) -> u64 {
        self.table.words() * LOAD_MAX_PERCENT / 100
    }

    /// The table that is current.
    pub fn table(&self) -> &Table {
        &self.table
    }

    /// Hints that `hash` will be looked up.
    pub fn prefetch(&self, hash: KeyHash) {
        self.table.prefetch(hash);
    }

    /// Calls `each` with the words in the home bucket that may belong to `hash`, so that their records can be
    /// prefetched.
    #[inline]
    pub fn each_candidate(&self, hash: KeyHash, each: impl FnMut(Word)) {
        self.table.each_candidate(hash, each);
    }

    /// Finds the word of the key with `hash` for which `is_key` holds.
    pub fn find(&self, hash: KeyHash, is_key: impl FnMut(Word) -> bool) -> Option<(Place, Word)> {
        self.table.find(hash, is_key)
    }

    /// Keeps clients off the word of the key with `hash`. `natural` tells which of the matching words belongs to the
    /// key, and returns the unclaimed form of that word. Returns the word if no claim preceded this one; the caller has
    /// to give the word back or replace it.
    pub fn claim(
        &self,
        hash: KeyHash,
        mut natural: impl FnMut(Word) -> Option<Word>,
    ) -> Option<Word> {
        loop {
            let (place, found) = self.table.find(hash, |word| natural(word).is_some())?;
            let word = natural(found).filter(|&word| word == found && word.claimed() != word)?;
            // If a client was faster, the client's record is the key's.
            if mutant!(ClaimIgnored) || self.table.exchange(place, word, word.claimed()) {
                return Some(word);
            }
        }
    }

    /// Ends a claim of `word`, which was not replaced.
    pub fn give_back(&self, hash: KeyHash, word: Word) {
        if let Some((place, found)) = self.table.find(hash, |found| found.names(word)) {
            self.table.exchange(place, found, self.shown(place, word));
        }
    }

    /// The word that the current table shows at `place` for `word`: a copied word is claimed, since only the server
    /// changes copied words.
    fn shown(&self, place: Place, word: Word) -> Word {
        if self.is_shared && self.copy_of(place).is_some() {
            word.claimed()
        } else {
            word
        }
    }

    /// Replaces `old`, which was found at `place`, by the word of the key's next version. Returns false if another
    /// writer has replaced `old`.
    pub fn replace(&self, hash: KeyHash, (place, old): (Place, Word), word: Word) -> bool {
        self.before_change(hash);
        if !self.table.exchange(place, old, self.shown(place, word)) {
            return false;
        }
        if let Some(new) = self.copy_of(place)
            && let Some((place, _)) = new.find(hash, |found| found.names(old))
        {
            new.store(place, word);
        }
        true
    }

    /// Adds the word of a key that is not in the index. The caller has checked that `len` is below `capacity`.
    pub fn insert(&mut self, hash: KeyHash, word: Word) {
        self.before_change(hash);
        // One store adds the word, claimed or not, so that clients never see another form of a word that they may not
        // replace.
        let place = self.table.insert(hash, |place| self.shown(place, word));
        if let Some(new) = self.copy_of(place) {
            new.insert(hash, |_| word);
        }
        self.len += 1;
    }

    /// Removes `old`, the word of a deleted key, which was found at `place`. Returns false if another writer has
    /// replaced `old`.
    pub fn remove(&mut self, hash: KeyHash, (place, old): (Place, Word)) -> bool {
        self.before_change(hash);
        if !self.table.remove(hash, place, old) {
            return false;
        }
        if let Some(new) = self.copy_of(place)
            && let Some((place, found)) = new.find(hash, |found| found.names(old))
        {
            new.remove(hash, place, found);
        }
        self.len -= 1;
        true
    }

    /// Stores a bucket of a checkpoint into an index that has no readers yet.
    pub fn restore_bucket(&mut self, bucket: u64, words: &[u64; 8]) {
        self.table.restore_bucket(bucket, words);
        self.len += words[..BUCKET_WORDS as usize]
            .iter()
            .filter(|&&word| word != Word::EMPTY.0)
            .count() as u64;
    }

    /// log2 of the buckets of the table to grow into, if it is time to grow.
    pub fn wants(&self) -> Option<u32> {
        self.larger()
            .filter(|_| self.len >= self.table.words() * LOAD_GROW_PERCENT / 100)
    }

    /// log2 of the buckets of the table to grow into, if the index can grow.
    pub fn larger(&self) -> Option<u32> {
        let can = self.table.bits() < INDEX_BITS_MAX && matches!(self.growth, Growth::None);
        can.then(|| self.table.bits() + 1)
    }

    /// Begins to grow into zeroed `memory`, of the size that [`Index::larger`] names.
    pub fn begin_growth(&mut self, memory: Rc<dyn Region>) {
        assert!(matches!(self.growth, Growth::None), "one growth at a time");
        self.growth = Growth::Copying {
            new: Table::new(memory, self.table.bits() + 1),
            copied: 0,
        };
    }

    /// Whether the index is growing.
    pub fn is_growing(&self) -> bool {
        !matches!(self.growth, Growth::None)
    }

    /// Advances a growth by about `buckets` buckets.
    pub fn step(&mut self, buckets: u64, log: &dyn Region, keys: KeyMap) -> GrowthStep {
        match &mut self.growth {
            Growth::None => GrowthStep::Ended,
            Growth::Copying { new, copied } => {
                let end = copied.saturating_add(buckets).min(self.table.buckets());
                copy(&self.table, *copied..end, new, log, keys, self.is_shared);
                *copied = end;
                if end < self.table.buckets() {
                    return GrowthStep::Continues;
                }
                let Growth::Copying { new, .. } = std::mem::replace(&mut self.growth, Growth::None)
                else {
                    unreachable!()
                };
                let old = std::mem::replace(&mut self.table, new);
                self.growth = Growth::Marking { old, marked: 0 };
                GrowthStep::Switched
            }
            Growth::Marking { old, marked } => {
                // A mark is one store to a line, far less work than the copy of a bucket.
                let end = marked
                    .saturating_add(buckets.saturating_mul(8))
                    .min(old.buckets());
                (*marked..end).for_each(|bucket| old.mark_moved(bucket));
                *marked = end;
                if end < old.buckets() {
                    return GrowthStep::Continues;
                }
                self.growth = Growth::None;
                GrowthStep::Ended
            }
        }
    }

    /// Moves all words into an empty table in zeroed `memory`, while there are no readers.
    pub fn move_to(&mut self, memory: Rc<dyn Region>, bits: u32, log: &dyn Region, keys: KeyMap) {
        assert!(
            !self.is_growing(),
            "a growing index changes its table step by step"
        );
        let new = Table::new(memory, bits);
        copy(&self.table, 0..self.table.buckets(), &new, log, keys, false);
        self.table = new;
    }

    /// Calls `seen` with the hash and the word of each key, and the header of its record.
    pub fn each(
        &self,
        log: &dyn Region,
        keys: KeyMap,
        mut seen: impl FnMut((KeyHash, Word), &RecordHeader),
    ) {
        let mut scratch = Vec::new();
        let words = (0..self.table.buckets()).flat_map(|bucket| self.table.words_of(bucket));
        for word in words.filter(|&word| word != Word::EMPTY) {
            let record = record_at(log, keys, word.position(), &mut scratch);
            if let Some((hash, header)) = record.filter(|&(hash, _)| word.matches(hash)) {
                seen((hash, word), &header);
            }
        }
    }

    /// Removes all words, and calls `died` with position and size of each record that they named.
    pub fn clear(&mut self, log: &dyn Region, keys: KeyMap, mut died: impl FnMut(u64, u64)) {
        let mut scratch = Vec::new();
        let buckets = 0..self.table.buckets();
        let words = buckets.flat_map(|bucket| {
            let words = self.table.words_of(bucket);
            let words = words.filter(|&word| word != Word::EMPTY);
            words.map(move |word| (bucket, word))
        });
        let words: Vec<_> = words.collect();
        for (bucket, word) in words {
            let record = record_at(log, keys, word.position(), &mut scratch);
            let record = record.filter(|&(hash, _)| word.matches(hash));
            let (hash, size) = record.map_or_else(
                || (word.hash_of_bucket(bucket, self.table.bits()), 0),
                |(hash, header)| (hash, header.size()),
            );
            let found = self.find(hash, |found| found == word);
            let found = found.expect("a word lies at its home, or behind it");
            self.remove(hash, found);
            died(word.position(), size);
        }
    }

    /// The larger table, if the word at `place` was copied to it.
    fn copy_of(&self, place: Place) -> Option<&Table> {
        match &self.growth {
            Growth::Copying { new, copied } if place.bucket < *copied => Some(new),
            _ => None,
        }
    }

    /// Marks the home bucket of `hash` in the old table, so that later readers go to the new one.
    fn before_change(&self, hash: KeyHash) {
        if let Growth::Marking { old, .. } = &self.growth {
            old.mark_moved(hash.bucket(old.bits()));
        }
    }
}

/// Copies the words of `buckets` into another table.
///
/// Only a client that overwrites its own published records, against the rules, can make the key of a word unreadable.
/// Such a word goes to a bucket where a key of its bucket would be searched for, so that the damage is still found and
/// reported.
///
/// If clients change words, each word is claimed first, so that the copied word stays until the server changes it.
fn copy(
    from: &Table,
    buckets: std::ops::Range<u64>,
    to: &Table,
    log: &dyn Region,
    keys: KeyMap,
    claims: bool,
) {
    let mut scratch = Vec::new();
    let mut start = buckets.start;
    while start < buckets.end {
        let end = (start + BUCKETS_PER_FETCH).min(buckets.end);
        let places = || {
            (start..end)
                .flat_map(|bucket| (0..BUCKET_WORDS).map(move |slot| from.place(bucket, slot)))
        };
        let used = || {
            places()
                .map(|place| (place, from.word(place)))
                .filter(|&(_, word)| word != Word::EMPTY)
        };
        for (_, word) in used() {
            let size = FETCH_SIZE.min(log.size().saturating_sub(word.position()));
            log.prefetch(word.position().min(log.size() - size), size);
        }
        for (place, mut word) in used() {
            let mut record;
            loop {
                record = record_at(log, keys, word.position(), &mut scratch)
                    .filter(|&(hash, _)| word.matches(hash));
                let natural = record.map_or(word, |(_, header)| word.natural(header.size()));
                let is_settled = !claims || word != natural || natural.claimed() == natural;
                if is_settled || from.exchange(place, natural, natural.claimed()) {
                    word = natural;
                    break;
                }
                word = from.word(place);
            }
            let hash = record.map_or_else(
                || word.hash_of_bucket(place.bucket, from.bits()),
                |(hash, _)| hash,
            );
            to.insert(hash, |_| word);
        }
        start = end;
    }
}

#[cfg(test)]
mod tests;
