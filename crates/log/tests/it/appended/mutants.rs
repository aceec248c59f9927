//! The histories find every seeded bug of the log of appends, and find nothing without one.

use stonecast_base::hunts::by_seeds;

use super::crash;
use crate::SEEDS_MAX;

#[test]
fn every_seeded_bug_of_the_log_of_appends_is_found() {
    assert!(by_seeds("append-log", SEEDS_MAX, crash::run) >= 3);
}
