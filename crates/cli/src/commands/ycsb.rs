//! `bench ycsb`: loads a data set, runs a workload of YCSB on it, and reports the result.

use std::fs;
use std::path::{Path, PathBuf};
use std::thread;

use clap::{ArgMatches, Args, FromArgMatches};
use rustix::fs::statvfs;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use signal_hook::low_level::emulate_default_handler;
use stonecast::Address;
use stonecast_bench::kv::{
    Amount, Devices, ServerOptions, ServerProcess, Session, SharedMemory, Target, YcsbError,
    YcsbOptions, load, run_on,
};
use stonecast_bench::{DataSet, WorkloadFlags, rows};
use stonecast_log::record_size;
use stonecast_workload::{KeyName, Mix};

use crate::fabric;
use crate::failure::Failure;
use crate::flags::{DurabilityArgument, VerbsFlags};
use crate::output;
use crate::progress::Progress;
use crate::values::{self, Fabric};

/// Runs a workload of YCSB against a server of its own or a running one.
///
/// Without --connect, the command starts a server on a pool of its own, and removes both at the end.
#[derive(Debug, Args)]
#[command(after_help = "\
Example: reads alone, and half updates with sixteen in flight on a durable pool
  stonecast bench ycsb --workload c
  stonecast bench ycsb --workload a --in-flight 16 --durability power")]
pub struct Ycsb {
    #[command(flatten)]
    pub workload: WorkloadFlags,
    /// Fabric between server and clients: shm, or verbs with --connect.
    #[arg(long, value_name = "FABRIC", default_value = "shm")]
    pub fabric: Fabric,
    /// Failures that writes survive, for the server that this command starts.
    #[arg(
        long,
        value_enum,
        default_value = "process",
        conflicts_with = "connect"
    )]
    pub durability: DurabilityArgument,
    /// Folder for the pool of the server that this command starts [default: /dev/shm for process, the current folder
    /// for power].
    #[arg(long, value_name = "DIR", conflicts_with = "connect")]
    pub data: Option<PathBuf>,
    /// A running server to measure, shm:PATH or verbs://HOST:PORT; the keys of the benchmark stay in its pool.
    /// STONECAST_CONNECT is ignored.
    #[arg(long, value_name = "URL", value_parser = values::address)]
    pub connect: Option<Address>,
    #[command(flatten)]
    pub rdma: RdmaFlags,
}

/// The flags of a server at verbs://HOST:PORT. The flag for RDMA keys has another name here, because `--keys` counts
/// keys of the store.
#[derive(Debug)]
pub struct RdmaFlags(VerbsFlags);

/// The arguments that make [`RdmaFlags`].
#[derive(Args)]
#[command(next_help_heading = "RDMA")]
struct RdmaArguments {
    /// With --connect verbs://HOST:PORT: the key file, as for `--keys` of other commands.
    #[arg(long, value_name = "FILE", env = "STONECAST_KEYS")]
    key_file: Option<PathBuf>,
    /// RDMA device, by its name in `rdma link` [default: the first one].
    #[arg(long, value_name = "NAME", env = "STONECAST_RDMA_DEVICE")]
    rdma_device: Option<String>,
    /// Entry of the device's table of addresses [default: RoCE v2, IPv4 if there is one].
    #[arg(long, value_name = "INDEX", env = "STONECAST_GID_INDEX")]
    gid_index: Option<u8>,
}

impl Args for RdmaFlags {
    fn augment_args(command: clap::Command) -> clap::Command {
        RdmaArguments::augment_args(command)
    }

    fn augment_args_for_update(command: clap::Command) -> clap::Command {
        RdmaArguments::augment_args_for_update(command)
    }
}

impl FromArgMatches for RdmaFlags {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let RdmaArguments {
            key_file,
            rdma_device,
            gid_index,
        } = RdmaArguments::from_arg_matches(matches)?;
        let flags = VerbsFlags::new(key_file, rdma_device, gid_index);
        let names = [
            ("key_file", "--key-file"),
            ("rdma_device", "--rdma-device"),
            ("gid_index", "--gid-index"),
        ];
        Ok(Self(flags.typed_in(matches, &names)))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

/// The duration of the measurement.
const SECONDS: f64 = 10.0;
/// The folder for a pool that need not survive power loss.
const MEMORY: &str = "/dev/shm";
/// More puts than a client completes in a second, so that no cleaning runs during the measurement.
const PUTS_PER_SECOND_MAX: f64 = 3e6;
/// More puts than a client completes in a second if each batch waits for a disk.
const DURABLE_PUTS_PER_SECOND_MAX: f64 = 1e6;
/// The capacity of a pool, in bytes, is a multiple of this number.
const CAPACITY_STEP: u64 = 256 << 20;

/// Runs the workload, and reports the result.
pub fn run(flags: &Ycsb) -> Result<(), Failure> {
    #[cfg(feature = "verbs")]
    if flags.fabric == Fabric::Verbs && flags.connect.is_none() {
        return Err(Failure::usage(
            "over RDMA, only a running server can be measured: name it with --connect verbs://HOST:PORT",
        ));
    }
    flags.rdma.0.check(flags.connect.as_ref())?;
    if flags.connect.as_ref().is_some_and(Address::is_cluster) {
        return Err(Failure::usage(
            "bench ycsb measures one server: the reports of processor time and the bare loop are of one process, and its \
             client asks no configuration. `stonecast-lab compare --only nodes-get --only nodes-put-etcd` measures three \
             nodes of its own, and `stonecast bench ycsb --connect shm:PATH` a server without a cluster",
        ));
    }
    let options = YcsbOptions {
        with_limit: flags.fabric == Fabric::SharedMemory,
        ..flags.workload.options(SECONDS)?
    };
    let own = if flags.connect.is_some() {
        None
    } else {
        Some(start_server(flags, &options)?)
    };
    let (address, devices): (_, Box<dyn Devices>) = match (&own, &flags.connect) {
        (Some(server), _) => (server.address(), Box::new(SharedMemory)),
        (None, Some(address)) => (
            address.to_string(),
            fabric::devices(address, &flags.rdma.0)?,
        ),
        (None, None) => unreachable!("a command without an address has a server of its own"),
    };
    let (process, shards) = fill(&*devices, &address, options.data)?;
    if options.with_limit && shards > 1 {
        output::say(format_args!(
            "no bare loop: it reads one index, and the server has one for each of its {shards} shards"
        ));
    }
    // Shared memory alone shows that the server is on this machine.
    let is_here = flags
        .connect
        .as_ref()
        .is_none_or(|address| address.socket().is_some());
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
    if flags.workload.json {
        output::json(&result)
    } else {
        output::table(&rows(&result))
    }
}

/// Stores the data set, and returns the process number and the number of shards of the server.
fn fill(devices: &dyn Devices, address: &str, data: DataSet) -> Result<(u32, u32), Failure> {
    let session = Session::open_with(devices, address, 0)?;
    let progress = Progress::of_count("loading", Some(data.keys));
    load(&session, data, |stored| progress.set(stored))?;
    drop(progress);
    let stat = session.block_on(session.client().stat())?;
    let shards = session.client().shards();
    session.close();
    let process = u32::try_from(stat.process)
        .map_err(|_| Failure::operation("the server does not tell its process number"))?;
    Ok((process, shards))
}

/// Starts a server for this command, on a pool that is removed with the server.
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
        instead: None,
    })?;
    clean_up_on_signals(server.pool())?;
    Ok(server)
}

/// Returns a capacity for the data and for every write of the run, as far as the medium has room.
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

/// Removes the pool on a signal, so that an interrupted benchmark leaves no gigabytes behind.
fn clean_up_on_signals(pool: PathBuf) -> Result<(), Failure> {
    let mut signals = Signals::new([SIGINT, SIGTERM])?;
    thread::spawn(move || {
        if let Some(signal) = signals.forever().next() {
            // The server ends with this process, and the files that it holds open are freed then.
            let _ = pool.parent().map(fs::remove_dir_all);
            let _ = emulate_default_handler(signal);
        }
    });
    Ok(())
}
