//! The places where keys were last found: a bounded table of hints, so that a GET needs one round trip.
//!
//! ```text
//!   hash --> set:  | hash, distance | word | hash, distance | word | hash, distance | word | hash, distance | word |   64 bytes
//!                    asked for most --------------------------------------------> goes when a new key needs the place
//! ```
//!
//! The distance is the number of buckets between a key's home and its word. An entry that is found moves one place
//! forward, so that a key that is read once evicts no key that is read often.
//!
//! Invariants:
//! - An entry is only a hint: a reader that uses the entry reads the bucket in the same batch as the record, and
//!   believes the record if the bucket contains the word of the entry. An entry that is old, or wrong, costs a round
//!   trip.
//! - The table never grows beyond its first size. The table belongs to one connection and ends with the connection.

use std::cell::RefCell;

use crate::index::Location;
use crate::wire::{KeyHash, Word};

/// The farthest bucket from home whose words are remembered. Few keys lie farther.
pub(super) const DISTANCE_MAX: u64 = 1;

/// Entries of a set: as many as a cache line holds.
const WAYS: usize = 4;
/// Numbers of an entry: hash with distance, and word.
const ENTRY_WORDS: usize = 2;
/// Numbers of a set.
const SET_WORDS: usize = WAYS * ENTRY_WORDS;
/// Bits of the hash that make room for the distance. The word contains these bits, too.
const DISTANCE_MASK: u64 = 0b11;
const _: () = assert!(DISTANCE_MAX <= DISTANCE_MASK);

/// The places where keys were last found.
pub(super) struct Locations {
    /// The sets, from the first number at a cache line. Zeroed memory costs nothing until it is touched.
    words: RefCell<Vec<u64>>,
    /// Index of the first number of the first set.
    start: usize,
    /// Number of sets less 1; `None` if nothing is remembered.
    mask: Option<u64>,
}

impl Locations {
    /// A table for about `capacity` keys, 16 bytes each, rounded up to a power of two. A table for 0 keys remembers
    /// nothing.
    pub fn new(capacity: usize) -> Self {
        let sets = if capacity == 0 {
            0
        } else {
            capacity.div_ceil(WAYS).next_power_of_two()
        };
        let words = match sets {
            0 => Vec::new(),
            _ => vec![0; (sets + 1) * SET_WORDS],
        };
        let start = words
            .as_ptr()
            .align_offset(SET_WORDS * size_of::<u64>())
            .min(SET_WORDS);
        let mask = (sets as u64).checked_sub(1);
        Self {
            words: RefCell::new(words),
            start,
            mask,
        }
    }

    /// The place where the key with `hash` was last found.
    #[inline]
    pub fn find(&self, hash: KeyHash) -> Option<Location> {
        let first = self.set_of(hash)?;
        let words = &mut *self.words.borrow_mut();
        let set = words[first..].first_chunk_mut::<SET_WORDS>()?;
        let way = way_of(set, hash)?;
        let at = way * ENTRY_WORDS;
        let location = Location {
            word: Word(set[at + 1]),
            distance: set[at] & DISTANCE_MASK,
        };
        // The first entry is swapped with itself.
        let before = way.saturating_sub(1) * ENTRY_WORDS;
        set.swap(at, before);
        set.swap(at + 1, before + 1);
        Some(location)
    }

    /// Remembers the place where the key with `hash` was found.
    #[inline]
    pub fn learn(&self, hash: KeyHash, location: Location) {
        if location.distance > DISTANCE_MAX {
            return self.forget(hash);
        }
        self.put(hash, location.word, Some(location.distance));
    }

    /// Remembers the word that this client's own write has given to the key. The word's bucket is not known.
    pub fn learn_written(&self, hash: KeyHash, word: Word) {
        self.put(hash, word, None);
    }

    /// Forgets the key with `hash`.
    #[inline]
    pub fn forget(&self, hash: KeyHash) {
        self.change(hash, |set| {
            if let Some(way) = way_of(set, hash) {
                set[way * ENTRY_WORDS + 1] = Word::EMPTY.0;
            }
        });
    }

    #[inline]
    fn put(&self, hash: KeyHash, word: Word, distance: Option<u64>) {
        self.change(hash, |set| {
            let (way, known) = match way_of(set, hash) {
                Some(way) => (way, set[way * ENTRY_WORDS] & DISTANCE_MASK),
                None => (
                    (0..WAYS)
                        .find(|way| set[way * ENTRY_WORDS + 1] == Word::EMPTY.0)
                        .unwrap_or(WAYS - 1),
                    0,
                ),
            };
            set[way * ENTRY_WORDS] = hash.0 & !DISTANCE_MASK | distance.unwrap_or(known);
            set[way * ENTRY_WORDS + 1] = word.0;
        });
    }

    fn change(&self, hash: KeyHash, change: impl FnOnce(&mut [u64; SET_WORDS])) {
        let Some(first) = self.set_of(hash) else {
            return;
        };
        let mut words = self.words.borrow_mut();
        change(
            words[first..]
                .first_chunk_mut()
                .expect("each set lies in the table"),
        );
    }

    /// Index of the first number of the set to which `hash` belongs.
    #[inline]
    fn set_of(&self, hash: KeyHash) -> Option<usize> {
        // These bits do not choose the bucket, so keys of one bucket are spread over the sets.
        Some(self.start + ((hash.0 >> 16) & self.mask?) as usize * SET_WORDS)
    }
}

/// The place of the key with `hash` in its set.
#[inline]
fn way_of(set: &[u64; SET_WORDS], hash: KeyHash) -> Option<usize> {
    let (entries, _) = set.as_chunks::<ENTRY_WORDS>();
    let is_there = |&[key, word]: &[u64; ENTRY_WORDS]| {
        ((key ^ hash.0) & !DISTANCE_MASK == 0) & Word(word).matches(hash)
    };
    // One bit for each way, without a branch for each: a processor cannot predict which way matches.
    let ways = entries.iter().enumerate().fold(0, |ways, (way, entry)| {
        ways | u32::from(is_there(entry)) << way
    });
    if ways == 0 {
        None
    } else {
        Some(ways.trailing_zeros() as usize % WAYS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn word(hash: KeyHash, line: u64) -> Word {
        Word::new(line * 64, 1, hash, 64)
    }

    /// Keys of one set: the bits that choose the set are the same.
    fn of_one_set(number: u64) -> KeyHash {
        KeyHash(number << 48 | number)
    }

    #[test]
    fn a_place_that_was_learnt_is_found_until_the_key_is_forgotten() {
        let locations = Locations::new(64);
        let hash = KeyHash(0x1234_5678_9abc_def0);
        assert_eq!(locations.find(hash), None);
        let first = Location {
            word: word(hash, 1),
            distance: 1,
        };
        locations.learn(hash, first);
        assert_eq!(locations.find(hash), Some(first));
        // All bits of the hash count, even those that the distance replaces.
        for bit in 0..64 {
            assert_eq!(
                locations.find(KeyHash(hash.0 ^ 1 << bit)),
                None,
                "bit {bit}"
            );
        }
        locations.learn_written(hash, word(hash, 2));
        assert_eq!(
            locations.find(hash),
            Some(Location {
                word: word(hash, 2),
                distance: 1
            }),
            "the bucket stays known"
        );
        locations.forget(hash);
        assert_eq!(locations.find(hash), None);
        locations.learn(
            hash,
            Location {
                word: word(hash, 3),
                distance: DISTANCE_MAX + 1,
            },
        );
        assert_eq!(locations.find(hash), None, "too far from home");
    }

    /// Fails if a found entry does not move forward: the key that is read often loses its place.
    #[test]
    fn a_key_that_is_read_often_stays_while_others_come_and_go() {
        let locations = Locations::new(WAYS);
        let keys: Vec<KeyHash> = (1..=100).map(of_one_set).collect();
        let often = keys[3];
        for &key in &keys[..4] {
            locations.learn(
                key,
                Location {
                    word: word(key, 1),
                    distance: 0,
                },
            );
        }
        for &key in &keys[4..] {
            assert!(locations.find(often).is_some());
            locations.learn(
                key,
                Location {
                    word: word(key, 1),
                    distance: 0,
                },
            );
        }
        assert_eq!(
            keys.iter()
                .filter(|&&key| locations.find(key).is_some())
                .count(),
            WAYS,
            "one set remembers no more keys"
        );
    }

    #[test]
    fn a_table_of_no_size_remembers_nothing() {
        let locations = Locations::new(0);
        let hash = KeyHash(7);
        locations.learn(
            hash,
            Location {
                word: word(hash, 1),
                distance: 0,
            },
        );
        locations.forget(hash);
        assert_eq!(locations.find(hash), None);
    }

    /// Fails if the table does not begin at a cache line, or lacks the memory for that: the set of the highest number
    /// must lie in the table.
    #[test]
    fn every_set_lies_in_the_table_and_begins_a_cache_line() {
        for capacity in [1, 4, 5, 1000, 65_536] {
            let locations = Locations::new(capacity);
            let words = locations.words.borrow();
            assert!(
                words.len() * 8 <= 2 * 16 * capacity.max(WAYS).next_multiple_of(WAYS) + 64,
                "{capacity}"
            );
            let last = locations.set_of(KeyHash(u64::MAX)).unwrap();
            assert!(last + SET_WORDS <= words.len(), "{capacity}");
            assert!(
                words.as_ptr().wrapping_add(last).addr().is_multiple_of(64),
                "{capacity}"
            );
        }
    }
}
