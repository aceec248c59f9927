//! The content of a package: binary, manual, completions, unit, example configuration.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use super::{copy, write};
use crate::tools::{bytes_of, run};

/// Completions: the shell, and the file name that it expects.
pub const SHELLS: [(&str, &str); 3] = [
    ("bash", "bash/stonecast"),
    ("zsh", "zsh/_stonecast"),
    ("fish", "fish/stonecast.fish"),
];

/// The written files.
pub struct Content {
    pub binary: PathBuf,
    pub configuration: PathBuf,
    pub unit: PathBuf,
    /// The folder of the manual's pages.
    pub manual: PathBuf,
    /// The folder of [`SHELLS`].
    pub completions: PathBuf,
    /// The folder of the licences.
    pub licences: PathBuf,
}

impl Content {
    /// Writes everything into `folder`; files that are the same on every machine come from `packaging` of the checkout.
    pub fn write(checkout: &Path, program: &Path, folder: &Path) -> Result<Self> {
        let content = Self {
            binary: folder.join("bin/stonecast"),
            configuration: folder.join("stonecast.toml"),
            unit: folder.join("systemd/stonecast.service"),
            manual: folder.join("man1"),
            completions: folder.join("completions"),
            licences: checkout.to_owned(),
        };
        copy(program, &content.binary)?;
        run(Command::new("strip").arg(&content.binary))?;
        let packaging = checkout.join("packaging");
        copy(&packaging.join("stonecast.toml"), &content.configuration)?;
        copy(&packaging.join("systemd/stonecast.service"), &content.unit)?;
        for (shell, name) in SHELLS {
            let printed = bytes_of(Command::new(program).args(["completions", shell]))?;
            write(&content.completions.join(name), printed)?;
        }
        run(Command::new(program).arg("man").arg(&content.manual))?;
        Ok(content)
    }

    /// The pages of the manual.
    pub fn pages(&self) -> Result<Vec<PathBuf>> {
        let folder = &self.manual;
        let entries =
            fs::read_dir(folder).with_context(|| format!("reading {}", folder.display()))?;
        let mut pages: Vec<PathBuf> = entries
            .map(|entry| entry.map(|entry| entry.path()))
            .collect::<Result<_, _>>()?;
        pages.sort();
        Ok(pages)
    }
}
