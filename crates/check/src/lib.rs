//! Runs the stores in the simulated world, ends everything that can end at every moment, and judges what is left.
//!
//! ```text
//!   run(scenario, seed) -> Report
//!     setup     what the seed means                          direct/setup.rs
//!     drive     world, clients, server, ends                 direct/{drive,client,host}.rs
//!       explorer   power cut at a moment -> states           direct/explorer.rs  fates.rs
//!         lab        recovery of one state                   direct/lab.rs
//!     oracles   what must hold                               oracles/
//! ```
//!
//! Invariants: a report follows from scenario and seed alone; looking at a crash does not disturb the run.
#![forbid(unsafe_code)]

mod direct;
pub mod fates;
pub mod history;
pub mod oracles;
mod report;
pub mod values;
mod violation;

pub use report::Report;
pub use violation::Violation;

/// Something that can be run.
#[derive(Clone, Copy, Debug)]
pub struct Scenario {
    /// What it is called.
    pub name: &'static str,
    /// What it does.
    pub summary: &'static str,
    setup: fn(u64) -> direct::Setup,
}

/// Everything that can be run.
pub const SCENARIOS: &[Scenario] = &[
    Scenario {
        name: "store-direct",
        summary: "the direct store: several clients, a thousand operations, ends of servers, clients and power",
        setup: direct::Setup::full,
    },
    Scenario {
        name: "store-direct-crashes",
        summary: "the direct store: a few operations, a power cut at every moment, every state that it may leave",
        setup: direct::Setup::short,
    },
];

/// The scenario called `name`.
pub fn scenario(name: &str) -> Option<&'static Scenario> {
    SCENARIOS.iter().find(|scenario| scenario.name == name)
}

/// Runs `scenario` from `seed`.
pub fn run(scenario: &Scenario, seed: u64) -> Report {
    direct::run(scenario.name, &(scenario.setup)(seed))
}
