//! A medium that loses what was not persisted: stores go to a visible image, persisting copies words to a durable one,
//! and a power cut keeps an arbitrary subset of the other words.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;

use rand::RngExt as _;
use stonecast_base::{Random, Span};
use stonecast_media::Region;

pub struct Medium {
    visible: Vec<Cell<u64>>,
    durable: Vec<Cell<u64>>,
    dirty: RefCell<BTreeSet<usize>>,
}

impl Medium {
    pub fn new(size: u64) -> Self {
        let words = || vec![Cell::new(0); size as usize / 8];
        Self { visible: words(), durable: words(), dirty: RefCell::default() }
    }

    pub fn persist(&self, spans: &[Span]) {
        let mut dirty = self.dirty.borrow_mut();
        for span in spans {
            for word in span.offset as usize / 8..((span.offset + span.size) as usize).div_ceil(8) {
                self.durable[word].set(self.visible[word].get());
                dirty.remove(&word);
            }
        }
    }

    /// Each word that was not persisted survives with probability `survive`.
    pub fn power_cut(&self, random: &mut Random, survive: f64) {
        for word in std::mem::take(&mut *self.dirty.borrow_mut()) {
            if random.random_bool(survive) {
                self.durable[word].set(self.visible[word].get());
            } else {
                self.visible[word].set(self.durable[word].get());
            }
        }
    }

    pub fn flip(&self, offset: u64, bit: u32) {
        let word = &self.visible[offset as usize / 8];
        word.set(word.get() ^ 1 << (offset % 8 * 8 + u64::from(bit)));
        self.durable[offset as usize / 8].set(word.get());
    }
}

impl Region for Medium {
    fn size(&self) -> u64 {
        self.visible.len() as u64 * 8
    }
    fn read(&self, offset: u64, into: &mut [u8]) {
        for (i, byte) in into.iter_mut().enumerate() {
            let at = offset as usize + i;
            *byte = self.visible[at / 8].get().to_le_bytes()[at % 8];
        }
    }
    fn write(&self, offset: u64, from: &[u8]) {
        for (i, &byte) in from.iter().enumerate() {
            let at = offset as usize + i;
            let mut bytes = self.visible[at / 8].get().to_le_bytes();
            bytes[at % 8] = byte;
            self.visible[at / 8].set(u64::from_le_bytes(bytes));
            self.dirty.borrow_mut().insert(at / 8);
        }
    }
    fn load(&self, offset: u64) -> u64 {
        self.visible[offset as usize / 8].get()
    }
    fn store(&self, offset: u64, value: u64) {
        self.visible[offset as usize / 8].set(value);
        self.dirty.borrow_mut().insert(offset as usize / 8);
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
