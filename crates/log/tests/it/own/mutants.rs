//! The histories find every seeded bug of a node's own history, and find nothing without one.

use stonecast_base::hunts::by_seeds;

use super::histories;
use crate::SEEDS_MAX;

#[test]
fn every_seeded_bug_of_own_histories_is_found() {
    let run = |seed| {
        histories::run(seed);
    };
    assert!(by_seeds("own-log", SEEDS_MAX, run) >= 8);
}
