//! The log: records that prove themselves, segments of records, and their recovery after a crash.
//!
//! ```text
//!   segment   | header | seal | seal | header | record | record |   hole   | record |  room  |
//!             '---- 4 units of 64 bytes -----'                                       ^ end
//!
//!   record    | sequence  commit tag  links | tag  facts  key | value |
//!               server                        writer
//! ```
//!
//! A writer places a record, whose *tag* binds the bytes to their position. The server checks the
//! record and adds a *stamp*, which makes it count; only a holder of the pool's secret can make a
//! stamp. A *seal* in the segment's first lines says how many records were accepted so far, and
//! above it each stamp links to the previous one. `docs/formats/log.md` describes the bytes, and
//! `docs/design/0001-the-log-is-the-database.md` the reasons.
//!
//! The module `appended` has segments of another kind: other nodes fill them with entries for the copies that this node
//! keeps. The module `own` finds the history of the shards that this node leads in the records that the node stamped.
//!
//! Invariants:
//! - Records of a segment are stamped in ascending order of position, and a position is stamped once in a generation
//!   unless recovery found nothing there and cleared it ([`SegmentState::settle`]).
//! - A stamp's `durable` never lies: everything that it covers was persisted before the stamp was
//!   made.
//! - A seal covers only records that were persisted before it was written, and is persisted before
//!   any record above it is stamped.
//! - Memory of a region is copied before it is examined, since clients may write to it at any
//!   moment.
//!
//! A crash leaves everything that was persisted, and arbitrary 8-byte words of the rest. [`scan_segment`] finds the
//! persisted records, accepts whole records of the rest, and refuses damage that no crash can cause.
//!
//! This crate persists nothing: it returns spans, and documents the order in which the caller must
//! persist them.
#![forbid(unsafe_code)]

mod appended;
mod examine;
mod format;
mod inspect;
mod judge;
mod layout;
mod own;
mod record;
mod recovery;
mod seal;
mod segment;
mod stamp;
mod state;
mod walk;
mod witness;

#[cfg(test)]
#[path = "../tests/it/facts.rs"]
mod facts;
#[cfg(test)]
#[path = "../tests/it/memory.rs"]
mod memory;

pub use appended::{
    Arrival, ArrivalScan, Bounds, Buffers, Consumption, EntryFacts, EntryFormat, Ledger,
    LedgerFull, Lineages, Search, Stale, Turn, Turned, check_ledger_room, first_unit, mend_header,
};
pub use format::{LogFormat, SEGMENT_HEADER_UNITS, Secret, UNIT_SIZE};
pub use inspect::{Finding, walk_segment};
pub use own::{History, Link, OwnRecords, OwnVerdict, Unsettled, Versions};
pub use record::{
    BatchPlace, BodyFault, CHUNK_SIZE_MAX, Condition, Draft, Expiry, Form, GENERATION_MAX,
    HEAD_SIZE, KEY_SIZE_MAX, Kind, NoMoment, RECORD_BODY_SIZE_MAX, RECORD_START_SIZE, Reading,
    Record, RecordBody, RecordFault, RecordHeader, STAMP_SIZE, VALUE_SIZE_MAX, batch_body,
    batch_body_size, bury, check, check_read, is_batch_body, read_of_key, rebind, record_size,
    record_size_until, relocate,
};
pub use recovery::{ScanPolicy, SegmentReport, SegmentVerdict, Visitor, scan_segment};
pub use seal::{Heritage, Seal};
pub use segment::{generation_of, is_filled_by_appends};
pub use stamp::{Stamp, Standing, commit_tag_position, void_tag};
pub use state::SegmentState;
pub use walk::{Found, walk_some};
pub use witness::{Witness, check_witness};
