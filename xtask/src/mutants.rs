//! The campaign that checks the checks: every seeded bug must be found, and no oracle may object to the unchanged
//! store.
//!
//! The campaign itself is a test of `stonecast-check`, built with the feature that plants the bugs. The campaign uses
//! every processor, and ends with the unchanged store, on the seeds that the bugs needed. Bugs below any store are
//! hunted by tests of their crates, which this module starts with the same feature, two or more at once: a hunt uses
//! one processor.

use std::collections::BTreeSet;
use std::process::Stdio;
use std::sync::Mutex;
use std::thread;

use anyhow::{Context, Result, bail};

use crate::executables::{Executable, build_tests};
use crate::metadata::Metadata;
use crate::selection;
use crate::step::cargo;
use crate::tally::counts_of;

/// The package with the campaign, and its test.
const CAMPAIGN: (&str, &str) = ("stonecast-check", "mutants");

/// A test that hunts the bugs of a part of a crate, or of a store on several machines. Each test plants its own bugs.
struct Hunt {
    package: &'static str,
    /// The tests of the package with this one, as Cargo names them.
    tests: &'static str,
    name: &'static str,
}

/// The option for the tests beside a crate, which stand in `tests/it`.
const BESIDE: &str = "--test=it";

/// The option for the tests inside a crate.
const INSIDE: &str = "--lib";

const fn hunt(package: &'static str, name: &'static str) -> Hunt {
    Hunt {
        package,
        tests: BESIDE,
        name,
    }
}

const HUNTS: [Hunt; 23] = [
    hunt("stonecast-backup", "every_seeded_bug_of_backups_is_found"),
    hunt(
        "stonecast-fabric-sim",
        "every_seeded_bug_of_appends_is_found",
    ),
    hunt("stonecast-fabric-sim", "every_seeded_bug_of_power_is_found"),
    Hunt {
        package: "stonecast-fabric-shm",
        tests: INSIDE,
        name: "every_seeded_bug_of_shared_memory_is_found",
    },
    hunt("stonecast-kv", "every_seeded_bug_of_batches_is_found"),
    hunt("stonecast-kv", "every_seeded_bug_of_expiry_is_found"),
    hunt("stonecast-kv", "every_seeded_bug_of_holds_is_found"),
    hunt(
        "stonecast-kv",
        "every_seeded_bug_of_values_in_chunks_is_found",
    ),
    hunt("stonecast-kv", "every_seeded_bug_of_held_places_is_found"),
    Hunt {
        package: "stonecast-kv",
        tests: INSIDE,
        name: "every_seeded_bug_of_the_time_of_a_shard_is_found",
    },
    Hunt {
        package: "stonecast-kv",
        tests: INSIDE,
        name: "every_seeded_bug_of_the_time_that_was_told_is_found",
    },
    hunt(
        "stonecast-kv",
        "every_seeded_bug_of_the_store_in_a_cluster_is_found",
    ),
    hunt(
        "stonecast-kv",
        "every_seeded_bug_of_the_store_of_a_node_is_found",
    ),
    hunt(
        "stonecast-kv",
        "every_seeded_bug_of_a_resigned_primary_is_found",
    ),
    hunt(
        "stonecast-kv",
        "every_seeded_bug_of_the_published_flaws_is_found",
    ),
    hunt(
        "stonecast-member",
        "every_seeded_bug_of_membership_is_found",
    ),
    hunt("stonecast-node", "every_seeded_bug_of_nodes_is_found"),
    hunt(
        "stonecast-persist",
        "every_seeded_bug_of_durable_appends_is_found",
    ),
    hunt(
        "stonecast-replication",
        "every_seeded_bug_of_one_machine_is_found",
    ),
    hunt(
        "stonecast-replication-sim",
        "every_seeded_bug_of_replication_is_found",
    ),
    hunt(
        "stonecast-log",
        "every_seeded_bug_of_the_log_of_appends_is_found",
    ),
    hunt(
        "stonecast-log",
        "every_seeded_bug_of_own_histories_is_found",
    ),
    hunt(
        "stonecast-structures",
        "every_seeded_bug_of_structures_is_found",
    ),
];

/// The beginning of the name of each hunt.
pub const HUNT: &str = "every_seeded_bug_of_";

/// The tests that are built for the campaign and the hunts.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Build {
    /// Those of the packages with hunts alone.
    Hunts,
    /// Those of the step `tests`, which has built them.
    Tests,
}

/// Runs the campaign and the hunts. Returns `false` if a bug was not found, or if an oracle
/// objected to the unchanged store.
pub fn run(metadata: &Metadata, build: Build, arguments: &[String]) -> Result<bool> {
    let built = |tests, targets: &[&str]| built(metadata, build, tests, targets);
    let targets = [BESIDE, "--test", CAMPAIGN.1];
    let (campaign, beside): (Vec<_>, _) = built(BESIDE, &targets)?
        .into_iter()
        .partition(|executable| executable.name == CAMPAIGN.1);
    let [campaign] = &*campaign else {
        bail!("there is no test {} of {}", CAMPAIGN.1, CAMPAIGN.0);
    };
    let status = campaign.command().args(arguments).status();
    let good = status.context("starting the campaign")?.success();
    let beside = hunted_with(beside, BESIDE)?;
    let inside = hunted_with(built(INSIDE, &[INSIDE])?, INSIDE)?;
    Ok(good && beside && inside)
}

/// Builds the packages with hunts among `tests`, with the feature that plants bugs. One command builds the campaign and
/// all tests beside the crates, so that each crate is compiled with one set of features alone.
fn built(
    metadata: &Metadata,
    build: Build,
    tests: &str,
    targets: &[&str],
) -> Result<Vec<Executable>> {
    if build == Build::Tests {
        let mut command = cargo(&metadata.workspace_root, &selection::tests());
        return build_tests(command.args(targets));
    }
    let mut packages: BTreeSet<&str> = hunts(tests).map(|hunt| hunt.package).collect();
    if tests == BESIDE {
        packages.insert(CAMPAIGN.0);
    }
    let named = packages
        .iter()
        .map(|package| format!("--package={package}"));
    let features = packages
        .iter()
        .map(|package| format!("--features={package}/mutants"));
    let mut command = cargo(&metadata.workspace_root, &["test", "--locked"]);
    build_tests(command.args(targets).args(named).args(features))
}

fn hunts(tests: &str) -> impl Iterator<Item = &'static Hunt> {
    HUNTS.iter().filter(move |hunt| hunt.tests == tests)
}

/// Runs the hunts among `tests`. Returns `false` if one failed or did not run.
fn hunted_with(executables: Vec<Executable>, tests: &str) -> Result<bool> {
    let waiting = Mutex::new(executables);
    let passed = Mutex::new(0);
    let next = || waiting.lock().expect("no hunter panics").pop();
    let hunter = || -> Result<()> {
        while let Some(executable) = next() {
            let found = hunt_with(&executable, tests)?;
            *passed.lock().expect("no hunter panics") += found;
        }
        Ok(())
    };
    thread::scope(|scope| {
        let processors = thread::available_parallelism().map_or(1, usize::from);
        let hunters: Vec<_> = (0..processors).map(|_| scope.spawn(hunter)).collect();
        let mut ended = hunters
            .into_iter()
            .map(|hunter| hunter.join().expect("no hunter panics"));
        ended.try_for_each(|ended| ended)
    })?;
    let passed = passed.into_inner().expect("no hunter panics");
    // Each hunt must run: a name that matches no test is a finding.
    Ok(passed == hunts(tests).count() as u64)
}

/// Runs the hunts in `executable`, prints their output, and returns the number of hunts that passed.
fn hunt_with(executable: &Executable, tests: &str) -> Result<u64> {
    let output = executable
        .command()
        .args(["--nocapture"])
        .args(hunts(tests).map(|hunt| hunt.name))
        .stderr(Stdio::inherit())
        .output()
        .with_context(|| format!("starting {}", executable.path.display()))?;
    let text = String::from_utf8_lossy(&output.stdout);
    print!("{text}");
    let passed = text.lines().filter_map(counts_of).map(|(passed, _)| passed);
    Ok(passed.sum())
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    /// The names of the hunts in the Rust files of a folder and its folders.
    fn hunts_in(folder: &Path, names: &mut BTreeSet<String>) {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                hunts_in(&path, names);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let text = std::fs::read_to_string(&path).unwrap();
                let functions = text
                    .lines()
                    .filter_map(|line| line.trim().strip_prefix("fn "));
                names.extend(
                    functions
                        .filter(|name| name.starts_with(HUNT))
                        .map(|name| name.trim_end_matches("() {").to_owned()),
                );
            }
        }
    }

    #[test]
    fn every_hunt_of_the_crates_is_run() {
        let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates");
        let mut there = BTreeSet::new();
        hunts_in(&crates, &mut there);
        let named = HUNTS.iter().map(|hunt| hunt.name);
        let run: BTreeSet<String> = named.map(str::to_owned).collect();
        assert_eq!(there, run);
    }
}
