//! Compares the results of the search with the published programs.

use crate::litmus::{Run, Verdict, check};
use crate::program::Program;
use crate::scenario::Scenario;
use crate::taxonomy::tabulated;

use super::{Scope, Searcher};

/// Relation of the search's result to the published program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Difference {
    /// Both cost the same.
    Same,
    /// The search found a cheaper program.
    Cheaper,
    /// The published program breaks its promise in this run.
    PublishedUnsound(Run),
}

/// One scenario, looked up and searched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Comparison {
    /// The scenario.
    pub scenario: Scenario,
    /// The program of the tables.
    pub published: Program,
    /// The cheapest sound program.
    pub found: Program,
    /// The relation of the two programs.
    pub difference: Difference,
}

/// Searches a scenario of the taxonomy and compares. `None` for other scenarios, and if no program is sound.
///
/// # Panics
/// If the search missed a sound published program that is cheaper than its result, which is a bug of the search.
pub fn compare(searcher: &mut Searcher, scenario: &Scenario, scope: Scope) -> Option<Comparison> {
    let published = tabulated(scenario)?;
    let found = searcher.cheapest(
        &scenario.platform,
        scenario.operation,
        scenario.update,
        scope,
    )?;
    let difference = match check(&scenario.platform, &published, scenario.update) {
        Verdict::Broken(run) | Verdict::Stuck(run) => Difference::PublishedUnsound(run),
        Verdict::Sound { .. } if found.cost() == published.cost() => Difference::Same,
        Verdict::Sound { .. } => {
            assert!(
                found.cost() < published.cost(),
                "the search missed {published}, which is cheaper than {found}"
            );
            Difference::Cheaper
        }
    };
    Some(Comparison {
        scenario: *scenario,
        published,
        found,
        difference,
    })
}
