//! The state of a shard, as an index keeps it.

use std::collections::BTreeMap;

use stonecast_replication::Point;

/// A key.
pub type Key = u8;

/// A write. Its number distinguishes it from every other write; a client that repeats a write repeats the number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Write {
    /// The number.
    pub number: u64,
    /// The key.
    pub key: Key,
    /// Whether the key is there afterwards.
    pub present: bool,
}

/// A write at its place in the history of its shard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Word {
    /// The place.
    pub point: Point,
    /// The write.
    pub write: Write,
}

/// The words of all keys, and the outcomes of all writes. A deleted key keeps its word here, so that oracles know the
/// delete; primaries do not look at that word.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct State {
    pub words: BTreeMap<Key, Word>,
    /// The words, by the numbers of their writes.
    pub done: BTreeMap<u64, Word>,
}

impl State {
    /// The next word of the history.
    pub fn apply(&mut self, word: Word) {
        self.words.insert(word.write.key, word);
        self.remember(word);
    }

    /// Notes the point of a write, which has no other.
    fn remember(&mut self, word: Word) {
        let known = *self.done.entry(word.write.number).or_insert(word);
        assert_eq!(known, word, "a write was done twice");
    }

    /// Takes everything that only `other` knows, and the later word of each key.
    pub fn merge(&mut self, other: &Self) {
        for (&key, &word) in &other.words {
            let known = self.words.entry(key).or_insert(word);
            if word.point > known.point {
                *known = word;
            }
        }
        other.done.values().for_each(|&word| self.remember(word));
    }
}
