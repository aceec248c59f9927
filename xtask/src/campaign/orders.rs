//! The orders of a campaign, and how each order is split.

use std::ops::Range;
use std::str::FromStr;

use anyhow::{Context, Error, Result, ensure};

/// A scenario, and how far a whole campaign runs it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Order {
    pub scenario: &'static str,
    pub until: Until,
}

/// The end of a scenario in a whole campaign.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Until {
    /// This number of seeds was run.
    Seeds(u64),
    /// This number of crash states was judged.
    CrashStates(u64),
}

/// All orders: one row for each scenario.
pub const ORDERS: &[Order] = &[
    Order {
        scenario: "kv",
        until: Until::Seeds(10_000),
    },
    Order {
        scenario: "copies",
        until: Until::Seeds(1_000),
    },
    Order {
        scenario: "appends",
        until: Until::Seeds(10_000),
    },
    Order {
        scenario: "replication",
        until: Until::Seeds(10_000),
    },
    Order {
        scenario: "kv-cluster",
        until: Until::Seeds(10_000),
    },
    Order {
        scenario: "structures",
        until: Until::Seeds(10_000),
    },
    Order {
        scenario: "kv-crashes",
        until: Until::CrashStates(10_000_000),
    },
    Order {
        scenario: "kv-cluster-crashes",
        until: Until::CrashStates(1_000_000),
    },
    Order {
        scenario: "structures-crashes",
        until: Until::CrashStates(5_000_000),
    },
    Order {
        scenario: "kv-rivals",
        until: Until::Seeds(1_000),
    },
    Order {
        scenario: "kv-restarts",
        until: Until::Seeds(1_000),
    },
    Order {
        scenario: "kv-reuse",
        until: Until::Seeds(1_000),
    },
    Order {
        scenario: "kv-ledgers",
        until: Until::Seeds(1_000),
    },
    Order {
        scenario: "kv-batches",
        until: Until::Seeds(1_000),
    },
    Order {
        scenario: "kv-syncs",
        until: Until::Seeds(1_000),
    },
    Order {
        scenario: "kv-full",
        until: Until::Seeds(1_000),
    },
];

/// The order of the seeded bugs, which is not split: the first part has it.
pub const MUTANTS: &str = "mutants";

/// Distance between the first seeds of two parts that end by crash states. Each part uses fewer seeds.
const SEEDS_APART: u64 = 1 << 20;

/// A part of a campaign: `2/8` is the second of eight parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    pub number: u64,
    pub of: u64,
}

impl FromStr for Part {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let (number, of) = text.split_once('/').context("a part is written 2/8")?;
        let (number, of) = (number.parse()?, of.parse()?);
        ensure!(
            (1..=of).contains(&number),
            "of {of} parts none has number {number}"
        );
        Ok(Self { number, of })
    }
}

/// The share of an order that one part runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Share {
    /// These seeds.
    Seeds(Range<u64>),
    /// Seeds from `first` on, until `states` crash states were judged.
    CrashStates { first: u64, states: u64 },
}

impl Order {
    /// Returns the share of `part` in `percent` percent of the order. The parts together run each seed once, and at
    /// least one seed.
    pub fn share(&self, percent: f64, part: Part) -> Share {
        let Part { number, of } = part;
        let reduced = |count: u64| (count as f64 * percent / 100.0).max(1.0) as u64;
        match self.until {
            Until::Seeds(count) => {
                let end = |number: u64| reduced(count) * number / of;
                Share::Seeds(end(number - 1)..end(number))
            }
            Until::CrashStates(count) => Share::CrashStates {
                first: (number - 1) * SEEDS_APART,
                states: reduced(count).div_ceil(of),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEN: Order = Order {
        scenario: "s",
        until: Until::Seeds(1_000),
    };

    #[test]
    fn the_parts_of_an_order_run_each_seed_once() {
        for (percent, count) in [(100.0, 1_000), (1.0, 10), (0.0, 1)] {
            let mut seeds = Vec::new();
            for number in 1..=7 {
                match TEN.share(percent, Part { number, of: 7 }) {
                    Share::Seeds(part) => seeds.extend(part),
                    Share::CrashStates { .. } => unreachable!("an order of seeds"),
                }
            }
            assert_eq!(seeds, (0..count).collect::<Vec<_>>());
        }
    }

    #[test]
    fn the_parts_of_an_order_of_crash_states_run_other_seeds_and_all_the_states() {
        let order = Order {
            scenario: "s",
            until: Until::CrashStates(100),
        };
        let part = |number| order.share(100.0, Part { number, of: 3 });
        let share = |first, states| Share::CrashStates { first, states };
        assert_eq!(part(1), share(0, 34));
        assert_eq!(part(3), share(2 * SEEDS_APART, 34));
    }

    #[test]
    fn a_part_is_written_as_a_fraction_that_is_no_more_than_one() {
        let part = |text: &str| text.parse::<Part>().ok();
        assert_eq!(part("2/8"), Some(Part { number: 2, of: 8 }));
        assert_eq!(part("1/1"), Some(Part { number: 1, of: 1 }));
        for wrong in ["0/8", "9/8", "1/0", "2", "a/b", ""] {
            assert_eq!(part(wrong), None, "{wrong}");
        }
    }
}
