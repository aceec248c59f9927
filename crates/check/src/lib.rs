//! Runs the stores in the simulated world, ends processes and machines at any moment, and judges
//! the result.
//!
//! ```text
//!   run(scenario, seed) -> Report
//!     setup     what the seed means                          direct/setup.rs
//!     drive     world, clients, server                       direct/{drive,client,host}.rs
//!       mishaps, visitors   faults of the run, odd clients   direct/{mishaps,visitors,raw}.rs
//!       progress            healed, all clients progress     direct/progress.rs
//!       damage              a medium that breaks its word    direct/damage.rs
//!       explorer   power cut at a moment -> states           direct/explorer.rs  fates.rs  known.rs
//!         lab        recovery of one state                   direct/lab.rs
//!     oracles   the promises                                 oracles/
//!     timeline  a failing run, for people                    timeline.rs
//!   shrink      the shortest schedule that fails             shrink.rs  adjustment.rs
//! ```
//!
//! Invariants: a report follows only from scenario and seed; examining a crash does not disturb the
//! run.
#![forbid(unsafe_code)]

mod adjustment;
mod direct;
pub mod fates;
pub mod history;
mod known;
pub mod linearizability;
pub mod model;
pub mod models;
pub mod oracles;
mod report;
mod shrink;
mod timeline;
pub mod values;
mod violation;

pub use adjustment::Adjustment;
pub use report::{Report, Sizes};
pub use shrink::{Shrunk, TRIES_MAX, shrink};
pub use timeline::Happening;
pub use violation::Violation;

/// A program that runs in the simulated world.
#[derive(Clone, Copy, Debug)]
pub struct Scenario {
    /// Its name.
    pub name: &'static str,
    /// Its description.
    pub summary: &'static str,
    setup: fn(u64) -> direct::Setup,
}

/// All scenarios.
pub const SCENARIOS: &[Scenario] = &[
    Scenario {
        name: "kv",
        summary: "the direct store: several clients, a thousand operations, ends of servers, clients and power",
        setup: direct::Setup::full,
    },
    Scenario {
        name: "kv-crashes",
        summary: "the direct store: a few operations, a power cut at every moment, every state that it may leave",
        setup: direct::Setup::short,
    },
    Scenario {
        name: "kv-lite",
        summary: "the direct store: a hundred operations, some of every kind of fault, for many seeds",
        setup: direct::Setup::lite,
    },
];

/// The scenario called `name`.
pub fn scenario(name: &str) -> Option<&'static Scenario> {
    SCENARIOS.iter().find(|scenario| scenario.name == name)
}

/// All faults of a run, by their names in a report.
pub fn fault_names() -> &'static [&'static str] {
    stonecast_fabric_sim::Fault::REACHABLE
}

/// Runs `scenario` from `seed`.
pub fn run(scenario: &Scenario, seed: u64) -> Report {
    run_adjusted(scenario, seed, &Adjustment::default())
}

/// Runs `scenario` from `seed`, changed by `adjustment`.
pub fn run_adjusted(scenario: &Scenario, seed: u64, adjustment: &Adjustment) -> Report {
    let mut setup = (scenario.setup)(seed);
    setup.adjust(adjustment);
    direct::run(scenario.name, &setup, adjustment.canary)
}
