//! The search compared with the published tables, and the tables with the search.

use stonecast_persist::search::{Difference, Scope, Searcher, compare};
use stonecast_persist::{Operation, Update, scenarios};

#[test]
fn no_published_program_is_unsound_or_beaten_if_its_operation_carries_all_values() {
    let mut searcher = Searcher::default();
    for scenario in scenarios() {
        let comparison = compare(&mut searcher, &scenario, Scope::Pure)
            .expect("something survives, so something is sound");
        assert_eq!(
            comparison.difference,
            Difference::Same,
            "{} or {}",
            comparison.published,
            comparison.found
        );
    }
    assert!(
        searcher.programs() > 10_000,
        "{} programs are too few for a search",
        searcher.programs()
    );
}

#[test]
fn five_published_programs_are_beaten_if_another_operation_may_carry_b() {
    let mut searcher = Searcher::default();
    let mut beaten = Vec::new();
    for scenario in scenarios() {
        let comparison = compare(&mut searcher, &scenario, Scope::Mixed)
            .expect("something survives, so something is sound");
        match comparison.difference {
            Difference::Same => {}
            Difference::Cheaper => beaten.push(comparison),
            Difference::PublishedUnsound(run) => {
                panic!("{}: {:?}", comparison.published, run.lines())
            }
        }
    }
    assert_eq!(beaten.len(), 5);
    assert!(
        beaten
            .iter()
            .all(|comparison| comparison.scenario.update.is_compound())
    );
    let one_trip = beaten
        .iter()
        .filter(|comparison| comparison.found.cost().round_trips == 1)
        .count();
    assert_eq!(one_trip, 4, "in one round trip instead of two");
}

/// A large `b` is too long for ATOMIC_WRITE, so nothing is cheaper than a wait between the two.
#[test]
fn a_large_second_update_costs_a_second_round_trip_and_a_small_one_does_not() {
    let mut searcher = Searcher::default();
    let scenario = scenarios().into_iter().find(|scenario| {
        scenario.operation == Operation::Write
            && scenario.update.is_compound()
            && compare(&mut searcher, scenario, Scope::Pure)
                .unwrap()
                .found
                .to_string()
                .contains("write_atomic")
    });
    let platform = scenario
        .expect("one published program uses ATOMIC_WRITE")
        .platform;
    let mut trips = |large| {
        let found = searcher.cheapest(
            &platform,
            Operation::Write,
            Update::Compound { large },
            Scope::Pure,
        );
        found.unwrap().cost().round_trips
    };
    assert_eq!((trips(false), trips(true)), (1, 2));
}
