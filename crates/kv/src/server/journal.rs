//! The log as the server appends to it: its space, the sequence, and written bytes that await a persist.
//!
//! ```text
//!   take       a segment for an appender          its header awaits a persist
//!   append     a record into an own segment       whole, not stamped
//!   stamp      a record where it lies             sequence, links, commit tag
//!   begin      everything that awaits a persist   the spans of the next one
//!   persisted  the records of these spans         durable: stamps that follow say so
//! ```
//!
//! Invariants:
//! - A header, a seal or a record that was written here is part of the next persist, before anything that relies on it
//!   is published.
//! - A segment is durable up to the end that it had when a persist began that has ended. Records may be stamped during
//!   the persist.

use std::rc::Rc;

use stonecast_base::{Span, mutant};
use stonecast_fabric::Runtime;
use stonecast_log::{
    Draft, LogFormat, Record, RecordHeader, STAMP_SIZE, Stamp, UNIT_SIZE, bury, rebind,
    record_size, relocate,
};
use stonecast_media::{MediaError, PersistentRegion, Pool, Region};
use stonecast_persist::Persisted;

use super::kept::Kept;
use super::noted::Noted;
use super::space::{Purpose, Space, Taken};
use crate::wire::{KeyHash, Word};

/// The next sequence: a word from which publishing clients take sequences, too.
pub(super) struct Sequences(pub Rc<dyn Region>);

impl Sequences {
    /// Bytes of the word's memory: a page, the smallest part that can be opened to a client.
    const SIZE: u64 = 4096;

    /// Sequences from `next` on.
    pub fn starting_at(next: u64, pool: &Pool) -> Result<Self, MediaError> {
        let memory = pool
            .backing()
            .volatile_for_all("stonecast-sequence", Self::SIZE)?;
        memory.store(0, next);
        Ok(Self(memory))
    }

    /// The next sequence. If clients publish, that sequence may have been given out already.
    pub fn next(&self) -> u64 {
        self.0.load(0)
    }

    fn take(&self) -> u64 {
        self.take_run(1)
    }

    /// Takes `count` consecutive sequences, and returns the first.
    pub fn take_run(&self, count: u64) -> u64 {
        self.0.fetch_add(0, count)
    }

    /// Continues at `next`, which is above every sequence that was given.
    pub fn raise(&self, next: u64) {
        assert!(next > self.next(), "sequences ascend");
        self.0.store(0, next);
    }

    /// Gives a sequence to no record, and returns it.
    pub fn skip_one(&self) -> u64 {
        self.take()
    }
}

/// A record that lies in the log, whole and not stamped.
#[derive(Clone, Copy)]
pub(super) struct Placed {
    pub segment: u32,
    pub unit: u32,
    pub generation: u32,
    /// Bytes of the log that the record takes.
    pub size: u64,
    /// Bytes of the record up to the end of its value.
    pub whole_size: u64,
    pub tag: u64,
}

/// The reason why no segment is available.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NoSegment {
    /// The space of the segment is being prepared.
    Pending,
    /// No segment is free for this purpose.
    NoSpace,
    /// The medium failed to give space.
    Failed,
}

/// Everything of the log that awaited a persist when that persist began.
pub(super) struct Underway {
    pub spans: Vec<Span>,
    /// Segments with records in these spans: number, generation, and end at the begin of the persist.
    ends: Vec<(u32, u32, u32)>,
    /// Records of other nodes that were appended before the persist began.
    pub arrived: u64,
}

/// The log as the server appends to it.
pub(super) struct Journal {
    log: Rc<dyn PersistentRegion>,
    format: LogFormat,
    opening: u32,
    pub space: Space,
    pub sequences: Sequences,
    /// Records that a backup has to read.
    pub kept: Kept,
    own: Own,
    awaiting: Awaiting,
    arrived: Arrived,
    /// The reasons why the medium gave no space.
    pub trouble: Noted<MediaError>,
    failures: u64,
    record: Vec<u8>,
}

/// The bytes that await a persist.
#[derive(Default)]
struct Awaiting {
    /// Headers, seals and records.
    spans: Vec<Span>,
    /// The segments of these records.
    segments: Vec<u32>,
    /// Memory for the ends of segments in the next persist.
    ends: Vec<(u32, u32, u32)>,
}

/// Records of other nodes in the log, in the order in which they were appended.
#[derive(Default)]
struct Arrived {
    count: u64,
    /// The durable ones, from the first one on, and the proof of the persist that covered the last one.
    durable: Option<(u64, Rc<Persisted>)>,
}

/// The segments to which the server itself appends.
#[derive(Default)]
struct Own {
    /// For the puts of clients that copy.
    put: Option<u32>,
    delete: Option<u32>,
}

impl Journal {
    pub fn new(
        pool: &Pool,
        runtime: Rc<dyn Runtime>,
        format: LogFormat,
        space: Space,
        sequences: Sequences,
    ) -> Self {
        space.prepare_ahead();
        Self {
            log: pool.log(),
            format,
            opening: pool.opening(),
            space,
            sequences,
            kept: Kept::default(),
            own: Own::default(),
            awaiting: Awaiting::default(),
            arrived: Arrived::default(),
            trouble: Noted::new(runtime),
            failures: 0,
            record: Vec::new(),
        }
    }

    /// The memory of the log.
    pub fn log(&self) -> &Rc<dyn PersistentRegion> {
        &self.log
    }

    /// The facts of the pool on which records depend.
    pub fn format(&self) -> &LogFormat {
        &self.format
    }

    /// Notes that a key has lost the record of version `version`, which `word` names, to a write of version `by`.
    #[inline]
    pub fn note_replaced(&mut self, word: Word, version: u64, by: u64) {
        let segment_of = |word: Word| self.format.locate(word.position()).0 as u32;
        self.kept.note(word, segment_of, version, by);
    }

    /// The opening of the pool in which records are appended.
    pub fn opening(&self) -> u32 {
        self.opening
    }

    /// Failures of the medium to allocate space though the medium was not full.
    pub fn failures(&self) -> u64 {
        self.failures
    }

    /// Takes a segment with room for `units`. If the segment was free, its header is written, and the span of the
    /// header is returned to be persisted.
    pub fn take(&mut self, units: u32, purpose: Purpose) -> Result<(u32, Option<Span>), NoSegment> {
        let taken = self.space.take(units, purpose);
        self.begin_taken(taken)
    }

    fn begin_taken(
        &mut self,
        taken: Result<Taken, MediaError>,
    ) -> Result<(u32, Option<Span>), NoSegment> {
        match taken {
            Ok(Taken::Segment { number, fresh }) => {
                let header = fresh.then(|| {
                    let segment = self.space.state(number);
                    segment.write_header(&*self.log, &self.format)
                });
                Ok((number, header))
            }
            Ok(Taken::Pending) => Err(NoSegment::Pending),
            Ok(Taken::NoSpace) => Err(NoSegment::NoSpace),
            // Nothing was written, and no earlier write is in doubt: the writer that asked gets the error, and all
            // others are served.
            Err(error) => {
                self.trouble.note(error);
                self.failures += 1;
                Err(NoSegment::Failed)
            }
        }
    }

    /// Takes a segment to which a client will write.
    pub fn take_for_client(&mut self, units: u32) -> Result<u32, NoSegment> {
        let (number, header) = self.take(units, Purpose::Put)?;
        self.awaiting.spans.extend(header);
        Ok(number)
    }

    /// Ends an appender's hold on a segment.
    pub fn give_back(&mut self, number: u32) {
        let seal = self.space.give_back(number, &*self.log);
        self.awaiting.spans.extend(seal);
    }

    /// Takes over the records that a client stamped in a segment lent to it; see [`Space::take_over`].
    pub fn take_over(
        &mut self,
        number: u32,
        is_void: &mut dyn FnMut(&stonecast_log::Found<'_>) -> bool,
    ) {
        let changed = self.space.take_over(number, &*self.log, is_void);
        self.awaiting.spans.extend(changed);
    }

    /// Notes the latest reason why the medium gave no space.
    pub fn note_refusal(&mut self) {
        if let Some(refusal) = self.space.take_refusal() {
            self.trouble.note(refusal);
        }
    }

    fn own(&mut self, purpose: Purpose) -> &mut Option<u32> {
        match purpose {
            Purpose::Delete => &mut self.own.delete,
            Purpose::Put | Purpose::Clean => &mut self.own.put,
        }
    }

    /// Whether the server has a segment for puts of its own.
    pub fn appends_puts(&self) -> bool {
        self.own.put.is_some()
    }

    /// Whether the server's own segment for a record of `kind` has room for `units`.
    #[inline]
    pub fn has_room(&mut self, units: u32, purpose: Purpose) -> bool {
        let own = *self.own(purpose);
        own.is_some_and(|number| self.space.room(number) >= units)
    }

    /// Switches to a segment of the server's own with room for `units`.
    pub fn take_own(&mut self, units: u32, purpose: Purpose) -> Result<(), NoSegment> {
        self.switch_own(units, purpose, Space::take)
    }

    /// Switches to a segment of the server's own with room for `units` of a record of another node; see
    /// [`Space::take_for_copy`].
    pub fn take_own_for_copy(&mut self, units: u32, purpose: Purpose) -> Result<(), NoSegment> {
        self.switch_own(units, purpose, Space::take_for_copy)
    }

    fn switch_own(
        &mut self,
        units: u32,
        purpose: Purpose,
        take: impl FnOnce(&mut Space, u32, Purpose) -> Result<Taken, MediaError>,
    ) -> Result<(), NoSegment> {
        if let Some(number) = self.own(purpose).take() {
            self.give_back(number);
        }
        let taken = take(&mut self.space, units, purpose);
        let (number, header) = self.begin_taken(taken)?;
        *self.own(purpose) = Some(number);
        self.awaiting.spans.extend(header);
        Ok(())
    }

    /// Gives the server's own segments back, so that they can be cleaned.
    pub fn give_back_own(&mut self) {
        for number in [self.own.put.take(), self.own.delete.take()] {
            number.into_iter().for_each(|number| self.give_back(number));
        }
    }

    /// Writes a record of another node into the server's own segment for such records, which has room. The sequence of
    /// the record is its version at the other node. The record is stamped like a moved one, and gets its word after the
    /// next persist.
    pub fn append_from_elsewhere(&mut self, record: Record<'_>, purpose: Purpose) -> Placed {
        let segment = self
            .own(purpose)
            .expect("the segment was taken and has room");
        let (header, next_sequence) = (record.header, self.sequences.next());
        let placed = self.write_moved(segment, record, next_sequence);
        self.stamp_moved(&placed, &header, next_sequence);
        self.space.note_arrived(segment, placed.size);
        self.arrived.count += 1;
        self.await_persist(&placed);
        self.prefetch_behind(&placed);
        placed
    }

    /// The records of other nodes that were appended so far.
    pub fn arrived(&self) -> u64 {
        self.arrived.count
    }

    /// The durable records of other nodes, from the first one on.
    pub fn durable_arrived(&self) -> u64 {
        self.arrived.durable.as_ref().map_or(0, |(end, _)| *end)
    }

    /// The proof that [these records](Self::durable_arrived) are durable; `None`: no persist has ended.
    pub fn proof_of_arrived(&self) -> Option<Rc<Persisted>> {
        let (_, persisted) = self.arrived.durable.as_ref()?;
        Some(persisted.clone())
    }

    /// Brings in the lines after a record: the next record mostly goes there.
    fn prefetch_behind(&self, placed: &Placed) {
        let start = u64::from(placed.unit) * UNIT_SIZE;
        if start + 2 * placed.size <= self.format.segment_size {
            let position = self.format.position(placed.segment, placed.unit);
            self.log.prefetch(position + placed.size, placed.size);
        }
    }

    /// Writes the copy of a record after the last one of segment `to`. `next_sequence` is the next sequence of the
    /// log.
    pub fn write_moved(&mut self, to: u32, record: Record<'_>, next_sequence: u64) -> Placed {
        let (unit, generation) = self.end(to);
        let position = self.format.position(to, unit);
        let size = record.header.size();
        let place = (position, generation, self.opening);
        let bytes = &mut self.record;
        let tag = relocate(&self.format, record, place, next_sequence, bytes);
        self.log
            .write(position + STAMP_SIZE as u64, &bytes[STAMP_SIZE..]);
        Placed {
            segment: to,
            unit,
            generation,
            size,
            whole_size: bytes.len() as u64,
            tag,
        }
    }

    /// Writes the tombstone of an expired record, of the same version, after the last record of segment `to`, and
    /// stamps it like a moved record.
    pub fn bury(&mut self, to: u32, record: Record<'_>) -> Placed {
        let next_sequence = self.sequences.next();
        let (unit, generation) = self.end(to);
        let position = self.format.position(to, unit);
        let place = (position, generation, self.opening);
        let tag = bury(&self.format, record, place, next_sequence, &mut self.record);
        self.log
            .write(position + STAMP_SIZE as u64, &self.record[STAMP_SIZE..]);
        let placed = Placed {
            segment: to,
            unit,
            generation,
            size: record_size(record.key.len(), 0),
            whole_size: self.record.len() as u64,
            tag,
        };
        let sequence = record.header.sequence();
        self.write_stamp(&placed, sequence);
        self.space
            .note_buried(to, placed.size, sequence, next_sequence);
        placed
    }

    /// Writes a record into the server's own segment for it, which has room.
    pub fn append(&mut self, draft: &Draft<'_>, purpose: Purpose) -> Placed {
        self.append_as(draft.size(), purpose, |format, place, record| {
            let (position, generation, opening) = place;
            draft.encode(format, position, generation, opening, record)
        })
    }

    /// Writes a record that lies whole in `staged`, as a client has encoded it for its staging memory. The record takes
    /// `size` bytes of the server's own segment for it, which has room.
    pub fn append_staged(&mut self, staged: &[u8], size: u64, purpose: Purpose) -> Placed {
        self.append_as(size, purpose, |format, place, record| {
            record.clear();
            record.extend_from_slice(staged);
            rebind(format, record, place)
        })
    }

    /// Writes the record that `encode` makes for its position, generation and opening, whose tag it returns.
    #[inline]
    fn append_as(
        &mut self,
        size: u64,
        purpose: Purpose,
        encode: impl FnOnce(&LogFormat, (u64, u32, u32), &mut Vec<u8>) -> u64,
    ) -> Placed {
        let segment = self
            .own(purpose)
            .expect("the segment was taken and has room");
        let (unit, generation) = self.end(segment);
        let position = self.format.position(segment, unit);
        let record = &mut self.record;
        let tag = encode(&self.format, (position, generation, self.opening), record);
        self.log
            .write(position + STAMP_SIZE as u64, &record[STAMP_SIZE..]);
        Placed {
            segment,
            unit,
            generation,
            size,
            whole_size: record.len() as u64,
            tag,
        }
    }

    /// The first unit of a segment that is not written, and its generation.
    #[inline]
    pub fn end(&mut self, segment: u32) -> (u32, u32) {
        let segment = self.space.state(segment);
        (segment.end, segment.generation)
    }

    /// Stamps a record that lies above the end of its segment, and returns its sequence. Returns `None` if the record
    /// lies below: two records of one batch claim the same place.
    #[inline]
    pub fn stamp(&mut self, placed: &Placed, is_tombstone: bool) -> Option<u64> {
        if placed.unit < self.space.state(placed.segment).end {
            return None;
        }
        let sequence = self.sequences.take();
        self.stamp_as(placed, is_tombstone, sequence);
        Some(sequence)
    }

    /// Stamps a record at the end of its segment with a `sequence` that was taken for the record.
    pub fn stamp_as(&mut self, placed: &Placed, is_tombstone: bool, sequence: u64) {
        self.write_stamp(placed, sequence);
        if mutant!(WitnessTooEarly) {
            self.space.tell_too_early(placed.segment, &*self.log);
        }
        self.space
            .note_stamped(placed.segment, placed.size, sequence, is_tombstone);
        self.await_persist(placed);
    }

    /// Stamps the copy of a record with the sequence of its original. `next_sequence` was the next sequence when the
    /// copy was made.
    pub fn stamp_moved(&mut self, placed: &Placed, header: &RecordHeader, next_sequence: u64) {
        self.write_stamp(placed, header.sequence());
        self.space
            .note_moved(placed.segment, placed.size, header, next_sequence);
    }

    #[inline]
    fn write_stamp(&mut self, placed: &Placed, sequence: u64) {
        let Placed {
            segment,
            unit,
            generation,
            size,
            tag,
            ..
        } = *placed;
        let position = self.format.position(segment, unit);
        let segment = self.space.state(segment);
        let stamp = Stamp {
            sequence,
            previous: segment.last,
            durable: segment.durable,
            opening: self.opening,
        };
        let commit_tag = stamp.write(&*self.log, &self.format, position, generation, tag, size);
        segment.note_stamped(unit, (size / UNIT_SIZE) as u32, commit_tag);
    }

    /// Has the next persist make a stamped record durable.
    #[inline]
    pub fn await_persist(&mut self, placed: &Placed) {
        let position = self.format.position(placed.segment, placed.unit);
        self.awaiting
            .spans
            .push(Span::new(position, placed.whole_size));
        if self.awaiting.segments.last() != Some(&placed.segment) {
            self.awaiting.segments.push(placed.segment);
        }
    }

    /// The index word of a record.
    #[inline]
    pub fn word(&self, placed: &Placed, hash: KeyHash) -> Word {
        let position = self.format.position(placed.segment, placed.unit);
        Word::new(position, placed.generation, hash, placed.size)
    }

    /// The segment to which records of these sizes are appended next, one after the other, and the word of each, whose
    /// key has this hash. The segment has room for all.
    pub fn words_ahead(
        &mut self,
        records: impl Iterator<Item = (u64, KeyHash)>,
        purpose: Purpose,
    ) -> (u32, Vec<Word>) {
        let segment = self
            .own(purpose)
            .expect("the segment was taken and has room");
        let (unit, generation) = self.end(segment);
        let mut position = self.format.position(segment, unit);
        let words = records.map(|(size, hash)| {
            let word = Word::new(position, generation, hash, size);
            position += size;
            word
        });
        (segment, words.collect())
    }

    /// Takes everything that awaits a persist, which begins now.
    pub fn begin_persist(&mut self) -> Underway {
        let mut spans = std::mem::take(&mut self.awaiting.spans);
        spans.extend(self.space.take_due_witnesses());
        let mut ends = std::mem::take(&mut self.awaiting.ends);
        for number in self.awaiting.segments.drain(..) {
            let state = self.space.state(number);
            ends.push((number, state.generation, state.end));
        }
        Underway {
            spans,
            ends,
            arrived: self.arrived.count,
        }
    }

    /// Notes that a persist has ended. Takes the proof.
    pub fn note_persisted(&mut self, underway: Underway, persisted: &Rc<Persisted>) {
        self.arrived.durable = Some((underway.arrived, persisted.clone()));
        for &(number, generation, end) in &underway.ends {
            self.space
                .note_durable_below(number, (generation, end), &*self.log);
        }
        // The next persist uses this memory again.
        let Underway {
            mut spans,
            mut ends,
            arrived: _,
        } = underway;
        if self.awaiting.spans.capacity() == 0 {
            spans.clear();
            self.awaiting.spans = spans;
        }
        ends.clear();
        self.awaiting.ends = ends;
    }

    /// Whether a span that awaits a persist lies in this segment.
    pub fn awaits_persist(&self, segment: u32) -> bool {
        let lies_there = |span: &Span| self.format.locate(span.offset).0 == u64::from(segment);
        self.awaiting.spans.iter().any(lies_there)
    }

    /// Seals all segments before a close. Returns the spans to persist.
    pub fn seal_all(&mut self) -> Vec<Span> {
        let mut spans = std::mem::take(&mut self.awaiting.spans);
        spans.extend(self.space.seal_all(&*self.log));
        spans
    }
}
