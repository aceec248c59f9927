//! Stories of appends.

use super::{Setup, run};
use crate::adjustment::Adjustment;

/// Number of seeds in each story.
const SEEDS: u64 = 24;

#[test]
fn entries_survive_every_mishap_that_a_seed_draws_and_a_seed_means_the_same_run() {
    let mut states = 0;
    for seed in 0..SEEDS {
        let report = run("appends", &Setup::drawn(seed));
        assert_eq!(report.violations, [], "seed {seed}");
        assert_eq!(report, run("appends", &Setup::drawn(seed)), "seed {seed}");
        states += report.crash_states;
    }
    assert!(states > 1000, "{states} states");
}

/// Needs the plan: the mistake leaves out the last wait of the plan.
#[test]
fn entries_that_have_only_arrived_are_lost_in_power_cuts() {
    let mistaken = |seed| {
        let mut setup = Setup::drawn(seed);
        setup.adjust(&Adjustment {
            canary: true,
            ..Adjustment::default()
        });
        run("appends", &setup)
    };
    let reports = (0..SEEDS).map(mistaken);
    let oracles: Vec<&str> = reports
        .filter_map(|report| Some(report.violations.first()?.oracle))
        .collect();
    assert!(
        oracles.contains(&"acknowledged writes survive"),
        "{oracles:?}"
    );
    let of_copies = "copies agree up to the commit horizon";
    assert!(oracles.contains(&of_copies), "{oracles:?}");
}
