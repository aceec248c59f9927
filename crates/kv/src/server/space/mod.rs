//! Which segments are free, open or full, who may append to them, and which are cleaned next.
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
//! The first record of a segment decides what the segment is for: puts, records that are moved, or tombstones. Its rest is
//! never used for anything else, also after the next opening. So no put takes the rest of a reserve that is in use, and the
//! server alone has ever written to the other two kinds. Why a delete always finds room: `docs/design/0014-cleaning.md`,
//! *The reserve*.

pub(crate) mod occupancy;
mod policy;
mod witnesses;

pub(crate) use policy::Need;
pub(crate) use witnesses::Witnesses;

use std::collections::{BTreeSet, VecDeque};
use std::rc::Rc;

use stonecast_base::{Nanoseconds, Span, mutant};
use stonecast_log::{
    Found, Heritage, Kind, LogFormat, RECORD_START_SIZE, RecordHeader, SEGMENT_HEADER_UNITS,
    SegmentState, Stamp, Standing, UNIT_SIZE,
};
use stonecast_media::{Backing, MediaError, PersistentRegion, Prepared};
use stonecast_persist::Persisted;

use crate::server::space::occupancy::Occupancy;
use crate::wire::Word;
use crate::wire::limits::{RESERVE_PREPARED_MAX, cleaning_segments, reserved_segments};

use witnesses::Telling;

/// A partial segment with less room than this share is not worth a lease of its own; it is closed.
const WORTHWHILE_SHARE: u32 = 16;
/// So many generations of a segment take at least `GENERATIONS_NS`. A word names a generation modulo 1024; what a reader
/// makes of one that it read longer ago than that time is not believed.
const GENERATIONS_PER_MARK: u32 = 256;
/// See `GENERATIONS_PER_MARK`.
const GENERATIONS_NS: Nanoseconds = 500_000_000;

/// See the module documentation.
pub(crate) struct Space {
    backing: Rc<dyn Backing>,
    format: LogFormat,
    segments: Vec<Option<SegmentState>>,
    /// Free segments that were used before, in the generation that they are used in next.
    blank: Vec<Option<SegmentState>>,
    occupancy: Vec<Occupancy>,
    witnesses: Witnesses,
    holds: Vec<Hold>,
    /// When a segment last got a generation that is a multiple of `GENERATIONS_PER_MARK`.
    marks: Vec<Nanoseconds>,
    free: VecDeque<u32>,
    /// What the segments in use are for.
    purposes: Vec<Purpose>,
    /// Segments with room for another appender, by purpose: room and number.
    partial: [BTreeSet<(u32, u32)>; PURPOSES],
    taken: u32,
    /// Segments that are used for tombstones.
    of_tombstones: u32,
    /// The segment that records are moved to.
    for_moves: Option<u32>,
    /// The segment that is being cleaned.
    victim: Option<u32>,
    /// A delete found no segment, and none that it may take was freed since.
    delete_waits: bool,
    /// Segments in which clients stamp their own records.
    lent: BTreeSet<u32>,
    /// A record that a client stamped with this sequence, or a later one, may be neither published nor void yet.
    unsettled: u64,
    /// The medium gives no space to segments that never had any.
    medium_is_full: bool,
    /// What it said.
    refusal: Option<MediaError>,
    /// Bytes of records that were stamped here, moved ones not included.
    appended: u64,
    /// Bytes of records that died.
    died: u64,
}

/// Who has to do with a segment in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Hold {
    Nobody,
    Appender,
    Cleaner,
    /// Somebody of an earlier run may still write there.
    EarlierRun,
    /// Never used again in this run: something there is damaged.
    Stays,
}

/// What a segment is asked for, and used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// Records that are put.
    Put,
    /// Tombstones.
    Delete,
    /// Records that are moved.
    Clean,
}

/// How many there are.
const PURPOSES: usize = 3;

impl Purpose {
    /// What the segment of `state` is for, by the first stamp in it: that of the first record, or where a power cut took that, of
    /// the next one. Only the server makes stamps, so what else looks like a record says nothing.
    fn of(state: &SegmentState, log: &dyn PersistentRegion, format: &LogFormat) -> Self {
        let first = (SEGMENT_HEADER_UNITS..state.end)
            .find_map(|unit| stamped_header(log, format, state, unit));
        match first {
            Some(header) if header.moved_at().is_some() => Self::Clean,
            Some(header) if header.kind() == Kind::Delete => Self::Delete,
            _ => Self::Put,
        }
    }
}

/// The header of the record that was stamped at a unit of a segment, whether the rest of it is whole or not.
fn stamped_header(
    log: &dyn PersistentRegion,
    format: &LogFormat,
    state: &SegmentState,
    unit: u32,
) -> Option<RecordHeader> {
    let position = format.position(state.number, unit);
    let mut bytes = [0; RECORD_START_SIZE];
    log.read(position, &mut bytes);
    let header = RecordHeader::parse(&bytes).ok()?;
    // The commit tag does not vouch for the other facts, which may be those of the generation before.
    if header.generation() != state.generation {
        return None;
    }
    let standing = Stamp::judge(&header, format, position, state.generation);
    (standing != Standing::Unstamped).then_some(header)
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
    /// Clients of a killed server may outlive it, with their mappings, and finish a store into what they had leased. While
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
        let may_append = backing.earlier_writers_are_gone();
        let count = format.segment_count as usize;
        occupancy.resize(count, Occupancy::EMPTY);
        let mut space = Self {
            backing,
            format,
            segments: vec![None; count],
            blank: vec![None; count],
            occupancy,
            witnesses,
            holds: vec![Hold::Nobody; count],
            marks: vec![0; count],
            free: VecDeque::new(),
            purposes: vec![Purpose::Put; count],
            partial: Default::default(),
            taken: 0,
            of_tombstones: 0,
            for_moves: None,
            victim: None,
            delete_waits: false,
            lent: BTreeSet::new(),
            unsettled: u64::MAX,
            medium_is_full: false,
            refusal: None,
            appended: 0,
            died: 0,
        };
        for state in used {
            let number = state.number;
            let is_free = state.is_blank() && may_append;
            let purpose = match Purpose::of(&state, log, &format) {
                _ if state.is_blank() => Purpose::Put,
                // Written by a version that put records behind tombstones.
                Purpose::Delete if space.occupancy[number as usize].live > 0 => Purpose::Put,
                purpose => purpose,
            };
            space.of_tombstones += u32::from(purpose == Purpose::Delete);
            let slot = if is_free {
                &mut space.blank
            } else {
                &mut space.segments
            };
            assert!(
                slot[number as usize].replace(state).is_none(),
                "segment {number} is used once"
            );
            space.purposes[number as usize] = purpose;
            if is_free {
                continue;
            }
            if !may_append && purpose == Purpose::Put {
                space.holds[number as usize] = Hold::EarlierRun;
            } else if !space.shelve(number) && purpose != Purpose::Put && space.room(number) > 0 {
                // What is left of a segment that was being cleaned may need just this room.
                let room = space.room(number);
                space.partial[purpose as usize].insert((room, number));
            }
        }
        space.free.extend(
            (0..format.segment_count).filter(|&number| space.segments[number as usize].is_none()),
        );
        space
    }

    /// Where segments run short: once the last writer of an earlier run is gone, what that run used is cleaned like all else.
    /// Nobody appends to the rests, since recovery cleared them before that writer had done its last store.
    pub fn release_earlier_run(&mut self) {
        if self.is_short()
            && self.holds.contains(&Hold::EarlierRun)
            && self.backing.earlier_writers_are_gone()
        {
            self.holds
                .iter_mut()
                .filter(|hold| **hold == Hold::EarlierRun)
                .for_each(|hold| *hold = Hold::Nobody);
        }
    }

    /// The state of a segment in use.
    pub fn state(&mut self, number: u32) -> &mut SegmentState {
        self.segments[number as usize]
            .as_mut()
            .expect("a taken segment has a state")
    }

    /// States of all segments that were ever used, each with what of it is needed.
    pub fn states(&self) -> impl Iterator<Item = (&SegmentState, &Occupancy)> {
        let states = self.segments.iter().zip(&self.blank).zip(&self.occupancy);
        states.filter_map(|((used, blank), occupancy)| {
            Some((used.as_ref().or(blank.as_ref())?, occupancy))
        })
    }

    /// What all segments remember of those that were freed.
    pub fn heritage(&self) -> Heritage {
        self.states().fold(Heritage::default(), |all, (state, _)| {
            all.and(state.heritage)
        })
    }

    /// Units left in a taken segment.
    pub fn room(&self, number: u32) -> u32 {
        self.format.segment_units()
            - self.segments[number as usize]
                .as_ref()
                .map_or(SEGMENT_HEADER_UNITS, |state| state.end)
    }

    /// A record of `size` bytes was stamped in a segment as `sequence`.
    pub fn note_stamped(&mut self, number: u32, size: u64, sequence: u64, kind: Kind) {
        let occupancy = &mut self.occupancy[number as usize];
        occupancy.written_at = sequence;
        if kind == Kind::Delete {
            occupancy.note_tombstone(size, sequence);
        }
        self.appended += size;
    }

    /// A record of `size` bytes was moved to a segment when `next_sequence` was the next to be given out.
    pub fn note_moved(
        &mut self,
        number: u32,
        size: u64,
        header: &RecordHeader,
        next_sequence: u64,
    ) {
        let occupancy = &mut self.occupancy[number as usize];
        occupancy.written_at = next_sequence;
        if header.kind() == Kind::Delete {
            occupancy.note_tombstone(size, header.sequence());
        }
    }

    /// The index names a record of `size` bytes in this segment.
    pub fn note_live(&mut self, number: u32, size: u64) {
        self.occupancy[number as usize].live += size as i64;
    }

    /// The index named a record of `size` bytes at `position` until `sequence` was published.
    pub fn note_death(&mut self, position: u64, size: u64, sequence: u64) {
        let (number, _) = self.format.locate(position);
        if let Some(occupancy) = self.occupancy.get_mut(number as usize) {
            occupancy.note_death(size, sequence);
            self.died += size;
        }
    }

    /// The index named a record at `position` until its copy was published: the original is as dead as any, as long as it is
    /// there, but nothing has become of the key.
    pub fn note_moved_away(&mut self, position: u64, size: u64, sequence: u64) {
        let (number, _) = self.format.locate(position);
        self.occupancy[number as usize].note_death(size, sequence);
    }

    /// A copy of a record was stamped in a segment, and no word names it: its key has a newer record by now.
    pub fn note_useless_copy(&mut self, number: u32, sequence: u64) {
        let occupancy = &mut self.occupancy[number as usize];
        occupancy.first_death = occupancy.first_death.min(sequence);
    }

    /// A client is about to publish, as `sequence`, the record that `new` names in place of `old`, each with its bytes.
    pub fn note_published(&mut self, old: (Word, u64), new: (Word, u64), sequence: u64) {
        if let Some(occupancy) = self.occupancy_of(old.0) {
            occupancy.note_death(old.1, sequence);
        }
        if let Some(occupancy) = self.occupancy_of(new.0) {
            occupancy.live += new.1 as i64;
            occupancy.written_at = occupancy.written_at.max(sequence);
        }
        self.died += old.1;
        self.appended += new.1;
    }

    /// What `note_published` was told did not happen: the new record is void, and the old one lives or was replaced by another.
    pub fn note_not_published(&mut self, old: (Word, u64), new: (Word, u64)) {
        for (word, change) in [(old.0, old.1 as i64), (new.0, -(new.1 as i64))] {
            if let Some(occupancy) = self.occupancy_of(word) {
                occupancy.live += change;
            }
        }
    }

    /// The segment of a word, unless it was used again since.
    fn occupancy_of(&mut self, word: Word) -> Option<&mut Occupancy> {
        let (number, _) = self.format.locate(word.position());
        let number = usize::try_from(number).ok()?;
        let state = self.segments.get(number)?.as_ref()?;
        let is_same = word.is_of_generation(state.generation);
        is_same.then(|| &mut self.occupancy[number])
    }

    /// A client that stamps its own records holds the segment: until it is taken over nobody knows what is in it, and no seal may
    /// say so.
    pub fn lend(&mut self, number: u32) {
        self.lent.insert(number);
    }

    /// From this sequence on records may be stamped that no word names and that are not void; `u64::MAX`: none are. Until that is
    /// settled no tombstone above it is dropped: a scan would take such a record for the key's.
    pub fn set_unsettled(&mut self, sequence: u64) {
        self.unsettled = sequence;
    }

    /// Takes over what a client has stamped in a lent segment, where it can write no more. `is_void` says of each record whether
    /// it is taken back. Returns what the caller must persist before anything more is stamped there.
    pub fn take_over(
        &mut self,
        number: u32,
        log: &dyn PersistentRegion,
        is_void: &mut dyn FnMut(&Found<'_>) -> bool,
    ) -> Option<Span> {
        self.lent.remove(&number);
        let format = self.format;
        let mut newest = 0;
        let changed = self.state(number).take_over(log, &format, &mut |found| {
            newest = newest.max(found.header.sequence());
            is_void(found)
        });
        self.note_durable(number, log);
        let occupancy = &mut self.occupancy[number as usize];
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
        let index = number as usize;
        if let Some(state) = self.segments[index].as_ref().or(self.blank[index].as_ref()) {
            self.witnesses.tell(log, state, telling);
        }
    }

    /// Lets the neighbour of a segment say of what was just stamped there that it is durable: for a mutant.
    pub fn tell_too_early(&mut self, number: u32, log: &dyn PersistentRegion) {
        let early = SegmentState {
            durable: self.state(number).end,
            ..*self.state(number)
        };
        self.witnesses.tell(log, &early, Telling::Settled);
    }

    /// What of the segments' neighbours is to be persisted with whatever is persisted next.
    pub fn take_due_witnesses(&mut self) -> impl Iterator<Item = Span> + '_ {
        self.witnesses.take_due()
    }

    /// Bytes of the records that the index names in a segment, counted anew.
    pub fn set_live(&mut self, number: u32, live: u64) {
        self.occupancy[number as usize].live = live as i64;
    }

    /// Takes a segment with room for `units` more units.
    pub fn take(&mut self, units: u32, purpose: Purpose) -> Result<Taken, MediaError> {
        let taken = self.take_for(units, purpose)?;
        if purpose == Purpose::Delete {
            self.delete_waits = taken == Taken::NoSpace;
        }
        if let Taken::Segment { number, .. } = taken {
            self.holds[number as usize] = Hold::Appender;
            if purpose == Purpose::Clean {
                self.for_moves = Some(number);
            }
        }
        Ok(taken)
    }

    fn take_for(&mut self, units: u32, purpose: Purpose) -> Result<Taken, MediaError> {
        let reserve = self.reserve_for(purpose);
        let may_use_free = self.free.len() as u32 > reserve;
        // The partial segment with the most room: small remainders are left to small requests.
        let partial = self.partial[purpose as usize]
            .last()
            .copied()
            .filter(|&(room, _)| room >= units);
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
            Purpose::Put => (self.free.front(), self.prepare_reserve()),
            Purpose::Delete => (self.free.back(), self.prepare_last(reserve as usize + 1)),
            Purpose::Clean => (self.free.back(), Ok(Prepared::Ready)),
        };
        let number = *number.expect("more than the reserve is free");
        let instead = match ready.and_then(|ready| Ok((ready, self.prepare(number)?))) {
            Ok((Prepared::Ready, Prepared::Ready)) => {
                self.medium_is_full = false;
                return Ok(self.take_free(number, purpose));
            }
            Ok(_) => Taken::Pending,
            Err(error @ MediaError::NoSpace { .. }) => {
                self.refusal = Some(error);
                self.medium_is_full = true;
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
        self.free.iter().copied().find(|&number| {
            self.blank[number as usize].is_some()
                && matches!(self.prepare(number), Ok(Prepared::Ready))
        })
    }

    /// What the medium said when it last gave no space, once.
    pub fn take_refusal(&mut self) -> Option<MediaError> {
        self.refusal.take()
    }

    /// Whether the medium is what is full: there are free segments that it gives no space to.
    pub fn lacks_medium(&self) -> bool {
        self.medium_is_full
            && self.free.len() as u32 > self.usable_free().max(self.reserve_for(Purpose::Put))
    }

    /// Whether a segment has room for `units`, and is lent again when it is given back.
    pub fn has_worthwhile_room(&self, number: u32, units: u32) -> bool {
        self.room(number) >= units.max(self.format.segment_units() / WORTHWHILE_SHARE)
    }

    /// Takes a free segment that has its space.
    fn take_free(&mut self, number: u32, purpose: Purpose) -> Taken {
        self.free.retain(|&free| free != number);
        assert!(
            self.free.len() as u32 >= self.reserve_for(purpose),
            "what is reserved for others stays free"
        );
        self.purposes[number as usize] = purpose;
        self.of_tombstones += u32::from(purpose == Purpose::Delete);
        let state = self.blank[number as usize]
            .take()
            .unwrap_or_else(|| SegmentState::fresh(number, 1));
        self.segments[number as usize] = Some(state);
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
        match self.prepare(number) {
            Ok(Prepared::Ready) => {
                self.partial[purpose as usize].remove(&(room, number));
                self.taken += 1;
                Ok(Taken::Segment {
                    number,
                    fresh: false,
                })
            }
            Ok(Prepared::Pending) => Ok(Taken::Pending),
            Err(error @ MediaError::NoSpace { .. }) => {
                self.refusal = Some(error);
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
        self.holds[number as usize] = Hold::Nobody;
        self.for_moves.take_if(|own| *own == number);
        self.tell(number, log, Telling::Settled);
        let full = !self.shelve(number);
        let format = self.format;
        let state = self.state(number);
        (full && state.needs_seal()).then(|| state.seal(log, &format))
    }

    /// Gives a segment to the cleaner: nobody appends to it any more.
    pub fn begin_cleaning(&mut self, number: u32) -> SegmentState {
        assert!(
            self.holds[number as usize] == Hold::Nobody,
            "segment {number} is cleaned while somebody holds it"
        );
        let place = (self.room(number), number);
        self.partial[self.purposes[number as usize] as usize].remove(&place);
        self.holds[number as usize] = Hold::Cleaner;
        self.victim = Some(number);
        *self.state(number)
    }

    /// The cleaner found something in a segment that it cannot move: it stays as it is, to be told of.
    pub fn abandon(&mut self, number: u32) {
        self.victim = None;
        self.end_purpose(number);
        self.holds[number as usize] = Hold::Stays;
    }

    /// What of a segment is needed.
    pub fn occupancy(&self, number: u32) -> &Occupancy {
        &self.occupancy[number as usize]
    }

    /// Whether a segment may get its next generation now; see `GENERATIONS_PER_MARK`.
    pub fn may_reuse(&self, next: &SegmentState, now: Nanoseconds) -> bool {
        let mark = self.marks[next.number as usize];
        !next.generation.is_multiple_of(GENERATIONS_PER_MARK)
            || mark == 0
            || now >= mark + GENERATIONS_NS
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
        assert!(
            self.holds[number as usize] == Hold::Cleaner,
            "segment {number} is freed by the cleaner alone"
        );
        if next.generation.is_multiple_of(GENERATIONS_PER_MARK) {
            self.marks[number as usize] = now.max(1);
        }
        self.segments[number as usize] = None;
        self.blank[number as usize] = Some(next);
        self.tell(number, log, Telling::Settled);
        self.end_purpose(number);
        self.occupancy[number as usize] = Occupancy::EMPTY;
        self.holds[number as usize] = Hold::Nobody;
        self.victim = None;
        if !mutant!(FreedMemoryLost) {
            self.free.push_back(number);
        }
        if self.free.len() as u32 > self.reserve_for(Purpose::Delete) {
            self.delete_waits = false;
        }
    }

    /// Nothing more is appended to a segment in its generation: one of tombstones is no part of the reserve any more.
    fn end_purpose(&mut self, number: u32) {
        let purpose = &mut self.purposes[number as usize];
        self.of_tombstones -= u32::from(*purpose == Purpose::Delete);
        *purpose = Purpose::Put;
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
        let count = self.format.segment_count;
        let reserve = cleaning_segments(count) + reserved_segments(count);
        self.prepare_last((reserve as usize).min(RESERVE_PREPARED_MAX))
    }

    /// Gives so many free segments their space on the medium, those that are taken last.
    fn prepare_last(&self, count: usize) -> Result<Prepared, MediaError> {
        let mut ready = Prepared::Ready;
        for &number in self.free.iter().rev().take(count) {
            if self.prepare(number)? == Prepared::Pending {
                ready = Prepared::Pending;
            }
        }
        Ok(ready)
    }

    /// Seals every segment that has records above its seal, all of them durable, lets its neighbour know, and returns what the
    /// caller must persist.
    pub fn seal_all(&mut self, log: &dyn PersistentRegion) -> Vec<Span> {
        for number in 0..self.format.segment_count {
            self.tell(number, log, Telling::Settled);
        }
        let format = self.format;
        let known = self
            .segments
            .iter_mut()
            .flatten()
            .filter(|state| !self.lent.contains(&state.number));
        let seals = known
            .filter(|state| state.needs_seal())
            .map(|state| state.seal(log, &format));
        seals.chain(self.witnesses.take_due()).collect()
    }

    /// Counts for reports: free, partial, taken, full.
    pub fn counts(&self) -> [u64; 4] {
        let used = self.segments.iter().flatten().count() as u64;
        let partial = self.partial.iter().map(BTreeSet::len).sum::<usize>() as u64;
        let taken = u64::from(self.taken);
        [
            self.free.len() as u64,
            partial,
            taken,
            used - partial - taken,
        ]
    }

    /// Bytes of the log below the ends of all segments in use.
    pub fn used_bytes(&self) -> u64 {
        self.segments
            .iter()
            .flatten()
            .map(|state| u64::from(state.end) * UNIT_SIZE)
            .sum()
    }

    /// Bytes of tombstones in the log.
    pub fn tombstone_bytes(&self) -> u64 {
        self.occupancy
            .iter()
            .map(|occupancy| occupancy.tombstones)
            .sum()
    }

    /// Bytes of records that were stamped since it was asked last.
    pub fn take_appended(&mut self) -> u64 {
        std::mem::take(&mut self.appended)
    }

    /// Puts a segment with room enough for another appender among the partial ones. Whether it had.
    fn shelve(&mut self, number: u32) -> bool {
        let room = self.room(number);
        let purpose = self.purposes[number as usize];
        room >= self.format.segment_units() / WORTHWHILE_SHARE
            && self.partial[purpose as usize].insert((room, number))
    }

    /// Free segments that others than who has this purpose need.
    fn reserve_for(&self, purpose: Purpose) -> u32 {
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

    /// Whether the cleaner has all the room that the segment in its hands needs.
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

    fn prepare(&self, number: u32) -> Result<Prepared, MediaError> {
        self.backing.prepare(Span::new(
            self.format.position(number, 0),
            self.format.segment_size,
        ))
    }
}

#[cfg(test)]
mod tests {
    use stonecast_log::{Condition, Draft, STAMP_SIZE, commit_tag_position};
    use stonecast_media::{
        Ddio, DeclaredPlatform, DirectoryBacking, Durability, PersistenceDomain, Pool, PoolOptions,
        ReceiveBuffers,
    };

    use super::*;
    use crate::server::recovery::survey::format_of;

    const FIRST: u32 = SEGMENT_HEADER_UNITS;
    const SECOND: u32 = FIRST + 1;

    /// A segment in generation 2 with two records, each of one unit. The facts of each are those of its kind in its generation.
    fn segment(pool: &Pool, facts: [(Kind, u32); 2]) -> SegmentState {
        let (log, format) = (pool.log(), format_of(pool));
        let mut state = SegmentState::fresh(2, 2);
        for (unit, (kind, generation)) in [FIRST, SECOND].into_iter().zip(facts) {
            let (position, mut record) = (format.position(2, unit), Vec::new());
            let draft = Draft {
                kind,
                condition: Condition::None,
                token: 0,
                key: b"key",
                value: b"",
            };
            let tag = draft.encode(&format, position, generation, 1, &mut record);
            log.write(position + STAMP_SIZE as u64, &record[STAMP_SIZE..]);
            let stamp = Stamp {
                sequence: unit.into(),
                previous: state.last,
                durable: FIRST,
                opening: 1,
            };
            let commit_tag = stamp.write(&*log, &format, position, 2, tag, UNIT_SIZE);
            state.note_stamped(unit, 1, commit_tag);
        }
        state
    }

    fn pool(directory: &std::path::Path) -> Pool {
        let backing = DirectoryBacking::create(directory).unwrap();
        let options = PoolOptions {
            capacity: 1 << 20,
            segment_size: 256 << 10,
            platform: DeclaredPlatform {
                persistence_domain: PersistenceDomain::Volatile,
                ddio: Ddio::On,
                receive_buffers: ReceiveBuffers::Dram,
            },
            durability: Durability::Process,
            entropy: [3; 64],
        };
        Pool::create(Rc::new(backing), options).unwrap()
    }

    /// Needs the look behind the first record, which a power cut may have taken, and the stamp: what a client left in front of the
    /// first stamp says nothing.
    #[test]
    fn the_first_stamp_of_a_segment_says_what_the_segment_is_for() {
        let directory = tempfile::TempDir::new().unwrap();
        let pool = pool(&directory.path().join("pool"));
        let (log, format) = (pool.log(), format_of(&pool));
        for (kinds, whole, torn) in [
            (
                [Kind::Delete, Kind::Delete],
                Purpose::Delete,
                Purpose::Delete,
            ),
            ([Kind::Delete, Kind::Put], Purpose::Delete, Purpose::Put),
            ([Kind::Put, Kind::Delete], Purpose::Put, Purpose::Delete),
        ] {
            let state = segment(&pool, kinds.map(|kind| (kind, 2)));
            assert_eq!(Purpose::of(&state, &*log, &format), whole, "{kinds:?}");
            log.store(commit_tag_position(format.position(2, FIRST)), 0);
            assert_eq!(Purpose::of(&state, &*log, &format), torn, "{kinds:?}");
            log.store(commit_tag_position(format.position(2, SECOND)), 0);
            assert_eq!(Purpose::of(&state, &*log, &format), Purpose::Put);
        }
    }

    /// Needs the generation in the facts: a power cut may keep the stamp of a record and the facts of the one that was there before,
    /// and the commit tag covers only the stamp.
    #[test]
    fn facts_of_an_earlier_generation_do_not_say_what_a_segment_is_for() {
        let directory = tempfile::TempDir::new().unwrap();
        let pool = pool(&directory.path().join("pool"));
        let (log, format) = (pool.log(), format_of(&pool));
        for (earlier, kind, purpose) in [
            (Kind::Delete, Kind::Put, Purpose::Put),
            (Kind::Put, Kind::Delete, Purpose::Delete),
        ] {
            let state = segment(&pool, [(earlier, 1), (kind, 2)]);
            assert_eq!(Purpose::of(&state, &*log, &format), purpose, "{kind:?}");
        }
    }
}
