//! Runs the stores in the simulated world, ends everything that can end at every moment, and judges what is left.
//!
//! ```text
//!   run(scenario, seed) -> Report
//!     setup     what the seed means                          direct/setup.rs
//!     drive     world, clients, server                       direct/{drive,client,host}.rs
//!       mishaps, visitors   what happens to them             direct/{mishaps,visitors,raw}.rs
//!       progress            healed, everybody gets on        direct/progress.rs
//!       damage              a medium that breaks its word    direct/damage.rs
//!       explorer   power cut at a moment -> states           direct/explorer.rs  fates.rs  known.rs
//!         lab        recovery of one state                   direct/lab.rs
//!     oracles   what must hold                               oracles/
//!     timeline  a failing run as people read it              timeline.rs
//!   shrink      the shortest schedule that fails             shrink.rs  adjustment.rs
//! ```
//!
//! Invariants: a report follows from scenario and seed alone; looking at a crash does not disturb the run.
#![forbid(unsafe_code)]

mod adjustment;
mod direct;
pub mod fates;
pub mod history;
mod known;
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
        summary: "the direct store: a hundred operations, a bit of everything that goes wrong, for many seeds",
        setup: direct::Setup::lite,
    },
];

/// The scenario called `name`.
pub fn scenario(name: &str) -> Option<&'static Scenario> {
    SCENARIOS.iter().find(|scenario| scenario.name == name)
}

/// Everything that can be made to happen in a run, by the names under which a report counts it.
pub fn fault_names() -> &'static [&'static str] {
    stonecast_fabric_sim::Fault::REACHABLE
}

/// Runs `scenario` from `seed`.
pub fn run(scenario: &Scenario, seed: u64) -> Report {
    run_adjusted(scenario, seed, &Adjustment::default())
}

/// Runs `scenario` from `seed`, but for what `adjustment` says.
pub fn run_adjusted(scenario: &Scenario, seed: u64, adjustment: &Adjustment) -> Report {
    let mut setup = (scenario.setup)(seed);
    setup.adjust(adjustment);
    direct::run(scenario.name, &setup, adjustment.canary)
}
