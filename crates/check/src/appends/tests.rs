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

/// Needs the pause of a sender, which grows with each failure to connect: one receiver hangs or is suspended for a
/// second and more, and each attempt costs the other receiver one of its 512 buffers.
#[test]
fn a_sender_that_cannot_reach_one_receiver_does_not_use_up_the_buffers_of_the_other() {
    for (seed, trouble) in [(588, "suspensions"), (6275, "receiver_pauses")] {
        let report = run("appends", &Setup::drawn(seed));
        assert!(report.course[trouble] > 0, "seed {seed}");
        assert_eq!(report.violations, [], "seed {seed}");
    }
}

/// Needs the time at which the last receiver goes on: receiver 0 still hangs for longer than senders are given to
/// connect again, and a session ends meanwhile.
#[test]
fn a_sender_is_given_time_to_connect_again_from_the_moment_at_which_a_receiver_that_hung_goes_on() {
    let report = run("appends", &Setup::drawn(536));
    assert!(report.course["receiver_pauses"] > 0);
    assert_eq!(report.violations, []);
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
