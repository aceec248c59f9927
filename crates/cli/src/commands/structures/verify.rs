//! `structures verify`: a look at everything in a pool of data structures.

use std::path::{Path, PathBuf};

use clap::Args;
use serde::Serialize;
use stonecast::structures::{self, DomainName, SurveyedDomain, Verified};

use crate::failure::{Failure, Status};
use crate::output;
use crate::progress::Progress;

/// Checks a pool of data structures that nobody serves: every structure is whole, and every block belongs to one place.
/// The pool is not changed: a copy of it is checked, and removed.
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  stonecast structures verify /srv/structures")]
pub struct Verify {
    /// Folder of the pool, or device of persistent memory.
    data: PathBuf,
    /// Folder with room for a copy of the pool [default: the folder for temporary files].
    #[arg(long, value_name = "DIR")]
    scratch: Option<PathBuf>,
    /// Prints a line of JSON for each lock domain.
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Domain<'a> {
    domain: u32,
    name: &'a str,
    structures: Vec<Checked<'a>>,
    damage: Option<&'a str>,
}

#[derive(Serialize)]
struct Checked<'a> {
    name: &'a str,
    entries: u64,
    bytes: u64,
}

pub fn run(flags: &Verify) -> Result<(), Failure> {
    let scratch = match &flags.scratch {
        Some(folder) => tempfile::tempdir_in(folder),
        None => tempfile::tempdir(),
    };
    let scratch = scratch.map_err(|error| {
        Failure::operation(format!("cannot make a folder for the copy: {error}"))
    })?;
    let found = checked(&flags.data, &scratch.path().join("copy"))?;
    for domain in &found {
        report(flags.json, domain)?;
    }
    let damaged = found
        .iter()
        .filter(|domain| domain.damage.is_some())
        .count();
    if damaged == 0 {
        return Ok(());
    }
    let data = flags.data.display();
    Err(Failure::new(
        Status::Corrupt,
        format!(
            "{data}: {damaged} of {} lock domains are damaged",
            found.len()
        ),
    ))
}

/// Checks a copy in `folder`, and shows the progress.
fn checked(data: &Path, folder: &Path) -> Result<Vec<SurveyedDomain>, Failure> {
    let (mut copying, mut checking) = (None, None);
    let found = structures::verify_watched(data, folder, &mut |step| match step {
        Verified::Copied { bytes, of } => {
            let bar = copying.get_or_insert_with(|| Progress::of_bytes("copying", Some(of)));
            bar.set(bytes);
        }
        Verified::Read { bytes } => {
            copying = None;
            let bar = checking.get_or_insert_with(|| Progress::of_bytes("checking", None));
            bar.set(bytes);
        }
    });
    Ok(found?)
}

fn report(json: bool, domain: &SurveyedDomain) -> Result<(), Failure> {
    let name = domain.name.as_ref().map_or("", DomainName::as_str);
    let structures = domain.structures.iter();
    let structures = structures.map(|(row, entries, bytes)| Checked {
        name: &row.name,
        entries: *entries,
        bytes: *bytes,
    });
    let checked = Domain {
        domain: domain.number,
        name,
        structures: structures.collect(),
        damage: domain.damage.as_deref(),
    };
    if json {
        return output::json(&checked);
    }
    for structure in &checked.structures {
        let (entries, bytes) = (structure.entries, output::size(structure.bytes));
        output::say(format_args!(
            "domain {name:?}, structure {:?}: {entries} entries, {bytes}",
            structure.name
        ));
    }
    if let Some(damage) = checked.damage {
        output::say(format_args!("domain {name:?} is damaged: {damage}"));
    }
    Ok(())
}
