//! The path of a failure: found, shrunk, reported.

use stonecast_check::{Adjustment, run_adjusted, scenario, shrink};

/// The canary demands that unanswered writes survive. Fails without the judgement of crash states: nothing is found.
#[test]
fn a_broken_promise_is_found_shrunk_and_reported_in_order() {
    let scenario = scenario("kv").unwrap();
    let adjustment = Adjustment {
        canary: true,
        ..Adjustment::default()
    };
    let mut shorter = 0;
    for seed in 0..4 {
        let report = run_adjusted(scenario, seed, &adjustment);
        assert_eq!(
            report.violations[0].oracle, "acknowledged writes survive",
            "{report:?}"
        );
        let mut runs = 0;
        let shrunk = shrink(&adjustment, &report, |adjustment| {
            runs += 1;
            run_adjusted(scenario, seed, adjustment)
        });
        assert_eq!(shrunk.tries, runs);
        assert_eq!(
            shrunk.report,
            run_adjusted(scenario, seed, &shrunk.adjustment),
            "the adjustment replays it"
        );
        let sizes = shrunk.report.sizes;
        assert!(
            sizes.operations <= 8 && sizes.clients == 1 && sizes.lanes == 1,
            "{sizes:?}"
        );
        shorter += u64::from(sizes.operations < report.operations);
        let timeline = &shrunk.report.timeline;
        assert!(
            timeline.is_sorted_by_key(|happening| happening.event),
            "{timeline:#?}"
        );
        let told: Vec<&str> = timeline.iter().map(|happening| &*happening.what).collect();
        assert!(told[0].starts_with("client 0: "), "{told:#?}");
        let last = told.last().unwrap();
        assert!(
            last.starts_with("if the power of the server is cut here")
                && last.contains("acknowledged writes survive"),
            "{last}"
        );
    }
    assert!(shorter > 0);
}
