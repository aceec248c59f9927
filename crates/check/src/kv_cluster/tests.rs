//! Stories of runs.

use super::{Setup, run};
use crate::adjustment::Adjustment;

/// Number of seeds in each story of many runs.
const SEEDS: u64 = 6;

#[test]
fn whatever_befalls_nodes_and_clients_no_promise_is_broken() {
    for seed in 0..SEEDS {
        let report = run("kv-cluster-lite", &Setup::lite(seed));
        assert_eq!(report.violations, [], "seed {seed}");
    }
}

/// The first seeds that have values in chunks.
#[test]
fn whatever_befalls_nodes_no_value_in_chunks_is_torn_or_lost() {
    let chunked = (0..).map(Setup::lite).filter(|it| it.chunked_percent > 0);
    for setup in chunked.take(2) {
        let report = run("kv-cluster-lite", &setup);
        assert_eq!(report.violations, [], "seed {}", setup.seed);
        assert_eq!(report, run("kv-cluster-lite", &setup), "the same seed");
    }
}

#[test]
fn the_same_seed_gives_the_same_run() {
    let setup = Setup::lite(3);
    assert_eq!(
        run("kv-cluster-lite", &setup),
        run("kv-cluster-lite", &setup)
    );
}

#[test]
fn a_shard_that_changes_its_primary_is_found_if_that_is_forbidden() {
    let found = (0..SEEDS).any(|seed| {
        let mut setup = Setup::lite(seed);
        setup.adjust(&Adjustment {
            canary: true,
            ..Adjustment::default()
        });
        let report = run("kv-cluster-lite", &setup);
        let mut found = report.violations.iter();
        found.any(|found| found.oracle == "a term has one primary")
    });
    assert!(found, "in {SEEDS} runs no shard changed its primary");
}

#[test]
fn whatever_a_power_cut_leaves_of_three_nodes_they_serve_again_with_everything() {
    let mut states = 0;
    for seed in 0..4 {
        let report = run("kv-cluster-crashes", &Setup::short(seed));
        assert_eq!(report.violations, [], "seed {seed}");
        states += report.crash_states;
    }
    assert!(states > 100, "{states} states");
}
