//! The counts of a back-end.

use super::Service;
use crate::wire::{BackEndStat, MirrorStat, ReaderCounts};

/// Counts since the start of the back-end.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Counts {
    pub tenures_granted: u64,
    pub tenures_ended: u64,
    pub tenures_silent: u64,
    readers: ReaderCounts,
}

impl Counts {
    /// Adds the counts of a front-end's readers since its last report. A front-end may report anything: only these sums
    /// depend on the report.
    pub fn note(&mut self, told: ReaderCounts) {
        let sum = &mut self.readers;
        sum.answers = sum.answers.saturating_add(told.answers);
        sum.retries = sum.retries.saturating_add(told.retries);
    }
}

impl Service {
    /// The state of the back-end at this moment.
    pub(super) fn stat(&self) -> BackEndStat {
        let now = self.runtime.now();
        let taken = self.front_ends.values();
        let oldest = taken.filter_map(|front_end| front_end.snapshot).min();
        let slabs = self.pool.geometry().slab_count - 1;
        let domains = self.pool.domains().count() as u64;
        BackEndStat {
            front_ends: self.front_ends.len() as u64,
            domains,
            damaged: self.pool.damaged() as u64,
            tenures_granted: self.counts.tenures_granted,
            tenures_ended: self.counts.tenures_ended,
            tenures_silent: self.counts.tenures_silent,
            slabs,
            free_slabs: self.pool.free_slabs(),
            quota: slabs.min(self.terms.quota as u64),
            readers: ReaderCounts {
                snapshot_age_ns: oldest.map_or(0, |taken| now.saturating_sub(taken)),
                ..self.counts.readers
            },
            mirror: self
                .mirror
                .as_ref()
                .map_or(MirrorStat::default(), |mirror| {
                    mirror.link.stat(&self.medium)
                }),
        }
    }
}
