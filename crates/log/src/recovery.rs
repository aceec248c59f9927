//! Recovery of a segment: its state after a crash, or the reason why it cannot be trusted.
//!
//! ```text
//!   scan_segment --> Free          may be given out
//!                --> Used(state)   persist state.unsealed(), state.settle(), persist; then it may be written
//!                --> Appended      belongs to the log of appends (`appended/`)
//!                --> Corruption    the pool is refused
//! ```
//!
//! Each whole stamped record counts, whether it was acknowledged or not: an operation without an
//! answer may take effect. `judge.rs` has the rules and their proof.

use stonecast_base::Corruption;
use stonecast_media::Region;

use crate::examine::{Listener, examine};
use crate::format::LogFormat;
use crate::judge::{Loss, Place};
use crate::record::{RecordFault, RecordHeader};
use crate::seal::Seal;
use crate::state::SegmentState;
use crate::walk::Found;

/// Receives the records that a scan finds.
pub trait Visitor {
    /// Receives some records of one segment, without void ones, in ascending order of position. If
    /// the segment later turns out to be corrupt, its records do not count.
    fn records(&mut self, batch: &[Found<'_>]);
}

/// The losses that a scan tolerates.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ScanPolicy {
    /// Whether durable records may be missing, as in a pool that promises to outlive only
    /// processes, after a power cycle. They are then counted and reported, and the pool is not
    /// refused.
    pub tolerate_missing: bool,
}

/// The verdict of a scan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SegmentVerdict {
    /// Nothing was ever stamped here, and no place of a record holds anything.
    Free {
        /// Whether the lines of the header hold anything: a header that was begun if the crash came before the segment
        /// was first used, or the witness that a segment keeps of its neighbour, used or not.
        torn_header: bool,
    },
    /// A segment with its records. It must be settled before it is written.
    Used(SegmentState, SegmentReport),
    /// A segment that other nodes' appends fill. It holds no record, and is neither settled nor
    /// given out: [`Ledger::read`](crate::Ledger::read) and [`ArrivalScan`](crate::ArrivalScan) read it.
    Appended {
        /// Number, generation and heritage.
        state: SegmentState,
        /// Whether a copy of the header is missing.
        header_damaged: bool,
    },
}

impl SegmentVerdict {
    /// The segment, if records are in it.
    pub fn used(self) -> Option<(SegmentState, SegmentReport)> {
        match self {
            Self::Free { .. } | Self::Appended { .. } => None,
            Self::Used(state, report) => Some((state, report)),
        }
    }
}

/// The report of a scan on a segment in use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SegmentReport {
    /// Valid records found, without those that the checkpoint knew.
    pub records: u64,
    /// Bytes examined.
    pub bytes_scanned: u64,
    /// Highest sequence number found, including void records; 0: none.
    pub sequence_max: u64,
    /// Position of the first missing record, if a crash tore the last batch of this segment. The
    /// missing records were never acknowledged.
    pub torn_tail: Option<u64>,
    /// Unit up to which no record is missing: the end of the last one before the first gap, or of
    /// the last one.
    pub whole_end: u32,
    /// At least this many durable records are gone. 0 unless the policy tolerates that.
    pub missing: u64,
    /// Whether a copy of the header is missing; settling the segment writes it again.
    pub header_damaged: bool,
}

/// Scans segment `number` of the log `region`, which messages call `file`: from its start, or from
/// the unit up to which a checkpoint knows it. Writes nothing.
pub fn scan_segment(
    region: &dyn Region,
    format: &LogFormat,
    file: &str,
    number: u32,
    from: Option<&SegmentState>,
    policy: ScanPolicy,
    visitor: &mut dyn Visitor,
) -> Result<SegmentVerdict, Corruption> {
    examine(
        region,
        Place {
            format,
            file,
            number,
        },
        from,
        &mut Scan { visitor, policy },
    )
}

struct Scan<'a> {
    visitor: &'a mut dyn Visitor,
    policy: ScanPolicy,
}

impl Listener for Scan<'_> {
    fn records(&mut self, batch: &[Found<'_>]) {
        self.visitor.records(batch);
    }

    fn torn(&mut self, _: u64, _: &RecordHeader, _: RecordFault) {}

    fn seal(&mut self, _: &Seal) {}

    fn loss(&mut self, loss: Loss) -> Result<(), Corruption> {
        if self.policy.tolerate_missing {
            Ok(())
        } else {
            Err(loss.corruption)
        }
    }
}
