//! The designs of Erda's paper as processes of this machine.

use stonecast_lab::erda::{REAL, REAL_FIGURES, REAL_STEPS, RealOptions, real_points};
use stonecast_lab::papers::table;

use super::Figure;
use crate::commands::compare;
use crate::failure::Failure;
use crate::output;
use crate::progress::Progress;

/// Keys of a run on this machine: some seconds for each design.
const KEYS: u64 = 20_000;
const OPERATIONS: u64 = 50_000;
const CLIENTS: u32 = 1;
/// A folder of volatile memory.
const MEMORY: &str = "/dev/shm";

/// Measures the designs.
pub fn run(flags: &Figure) -> Result<(), Failure> {
    if flags.out.is_some() || flags.keep.is_some() || flags.markdown {
        return Err(Failure::usage(format!(
            "--out, --keep and --markdown are for figures that give the same numbers each time; {REAL} does not"
        )));
    }
    let options = RealOptions {
        published: std::env::current_exe()?,
        program: compare::program(None)?,
        parent: MEMORY.into(),
        keys: KEYS,
        operations: flags.operations.unwrap_or(OPERATIONS),
        clients: CLIENTS,
    };
    let progress = Progress::of_count("measuring", Some(REAL_STEPS));
    let mut done = 0;
    let points = real_points(&options, || {
        done += 1;
        progress.set(done);
    })?;
    drop(progress);
    let figures = REAL_FIGURES.iter();
    let text: Vec<String> = if flags.json {
        figures.map(|axes| points.lines(axes.name)).collect()
    } else {
        figures.map(|axes| table(axes, &points) + "\n").collect()
    };
    output::bytes(text.concat().as_bytes())
}
