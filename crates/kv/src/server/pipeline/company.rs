//! How long a batch waits for company before a sync that many share.
//!
//! Clients that keep a number of writes in flight send the next ones when they have their answers; a write that comes too late for
//! this sync waits for two. So the server waits while others keep arriving, at most as long as the sync takes. It does not stop once
//! as many have come as last time: otherwise a pipeline that was once cut in two would stay so for ever.

use stonecast_base::Nanoseconds;

/// How long arrivals may pause before a batch is taken for complete.
const QUIET_NS: Nanoseconds = 6_000;
/// The same once as many have arrived as before: a client sends one in less.
const QUIET_AFTER_ALL_NS: Nanoseconds = 1_500;
/// Length of one look while waiting for company.
pub(super) const LOOK_NS: Nanoseconds = 500;

/// See the module documentation.
#[derive(Default)]
pub(super) struct Company {
    /// Operations of the batches lately.
    expected: usize,
    /// The time that the last persist took.
    persist_ns: Nanoseconds,
}

impl Company {
    /// Whether a batch of so many operations waits longer: it has waited since `start` and has seen no arrival since `quiet_since`.
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

    /// A batch of so many operations was persisted in that time.
    pub fn note(&mut self, operations: usize, took: Nanoseconds) {
        self.persist_ns = took;
        self.expected = operations.max(self.expected * 7 / 8);
    }
}
