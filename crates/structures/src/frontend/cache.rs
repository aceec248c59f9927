//! Bytes that a reader has read before, of places that it may take as they were.
//!
//! The cache is a clock: a place that was asked for since the hand passed it stays. The cache is not trusted: a
//! traversal marks the places whose age shows at the places that they lead to.

use std::hash::BuildHasherDefault;

use stonecast_base::Span;

use crate::space::{ClockMap, Mixer};

/// Bytes of places with their contents. A reader reads everything each time if no place fits.
///
/// While a traversal looks at a place, the cache does not hold the place's bytes: a traversal that is dropped takes
/// them along.
#[derive(Debug)]
pub(super) struct PlaceCache {
    /// The bytes of a lent place are empty.
    places: ClockMap<Span, Vec<u8>, BuildHasherDefault<Mixer>>,
    /// Memory for the next reads.
    buffers: Vec<Vec<u8>>,
    spare: Vec<Vec<u8>>,
}

/// Buffers that are kept for the next reads, and bytes of the longest of them.
const BUFFERS_MAX: usize = 8;
const BUFFER_SIZE_MAX: usize = 1 << 16;

impl PlaceCache {
    /// A cache of at most `size_max` bytes.
    pub fn new(size_max: u64) -> Self {
        Self {
            places: ClockMap::new(size_max),
            buffers: Vec::new(),
            spare: Vec::new(),
        }
    }

    /// Bytes of places that have room.
    pub fn size_max(&self) -> u64 {
        self.places.size_max()
    }

    /// Takes the bytes of a place. [`PlaceCache::put`] gives it back.
    pub fn lend(&mut self, place: Span) -> Option<Vec<u8>> {
        let bytes = std::mem::take(self.places.get(&place)?);
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
        let unused = match self.places.get(&place) {
            Some(lent) => Some(std::mem::replace(lent, bytes)),
            None => self.places.put(place, bytes, place.size),
        };
        if let Some(unused) = unused {
            self.give_back(unused);
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
    fn a_place_is_lent_once_and_stays_when_it_was_given_back() {
        let mut cache = PlaceCache::new(4 * 64);
        for number in 0..100 {
            cache.put(place(number), vec![number as u8; 64]);
            if number > 0 {
                let kept = cache.lend(place(0));
                assert_eq!(kept, Some(vec![0; 64]), "{number}");
                assert_eq!(cache.lend(place(0)), None);
                cache.put(place(0), vec![0; 64]);
            }
        }
        cache.put(place(0), vec![7; 64]);
        assert_eq!(cache.lend(place(0)), Some(vec![7; 64]));
        let mut none = PlaceCache::new(0);
        none.put(place(1), vec![1; 64]);
        assert_eq!(none.lend(place(1)), None);
    }
}
