//! The segments of the log: free, open or full, with or without an appender, and the choice of the next one to clean.
//!
//! ```text
//!             take                       give back, room left
//!   free  ----------->  leased to one  <---------------------->  partial --.
//!    ^                  appender       ------------------------>  full     | begin cleaning
//!    |                                                              |      v
//!    '--------------------- free, in its next generation <--------- victim of the cleaner
//! ```
//!
//! A segment has one appender at a time: a client's lease, or the server itself. The last free segments are reserved:
//! for the cleaner, which needs room to make room, and for deletes, so that a full pool accepts deletes. Some reserved
//! segments have their space on the medium before a put takes any other segment, so that a pool on a full file system
//! accepts deletes, too.
//!
//! The first record of a segment decides its purpose ([`Purpose`]). The rest of the segment is used for the same
//! purpose only, even after the next opening. No put therefore takes the rest of a reserve that is in use, and only the
//! server writes to the segments of moved records and of tombstones. `docs/design/0014-cleaning.md`, *The reserve*,
//! explains why a delete always finds room.
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
use crate::wire::limits::segments_for_copies;

use accounts::Flow;
use medium::Medium;
use segment::{Holder, Segment};
use shelves::Shelves;
use witnesses::Telling;

/// A partial segment with less room than this share is not worth a lease and is closed.
const WORTHWHILE_SHARE: u32 = 16;

pub(crate) struct Space {
    format: LogFormat,
    medium: Medium,
    /// All segments, by number.
    segments: Vec<Segment>,
    shelves: Shelves,
    witnesses: Witnesses,
    /// Number of segments with an appender.
    taken: u32,
    reserve: Reserve,
    /// The segment to which records are moved.
    for_moves: Option<u32>,
    /// The segment that is being cleaned.
    victim: Option<u32>,
    /// Whether a delete found no segment, and none for deletes was freed since.
    delete_waits: bool,
    unsettled: Unsettled,
    flow: Flow,
}

/// What decides the number of free segments that puts leave alone, beside the size of the pool, and the segments that
/// come back.
#[derive(Default)]
struct Reserve {
    /// Number of segments in use for tombstones, which are the part of the reserve for deletes that is in use.
    of_tombstones: u32,
    /// Segments for records of other nodes that are on their way.
    for_copies: u32,
    /// Segments that the appends of other nodes no longer need.
    of_appends: usize,
}

/// The first sequences whose records have to stay unchanged; `u64::MAX`: no record has to.
struct Unsettled {
    /// A record that a client stamped with this sequence, or a later one, may be neither published nor void yet.
    by_clients: u64,
    /// A record that the node stamped with this sequence, or a later one, is not settled in its ledger.
    by_node: u64,
}

impl Default for Unsettled {
    fn default() -> Self {
        Self {
            by_clients: u64::MAX,
            by_node: u64::MAX,
        }
    }
}

/// The answer to a request for a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Taken {
    /// This segment is the caller's until given back. A `fresh` segment was free, and its header must be written.
    Segment { number: u32, fresh: bool },
    /// The space of the segment is being prepared.
    Pending,
    /// No segment is free.
    NoSpace,
}

impl Space {
    /// The space of a pool with the segments `used`, each with its occupancy, and with the witness that its neighbour
    /// has.
    ///
    /// Clients of a killed server may outlive the server, with their mappings, and finish a store into leased memory.
    /// While any such client exists, segments that it may have leased are neither appended to nor cleaned. Published
    /// records lie below the stores of such a client. See [`Space::release_earlier_run`].
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
            reserve: Reserve::default(),
            for_moves: None,
            victim: None,
            delete_waits: false,
            unsettled: Unsettled::default(),
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
            // A pool may contain puts after tombstones, written by an older version.
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
        self.reserve.of_tombstones += u32::from(purpose == Purpose::Delete);
        if is_free {
            return;
        }
        if !may_append && purpose == Purpose::Put {
            segment.hold = Holder::EarlierRun;
        } else if !self.shelve(number) && purpose != Purpose::Put && self.room(number) > 0 {
            // The rest of an interrupted victim may need exactly this room.
            let room = self.room(number);
            self.shelves.put_partial(purpose, room, number);
        }
    }

    /// Keeps segments free for records of other nodes: puts of this node, and leases of its clients, leave them alone.
    pub fn keep_room_for_copies(&mut self) {
        self.reserve.for_copies = segments_for_copies(self.format.segment_count);
    }

    /// Holds segments that other nodes' appends fill: they get no appender, and they are not cleaned.
    pub fn hold_for_appends(&mut self, appended: &[SegmentState]) {
        for &state in appended {
            self.shelves.free.retain(|&number| number != state.number);
            let segment = &mut self.segments[state.number as usize];
            segment.used = Some(state);
            segment.hold = Holder::Appends;
        }
    }

    /// Takes a free segment for the appends of other nodes, with its state if it was used before. `None`: the free
    /// segments are for writers, or the next one has no space yet.
    pub fn take_for_appends(&mut self) -> Option<(u32, Option<SegmentState>)> {
        let spare = self.usable_free() > self.reserve_for(Purpose::Put) + 1;
        let number = *self.shelves.free.front().filter(|_| spare)?;
        if !self.medium.is_ready(number) {
            return None;
        }
        self.shelves.free.pop_front();
        let segment = &mut self.segments[number as usize];
        let before = segment.blank.take();
        segment.used = Some(before.unwrap_or_else(|| SegmentState::fresh(number, 1)));
        segment.hold = Holder::Appends;
        self.prepare_ahead();
        Some((number, before))
    }

    /// Notes the number of segments that appends no longer need, and that come back if segments run short.
    pub fn note_spare_appends(&mut self, count: usize) {
        self.reserve.of_appends = count;
    }

    /// Whether a segment comes back from appends if segments run short.
    pub fn may_get_back(&self) -> bool {
        self.reserve.of_appends > 0
    }

    /// Takes back a segment that appends have filled. It is durably free, in the generation of `next`.
    pub fn take_back(&mut self, next: SegmentState, log: &dyn PersistentRegion) {
        let segment = &mut self.segments[next.number as usize];
        assert!(
            segment.hold == Holder::Appends,
            "segment {} was given to appends",
            next.number
        );
        segment.used = None;
        segment.blank = Some(next);
        self.tell(next.number, log, Telling::Settled);
        self.add_free(next.number);
    }

    /// Lets the segments of an earlier run be cleaned like all others, once the last writer of that run is gone. Called
    /// when segments run short. The rests of these segments get no appender, since recovery cleared them before the
    /// last store of that writer.
    pub fn release_earlier_run(&mut self) {
        if self.is_short() && self.waits_for_earlier_run() && self.medium.earlier_writers_are_gone()
        {
            let all = self.segments.iter_mut();
            all.filter(|segment| segment.hold == Holder::EarlierRun)
                .for_each(|segment| segment.hold = Holder::Nobody);
        }
    }

    /// The state of a segment in use.
    #[inline]
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

    /// States of all segments that were ever used, each with its occupancy.
    pub fn states(&self) -> impl Iterator<Item = (&SegmentState, &Occupancy)> {
        let all = self.segments.iter();
        all.filter_map(|segment| Some((segment.known()?, &segment.occupancy)))
    }

    /// The facts of freed segments that the segments together remember.
    pub fn heritage(&self) -> Heritage {
        self.states().fold(Heritage::default(), |all, (state, _)| {
            all.and(state.heritage)
        })
    }

    /// Units left in a taken segment.
    #[inline]
    pub fn room(&self, number: u32) -> u32 {
        let used = self.segments[number as usize].used.as_ref();
        self.format.segment_units() - used.map_or(SEGMENT_HEADER_UNITS, |state| state.end)
    }

    /// Lends the segment to a client that stamps its own records there, until [`take_over`](Self::take_over).
    pub fn lend(&mut self, number: u32) {
        self.segments[number as usize].is_lent = true;
    }

    /// Takes over the records that a client has stamped in a lent segment. The client can no longer write to the
    /// segment. `is_void` returns for each record whether the client took it back. Returns the span that the caller
    /// must persist before the next record is stamped there.
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

    /// Notes that all records stamped in a segment so far are persisted.
    pub fn note_durable(&mut self, number: u32, log: &dyn PersistentRegion) {
        self.state(number).note_durable();
        self.tell(number, log, Telling::Gained);
    }

    /// Notes that a segment is persisted up to `end`, which it had in that generation. A segment that was freed since
    /// has no such record.
    pub fn note_durable_below(
        &mut self,
        number: u32,
        (generation, end): (u32, u32),
        log: &dyn PersistentRegion,
    ) {
        let used = self.segments[number as usize].used.as_mut();
        if let Some(state) = used.filter(|state| state.generation == generation) {
            state.note_durable_below(end);
            self.tell(number, log, Telling::Gained);
        }
    }

    /// Stores in the neighbour of a segment how much of the segment is durable.
    fn tell(&mut self, number: u32, log: &dyn PersistentRegion, telling: Telling) {
        if let Some(state) = self.segments[number as usize].known() {
            self.witnesses.tell(log, state, telling);
        }
    }

    /// Stores in the neighbour of a segment that records just stamped there are durable: for a mutant.
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
            self.segments[number as usize].hold = Holder::Appender;
            if purpose == Purpose::Clean {
                self.for_moves = Some(number);
            }
        }
        Ok(taken)
    }

    /// Takes a segment for a record of another node, which that node has stamped already: the segments that are kept
    /// for such records are free for it.
    pub fn take_for_copy(&mut self, units: u32, purpose: Purpose) -> Result<Taken, MediaError> {
        let kept = std::mem::take(&mut self.reserve.for_copies);
        let taken = self.take(units, purpose);
        self.reserve.for_copies = kept;
        taken
    }

    fn take_for(&mut self, units: u32, purpose: Purpose) -> Result<Taken, MediaError> {
        let reserve = self.reserve_for(purpose);
        let may_use_free = self.shelves.free.len() as u32 > reserve;
        // The choice is the partial segment with the most room, so that small remainders stay for small requests.
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
        // Puts leave the reserve alone and prepare its space. Other purposes take segments from the back of the
        // reserve, and deletes leave the cleaner's part with its space.
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

    /// A free segment that was used before. Such a segment has its space, unless the pool is a copy with holes.
    fn free_that_had_space(&self) -> Option<u32> {
        let free = self.shelves.free.iter().copied();
        let mut had_space = free.filter(|&number| self.segments[number as usize].blank.is_some());
        had_space.find(|&number| self.medium.is_ready(number))
    }

    /// Takes the latest reason why the medium gave no space.
    pub fn take_refusal(&mut self) -> Option<MediaError> {
        self.medium.take_refusal()
    }

    /// Takes a free segment that has its space.
    fn take_free(&mut self, number: u32, purpose: Purpose) -> Taken {
        self.shelves.free.retain(|&free| free != number);
        assert!(
            self.shelves.free.len() as u32 >= self.reserve_for(purpose),
            "segments reserved for other purposes stay free"
        );
        let segment = &mut self.segments[number as usize];
        segment.purpose = purpose;
        let blank = segment.blank.take();
        segment.used = Some(blank.unwrap_or_else(|| SegmentState::fresh(number, 1)));
        self.reserve.of_tombstones += u32::from(purpose == Purpose::Delete);
        self.taken += 1;
        self.prepare_ahead();
        Taken::Segment {
            number,
            fresh: true,
        }
    }

    /// Takes the rest of a segment. The space of the rest is prepared again: a copy of the pool may have holes there.
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

    /// Ends an appender's hold on a segment. A segment without room for another appender is sealed; the caller persists
    /// the returned span with the next batch.
    #[must_use = "a seal is to be persisted"]
    pub fn give_back(&mut self, number: u32, log: &dyn PersistentRegion) -> Option<Span> {
        self.taken -= 1;
        self.segments[number as usize].hold = Holder::Nobody;
        self.for_moves.take_if(|own| *own == number);
        self.tell(number, log, Telling::Settled);
        let full = !self.shelve(number);
        let format = self.format;
        let state = self.state(number);
        (full && state.needs_seal()).then(|| state.seal(log, &format))
    }

    /// Puts a segment among the partial ones if it has enough room for another appender. Returns whether it has.
    fn shelve(&mut self, number: u32) -> bool {
        let room = self.room(number);
        let purpose = self.segments[number as usize].purpose;
        room >= self.format.segment_units() / WORTHWHILE_SHARE
            && self.shelves.put_partial(purpose, room, number)
    }

    /// Gives a segment to the cleaner. The segment gets no further appender.
    pub fn begin_cleaning(&mut self, number: u32) -> SegmentState {
        let room = self.room(number);
        let segment = &mut self.segments[number as usize];
        assert!(
            segment.hold == Holder::Nobody,
            "segment {number} is cleaned while it has a holder"
        );
        segment.hold = Holder::Cleaner;
        self.shelves.take_partial(segment.purpose, room, number);
        self.victim = Some(number);
        *self.state(number)
    }

    /// Keeps a segment in which the cleaner found a record that it cannot move. The segment stays unchanged, so that
    /// the damage is reported.
    pub fn abandon(&mut self, number: u32) {
        self.victim = None;
        self.end_purpose(number);
        self.segments[number as usize].hold = Holder::Stays;
    }

    /// Whether a segment may get its next generation at `now`.
    pub fn may_reuse(&self, next: &SegmentState, now: Nanoseconds) -> bool {
        self.segments[next.number as usize].may_reuse(next, now)
    }

    /// Frees a cleaned segment in the generation `next`. Takes the proof that the header of that generation is durable.
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
        self.victim = None;
        if !mutant!(FreedMemoryLost) {
            self.add_free(number);
        }
    }

    /// Puts a blank segment among the free ones.
    fn add_free(&mut self, number: u32) {
        self.segments[number as usize].hold = Holder::Nobody;
        self.shelves.free.push_back(number);
        if self.shelves.free.len() as u32 > self.reserve_for(Purpose::Delete) {
            self.delete_waits = false;
        }
    }

    /// Ends the appends to a segment in its generation. A segment of tombstones then no longer belongs to the reserve.
    fn end_purpose(&mut self, number: u32) {
        let purpose = &mut self.segments[number as usize].purpose;
        self.reserve.of_tombstones -= u32::from(*purpose == Purpose::Delete);
        *purpose = Purpose::Put;
    }

    /// Starts preparing the next free segments, so that an appender that needs one finds it ready.
    pub fn prepare_ahead(&self) {
        // A failure shows when an appender needs the segment.
        let _ = self.prepare_reserve();
        for &number in self.shelves.free.iter().take(2) {
            let _ = self.medium.prepare(number);
        }
    }

    /// Prepares the space of the last `count` free segments, which are taken last.
    fn prepare_last(&self, count: usize) -> Result<Prepared, MediaError> {
        let last = self.shelves.free.iter().rev().take(count);
        self.medium.prepare_all(last.copied())
    }

    /// Seals every segment that has durable records above its seal, and stores the witness in its neighbour. Returns
    /// the spans that the caller must persist.
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
