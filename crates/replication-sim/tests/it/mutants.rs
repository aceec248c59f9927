//! The world finds every seeded bug of replication, and finds nothing without one.

use stonecast_base::hunts::{by_seeds, objects, quietly};

use crate::promises::run;

/// Seeds within which each mutant must be found.
const SEEDS_MAX: u64 = 10_000;
/// Seeds of the unchanged rules, in which nothing may be found.
const CONTROL_SEEDS: u64 = 300;

#[test]
fn every_seeded_bug_of_replication_is_found() {
    let run = |seed| _ = run(seed);
    let control = quietly(|| (0..CONTROL_SEEDS).find(|&seed| objects(|| run(seed))));
    assert_eq!(control, None, "the unchanged rules break a promise");
    by_seeds("replication", SEEDS_MAX, run);
}
