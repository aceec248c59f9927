//! How a service fails.

use rand::RngExt as _;
use stonecast_base::{Nanoseconds, random_from_seed};

/// How often a service fails in each way: 0 is never. The unit stands at the end of each name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ServiceFaults {
    /// Answers that are never sent, of a million. What was asked has been done.
    pub answer_lost_per_million: u64,
    /// Answers that are sent late, of a million.
    pub answer_late_per_million: u64,
    /// Compare-and-sets that are decided late, of a million: often after their callers gave up.
    pub swap_late_per_million: u64,
    /// Latest.
    pub late_ns_max: Nanoseconds,
    /// Longest time without a leader in a failover, nanoseconds; the shortest is a tenth of it.
    pub election_ns_max: Nanoseconds,
}

impl ServiceFaults {
    /// A random subset with random rates. Half of the services have each fault.
    pub fn drawn(seed: u64) -> Self {
        let mut random = random_from_seed(seed);
        let mut rate = || {
            let (dice, rate) = (random.random_bool(0.5), random.random_range(1..=300_000));
            if dice { rate } else { 0 }
        };
        let (answer_lost_per_million, answer_late_per_million, swap_late_per_million) =
            (rate(), rate(), rate());
        Self {
            answer_lost_per_million,
            answer_late_per_million,
            swap_late_per_million,
            late_ns_max: random.random_range(1_000_000..=100_000_000),
            election_ns_max: random.random_range(10_000_000..=1_000_000_000),
        }
    }
}
