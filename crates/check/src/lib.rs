//! Runs the stores in the simulated world, ends processes and machines at any moment, and judges
//! the result.
//!
//! A store is a *subject* (it serves, lives as a client, recovers) with a *model* (state, call, answer). Everything
//! else knows no store:
//!
//! ```text
//!   run(scenario, seed) -> Report
//!     subject     the behaviour of a store                  subject.rs  kv/      copies/  appends/
//!     stage       nodes, clients, the loop of events         stage.rs
//!     explorer    power cut of any machines -> states        explorer.rs  wrecks.rs  fates.rs  known.rs  moments.rs
//!       lab       recovery of one state                      lab.rs
//!     history     calls and answers, in one order            history.rs
//!       model     the right answers                          model.rs  models/
//!       search    is there an order that explains them       linearizability/
//!     oracles     the promises                               oracles/
//!     timeline    a failing run, for people                  timeline.rs
//!   shrink        the shortest schedule that fails           shrink.rs  adjustment.rs
//!
//!   kv/           the store with one server: setup, drive, mishaps, visitors, progress, damage
//!   kv_cluster/   the store on several nodes: setup, drive, mishaps
//!   copies/       records with copies on several machines
//!   appends/      entries of several senders in the memory of receivers
//!   structures/   data structures in the memory of a back-end
//!   replicated/   shards with copies on several nodes, by the rules of replication
//! ```
//!
//! Invariants: a report follows only from scenario and seed; examining a crash does not disturb the
//! run.
#![forbid(unsafe_code)]

mod adjustment;
mod appends;
mod copies;
mod explorer;
mod fates;
pub mod history;
mod known;
mod kv;
mod kv_cluster;
mod lab;
pub mod linearizability;
mod machines;
pub mod model;
pub mod models;
mod moments;
pub mod oracles;
mod partitions;
mod region;
mod replicated;
mod report;
mod shrink;
mod stage;
mod structures;
mod subject;
mod tasks;
mod timeline;
pub mod values;
mod violation;
mod wrecks;

pub use adjustment::Adjustment;
pub use report::{Report, Sizes};
pub use shrink::{Shrunk, TRIES_MAX, shrink};
pub use timeline::Happening;
pub use violation::Violation;

/// A program that runs in the simulated world.
#[derive(Clone, Copy, Debug)]
pub struct Scenario {
    /// The name of the scenario.
    pub name: &'static str,
    /// The description of the scenario.
    pub summary: &'static str,
    run: fn(u64, &Adjustment) -> Report,
}

/// All scenarios.
pub const SCENARIOS: &[Scenario] = &[
    Scenario {
        name: "kv",
        summary: "the KV store: several clients, a thousand operations, ends of servers, clients and power",
        run: |seed, adjustment| run_kv("kv", kv::Setup::full(seed), adjustment),
    },
    Scenario {
        name: "kv-crashes",
        summary: "the KV store: a few operations, a power cut at every moment, every state that it may leave",
        run: |seed, adjustment| run_kv("kv-crashes", kv::Setup::short(seed), adjustment),
    },
    Scenario {
        name: "kv-lite",
        summary: "the KV store: a hundred operations, some of every kind of fault, for many seeds",
        run: |seed, adjustment| run_kv("kv-lite", kv::Setup::lite(seed), adjustment),
    },
    Scenario {
        name: "kv-rivals",
        summary: "the KV store: clients that publish, and the server, write the same one or two keys",
        run: |seed, adjustment| run_kv("kv-rivals", kv::Setup::rivals(seed), adjustment),
    },
    Scenario {
        name: "kv-restarts",
        summary: "the KV store: servers and clients die again and again, and writes of unknown outcome are repeated",
        run: |seed, adjustment| run_kv("kv-restarts", kv::Setup::restarts(seed), adjustment),
    },
    Scenario {
        name: "kv-reuse",
        summary: "the KV store: segments are cleaned and written again, deletes are frequent, power cuts are examined often",
        run: |seed, adjustment| run_kv("kv-reuse", kv::Setup::reuse(seed), adjustment),
    },
    Scenario {
        name: "kv-ledgers",
        summary: "the KV store in a pool of a cluster: segments are cleaned and written again, power cuts are examined often",
        run: |seed, adjustment| run_kv("kv-ledgers", kv::Setup::ledgers(seed), adjustment),
    },
    Scenario {
        name: "kv-batches",
        summary: "the KV store: servers and clients die among batches of several keys, power cuts are examined often",
        run: |seed, adjustment| run_kv("kv-batches", kv::Setup::batches(seed), adjustment),
    },
    Scenario {
        name: "kv-syncs",
        summary: "the KV store on a file: a sync fails, and a power cut is examined at every moment",
        run: |seed, adjustment| run_kv("kv-syncs", kv::Setup::syncs(seed), adjustment),
    },
    Scenario {
        name: "kv-full",
        summary: "the KV store: the pool is filled, and then emptied",
        run: |seed, adjustment| run_kv("kv-full", kv::Setup::full_pool(seed), adjustment),
    },
    Scenario {
        name: "kv-cluster",
        summary: "the KV store on several nodes: a thousand operations, ends and pauses of nodes and clients, partitions, power cuts of some and of all",
        run: |seed, adjustment| {
            run_kv_cluster("kv-cluster", kv_cluster::Setup::full(seed), adjustment)
        },
    },
    Scenario {
        name: "kv-cluster-lite",
        summary: "the KV store on several nodes: a hundred operations and as many mishaps, for many seeds",
        run: |seed, adjustment| {
            run_kv_cluster("kv-cluster-lite", kv_cluster::Setup::lite(seed), adjustment)
        },
    },
    Scenario {
        name: "kv-cluster-crashes",
        summary: "the KV store on three nodes: a few operations, power cuts of any nodes at many moments, many states that they may leave",
        run: |seed, adjustment| {
            run_kv_cluster(
                "kv-cluster-crashes",
                kv_cluster::Setup::short(seed),
                adjustment,
            )
        },
    },
    Scenario {
        name: "copies",
        summary: "records with copies on two or three machines: a power cut of any of them at every moment",
        run: |seed, adjustment| {
            let mut setup = copies::Setup::short(seed);
            setup.adjust(adjustment);
            copies::run("copies", &setup)
        },
    },
    Scenario {
        name: "appends",
        summary: "entries of several senders in the memory of one or two receivers: ends of all of them, of their links and of power",
        run: |seed, adjustment| {
            let mut setup = appends::Setup::drawn(seed);
            setup.adjust(adjustment);
            appends::run("appends", &setup)
        },
    },
    Scenario {
        name: "structures",
        summary: "data structures in the memory of a back-end: ends and pauses of front-ends and of the back-end, partitions, power cuts",
        run: |seed, adjustment| {
            run_structures("structures", structures::Setup::drawn(seed), adjustment)
        },
    },
    Scenario {
        name: "structures-crashes",
        summary: "data structures in the memory of a back-end: a few operations, a power cut at every moment, many states that it may leave",
        run: |seed, adjustment| {
            run_structures(
                "structures-crashes",
                structures::Setup::short(seed),
                adjustment,
            )
        },
    },
    Scenario {
        name: "replication",
        summary: "the rules of copies: primaries change, nodes leave and come back, shards move, power, processes and letters are lost",
        run: |seed, adjustment| {
            let setup = replicated::setup(seed, adjustment);
            replicated::run("replication", &setup, adjustment.canary)
        },
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
    (scenario.run)(seed, adjustment)
}

fn run_kv_cluster(
    name: &'static str,
    mut setup: kv_cluster::Setup,
    adjustment: &Adjustment,
) -> Report {
    setup.adjust(adjustment);
    kv_cluster::run(name, &setup)
}

fn run_structures(
    name: &'static str,
    mut setup: structures::Setup,
    adjustment: &Adjustment,
) -> Report {
    setup.adjust(adjustment);
    structures::run(name, &setup)
}

fn run_kv(name: &'static str, mut setup: kv::Setup, adjustment: &Adjustment) -> Report {
    setup.adjust(adjustment);
    kv::run(name, &setup, adjustment.canary)
}
