//! Memory for tests: every word may or may not survive a power cut. Tests of other crates use it, too.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;

use stonecast_base::Span;
use stonecast_media::Region;

/// Memory that can lose power. `words` is the visible content. For each word that was stored since it was last
/// persisted, `pending` has every value that it had, the persisted value first.
pub struct Memory {
    words: Vec<Cell<u64>>,
    pending: RefCell<BTreeMap<usize, Vec<u64>>>,
    tracking: bool,
}

#[allow(dead_code, reason = "each test uses a part")]
impl Memory {
    /// Memory of zeros.
    pub fn new(size: u64) -> Self {
        Self {
            words: vec![Cell::new(0); size as usize / 8],
            pending: RefCell::default(),
            tracking: true,
        }
    }

    /// Memory of zeros that cannot lose power, and costs nothing besides the copy.
    pub fn steady(size: u64) -> Self {
        Self {
            tracking: false,
            ..Self::new(size)
        }
    }

    /// Damages one bit, durably.
    pub fn flip(&self, offset: u64, bit: u64) {
        let word = &self.words[(offset / 8 + bit / 64) as usize];
        word.set(word.get() ^ 1 << (bit % 64));
    }

    /// Makes the lines of these spans durable.
    pub fn persist(&self, spans: &[Span]) {
        let mut pending = self.pending.borrow_mut();
        for span in spans.iter().map(|span| span.widen(64)) {
            let words = (span.offset / 8) as usize..((span.offset + span.size) / 8) as usize;
            let done: Vec<usize> = pending.range(words).map(|(&word, _)| word).collect();
            done.iter().for_each(|word| drop(pending.remove(word)));
        }
    }

    /// Cuts the power: one value of each word that was not persisted survives. `choose` takes the word's offset and the
    /// number of its values and returns the index of the survivor; value 0 is the persisted one, the last the newest.
    pub fn cut_power(&self, mut choose: impl FnMut(u64, usize) -> usize) {
        for (word, values) in std::mem::take(&mut *self.pending.borrow_mut()) {
            self.words[word].set(values[choose(word as u64 * 8, values.len())]);
        }
    }

    /// A copy of the visible content, all of it durable.
    pub fn copy(&self) -> Self {
        Self {
            words: self.words.clone(),
            pending: RefCell::default(),
            tracking: true,
        }
    }

    /// A copy that loses power on its own.
    pub fn fork(&self) -> Self {
        Self {
            words: self.words.clone(),
            pending: self.pending.clone(),
            tracking: self.tracking,
        }
    }

    /// All visible bytes.
    pub fn bytes(&self) -> Vec<u8> {
        self.words
            .iter()
            .flat_map(|word| word.get().to_le_bytes())
            .collect()
    }

    fn set(&self, word: usize, value: u64) {
        if self.tracking && self.words[word].get() != value {
            let mut pending = self.pending.borrow_mut();
            pending
                .entry(word)
                .or_insert_with(|| vec![self.words[word].get()])
                .push(value);
        }
        self.words[word].set(value);
    }
}

impl Region for Memory {
    fn size(&self) -> u64 {
        self.words.len() as u64 * 8
    }

    fn read(&self, offset: u64, into: &mut [u8]) {
        assert!(
            offset.is_multiple_of(8) && into.len().is_multiple_of(8),
            "the log is read in whole words"
        );
        let start = offset as usize / 8;
        let words = &self.words[start..start + into.len() / 8];
        for (into, word) in into.as_chunks_mut::<8>().0.iter_mut().zip(words) {
            *into = word.get().to_le_bytes();
        }
    }

    fn write(&self, offset: u64, from: &[u8]) {
        assert!(offset.is_multiple_of(8), "a write starts at a word");
        let start = offset as usize / 8;
        let (whole, tail) = from.as_chunks::<8>();
        for (index, bytes) in whole.iter().enumerate() {
            self.set(start + index, u64::from_le_bytes(*bytes));
        }
        if !tail.is_empty() {
            let mut last = self.words[start + whole.len()].get().to_le_bytes();
            last[..tail.len()].copy_from_slice(tail);
            self.set(start + whole.len(), u64::from_le_bytes(last));
        }
    }

    fn load(&self, offset: u64) -> u64 {
        self.words[offset as usize / 8].get()
    }

    fn store(&self, offset: u64, value: u64) {
        assert!(offset.is_multiple_of(8));
        self.set(offset as usize / 8, value);
    }

    fn compare_exchange(&self, offset: u64, current: u64, new: u64) -> Result<u64, u64> {
        let found = self.load(offset);
        if found == current {
            self.store(offset, new);
            Ok(found)
        } else {
            Err(found)
        }
    }

    fn fetch_add(&self, offset: u64, add: u64) -> u64 {
        let found = self.load(offset);
        self.store(offset, found.wrapping_add(add));
        found
    }
}
