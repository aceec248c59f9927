//! The content of a pool, as a backup that starts finds it.

use std::collections::BTreeSet;

use stonecast_backup::Entries;
use stonecast_log::{
    Bounds, Buffers, Found as Record, Ledger, LogFormat, ScanPolicy, SegmentState, SegmentVerdict,
    Visitor, scan_segment,
};
use stonecast_media::Region;
use stonecast_replication::AppendKey;

use super::{KEY, NONCE};

/// Segments that appends filled, and the newest ledger.
#[derive(Default)]
pub struct Left {
    pub ledger: Ledger,
    pub segments: Vec<SegmentState>,
}

struct NoRecords;

impl Visitor for NoRecords {
    fn records(&mut self, batch: &[Record<'_>]) {
        assert!(batch.is_empty(), "no record was put here");
    }
}

pub fn recover(region: &dyn Region, format: &LogFormat) -> Left {
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
    Left { ledger, segments }
}

impl Left {
    /// Shards and versions of all entries that count.
    pub fn entries(&self, region: &dyn Region, format: &LogFormat) -> BTreeSet<(u32, u64)> {
        self.messages(region, format).into_iter().collect()
    }

    /// Shards and versions of all entries that count, each as often as the log has messages of the
    /// entry.
    pub fn messages(&self, region: &dyn Region, format: &LogFormat) -> Vec<(u32, u64)> {
        let entries = Entries::of(AppendKey::new(KEY, NONCE));
        let mut buffers = Buffers::new(0);
        for &state in &self.segments {
            buffers.adopt(format, state);
        }
        let (mut found, bounds) = (Vec::new(), Bounds::even(u32::MAX, 0));
        let lineages = self.ledger.lineages();
        while buffers.unsettled().next().is_some() {
            buffers.step(
                (region, format),
                &entries,
                lineages,
                bounds,
                &mut |arrival| {
                    found.push((arrival.facts.shard, arrival.facts.version));
                },
            );
        }
        found
    }
}
