//! Recovery of a segment: what is there after a crash, or why it cannot be believed.
//!
//! ```text
//!   scan_segment --> Free          may be given out
//!                --> Used(state)   persist state.unsealed(), state.settle(), persist; then it may be written
//!                --> Corruption    the pool is refused
//! ```
//!
//! Each stamped record that is whole counts, whether it was acknowledged or not: an operation without an answer may take
//! effect. `judge.rs` has the rules and why they hold.

use stonecast_base::Corruption;
use stonecast_media::Region;

use crate::examine::{Listener, examine};
use crate::format::LogFormat;
use crate::judge::{Loss, Place};
use crate::record::{RecordFault, RecordHeader};
use crate::seal::Seal;
use crate::state::SegmentState;
use crate::walk::Found;

/// Who receives the records that a scan finds.
pub trait Visitor {
    /// Some records of one segment, void ones left out, in ascending order of position. What was told of a segment that turns out to be
    /// corrupt later does not count.
    fn records(&mut self, batch: &[Found<'_>]);
}

/// What a scan may put up with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ScanPolicy {
    /// Whether records may be missing that had been durable: in a pool that promises to outlive processes only, after a
    /// power cycle. They are counted and reported then, not refused.
    pub tolerate_missing: bool,
}

/// What a scan found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SegmentVerdict {
    /// Nothing was ever stamped here, and nothing stands where a record could.
    Free {
        /// Whether a header was begun: the crash came before the segment was first used.
        torn_header: bool,
    },
    /// A segment with its records. It must be settled before it is written.
    Used(SegmentState, SegmentReport),
}

/// What a scan says of a segment in use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SegmentReport {
    /// Records found that count; those that the checkpoint knew not included.
    pub records: u64,
    /// Bytes looked at.
    pub bytes_scanned: u64,
    /// Highest sequence number found, of void records too; 0: none.
    pub sequence_max: u64,
    /// The last batch that was begun here was torn by a crash, and nobody was told of what is missing of it.
    /// Position of the first thing that seems to be missing.
    pub torn_tail: Option<u64>,
    /// At least so many records had been durable and are gone. 0 unless the policy tolerates that.
    pub missing: u64,
    /// A copy of the header is missing; settling the segment writes it again.
    pub header_damaged: bool,
}

/// Scans segment `number` of the log `region`, which users know as `file`: from its start, or from where a checkpoint
/// knew it. Writes nothing.
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
