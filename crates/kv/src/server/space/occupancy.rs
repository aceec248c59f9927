//! The needed bytes of a segment, and the moment of the first death among its records.
//!
//! ```text
//!   | header, seals | live | dead | tombstone | hole | live | ...      rest |
//!                     ^ the index names it               end ^
//! ```
//!
//! A record is *dead* when the index names another record for its key, or none. No word names a tombstone, which is
//! needed until every older version of its key is gone. The older versions are dead, and died no later than the
//! tombstone was written. A tombstone with a sequence below the first death of every other segment is therefore not
//! needed.
//!
//! Each opening establishes the occupancy again, from a scan or a checkpoint. A first death that is noted too early
//! only keeps tombstones longer.

use stonecast_base::mutant;

/// The needed bytes of a segment, and the moment of the first death among its records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Occupancy {
    /// Bytes of the records that the index names. If clients publish, publications are announced before they happen,
    /// and deaths may be announced before births. The number is then a guess that is rarely too high, and may be
    /// negative.
    pub live: i64,
    /// Bytes of tombstones.
    pub tombstones: u64,
    /// No dead record of the segment died before this sequence was given out; `u64::MAX` if no record is dead.
    pub first_death: u64,
    /// The time of the segment's last record: its sequence, or the next sequence when the record was moved here.
    pub written_at: u64,
    /// The highest sequence of a tombstone of the segment; 0 without a tombstone.
    pub newest_tombstone: u64,
}

impl Occupancy {
    /// The occupancy of a segment without records.
    pub const EMPTY: Self = Self {
        live: 0,
        tombstones: 0,
        first_death: u64::MAX,
        written_at: 0,
        newest_tombstone: 0,
    };

    /// Notes a tombstone of `size` bytes.
    pub fn note_tombstone(&mut self, size: u64, sequence: u64) {
        self.tombstones += size;
        self.newest_tombstone = self.newest_tombstone.max(sequence);
    }

    /// Notes the death of a record of `size` live bytes at the write of `sequence`.
    pub fn note_death(&mut self, size: u64, sequence: u64) {
        self.live -= size as i64;
        self.first_death = self.first_death.min(sequence);
    }

    /// Bytes that have to be moved when the segment is cleaned. Tombstones below `horizon` need not be moved.
    pub fn needed(&self, horizon: u64) -> u64 {
        let tombstones = if self.newest_tombstone < horizon || mutant!(TombstoneDroppedEarly) {
            0
        } else {
            self.tombstones
        };
        self.live.max(0) as u64 + tombstones
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_death_stays_and_tombstones_below_the_horizon_are_not_needed() {
        let mut occupancy = Occupancy {
            live: 300,
            ..Occupancy::EMPTY
        };
        occupancy.note_tombstone(64, 9);
        occupancy.note_tombstone(64, 7);
        occupancy.note_death(100, 12);
        occupancy.note_death(100, 15);
        assert_eq!((occupancy.live, occupancy.first_death), (100, 12));
        assert_eq!((occupancy.needed(9), occupancy.needed(10)), (228, 100));
    }
}
