//! `bench ycsb`: loads a data set, runs a workload of YCSB on it, and says what came out.

use std::fs;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use clap::{Args, ValueEnum};
use rustix::fs::statvfs;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use signal_hook::low_level::emulate_default_handler;
use stonecast_bench::direct::{
    Amount, Devices, ServerOptions, ServerProcess, Session, SharedMemory, Target, YcsbError,
    YcsbOptions, load, run_on,
};
use stonecast_bench::{DataSet, YcsbResult};
use stonecast_kv::limits::VALUE_SIZE_MAX;
use stonecast_log::record_size;
use stonecast_workload::{Distribution, KeyName, Mix};

use super::sim_ycsb;
use crate::fabric;
use crate::failure::Failure;
use crate::flags::{DurabilityArgument, VerbsFlags};
use crate::output;
use crate::progress::Progress;
use crate::session;
use crate::values::{Address, Fabric, Size};

/// Runs a workload of YCSB against a server, its own or one that runs.
///
/// Without --connect it starts a server on a pool of its own and removes both at the end.
#[derive(Debug, Args)]
#[command(after_help = "\
Example: reads alone, half updates with sixteen in flight on a durable pool, the same between simulated machines
  stonecast bench ycsb --workload c
  stonecast bench ycsb --workload a --in-flight 16 --durability power
  stonecast bench ycsb --workload a --fabric sim:connectx5-rowan --clients 8")]
pub struct Ycsb {
    /// Mix of operations: a = half updates, b = 5 % updates, c = reads alone, update-only.
    #[arg(long, value_enum, default_value = "c")]
    pub workload: WorkloadArgument,
    /// Which keys are asked for: zipfian is YCSB's scrambled zipfian of 0.99.
    #[arg(long, value_enum, default_value = "zipfian")]
    pub distribution: DistributionArgument,
    /// Keys loaded before.
    #[arg(long, value_name = "COUNT", default_value_t = 1_000_000, value_parser = clap::value_parser!(u64).range(1..))]
    pub keys: u64,
    /// Client threads, each with a connection of its own.
    #[arg(long, value_name = "COUNT", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub clients: u32,
    /// Bytes of a value.
    #[arg(long, value_name = "SIZE", default_value = "100")]
    pub value_size: Size,
    /// Operations of one client that wait for an answer at the same time.
    #[arg(long, value_name = "COUNT", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=256))]
    pub in_flight: u32,
    /// Reads that are asked for in one multi_get, or updates that are put with one multi_put.
    #[arg(long, value_name = "COUNT", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub batch: u32,
    /// Keys whose places in the log each client remembers, 16 bytes of its memory each, so that it reads them in one round
    /// trip; 0: none. Over shared memory none are: a read takes no round trip there.
    #[arg(long, value_name = "COUNT", default_value_t = 65_536, value_parser = clap::value_parser!(u32).range(0..=1 << 28))]
    pub locations: u32,
    /// How long to measure [default: 10, in the simulated world 0.05 of its seconds].
    #[arg(long, value_name = "SECONDS", conflicts_with = "ops")]
    pub seconds: Option<f64>,
    /// How many operations to measure instead, over all clients.
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u64).range(1..))]
    pub ops: Option<u64>,
    /// Seed of keys and values; the same seed asks for the same.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// What server and clients go through: shm, or sim:PROFILE, machines in virtual time; PROFILE is connectx3-erda,
    /// connectx3-asymnvm, connectx4-taxonomy, connectx5-rowan or modern.
    #[arg(long, value_name = "FABRIC", default_value = "shm")]
    pub fabric: Fabric,
    /// What writes survive, for the server that this command starts.
    #[arg(
        long,
        value_enum,
        default_value = "process",
        conflicts_with = "connect"
    )]
    pub durability: DurabilityArgument,
    /// Where the pool of the server that this command starts is put [default: /dev/shm for process, the current folder for power].
    #[arg(long, value_name = "DIR", conflicts_with = "connect")]
    pub data: Option<PathBuf>,
    /// Prints one JSON object.
    #[arg(long)]
    pub json: bool,
    /// A running server to measure, shm:PATH or verbs://HOST:PORT; its keys stay there. STONECAST_CONNECT is not looked at.
    #[arg(long, value_name = "URL")]
    pub connect: Option<Address>,
    /// With --connect verbs://HOST:PORT: the keys, as `--keys` of other commands names them.
    #[arg(
        long,
        value_name = "FILE",
        env = "STONECAST_KEYS",
        help_heading = "RDMA"
    )]
    pub key_file: Option<PathBuf>,
    /// RDMA device, as `rdma link` shows it [default: the first one].
    #[arg(
        long,
        value_name = "NAME",
        env = "STONECAST_RDMA_DEVICE",
        help_heading = "RDMA"
    )]
    pub rdma_device: Option<String>,
    /// Entry of the device's table of addresses [default: RoCE v2, IPv4 if there is one].
    #[arg(
        long,
        value_name = "INDEX",
        env = "STONECAST_GID_INDEX",
        help_heading = "RDMA"
    )]
    pub gid_index: Option<u8>,
}

/// A mix of operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum WorkloadArgument {
    /// Half reads, half updates.
    A,
    /// 95 % reads, 5 % updates.
    B,
    /// Reads alone.
    C,
    /// Updates alone.
    UpdateOnly,
}

/// Which keys are asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum DistributionArgument {
    /// YCSB's scrambled zipfian, constant 0.99.
    Zipfian,
    /// Each key alike.
    Uniform,
}

/// How long is measured.
const SECONDS: f64 = 10.0;
/// How long is measured in virtual time: some hundred thousand operations.
const SIMULATED_SECONDS: f64 = 0.05;
/// Where a pool that need not survive power loss is put.
const MEMORY: &str = "/dev/shm";
/// More puts than a client does in a second, so that the pool need not be cleaned while it is measured.
const PUTS_PER_SECOND_MAX: f64 = 3e6;
/// The same where each batch waits for a disk.
const DURABLE_PUTS_PER_SECOND_MAX: f64 = 1e6;
/// A pool has at least this capacity, in bytes, and a multiple of it.
const CAPACITY_STEP: u64 = 256 << 20;

/// See the module documentation.
pub fn run(flags: &Ycsb) -> Result<(), Failure> {
    if let Fabric::Simulated(profile) = &flags.fabric {
        return sim_ycsb::run(flags, **profile, options_of(flags, SIMULATED_SECONDS)?);
    }
    #[cfg(feature = "verbs")]
    if flags.fabric == Fabric::Verbs && flags.connect.is_none() {
        return Err(Failure::usage(
            "over RDMA a server is measured that runs already: name it with --connect verbs://HOST:PORT",
        ));
    }
    let options = options_of(flags, SECONDS)?;
    let own = if flags.connect.is_some() {
        None
    } else {
        Some(start_server(flags, &options)?)
    };
    let (address, devices): (_, Box<dyn Devices>) = match (&own, &flags.connect) {
        (Some(server), _) => (server.address(), Box::new(SharedMemory)),
        (None, Some(address)) => (
            address.to_string(),
            fabric::devices(address, &verbs_of(flags))?,
        ),
        (None, None) => unreachable!("without an address there is an own server"),
    };
    let process = fill(&*devices, &address, options.data)?;
    // Only shared memory says that the server is on this machine.
    let is_here =
        !matches!(&flags.connect, Some(address) if !matches!(address, Address::SharedMemory(_)));
    let server_pid = is_here.then_some(process);
    let progress = Progress::of_count("measuring", Some(1000));
    let target = Target {
        address,
        server_pid,
    };
    let result = run_on(&*devices, &target, &options, |share| {
        progress.set((share * 1000.0) as u64)
    })
    .map_err(|error| match error {
        YcsbError::Options(message) => Failure::usage(message),
        error => error.into(),
    })?;
    drop(progress);
    drop(own);
    if flags.json {
        output::json(&result)
    } else {
        output::table(&rows(&result))
    }
}

fn options_of(flags: &Ycsb, default_seconds: f64) -> Result<YcsbOptions, Failure> {
    if flags.value_size.0 > VALUE_SIZE_MAX as u64 {
        return Err(Failure::usage(format!(
            "--value-size is at most {VALUE_SIZE_MAX} bytes"
        )));
    }
    let seconds = Duration::try_from_secs_f64(flags.seconds.unwrap_or(default_seconds))
        .ok()
        .filter(|time| !time.is_zero());
    let seconds = seconds.ok_or_else(|| Failure::usage("--seconds is a time greater than 0"))?;
    Ok(YcsbOptions {
        mix: match flags.workload {
            WorkloadArgument::A => Mix::A,
            WorkloadArgument::B => Mix::B,
            WorkloadArgument::C => Mix::C,
            WorkloadArgument::UpdateOnly => Mix::UpdateOnly,
        },
        distribution: match flags.distribution {
            DistributionArgument::Zipfian => Distribution::ScrambledZipfian,
            DistributionArgument::Uniform => Distribution::Uniform,
        },
        data: DataSet {
            keys: flags.keys,
            value_size: flags.value_size.0 as usize,
            seed: flags.seed,
        },
        clients: flags.clients,
        in_flight: flags.in_flight,
        batch: flags.batch,
        amount: flags.ops.map_or(Amount::Time(seconds), Amount::Operations),
        locations: flags.locations as usize,
        with_limit: flags.fabric == Fabric::SharedMemory,
    })
}

/// Stores the data set, and returns the process number of the server.
fn fill(devices: &dyn Devices, address: &str, data: DataSet) -> Result<u32, Failure> {
    let session = Session::open_with(devices, address, 0)
        .map_err(|error| session::refused(error, &address.parse().expect("made of an address")))?;
    let progress = Progress::of_count("loading", Some(data.keys));
    load(&session, data, |stored| progress.set(stored))?;
    drop(progress);
    let stat = session.block_on(session.client().stat())?;
    session.close();
    u32::try_from(stat.process)
        .map_err(|_| Failure::operation("the server does not tell its process number"))
}

fn verbs_of(flags: &Ycsb) -> VerbsFlags {
    VerbsFlags {
        keys: flags.key_file.clone(),
        rdma_device: flags.rdma_device.clone(),
        gid_index: flags.gid_index,
    }
}

/// A server of this command's own, on a pool that goes away with it.
fn start_server(flags: &Ycsb, options: &YcsbOptions) -> Result<ServerProcess, Failure> {
    let (durability, default) = match flags.durability {
        DurabilityArgument::Process => ("process", Path::new(MEMORY)),
        DurabilityArgument::Power => ("power", Path::new(".")),
    };
    let parent = flags.data.as_deref().unwrap_or(default);
    let parent = fs::canonicalize(parent)
        .map_err(|error| Failure::operation(format!("cannot use {}: {error}", parent.display())))?;
    let capacity = capacity_for(options, flags.durability, &parent)?;
    let program = std::env::current_exe()?;
    let server = ServerProcess::start(ServerOptions {
        program,
        parent,
        durability,
        capacity,
        publishing: false,
        resp: false,
        published: None,
    })?;
    clean_up_on_signals(server.pool())?;
    Ok(server)
}

/// Room for the data and for every write of the run, as far as the medium goes.
fn capacity_for(
    options: &YcsbOptions,
    durability: DurabilityArgument,
    parent: &Path,
) -> Result<u64, Failure> {
    let record = record_size(
        KeyName::of(options.data.keys).as_bytes().len(),
        options.data.value_size,
    );
    let writes = match options.amount {
        _ if options.mix == Mix::C => 0,
        Amount::Operations(count) => count,
        Amount::Time(time) if durability == DurabilityArgument::Power => {
            (time.as_secs_f64() * DURABLE_PUTS_PER_SECOND_MAX) as u64
        }
        Amount::Time(time) => (time.as_secs_f64() * PUTS_PER_SECOND_MAX) as u64,
    };
    let medium = statvfs(parent)?;
    let wanted = (options.data.keys * 2)
        .saturating_add(writes)
        .saturating_mul(record);
    let room = medium.f_bavail.saturating_mul(medium.f_frsize) / 2;
    Ok(wanted.min(room).next_multiple_of(CAPACITY_STEP))
}

/// A person who stops a benchmark does not want its gigabytes.
fn clean_up_on_signals(pool: PathBuf) -> Result<(), Failure> {
    let mut signals = Signals::new([SIGINT, SIGTERM])?;
    thread::spawn(move || {
        if let Some(signal) = signals.forever().next() {
            // The server ends with this process; what it holds open is freed then.
            let _ = pool.parent().map(fs::remove_dir_all);
            let _ = emulate_default_handler(signal);
        }
    });
    Ok(())
}

/// How many keys were read in one round trip, because the client remembered their places.
fn places(result: &YcsbResult) -> String {
    match result.location_hits + result.location_misses {
        0 => "nothing was read".to_owned(),
        all => format!(
            "{:.1} % of the keys read",
            100.0 * result.location_hits as f64 / all as f64
        ),
    }
}

pub(super) fn rows(result: &YcsbResult) -> Vec<(&'static str, String)> {
    let microseconds = |nanoseconds: u64| format!("{:.2} us", nanoseconds as f64 / 1000.0);
    let server_cpu = |time: Option<f64>| {
        time.map_or("not known here".to_owned(), |time| {
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
