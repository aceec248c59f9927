//! The segments that appends filled, as a node finds them when it starts.

use stonecast_log::{
    Found as Record, Ledger, LogFormat, ScanPolicy, SegmentState, SegmentVerdict, Visitor,
    scan_segment,
};
use stonecast_media::Region;

struct NoRecords;

impl Visitor for NoRecords {
    fn records(&mut self, batch: &[Record<'_>]) {
        assert!(batch.is_empty(), "no record was put here");
    }
}

/// Segments that appends filled, and the newest ledger.
pub fn recover(region: &dyn Region, format: &LogFormat) -> (Ledger, Vec<SegmentState>) {
    let policy = ScanPolicy::default();
    let verdict =
        |number| scan_segment(region, format, "log", number, None, policy, &mut NoRecords).unwrap();
    let appended = |verdict| match verdict {
        SegmentVerdict::Appended { state, .. } => Some(state),
        SegmentVerdict::Free { .. } | SegmentVerdict::Used(..) => None,
    };
    let numbers = 0..format.segment_count;
    let segments: Vec<SegmentState> = numbers.map(verdict).filter_map(appended).collect();
    let ledger = Ledger::read(region, format, "log", &segments).unwrap();
    (ledger, segments)
}
