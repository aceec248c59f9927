//! The log: records that prove themselves, stamps that publish them, segments, and the scan that finds out after a crash
//! what counts. Formats and reasons: `docs/design/0001`, byte tables: `docs/formats/log.md`.
//!
//! ```text
//!   segment:  | header | seal | seal | - | record . . | record . | (hole) | record . . . |   free   |
//!              unit 0     1      2     3   4                                              end
//! ```
//!
//! Invariants:
//! - A record lies in one segment at a multiple of 64 bytes, and its tag binds its bytes to that place and generation.
//! - A record counts if and only if its stamp checks, and only the holder of the secret can make one.
//! - Above the seal each stamped record names the one before it, so that one that is gone is missed.
//!
//! Nothing here decides when bytes are made durable: functions that write return the span that the caller persists.
#![forbid(unsafe_code)]

mod format;
mod record;
mod scan;
mod seal;
mod segment;
mod stamp;
mod survey;
mod window;

pub use format::{KEY_SIZE_MAX, LogFormat, RECORD_HEADER_SIZE, SEGMENT_HEADER_UNITS, Secret, UNIT_SIZE, VALUE_SIZE_MAX};
pub use record::{Condition, Draft, Kind, Record, RecordFault, RecordHeader, check, check_read, record_size};
pub use scan::{Found, ScanPolicy, SegmentReport, SegmentVerdict, Visitor, scan_segment};
pub use segment::SegmentState;
pub use stamp::Stamp;
pub use survey::{SegmentFace, Sighting, segment_face, survey_segment};
