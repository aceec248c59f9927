//! The price of the release build: processor time of this tree and of an older commit.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use nix::sys::resource::{Usage, UsageWho, getrusage};
use nix::sys::time::TimeVal;

use crate::metadata::Metadata;
use crate::step::cargo;
use crate::tools;

/// The folder of the package with the binary, in every commit.
const PACKAGE: &str = "crates/cli";

/// Builds commit `base` and this tree, each from nothing and with one job, and prints the processor seconds of both and
/// their ratio. Other work of the machine hardly changes processor time, unlike wall time.
pub fn run(base: &str) -> Result<bool> {
    let workspace = Metadata::of_the_workspace()?.workspace_root;
    let folder = std::env::temp_dir().join(format!("stonecast-build-time-{}", std::process::id()));
    fs::create_dir(&folder).with_context(|| format!("making {}", folder.display()))?;
    let measured = compare(&workspace, base, &folder);
    fs::remove_dir_all(&folder).with_context(|| format!("removing {}", folder.display()))?;
    // Git keeps an entry for a worktree until `prune`, even if its folder is gone.
    tools::run(git(&workspace).args(["worktree", "prune"]))?;
    measured.map(|()| true)
}

fn compare(workspace: &Path, base: &str, folder: &Path) -> Result<()> {
    let tree = folder.join("base");
    tools::run(
        git(workspace)
            .args(["worktree", "add", "--detach"])
            .arg(&tree)
            .arg(base),
    )?;
    let before = seconds_of_build(&tree, &folder.join("target-base"))?;
    println!("{base}: {before:.1} s of processor time");
    let now = seconds_of_build(workspace, &folder.join("target"))?;
    println!("this tree: {now:.1} s of processor time");
    println!("ratio: {:.2}", now / before);
    Ok(())
}

/// Processor seconds of the release build of `tree` into `target`, which does not exist yet.
fn seconds_of_build(tree: &Path, target: &Path) -> Result<f64> {
    // Downloads are not part of the build.
    tools::run(&mut cargo(tree, &["fetch", "--quiet", "--locked"]))?;
    let start = seconds_of_children()?;
    let status = cargo(
        &tree.join(PACKAGE),
        &["build", "--release", "--locked", "--quiet", "--jobs", "1"],
    )
    .env("CARGO_TARGET_DIR", target)
    .status()
    .context("starting cargo")?;
    ensure!(status.success(), "{} does not build", tree.display());
    Ok(seconds_of_children()? - start)
}

/// Processor seconds, of user and system, of all commands that have ended.
fn seconds_of_children() -> Result<f64> {
    let usage: Usage = getrusage(UsageWho::RUSAGE_CHILDREN)?;
    let seconds = |time: TimeVal| time.tv_sec() as f64 + time.tv_usec() as f64 / 1e6;
    Ok(seconds(usage.user_time()) + seconds(usage.system_time()))
}

fn git(workspace: &Path) -> Command {
    let mut command = Command::new("git");
    command.current_dir(workspace);
    command
}
