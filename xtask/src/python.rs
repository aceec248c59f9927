//! The step `python`: the wheel of the Python package, built with maturin, installed in a fresh environment, and its
//! tests.
//!
//! The tests see the installed package alone, as users do: they run in a folder without the sources. The wheel is a
//! build of the profile `dev`, whose
//! dependencies the target folder shares.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::metadata::Metadata;
use crate::step::counted;
use crate::tally::{NOT_RUN_VARIABLE, NotRunFile, Outcome};
use crate::tools::run;

const NAME: &str = "python";
/// Versions of the tools, each with the hashes of its files.
const TOOLS: &str = "python/tests/requirements.txt";
const MANIFEST: &str = "python/Cargo.toml";
const TESTS: &str = "python/tests";

/// Builds, installs and tests the package.
pub fn outcome(metadata: &Metadata, not_run: &NotRunFile) -> Result<Outcome> {
    let (root, folder) = (
        &metadata.workspace_root,
        metadata.target_directory.join(NAME),
    );
    remove(&folder)?;
    let environment = Environment::new(&folder);
    if let Err(reason) = environment.install_tools(&root.join(TOOLS)) {
        // Without Python or without a network there is no tool, which says nothing about the package.
        return Ok(Outcome::not_run(NAME, &format!("{reason:#}")));
    }
    environment.install_wheel(root, &folder)?;
    let mut tests = environment.python();
    tests.args(["-m", "pytest", "-q", "-p", "no:cacheprovider"]);
    tests.arg(root.join(TESTS)).current_dir(&folder);
    tests.env(NOT_RUN_VARIABLE, not_run.path());
    counted(tests, not_run)
}

/// An environment of Python with nothing in it.
struct Environment(PathBuf);

impl Environment {
    fn new(folder: &Path) -> Self {
        Self(folder.join("environment"))
    }

    fn python(&self) -> Command {
        Command::new(self.0.join("bin/python"))
    }

    fn pip_install(&self) -> Command {
        let mut pip = self.python();
        pip.args(["-m", "pip", "install", "--quiet"]);
        pip.arg("--disable-pip-version-check");
        pip
    }

    fn install_tools(&self, tools: &Path) -> Result<()> {
        run(Command::new("python3").args(["-m", "venv"]).arg(&self.0))?;
        let mut pip = self.pip_install();
        run(pip
            .args([
                "--require-hashes",
                "--only-binary",
                ":all:",
                "--requirement",
            ])
            .arg(tools))
    }

    /// Builds the wheel below `folder`, and installs it as a user does, but without an index.
    fn install_wheel(&self, root: &Path, folder: &Path) -> Result<()> {
        let wheels = folder.join("wheels");
        let mut maturin = Command::new(self.0.join("bin/maturin"));
        maturin.args(["build", "--profile", "dev", "--locked", "--out"]);
        maturin.arg(&wheels).arg("--manifest-path").arg(MANIFEST);
        println!("$ {maturin:?}");
        let status = maturin.current_dir(root).status();
        if !status.context("starting maturin")?.success() {
            bail!("maturin built no wheel");
        }
        let mut pip = self.pip_install();
        pip.args(["--no-index", "--find-links"]).arg(&wheels);
        run(pip.arg("stonecast"))
    }
}

/// Removes a folder that may not be there.
fn remove(folder: &Path) -> Result<()> {
    match folder.exists() {
        true => {
            fs::remove_dir_all(folder).with_context(|| format!("removing {}", folder.display()))
        }
        false => Ok(()),
    }
}
