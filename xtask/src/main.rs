//! Every script of the project: `cargo xtask COMMAND`.
//!
//! | file | what |
//! | --- | --- |
//! | `ci.rs` | the whole test command: what runs, in which order |
//! | `step.rs` | one step: runs a command, shows it, counts its tests |
//! | `tally.rs` | what passed, what failed, what was not run |
//! | `needs/` | what steps need of the system, and how it is installed |
//! | `fresh/` | the first commands of a newcomer, and all that installs something, in a bare Debian |
//! | `metadata.rs` | the workspace as `cargo metadata` tells it |
//! | `mutants.rs` | the campaign that must find every seeded bug |
//! | `layers.rs` | which crate may name which |
//! | `packaging.rs` | binary, manual, completions, unit and example configuration in one folder |
//! | `source_rules.rs`, `lexer.rs` | what source text may not contain, and where |
//! | `guest/` | jobs in an emulated machine: persistent memory, real verbs, power cuts |
//! | `sim.rs` | campaigns in the simulated world |
//! | `doc_tables.rs` | tables of the documentation that are printed from facts |
//! | `design_index.rs` | the index of the design pages names every page |
#![forbid(unsafe_code)]

mod ci;
mod design_index;
mod doc_tables;
mod fresh;
mod guest;
mod layers;
mod lexer;
mod metadata;
mod mutants;
mod needs;
mod packaging;
mod sim;
mod source_rules;
mod step;
mod tally;
mod tools;

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
        /// Names the steps and ends.
        #[arg(long)]
        list: bool,
    },
    /// Measures the figures of the README: every line with the ratio it must reach. Installs the peers it compares with.
    Bench {
        /// Arguments for the figures runner; `cargo xtask bench --help-figures` shows them.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<String>,
    },
    /// Runs real Redis clients against the gateway, each installed in a pinned version.
    Conformance,
    /// Runs what needs a machine of its own in an emulated one: persistent memory, real verbs, power cuts.
    Guest {
        /// Only these jobs.
        #[arg(long, value_name = "NAME")]
        only: Vec<String>,
        /// How often the power is cut.
        #[arg(long, value_name = "COUNT")]
        cuts: Option<u32>,
        /// Where the moments of power cuts come from [default: the clock].
        #[arg(long)]
        seed: Option<u64>,
        /// Builds programs with the dev profile: sooner built, slower.
        #[arg(long)]
        dev: bool,
        /// Takes the programs that the last run left.
        #[arg(long)]
        no_build: bool,
    },
    /// Plants one seeded bug after the other and runs seeds in the simulated world until an oracle objects: all must be
    /// found, each within 10,000 seeds, and nothing in the store as it is.
    Mutants {
        /// Names of mutants (all, if none is), `--seeds N` at most.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<String>,
    },
    /// Builds what a package holds into target/packaging: binary, manual, completions, unit, example configuration.
    Packaging,
    /// Runs fresh seeds of the simulated world for a while. What fails is printed with the command that replays it.
    Sim {
        /// How long.
        #[arg(long, value_name = "MINUTES", default_value_t = 10.0)]
        minutes: f64,
    },
    /// Says what the steps of `ci` need of the system beside Rust and a C compiler, and whether it is there.
    Needs {
        /// Only what these steps need.
        #[arg(value_name = "STEP")]
        steps: Vec<String>,
        /// Installs what is missing: with apt, as root.
        #[arg(long)]
        install: bool,
    },
    /// Checks which crate names which, and what source text may not contain.
    Layers,
    /// Checks the tables of the documentation that are printed from facts.
    DocTables {
        /// Writes them instead.
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

/// `false`: it ran, and something is not as it must be.
fn run(command: Command) -> Result<bool> {
    match command {
        Command::Ci { list: true, .. } => {
            ci::list();
            Ok(true)
        }
        Command::Ci { steps, list: false } => ci::run(&steps),
        Command::Bench { arguments } => ci::bench(&arguments),
        Command::Conformance => ci::run(&["conformance".to_owned()]),
        Command::Guest {
            only,
            cuts,
            seed,
            dev,
            no_build,
        } => guest::run(&guest::Options {
            cuts,
            only,
            seed,
            dev,
            no_build,
        }),
        Command::Mutants { arguments } => ci::mutants(&arguments),
        Command::Packaging => packaging::run(),
        Command::Sim { minutes } => sim::campaign(Duration::try_from_secs_f64(minutes * 60.0)?),
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
