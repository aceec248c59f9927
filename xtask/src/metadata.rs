//! The workspace, from `cargo metadata`: the few facts that the checks need.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, bail};
use serde::Deserialize;

/// The output of `cargo metadata`.
#[derive(Deserialize)]
pub struct Metadata {
    /// The packages: with `--no-deps` those of the workspace, otherwise all.
    pub packages: Vec<Package>,
    /// Root of the workspace.
    pub workspace_root: PathBuf,
    /// The folder for artefacts.
    pub target_directory: PathBuf,
}

/// A package.
#[derive(Deserialize)]
pub struct Package {
    /// The name.
    pub name: String,
    /// The version.
    pub version: String,
    /// SPDX expression.
    pub license: Option<String>,
    /// The package's `Cargo.toml`.
    pub manifest_path: PathBuf,
    /// `None` for packages of the workspace.
    pub source: Option<String>,
    /// The dependencies in `Cargo.toml`.
    pub dependencies: Vec<Dependency>,
    /// Libraries, binaries, tests.
    pub targets: Vec<Target>,
}

/// A line of a dependency table.
#[derive(Deserialize)]
pub struct Dependency {
    /// The named package.
    pub name: String,
    /// `None` for `[dependencies]`, else `dev` or `build`.
    pub kind: Option<String>,
    /// Set for packages of the workspace.
    pub path: Option<PathBuf>,
}

/// A crate of a package.
#[derive(Deserialize)]
pub struct Target {
    /// `lib`, `bin`, `test`, ...
    pub kind: Vec<String>,
    /// The root file of the crate.
    pub src_path: PathBuf,
}

impl Metadata {
    /// The packages of the workspace, without resolving anything.
    pub fn of_the_workspace() -> Result<Self> {
        Self::load(&["--no-deps"])
    }

    /// Every package that a build may use.
    pub fn of_everything() -> Result<Self> {
        Self::load(&[])
    }

    fn load(arguments: &[&str]) -> Result<Self> {
        let output = Command::new(env!("CARGO"))
            .args([
                "metadata",
                "--format-version",
                "1",
                "--all-features",
                "--locked",
            ])
            .args(arguments)
            .output()
            .context("starting cargo metadata")?;
        if !output.status.success() {
            bail!(
                "cargo metadata failed: {}",
                String::from_utf8_lossy(&output.stderr).trim()
            );
        }
        serde_json::from_slice(&output.stdout).context("reading the output of cargo metadata")
    }
}

impl Package {
    /// The folder of the package.
    pub fn folder(&self) -> PathBuf {
        self.manifest_path
            .parent()
            .expect("a manifest lies in a folder")
            .to_path_buf()
    }
}
