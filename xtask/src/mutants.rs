//! The campaign that checks the checks: every seeded bug must be found, and nothing in the store as it is.
//!
//! The campaign itself is an example of `stonecast-check`, built with the feature that plants the bugs. Here it is started
//! once for each processor, each with its share of the bugs.

use std::io::{BufRead as _, BufReader};
use std::process::{Command, Stdio};
use std::thread;

use anyhow::{Context, Result};

use crate::metadata::Metadata;
use crate::step::cargo;

/// Runs the campaign on all processors; `false`: something was not found, or something was where nothing is planted.
pub fn run(metadata: &Metadata, arguments: &[String]) -> Result<bool> {
    let build =
        ["build", "--release", "--package", "stonecast-check", "--example", "mutants", "--features", "mutants", "--locked"];
    if !cargo(&metadata.workspace_root, &build).status().context("building the campaign")?.success() {
        return Ok(false);
    }
    let program = metadata.target_directory.join("release/examples/mutants");
    let shards = thread::available_parallelism().map_or(1, usize::from);
    let mut running = Vec::new();
    for shard in 0..shards {
        let mut command = Command::new(&program);
        command.arg("--shard").arg(format!("{shard}/{shards}")).args(arguments).stdout(Stdio::piped());
        let mut child = command.spawn().with_context(|| format!("starting {}", program.display()))?;
        let output = child.stdout.take().expect("stdout is a pipe");
        // Lines of all shards as they come: a campaign takes minutes.
        let shown =
            thread::spawn(move || BufReader::new(output).lines().map_while(Result::ok).for_each(|line| println!("{line}")));
        running.push((child, shown));
    }
    let mut good = true;
    for (mut child, shown) in running {
        good &= child.wait().context("waiting for the campaign")?.success();
        shown.join().expect("nothing panics there");
    }
    Ok(good)
}
