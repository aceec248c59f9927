//! Every script of the project: `cargo xtask COMMAND`.
//!
//! | file | content |
//! | --- | --- |
//! | `ci.rs` | the whole test command: its steps, in order |
//! | `step.rs` | one step: runs a command, shows it, counts its tests |
//! | `selection.rs` | packages that several steps build alike |
//! | `tally.rs` | counts of passed and failed tests, and those not run |
//! | `needs/` | the needs of steps, and their installation |
//! | `fresh/` | the first commands of a newcomer, and every step that installs something, in a bare Debian |
//! | `metadata.rs` | the workspace, from `cargo metadata` |
//! | `mutants.rs` | the campaign that must find every seeded bug |
//! | `executables.rs` | test executables, built and not run by cargo |
//! | `layers.rs` | the crates that each crate may name |
//! | `c_library/` | the C library, installed below a prefix with its header and its files of pkg-config |
//! | `build_time.rs` | processor time of the release build, beside that of an older commit |
//! | `python.rs` | the wheel of the Python package, installed in a fresh environment, and its tests |
//! | `packaging/` | binary, manual, completions, unit and example configuration: in one folder, as a package of Debian, as an image |
//! | `example_lock.rs` | the check that the lock file outside the workspace is up to date |
//! | `source_rules.rs`, `lexer.rs` | forbidden words of source text |
//! | `types.rs`, `type_names.rs` | the files, the fields and the name of a type |
//! | `comments.rs` | comments that say nothing |
//! | `guest/` | jobs in an emulated machine: persistent memory, real verbs, power cuts |
//! | `sim.rs` | seeds of the simulated world |
//! | `campaign/` | the long campaign, once for each release |
//! | `doc_paths.rs` | the check that the files exist that the documentation names |
//! | `doc_tables.rs` | tables of the documentation that are printed from facts |
//! | `design_index.rs` | the check that the index of the design pages names every page |
//! | `glossary.rs` | the check that each row of the glossary has a term or a context of its own |
#![forbid(unsafe_code)]

mod beside;
mod build_time;
mod c_library;
mod campaign;
mod ci;
mod circles;
mod comments;
mod design_index;
mod doc_paths;
mod doc_tables;
mod example_lock;
mod executables;
mod fresh;
mod glossary;
mod guest;
mod layers;
mod lexer;
mod metadata;
mod mutants;
mod needs;
mod packaging;
mod python;
mod selection;
mod shown;
mod sim;
mod source_rules;
mod step;
mod tally;
mod time_limit;
mod tools;
mod type_names;
mod types;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Result;
use clap::{Parser, Subcommand};

/// Every script of the project.
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Runs everything that must pass before a change lands: format, lints, layers, tests, models, docs, end to end.
    Ci {
        /// Only these steps (see `--list`).
        #[arg(long = "step", value_name = "NAME")]
        steps: Vec<String>,
        /// Prints the names of the steps.
        #[arg(long)]
        list: bool,
        /// Leaves out the steps that would not end within this time, and names them.
        #[arg(long, value_name = "MINUTES")]
        within: Option<u64>,
    },
    /// Runs the long campaign: seeds of every scenario, 10 million crash states of the store, every seeded bug. Prints
    /// commit and totals in the form of docs/testing.md. Takes hours; a part that is done is not run again at the same
    /// commit.
    Campaign {
        /// Percentage of the counts.
        #[arg(long, value_name = "PERCENT", default_value_t = 100.0)]
        percent: f64,
        /// Only this part of each order: `2/8` is the second of eight. Seeded bugs belong to the first.
        #[arg(long, value_name = "PART", default_value = "1/1")]
        part: campaign::Part,
        /// Only this order: a scenario, `quiesce`, `structures-kills`, `largest-cluster`, `mirror-pairs`, `node-kills`,
        /// `etcd-loss`, `large-move`, or `mutants`; may be given more than once.
        #[arg(long = "order", value_name = "ORDER")]
        orders: Vec<String>,
        /// Runs nothing, and prints the totals of the parts that are done.
        #[arg(long)]
        report: bool,
        /// Plants no seeded bugs.
        #[arg(long)]
        no_mutants: bool,
    },
    /// Measures the figures of the README, each with its target ratio. Installs the peers for the
    /// comparison.
    Bench {
        /// Cargo's profile of both binaries: `release`, or `dist`, which packages have.
        #[arg(long, default_value = "release")]
        profile: String,
        /// Arguments for the figures runner; `cargo xtask bench --help-figures` shows them.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<String>,
    },
    /// Runs real Redis clients against the gateway, each installed in a pinned version.
    Conformance,
    /// Runs tests in an emulated machine: persistent memory, real verbs, power cuts.
    Guest {
        /// Only these jobs.
        #[arg(long, value_name = "NAME")]
        only: Vec<String>,
        /// Number of power cuts.
        #[arg(long, value_name = "COUNT")]
        cuts: Option<u32>,
        /// The seed of the moments of power cuts [default: from the clock].
        #[arg(long)]
        seed: Option<u64>,
        /// Builds programs with the dev profile: faster to build, slower to run.
        #[arg(long)]
        dev: bool,
        /// Uses the programs of the last run.
        #[arg(long)]
        no_build: bool,
    },
    /// Plants one seeded bug after the other, and runs seeds in the simulated world until an oracle objects. Every bug
    /// must be found within 10,000 seeds, and no oracle may object to the unchanged store.
    Mutants {
        /// Names of mutants (all, if none is named), and `--seeds N` as the maximum.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<String>,
    },
    /// Measures the processor time of the release build, from nothing and with one job, beside that of commit BASE.
    /// Takes minutes.
    BuildTime {
        /// The commit to compare with.
        #[arg(value_name = "BASE")]
        base: String,
    },
    /// Builds the C library and installs it, with its header and its files of pkg-config, below a prefix.
    CLibrary {
        /// The folder with `include` and `lib`. It can be moved afterwards.
        #[arg(long, value_name = "DIR")]
        prefix: PathBuf,
        /// Cargo's profile: `release`, or `dist`, which packages have.
        #[arg(long, default_value = "release")]
        profile: String,
        /// Also reaches servers on other machines, over RDMA; needs cmake, make and libclang.
        #[arg(long)]
        verbs: bool,
    },
    /// Builds packages into target/packaging: binary, manual, completions, unit and example configuration in one
    /// folder, as a package of Debian, and as an image of a container.
    Packaging {
        /// The binary [default: built with the profile `dist`].
        #[arg(long, value_name = "FILE")]
        program: Option<PathBuf>,
    },
    /// Runs fresh seeds of the simulated world for a while. A failure is printed with the command that repeats the run.
    Sim {
        /// Duration of the campaign.
        #[arg(long, value_name = "MINUTES", default_value_t = 10.0)]
        minutes: f64,
    },
    /// Lists the needs of the steps of `ci` beside Rust and a C compiler, and whether each is installed.
    Needs {
        /// Only the needs of these steps.
        #[arg(value_name = "STEP")]
        steps: Vec<String>,
        /// Installs missing needs: with apt, as root.
        #[arg(long)]
        install: bool,
    },
    /// Checks the dependencies between crates and the lock file of the examples, and searches source text for forbidden
    /// words.
    Layers,
    /// Checks the tables of the documentation that are printed from facts.
    DocTables {
        /// Writes the tables.
        #[arg(long)]
        write: bool,
    },
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    match run(arguments.command) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Runs a command. `false`: the command ran, and a check failed.
fn run(command: Command) -> Result<bool> {
    match command {
        Command::Ci { list: true, .. } => {
            ci::list();
            Ok(true)
        }
        Command::Ci { steps, within, .. } => ci::run(
            &steps,
            within.map(|minutes| Duration::from_secs(60 * minutes)),
        ),
        Command::Campaign {
            percent,
            part,
            orders,
            report,
            no_mutants,
        } => campaign::run(&campaign::CampaignOptions {
            percent,
            part,
            orders,
            with_mutants: !no_mutants,
            only_report: report,
        }),
        Command::Bench { profile, arguments } => ci::bench(&profile, &arguments),
        Command::Conformance => ci::run(&["conformance".to_owned()], None),
        Command::Guest {
            only,
            cuts,
            seed,
            dev,
            no_build,
        } => guest::run(&guest::GuestOptions {
            cuts,
            only,
            seed,
            dev,
            no_build,
        }),
        Command::Mutants { arguments } => ci::mutants(&arguments),
        Command::BuildTime { base } => build_time::run(&base),
        Command::CLibrary {
            prefix,
            profile,
            verbs,
        } => c_library::run(&prefix, &profile, verbs),
        Command::Packaging { program } => packaging::run(program),
        Command::Sim { minutes } => sim::fresh_seeds(Duration::try_from_secs_f64(minutes * 60.0)?),
        Command::Needs { steps, install } => needs::run(&steps, install),
        Command::Layers => {
            let findings = ci::layer_findings()?;
            findings.iter().for_each(|finding| eprintln!("{finding}"));
            Ok(findings.is_empty())
        }
        Command::DocTables { write } => {
            let findings = doc_tables::run(write)?;
            findings.iter().for_each(|finding| eprintln!("{finding}"));
            Ok(findings.is_empty())
        }
    }
}
