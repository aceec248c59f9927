//! One segment of the log, as the server's space keeps it.

use stonecast_base::Nanoseconds;
use stonecast_log::SegmentState;

use super::Purpose;
use super::occupancy::Occupancy;

/// So many generations of a segment take at least `GENERATIONS_NS`. A word names a generation modulo 1024; a reader does not
/// believe a word that it read longer ago than that time.
const GENERATIONS_PER_MARK: u32 = 256;
/// See `GENERATIONS_PER_MARK`.
const GENERATIONS_NS: Nanoseconds = 500_000_000;

/// The holder of a segment in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Hold {
    Nobody,
    Appender,
    Cleaner,
    /// A writer of an earlier run may still write there.
    EarlierRun,
    /// Never used again in this run: something there is damaged.
    Stays,
    /// Other nodes' appends fill it.
    Appends,
}

/// See the module documentation.
#[derive(Clone)]
pub(super) struct Segment {
    /// Its state, while it is in use.
    pub used: Option<SegmentState>,
    /// The state that it is used in next, while it is free and was used before.
    pub blank: Option<SegmentState>,
    pub occupancy: Occupancy,
    pub hold: Hold,
    /// Its purpose, while it is in use.
    pub purpose: Purpose,
    /// A client stamps its own records in it. Until it is taken over its content is unknown, and no seal may cover it.
    pub is_lent: bool,
    /// When it last got a generation that is a multiple of `GENERATIONS_PER_MARK`.
    marked_at: Nanoseconds,
}

impl Segment {
    /// A segment that was never used, with its occupancy.
    pub fn unused(occupancy: Occupancy) -> Self {
        Self {
            used: None,
            blank: None,
            occupancy,
            hold: Hold::Nobody,
            purpose: Purpose::Put,
            is_lent: false,
            marked_at: 0,
        }
    }

    /// Its state, if it was ever used.
    pub fn known(&self) -> Option<&SegmentState> {
        self.used.as_ref().or(self.blank.as_ref())
    }

    /// Whether it may get its next generation now; see `GENERATIONS_PER_MARK`.
    pub fn may_reuse(&self, next: &SegmentState, now: Nanoseconds) -> bool {
        !next.generation.is_multiple_of(GENERATIONS_PER_MARK)
            || self.marked_at == 0
            || now >= self.marked_at + GENERATIONS_NS
    }

    /// Makes a cleaned segment free in the generation `next`.
    pub fn renew(&mut self, next: SegmentState, now: Nanoseconds) {
        assert!(
            self.hold == Hold::Cleaner,
            "segment {} is freed by the cleaner alone",
            next.number
        );
        if next.generation.is_multiple_of(GENERATIONS_PER_MARK) {
            self.marked_at = now.max(1);
        }
        self.used = None;
        self.blank = Some(next);
    }
}
