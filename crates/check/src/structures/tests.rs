//! Stories of data structures.

use super::{Setup, run};
use crate::adjustment::Adjustment;

/// Seeds of the story.
const SEEDS: u64 = 24;

#[test]
fn structures_survive_every_mishap_that_a_seed_draws_and_a_seed_means_the_same_run() {
    let (mut states, mut cuts, mut delays) = (0, 0, 0);
    for seed in 0..SEEDS {
        let report = run("structures", &Setup::drawn(seed));
        assert_eq!(report.violations, [], "seed {seed}");
        if seed < 4 {
            assert_eq!(
                report,
                run("structures", &Setup::drawn(seed)),
                "seed {seed}"
            );
        }
        states += report.crash_states;
        cuts += report.course.get("partitions").copied().unwrap_or(0);
        delays += report.faults_hit.get("partition").copied().unwrap_or(0);
    }
    assert!(states > 500, "{states} states");
    assert!(
        cuts > 3 && delays > 3,
        "{cuts} partitions, {delays} messages met one"
    );
}

/// Needs the crash states: the back-end takes visible words for durable.
#[test]
fn updates_that_were_only_visible_are_lost_in_power_cuts() {
    let mistaken = |seed| {
        let mut setup = Setup::drawn(seed);
        setup.adjust(&Adjustment {
            canary: true,
            ..Adjustment::default()
        });
        run("structures", &setup)
    };
    let found = (0..SEEDS).any(|seed| !mistaken(seed).violations.is_empty());
    assert!(found);
}
