//! The bare system: Debian with a C compiler, git and certificates, and nothing else. The system is made once below the
//! target folder, under a name that follows from its recipe, and is copied for each run.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use crate::fresh::system;
use crate::needs::apt;
use crate::tools::run;

/// The oldest release of Debian on which every step runs.
const RELEASE: &str = "bookworm";
/// The packages that the README requires beside Rust: a C compiler with its library, and the programs that clone the
/// sources.
const PACKAGES: &str = "ca-certificates,gcc,libc6-dev,git";

/// Returns the bare system below `folder`, and makes a missing one.
pub fn newest(folder: &Path) -> Result<PathBuf> {
    let place = folder.join(format!("{RELEASE}-{}", PACKAGES.replace(',', "-")));
    if place.exists() {
        return Ok(place);
    }
    // The system is made beside its place and renamed, so an existing system is complete.
    let half = folder.join("new");
    system::remove(&half)?;
    println!("making a bare Debian ({RELEASE}: {PACKAGES})");
    // debootstrap mounts the kernel's file systems in the new system.
    let mut debootstrap = system::in_a_space_of_its_own();
    run(debootstrap
        .args(["debootstrap", "--variant=minbase"])
        .arg(format!("--include={PACKAGES}"))
        .arg(RELEASE)
        .arg(&half)
        .arg(apt::mirror()))?;
    run(Command::new("chroot")
        .arg(&half)
        .args(["/usr/bin/apt-get", "clean"]))?;
    for folder in ["rust", "src"] {
        fs::create_dir(half.join(folder))
            .with_context(|| format!("making /{folder} in the bare Debian"))?;
    }
    fs::rename(&half, &place).with_context(|| format!("renaming {}", half.display()))?;
    Ok(place)
}
