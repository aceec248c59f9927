//! The facts of a pool on which every record depends, and the hashes that use them.

use std::fmt;

use stonecast_base::{Span, hash, mutant};
use stonecast_media::Pool;

/// Bytes of a unit: records start at multiples of this size.
pub const UNIT_SIZE: u64 = 64;
/// Units at the start of a segment that hold its header and seals: records start after them.
pub const SEGMENT_HEADER_UNITS: u32 = 4;
/// Units of the largest segment: the immediate of a write has 24 bits for a unit, beside the lease
/// slot.
const SEGMENT_UNITS_MAX: u64 = 1 << 24;

/// Shift of the opening beside a position: logs have at most 2^40 bytes, and only positions outside
/// any log (those of staging memory) use bits above the 16 bits of the opening.
const OPENING_SHIFT: u32 = 40;
/// Spreads position and opening over the seed of a tag. Odd, so different ones give different seeds: 2^64 / golden
/// ratio.
const POSITION_FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;

/// Difference between the commit tag of a void record and that of the same record before.
pub(crate) const VOID: u64 = 0x564f_4944_0bad_51de;

/// The key of a pool's commit tags. Only the server has it, and clients that it lets publish.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Secret([u64; 2]);

impl Secret {
    /// The secret of a pool, from its header.
    pub const fn new(words: [u64; 2]) -> Self {
        Self(words)
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(..)")
    }
}

/// The facts of a pool that records depend on. The numbers come from a checked pool header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogFormat {
    /// Names the pool: its UUID, read as a big-endian number.
    pub uuid: u128,
    /// Seed of the record tags. Readers know it.
    pub tag_key: u64,
    /// Key of the commit tags; `None` in clients that do not publish.
    pub secret: Option<Secret>,
    /// Bytes of a segment: a power of two.
    pub segment_size: u64,
    /// Number of segments in the log.
    pub segment_count: u32,
}

impl LogFormat {
    /// The facts of `pool`, with the secret.
    pub fn of(pool: &Pool) -> Self {
        Self {
            uuid: pool.uuid().as_u128(),
            tag_key: pool.tag_key(),
            secret: Some(Secret::new(pool.secret())),
            segment_size: pool.segment_size(),
            segment_count: pool.segment_count(),
        }
    }

    /// Units in a segment.
    #[inline]
    pub fn segment_units(&self) -> u32 {
        let units = self.segment_size / UNIT_SIZE;
        assert!(
            self.segment_size.is_power_of_two()
                && units > SEGMENT_HEADER_UNITS.into()
                && units <= SEGMENT_UNITS_MAX
        );
        units as u32
    }

    /// Position of a unit of a segment: bytes from the start of the log.
    #[inline]
    pub fn position(&self, segment: u32, unit: u32) -> u64 {
        u64::from(segment) * self.segment_size + u64::from(unit) * UNIT_SIZE
    }

    /// The segment that holds `position`, and the unit in it.
    #[inline]
    pub fn locate(&self, position: u64) -> (u64, u32) {
        (
            position / self.segment_size,
            (position % self.segment_size / UNIT_SIZE) as u32,
        )
    }

    /// `from..to` units of a segment as bytes of the log.
    pub(crate) fn span(&self, segment: u32, from: u32, to: u32) -> Span {
        Span::new(
            self.position(segment, from),
            u64::from(to - from) * UNIT_SIZE,
        )
    }

    /// The tag of a record of this opening at `position` whose bytes from the facts to the end of the value are
    /// `bytes`.
    #[inline(always)]
    pub(crate) fn tag(&self, position: u64, opening: u32, bytes: &[u8]) -> u64 {
        let position = if mutant!(PositionNotInTag) {
            0
        } else {
            position
        };
        let opening = if mutant!(OpeningNotChecked) {
            0
        } else {
            u64::from(opening as u16)
        };
        let place = position | opening << OPENING_SHIFT;
        hash::xxh3_64(self.tag_key ^ place.wrapping_mul(POSITION_FACTOR), bytes)
    }

    /// The keyed hash of five words. It is never 0, which means *no stamp*, and never a value whose
    /// void form would be 0.
    #[inline]
    pub(crate) fn commit_tag(&self, words: [u64; 5]) -> u64 {
        let Secret(secret) = self
            .secret
            .expect("only a holder of the pool's secret makes or checks stamps");
        match hash::siphash24_of_words(secret, words) {
            0 | VOID => 1,
            tag => tag,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_never_printed() {
        let format = LogFormat {
            uuid: 1,
            tag_key: 2,
            secret: Some(Secret::new([0xdead_beef, 0xcafe])),
            segment_size: 1 << 18,
            segment_count: 4,
        };
        let printed = format!("{format:?} {format:#?} {:?}", format.secret);
        assert!(printed.contains("Secret(..)"));
        assert!(!printed.contains(&0xdead_beef_u64.to_string()) && !printed.contains("deadbeef"));
    }

    #[test]
    fn a_position_is_found_again() {
        let format = LogFormat {
            uuid: 0,
            tag_key: 0,
            secret: None,
            segment_size: 4096,
            segment_count: 3,
        };
        assert_eq!(format.segment_units(), 64);
        assert_eq!(format.position(2, 5), 8192 + 320);
        assert_eq!(format.locate(8192 + 320), (2, 5));
    }

    #[test]
    fn equal_bytes_have_another_tag_at_every_other_position_in_every_other_run_and_pool() {
        let format = LogFormat {
            uuid: 0,
            tag_key: 7,
            secret: None,
            segment_size: 4096,
            segment_count: 3,
        };
        let other = LogFormat {
            tag_key: 8,
            ..format
        };
        for size in [32, 100, 300] {
            let bytes = vec![0xab; size];
            let tag = format.tag(4096, 1, &bytes);
            assert_ne!(tag, format.tag(4160, 1, &bytes));
            assert_ne!(tag, format.tag(4096, 2, &bytes));
            assert_ne!(tag, other.tag(4096, 1, &bytes));
        }
    }
}
