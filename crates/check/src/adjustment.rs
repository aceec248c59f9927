//! What of a run is not left to its seed.

use std::collections::BTreeSet;

/// Makes a run smaller than its seed says, or judges it more harshly. The default changes nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Adjustment {
    /// Operations of all clients together, at most.
    pub operations: Option<u64>,
    /// Clients, at most.
    pub clients: Option<u32>,
    /// Operations that each client has under way, at most.
    pub lanes: Option<u32>,
    /// Keys, at most.
    pub keys: Option<u32>,
    /// Faults that do not happen, by the names under which a report counts them.
    pub without: BTreeSet<&'static str>,
    /// Looks at what a power cut would leave at every moment, and no longer at a few: finds the earliest one that fails.
    pub every_moment: bool,
    /// Also demands what no store promises: that a write that was begun survives a power cut before it is answered. Every
    /// run that looks at a power cut fails then, which shows what a failure looks like.
    pub canary: bool,
}

impl Adjustment {
    /// `drawn`, or less.
    pub(crate) fn at_most<T: Ord + Copy>(limit: Option<T>, drawn: T) -> T {
        limit.map_or(drawn, |limit| limit.min(drawn))
    }
}
