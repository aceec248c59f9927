//! The result of a run.

use std::collections::BTreeMap;

use crate::Scenario;
use crate::timeline::Happening;
use crate::violation::Violation;

/// The size of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sizes {
    /// Clients, each on a machine of its own.
    pub clients: u32,
    /// Maximum number of operations that each client has in flight.
    pub lanes: u32,
    /// Keys that the clients read and write.
    pub keys: u32,
    /// Operations of all clients together.
    pub operations: u64,
}

/// The result of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// The scenario.
    pub scenario: &'static str,
    /// The seed.
    pub seed: u64,
    /// The size of the run, as drawn from the seed or as adjusted.
    pub sizes: Sizes,
    /// The other choices of the seed, for people: name and value.
    pub options: Vec<(&'static str, String)>,
    /// Hash of all events: two runs of the same seed have the same hash.
    pub hash: u64,
    /// Events of the world.
    pub events: u64,
    /// Operations of clients.
    pub operations: u64,
    /// States after power cuts that were recovered and judged.
    pub crash_states: u64,
    /// Occurrences of each fault.
    pub faults_hit: BTreeMap<&'static str, u64>,
    /// Counts of deaths, and of the store's work to make room, by name.
    pub course: BTreeMap<&'static str, u64>,
    /// The broken promises.
    pub violations: Vec<Violation>,
    /// The timeline, if a promise was broken.
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

    /// The report of a run of `scenario` that a broken assertion ended.
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
