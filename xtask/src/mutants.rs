//! The campaign that checks the checks: every seeded bug must be found, and nothing in the
//! unchanged store.
//!
//! The campaign itself is an example of `stonecast-check`, built with the feature that plants the
//! bugs. This module starts it once for each processor, each with its share of the bugs; then once
//! more for the unchanged store, on as many seeds as the hardest bug needed. Bugs below any store are
//! hunted by tests of their crates, which this module starts with the same feature.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;

use anyhow::{Context, Result};

use crate::metadata::Metadata;
use crate::step::cargo;

/// Tests that hunt bugs which no store shows, by package; each plants its own.
const HUNTS: [(&str, &str); 5] = [
    (
        "stonecast-fabric-sim",
        "every_seeded_bug_of_appends_is_found",
    ),
    (
        "stonecast-member",
        "every_seeded_bug_of_membership_is_found",
    ),
    (
        "stonecast-persist",
        "every_seeded_bug_of_durable_appends_is_found",
    ),
    (
        "stonecast-replication",
        "every_seeded_bug_of_replication_is_found",
    ),
    (
        "stonecast-log",
        "every_seeded_bug_of_the_log_of_appends_is_found",
    ),
];
/// Minimum number of seeds of the unchanged store.
const CONTROL_MIN: u64 = 500;

/// Runs the campaign on all processors. Returns `false` if a bug was not found, or if an oracle
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
    let (all_found, most) = in_shards(&program, arguments)?;
    let (nothing_found, _) = in_shards(
        &program,
        &["--control".to_owned(), most.max(CONTROL_MIN).to_string()],
    )?;
    Ok(all_found && nothing_found && hunted(metadata)?)
}

/// Runs the tests of [`HUNTS`]. Each must run: a name that matches no test is a finding.
fn hunted(metadata: &Metadata) -> Result<bool> {
    let mut good = true;
    for (package, test) in HUNTS {
        let output = cargo(
            &metadata.workspace_root,
            &[
                "test",
                "--package",
                package,
                "--features",
                "mutants",
                "--test",
                "it",
                "--locked",
            ],
        )
        .args([test, "--", "--nocapture"])
        .stdout(Stdio::piped())
        .spawn()
        .and_then(std::process::Child::wait_with_output)
        .with_context(|| format!("testing {package}"))?;
        let text = String::from_utf8_lossy(&output.stdout);
        print!("{text}");
        good &= output.status.success() && text.contains("1 passed");
    }
    Ok(good)
}

/// Runs the program once for each processor. Returns whether each run succeeded, and the largest
/// number of seeds that a bug needed.
fn in_shards(program: &Path, arguments: &[String]) -> Result<(bool, u64)> {
    let shards = thread::available_parallelism().map_or(1, usize::from);
    let mut running = Vec::new();
    for shard in 0..shards {
        let mut command = Command::new(program);
        command
            .arg("--shard")
            .arg(format!("{shard}/{shards}"))
            .args(arguments)
            .stdout(Stdio::piped());
        let mut child = command
            .spawn()
            .with_context(|| format!("starting {}", program.display()))?;
        let output = child.stdout.take().expect("stdout is a pipe");
        // Prints lines of all shards as they arrive: a campaign takes minutes.
        let shown = thread::spawn(move || {
            let lines = BufReader::new(output).lines().map_while(Result::ok);
            lines
                .inspect(|line| println!("{line}"))
                .filter_map(|line| seeds_of(&line))
                .max()
                .unwrap_or(0)
        });
        running.push((child, shown));
    }
    let (mut good, mut most) = (true, 0);
    for (mut child, shown) in running {
        good &= child.wait().context("waiting for the campaign")?.success();
        most = most.max(shown.join().expect("nothing panics there"));
    }
    Ok((good, most))
}

/// The number of seeds that the bug of `line` needed.
fn seeds_of(line: &str) -> Option<u64> {
    let (_, rest) = line.split_once("found after")?;
    rest.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::seeds_of;

    #[test]
    fn a_line_of_the_campaign_says_how_many_seeds_a_bug_needed() {
        assert_eq!(
            seeds_of("TornTailAccepted             found after    12 seeds by: no space is lost"),
            Some(12)
        );
        assert_eq!(
            seeds_of("none                         nothing found in 500 seeds (part 1 of 2)"),
            None
        );
    }
}
