//! Every seeded bug of the log of appends is found by the histories, which find nothing without one.

use super::crash;
use crate::hunt::hunt;

#[test]
fn every_seeded_bug_of_the_log_of_appends_is_found() {
    assert!(hunt("append-log", crash::run) >= 3);
}
