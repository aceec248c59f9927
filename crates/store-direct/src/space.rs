//! Which segments are free, open or full, and who may append to them.
//!
//! ```text
//!             take                       give back, room left
//!   free  ----------->  leased to one  <---------------------->  partial
//!                       appender       ------------------------>  full (sealed)
//! ```
//!
//! A segment has one appender at a time: a client's lease, or the server itself. The last free segments are reserved for
//! deletes, so that a full pool can still forget; some of them have their space on the medium before a put takes any other,
//! so that a full file system can, too. A reserve that deletes have begun to use is a partial segment after the next
//! opening; so where fewer segments are free than the reserve is large, puts leave as many of the emptiest partial segments
//! alone.

use std::collections::{BTreeSet, VecDeque};
use std::rc::Rc;

use stonecast_base::Span;
use stonecast_log::{LogFormat, SEGMENT_HEADER_UNITS, SegmentState, UNIT_SIZE};
use stonecast_media::{Backing, MediaError, PersistentRegion, Prepared};

use crate::limits::{RESERVE_PREPARED_MAX, reserved_segments};

/// A partial segment with less room than this share is not worth a lease of its own; it is closed.
const WORTHWHILE_SHARE: u32 = 16;

/// See the module documentation.
pub(crate) struct Space {
    backing: Rc<dyn Backing>,
    format: LogFormat,
    segments: Vec<Option<SegmentState>>,
    free: VecDeque<u32>,
    partial: BTreeSet<(u32, u32)>,
    taken: u32,
    /// The segment that deletes are appended to: a part of the reserve that is in use as such.
    for_deletes: Option<u32>,
}

/// Who asks for a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    Put,
    Delete,
}

/// The answer to a request for a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Taken {
    /// This segment is the caller's until given back. `fresh`: it was free, and its header must be written.
    Segment { number: u32, fresh: bool },
    /// Its space is being prepared.
    Pending,
    /// There is none.
    NoSpace,
}

impl Space {
    /// The space of a pool whose used segments are `used`.
    ///
    /// Clients of a killed server may outlive it, with their mappings, and finish a store into what they had leased. While
    /// any can, the rests of used segments belong to nobody; published records lie below what such a client writes.
    pub fn new(backing: Rc<dyn Backing>, format: LogFormat, used: Vec<SegmentState>) -> Self {
        let may_append = backing.earlier_writers_are_gone();
        let mut space = Self {
            backing,
            format,
            segments: vec![None; format.segment_count as usize],
            free: VecDeque::new(),
            partial: BTreeSet::new(),
            taken: 0,
            for_deletes: None,
        };
        for state in used {
            let number = state.number;
            assert!(space.segments[number as usize].replace(state).is_none(), "segment {number} is used once");
            if may_append {
                space.shelve(number);
            }
        }
        space.free.extend((0..format.segment_count).filter(|&number| space.segments[number as usize].is_none()));
        space
    }

    /// The state of a segment in use.
    pub fn state(&mut self, number: u32) -> &mut SegmentState {
        self.segments[number as usize].as_mut().expect("a taken segment has a state")
    }

    /// States of all segments in use.
    pub fn states(&self) -> impl Iterator<Item = &SegmentState> {
        self.segments.iter().flatten()
    }

    /// Units left in a taken segment.
    pub fn room(&self, number: u32) -> u32 {
        self.format.segment_units() - self.segments[number as usize].as_ref().map_or(SEGMENT_HEADER_UNITS, |state| state.end)
    }

    /// Takes a segment with room for `units` more units.
    pub fn take(&mut self, units: u32, purpose: Purpose) -> Result<Taken, MediaError> {
        let taken = self.take_for(units, purpose)?;
        if let (Taken::Segment { number, .. }, Purpose::Delete) = (taken, purpose) {
            self.for_deletes = Some(number);
        }
        Ok(taken)
    }

    fn take_for(&mut self, units: u32, purpose: Purpose) -> Result<Taken, MediaError> {
        let (free, reserve) = (self.free.len() as u32, self.reserve_for(purpose));
        let may_use_free = free > reserve;
        let kept = reserve.saturating_sub(free + u32::from(self.for_deletes.is_some()));
        // The partial segment with the most room: small remainders are left to small requests.
        let partial = self.partial.iter().rev().nth(kept as usize).copied().filter(|&(room, _)| room >= units);
        if let Some((room, number)) = partial
            && (!may_use_free || room >= self.format.segment_units() / 4)
        {
            return self.take_partial(room, number);
        }
        if !may_use_free {
            return Ok(Taken::NoSpace);
        }
        // Puts leave the reserve alone and see to it that it has its space; deletes take it from the back.
        let number = match purpose {
            Purpose::Put => self.free.front(),
            Purpose::Delete => self.free.back(),
        };
        let number = *number.expect("more than the reserve is free");
        let ready = match purpose {
            Purpose::Put => self.prepare_reserve(),
            Purpose::Delete => Ok(Prepared::Ready),
        };
        let instead = match ready.and_then(|ready| Ok((ready, self.prepare(number)?))) {
            Ok((Prepared::Ready, Prepared::Ready)) => {
                self.free.retain(|&free| free != number);
                self.segments[number as usize] = Some(SegmentState::fresh(number, 1));
                self.taken += 1;
                self.prepare_ahead();
                return Ok(Taken::Segment { number, fresh: true });
            }
            Ok(_) => Taken::Pending,
            Err(MediaError::NoSpace { .. }) => Taken::NoSpace,
            Err(error) => return Err(error),
        };
        partial.map_or(Ok(instead), |(room, number)| self.take_partial(room, number))
    }

    /// Takes the rest of a segment. Its space is prepared again: a copy of the pool may have holes there.
    fn take_partial(&mut self, room: u32, number: u32) -> Result<Taken, MediaError> {
        match self.prepare(number) {
            Ok(Prepared::Ready) => {
                self.partial.remove(&(room, number));
                self.taken += 1;
                Ok(Taken::Segment { number, fresh: false })
            }
            Ok(Prepared::Pending) => Ok(Taken::Pending),
            Err(MediaError::NoSpace { .. }) => Ok(Taken::NoSpace),
            Err(error) => Err(error),
        }
    }

    /// Ends an appender's hold on a segment. One without room for another appender is sealed; the caller persists the
    /// span with the next batch.
    #[must_use = "a seal is to be persisted"]
    pub fn give_back(&mut self, number: u32, log: &dyn PersistentRegion) -> Option<Span> {
        self.taken -= 1;
        if self.for_deletes == Some(number) {
            self.for_deletes = None;
        }
        let full = !self.shelve(number);
        let format = self.format;
        let state = self.state(number);
        (full && state.needs_seal()).then(|| state.seal(log, &format))
    }

    /// Starts preparing the next free segments, so that whoever needs one finds it ready.
    pub fn prepare_ahead(&self) {
        // A failure shows when the segment is really needed.
        let _ = self.prepare_reserve();
        for &number in self.free.iter().take(2) {
            let _ = self.prepare(number);
        }
    }

    /// Gives the reserve its space on the medium, or as much of it as is kept ready.
    fn prepare_reserve(&self) -> Result<Prepared, MediaError> {
        let reserve = (reserved_segments(self.format.segment_count) as usize).min(RESERVE_PREPARED_MAX);
        let mut ready = Prepared::Ready;
        for &number in self.free.iter().rev().take(reserve) {
            if self.prepare(number)? == Prepared::Pending {
                ready = Prepared::Pending;
            }
        }
        Ok(ready)
    }

    /// Seals every segment that has records above its seal, all of them durable, and returns what the caller must
    /// persist.
    pub fn seal_all(&mut self, log: &dyn PersistentRegion) -> Vec<Span> {
        let format = self.format;
        self.segments.iter_mut().flatten().filter(|state| state.needs_seal()).map(|state| state.seal(log, &format)).collect()
    }

    /// Counts for reports: free, partial, taken, full.
    pub fn counts(&self) -> [u64; 4] {
        let used = self.segments.iter().flatten().count() as u64;
        let (partial, taken) = (self.partial.len() as u64, u64::from(self.taken));
        [self.free.len() as u64, partial, taken, used - partial - taken]
    }

    /// Bytes of the log below the ends of all segments in use.
    pub fn used_bytes(&self) -> u64 {
        self.states().map(|state| u64::from(state.end) * UNIT_SIZE).sum()
    }

    /// Puts a segment with room enough for another appender among the partial ones. Whether it had.
    fn shelve(&mut self, number: u32) -> bool {
        let room = self.room(number);
        room >= self.format.segment_units() / WORTHWHILE_SHARE && self.partial.insert((room, number))
    }

    fn reserve_for(&self, purpose: Purpose) -> u32 {
        match purpose {
            Purpose::Put => reserved_segments(self.format.segment_count),
            Purpose::Delete => 0,
        }
    }

    fn prepare(&self, number: u32) -> Result<Prepared, MediaError> {
        self.backing.prepare(Span::new(self.format.position(number, 0), self.format.segment_size))
    }
}
