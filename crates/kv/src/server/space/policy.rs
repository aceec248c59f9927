//! When segments are cleaned, and which.
//!
//! Cleaning begins when free segments run short, and not before: the longer it waits, the less is left to move. Of the
//! segments without a holder the one with the best ratio of what it gives to what it costs goes first, weighed by its age:
//! old records change seldom, so room made among them is kept for long (Rosenblum and Ousterhout's cost-benefit policy). If
//! a writer waits, the segment that gives most goes first.
//!
//! Tombstones can be dropped below the *horizon*, the first death of all other segments, and the lowest sequence that a client
//! which publishes may have stamped something with that is neither published nor void. When they take more than a share
//! of the pool, or a delete waits for room, the segment in which something died first is cleaned, however little that gives:
//! so the horizon rises.

use stonecast_base::mutant;
use stonecast_log::{SEGMENT_HEADER_UNITS, SegmentState, UNIT_SIZE};
use stonecast_media::{MediaError, Prepared};

use super::segment::Hold;
use super::{Purpose, Space, WORTHWHILE_SHARE};
use crate::wire::limits::{
    RESERVE_PREPARED_MAX, TOMBSTONES_SHARE, cleaning_segments, reserved_segments,
};

/// A segment that would give back less than this share is not cleaned to make room.
const GAIN_SHARE: u64 = 32;
/// Pools of so many segments keep more than one free ahead of the puts.
const LARGE_POOL_SEGMENTS: u32 = 128;

/// The amount of work that is asked of the cleaner.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Need {
    /// Nothing.
    None,
    /// Free segments run short, or tombstones pile up.
    Soon,
    /// The next put finds none, or a delete has found none.
    Now,
}

impl Space {
    /// The urgency of cleaning now.
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

    /// Whether segments run so short that no client gets one before it writes there.
    pub fn is_short(&self) -> bool {
        self.usable_free() <= self.reserve_for(Purpose::Put) + 1
    }

    /// Whether cleaning can make a segment free that was not, and leave enough to a put.
    ///
    /// Dead records in segments with an appender count, too: a client that is told to wait gives its segments back, and a
    /// client that does not use its segments loses them.
    pub fn may_gain(&self) -> bool {
        let horizons = Horizons::of(self);
        let (mut whole, mut bytes) = (0, 0);
        for state in self.used() {
            let number = state.number;
            let needed = self.occupancy(number).needed(horizons.without(number));
            let used = u64::from(state.end - SEGMENT_HEADER_UNITS) * UNIT_SIZE;
            match self.segments[number as usize].hold {
                Hold::Nobody if needed == 0 => whole += 1,
                Hold::Nobody | Hold::Appender if self.has_tombstones_alone(number) => {
                    bytes += if needed == 0 { used } else { 0 };
                }
                Hold::Appender if self.for_moves != Some(number) => {
                    bytes += used.saturating_sub(needed);
                }
                Hold::Nobody | Hold::Appender => {
                    let room = self.format.segment_size
                        - u64::from(SEGMENT_HEADER_UNITS) * UNIT_SIZE
                        - self.lost_end(state);
                    bytes += room.saturating_sub(needed);
                }
                Hold::Cleaner | Hold::EarlierRun | Hold::Stays | Hold::Appends => {}
            }
        }
        // Something is always wasted at the ends of the segments that records are moved to.
        let size = self.format.segment_size;
        let gained = whole + bytes.saturating_sub(size / 8) / size;
        gained > 0
            && u64::from(self.usable_free()) + gained > u64::from(self.reserve_for(Purpose::Put))
    }

    /// Whether a segment has tombstones and nothing else. It is freed when all of them can go, and none is moved: a segment of
    /// the reserve would become one of those that hold what is live.
    fn has_tombstones_alone(&self, number: u32) -> bool {
        self.segments[number as usize].purpose == Purpose::Delete
    }

    /// Bytes at the end of a segment that are lost in any other one, too: its records, as long as they are on average, do not
    /// fit there.
    fn lost_end(&self, state: &SegmentState) -> u64 {
        let used = u64::from(state.end - SEGMENT_HEADER_UNITS) * UNIT_SIZE;
        let room = u64::from(self.room(state.number)) * UNIT_SIZE;
        let mean = used / u64::from(state.count.max(1));
        if room < mean { room } else { 0 }
    }

    /// Whether enough is dead in a segment that it is cleaned for that, once it has no appender.
    pub fn has_dead(&self, number: u32) -> bool {
        let written = (self.format.segment_units() - SEGMENT_HEADER_UNITS - self.room(number))
            as u64
            * UNIT_SIZE;
        let needed = self.occupancy(number).needed(self.horizon(number));
        written.saturating_sub(needed) >= self.format.segment_size / GAIN_SHARE
    }

    /// The segment to clean next. `sequence` is the one that is given out next.
    ///
    /// If a delete waits, each chosen segment has tombstones that can go, nothing that is needed, or something dead, and its
    /// copy has none of these: so each is chosen once at most, and then the tombstones can go. The room at the ends of
    /// full segments, which records are too large for, could be moved about for ever.
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

    /// Tombstones with sequences below this are not needed any more once segment `number` is freed.
    pub fn horizon(&self, number: u32) -> u64 {
        Horizons::of(self).without(number)
    }

    /// Bytes that cleaning the segment gives back.
    pub fn gain(&self, number: u32, horizon: u64) -> u64 {
        let room = self.format.segment_size - u64::from(SEGMENT_HEADER_UNITS) * UNIT_SIZE;
        room.saturating_sub(self.occupancy(number).needed(horizon))
    }

    /// Free segments that a put can be given, now that the medium is as full as it is.
    pub(super) fn usable_free(&self) -> u32 {
        if !self.medium.is_full() {
            return self.shelves.free.len() as u32;
        }
        // The reserve has its space, and so have those that were used before.
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
            .any(|segment| segment.hold == Hold::EarlierRun)
    }

    /// Whether tombstones are in the way that could go if all clients had settled what they stamped.
    pub fn tombstones_wait_for_clients(&self) -> bool {
        self.tombstones_are_in_the_way() && self.unsettled < Horizons::of(self).first
    }

    /// Whether tombstones shall go: they pile up, or a delete waits for the room that they take.
    fn tombstones_are_in_the_way(&self) -> bool {
        if self.delete_waits {
            return true;
        }
        let capacity = self.format.segment_size * u64::from(self.format.segment_count);
        self.tombstone_bytes() > capacity / TOMBSTONES_SHARE
    }

    /// Whether the cleaner would be given a free segment now.
    pub(super) fn has_free_for_moves(&self) -> bool {
        if !self.medium.is_full() {
            return !self.shelves.free.is_empty();
        }
        let last = self.shelves.free.back();
        last.is_some_and(|&number| self.medium.is_ready(number))
            || self.free_that_had_space().is_some()
    }

    /// Bytes of `victim` that the cleaner can move to where it has room: anything that is needed of one segment while
    /// another one is free. After a crash, or an end in the middle of a victim, none may be; then there is a segment with room for
    /// what is left of the one that was being cleaned. That segment is no room for itself.
    fn movable_out_of(&self, victim: u32, has_free: bool) -> u64 {
        if has_free {
            return self.format.segment_size;
        }
        let own = self.for_moves.map_or(0, |number| self.room(number));
        let rest = self.shelves.room_beside(Purpose::Clean, victim);
        u64::from(own.max(rest)) * UNIT_SIZE
    }

    /// Segments in use that have no holder, and that have something dead in them or at their end.
    fn candidates(&self) -> impl Iterator<Item = u32> {
        let used = self.used().map(|state| state.number);
        used.filter(|&number| self.segments[number as usize].hold == Hold::Nobody)
    }

    /// Free segments that are kept for other purposes than this one.
    pub(super) fn reserve_for(&self, purpose: Purpose) -> u32 {
        let count = self.format.segment_count;
        match purpose {
            Purpose::Put if mutant!(DeletesNotReserved) => cleaning_segments(count),
            // Those of tombstones are the reserve for deletes, as far as that is in use.
            Purpose::Put => {
                cleaning_segments(count)
                    + reserved_segments(count).saturating_sub(self.of_tombstones)
            }
            // What is left of the segment that is being cleaned needs no other one: when it is free, as many are as before.
            Purpose::Delete => cleaning_segments(count) - u32::from(self.is_moving_on()),
            Purpose::Clean => 0,
        }
    }

    /// Bytes that a power cut may cost of the segment `to` that records are moved to, and the rest of it still takes what is left
    /// of the victim: all that counts as long as another segment is free. Of what is persisted together, any part may be lost
    /// in front of another part that is not. `copied` bytes are not published yet.
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
        // A publication that is taken back makes the record live again that it replaced.
        if self.unsettled != u64::MAX {
            return false;
        }
        let room = u64::from(self.room(to)) * UNIT_SIZE;
        self.occupancy(from).needed(0) <= room
    }

    /// Whether a segment has room for `units`, and is lent again when it is given back.
    pub fn has_worthwhile_room(&self, number: u32, units: u32) -> bool {
        self.room(number) >= units.max(self.format.segment_units() / WORTHWHILE_SHARE)
    }

    /// Whether the medium is full: there are free segments that it gives no space to.
    pub fn lacks_medium(&self) -> bool {
        self.medium.is_full()
            && self.shelves.free.len() as u32
                > self.usable_free().max(self.reserve_for(Purpose::Put))
    }

    /// Gives the reserve its space on the medium, or as much of it as is kept ready.
    pub(super) fn prepare_reserve(&self) -> Result<Prepared, MediaError> {
        let count = self.format.segment_count;
        let reserve = cleaning_segments(count) + reserved_segments(count);
        self.prepare_last((reserve as usize).min(RESERVE_PREPARED_MAX))
    }
}

/// The first deaths of all segments, of which one can be left out, and the first sequence that clients may have stamped and not
/// published.
struct Horizons {
    first: u64,
    in_segment: u32,
    second: u64,
    /// Records that clients have stamped from this sequence on may still be made void.
    unsettled: u64,
}

impl Horizons {
    fn of(space: &Space) -> Self {
        let used = space.used();
        Self::over(
            used.map(|state| (state.number, space.occupancy(state.number).first_death)),
            space.unsettled,
        )
    }

    /// Of segments, each by its number with its first death.
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

    /// Needs the unsettled sequences in the horizon of every segment: a client that stands still between stamp and CAS, or between a CAS
    /// that was lost and the void, has a record in the log that a scan counts; the tombstone of a delete that came in between is
    /// all that says otherwise.
    #[test]
    fn a_tombstone_stays_while_a_client_may_have_stamped_what_is_older() {
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
