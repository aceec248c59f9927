//! Programs of the workspace for the guest: built on this machine, stripped, and copied to a folder that the guest
//! sees.
//!
//! ```text
//!   programs/stonecast       the binary, release build, with the feature `verbs` where its tools are there
//!   programs/NAME            the test binary NAME of a package, as `cargo xtask ci` builds it
//!   programs/links           paths under which programs expect each other, which the guest links to /programs
//! ```

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde::Deserialize;

use crate::metadata::Metadata;
use crate::selection::{programs, tests};
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
    /// The binaries, and tests, over verbs. The build needs a C toolchain.
    Verbs,
}

/// A call of cargo, and the programs that it builds for the guest.
struct Build {
    arguments: fn() -> Vec<&'static str>,
    wanted: &'static [Wanted],
}

struct Wanted {
    package: &'static str,
    target: &'static str,
    /// The name in the guest.
    name: &'static str,
    sets: &'static [Set],
}

const BUILDS: &[Build] = &[
    Build {
        arguments: programs,
        wanted: &[
            wanted(
                "stonecast-cli",
                "stonecast",
                "stonecast",
                &[Set::Binary, Set::Verbs],
            ),
            wanted("stonecast-cli", "it", "cli-it", &[Set::Binary, Set::Verbs]),
            wanted(
                "stonecast-lab",
                "stonecast-lab",
                "stonecast-lab",
                &[Set::Verbs],
            ),
        ],
    },
    Build {
        arguments: tests,
        wanted: &[
            wanted("stonecast-media", "it", "media-it", &[Set::Tests]),
            wanted("stonecast-fabric-shm", "it", "fabric-shm-it", &[Set::Tests]),
            wanted("stonecast-kv", "it", "kv-it", &[Set::Tests, Set::Verbs]),
            wanted(
                "stonecast-fabric-verbs",
                "it",
                "fabric-verbs-it",
                &[Set::Verbs],
            ),
            wanted("stonecast-persist", "it", "persist-it", &[Set::Verbs]),
        ],
    },
];

const fn wanted(
    package: &'static str,
    target: &'static str,
    name: &'static str,
    sets: &'static [Set],
) -> Wanted {
    Wanted {
        package,
        target,
        name,
        sets,
    }
}

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
        for build in BUILDS {
            for (name, built) in made_by(metadata, build, sets, release)? {
                run(Command::new("strip")
                    .arg("-o")
                    .arg(programs.join(name))
                    .arg(&built))?;
                links += &format!("/programs/{name} {}\n", built.display());
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

/// Runs a build if it has programs of `sets`. Returns these with their names in the guest.
fn made_by(
    metadata: &Metadata,
    build: &Build,
    sets: &[Set],
    release: bool,
) -> Result<Vec<(&'static str, PathBuf)>> {
    let is_wanted = |wanted: &&Wanted| wanted.sets.iter().any(|set| sets.contains(set));
    let wanted: Vec<_> = build.wanted.iter().filter(is_wanted).collect();
    if wanted.is_empty() {
        return Ok(Vec::new());
    }
    let arguments: Vec<&str> = (build.arguments)()
        .into_iter()
        .filter(|argument| release || *argument != "--release")
        .collect();
    let no_run = ["--no-run"];
    println!("$ cargo {}", [&arguments[..], &no_run].concat().join(" "));
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
    for Wanted {
        package,
        target,
        name,
        ..
    } in wanted
    {
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
