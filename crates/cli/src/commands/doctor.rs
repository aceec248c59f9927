//! `doctor`: the facts that decide how remote writes become durable on this machine, and the properties to declare.

use std::fs;
use std::path::PathBuf;

use clap::Args;
use serde::Serialize;

use crate::doctor::{Conclusion, Facts, Root, text};
use crate::failure::Failure;
use crate::flags::OutputFlags;
use crate::output;

/// Shows the facts of this machine that decide how writes become durable, the properties to declare, and the profile.
///
/// The report claims nothing unseen. A property that no file of the kernel states is listed as one to declare, and is
/// assumed to have the value that keeps plans sound.
#[derive(Debug, Args)]
#[command(after_help = "\
Example: look, and plan for what was seen
  stonecast doctor --data /mnt/pmem
  stonecast doctor --write-profile this-machine.toml
  stonecast plan --profile this-machine.toml")]
pub struct Doctor {
    /// Folder of a pool that exists or is planned: its file system decides most.
    #[arg(long, value_name = "DIR", default_value = ".")]
    pub data: PathBuf,
    /// Also writes the resulting profile into this file, for `plan --profile`.
    #[arg(long, value_name = "FILE")]
    pub write_profile: Option<PathBuf>,
    #[command(flatten)]
    pub output: OutputFlags,
    /// Reads the files of the kernel below this folder instead of /.
    #[arg(long, value_name = "DIR", default_value = "/", hide = true)]
    pub root: PathBuf,
}

/// The object that `--json` prints.
#[derive(Serialize)]
struct Report<'a> {
    #[serde(flatten)]
    facts: &'a Facts,
    #[serde(flatten)]
    conclusion: &'a Conclusion,
}

/// Collects the facts, and reports the conclusion.
pub fn run(flags: &Doctor) -> Result<(), Failure> {
    let facts = Facts::collect(&Root::at(&flags.root), &flags.data);
    if let Some(error) = &facts.place.error {
        return Err(Failure::operation(format!(
            "{error}; the file system of the folder decides what a pool there survives: make the folder, or name one that \
             exists with --data DIR"
        )));
    }
    let conclusion = Conclusion::of(&facts);
    if let Some(file) = &flags.write_profile {
        let refuse =
            |error| Failure::operation(format!("cannot write {}: {error}", file.display()));
        fs::write(file, &conclusion.text).map_err(refuse)?;
    }
    if flags.output.json {
        output::json(&Report {
            facts: &facts,
            conclusion: &conclusion,
        })
    } else {
        output::bytes(text(&facts, &conclusion).as_bytes())
    }
}
