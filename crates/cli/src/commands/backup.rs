//! `backup`: the state of a serving store at one version, in a file.

use std::path::{Path, PathBuf};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use clap::Args;
use rustix::process::nice;
use serde::Serialize;
use stonecast::backup::{Plan, Taken, identity_of, take};

use super::export::{Destination, folder_of};
use crate::failure::Failure;
use crate::flags::Connection;
use crate::output;
use crate::progress::Progress;
use crate::session::Session;

/// Writes a backup of a server that goes on serving: the state at one version.
///
/// Every write that was acknowledged before the backup began is in it, none that came later, and a batch as a whole
/// or not at all. With --base, the backup has only the records above the base's version, and which of the base's
/// records are still there. The file is synced, and appears when it is whole. Structures and the settings of the pool
/// are not in it.
///
/// A server lets one backup run at a time; a later one takes its place. If keys are overwritten much faster than the
/// backup reads, it ends with status 1 and can be repeated.
#[derive(Debug, Args)]
#[command(after_help = "\
Example: a full backup on Sunday, what changed by Monday, and what changed from Monday to Tuesday
  stonecast backup sunday.backup
  stonecast backup monday.backup --base sunday.backup
  stonecast backup tuesday.backup --base monday.backup
  stonecast restore --verify sunday.backup monday.backup tuesday.backup")]
pub struct Backup {
    /// The file; `-` for stdout, which shows a reader whether the backup is whole: only a whole one has its end.
    pub file: PathBuf,
    /// The backup that this one follows: full, or incremental itself. It has to be kept.
    #[arg(long, value_name = "FILE")]
    pub base: Option<PathBuf>,
    /// Leaves the priority as the command was started with, for a backup that has to end soon.
    #[arg(long)]
    pub keep_priority: bool,
    /// Prints one JSON object to stdout at the end: version, base, keys, records, bytes, seconds.
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub connection: Connection,
}

/// The niceness of a process that every other process comes before.
const LOWEST: i32 = 19;

/// The report of a backup.
#[derive(Serialize)]
struct Report {
    version: u64,
    base: u64,
    keys: u64,
    records: u64,
    bytes: u64,
    seconds: f64,
}

/// Takes a backup.
pub fn run(flags: &Backup) -> Result<(), Failure> {
    let to_stdout = flags.file == Path::new("-");
    if to_stdout && flags.json {
        return Err(Failure::usage(
            "--json prints its report to stdout, where the backup goes: name a file",
        ));
    }
    let is_base = |base: &Path| match (base.canonicalize(), flags.file.canonicalize()) {
        (Ok(base), Ok(file)) => base == file,
        _ => false,
    };
    if flags.base.as_deref().is_some_and(is_base) {
        return Err(Failure::usage(
            "the backup would replace its base, which it needs: name another file",
        ));
    }
    let base = flags.base.as_deref().map(identity_of).transpose()?;
    if !flags.keep_priority {
        yield_to_others();
    }
    let session = Session::open_for_many(&flags.connection)?;
    let start = Instant::now();
    let output = Destination::open(Some(&flags.file))?;
    // Records that are overwritten meanwhile take at most the room of the backup, beside which they lie.
    let scratch = tempfile::tempfile_in(folder_of(&flags.file))?;
    let mut plan = Plan::full(scratch).made_at_ms(now_ms());
    if let Some(base) = base {
        plan = plan.based_on(base);
    }
    let mut progress = None;
    let told = |taken: &Taken| {
        let keys = taken.identity.keys;
        let bar = progress.get_or_insert_with(|| Progress::of_count("backing up", Some(keys)));
        bar.set(taken.retained + taken.records);
    };
    let taking = session.run(async |client| Ok(take(client, plan, output, told).await?));
    let (output, taken) = taking?;
    session.close();
    output.finish()?;
    if to_stdout {
        return Ok(());
    }
    let seconds = start.elapsed().as_secs_f64();
    if flags.json {
        let report = Report {
            version: taken.identity.version,
            base: taken.identity.base,
            keys: taken.identity.keys,
            records: taken.records,
            bytes: taken.bytes,
            seconds,
        };
        return output::report(&report, "the backup is whole");
    }
    let kept = match taken.identity.base {
        0 => String::new(),
        base => format!(", the others as at version {base}"),
    };
    output::say(format_args!(
        "backed up {} keys at version {}: {} records ({}) in {seconds:.1} s{kept}",
        taken.identity.keys,
        taken.identity.version,
        taken.records,
        output::size(taken.bytes)
    ));
    Ok(())
}

/// Takes the lowest priority, for this thread and those that it starts. A system that refuses that leaves a backup that
/// slows writers down, and the backup is worth more.
fn yield_to_others() {
    if let Err(error) = nice(LOWEST) {
        output::say(format_args!("the priority stays as it is: {error}"));
    }
}

fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| since.as_millis() as u64)
}
