//! Settings that override what a seed would choose.

use std::collections::BTreeSet;

/// Makes a run smaller than its seed says, or judges it more strictly. The default changes nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Adjustment {
    /// Maximum number of operations of all clients together.
    pub operations: Option<u64>,
    /// Maximum number of clients.
    pub clients: Option<u32>,
    /// Maximum number of operations that each client has in flight.
    pub lanes: Option<u32>,
    /// Maximum number of keys.
    pub keys: Option<u32>,
    /// Faults that do not happen, by their names in a report.
    pub without: BTreeSet<&'static str>,
    /// Examines a power cut at every moment instead of a few moments: finds the earliest one that
    /// fails.
    pub every_moment: bool,
    /// Also demands a promise that no store keeps: that a write survives a power cut before it is answered. Every run
    /// that examines a power cut then fails, which shows what a failure looks like. In runs with copies, clients make a
    /// mistake instead: they take a completed write for a persisted one. Runs of replication must have one primary of
    /// each shard.
    pub canary: bool,
}

impl Adjustment {
    /// `drawn`, or less.
    pub(crate) fn at_most<T: Ord + Copy>(limit: Option<T>, drawn: T) -> T {
        limit.map_or(drawn, |limit| limit.min(drawn))
    }
}
