//! The flags of a workload of YCSB, and the printed results of a run.

use std::time::Duration;

use clap::{Args, ValueEnum};
use stonecast_console::Size;
use stonecast_console::failure::Failure;
use stonecast_kv::limits::VALUE_SIZE_MAX;
use stonecast_workload::{Distribution, Mix};

use crate::data_set::DataSet;
use crate::kv::{Amount, YcsbOptions};
use crate::result::YcsbResult;

/// The flags of a workload.
#[derive(Clone, Debug, Args)]
pub struct WorkloadFlags {
    /// Mix of operations: a = half updates, b = 5 % updates, c = only reads, update-only.
    #[arg(long, value_enum, default_value = "c")]
    pub workload: WorkloadArgument,
    /// Distribution of keys: zipfian is YCSB's scrambled zipfian of 0.99.
    #[arg(long, value_enum, default_value = "zipfian")]
    pub distribution: DistributionArgument,
    /// Keys that are loaded before the measurement.
    #[arg(long, value_name = "COUNT", default_value_t = 1_000_000, value_parser = clap::value_parser!(u64).range(1..))]
    pub keys: u64,
    /// Client threads, each with a connection of its own.
    #[arg(long, value_name = "COUNT", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub clients: u32,
    /// Bytes of a value.
    #[arg(long, value_name = "SIZE", default_value = "100")]
    pub value_size: Size,
    /// Operations of one client in flight at a time.
    #[arg(long, value_name = "COUNT", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=256))]
    pub in_flight: u32,
    /// Reads in one multi_get, or updates in one multi_put.
    #[arg(long, value_name = "COUNT", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub batch: u32,
    /// Keys whose places in the log each client remembers, 16 bytes each, so that a read takes one round trip. Has no
    /// effect over shared memory, where a read takes no round trip.
    #[arg(long, value_name = "COUNT", default_value_t = 65_536, value_parser = clap::value_parser!(u32).range(0..=1 << 28))]
    pub locations: u32,
    /// Duration of the measurement [default: 10, or 0.05 simulated seconds].
    #[arg(long, value_name = "SECONDS", conflicts_with = "ops")]
    pub seconds: Option<f64>,
    /// Number of operations to measure, over all clients, in place of a duration.
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u64).range(1..))]
    pub ops: Option<u64>,
    /// Seed of keys and values; the same seed makes the same operations.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Prints one JSON object.
    #[arg(long)]
    pub json: bool,
}

impl WorkloadFlags {
    /// The options that the flags make, for `default_seconds` if no amount was given, without the bare loop.
    pub fn options(&self, default_seconds: f64) -> Result<YcsbOptions, Failure> {
        if self.value_size.0 > VALUE_SIZE_MAX as u64 {
            return Err(Failure::usage(format!(
                "--value-size is at most {VALUE_SIZE_MAX} bytes"
            )));
        }
        let seconds = Duration::try_from_secs_f64(self.seconds.unwrap_or(default_seconds))
            .ok()
            .filter(|time| !time.is_zero());
        let seconds =
            seconds.ok_or_else(|| Failure::usage("--seconds is a time greater than 0"))?;
        Ok(YcsbOptions {
            mix: match self.workload {
                WorkloadArgument::A => Mix::A,
                WorkloadArgument::B => Mix::B,
                WorkloadArgument::C => Mix::C,
                WorkloadArgument::UpdateOnly => Mix::UpdateOnly,
            },
            distribution: match self.distribution {
                DistributionArgument::Zipfian => Distribution::ScrambledZipfian,
                DistributionArgument::Uniform => Distribution::Uniform,
            },
            data: DataSet {
                keys: self.keys,
                value_size: self.value_size.0 as usize,
                seed: self.seed,
            },
            clients: self.clients,
            in_flight: self.in_flight,
            batch: self.batch,
            amount: self.ops.map_or(Amount::Time(seconds), Amount::Operations),
            locations: self.locations as usize,
            with_limit: false,
        })
    }
}

/// A mix of operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum WorkloadArgument {
    /// Half reads, half updates.
    A,
    /// 95 % reads, 5 % updates.
    B,
    /// Only reads.
    C,
    /// Only updates.
    UpdateOnly,
}

/// A distribution of keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum DistributionArgument {
    /// YCSB's scrambled zipfian, constant 0.99.
    Zipfian,
    /// Each key with the same probability.
    Uniform,
}

/// The share of keys that were read in one round trip, because the client remembered their places.
fn places(result: &YcsbResult) -> String {
    match result.location_hits + result.location_misses {
        0 => "nothing was read".to_owned(),
        all => format!(
            "{:.1} % of the keys read",
            100.0 * result.location_hits as f64 / all as f64
        ),
    }
}

/// The results of a run for people: names and values.
pub fn rows(result: &YcsbResult) -> Vec<(&'static str, String)> {
    let microseconds = |nanoseconds: u64| format!("{:.2} us", nanoseconds as f64 / 1000.0);
    let server_cpu = |time: Option<f64>| {
        time.map_or("not known".to_owned(), |time| {
            format!("{time:.0} ns each operation")
        })
    };
    let of_limit = |limit: f64| {
        format!(
            "{limit:.0} operations/s, reached {:.2} of it",
            result.ops_per_s / limit
        )
    };
    vec![
        (
            "workload",
            format!(
                "{}, {} keys, values of {} B",
                result.workload, result.keys, result.value_size
            ),
        ),
        (
            "clients",
            format!(
                "{}, each with {} in flight, over {}",
                result.clients, result.in_flight, result.fabric
            ),
        ),
        (
            "operations",
            format!(
                "{} in {:.2} s, {} errors",
                result.ops, result.seconds, result.errors
            ),
        ),
        (
            "throughput",
            format!("{:.0} operations/s", result.ops_per_s),
        ),
        ("latency p50", microseconds(result.p50_ns)),
        ("latency p99", microseconds(result.p99_ns)),
        ("latency p99.9", microseconds(result.p999_ns)),
        ("server CPU", server_cpu(result.server_cpu_ns_per_op)),
        (
            "client CPU",
            format!("{:.0} ns each operation", result.client_cpu_ns_per_op),
        ),
        ("places known", places(result)),
        (
            "bare loop",
            result
                .limit_ops_per_s
                .map_or("not measured".to_owned(), of_limit),
        ),
    ]
}
