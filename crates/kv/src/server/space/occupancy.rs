//! The needed bytes of a segment, and the moment from which some of its records were needed no more.
//!
//! ```text
//!   | header, seals | live | dead | tombstone | hole | live | ...      rest |
//!                     ^ the index names it               end ^
//! ```
//!
//! A record is *dead* when the index names another one for its key, or none. No word names a tombstone, which is needed
//! until every older version of its key is gone. Those are dead, and died no later than the tombstone was written; so a
//! tombstone with a sequence below the first death of every other segment is not needed any more.
//!
//! All of this is established again by each opening, from a scan or a checkpoint. A first death that is told too early only keeps
//! tombstones longer.

use stonecast_base::mutant;

/// See the module documentation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Occupancy {
    /// Bytes of the records that the index names. If clients publish, publications are announced before they are done, and deaths
    /// may be announced before births: then the number is a guess that is seldom too high, and may be below zero.
    pub live: i64,
    /// Bytes of tombstones.
    pub tombstones: u64,
    /// No record that is dead here died before this sequence was given out; `u64::MAX`: none is dead.
    pub first_death: u64,
    /// When the last record came here: its sequence, or the one that was next when it was moved here.
    pub written_at: u64,
    /// The highest sequence of a tombstone here; 0: there is none.
    pub newest_tombstone: u64,
}

impl Occupancy {
    /// Nothing was written.
    pub const EMPTY: Self = Self {
        live: 0,
        tombstones: 0,
        first_death: u64::MAX,
        written_at: 0,
        newest_tombstone: 0,
    };

    /// A tombstone of `size` bytes came here.
    pub fn note_tombstone(&mut self, size: u64, sequence: u64) {
        self.tombstones += size;
        self.newest_tombstone = self.newest_tombstone.max(sequence);
    }

    /// A record of `size` bytes, which is counted here as live, died when `sequence` was written.
    pub fn note_death(&mut self, size: u64, sequence: u64) {
        self.live -= size as i64;
        self.first_death = self.first_death.min(sequence);
    }

    /// Bytes that have to be moved when the segment is cleaned, if tombstones below `horizon` need not.
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
