//! `compare`: the figures of the README, each beside its yardstick. `cargo xtask bench` builds the binaries and runs
//! the command.

use std::io::{IsTerminal as _, Write as _};
use std::path::PathBuf;
use std::time::Duration;

use clap::{ArgAction, Args, Subcommand};
use stonecast_bench::DataSet;
use stonecast_lab::busy_cores;
use stonecast_lab::figures::{FigureOptions, Report, run_figures};
use stonecast_lab::structures::{StructuresOptions, compare_structures};

use crate::failure::Failure;

/// Measures the figures of the project, each beside its yardstick, and names the figures that miss their target.
///
/// The other stores are LMDB, in this process, and redis-server, if installed.
#[derive(Debug, Args)]
#[command(
    disable_help_flag = true,
    args_conflicts_with_subcommands = true,
    after_help = "\
Example: everything, one figure with more operations, and data structures beside LMDB
  stonecast-lab compare
  stonecast-lab compare --only get --seconds 10
  stonecast-lab compare structures --keys 100000"
)]
pub struct Compare {
    /// Measures something else.
    #[command(subcommand)]
    instead: Option<Instead>,
    /// Prints help.
    #[arg(long = "help-figures", visible_alias = "help", short = 'h', action = ArgAction::Help)]
    help: Option<bool>,
    /// Number of records in every store.
    #[arg(long, value_name = "COUNT", default_value_t = 1_000_000, value_parser = clap::value_parser!(u64).range(1..))]
    keys: u64,
    /// Bytes of each value.
    #[arg(long, value_name = "BYTES", default_value_t = 100)]
    value_size: usize,
    /// Duration of each measurement.
    #[arg(long, default_value_t = 2.0)]
    seconds: f64,
    /// Number of puts in each measurement of writes without a sync.
    #[arg(long, value_name = "COUNT", default_value_t = 2_000_000)]
    puts: u64,
    /// Number of measurements of each figure, in turn with the others.
    #[arg(long, value_name = "COUNT", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..))]
    repetitions: u32,
    /// Bytes of a pool's log, unless the data needs more; the default is that of `stonecast serve`.
    #[arg(long, value_name = "BYTES", default_value_t = 1 << 30)]
    capacity: u64,
    /// Seed of keys and values.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Measures only this figure; may be given more than once.
    #[arg(long, value_name = "NAME")]
    only: Vec<String>,
    /// The stonecast binary [default: the one beside this program].
    #[arg(long, value_name = "FILE")]
    program: Option<PathBuf>,
    /// Folder in memory, for pools without a disk.
    #[arg(long, value_name = "DIR", default_value = "/dev/shm")]
    memory_folder: PathBuf,
    /// Folder on a disk, for pools that must survive power loss [default: the current one].
    #[arg(long, value_name = "DIR")]
    disk_folder: Option<PathBuf>,
    /// Prints JSON, one line for each figure.
    #[arg(long)]
    json: bool,
}

/// The subjects that are measured in place of the figures of the README.
#[derive(Debug, Subcommand)]
enum Instead {
    Structures(Structures),
}

/// Measures a B+tree of a back-end in another process beside LMDB and redb in this process, the restart of a back-end,
/// and readers beside a writer in the simulated world, and names the figures that miss their target.
#[derive(Debug, Args)]
#[command(after_help = "\
Example: a tree of 100,000 entries, a minute of durable inserts, and the restart with 10 million entries
  stonecast-lab compare structures --keys 100000
  stonecast-lab compare structures --only b-tree-durable-16 --only b-tree-durable-128 --seconds 60
  stonecast-lab compare structures --only b-tree-restart --keys 10000000")]
struct Structures {
    /// Number of entries of each store, of 8 + 100 bytes.
    #[arg(long, value_name = "COUNT", default_value_t = 1_000_000, value_parser = clap::value_parser!(u64).range(1000..))]
    keys: u64,
    /// Duration of each measurement.
    #[arg(long, default_value_t = 2.0)]
    seconds: f64,
    /// Number of measurements of each figure, in turn with LMDB.
    #[arg(long, value_name = "COUNT", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..))]
    repetitions: u32,
    /// Seed of the keys.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// The stonecast binary [default: the one beside this program].
    #[arg(long, value_name = "FILE")]
    program: Option<PathBuf>,
    /// Measures only this figure; may be given more than once.
    #[arg(long, value_name = "NAME")]
    only: Vec<String>,
    /// Folder in memory, for stores that survive the death of processes alone.
    #[arg(long, value_name = "DIR", default_value = "/dev/shm")]
    memory_folder: PathBuf,
    /// Folder on a disk, for stores that survive the loss of power [default: the current one].
    #[arg(long, value_name = "DIR")]
    disk_folder: Option<PathBuf>,
    /// Prints JSON, one line for each figure.
    #[arg(long)]
    json: bool,
}

fn run_structures(arguments: &Structures) -> Result<(), Failure> {
    warn_if_busy()?;
    let report = compare_structures(&StructuresOptions {
        keys: arguments.keys,
        duration: Duration::try_from_secs_f64(arguments.seconds)?,
        repetitions: arguments.repetitions,
        seed: arguments.seed,
        program: program(arguments.program.as_ref())?,
        memory_folder: arguments.memory_folder.clone(),
        disk_folder: match &arguments.disk_folder {
            Some(folder) => folder.clone(),
            None => std::env::current_dir()?,
        },
        only: arguments.only.clone(),
    })?;
    print(&report, arguments.json)
}

/// Operations drawn for each sequence: enough that a round touches most keys, few enough to draw in a second.
const SEQUENCE_LENGTH: usize = 1 << 22;
/// Load by other programs, in cores, above which a figure is worth little.
const BUSY_CORES_MAX: f64 = 0.15;
/// Time for which that load is measured.
const LOOK: Duration = Duration::from_millis(500);

/// The `stonecast` binary: the named one, or the one beside this program.
pub fn program(named: Option<&PathBuf>) -> Result<PathBuf, Failure> {
    let program = match named {
        Some(program) => program.clone(),
        None => std::env::current_exe()?.with_file_name("stonecast"),
    };
    if !program.exists() {
        return Err(Failure::operation(format!(
            "{} does not exist; build it with `cargo build --release`",
            program.display()
        )));
    }
    Ok(program)
}

/// Fails if a figure missed its target.
pub fn run(arguments: &Compare) -> Result<(), Failure> {
    if let Some(Instead::Structures(arguments)) = &arguments.instead {
        return run_structures(arguments);
    }
    let program = program(arguments.program.as_ref())?;
    let options = FigureOptions {
        data: DataSet {
            keys: arguments.keys,
            value_size: arguments.value_size,
            seed: arguments.seed,
        },
        duration: Duration::try_from_secs_f64(arguments.seconds)?,
        puts: arguments.puts,
        repetitions: arguments.repetitions,
        capacity: arguments.capacity,
        sequence_length: SEQUENCE_LENGTH,
        program,
        memory_folder: arguments.memory_folder.clone(),
        disk_folder: match &arguments.disk_folder {
            Some(folder) => folder.clone(),
            None => std::env::current_dir()?,
        },
        only: arguments.only.clone(),
    };
    let terminal = std::io::stderr().is_terminal();
    let mut say = |text: &str| {
        if terminal {
            eprintln!("{text}");
        }
    };
    warn_if_busy()?;
    print(&run_figures(&options, &mut say)?, arguments.json)
}

fn warn_if_busy() -> Result<(), Failure> {
    let busy = busy_cores(LOOK)?;
    if busy > BUSY_CORES_MAX {
        eprintln!(
            "warning: other programs keep {busy:.1} cores busy; figures of this run are worth little"
        );
    }
    Ok(())
}

/// Fails if a figure missed its target.
fn print(report: &Report, as_json: bool) -> Result<(), Failure> {
    let text = if as_json {
        report.json_lines()
    } else {
        report.table()
    };
    std::io::stdout().write_all(text.as_bytes())?;
    if report.reached() {
        Ok(())
    } else {
        Err(Failure::operation("a figure missed its target"))
    }
}
