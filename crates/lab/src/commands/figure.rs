//! `figure`: figures of papers, measured again.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use clap::Args;
use clap::builder::PossibleValuesParser;
use stonecast_lab::erda::{
    ALL, FIGURES, Point, REAL, REAL_STEPS, RealOptions, Runs, Scale, chart, page, points,
    real_points, table,
};
use stonecast_lab::rowan::{self, ROWAN};

use crate::failure::Failure;
use crate::output;
use crate::progress::Progress;

/// Measures a figure of a paper again, with all its designs on the same simulated machines.
///
/// erda-14 ... erda-26 and erda-table1 are the figures of Erda's paper; erda stands for all of them. Time is virtual:
/// the same command gives the same numbers. erda-shm runs the same designs as processes of this machine, over shared
/// memory. rowan-appends is the primitive of Rowan's paper: appends of many senders to one machine, beside WRITEs into
/// a log for each.
#[derive(Debug, Args)]
#[command(after_help = "\
Example: one figure as a table, one as JSON, all with pictures and the page of the documents
  stonecast-lab figure erda-14
  stonecast-lab figure erda-table1 --json
  stonecast-lab figure erda --out docs/figures")]
pub struct Figure {
    /// The figure.
    #[arg(value_name = "NAME", value_parser = figure_names())]
    pub name: String,
    /// Folder for pictures (SVG), the points (JSON lines) and, for all figures of a paper, the page
    /// of the documents.
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Operations of each point [default: the number of the documents].
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u64).range(10..))]
    pub operations: Option<u64>,
    /// Prints one JSON object for each point.
    #[arg(long, conflicts_with = "markdown")]
    pub json: bool,
    /// Prints the page of the documentation; only for rowan-appends.
    #[arg(long)]
    pub markdown: bool,
}

fn figure_names() -> PossibleValuesParser {
    PossibleValuesParser::new(FIGURES.into_iter().chain([ALL, REAL, ROWAN]))
}

/// Keys of a run on this machine: some seconds for each design.
const REAL_KEYS: u64 = 20_000;
const REAL_OPERATIONS: u64 = 50_000;
const REAL_CLIENTS: u32 = 1;
/// A folder of volatile memory.
const MEMORY: &str = "/dev/shm";

/// Measures the figure that `flags` name.
pub fn run(flags: &Figure) -> Result<(), Failure> {
    if flags.name == ROWAN {
        return run_appends(flags);
    }
    if flags.markdown {
        return Err(Failure::usage(format!(
            "--markdown is for {ROWAN}; use --out"
        )));
    }
    if flags.name == REAL {
        return run_really(flags);
    }
    let names: Vec<&str> = if flags.name == ALL {
        FIGURES.to_vec()
    } else {
        vec![flags.name.as_str()]
    };
    let scale = Scale {
        operations: flags.operations.unwrap_or(Scale::FULL.operations),
        ..Scale::FULL
    };
    let progress = Progress::of_count("measuring", Some(names.len() as u64));
    let (mut runs, mut all) = (Runs::default(), Vec::new());
    for (done, name) in (1..).zip(&names) {
        let measured = points(name, scale, &mut runs)?;
        if flags.json {
            measured.iter().try_for_each(output::json)?;
        }
        all.extend(measured);
        progress.set(done);
    }
    drop(progress);
    if let Some(folder) = &flags.out {
        write(folder, &names, &all, flags.operations.is_none())
            .with_context(|| format!("cannot write to {}", folder.display()))?;
    }
    if flags.json {
        Ok(())
    } else {
        output::bytes(table(&all).as_bytes())
    }
}

/// Appends of many senders.
fn run_appends(flags: &Figure) -> Result<(), Failure> {
    if flags.out.is_some() || flags.operations.is_some() {
        return Err(Failure::usage(format!(
            "{ROWAN} takes neither --out nor --operations: it measures a fixed time, and --markdown prints its page"
        )));
    }
    let all = rowan::rows().context("the simulated machines have room for it")?;
    if flags.json {
        return all.iter().try_for_each(output::json);
    }
    let text = if flags.markdown {
        rowan::page(&all)
    } else {
        rowan::table(&all)
    };
    output::bytes(text.as_bytes())
}

/// The designs as processes of this machine.
fn run_really(flags: &Figure) -> Result<(), Failure> {
    if flags.out.is_some() {
        return Err(Failure::usage(format!(
            "--out is for figures that give the same numbers each time; {REAL} does not"
        )));
    }
    let options = RealOptions {
        published: std::env::current_exe()?,
        program: super::compare::program(None)?,
        parent: MEMORY.into(),
        keys: REAL_KEYS,
        operations: flags.operations.unwrap_or(REAL_OPERATIONS),
        clients: REAL_CLIENTS,
    };
    let progress = Progress::of_count("measuring", Some(REAL_STEPS));
    let mut done = 0;
    let all = real_points(&options, || {
        done += 1;
        progress.set(done);
    })?;
    drop(progress);
    if flags.json {
        all.iter().try_for_each(output::json)
    } else {
        output::bytes(table(&all).as_bytes())
    }
}

fn write(folder: &Path, names: &[&str], all: &[Point], is_full: bool) -> anyhow::Result<()> {
    fs::create_dir_all(folder)?;
    for name in names {
        if let Some(chart) = chart(name, all) {
            fs::write(folder.join(name).with_extension("svg"), chart.svg()?)?;
        }
        let mut lines = Vec::new();
        for point in all.iter().filter(|point| point.figure == *name) {
            serde_json::to_writer(&mut lines, point)?;
            writeln!(lines)?;
        }
        fs::write(folder.join(name).with_extension("jsonl"), lines)?;
    }
    // The page states the amount that was measured.
    if names.len() == FIGURES.len() && is_full {
        fs::write(folder.join(ALL).with_extension("md"), page(all))?;
    }
    Ok(())
}
