//! The campaign that checks the checks: every seeded bug must be found, and no oracle may object to the unchanged
//! store.
//!
//! The campaign itself is an example of `stonecast-check`, built with the feature that plants the bugs. The campaign
//! uses every processor, and ends with the unchanged store, on the seeds that the bugs needed. Bugs below any store are
//! hunted by tests of their crates, which this module starts with the same feature.

use std::collections::BTreeSet;
use std::process::{Command, Stdio};

use anyhow::{Context, Result};

use crate::metadata::Metadata;
use crate::step::cargo;
use crate::tally::counts_of;

/// The tests that hunt bugs below any store, by package. Each test plants its own bug.
const HUNTS: [(&str, &str); 13] = [
    ("stonecast-backup", "every_seeded_bug_of_backups_is_found"),
    (
        "stonecast-fabric-sim",
        "every_seeded_bug_of_appends_is_found",
    ),
    ("stonecast-fabric-sim", "every_seeded_bug_of_power_is_found"),
    (
        "stonecast-fabric-shm",
        "every_seeded_bug_of_shared_memory_is_found",
    ),
    (
        "stonecast-kv",
        "every_seeded_bug_of_the_store_in_a_cluster_is_found",
    ),
    (
        "stonecast-member",
        "every_seeded_bug_of_membership_is_found",
    ),
    ("stonecast-node", "every_seeded_bug_of_nodes_is_found"),
    (
        "stonecast-persist",
        "every_seeded_bug_of_durable_appends_is_found",
    ),
    (
        "stonecast-replication",
        "every_seeded_bug_of_one_machine_is_found",
    ),
    (
        "stonecast-replication-sim",
        "every_seeded_bug_of_replication_is_found",
    ),
    (
        "stonecast-log",
        "every_seeded_bug_of_the_log_of_appends_is_found",
    ),
    (
        "stonecast-log",
        "every_seeded_bug_of_own_histories_is_found",
    ),
    (
        "stonecast-structures",
        "every_seeded_bug_of_structures_is_found",
    ),
];

/// Runs the campaign. Returns `false` if a bug was not found, or if an oracle
/// objected to the unchanged store.
pub fn run(metadata: &Metadata, arguments: &[String]) -> Result<bool> {
    let build = [
        "build",
        "--release",
        "--package",
        "stonecast-check",
        "--example",
        "mutants",
        "--features",
        "mutants",
        "--locked",
    ];
    if !cargo(&metadata.workspace_root, &build)
        .status()
        .context("building the campaign")?
        .success()
    {
        return Ok(false);
    }
    let program = metadata.target_directory.join("release/examples/mutants");
    let campaign = Command::new(&program).args(arguments).status();
    let good = campaign
        .with_context(|| format!("starting {}", program.display()))?
        .success();
    Ok(hunted(metadata)? && good)
}

/// Runs the tests of [`HUNTS`]. Each test must run: a name that matches no test is a finding.
///
/// One command builds all of them, so that each crate is compiled with one set of features alone.
fn hunted(metadata: &Metadata) -> Result<bool> {
    let packages: BTreeSet<&str> = HUNTS.iter().map(|(package, _)| *package).collect();
    let features: Vec<String> = packages
        .iter()
        .map(|package| format!("{package}/mutants"))
        .collect();
    let output = cargo(
        &metadata.workspace_root,
        &[
            "test",
            "--lib",
            "--test",
            "it",
            "--locked",
            "--no-fail-fast",
        ],
    )
    .args(packages.iter().flat_map(|package| ["--package", package]))
    .args(["--features", &features.join(",")])
    .args(["--", "--nocapture"])
    .args(HUNTS.map(|(_, test)| test))
    .stdout(Stdio::piped())
    .spawn()
    .and_then(std::process::Child::wait_with_output)
    .context("testing the crates below the stores")?;
    let text = String::from_utf8_lossy(&output.stdout);
    print!("{text}");
    let passed: u64 = text
        .lines()
        .filter_map(counts_of)
        .map(|(passed, _)| passed)
        .sum();
    Ok(output.status.success() && passed == HUNTS.len() as u64)
}
