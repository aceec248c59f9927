//! Bytes that a reader has read before, of places that it may take as they were.
//!
//! The cache is a clock: a place that was asked for since the hand passed it stays. It is trusted with nothing: a traversal marks the places whose
//! age the places behind them show.

use std::collections::HashMap;
use std::hash::BuildHasherDefault;

use stonecast_base::Span;

use crate::space::{Clock, Mixer};

/// Bytes of places with their contents. A reader reads everything each time if no place fits.
///
/// A place is lent while a traversal looks at it, and belongs to nobody then: a traversal that is dropped takes it along.
#[derive(Debug)]
pub(super) struct PlaceCache {
    size_max: u64,
    size: u64,
    index: HashMap<Span, usize, BuildHasherDefault<Mixer>>,
    slots: Vec<Slot>,
    clock: Clock,
    /// Memory for the next reads.
    buffers: Vec<Vec<u8>>,
    spare: Vec<Vec<u8>>,
}

#[derive(Debug)]
struct Slot {
    place: Span,
    /// None at all while the place is lent.
    bytes: Vec<u8>,
    was_asked: bool,
}

/// Buffers that are kept for the next reads, and bytes of the longest of them.
const BUFFERS_MAX: usize = 8;
const BUFFER_SIZE_MAX: usize = 1 << 16;

impl PlaceCache {
    /// A cache of at most `size_max` bytes.
    pub fn new(size_max: u64) -> Self {
        Self {
            size_max,
            size: 0,
            index: HashMap::default(),
            slots: Vec::new(),
            clock: Clock::default(),
            buffers: Vec::new(),
            spare: Vec::new(),
        }
    }

    /// Bytes of places that have room.
    pub fn size_max(&self) -> u64 {
        self.size_max
    }

    /// Takes the bytes of a place. [`PlaceCache::put`] gives it back.
    pub fn lend(&mut self, place: Span) -> Option<Vec<u8>> {
        let slot = &mut self.slots[*self.index.get(&place)?];
        slot.was_asked = true;
        let bytes = std::mem::take(&mut slot.bytes);
        (!bytes.is_empty()).then_some(bytes)
    }

    /// Memory for a read of this size, with any content.
    pub fn buffer(&mut self, size: usize) -> Vec<u8> {
        let mut buffer = self.buffers.pop().unwrap_or_default();
        buffer.resize(size, 0);
        buffer
    }

    /// Takes memory of a read back.
    pub fn give_back(&mut self, buffer: Vec<u8>) {
        if self.buffers.len() < BUFFERS_MAX && buffer.capacity() <= BUFFER_SIZE_MAX {
            self.buffers.push(buffer);
        }
    }

    /// A list for the buffers of a step.
    pub fn spare(&mut self) -> Vec<Vec<u8>> {
        std::mem::take(&mut self.spare)
    }

    /// Takes the list back.
    pub fn give_spare_back(&mut self, mut spare: Vec<Vec<u8>>) {
        spare.drain(..).for_each(|buffer| self.give_back(buffer));
        self.spare = spare;
    }

    /// Remembers the bytes of a place.
    pub fn put(&mut self, place: Span, bytes: Vec<u8>) {
        if let Some(slot) = self.index.get(&place) {
            let before = std::mem::replace(&mut self.slots[*slot].bytes, bytes);
            if !before.is_empty() {
                self.give_back(before);
            }
            return;
        }
        if place.size > self.size_max {
            self.give_back(bytes);
            return;
        }
        while self.size + place.size > self.size_max {
            self.evict();
        }
        self.size += place.size;
        self.index.insert(place, self.slots.len());
        self.slots.push(Slot {
            place,
            bytes,
            was_asked: false,
        });
    }

    /// Forgets the next place that nobody has asked for since the hand passed it.
    fn evict(&mut self) {
        let slots = &mut self.slots;
        let forgotten = self.clock.next(slots.len(), |index| {
            std::mem::take(&mut slots[index].was_asked)
        });
        let index = forgotten.expect("nothing has to stay");
        let gone = slots.swap_remove(index);
        self.index.remove(&gone.place);
        self.size -= gone.place.size;
        if let Some(moved) = slots.get(index) {
            self.index.insert(moved.place, index);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(number: u64) -> Span {
        Span::new(number * 64, 64)
    }

    #[test]
    fn places_that_are_asked_for_stay_and_the_cache_never_outgrows_its_size() {
        let mut cache = PlaceCache::new(4 * 64);
        for number in 0..100 {
            cache.put(place(number), vec![number as u8; 64]);
            assert!(cache.slots.len() <= 4 && cache.size <= 4 * 64);
            if number > 0 {
                let kept = cache.lend(place(0));
                assert_eq!(kept, Some(vec![0; 64]), "{number}");
                assert_eq!(cache.lend(place(0)), None);
                cache.put(place(0), vec![0; 64]);
            }
            let newest = &cache.slots[cache.index[&place(number)]];
            assert_eq!(newest.bytes, [number as u8; 64]);
        }
        cache.put(place(0), vec![7; 64]);
        assert_eq!(cache.lend(place(0)), Some(vec![7; 64]));
        let mut none = PlaceCache::new(0);
        none.put(place(1), vec![1; 64]);
        assert_eq!(none.lend(place(1)), None);
    }
}
