//! Heads: parallel logs, each in a region of its own.

use stonecast_base::{Span, hash};

use crate::geometry::Geometry;
use crate::object::object_size;

/// The first bytes of a region stay free, so that no object has offset 0.
pub(crate) const FIRST_OFFSET: u64 = 64;

/// The head of a key's objects.
pub(crate) fn head_of(key: &[u8], heads: u8) -> u8 {
    (hash::xxh3_64(1, key) % u64::from(heads)) as u8
}

/// The end of the log of one head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Head {
    /// The region of the head.
    pub region: u32,
    /// The end of the log, from the start of the region: the place of the next object. The paper
    /// calls it the last written address.
    pub tail: u64,
}

impl Head {
    /// An empty log in `region`.
    pub fn new(region: u32) -> Self {
        Self {
            region,
            tail: FIRST_OFFSET,
        }
    }

    /// Takes the place for one object. No object crosses a segment.
    pub fn take(&mut self, geometry: &Geometry) -> Option<u64> {
        let place = place_at(geometry, self.tail);
        let end = place + object_size(geometry.key_size, geometry.value_size) as u64;
        if end > geometry.region_size {
            return None;
        }
        self.tail = end;
        Some(place)
    }
}

/// The first place at or after `offset` into which an object fits.
pub(crate) fn place_at(geometry: &Geometry, offset: u64) -> u64 {
    let size = object_size(geometry.key_size, geometry.value_size) as u64;
    let rest = geometry.segment_size - offset % geometry.segment_size;
    if rest < size { offset + rest } else { offset }
}

/// The places of all objects from the first to the last written address, oldest first.
pub(crate) fn places(geometry: &Geometry, from: u64, tail: u64) -> Vec<u64> {
    let size = object_size(geometry.key_size, geometry.value_size) as u64;
    let mut places = Vec::new();
    let mut next = place_at(geometry, from);
    while next + size <= tail {
        places.push(next);
        next = place_at(geometry, next + size);
    }
    places
}

/// The span of an object in persistent memory.
pub(crate) fn span_of(geometry: &Geometry, region: u32, offset: u64) -> Span {
    let size = object_size(geometry.key_size, geometry.value_size) as u64;
    Span::new(geometry.region(region).offset + offset, size)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_follow_each_other_and_none_crosses_a_segment() {
        let geometry = Geometry {
            segment_size: 256,
            region_size: 1024,
            ..Geometry::for_keys(8, 51, 10, 10)
        };
        geometry.check().unwrap();
        let mut head = Head::new(0);
        let mut taken = Vec::new();
        while let Some(place) = head.take(&geometry) {
            taken.push(place);
        }
        // 64 bytes each: three after the reserved bytes, then four in each segment.
        assert_eq!(taken.len(), 3 + 4 * 3);
        assert!(taken.iter().all(|place| place / 256 == (place + 63) / 256));
        assert_eq!(places(&geometry, FIRST_OFFSET, head.tail), taken);
        assert_eq!(head.take(&geometry), None);
    }
}
