//! Which segments are free, open or full, which of them have an appender, and which are cleaned next.
//!
//! ```text
//!             take                       give back, room left
//!   free  ----------->  leased to one  <---------------------->  partial --.
//!    ^                  appender       ------------------------>  full     | begin cleaning
//!    |                                                              |      v
//!    '--------------------- free, in its next generation <--------- victim of the cleaner
//! ```
//!
//! A segment has one appender at a time: a client's lease, or the server itself. The last free segments are reserved: for
//! the cleaner, which needs room to make room, and for deletes, so that a full pool can still forget; some of them have
//! their space on the medium before a put takes any other, so that a full file system can, too.
//!
//! The first record of a segment decides what the segment is for ([`Purpose`]). The rest of the segment is never used for anything
//! else, also after the next opening. So no put takes the rest of a reserve that is in use, and only the server writes to the
//! segments of moved records and of tombstones. Why a delete always finds room: `docs/design/0014-cleaning.md`, *The reserve*.
//!
//! | file | holds |
//! | --- | --- |
//! | `segment.rs` | the facts of one segment |
//! | `shelves.rs` | free and partial segments |
//! | `medium.rs` | the space that the medium gives to segments |
//! | `accounts.rs` | live and dead records of each segment, with `occupancy.rs` |
//! | `policy.rs` | when to clean what, and what is reserved |
//! | `witnesses.rs` | the words that each segment's neighbour has of it |

mod accounts;
mod medium;
pub(crate) mod occupancy;
mod policy;
mod purpose;
mod segment;
mod shelves;
mod witnesses;

pub(crate) use policy::Need;
pub(crate) use purpose::Purpose;
pub(crate) use witnesses::Witnesses;

use std::rc::Rc;

use stonecast_base::{Nanoseconds, Span, mutant};
use stonecast_log::{Found, Heritage, LogFormat, SEGMENT_HEADER_UNITS, SegmentState};
use stonecast_media::{Backing, MediaError, PersistentRegion, Prepared};
use stonecast_persist::Persisted;

use crate::server::space::occupancy::Occupancy;

use accounts::Flow;
use medium::Medium;
use segment::{Hold, Segment};
use shelves::Shelves;
use witnesses::Telling;

/// A partial segment with less room than this share is not worth a lease of its own; it is closed.
const WORTHWHILE_SHARE: u32 = 16;

/// See the module documentation.
pub(crate) struct Space {
    format: LogFormat,
    medium: Medium,
    /// By number.
    segments: Vec<Segment>,
    shelves: Shelves,
    witnesses: Witnesses,
    /// Segments that have an appender.
    taken: u32,
    /// Segments that are used for tombstones.
    of_tombstones: u32,
    /// The segment that records are moved to.
    for_moves: Option<u32>,
    /// The segment that is being cleaned.
    victim: Option<u32>,
    /// A delete found no segment, and none that it may take was freed since.
    delete_waits: bool,
    /// A record that a client stamped with this sequence, or a later one, may be neither published nor void yet.
    unsettled: u64,
    flow: Flow,
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
    /// The space of a pool whose used segments are `used`, each with what of it is needed, by its number, and with what its
    /// neighbour was told of it.
    ///
    /// Clients of a killed server may outlive it, with their mappings, and finish a store into memory that they had leased. While
    /// any can, segments that they may have leased are neither appended to nor cleaned; published records lie below what such
    /// a client writes. See [`Space::release_earlier_run`].
    pub fn new(
        backing: Rc<dyn Backing>,
        log: &dyn PersistentRegion,
        used: Vec<SegmentState>,
        mut occupancy: Vec<Occupancy>,
        witnesses: Witnesses,
    ) -> Self {
        let format = witnesses.format();
        let medium = Medium::new(backing, format);
        let may_append = medium.earlier_writers_are_gone();
        occupancy.resize(format.segment_count as usize, Occupancy::EMPTY);
        let mut space = Self {
            format,
            medium,
            segments: occupancy.into_iter().map(Segment::unused).collect(),
            shelves: Shelves::default(),
            witnesses,
            taken: 0,
            of_tombstones: 0,
            for_moves: None,
            victim: None,
            delete_waits: false,
            unsettled: u64::MAX,
            flow: Flow::default(),
        };
        for state in used {
            space.adopt(state, log, may_append);
        }
        let unused = (0..).zip(&space.segments);
        let unused = unused.filter(|(_, segment)| segment.used.is_none());
        space.shelves.free.extend(unused.map(|(number, _)| number));
        space
    }

    /// Takes over a segment of an earlier run.
    fn adopt(&mut self, state: SegmentState, log: &dyn PersistentRegion, may_append: bool) {
        let number = state.number;
        let segment = &mut self.segments[number as usize];
        let purpose = match Purpose::of(&state, log, &self.format) {
            _ if state.is_blank() => Purpose::Put,
            // Written by a version that put records behind tombstones.
            Purpose::Delete if segment.occupancy.live > 0 => Purpose::Put,
            purpose => purpose,
        };
        let is_free = state.is_blank() && may_append;
        let slot = match is_free {
            true => &mut segment.blank,
            false => &mut segment.used,
        };
        assert!(
            slot.replace(state).is_none(),
            "segment {number} is used once"
        );
        segment.purpose = purpose;
        self.of_tombstones += u32::from(purpose == Purpose::Delete);
        if is_free {
            return;
        }
        if !may_append && purpose == Purpose::Put {
            segment.hold = Hold::EarlierRun;
        } else if !self.shelve(number) && purpose != Purpose::Put && self.room(number) > 0 {
            // The rest of a segment that was being cleaned may need just this room.
            let room = self.room(number);
            self.shelves.put_partial(purpose, room, number);
        }
    }

    /// Keeps segments that other nodes' appends fill: nobody takes them, and they are not cleaned.
    pub fn hold_for_appends(&mut self, appended: &[SegmentState]) {
        for &state in appended {
            self.shelves.free.retain(|&number| number != state.number);
            let segment = &mut self.segments[state.number as usize];
            segment.used = Some(state);
            segment.hold = Hold::Appends;
        }
    }

    /// Called when segments run short: once the last writer of an earlier run is gone, the segments of that run are cleaned like all
    /// others. Their rests get no appender, since recovery cleared them before that writer had done its last store.
    pub fn release_earlier_run(&mut self) {
        if self.is_short() && self.waits_for_earlier_run() && self.medium.earlier_writers_are_gone()
        {
            let all = self.segments.iter_mut();
            all.filter(|segment| segment.hold == Hold::EarlierRun)
                .for_each(|segment| segment.hold = Hold::Nobody);
        }
    }

    /// The state of a segment in use.
    pub fn state(&mut self, number: u32) -> &mut SegmentState {
        self.segments[number as usize]
            .used
            .as_mut()
            .expect("a taken segment has a state")
    }

    /// The states of all segments in use.
    fn used(&self) -> impl Iterator<Item = &SegmentState> {
        self.segments
            .iter()
            .filter_map(|segment| segment.used.as_ref())
    }

    /// States of all segments that were ever used, each with what of it is needed.
    pub fn states(&self) -> impl Iterator<Item = (&SegmentState, &Occupancy)> {
        let all = self.segments.iter();
        all.filter_map(|segment| Some((segment.known()?, &segment.occupancy)))
    }

    /// The facts of freed segments that all segments together remember.
    pub fn heritage(&self) -> Heritage {
        self.states().fold(Heritage::default(), |all, (state, _)| {
            all.and(state.heritage)
        })
    }

    /// Units left in a taken segment.
    pub fn room(&self, number: u32) -> u32 {
        let used = self.segments[number as usize].used.as_ref();
        self.format.segment_units() - used.map_or(SEGMENT_HEADER_UNITS, |state| state.end)
    }

    /// A client stamps its own records in the segment, until [`take_over`](Self::take_over).
    pub fn lend(&mut self, number: u32) {
        self.segments[number as usize].is_lent = true;
    }

    /// Takes over the records that a client has stamped in a lent segment, which it cannot write any more. `is_void` says of each
    /// record whether it is taken back. Returns the spans that the caller must persist before anything more is stamped there.
    pub fn take_over(
        &mut self,
        number: u32,
        log: &dyn PersistentRegion,
        is_void: &mut dyn FnMut(&Found<'_>) -> bool,
    ) -> Option<Span> {
        self.segments[number as usize].is_lent = false;
        let format = self.format;
        let mut newest = 0;
        let changed = self.state(number).take_over(log, &format, &mut |found| {
            newest = newest.max(found.header.sequence());
            is_void(found)
        });
        self.note_durable(number, log);
        let occupancy = self.occupancy_mut(number);
        occupancy.written_at = occupancy.written_at.max(newest);
        changed
    }

    /// Everything that was stamped in a segment so far was persisted.
    pub fn note_durable(&mut self, number: u32, log: &dyn PersistentRegion) {
        self.state(number).note_durable();
        self.tell(number, log, Telling::Gained);
    }

    /// Lets the neighbour of a segment say what is durable of it.
    fn tell(&mut self, number: u32, log: &dyn PersistentRegion, telling: Telling) {
        if let Some(state) = self.segments[number as usize].known() {
            self.witnesses.tell(log, state, telling);
        }
    }

    /// Lets the neighbour of a segment say that records just stamped there are durable: for a mutant.
    pub fn tell_too_early(&mut self, number: u32, log: &dyn PersistentRegion) {
        let early = SegmentState {
            durable: self.state(number).end,
            ..*self.state(number)
        };
        self.witnesses.tell(log, &early, Telling::Settled);
    }

    /// The lines of the segments' neighbours that go with the next persist.
    pub fn take_due_witnesses(&mut self) -> impl Iterator<Item = Span> + '_ {
        self.witnesses.take_due()
    }

    /// Takes a segment with room for `units` more units.
    pub fn take(&mut self, units: u32, purpose: Purpose) -> Result<Taken, MediaError> {
        let taken = self.take_for(units, purpose)?;
        if purpose == Purpose::Delete {
            self.delete_waits = taken == Taken::NoSpace;
        }
        if let Taken::Segment { number, .. } = taken {
            self.segments[number as usize].hold = Hold::Appender;
            if purpose == Purpose::Clean {
                self.for_moves = Some(number);
            }
        }
        Ok(taken)
    }

    fn take_for(&mut self, units: u32, purpose: Purpose) -> Result<Taken, MediaError> {
        let reserve = self.reserve_for(purpose);
        let may_use_free = self.shelves.free.len() as u32 > reserve;
        // The partial segment with the most room: small remainders are left to small requests.
        let partial = self.shelves.roomiest(purpose);
        let partial = partial.filter(|&(room, _)| room >= units);
        if let Some((room, number)) = partial
            && (!may_use_free || room >= self.format.segment_units() / 4)
        {
            return self.take_partial(room, number, purpose);
        }
        if !may_use_free {
            return Ok(Taken::NoSpace);
        }
        // Puts leave the reserve alone and see to it that it has its space; others take it from the back, and deletes leave
        // the cleaner's part with its space.
        let (number, ready) = match purpose {
            Purpose::Put => (self.shelves.free.front(), self.prepare_reserve()),
            Purpose::Delete => (
                self.shelves.free.back(),
                self.prepare_last(reserve as usize + 1),
            ),
            Purpose::Clean => (self.shelves.free.back(), Ok(Prepared::Ready)),
        };
        let number = *number.expect("more than the reserve is free");
        let ready = ready.and_then(|ready| Ok((ready, self.medium.prepare(number)?)));
        let instead = match ready {
            Ok((Prepared::Ready, Prepared::Ready)) => {
                self.medium.note_given();
                return Ok(self.take_free(number, purpose));
            }
            Ok(_) => Taken::Pending,
            Err(error @ MediaError::NoSpace { .. }) => {
                self.medium.note_full(error);
                Taken::NoSpace
            }
            Err(error) => return Err(error),
        };
        if let Some((room, number)) = partial {
            return self.take_partial(room, number, purpose);
        }
        let may_use_other = instead == Taken::NoSpace && self.usable_free() > reserve;
        match self.free_that_had_space().filter(|_| may_use_other) {
            Some(number) => Ok(self.take_free(number, purpose)),
            None => Ok(instead),
        }
    }

    /// A free segment that was used before: it has its space, unless the pool is a copy with holes.
    fn free_that_had_space(&self) -> Option<u32> {
        let free = self.shelves.free.iter().copied();
        let mut had_space = free.filter(|&number| self.segments[number as usize].blank.is_some());
        had_space.find(|&number| self.medium.is_ready(number))
    }

    /// Why the medium last gave no space, once.
    pub fn take_refusal(&mut self) -> Option<MediaError> {
        self.medium.take_refusal()
    }

    /// Takes a free segment that has its space.
    fn take_free(&mut self, number: u32, purpose: Purpose) -> Taken {
        self.shelves.free.retain(|&free| free != number);
        assert!(
            self.shelves.free.len() as u32 >= self.reserve_for(purpose),
            "what is reserved for others stays free"
        );
        let segment = &mut self.segments[number as usize];
        segment.purpose = purpose;
        let blank = segment.blank.take();
        segment.used = Some(blank.unwrap_or_else(|| SegmentState::fresh(number, 1)));
        self.of_tombstones += u32::from(purpose == Purpose::Delete);
        self.taken += 1;
        self.prepare_ahead();
        Taken::Segment {
            number,
            fresh: true,
        }
    }

    /// Takes the rest of a segment. Its space is prepared again: a copy of the pool may have holes there.
    fn take_partial(
        &mut self,
        room: u32,
        number: u32,
        purpose: Purpose,
    ) -> Result<Taken, MediaError> {
        match self.medium.prepare(number) {
            Ok(Prepared::Ready) => {
                self.shelves.take_partial(purpose, room, number);
                self.taken += 1;
                Ok(Taken::Segment {
                    number,
                    fresh: false,
                })
            }
            Ok(Prepared::Pending) => Ok(Taken::Pending),
            Err(error @ MediaError::NoSpace { .. }) => {
                self.medium.note_refusal(error);
                Ok(Taken::NoSpace)
            }
            Err(error) => Err(error),
        }
    }

    /// Ends an appender's hold on a segment. One without room for another appender is sealed; the caller persists the
    /// span with the next batch.
    #[must_use = "a seal is to be persisted"]
    pub fn give_back(&mut self, number: u32, log: &dyn PersistentRegion) -> Option<Span> {
        self.taken -= 1;
        self.segments[number as usize].hold = Hold::Nobody;
        self.for_moves.take_if(|own| *own == number);
        self.tell(number, log, Telling::Settled);
        let full = !self.shelve(number);
        let format = self.format;
        let state = self.state(number);
        (full && state.needs_seal()).then(|| state.seal(log, &format))
    }

    /// Puts a segment with room enough for another appender among the partial ones. Returns whether it had.
    fn shelve(&mut self, number: u32) -> bool {
        let room = self.room(number);
        let purpose = self.segments[number as usize].purpose;
        room >= self.format.segment_units() / WORTHWHILE_SHARE
            && self.shelves.put_partial(purpose, room, number)
    }

    /// Gives a segment to the cleaner: it gets no appender any more.
    pub fn begin_cleaning(&mut self, number: u32) -> SegmentState {
        let room = self.room(number);
        let segment = &mut self.segments[number as usize];
        assert!(
            segment.hold == Hold::Nobody,
            "segment {number} is cleaned while somebody holds it"
        );
        segment.hold = Hold::Cleaner;
        self.shelves.take_partial(segment.purpose, room, number);
        self.victim = Some(number);
        *self.state(number)
    }

    /// The cleaner found something in a segment that it cannot move. The segment stays as it is, so that the damage is told of.
    pub fn abandon(&mut self, number: u32) {
        self.victim = None;
        self.end_purpose(number);
        self.segments[number as usize].hold = Hold::Stays;
    }

    /// Whether a segment may get its next generation now.
    pub fn may_reuse(&self, next: &SegmentState, now: Nanoseconds) -> bool {
        self.segments[next.number as usize].may_reuse(next, now)
    }

    /// A segment that was cleaned is free in the generation `next`. Takes the proof that its header is durable.
    pub fn free(
        &mut self,
        next: SegmentState,
        log: &dyn PersistentRegion,
        now: Nanoseconds,
        _: &Persisted,
    ) {
        let number = next.number;
        self.segments[number as usize].renew(next, now);
        self.tell(number, log, Telling::Settled);
        self.end_purpose(number);
        let segment = &mut self.segments[number as usize];
        segment.occupancy = Occupancy::EMPTY;
        segment.hold = Hold::Nobody;
        self.victim = None;
        if !mutant!(FreedMemoryLost) {
            self.shelves.free.push_back(number);
        }
        if self.shelves.free.len() as u32 > self.reserve_for(Purpose::Delete) {
            self.delete_waits = false;
        }
    }

    /// Nothing more is appended to a segment in its generation: one of tombstones is no part of the reserve any more.
    fn end_purpose(&mut self, number: u32) {
        let purpose = &mut self.segments[number as usize].purpose;
        self.of_tombstones -= u32::from(*purpose == Purpose::Delete);
        *purpose = Purpose::Put;
    }

    /// Starts preparing the next free segments, so that an appender that needs one finds it ready.
    pub fn prepare_ahead(&self) {
        // A failure shows when the segment is really needed.
        let _ = self.prepare_reserve();
        for &number in self.shelves.free.iter().take(2) {
            let _ = self.medium.prepare(number);
        }
    }

    /// Gives so many free segments their space on the medium, those that are taken last.
    fn prepare_last(&self, count: usize) -> Result<Prepared, MediaError> {
        let last = self.shelves.free.iter().rev().take(count);
        self.medium.prepare_all(last.copied())
    }

    /// Seals every segment that has records above its seal, all of them durable, lets its neighbour know, and returns what the
    /// caller must persist.
    pub fn seal_all(&mut self, log: &dyn PersistentRegion) -> Vec<Span> {
        for number in 0..self.format.segment_count {
            self.tell(number, log, Telling::Settled);
        }
        let known = self.segments.iter_mut();
        let known = known.filter(|segment| !segment.is_lent);
        let seals = known
            .filter_map(|segment| segment.used.as_mut())
            .filter(|state| state.needs_seal())
            .map(|state| state.seal(log, &self.format));
        seals.chain(self.witnesses.take_due()).collect()
    }
}
