//! What came out of a run.

use std::collections::BTreeMap;

use crate::Scenario;
use crate::timeline::Happening;
use crate::violation::Violation;

/// How large a run is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sizes {
    /// Clients, each on a machine of its own.
    pub clients: u32,
    /// Operations that each client has under way, at most.
    pub lanes: u32,
    /// Keys.
    pub keys: u32,
    /// Operations of all clients together.
    pub operations: u64,
}

/// See the module documentation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// What was run.
    pub scenario: &'static str,
    /// From which seed.
    pub seed: u64,
    /// How large the run was, as drawn from the seed or as adjusted.
    pub sizes: Sizes,
    /// What else the seed meant, for people: name and value.
    pub options: Vec<(&'static str, String)>,
    /// Hash of all events: two runs of the same seed have the same.
    pub hash: u64,
    /// Events of the world.
    pub events: u64,
    /// Operations of clients.
    pub operations: u64,
    /// States after power cuts that were recovered and judged.
    pub crash_states: u64,
    /// How often each fault happened.
    pub faults_hit: BTreeMap<&'static str, u64>,
    /// Who died, and what the store did to make room, by name.
    pub course: BTreeMap<&'static str, u64>,
    /// What went wrong.
    pub violations: Vec<Violation>,
    /// What happened, where something went wrong.
    pub timeline: Vec<Happening>,
}

impl Report {
    pub(crate) fn new(scenario: &'static str, seed: u64) -> Self {
        Self {
            scenario,
            seed,
            sizes: Sizes::default(),
            options: Vec::new(),
            hash: 0,
            events: 0,
            operations: 0,
            crash_states: 0,
            faults_hit: BTreeMap::new(),
            course: BTreeMap::new(),
            violations: Vec::new(),
            timeline: Vec::new(),
        }
    }

    /// A run of `scenario` that came to no end because an assertion was broken.
    pub fn broken(scenario: &Scenario, seed: u64, message: String) -> Self {
        let violations = vec![Violation::new("assertions hold", message)];
        Self {
            violations,
            ..Self::new(scenario.name, seed)
        }
    }

    pub(crate) fn note(&mut self, violation: Violation) {
        self.violations.push(violation);
    }
}
