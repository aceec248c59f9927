//! Cleaning: makes segments free while they are read and written.
//!
//! ```text
//!   choose    a segment that has no holder                    due.rs, space/policy.rs
//!   copy      its live records, some at a time                copy.rs
//!   persist   the copies                                      sweep.rs: durable, invisible
//!   publish   index words, where they still name the old      visible
//!   ...       until the segment's end
//!   free      its next generation, persisted; then it may be written again
//! ```
//!
//! Steps are taken between batches, in the server's task, so index and log agree and the server changes no word during
//! a step. A step is a few pieces long and ends after the piece in which a request arrives, as long as cleaning is
//! ahead of the writes; the wait of a request is therefore bounded. The bytes copied are in proportion to the bytes
//! written. Without writes, the cleaner does nothing.
//!
//! One-sided reads continue all the time: the old place stays unchanged until its segment is written in its next
//! generation. A reader with an old word finds another generation, or no whole record, and reads the word again.
//!
//! Invariants:
//! - A segment gets its next generation only when the index names no record in it, every stamped record was seen, and
//!   the copies are durable. If a stamped record is missing, the segment is damaged and stays.
//! - A tombstone is dropped only when no other segment can have an older version of its key, or the key has a newer
//!   version.
//! - A segment is written only when its next generation is durable. The facts that the log has to remember of the
//!   segment are durable before.
//!
//! A crash leaves the old segment whole, or its next generation and all copies. A copy beside its original has the same
//! version and content.

mod copy;
mod due;
mod sweep;

use stonecast_base::{Nanoseconds, Span, mutant};
use stonecast_log::{Heritage, LogFormat, SegmentState};
use stonecast_persist::Persisted;

use super::journal::Journal;
use super::shard::Move;
use super::shards::Shards;
use crate::cleaning::Cleaning;
use crate::wire::Route;

pub(super) use sweep::Sweeper;

/// The state of the cleaner.
#[derive(Default)]
pub(super) struct Cleaner {
    victim: Option<Victim>,
    /// Segment to which records are moved.
    own: Option<u32>,
    /// Bytes that the cleaner may examine before more is written.
    credit: u64,
    /// Segments freed, and searches that found no victim, since an appender was last given a
    /// segment. A large number means that
    /// cleaning gains nothing.
    barren: u32,
    /// Cleaning gains nothing until more than this number of bytes has died.
    exhausted_until: u64,
    /// Facts of freed segments that the log remembers.
    heritage: Heritage,
    /// The work done so far.
    counters: Cleaning,
    routes: Vec<Route>,
}

/// A segment that is being cleaned.
struct Victim {
    state: SegmentState,
    /// The unit at which the next step continues.
    unit: u32,
    /// Records seen so far, and the XOR of their commit tags.
    count: u32,
    xor: u64,
    /// Highest sequence of a record with a token that was not copied.
    tokens_lost: u64,
    /// The segment's next state; its seal is durable.
    next: Option<SegmentState>,
}

/// The work that a step has done.
struct Copied {
    /// Bytes of the victim that were examined.
    bytes: u64,
    /// Whether nothing is left to copy, or the next copy has no room.
    is_last: bool,
}

/// The copies that a step has to make durable and visible.
#[derive(Default)]
struct Step {
    moves: Vec<Move>,
    /// Bytes copied to the present segment of the cleaner.
    copied: u64,
    spans: Vec<Span>,
    /// Segments that were appended to.
    segments: Vec<u32>,
}

impl Cleaner {
    pub fn new(heritage: Heritage) -> Self {
        Self {
            heritage,
            ..Self::default()
        }
    }

    /// The work done so far.
    pub fn counters(&self) -> Cleaning {
        self.counters
    }

    /// Whether a segment is being cleaned.
    pub fn has_victim(&self) -> bool {
        self.victim.is_some()
    }

    /// Whether a segment is being cleaned, or the cleaner still holds a segment for moved records.
    pub fn is_under_way(&self) -> bool {
        self.victim.is_some() || self.own.is_some()
    }

    /// Whether work is due.
    pub fn has_credit(&self) -> bool {
        self.credit > 0
    }

    /// Whether cleaning gains nothing until more bytes die than have `died`.
    pub fn is_exhausted(&self, died: u64) -> bool {
        died < self.exhausted_until
    }

    /// Makes a whole segment due: a writer waits for room.
    pub fn free_one(&mut self, format: &LogFormat) {
        self.credit = self.credit.max(format.segment_size);
    }

    /// Notes that an appender gave a segment back, in which there may be something to gain.
    pub fn note_given_back(&mut self) {
        self.barren = 0;
        self.exhausted_until = 0;
    }

    /// Notes that a segment was freed, or no victim was found, and no appender was given a segment yet. Once that has
    /// happened often, cleaning gains nothing: moved records take as much room as before, since records are too large
    /// for the ends of segments.
    fn note_barren(&mut self, died: u64, format: &LogFormat) {
        self.barren += 1;
        if self.barren > 2 * format.segment_count + 8 {
            self.exhausted_until = died + format.segment_size / 8;
            self.barren = 0;
        }
    }

    /// Notes the number of leases that were taken back.
    pub fn note_reclaimed(&mut self, leases: usize) {
        self.counters.reclaimed_leases += leases as u64;
    }

    /// Notes that an appender was given a segment, so cleaning gains something.
    pub fn note_given(&mut self) {
        self.barren = 0;
    }

    /// Stores the index words of moved records. Takes the proof that the copies are durable.
    fn publish_moves(
        &mut self,
        step: &Step,
        shards: &mut Shards,
        journal: &mut Journal,
        persisted: &Persisted,
    ) {
        let log = journal.log().clone();
        for &number in &step.segments {
            journal.space.note_durable(number, &*log);
        }
        for moved in &step.moves {
            shards.publish_move(moved, journal, persisted);
        }
        self.counters.steps += 1;
    }

    /// Writes the header of the victim's next generation, if all needed records of the victim have copies elsewhere.
    /// Returns the span to persist before the victim is free. With `is_guess`, clients publish, and announced
    /// publications are counted before they happen.
    fn renew_victim(
        &mut self,
        journal: &mut Journal,
        is_guess: bool,
        now: Nanoseconds,
    ) -> Option<Span> {
        let Victim {
            state: old,
            next: Some(next),
            ..
        } = self.victim.as_ref()?
        else {
            return None;
        };
        let log = journal.log().clone();
        if !journal.space.may_reuse(next, now) || journal.kept.delays(old.number, now) {
            return None;
        }
        let live = journal.space.occupancy(old.number).live;
        let is_counted = live == 0 || (live < 0 && is_guess);
        if !is_counted && !mutant!(LiveRecordLeftBehind) && !mutant!(RepublishedUnchecked) {
            // The index names a record that was not found: the word, or the record itself, has changed.
            journal.space.abandon(old.number);
            self.counters.abandoned += 1;
            self.victim = None;
            return None;
        }
        Some(next.write_header(&*log, journal.format()))
    }

    /// Frees the victim in its next generation. Takes the proof that the header of that generation is durable.
    fn free_victim(&mut self, journal: &mut Journal, now: Nanoseconds, renewed: &Persisted) {
        let next = self
            .victim
            .take()
            .and_then(|victim| victim.next)
            .expect("the victim was there before the persist");
        let log = journal.log().clone();
        journal.space.free(next, &*log, now, renewed);
        self.counters.segments += 1;
        self.note_barren(journal.space.died(), journal.format());
    }
}
