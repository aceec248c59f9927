//! The runs that figures share.

use stonecast_fabric_sim::MachineProfile;
use stonecast_workload::Mix;

use super::contestant::{ContestError, Design};
use super::run::{Beside, Outcome, RunOptions, workload};
use crate::papers::Runs;

/// The series of all figures: the names of [`Design::ALL`].
pub(super) const SERIES: &[&str] = &[
    Design::ErdaPublished.name(),
    Design::RedoLogging.name(),
    Design::ReadAfterWrite.name(),
    Design::Kv.name(),
];
/// The workloads, in the order of the figures, and their names in the paper.
pub(super) const MIXES: [Mix; 4] = [Mix::C, Mix::B, Mix::A, Mix::UpdateOnly];
pub(super) const WORKLOADS: [&str; 4] = ["YCSB C", "YCSB B", "YCSB A", "update-only"];
pub(super) const VALUE_SIZES: [usize; 5] = [16, 64, 256, 1024, 4096];
/// Operations of each point of the documents.
pub(super) const OPERATIONS: u64 = 3_000;
/// Keys stored before the measurement.
const KEYS: u64 = 2_000;

/// The machines of the paper.
pub(super) fn profile() -> MachineProfile {
    MachineProfile::by_name("connectx3-erda").expect("the profile is shipped")
}

/// The run of one client on an otherwise idle server.
pub(super) fn alone(design: Design, mix: Mix, value_size: usize, operations: u64) -> RunOptions {
    RunOptions {
        design,
        profile: profile(),
        mix,
        value_size,
        threads: 1,
        keys: KEYS,
        operations,
        beside: Beside::Nothing,
    }
}

/// The outcome of a run, which is done once.
pub(super) fn run(runs: &mut Runs, options: &RunOptions) -> Result<Outcome, ContestError> {
    runs.once(format!("{options:?}"), || workload(options))
}

/// The published number of a series in a row that has one for each design but the store.
pub(super) fn in_row(is_row: bool, numbers: [f64; 3], series: &str) -> Option<f64> {
    let place = SERIES.iter().position(|name| *name == series)?;
    numbers.get(place).copied().filter(|_| is_row)
}
