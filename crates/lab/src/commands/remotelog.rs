//! `remotelog`: the cost of an append to a log in remote memory on each platform.

use std::fs;
use std::path::PathBuf;

use clap::Args;
use stonecast_fabric_sim::MachineProfile;
use stonecast_lab::papers::page;
#[cfg(feature = "verbs")]
use stonecast_lab::remotelog::{Ends, measure_on};
use stonecast_lab::remotelog::{
    PAPER, PUBLISHED, measure_shared_memory, measure_simulated, points, svg, table,
};

use crate::fabric::Fabric;
use crate::failure::Failure;
use crate::output;

/// Appends to a log in remote memory, made durable in each of the ways that platforms require.
#[derive(Debug, Args)]
#[command(after_help = "\
Example: a table of all published scenarios, the figure of it, and what the disk under the current folder does
  stonecast-lab remotelog
  stonecast-lab remotelog --figure remotelog.svg
  stonecast-lab remotelog --fabric shm --appends 200
  stonecast-lab remotelog --fabric verbs --data /dev/dax0.0")]
pub struct Remotelog {
    /// The fabric: sim:PROFILE measures the 72 published scenarios in virtual time; shm and verbs measure the scenarios
    /// that this host can execute, over shared memory or between two of its RDMA devices.
    #[arg(long, default_value = "sim:connectx4-taxonomy")]
    pub fabric: Fabric,
    /// Appends of each scenario.
    #[arg(long, value_name = "COUNT", default_value_t = 1000, value_parser = clap::value_parser!(u64).range(1..))]
    pub appends: u64,
    /// With --fabric shm or verbs: the folder of the log, on the disk to measure, or a device of
    /// persistent memory without a pool, whose content is lost [default: the current folder].
    #[arg(long, value_name = "DIR")]
    pub data: Option<PathBuf>,
    /// With --fabric verbs: the device of the machine with the log, by its name in `rdma link` [default: the first
    /// one].
    #[arg(long, value_name = "NAME", env = "STONECAST_RDMA_DEVICE")]
    pub rdma_device: Option<String>,
    /// With --fabric verbs: the device of the machine that appends [default: that of the log].
    #[arg(long, value_name = "NAME")]
    pub requester_device: Option<String>,
    /// Prints one JSON object for each scenario.
    #[arg(long, conflicts_with = "markdown")]
    pub json: bool,
    /// Prints the page of the documentation, with the published numbers; only for
    /// sim:connectx4-taxonomy.
    #[arg(long)]
    pub markdown: bool,
    /// Also draws the bars into this file, as SVG; only for simulated machines.
    #[arg(long, value_name = "FILE")]
    pub figure: Option<PathBuf>,
}

/// Measures the appends that `flags` select.
pub fn run(flags: &Remotelog) -> Result<(), Failure> {
    let measured = match &flags.fabric {
        Fabric::Simulated(profile) => {
            check_simulated(flags, profile)?;
            measure_simulated(**profile, flags.appends)?
        }
        Fabric::SharedMemory => {
            check_real(flags)?;
            measure_shared_memory(&medium_of(flags), flags.appends)?
        }
        #[cfg(feature = "verbs")]
        Fabric::Verbs => {
            check_real(flags)?;
            let responder = flags.rdma_device.as_deref();
            let ends = crate::fabric::both_ends(
                flags.requester_device.as_deref().or(responder),
                responder,
            )?;
            measure_on(
                Ends {
                    requester: &*ends[0],
                    responder: &*ends[1],
                },
                &medium_of(flags),
                flags.appends,
            )?
        }
    };
    if let Some(file) = &flags.figure {
        let refuse =
            |error| Failure::operation(format!("cannot write {}: {error}", file.display()));
        fs::write(file, svg(&measured)).map_err(refuse)?;
    }
    if flags.json {
        return measured.iter().try_for_each(output::json);
    }
    let text = if flags.markdown {
        page(&PAPER, &points(&measured))
    } else {
        table(&measured)
    };
    output::bytes(text.as_bytes())
}

fn check_real(flags: &Remotelog) -> Result<(), Failure> {
    if flags.markdown || flags.figure.is_some() {
        return Err(Failure::usage(
            "--markdown and --figure show all published scenarios: use --fabric sim:PROFILE",
        ));
    }
    Ok(())
}

fn medium_of(flags: &Remotelog) -> PathBuf {
    flags.data.clone().unwrap_or_else(|| PathBuf::from("."))
}

fn check_simulated(flags: &Remotelog, profile: &MachineProfile) -> Result<(), Failure> {
    if flags.data.is_some() {
        return Err(Failure::usage(
            "--data is the place of a real log; it has no meaning with --fabric sim:PROFILE",
        ));
    }
    if flags.markdown && profile.name != PUBLISHED {
        return Err(Failure::usage(format!(
            "--markdown compares with published numbers, which are of sim:{PUBLISHED}"
        )));
    }
    Ok(())
}
