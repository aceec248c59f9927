//! The policy of cleaning: the time to clean, and the segment to clean next.
//!
//! Cleaning begins when free segments run short, and not before: the longer cleaning waits, the less is left to move.
//! Of the segments without a holder, the one with the best ratio of benefit to cost goes first, weighted by age: old
//! records rarely change, so room made among them lasts (the cost-benefit policy of Rosenblum and Ousterhout). If a
//! writer waits, the segment with the greatest gain goes first.
//!
//! Tombstones can be dropped below the *horizon*: the minimum of the first deaths of all other segments, and of the
//! lowest sequence of a record that a publishing client may have stamped and that is neither published nor void. When
//! tombstones take more than a share of the pool, or a delete waits for room, the segment with the first death is
//! cleaned, however little that gains, so that the horizon rises.

use stonecast_base::mutant;
use stonecast_log::{SEGMENT_HEADER_UNITS, SegmentState, UNIT_SIZE};
use stonecast_media::{MediaError, Prepared};

use super::segment::Holder;
use super::{Purpose, Space, WORTHWHILE_SHARE};
use crate::wire::limits::{
    RESERVE_PREPARED_MAX, TOMBSTONES_SHARE, cleaning_segments, reserved_segments,
};

/// A segment with a gain below this share is not cleaned to make room.
const GAIN_SHARE: u64 = 32;
/// Pools with at least this number of segments keep more than one segment free ahead of the puts.
const LARGE_POOL_SEGMENTS: u32 = 128;

/// The urgency of cleaning.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Need {
    /// No cleaning is needed.
    None,
    /// Free segments run short, or tombstones pile up.
    Soon,
    /// The next put finds no segment, or a delete has found none.
    Now,
}

impl Space {
    /// The present urgency of cleaning.
    pub fn need(&self) -> Need {
        let (free, reserve) = (self.usable_free(), self.reserve_for(Purpose::Put));
        let ahead = if self.format.segment_count < LARGE_POOL_SEGMENTS {
            1
        } else {
            2
        };
        if self.delete_waits || free <= reserve && self.may_gain() {
            Need::Now
        } else if free < reserve + ahead && self.may_gain() || self.tombstones_are_in_the_way() {
            Need::Soon
        } else {
            Need::None
        }
    }

    /// Whether segments run so short that clients may not lease ahead.
    pub fn is_short(&self) -> bool {
        self.usable_free() <= self.reserve_for(Purpose::Put) + 1
    }

    /// Whether nothing but the reserve is free.
    pub fn has_reserve_alone(&self) -> bool {
        self.usable_free() <= self.reserve_for(Purpose::Put)
    }

    /// Whether cleaning can gain a free segment for puts.
    ///
    /// Dead records in segments with an appender count, too: a client that has to wait gives its segments back, and a
    /// client that does not use its segments loses them.
    pub fn may_gain(&self) -> bool {
        let horizons = Horizons::of(self);
        let (mut whole, mut bytes) = (0, 0);
        for state in self.used() {
            let number = state.number;
            let needed = self.occupancy(number).needed(horizons.without(number));
            let used = u64::from(state.end - SEGMENT_HEADER_UNITS) * UNIT_SIZE;
            match self.segments[number as usize].hold {
                Holder::Nobody if needed == 0 => whole += 1,
                Holder::Nobody | Holder::Appender if self.has_tombstones_alone(number) => {
                    bytes += if needed == 0 { used } else { 0 };
                }
                Holder::Appender if self.for_moves != Some(number) => {
                    bytes += used.saturating_sub(needed);
                }
                Holder::Nobody | Holder::Appender => {
                    let room = self.format.segment_size
                        - u64::from(SEGMENT_HEADER_UNITS) * UNIT_SIZE
                        - self.lost_end(state);
                    bytes += room.saturating_sub(needed);
                }
                Holder::Cleaner | Holder::EarlierRun | Holder::Stays | Holder::Appends => {}
            }
        }
        // Some room is always wasted at the ends of the segments to which records are moved.
        let size = self.format.segment_size;
        let gained = whole + bytes.saturating_sub(size / 8) / size;
        gained > 0
            && u64::from(self.usable_free()) + gained > u64::from(self.reserve_for(Purpose::Put))
    }

    /// Whether a segment has tombstones and no other records. Such a segment is freed when all its tombstones can be
    /// dropped, and no tombstone is moved before: otherwise a segment of the reserve would turn into a segment of live
    /// records.
    fn has_tombstones_alone(&self, number: u32) -> bool {
        self.segments[number as usize].purpose == Purpose::Delete
    }

    /// Bytes at the end of a segment that a cleaning does not gain: the segment's records, by their average length, do
    /// not fit there, nor at the end of another segment.
    fn lost_end(&self, state: &SegmentState) -> u64 {
        let used = u64::from(state.end - SEGMENT_HEADER_UNITS) * UNIT_SIZE;
        let room = u64::from(self.room(state.number)) * UNIT_SIZE;
        let mean = used / u64::from(state.count.max(1));
        if room < mean { room } else { 0 }
    }

    /// Whether a segment has enough dead bytes to be cleaned, once it has no appender.
    pub fn has_dead(&self, number: u32) -> bool {
        let written = (self.format.segment_units() - SEGMENT_HEADER_UNITS - self.room(number))
            as u64
            * UNIT_SIZE;
        let needed = self.occupancy(number).needed(self.horizon(number));
        written.saturating_sub(needed) >= self.format.segment_size / GAIN_SHARE
    }

    /// The segment to clean next. `sequence` is the next sequence.
    ///
    /// If a delete waits, each chosen segment has droppable tombstones, nothing that is needed, or dead records, and
    /// its copy has none of these. Each segment is therefore chosen at most once, and then the tombstones can be
    /// dropped. Room at the ends of full segments is no reason for a choice, since it could be moved from segment to
    /// segment forever.
    pub fn choose_victim(&self, need: Need, sequence: u64) -> Option<u32> {
        let horizons = Horizons::of(self);
        let has_free = self.has_free_for_moves();
        let needed = |number: u32| self.occupancy(number).needed(horizons.without(number));
        let candidates = || {
            self.candidates().filter(|&number| {
                needed(number) <= self.movable_out_of(number, has_free)
                    && (needed(number) == 0 || !self.has_tombstones_alone(number))
            })
        };
        if self.tombstones_are_in_the_way() {
            let droppable = candidates().filter(|&number| {
                let occupancy = self.occupancy(number);
                occupancy.tombstones > 0 && occupancy.newest_tombstone < horizons.without(number)
            });
            if let Some(most) = droppable.max_by_key(|&number| self.occupancy(number).tombstones) {
                return Some(most);
            }
            if self.delete_waits
                && let Some(empty) = candidates().find(|&number| needed(number) == 0)
            {
                return Some(empty);
            }
            let blocking =
                candidates().filter(|&number| self.occupancy(number).first_death != u64::MAX);
            if let Some(first) = blocking.min_by_key(|&number| self.occupancy(number).first_death) {
                return Some(first);
            }
            if self.delete_waits {
                return None;
            }
        }
        let gains = |&(_, gain, _): &(u32, u64, u64)| gain >= self.format.segment_size / GAIN_SHARE;
        let all = candidates().map(|number| {
            let horizon = horizons.without(number);
            (
                number,
                self.gain(number, horizon),
                self.occupancy(number).needed(horizon),
            )
        });
        let best = all.filter(gains).max_by(|a, b| {
            let score = |&(number, gain, needed): &(u32, u64, u64)| {
                let age = match need {
                    Need::Now => 1,
                    _ => sequence.saturating_sub(self.occupancy(number).written_at) + 1,
                };
                gain as f64 * age as f64 / (self.format.segment_size + needed) as f64
            };
            score(a).total_cmp(&score(b)).then(b.0.cmp(&a.0))
        });
        best.map(|(number, ..)| number)
    }

    /// The sequence below which tombstones are not needed once segment `number` is freed.
    pub fn horizon(&self, number: u32) -> u64 {
        Horizons::of(self).without(number)
    }

    /// Bytes that the cleaning of a segment gains.
    pub fn gain(&self, number: u32, horizon: u64) -> u64 {
        let room = self.format.segment_size - u64::from(SEGMENT_HEADER_UNITS) * UNIT_SIZE;
        room.saturating_sub(self.occupancy(number).needed(horizon))
    }

    /// Free segments that puts can take, given the space on the medium.
    pub(super) fn usable_free(&self) -> u32 {
        if !self.medium.is_full() {
            return self.shelves.free.len() as u32;
        }
        // The reserve has its space, and so have segments that were used before.
        let had_space = self
            .shelves
            .free
            .iter()
            .filter(|&&number| self.segments[number as usize].blank.is_some())
            .count();
        had_space as u32
    }

    /// Whether a delete has found no segment, and still finds none.
    pub fn delete_waits(&self) -> bool {
        self.delete_waits
    }

    /// Whether writers of an earlier run keep segments from being cleaned.
    pub fn waits_for_earlier_run(&self) -> bool {
        self.segments
            .iter()
            .any(|segment| segment.hold == Holder::EarlierRun)
    }

    /// Whether tombstones take room that could be dropped if all clients had settled their stamped records.
    pub fn tombstones_wait_for_clients(&self) -> bool {
        self.tombstones_are_in_the_way() && self.unsettled.by_clients < Horizons::of(self).first
    }

    /// Whether tombstones have to be dropped, because they pile up or a delete waits for their room.
    fn tombstones_are_in_the_way(&self) -> bool {
        if self.delete_waits {
            return true;
        }
        let capacity = self.format.segment_size * u64::from(self.format.segment_count);
        self.tombstone_bytes() > capacity / TOMBSTONES_SHARE
    }

    /// Whether the cleaner can take a free segment.
    pub(super) fn has_free_for_moves(&self) -> bool {
        if !self.medium.is_full() {
            return !self.shelves.free.is_empty();
        }
        let last = self.shelves.free.back();
        last.is_some_and(|&number| self.medium.is_ready(number))
            || self.free_that_had_space().is_some()
    }

    /// Bytes of `victim` that the cleaner has room to move. While another segment is free, that is everything needed of
    /// the victim. After a crash, or an end in the middle of a victim, no segment may be free; then one segment has
    /// room for the rest of the interrupted victim. That segment offers no room for its own records.
    fn movable_out_of(&self, victim: u32, has_free: bool) -> u64 {
        if has_free {
            return self.format.segment_size;
        }
        let own = self.for_moves.map_or(0, |number| self.room(number));
        let rest = self.shelves.room_beside(Purpose::Clean, victim);
        u64::from(own.max(rest)) * UNIT_SIZE
    }

    /// Segments in use without a holder, whose records are settled, and have the words that they get.
    fn candidates(&self) -> impl Iterator<Item = u32> {
        let used = self.used().map(|state| state.number);
        used.filter(|&number| {
            let segment = &self.segments[number as usize];
            let is_settled = segment.newest_own < self.unsettled.by_node;
            segment.hold == Holder::Nobody && is_settled && segment.awaited_words == 0
        })
    }

    /// Free segments that are kept for other purposes.
    pub(super) fn reserve_for(&self, purpose: Purpose) -> u32 {
        let count = self.format.segment_count;
        match purpose {
            Purpose::Put if mutant!(DeletesNotReserved) => cleaning_segments(count),
            // Segments of tombstones are the part of the reserve for deletes that is in use.
            Purpose::Put => {
                cleaning_segments(count)
                    + reserved_segments(count).saturating_sub(self.reserve.of_tombstones)
                    + self.reserve.for_copies
            }
            // The rest of the victim needs no further segment: once the victim is free, the number of free segments is
            // as before.
            Purpose::Delete => cleaning_segments(count) - u32::from(self.is_moving_on()),
            Purpose::Clean => 0,
        }
    }

    /// Bytes of the segment `to` that a power cut may waste while its rest still has room for the rest of the victim;
    /// unlimited as long as another segment is free. Records are moved to `to`. A power cut may lose any part of the
    /// bytes of one persist in front of another part that survives. `copied` bytes are not published yet.
    pub fn spare_for_gap(&self, to: u32, copied: u64) -> u64 {
        match self.victim {
            Some(victim) if !self.has_free_for_moves() => {
                let room = u64::from(self.room(to)) * UNIT_SIZE + copied;
                room.saturating_sub(self.occupancy(victim).needed(0))
            }
            _ => u64::MAX,
        }
    }

    /// Whether the cleaner has all the room that its victim needs.
    fn is_moving_on(&self) -> bool {
        let (Some(from), Some(to)) = (self.victim, self.for_moves) else {
            return false;
        };
        // A publication that is taken back makes the replaced record live again.
        if self.unsettled.by_clients != u64::MAX {
            return false;
        }
        let room = u64::from(self.room(to)) * UNIT_SIZE;
        self.occupancy(from).needed(0) <= room
    }

    /// Whether a segment has room for `units`, and enough room to be leased again when it is given back.
    pub fn has_worthwhile_room(&self, number: u32, units: u32) -> bool {
        self.room(number) >= units.max(self.format.segment_units() / WORTHWHILE_SHARE)
    }

    /// Whether the medium is full: some free segments get no space from it.
    pub fn lacks_medium(&self) -> bool {
        self.medium.is_full()
            && self.shelves.free.len() as u32
                > self.usable_free().max(self.reserve_for(Purpose::Put))
    }

    /// Prepares the space of the part of the reserve that is kept ready on the medium.
    pub(super) fn prepare_reserve(&self) -> Result<Prepared, MediaError> {
        let count = self.format.segment_count;
        let reserve = cleaning_segments(count) + reserved_segments(count);
        self.prepare_last((reserve as usize).min(RESERVE_PREPARED_MAX))
    }
}

/// The least first death with any one segment left out, and the first sequence that clients may have stamped and not
/// published.
struct Horizons {
    first: u64,
    in_segment: u32,
    second: u64,
    /// Records that clients have stamped with this sequence or a later one may still be made void.
    unsettled: u64,
}

impl Horizons {
    fn of(space: &Space) -> Self {
        let used = space.used();
        Self::over(
            used.map(|state| (state.number, space.occupancy(state.number).first_death)),
            space.unsettled.by_clients,
        )
    }

    /// The horizons over segments, each given by its number and its first death.
    fn over(deaths: impl Iterator<Item = (u32, u64)>, unsettled: u64) -> Self {
        let mut all = Self {
            first: u64::MAX,
            in_segment: u32::MAX,
            second: u64::MAX,
            unsettled,
        };
        for (number, death) in deaths {
            if death < all.first {
                all.second = all.first;
                all.first = death;
                all.in_segment = number;
            } else {
                all.second = all.second.min(death);
            }
        }
        all
    }

    fn without(&self, number: u32) -> u64 {
        let first = if number == self.in_segment {
            self.second
        } else {
            self.first
        };
        first.min(self.unsettled)
    }
}

#[cfg(test)]
mod tests {
    use super::Horizons;

    /// Fails without the unsettled sequences in the horizon of every segment: a client that was stopped between stamp
    /// and CAS, or between a lost CAS and the void, has a record in the log that a scan counts. Only the tombstone of a
    /// delete in between outranks that record.
    #[test]
    fn a_tombstone_stays_while_a_client_may_have_stamped_an_older_record() {
        let deaths = [(3, 50), (5, 40), (7, u64::MAX)];
        let settled = Horizons::over(deaths.into_iter(), u64::MAX);
        assert_eq!(
            (settled.without(5), settled.without(3), settled.without(7)),
            (50, 40, 40)
        );
        let unsettled = Horizons::over(deaths.into_iter(), 20);
        assert!(
            [3, 5, 7]
                .iter()
                .all(|&number| unsettled.without(number) == 20)
        );
        assert_eq!(Horizons::over(deaths.into_iter(), 45).without(5), 45);
        assert_eq!(Horizons::over([].into_iter(), 9).without(1), 9);
    }
}
