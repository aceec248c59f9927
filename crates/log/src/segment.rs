//! What the server knows of a segment in use.

use stonecast_base::{LINE_SIZE, Span};
use stonecast_media::Region;
use zerocopy::IntoBytes as _;

use crate::format::{LogFormat, SEGMENT_HEADER_UNITS};
use crate::seal::{RawSeal, RawSegmentHeader};

/// The state of a segment in use. Units count from the segment's start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SegmentState {
    /// Which segment.
    pub number: u32,
    /// Counts its uses, from 1.
    pub generation: u32,
    /// First free unit.
    pub end: u32,
    /// Unit of the latest stamped record; 0: none since the seal.
    pub last: u32,
    /// Stamped records.
    pub count: u32,
    /// XOR of their commit tags.
    pub xor: u64,
    /// Every record stamped below this unit is durable.
    pub durable: u32,
    /// First unit above the seal.
    pub seal_end: u32,
    /// Serial number of the seal; 0: there is none.
    pub seal_serial: u32,
}

impl SegmentState {
    /// A segment at the start of a use. Its header must be written and persisted before any record of it is.
    pub fn fresh(number: u32, generation: u32) -> Self {
        let start = SEGMENT_HEADER_UNITS;
        Self { number, generation, end: start, last: 0, count: 0, xor: 0, durable: start, seal_end: start, seal_serial: 0 }
    }

    /// Writes the header; the caller persists the span. A crash before leaves a segment that is taken for free.
    pub fn write_header(&self, log: &dyn Region, format: &LogFormat) -> Span {
        let span = Span::new(self.start(format), LINE_SIZE as u64);
        log.write(span.offset, RawSegmentHeader::new(format, self.number, self.generation).as_bytes());
        span
    }

    /// Takes note of a record stamped at `unit`. Records are stamped in ascending order.
    pub fn note_stamped(&mut self, unit: u32, units: u32, commit_tag: u64) {
        assert!(unit >= self.end && units > 0, "records are appended: unit {unit}, end {}", self.end);
        self.last = unit;
        self.end = unit + units;
        self.count += 1;
        self.xor ^= commit_tag;
    }

    /// Takes note that everything stamped so far was persisted.
    pub fn note_durable(&mut self) {
        self.durable = self.end;
    }

    /// Whether there are records above the seal.
    pub fn needs_seal(&self) -> bool {
        self.end > self.seal_end
    }

    /// Writes a seal over everything accepted so far, into the slot that does not hold the present one. The caller
    /// persists the span before anything else is stamped here; a crash before leaves the present seal, and the scan finds
    /// the same again.
    pub fn seal(&mut self, log: &dyn Region, format: &LogFormat) -> Span {
        self.seal_serial += 1;
        self.seal_end = self.end;
        self.durable = self.end;
        self.last = 0;
        let seal = RawSeal::new(format, self.number, self.generation, self.seal_serial, self.end, self.count, self.xor);
        let slot = 1 + u64::from(self.seal_serial % 2);
        let span = Span::new(self.start(format) + slot * LINE_SIZE as u64, LINE_SIZE as u64);
        log.write(span.offset, seal.as_bytes());
        span
    }

    fn start(&self, format: &LogFormat) -> u64 {
        u64::from(self.number) * format.segment_size
    }
}
