//! The wait of a batch for more operations before a sync that many share.
//!
//! Clients that keep a number of writes in flight send the next writes when they have their answers. A write that is
//! too late for this sync waits for two syncs. The server therefore waits while operations keep arriving, at most as
//! long as the sync takes. The wait does not end once as many operations have arrived as last time: otherwise a
//! pipeline that was once split in two would stay split forever.

use stonecast_base::Nanoseconds;

/// Pause of arrivals after which a batch counts as complete.
const QUIET_NS: Nanoseconds = 6_000;
/// The pause once as many operations have arrived as before: a client takes less time to send one.
const QUIET_AFTER_ALL_NS: Nanoseconds = 1_500;
/// Time between two checks during the wait.
pub(super) const LOOK_NS: Nanoseconds = 500;

/// Decides how long a batch waits for more operations before a sync.
#[derive(Default)]
pub(super) struct Company {
    /// Operations of recent batches.
    expected: usize,
    /// The time that the last persist took.
    persist_ns: Nanoseconds,
}

impl Company {
    /// Whether a batch of so many operations waits longer. The batch has waited since `start`, without an arrival since
    /// `quiet_since`.
    pub fn is_worth_it(
        &self,
        operations: usize,
        now: Nanoseconds,
        start: Nanoseconds,
        quiet_since: Nanoseconds,
    ) -> bool {
        let quiet_ns = match operations < self.expected {
            true => QUIET_NS,
            false => QUIET_AFTER_ALL_NS,
        };
        now - start <= self.persist_ns && now - quiet_since <= quiet_ns
    }

    /// Notes the time that the persist of a batch of so many operations took.
    pub fn note(&mut self, operations: usize, took: Nanoseconds) {
        self.persist_ns = took;
        self.expected = operations.max(self.expected * 7 / 8);
    }
}
