//! The same seed is the same run.

use stonecast_check::{SCENARIOS, run};

#[test]
fn a_seed_means_the_same_run_for_ever() {
    for scenario in SCENARIOS {
        for seed in 0..5 {
            let report = run(scenario, seed);
            println!("{report:?}");
            assert_eq!(report.violations, [], "{} {seed}", scenario.name);
            assert_eq!(report, run(scenario, seed));
        }
    }
}
