//! The tries of quiet: no byte of a sender lands behind the promise, however the sender ended.

use std::process::Stdio;

use anyhow::{Context, Result};

use crate::metadata::Metadata;
use crate::step::cargo;
use crate::tally::counts_of;

/// Tries over shared memory. More than 10,000 of their senders are killed or stopped.
const SHM_TRIES: u64 = 13_000;

/// The test of a provider: package, kind of target, and name. The test of the simulated network makes 10,000
/// tries.
const TESTS: [(&str, &[&str], &str); 2] = [
    (
        "stonecast-fabric-shm",
        &["--lib"],
        "no_message_of_an_appender_is_accepted_after_it_was_quiesced",
    ),
    (
        "stonecast-fabric-sim",
        &["--test", "it"],
        "no_message_of_a_quiesced_sender_lands_whatever_its_fate",
    ),
];

/// Runs the tries of both providers, a percentage of those over shared memory. Returns whether all promises held. A
/// name that matches no test is a finding.
pub fn run(metadata: &Metadata, percent: f64) -> Result<bool> {
    let tries = (SHM_TRIES as f64 * percent / 100.0).max(1.0) as u64;
    let mut holds = true;
    for (package, target, test) in TESTS {
        let output = cargo(
            &metadata.workspace_root,
            &["test", "--release", "--locked", "--package", package],
        )
        .args(target)
        .args([test, "--", "--nocapture"])
        .env("STONECAST_QUIESCE_TRIES", tries.to_string())
        .stderr(Stdio::inherit())
        .output()
        .with_context(|| format!("testing {package}"))?;
        let text = String::from_utf8_lossy(&output.stdout);
        print!("{text}");
        let has_run = text
            .lines()
            .filter_map(counts_of)
            .any(|(passed, _)| passed > 0);
        holds &= output.status.success() && has_run;
    }
    Ok(holds)
}
