//! `bench remotelog`: what an append to a log in remote memory costs on each platform.

use std::fs;
use std::path::PathBuf;

use clap::Args;
use stonecast_bench::remotelog::{measure_shared_memory, measure_simulated, page, svg, table};
use stonecast_fabric_sim::Profile;

use crate::failure::Failure;
use crate::output;
use crate::values::Fabric;

/// `bench remotelog`.
#[derive(Debug, Args)]
pub struct Remotelog {
    /// Where: sim:PROFILE measures the 72 published scenarios in virtual time, shm those that this host executes for real.
    #[arg(long, default_value = "sim:connectx4-taxonomy")]
    pub fabric: Fabric,
    /// Appends of each scenario.
    #[arg(long, value_name = "COUNT", default_value_t = 1000, value_parser = clap::value_parser!(u64).range(1..))]
    pub appends: u64,
    /// With --fabric shm: the folder of the log, on the disk that is to be measured [default: the current one].
    #[arg(long, value_name = "DIR")]
    pub data: Option<PathBuf>,
    /// Prints one JSON object for each scenario.
    #[arg(long, conflicts_with = "markdown")]
    pub json: bool,
    /// Prints the page of the documentation, with published numbers beside these; for sim:connectx4-taxonomy alone.
    #[arg(long)]
    pub markdown: bool,
    /// Also draws the bars into this file, as SVG; for simulated machines alone.
    #[arg(long, value_name = "FILE")]
    pub figure: Option<PathBuf>,
}

/// The machines that the published numbers are of.
const PUBLISHED: &str = "connectx4-taxonomy";

/// See the module documentation.
pub fn run(flags: &Remotelog) -> Result<(), Failure> {
    let measured = match &flags.fabric {
        Fabric::Simulated(profile) => {
            check_simulated(flags, profile)?;
            measure_simulated(**profile, flags.appends)?
        }
        Fabric::SharedMemory => {
            if flags.markdown || flags.figure.is_some() {
                return Err(Failure::usage("--markdown and --figure show all published scenarios: use --fabric sim:PROFILE"));
            }
            let folder = flags.data.clone().unwrap_or_else(|| PathBuf::from("."));
            measure_shared_memory(&folder, flags.appends)?
        }
    };
    if let Some(file) = &flags.figure {
        let refuse = |error| Failure::operation(format!("cannot write {}: {error}", file.display()));
        fs::write(file, svg(&measured)).map_err(refuse)?;
    }
    if flags.json {
        return measured.iter().try_for_each(output::json);
    }
    let text = if flags.markdown { page(&measured) } else { table(&measured) };
    output::bytes(text.as_bytes())
}

fn check_simulated(flags: &Remotelog, profile: &Profile) -> Result<(), Failure> {
    if flags.data.is_some() {
        return Err(Failure::usage("--data is the place of a real log; it has no meaning with --fabric sim:PROFILE"));
    }
    if flags.markdown && profile.name != PUBLISHED {
        return Err(Failure::usage(format!("--markdown compares with published numbers, which are of sim:{PUBLISHED}")));
    }
    Ok(())
}
