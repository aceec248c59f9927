//! Packages of the product, in `target/packaging`.
//!
//! ```text
//!   content   binary, manual, completions, unit, example configuration
//!   deb       the content as a package of Debian
//!   image     the binary and its libraries as an image of a container (OCI), without a base image
//! ```

mod content;
mod deb;
mod image;

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::metadata::Metadata;
use crate::step::cargo;
use crate::tools::{output_of, run as run_tool};
use content::Content;

/// Builds the packages, with the binary `program` if it is given; its symbols are stripped there.
pub fn run(program: Option<PathBuf>) -> Result<bool> {
    let metadata = Metadata::of_the_workspace()?;
    let program = match program {
        Some(program) => program,
        None => build(&metadata)?,
    };
    let folder = metadata.target_directory.join("packaging");
    let content = Content::write(&metadata.workspace_root, &program, &folder)?;
    let version = output_of(Command::new(&content.binary).arg("--version"))?;
    let version = version
        .split_whitespace()
        .last()
        .context("the binary has no version")?;
    println!("{}", folder.display());
    println!("{}", deb::build(&content, version, &folder)?.display());
    println!("{}", image::build(&content, version, &folder)?.display());
    Ok(true)
}

/// Builds the binary as it is distributed.
fn build(metadata: &Metadata) -> Result<PathBuf> {
    let built = cargo(
        &metadata.workspace_root,
        &[
            "build",
            "--profile",
            "dist",
            "--locked",
            "--package",
            "stonecast-cli",
        ],
    )
    .status()?;
    ensure!(built.success(), "the binary does not build");
    Ok(metadata.target_directory.join("dist/stonecast"))
}

/// Replaces a folder by an empty one.
fn fresh(folder: &Path) -> Result<()> {
    if folder.exists() {
        std::fs::remove_dir_all(folder)
            .with_context(|| format!("removing {}", folder.display()))?;
    }
    make(folder)
}

/// Makes a folder, and those that it lies in.
fn make(folder: &Path) -> Result<()> {
    std::fs::create_dir_all(folder).with_context(|| format!("making {}", folder.display()))
}

/// Copies a file, and makes its folder.
fn copy(from: &Path, to: &Path) -> Result<()> {
    make(to.parent().expect("a file is in a folder"))?;
    std::fs::copy(from, to)
        .map(drop)
        .with_context(|| format!("copying {} to {}", from.display(), to.display()))
}

/// Writes a file, and makes its folder.
fn write(to: &Path, text: impl AsRef<[u8]>) -> Result<()> {
    make(to.parent().expect("a file is in a folder"))?;
    std::fs::write(to, text).with_context(|| format!("writing {}", to.display()))
}

/// Packs `folder` into the archive `to`: the same content gives the same bytes.
fn pack(folder: &Path, to: &Path) -> Result<()> {
    run_tool(
        archiving(0)
            .args(["--create", "--file"])
            .arg(to)
            .arg("--directory")
            .arg(folder)
            .arg("."),
    )
}

/// Appends the empty folder `path` of `root` to the archive `to`, as a folder of user and group `owner`.
fn append_folder(root: &Path, path: &str, owner: u32, to: &Path) -> Result<()> {
    run_tool(
        archiving(owner)
            .args(["--append", "--file"])
            .arg(to)
            .arg("--directory")
            .arg(root)
            .arg(format!(".{path}")),
    )
}

/// The command that archives files as those of user and group `owner`, whoever builds.
fn archiving(owner: u32) -> Command {
    let mut command = Command::new("tar");
    command
        .args(["--sort=name", "--mtime=@0", "--numeric-owner"])
        .args([format!("--owner={owner}"), format!("--group={owner}")])
        .args(["--mode=u=rwX,go=rX", "--format=gnu"]);
    command
}
