//! What clients were told, and what must follow from it.

use std::collections::BTreeMap;

use stonecast_replication::Point;

pub type Key = u8;
/// The state of every key: what a store's index says.
pub type Index = BTreeMap<Key, Word>;

/// A write, told from every other one by its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Write {
    pub number: u64,
    pub key: Key,
    /// Whether the key is there afterwards.
    pub present: bool,
}

/// What an index says of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Word {
    pub point: Point,
    pub write: Write,
}

/// A call of a client, as a primary holds it while it waits.
#[derive(Clone, Copy, Debug)]
pub struct Call {
    pub key: Key,
    /// What the answer says of the key: what was written, or what was seen.
    pub tells: Option<Word>,
    /// The latest point of the key that somebody was told before the call began.
    pub told_before: Point,
}

/// Linearizability key by key. The history of a shard is the order of its points, so it suffices that nobody is told an earlier point than
/// somebody was told before the call began, and that each point is one write.
#[derive(Default)]
pub struct Oracle {
    told: Index,
    points: BTreeMap<Point, Write>,
    pub answers: u64,
}

impl Oracle {
    pub fn call(&self, key: Key, tells: Option<Word>) -> Call {
        let told_before = self.told.get(&key).map(|word| word.point);
        Call {
            key,
            tells,
            told_before: told_before.unwrap_or_default(),
        }
    }

    /// A write is acknowledged.
    pub fn written(&mut self, call: Call) {
        let word = call.tells.expect("a write tells what it wrote");
        assert!(
            word.point > call.told_before,
            "{word:?} is acknowledged behind {}",
            call.told_before
        );
        self.tell(word);
    }

    /// An answer that appends nothing.
    pub fn refused(&mut self, call: Call) {
        let saw = call.tells.map(|word| word.point).unwrap_or_default();
        assert!(
            saw >= call.told_before,
            "an answer of {saw} to key {} comes behind {}",
            call.key,
            call.told_before
        );
        if let Some(word) = call.tells {
            self.tell(word);
        }
    }

    fn tell(&mut self, word: Word) {
        self.answers += 1;
        let known = *self.points.entry(word.point).or_insert(word.write);
        assert_eq!(known, word.write, "two writes at {}", word.point);
        let told = self.told.entry(word.write.key).or_insert(word);
        if word.point > told.point {
            *told = word;
        }
    }

    /// A primary begins to serve with `index`: everything that somebody was told is in it, or was overwritten.
    pub fn served(&self, index: &Index) {
        for (key, told) in &self.told {
            let found = index.get(key).expect("a key that somebody was told of");
            let same = found.point > told.point || found == told;
            assert!(same, "{told:?} was told, and the heir has {found:?}");
        }
    }
}
