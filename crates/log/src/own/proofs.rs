//! Proofs that a missing version was acknowledged.
//!
//! ```text
//!   segment 1   | 41 | 42 |  ?? | 45 |        43 is damaged
//!   segment 2   | 44 | 46 | 47, durable: up to 46 |      46 was durable, so 43 was
//! ```
//!
//! Records become durable in the order of their versions. A durable record therefore proves that all versions before
//! its own were durable. The stamp of a record names the unit of its segment up to which everything was durable, and a
//! segment that was freed names a version up to which all versions were durable at that time. No crash takes what was
//! durable.

use std::collections::BTreeMap;

use crate::format::LogFormat;
use crate::state::SegmentState;
use crate::walk::Found;

/// The versions that were durable, by the records and segments of a log.
pub(super) struct Proofs<'a> {
    format: &'a LogFormat,
    /// For each segment, the unit below which everything was durable, and the version whose stamp says so.
    durable: BTreeMap<u64, (u32, u64)>,
    /// The version up to which everything was durable when a segment was freed, and the number of that segment.
    freed: (u64, u32),
}

impl<'a> Proofs<'a> {
    pub fn new(format: &'a LogFormat) -> Self {
        Self {
            format,
            durable: BTreeMap::new(),
            freed: (0, 0),
        }
    }

    /// Takes the proof in the stamp of a record.
    pub fn take(&mut self, found: &Found<'_>) {
        let (segment, _) = self.format.locate(found.position);
        let header = &found.header;
        let known = self.durable.entry(segment).or_default();
        *known = (*known).max((header.durable(), header.sequence()));
    }

    /// Takes the proof that a segment holds about freed segments.
    pub fn take_segment(&mut self, state: &SegmentState) {
        let freed = (state.heritage.sequence_floor, state.number);
        self.freed = self.freed.max(freed);
    }

    /// The words for a proof that the version `missing` was durable. `behind` has the versions and positions of the
    /// records behind it.
    pub fn find(&self, missing: u64, behind: impl Iterator<Item = (u64, u64)>) -> Option<String> {
        for (version, position) in behind {
            let (segment, unit) = self.format.locate(position);
            let durable = self.durable.get(&segment);
            if let Some((_, by)) = durable.filter(|(end, _)| unit < *end) {
                return Some(format!(
                    "version {version} was durable, as the stamp of version {by} says"
                ));
            }
        }
        let (freed, number) = self.freed;
        let is_freed = freed >= missing;
        is_freed.then(|| {
            format!("everything up to version {freed} was durable when segment {number} was freed")
        })
    }
}
