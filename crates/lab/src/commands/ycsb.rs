//! `ycsb`: a workload of YCSB between simulated machines, in virtual time.

use clap::Args;
use stonecast_bench::kv::{Amount, YcsbOptions};
use stonecast_bench::{WorkloadFlags, rows as common_rows};
use stonecast_fabric_sim::MachineProfile;
use stonecast_lab::sim::{SimYcsbError, SimYcsbOptions, SimYcsbResult, run as measure};
use stonecast_log::record_size;
use stonecast_workload::{KeyName, Mix};

use crate::fabric::profile;
use crate::failure::Failure;
use crate::output;
use crate::progress::Progress;

/// More puts than a client completes in a virtual second, so that the pool need not be cleaned
/// during the measurement.
const PUTS_PER_SECOND_MAX: f64 = 2e7;

/// Virtual time of the measurement: some hundred thousand operations.
const SECONDS: f64 = 0.05;

/// Runs a workload of YCSB between simulated machines, in virtual time: the same command prints the
/// same result.
#[derive(Debug, Args)]
#[command(after_help = "\
Example: half updates by eight clients
  stonecast-lab ycsb --workload a --fabric sim:connectx5-rowan --clients 8")]
pub struct Ycsb {
    #[command(flatten)]
    pub workload: WorkloadFlags,
    /// The machines, sim:PROFILE; PROFILE is connectx3-erda, connectx3-asymnvm, connectx4-taxonomy, connectx5-rowan or
    /// modern.
    #[arg(long, value_name = "FABRIC", value_parser = machines)]
    pub fabric: MachineProfile,
}

fn machines(text: &str) -> Result<MachineProfile, String> {
    profile(text).map_err(|names| {
        format!("simulated machines are {names}; others are measured by `stonecast bench ycsb`")
    })
}

/// Runs the workload that `flags` describe.
pub fn run(flags: &Ycsb) -> Result<(), Failure> {
    let workload = flags.workload.options(SECONDS)?;
    let options = SimYcsbOptions {
        workload,
        profile: flags.fabric,
        capacity: capacity_for(&workload),
    };
    // The length of the run is not known before it is over.
    let progress = Progress::of_count("simulating", None);
    let result = measure(&options).map_err(|error| match error {
        SimYcsbError::Options(message) => Failure::usage(message),
        error => error.into(),
    })?;
    drop(progress);
    if flags.workload.json {
        output::json(&result)
    } else {
        output::table(&rows(&result))
    }
}

/// Room for the data and for every write of the run. Unwritten room takes no memory.
fn capacity_for(workload: &YcsbOptions) -> u64 {
    let record = record_size(
        KeyName::of(workload.data.keys).as_bytes().len(),
        workload.data.value_size,
    );
    let writes = match workload.amount {
        _ if workload.mix == Mix::C => 0,
        Amount::Operations(count) => 2 * count,
        Amount::Time(time) => (time.as_secs_f64() * PUTS_PER_SECOND_MAX) as u64,
    };
    // Leases end before a segment is full, and every client holds some.
    ((workload.data.keys + writes) * record).saturating_mul(3) / 2 + (64 << 20)
}

fn rows(result: &SimYcsbResult) -> Vec<(&'static str, String)> {
    let mut rows: Vec<_> = common_rows(&result.run)
        .into_iter()
        .filter(|(name, _)| *name != "bare loop")
        .collect();
    let per_op = |bytes: u64| bytes as f64 / result.run.ops.max(1) as f64;
    rows.extend([
        (
            "round trips",
            format!("{:.3} each operation", result.round_trips_per_op),
        ),
        (
            "NVM written",
            format!(
                "{} B, {:.1} B each operation",
                result.nvm_bytes_written,
                per_op(result.nvm_bytes_written)
            ),
        ),
        (
            "media written",
            format!(
                "{} B, write amplification {:.3}",
                result.media_bytes_written,
                result.write_amplification()
            ),
        ),
    ]);
    let nodes: Vec<String> = result
        .nodes
        .iter()
        .map(|node| {
            format!(
                "{} {:.1} % ({} ns)",
                node.name,
                node.busy * 100.0,
                node.cpu_ns
            )
        })
        .collect();
    rows.extend([
        ("CPU", nodes.join(", ")),
        ("events", result.events.to_string()),
        ("hash", format!("{:016x}", result.hash)),
    ]);
    rows
}
