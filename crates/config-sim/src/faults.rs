//! The faults of a service.

use rand::RngExt as _;
use stonecast_base::{Nanoseconds, random_from_seed};

/// The rates of a service's faults; 0 means never. Each name ends with its unit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ServiceFaults {
    /// Answers of a million that are never sent, to requests that were executed.
    pub answer_lost_per_million: u64,
    /// Answers of a million that are sent late.
    pub answer_late_per_million: u64,
    /// Compare-and-sets of a million that are decided late, often after their callers gave up.
    pub swap_late_per_million: u64,
    /// Longest delay.
    pub late_ns_max: Nanoseconds,
    /// Longest time without a leader in a failover, in nanoseconds; the shortest time is a tenth of it.
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
