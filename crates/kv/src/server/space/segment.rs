//! One segment of the log, as the server's space keeps it.

use stonecast_base::Nanoseconds;
use stonecast_log::SegmentState;

use super::Purpose;
use super::occupancy::Occupancy;

/// This number of generations of a segment takes at least `GENERATIONS_NS`. A word names a generation modulo 1024; a
/// reader does not believe a word that it read longer ago than that time.
const GENERATIONS_PER_MARK: u32 = 256;
/// The least time that [`GENERATIONS_PER_MARK`] generations of a segment take.
const GENERATIONS_NS: Nanoseconds = 500_000_000;

/// The reach of a segment without records that this node stamped: it has no version.
const NO_REACH: (u64, u64) = (u64::MAX, 0);

/// The holder of a segment in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Holder {
    Nobody,
    Appender,
    Cleaner,
    /// A writer of an earlier run may still write to the segment.
    EarlierRun,
    /// The segment is damaged, and not used again in this run.
    Stays,
    /// Other nodes' appends fill the segment.
    Appends,
}

#[derive(Clone)]
pub(super) struct Segment {
    /// The state of a segment in use.
    pub used: Option<SegmentState>,
    /// The next state of a free segment that was used before.
    pub blank: Option<SegmentState>,
    pub occupancy: Occupancy,
    pub hold: Holder,
    /// The purpose of a segment in use.
    pub purpose: Purpose,
    /// Whether a client stamps its own records in the segment. Until the segment is taken over, its content is unknown,
    /// and no seal may cover it.
    pub is_lent: bool,
    /// The highest version that was stamped here in this run, in a pool with a ledger.
    pub newest_own: u64,
    /// The lowest and the highest version of the records that this node stamped here, in a pool with a ledger, whether
    /// they count or not.
    pub reach: (u64, u64),
    /// Records of other nodes that get their words after a persist.
    pub awaited_words: u32,
    /// Time of the segment's latest generation that is a multiple of `GENERATIONS_PER_MARK`.
    marked_at: Nanoseconds,
}

impl Segment {
    /// A segment that was never used, with its occupancy.
    pub fn unused(occupancy: Occupancy) -> Self {
        Self {
            used: None,
            blank: None,
            occupancy,
            hold: Holder::Nobody,
            purpose: Purpose::Put,
            is_lent: false,
            newest_own: 0,
            reach: NO_REACH,
            awaited_words: 0,
            marked_at: 0,
        }
    }

    /// The state of the segment, if it was ever used.
    pub fn known(&self) -> Option<&SegmentState> {
        self.used.as_ref().or(self.blank.as_ref())
    }

    /// Whether the segment may get the generation `next` at `now`; see `GENERATIONS_PER_MARK`.
    pub fn may_reuse(&self, next: &SegmentState, now: Nanoseconds) -> bool {
        !next.generation.is_multiple_of(GENERATIONS_PER_MARK)
            || self.marked_at == 0
            || now >= self.marked_at + GENERATIONS_NS
    }

    /// Makes a cleaned segment free in the generation `next`.
    pub fn renew(&mut self, next: SegmentState, now: Nanoseconds) {
        assert!(
            self.hold == Holder::Cleaner,
            "only the cleaner frees segment {}",
            next.number
        );
        if next.generation.is_multiple_of(GENERATIONS_PER_MARK) {
            self.marked_at = now.max(1);
        }
        self.newest_own = 0;
        self.reach = NO_REACH;
        self.used = None;
        self.blank = Some(next);
    }
}
