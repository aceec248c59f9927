//! The search against the published tables, and the tables against the search.

use stonecast_persist::scenarios;
use stonecast_persist::search::{Difference, Scope, Searcher, compare};

#[test]
fn the_search_finds_a_program_at_most_as_costly_as_the_published_one_for_each_scenario() {
    for scope in [Scope::Pure, Scope::Mixed] {
        let mut searcher = Searcher::default();
        let mut cheaper = 0;
        for scenario in scenarios() {
            let comparison = compare(&mut searcher, &scenario, scope).expect("something survives, so something is sound");
            match comparison.difference {
                Difference::Same => {}
                Difference::Cheaper => {
                    cheaper += 1;
                    eprintln!("{scope:?} {} -> {}", comparison.published, comparison.found);
                }
                Difference::PublishedUnsound(run) => panic!("{scenario:?}: {}: {:?}", comparison.published, run.lines()),
            }
        }
        eprintln!("{scope:?}: {cheaper} cheaper, {} programs", searcher.programs());
    }
}
