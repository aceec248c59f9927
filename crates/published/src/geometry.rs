//! The layout of a published design in persistent memory.
//!
//! ```text
//!   0            4096            table_end              regions
//!   +------------+---------------+----------------------+----------+----------+---
//!   | head array | hash table    | ring (baselines)     | region 0 | region 1 | ...
//!   +------------+---------------+----------------------+----------+----------+---
//! ```

use stonecast_base::Span;

use crate::PublishedError;
use crate::object::{object_size, slot_record_size};
use crate::table::{ENTRY_KEY_SIZE, ENTRY_SIZE, NEIGHBOURHOOD};

/// Bytes of the head array: one word for each head is the start of its region.
pub(crate) const HEADS_SIZE: u64 = 4096;
/// The most heads that the array holds.
const HEADS_MAX: u8 = 128;
/// The largest offset of 31 bits.
pub(crate) const OFFSET_MAX: u64 = (1 << 31) - 1;

/// The sizes of a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Geometry {
    /// Bytes of each key: 1 to 23, the last of them not 0.
    pub key_size: usize,
    /// Bytes of each value.
    pub value_size: usize,
    /// Entries of the hash table.
    pub buckets: u64,
    /// Erda: parallel logs (paper section 3.2.2).
    pub heads: u8,
    /// Erda: bytes of a region (paper: 1 GiB). Baselines: bytes of the destination storage.
    pub region_size: u64,
    /// Erda: bytes of a segment; no object crosses its end (paper: 8 MiB).
    pub segment_size: u64,
    /// Regions: one for each head, and one more as the target of cleaning.
    pub regions: u32,
    /// Baselines: slots of the ring or redo log (artefact: 210).
    pub ring_slots: u32,
}

impl Geometry {
    /// A store for `keys` keys and room for about `writes` writes of each head between two cleanings.
    pub fn for_keys(key_size: usize, value_size: usize, keys: u64, writes: u64) -> Self {
        let segment_size = 8 << 20;
        let slots = segment_size / object_size(key_size, value_size) as u64;
        let segments = (keys + writes).div_ceil(slots) + 1;
        let destination = (keys * (key_size + value_size) as u64).next_multiple_of(segment_size);
        Self {
            key_size,
            value_size,
            buckets: (keys * 2).next_power_of_two().max(64),
            heads: 1,
            region_size: (segments * segment_size).max(destination),
            segment_size,
            regions: 2,
            ring_slots: 210,
        }
    }

    /// Checks the sizes; the error is returned if they are impossible.
    pub fn check(&self) -> Result<(), PublishedError> {
        let object = object_size(self.key_size, self.value_size) as u64;
        let sound = (1..=ENTRY_KEY_SIZE).contains(&self.key_size)
            && self.buckets >= NEIGHBOURHOOD
            && (1..=HEADS_MAX).contains(&self.heads)
            && self.regions > u32::from(self.heads)
            && self.segment_size >= object
            && self.region_size >= self.segment_size
            && self.region_size.is_multiple_of(self.segment_size)
            && self.region_size <= OFFSET_MAX
            && self.ring_slots > 0;
        if sound {
            Ok(())
        } else {
            Err(PublishedError::Protocol("an impossible geometry"))
        }
    }

    /// Bytes of persistent memory that the store needs.
    pub fn size(&self) -> u64 {
        let last = self.region(self.regions - 1);
        last.offset + last.size
    }

    /// The word of a head in the head array.
    pub(crate) fn head_offset(&self, head: u8) -> u64 {
        u64::from(head) * 8
    }

    /// The hash table. The neighbourhood of the last bucket extends beyond it.
    pub(crate) fn table(&self) -> Span {
        Span::new(HEADS_SIZE, (self.buckets + NEIGHBOURHOOD - 1) * ENTRY_SIZE)
    }

    /// The ring of the baselines.
    pub(crate) fn ring(&self) -> Span {
        let table = self.table();
        let start = (table.offset + table.size).next_multiple_of(4096);
        Span::new(start, u64::from(self.ring_slots) * self.ring_slot_size())
    }

    /// Bytes of a slot of the ring: one record, which shares no cache line.
    pub(crate) fn ring_slot_size(&self) -> u64 {
        (slot_record_size(self.key_size, self.value_size) as u64).next_multiple_of(64)
    }

    /// A region of the log.
    pub(crate) fn region(&self, number: u32) -> Span {
        let ring = self.ring();
        let start = (ring.offset + ring.size).next_multiple_of(4096);
        Span::new(
            start + u64::from(number) * self.region_size,
            self.region_size,
        )
    }

    /// Refuses keys and values of other lengths.
    pub(crate) fn check_sizes(
        &self,
        key: &[u8],
        value: Option<&[u8]>,
    ) -> Result<(), PublishedError> {
        if key.len() != self.key_size || key.last() == Some(&0) {
            return Err(PublishedError::Size {
                what: "the key",
                size: key.len(),
                expected: self.key_size,
            });
        }
        match value.filter(|value| value.len() != self.value_size) {
            Some(value) => Err(PublishedError::Size {
                what: "the value",
                size: value.len(),
                expected: self.value_size,
            }),
            None => Ok(()),
        }
    }

    /// The encoding in a message.
    pub(crate) fn to_words(self) -> [u64; 8] {
        [
            self.key_size as u64,
            self.value_size as u64,
            self.buckets,
            self.heads.into(),
            self.region_size,
            self.segment_size,
            self.regions.into(),
            self.ring_slots.into(),
        ]
    }

    pub(crate) fn from_words(words: [u64; 8]) -> Result<Self, PublishedError> {
        let small = |word: u64| {
            u32::try_from(word).map_err(|_| PublishedError::Protocol("a geometry out of range"))
        };
        let geometry = Self {
            key_size: small(words[0])? as usize,
            value_size: small(words[1])? as usize,
            buckets: small(words[2])?.into(),
            heads: u8::try_from(words[3])
                .map_err(|_| PublishedError::Protocol("too many heads"))?,
            region_size: words[4],
            segment_size: words[5],
            regions: small(words[6])?,
            ring_slots: small(words[7])?,
        };
        geometry.check()?;
        Ok(geometry)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parts_do_not_overlap_and_fit_the_size() {
        let geometry = Geometry::for_keys(20, 64, 1000, 5000);
        geometry.check().unwrap();
        let (table, ring) = (geometry.table(), geometry.ring());
        assert!(table.offset >= HEADS_SIZE && ring.offset >= table.offset + table.size);
        assert!(geometry.region(0).offset >= ring.offset + ring.size);
        assert_eq!(
            geometry.region(1).offset + geometry.region_size,
            geometry.size()
        );
        assert_eq!(Geometry::from_words(geometry.to_words()).unwrap(), geometry);
    }

    #[test]
    fn keys_that_padding_would_change_are_refused() {
        let geometry = Geometry::for_keys(4, 8, 10, 10);
        assert!(geometry.check_sizes(b"abcd", Some(&[0; 8])).is_ok());
        assert!(geometry.check_sizes(b"abc\0", None).is_err());
        assert!(geometry.check_sizes(b"abc", None).is_err());
        assert!(geometry.check_sizes(b"abcd", Some(b"short")).is_err());
    }

    #[test]
    fn an_impossible_geometry_is_refused() {
        let sound = Geometry::for_keys(20, 64, 1000, 5000);
        for broken in [
            Geometry {
                key_size: 24,
                ..sound
            },
            Geometry {
                buckets: 1,
                ..sound
            },
            Geometry {
                regions: 1,
                ..sound
            },
            Geometry {
                segment_size: 16,
                ..sound
            },
            Geometry {
                region_size: 1 << 32,
                ..sound
            },
        ] {
            assert!(broken.check().is_err(), "{broken:?}");
            assert!(Geometry::from_words(broken.to_words()).is_err());
        }
    }
}
