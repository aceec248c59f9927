//! The log: records that prove themselves, segments of records, and what can be told of them after a crash.
//!
//! ```text
//!   segment   | header | seal | seal | header | record | record |   hole   | record |  room  |
//!             '---- 4 units of 64 bytes -----'                                       ^ end
//!
//!   record    | sequence  commit tag  links | tag  facts  key | value |
//!               server                        writer
//! ```
//!
//! A writer places a record; its *tag* binds the bytes to their position. The server checks it and adds a *stamp*, which
//! makes it count; only the holder of the pool's secret can make one. A *seal* in the segment's first lines says how many
//! records were accepted so far, and above it each stamp links to the one before. The bytes are told in
//! `docs/formats/log.md`, the reasons in `docs/design/0001-the-log-is-the-database.md`.
//!
//! Invariants:
//! - Records of a segment are stamped in ascending order of position, and a position is stamped once in a generation
//!   unless recovery found nothing there and cleared it ([`SegmentState::settle`]).
//! - A stamp's `durable` never lies: what it covers was persisted before the stamp was made.
//! - A seal covers only what was persisted before it was written, and is persisted before anything above it is stamped.
//! - Memory of a region is copied before it is looked at, since clients may write to it at any moment.
//!
//! What a crash leaves: all that was persisted, and any 8-byte words of what was not. [`scan_segment`] finds the former,
//! accepts what is whole of the latter, and refuses what no crash can cause.
//!
//! This crate decides no order of persisting: it returns spans, and says what must be persisted before what.
#![forbid(unsafe_code)]

mod examine;
mod format;
mod inspect;
mod judge;
mod layout;
mod record;
mod recovery;
mod seal;
mod segment;
mod stamp;
mod state;
mod walk;

#[cfg(test)]
#[path = "../tests/it/memory.rs"]
mod memory;

pub use format::{LogFormat, SEGMENT_HEADER_UNITS, Secret, UNIT_SIZE};
pub use inspect::{Finding, walk_segment};
pub use record::{
    Condition, Draft, GENERATION_MAX, KEY_SIZE_MAX, Kind, RECORD_START_SIZE, Reading, Record,
    RecordFault, RecordHeader, STAMP_SIZE, VALUE_SIZE_MAX, check, check_read, read_of_key,
    record_size, relocate,
};
pub use recovery::{ScanPolicy, SegmentReport, SegmentVerdict, Visitor, scan_segment};
pub use seal::{Heritage, Seal};
pub use segment::generation_of;
pub use stamp::{Stamp, Standing, commit_tag_position, void_tag};
pub use state::SegmentState;
pub use walk::{Found, walk_some};
