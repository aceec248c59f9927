//! The step `fresh`: the first commands of a newcomer, on a machine on which nothing was ever
//! installed by hand.
//!
//! ```text
//!   bare      Debian with a C compiler and git, made once       mounts   the list of mounts
//!   system    a copy of it with the checkout, for one run       lent     settings from this machine
//! ```
//!
//! On a machine that cannot make such a system (no root, no debootstrap, no network, no mounts,
//! little disk) the step is not run, and the reason is printed. The same holds within such a
//! system.

mod bare;
mod lent;
mod mounts;
mod system;

use std::fs::{self, File};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, Result};

use crate::fresh::system::System;
use crate::metadata::Metadata;
use crate::needs;
use crate::step::counted;
use crate::tally::{Outcome, minutes};
use crate::tools::output_of;

/// Room for the bare system, its copy, and all builds in it.
const DISK_MIN_GIB: u64 = 8;

/// The folder of bare systems below the target folder.
const FOLDER: &str = "fresh";

/// The cases, each in the system that the former cases left.
const CASES: &[(&str, &str)] = &[
    (
        "first commands",
        include_str!("../../fresh/first-commands.sh"),
    ),
    ("packages", include_str!("../../fresh/packages.sh")),
    (
        "the needs of the steps are installed",
        "cargo xtask needs --install tests verbs conformance end-to-end guest",
    ),
    ("verbs", "cargo xtask ci --step verbs"),
    ("conformance", "cargo xtask ci --step conformance"),
    // The tests of the step `tests` that need an installed server.
    (
        "tests beside redis-server",
        "cargo test --package stonecast-gateway --test it --locked differential::",
    ),
    (
        "tests beside etcd",
        "cargo test --package stonecast-config-store --test it --locked",
    ),
    ("guest", "cargo xtask guest --only boot"),
];

/// Returns whether this machine can make a bare system.
pub fn is_possible(metadata: &Metadata) -> bool {
    matches!(bare_system(metadata), Ok(Ok(_)))
}

/// The bare system, which is made if it does not exist; the inner error is the reason why this machine cannot make one.
fn bare_system(metadata: &Metadata) -> Result<Result<PathBuf, String>> {
    let folder = metadata.target_directory.join(FOLDER);
    fs::create_dir_all(&folder).with_context(|| format!("making {}", folder.display()))?;
    Ok(prerequisites(&folder)
        .and_then(|()| bare::newest(&folder).map_err(|error| format!("{error:#}"))))
}

/// Runs the cases.
pub fn outcome(metadata: &Metadata) -> Result<Outcome> {
    let bare = match bare_system(metadata)? {
        Ok(bare) => bare,
        Err(reason) => return Ok(Outcome::not_run("fresh", &reason)),
    };
    let folder = metadata.target_directory.join(FOLDER);
    let lock = File::create(folder.join("lock")).context("making a file to lock")?;
    lock.lock()
        .context("waiting for another run of this step")?;
    let checkout = &metadata.workspace_root;
    if !output_of(
        Command::new("git")
            .args(["status", "--porcelain"])
            .current_dir(checkout),
    )?
    .is_empty()
    {
        println!("changes that are not committed are left out");
    }
    let system = System::new(&bare, folder.join("system"), checkout)?;
    let mut total = Outcome::default();
    for (name, line) in CASES {
        println!("\n--- {name}, in a bare Debian");
        let start = Instant::now();
        let outcome = case(&system, line)?;
        println!(
            "--- {name}: {} passed, {} failed, {} not run, {}",
            outcome.passed,
            outcome.failed,
            outcome.not_run.len(),
            minutes(start.elapsed())
        );
        total.passed += outcome.passed;
        total.failed += outcome.failed;
        let named = |(test, reason)| (format!("fresh: {test}"), reason);
        total.not_run.extend(outcome.not_run.into_iter().map(named));
    }
    Ok(total)
}

/// Runs one case. A case that counts no tests counts as one test.
fn case(system: &System, line: &str) -> Result<Outcome> {
    let mut outcome = counted(system.command(line), &system.not_run)?;
    if outcome.passed + outcome.failed == 0 && outcome.not_run.is_empty() {
        outcome.passed = 1;
    }
    Ok(outcome)
}

/// Checks whether this machine can make a system below `folder`; the error is the reason why not.
fn prerequisites(folder: &Path) -> Result<(), String> {
    let words = |error: anyhow::Error| format!("{error:#}");
    if mounts::is_in_another_system().map_err(words)? {
        return Err("this system lies in another one".to_owned());
    }
    let is_root = fs::metadata("/proc/self").is_ok_and(|process| process.uid() == 0);
    if !is_root {
        return Err("only root can make a system".to_owned());
    }
    if !needs::apt::is_debian() {
        return Err("only Debian has the keys of its archive".to_owned());
    }
    needs::ensure("fresh").map_err(|missing| missing.to_string())?;
    system::probe()?;
    let printed = output_of(
        Command::new("df")
            .args(["--block-size=1G", "--output=avail"])
            .arg(folder),
    )
    .map_err(words)?;
    let free = printed
        .lines()
        .last()
        .and_then(|line| line.trim().parse::<u64>().ok());
    match free {
        Some(free) if free < DISK_MIN_GIB => Err(format!(
            "{free} GiB are free, and the step takes {DISK_MIN_GIB}"
        )),
        _ => Ok(()),
    }
}
