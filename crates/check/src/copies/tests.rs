//! Stories of records with copies.

use super::{Setup, run};
use crate::copies::setup::Done;

/// Seeds of each story.
const SEEDS: u64 = 12;
/// A seed in which a power cut leaves a write without an answer, and further writes follow.
const UNANSWERED: u64 = 16;

/// Fails unless finished writes choose the places: with places in turn, the write after a write of unknown outcome
/// overwrites the last record that all machines have.
#[test]
fn records_survive_whichever_machines_lose_their_power_together() {
    let mut states = 0;
    for seed in (0..SEEDS).chain([UNANSWERED]) {
        let report = run("copies", &Setup::short(seed));
        assert_eq!(report.violations, [], "seed {seed}");
        states += report.crash_states;
        assert_eq!(
            report,
            run("copies", &Setup::short(seed)),
            "a seed means the same run"
        );
    }
    assert!(states > 1000, "{states} states");
}

/// Fails without wrecks of several machines at one moment: the loss of one machine never shows this mistake.
#[test]
fn writes_that_no_copy_has_persisted_are_lost_only_when_several_machines_lose_power_together() {
    let mut found = 0;
    for seed in 0..SEEDS {
        let setup = Setup {
            done: Done::Completed,
            power_cuts: 0,
            ..Setup::short(seed)
        };
        let report = run("copies", &setup);
        let Some(violation) = report.violations.first() else {
            continue;
        };
        assert_eq!(violation.oracle, "acknowledged writes survive");
        // The finding contains no loss that the failure does not need.
        for machine in 0..setup.machines.len() {
            let harmless = format!("machine {machine}: everything survives");
            assert!(!violation.found.contains(&harmless), "{violation}");
        }
        found += 1;
    }
    assert!(found > 0, "no seed shows the mistake");
}
