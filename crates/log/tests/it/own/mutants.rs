//! Every seeded bug of a node's own history is found by the histories, which find nothing without one.

use super::histories;
use crate::hunt::hunt;

#[test]
fn every_seeded_bug_of_own_histories_is_found() {
    let run = |seed| {
        histories::run(seed);
    };
    assert!(hunt("own-log", run) >= 7);
}
