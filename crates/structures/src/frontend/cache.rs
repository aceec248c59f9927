//! Bytes that a reader has read before, of places that it may take as they were.
//!
//! The cache is a clock: a place that was asked for since the hand passed it stays. It is trusted with nothing: a traversal marks the places whose
//! age the places behind them show.

use std::collections::HashMap;

use stonecast_base::Span;

/// Bytes of places with their contents. A reader reads everything each time if no place fits.
#[derive(Debug)]
pub(super) struct PlaceCache {
    size_max: u64,
    size: u64,
    index: HashMap<Span, usize>,
    slots: Vec<Slot>,
    hand: usize,
}

#[derive(Debug)]
struct Slot {
    place: Span,
    bytes: Vec<u8>,
    was_asked: bool,
}

impl PlaceCache {
    /// A cache of at most `size_max` bytes.
    pub fn new(size_max: u64) -> Self {
        Self {
            size_max,
            size: 0,
            index: HashMap::new(),
            slots: Vec::new(),
            hand: 0,
        }
    }

    /// What was read there.
    pub fn get(&mut self, place: Span) -> Option<&[u8]> {
        let slot = &mut self.slots[*self.index.get(&place)?];
        slot.was_asked = true;
        Some(&slot.bytes)
    }

    /// Remembers what was read there.
    pub fn put(&mut self, place: Span, bytes: &[u8]) {
        if let Some(slot) = self.index.get(&place) {
            self.slots[*slot].bytes.copy_from_slice(bytes);
            return;
        }
        if place.size > self.size_max {
            return;
        }
        while self.size + place.size > self.size_max {
            self.evict();
        }
        self.size += place.size;
        self.index.insert(place, self.slots.len());
        self.slots.push(Slot {
            place,
            bytes: bytes.to_vec(),
            was_asked: false,
        });
    }

    /// Forgets the next place that nobody has asked for since the hand passed it.
    fn evict(&mut self) {
        loop {
            self.hand %= self.slots.len();
            let slot = &mut self.slots[self.hand];
            if std::mem::replace(&mut slot.was_asked, false) {
                self.hand += 1;
                continue;
            }
            let gone = self.slots.swap_remove(self.hand);
            self.index.remove(&gone.place);
            self.size -= gone.place.size;
            if let Some(moved) = self.slots.get(self.hand) {
                self.index.insert(moved.place, self.hand);
            }
            return;
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
            cache.put(place(number), &[number as u8; 64]);
            assert!(cache.slots.len() <= 4 && cache.size <= 4 * 64);
            if number > 0 {
                assert_eq!(cache.get(place(0)), Some(&[0; 64][..]), "{number}");
            }
            let newest = &cache.slots[cache.index[&place(number)]];
            assert_eq!(newest.bytes, [number as u8; 64]);
        }
        cache.put(place(0), &[7; 64]);
        assert_eq!(cache.get(place(0)), Some(&[7; 64][..]));
        let mut none = PlaceCache::new(0);
        none.put(place(1), &[1; 64]);
        assert_eq!(none.get(place(1)), None);
    }
}
