//! `cargo xtask c-library`: builds the C library, and installs it below a prefix.

mod prefix;

use std::path::Path;

use anyhow::{Result, bail};

use crate::metadata::Metadata;
use crate::step::cargo;

use prefix::{Files, install};

const PACKAGE: &str = "stonecast-c";

/// Builds the library by Cargo's `profile`, and installs it below `prefix`.
pub fn run(prefix: &Path, profile: &str, verbs: bool) -> Result<bool> {
    let metadata = Metadata::of_the_workspace()?;
    let root = &metadata.workspace_root;
    let arguments = [
        "build",
        "--locked",
        "--package",
        PACKAGE,
        "--profile",
        profile,
    ];
    let mut build = cargo(root, &arguments);
    if verbs {
        build.args(["--features", "verbs"]);
    }
    if !build.status()?.success() {
        bail!("cargo built no library");
    }
    // Cargo names a folder by the profile, but that of `dev`.
    let folder = if profile == "dev" { "debug" } else { profile };
    let files = Files {
        header: &root.join("crates/c/include/stonecast.h"),
        built: &metadata.target_directory.join(folder),
        version: env!("CARGO_PKG_VERSION"),
    };
    install(&files, prefix)?;
    let described = prefix.join("lib/pkgconfig");
    println!(
        "installed; `PKG_CONFIG_PATH={} pkg-config --cflags --libs stonecast` has the options of the compiler",
        described.display()
    );
    Ok(true)
}
