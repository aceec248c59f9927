//! A look at a segment that reports instead of judging, for inspection and for naming what is damaged.

use stonecast_base::LINE_SIZE;
use stonecast_media::Region;
use zerocopy::FromBytes as _;

use crate::format::{LogFormat, SEGMENT_HEADER_UNITS};
use crate::record::{RecordFault, RecordHeader};
use crate::scan::{Item, walk};
use crate::seal::{RawSegmentHeader, newest_seal};

/// What stands at the start of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SegmentFace {
    /// Generation, if the header checks.
    pub generation: Option<u32>,
    /// Whether the header is all zero: the segment was never used.
    pub zero: bool,
    /// First unit above the newest seal that checks, and the records that it counts.
    pub seal: Option<(u32, u32)>,
}

/// Something met in a segment.
#[derive(Clone, Copy)]
pub enum Sighting<'a> {
    /// A stamped record that checks.
    Record {
        /// Byte position in the log.
        position: u64,
        /// Its header.
        header: RecordHeader,
        /// Its key.
        key: &'a [u8],
    },
    /// A stamp that checks over a record that does not: torn if it is part of a batch that was never acknowledged,
    /// damaged otherwise.
    Stamped {
        /// Byte position in the log.
        position: u64,
        /// What is wrong with the record.
        fault: RecordFault,
    },
}

/// Reads header and seals of segment `number`.
pub fn segment_face(log: &dyn Region, format: &LogFormat, number: u32) -> SegmentFace {
    let mut bytes = [0; LINE_SIZE];
    log.read(u64::from(number) * format.segment_size, &mut bytes);
    let header = RawSegmentHeader::read_from_bytes(&bytes).expect("64 bytes are a segment header");
    let generation = header.check(format, number);
    let seal = generation.and_then(|generation| newest_seal(log, format, number, generation));
    SegmentFace { generation, zero: header.is_zero(), seal: seal.map(|seal| (seal.end.get(), seal.count.get())) }
}

/// Reports every stamp in segment `number`, in order.
pub fn survey_segment(log: &dyn Region, format: &LogFormat, number: u32, visit: &mut dyn FnMut(Sighting<'_>)) {
    walk(log, format, number, SEGMENT_HEADER_UNITS, &mut |item| match item {
        Item::Record { position, header, key, .. } => visit(Sighting::Record { position, header, key }),
        Item::Torn { position, fault } => visit(Sighting::Stamped { position, fault }),
    });
}
