//! The server's knowledge about a segment in use.
//!
//! ```text
//!    fresh ---> write_header --------------------.
//!                                                v      stamp ... persist ... note_durable
//!    scan  ---> persist unsealed ---> settle ---> open <---------------'
//!                                                |
//!                                                '---> seal, when full and at closing
//! ```
//!
//! The order matters, and the caller persists:
//! - the records of a scan are persisted before [`SegmentState::settle`], so that no seal covers
//!   records that a power cut can take;
//! - the bytes written by `settle` or `seal` are persisted before anything else is stamped in the
//!   segment;
//! - [`SegmentState::note_durable`] is called when a persist of everything stamped so far is done.

use stonecast_base::{Span, mutant};
use stonecast_media::Region;

use crate::format::{LogFormat, SEGMENT_HEADER_UNITS, UNIT_SIZE};
use crate::record::GENERATION_MAX;
use crate::seal::{Heritage, Seal};
use crate::segment::{self, HeaderFound, SegmentKind};
use crate::stamp::{self, commit_tag_position, may_be_stamped, void_tag};
use crate::walk::{Found, walk_some};

/// Units that are examined at once.
const WINDOW_UNITS: usize = 64;

/// The server's knowledge of one segment. A checkpoint keeps all fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SegmentState {
    /// Number of the segment.
    pub number: u32,
    /// The generation of the segment, from 1.
    pub generation: u32,
    /// Next free unit.
    pub end: u32,
    /// Unit of the last record that was stamped since the seal; 0 without such a record.
    pub last: u32,
    /// Records so far.
    pub count: u32,
    /// XOR of the commit tags of these records.
    pub xor: u64,
    /// Every record below this unit is durable; 0 after a scan, until the segment is settled.
    pub durable: u32,
    /// Serial of the newest seal; 0 without a seal.
    pub seal_serial: u32,
    /// The unit up to which the newest seal holds; 0 if it must be replaced.
    pub seal_end: u32,
    /// The log's memory of segments that were freed before this segment got its generation.
    pub heritage: Heritage,
}

impl SegmentState {
    /// The state of a segment at its first use in this generation.
    pub fn fresh(number: u32, generation: u32) -> Self {
        Self {
            number,
            generation,
            end: SEGMENT_HEADER_UNITS,
            last: 0,
            count: 0,
            xor: 0,
            durable: SEGMENT_HEADER_UNITS,
            seal_serial: 0,
            seal_end: SEGMENT_HEADER_UNITS,
            heritage: Heritage::default(),
        }
    }

    /// Whether the segment has another generation after this one.
    pub fn may_be_used_again(&self) -> bool {
        self.generation < GENERATION_MAX
    }

    /// Begins to free the segment, which [may be used again](Self::may_be_used_again): writes an
    /// empty seal of its next generation to the slot that does not hold the newest seal of this
    /// one. Returns the state of the next generation and the bytes that the caller must persist
    /// before [`SegmentState::write_header`] of that generation. The segment may be written only
    /// when that header is persisted, too.
    ///
    /// A crash leaves the segment in one generation or the other: the seal of the next generation
    /// is not valid in this one.
    pub fn begin_reuse(
        &self,
        region: &dyn Region,
        format: &LogFormat,
        heritage: Heritage,
    ) -> (Self, Span) {
        let next = self.next_generation(heritage);
        (next, next.write_first_seal(region, format))
    }

    /// The state of the next generation, whose first seal goes to the slot that does not hold the
    /// newest seal of this one.
    pub(crate) fn next_generation(&self, heritage: Heritage) -> Self {
        assert!(
            self.may_be_used_again(),
            "the last generation of a segment is not freed"
        );
        let generation = self.generation + 1;
        let generation = if mutant!(GenerationKept) {
            self.generation
        } else {
            generation
        };
        Self {
            seal_serial: 1 + self.seal_serial % 2,
            heritage,
            ..Self::fresh(self.number, generation)
        }
    }

    /// Writes the empty seal of a generation that begins, and returns what the caller must persist.
    pub(crate) fn write_first_seal(&self, region: &dyn Region, format: &LogFormat) -> Span {
        let seal = Seal {
            serial: self.seal_serial,
            end: self.end,
            count: 0,
            xor: 0,
            heritage: self.heritage,
        };
        seal.write(region, format, self.number, self.generation)
    }

    /// Whether nothing was ever stamped here in this generation.
    pub fn is_blank(&self) -> bool {
        self.end == SEGMENT_HEADER_UNITS
    }

    /// Writes the header of a fresh segment and returns the bytes that the caller must persist, at the latest together
    /// with the first records. A segment with an earlier generation got this one, durably, when it was freed.
    pub fn write_header(&self, region: &dyn Region, format: &LogFormat) -> Span {
        segment::write(region, format, self.number, self.generation)
    }

    /// Notes a record that was stamped with this state's `last` and `durable`.
    #[inline]
    pub fn note_stamped(&mut self, unit: u32, size_units: u32, commit_tag: u64) {
        assert!(
            self.durable >= SEGMENT_HEADER_UNITS,
            "a scanned segment is settled before it is written"
        );
        assert!(
            unit >= self.end && size_units > 0,
            "records are stamped in ascending order"
        );
        self.end = unit + size_units;
        self.last = unit;
        self.count += 1;
        self.xor ^= commit_tag;
    }

    /// Notes that everything stamped so far was persisted.
    pub fn note_durable(&mut self) {
        if mutant!(DurableNotNoted) {
            return;
        }
        self.durable = self.end;
    }

    /// Notes that everything below `unit` is persisted.
    pub fn note_durable_below(&mut self, unit: u32) {
        if !mutant!(DurableNotNoted) {
            self.durable = self.durable.max(unit.min(self.end));
        }
    }

    /// Takes over the records that a client stamped above the end, with their links. The client was
    /// the only writer of the segment and can no longer write there. A valid record for which
    /// `is_void` returns true is made void. Remains of stamps above the last record are cleared, so
    /// that they cannot become whole when their place is written again.
    ///
    /// Returns the changed bytes, which the caller must persist before anything more is stamped in
    /// the segment; the records taken over must be durable by then, too.
    pub fn take_over(
        &mut self,
        region: &dyn Region,
        format: &LogFormat,
        is_void: &mut dyn FnMut(&Found<'_>) -> bool,
    ) -> Option<Span> {
        let (from, units) = (self.end, format.segment_units());
        let mut voided = false;
        let state = &mut *self;
        walk_some(
            region,
            format,
            (state.number, state.generation),
            (from, units),
            &mut |batch| {
                for found in batch {
                    let (_, unit) = format.locate(found.position);
                    let mut commit_tag = found.header.commit_tag();
                    if !found.is_void && is_void(found) {
                        commit_tag = void_tag(commit_tag);
                        region.store(commit_tag_position(found.position), commit_tag);
                        voided = true;
                    }
                    state.note_stamped(unit, found.header.size_units(), commit_tag);
                }
            },
        );
        let cleared = self.clear_remains(region, format);
        (voided || cleared).then(|| format.span(self.number, from, units))
    }

    /// Whether a seal would add records, and may do so: records that are not persisted are not sealed.
    pub fn needs_seal(&self) -> bool {
        self.end != self.seal_end && self.durable == self.end
    }

    /// Seals the records accepted so far, and returns the bytes that the caller must persist before
    /// it stamps anything more.
    pub fn seal(&mut self, region: &dyn Region, format: &LogFormat) -> Span {
        assert!(
            self.durable == self.end,
            "a seal covers only what is durable"
        );
        let serial = self
            .seal_serial
            .checked_add(1)
            .expect("a segment is full long before 2^32 seals");
        let seal = Seal {
            serial,
            end: self.end,
            count: self.count,
            xor: self.xor,
            heritage: self.heritage,
        };
        self.last = 0;
        self.seal_serial = serial;
        self.seal_end = self.end;
        seal.write(region, format, self.number, self.generation)
    }

    /// The part of the segment that a scan accepted and no seal covers yet. The caller persists it before the segment
    /// is settled: after the death of the process alone it may never have been persisted.
    pub fn unsealed(&self, format: &LogFormat) -> Option<Span> {
        (self.end != self.seal_end).then(|| format.span(self.number, self.seal_end, self.end))
    }

    /// Clears remains of stamps above the end, and returns whether there were any. Examines many
    /// units at once: most have none.
    fn clear_remains(&self, region: &dyn Region, format: &LogFormat) -> bool {
        let mut any = false;
        let mut window = [0; WINDOW_UNITS * UNIT_SIZE as usize];
        let units = format.segment_units();
        for first in (self.end..units).step_by(WINDOW_UNITS) {
            let count = WINDOW_UNITS.min((units - first) as usize);
            let bytes = &mut window[..count * UNIT_SIZE as usize];
            region.read(format.position(self.number, first), bytes);
            for (line, unit) in bytes.as_chunks().0.iter().zip(first..) {
                if may_be_stamped(line) {
                    stamp::clear(region, format.position(self.number, unit));
                    any = true;
                }
            }
        }
        any
    }

    /// Ends recovery of this segment: repairs its header, clears remains of stamps above the end, and seals the
    /// accepted records. Returns the bytes that the caller must persist before the segment is written. Idempotent: a
    /// crash during the call, or before the result is durable, leaves a segment in which a scan finds the same.
    ///
    /// Remains of stamps are cleared because they could become whole: a retry of the same write at
    /// the same place, torn in the other half, would complete them after a reader has seen that
    /// they do not exist.
    ///
    /// The spans also hold parts that were found intact: the server that wrote them may have been
    /// killed before they were persisted.
    pub fn settle(&mut self, region: &dyn Region, format: &LogFormat) -> [Span; 2] {
        if segment::read(region, format, self.number)
            != (HeaderFound::Valid {
                kind: SegmentKind::Records,
                generation: self.generation,
                both: true,
            })
        {
            self.write_header(region, format);
        }
        self.clear_remains(region, format);
        self.durable = self.end;
        if self.needs_seal() && !mutant!(SealSkipped) {
            self.seal(region, format);
        }
        let header = format.span(self.number, 0, SEGMENT_HEADER_UNITS);
        [
            header,
            format.span(self.number, self.end, format.segment_units()),
        ]
    }
}
