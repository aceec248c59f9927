//! Programs of the workspace for the guest: built on this machine, stripped, and copied to a folder that the guest
//! sees.
//!
//! ```text
//!   programs/stonecast       the binary, release build; stonecast-verbs with the feature `verbs`
//!   programs/NAME            the test binary NAME of a package, as `cargo xtask ci` builds it
//!   programs/links           paths under which programs expect each other, which the guest links to /programs
//! ```

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde::Deserialize;

use crate::metadata::Metadata;
use crate::selection::{PROGRAMS, TESTS};
use crate::step::cargo;
use crate::tools::{output_of, run};

/// Folder where a job may mount a medium that tests take for the disk of the workspace.
const SCRATCH: &str = "/scratch";

/// A set of programs that one call of cargo builds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Set {
    /// The binary and its tests, in the release build of the end-to-end tests.
    Binary,
    /// The tests of the other packages.
    Tests,
    /// The binary with verbs, and tests over verbs. The build needs a C toolchain.
    Verbs,
}

struct Build {
    set: Set,
    arguments: &'static [&'static str],
    /// `(package, target, name in the guest)`.
    wanted: &'static [(&'static str, &'static str, &'static str)],
}

const BUILDS: &[Build] = &[
    Build {
        set: Set::Binary,
        arguments: PROGRAMS,
        wanted: &[
            ("stonecast-cli", "stonecast", "stonecast"),
            ("stonecast-cli", "it", "cli-it"),
        ],
    },
    Build {
        set: Set::Tests,
        arguments: TESTS,
        wanted: &[
            ("stonecast-media", "it", "media-it"),
            ("stonecast-fabric-shm", "it", "fabric-shm-it"),
            ("stonecast-kv", "it", "kv-it"),
        ],
    },
    Build {
        set: Set::Verbs,
        arguments: &[
            "test",
            "--package",
            "stonecast-fabric-verbs",
            "--package",
            "stonecast-persist",
            "--package",
            "stonecast-kv",
            "--features",
            "stonecast-fabric-verbs/verbs,stonecast-persist/verbs,stonecast-kv/verbs",
            "--locked",
        ],
        wanted: &[
            ("stonecast-fabric-verbs", "it", "fabric-verbs-it"),
            ("stonecast-persist", "it", "persist-verbs-it"),
            ("stonecast-kv", "it", "kv-verbs-it"),
        ],
    },
    Build {
        set: Set::Verbs,
        arguments: &[
            "build",
            "--package",
            "stonecast-cli",
            "--package",
            "stonecast-lab",
            "--features",
            "stonecast-cli/verbs,stonecast-lab/verbs",
            "--locked",
            "--release",
        ],
        wanted: &[
            ("stonecast-cli", "stonecast", "stonecast-verbs"),
            ("stonecast-lab", "stonecast-lab", "stonecast-lab-verbs"),
        ],
    },
];

/// A program that cargo built, from its output.
#[derive(Deserialize)]
struct Artifact {
    package_id: String,
    target: Target,
    profile: Profile,
    executable: Option<PathBuf>,
}

#[derive(Deserialize)]
struct Target {
    name: String,
    kind: Vec<String>,
}

#[derive(Deserialize)]
struct Profile {
    test: bool,
}

/// Programs for the guest.
pub struct Programs {
    /// The folder that the guest sees.
    pub folder: PathBuf,
    /// Lines `target name` for the guest's links.
    pub links: String,
}

impl Programs {
    /// Builds the programs of `sets`, below `folder`. Without `release` the binary is built with
    /// the dev profile.
    pub fn build(metadata: &Metadata, folder: &Path, sets: &[Set], release: bool) -> Result<Self> {
        let programs = folder.join("programs");
        fs::create_dir_all(&programs)
            .with_context(|| format!("creating {}", programs.display()))?;
        let scratch = metadata.target_directory.join("tmp");
        let mut links = format!("{SCRATCH} {}\n", scratch.display());
        for build in BUILDS.iter().filter(|build| sets.contains(&build.set)) {
            for (name, built) in made_by(metadata, build, release)? {
                run(Command::new("strip")
                    .arg("-o")
                    .arg(programs.join(name))
                    .arg(&built))?;
                // The first of two programs with the same path counts: tests expect the binary with which they were
                // built.
                if !links.contains(&format!(" {}\n", built.display())) {
                    links += &format!("/programs/{name} {}\n", built.display());
                }
            }
        }
        fs::write(programs.join("links"), &links).context("writing the guest's links")?;
        Ok(Self {
            folder: programs,
            links,
        })
    }

    /// The programs that an earlier call left below `folder`.
    pub fn left_in(folder: &Path) -> Result<Self> {
        let folder = folder.join("programs");
        let links = fs::read_to_string(folder.join("links"))
            .context("no earlier run left programs; run the command without --no-build")?;
        Ok(Self { folder, links })
    }

    /// The program `name`, which also runs on this machine.
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }
}

/// Runs a build. Returns the wanted programs with their names in the guest.
fn made_by(
    metadata: &Metadata,
    build: &Build,
    release: bool,
) -> Result<Vec<(&'static str, PathBuf)>> {
    let arguments: Vec<&str> = build
        .arguments
        .iter()
        .copied()
        .filter(|argument| release || *argument != "--release")
        .collect();
    let no_run: &[&str] = if arguments[0] == "test" {
        &["--no-run"]
    } else {
        &[]
    };
    println!("$ cargo {}", [&arguments[..], no_run].concat().join(" "));
    let mut command = cargo(&metadata.workspace_root, &arguments);
    command
        .args(no_run)
        .args(["--message-format", "json-render-diagnostics"]);
    let printed = output_of(&mut command)?;
    let artifacts: Vec<Artifact> = printed
        .lines()
        .filter_map(|line| serde_json::from_str(line).ok())
        .collect();
    let mut made = Vec::new();
    for (package, target, name) in build.wanted {
        let is_it = |artifact: &&Artifact| {
            // Cargo builds a binary twice: as itself, and as a test of itself.
            let is_binary = artifact.target.kind.iter().any(|kind| kind == "bin");
            let packages = [
                format!("/{package}#"),
                format!("#{package}@"),
                format!(" {package} "),
            ];
            let folder = format!("/{}#", package.strip_prefix("stonecast-").unwrap_or("cli"));
            artifact.executable.is_some()
                && artifact.target.name == *target
                && artifact.profile.test != is_binary
                && (artifact.package_id.contains(&folder)
                    || packages
                        .iter()
                        .any(|part| artifact.package_id.contains(part)))
        };
        let found: Vec<_> = artifacts.iter().filter(is_it).collect();
        ensure!(
            found.len() == 1,
            "cargo built {} programs {target} of {package}, not one",
            found.len()
        );
        made.push((*name, found[0].executable.clone().expect("it has one")));
    }
    Ok(made)
}
