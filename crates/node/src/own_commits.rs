//! The commits of the own log that the pipeline of the store makes, and their bound.

use std::collections::BTreeMap;

use stonecast_base::{Nanoseconds, mutant};

/// Parts of the patience with the medium. Time in which the node itself stands still counts as one part.
pub const PATIENCE_PARTS: u64 = 8;

/// The commits that go on, each with the parts of the patience that it has taken.
#[derive(Default)]
pub struct OwnCommits {
    open: BTreeMap<u64, u64>,
    last: u64,
    counted_at: Nanoseconds,
}

impl OwnCommits {
    /// Notes that a commit begins. Returns the number of the commit.
    pub fn begin(&mut self, now: Nanoseconds) -> u64 {
        if self.open.is_empty() {
            self.counted_at = now;
        }
        self.last += 1;
        self.open.insert(self.last, 0);
        self.last
    }

    pub fn end(&mut self, commit: u64) {
        self.open.remove(&commit);
    }

    /// The time at which the next part of the patience is over; `None`: no commit is under way.
    pub fn due(&self, patience_ns: Nanoseconds) -> Option<Nanoseconds> {
        let is_open = !self.open.is_empty();
        is_open.then_some(self.counted_at + patience_ns / PATIENCE_PARTS)
    }

    /// Whether a commit has been under way for longer than the patience at `now`.
    pub fn hang(&mut self, now: Nanoseconds, patience_ns: Nanoseconds) -> bool {
        if self.due(patience_ns).is_some_and(|due| now >= due) {
            self.counted_at = now;
            self.open.values_mut().for_each(|parts| *parts += 1);
        }
        let mut parts = self.open.values();
        parts.any(|&parts| parts > PATIENCE_PARTS) && !mutant!(OwnCommitUnbounded)
    }
}
