//! `cargo xtask guest`: tests in an emulated machine.
//!
//! ```text
//!   packages  the guest's parts, from the distribution            image    kernel and first file system, cached
//!   programs  the guest's programs, from this workspace           machine  one boot: started, watched, ended
//!   jobs      scripts for the guest, and their results             report   their cases, counted
//!   cuts      power cuts: boot, load, kill, boot again, compare
//! ```
//!
//! On a machine that cannot run guests (another system, no root to install QEMU) each job is
//! reported as not run, by name.

mod archive;
mod cuts;
mod image;
mod jobs;
mod machine;
mod modules;
mod packages;
mod programs;
mod report;

use std::fs;
use std::path::PathBuf;
use std::time::Instant;

use anyhow::{Context, Result, bail};

use crate::guest::image::Image;
use crate::guest::jobs::{JOBS, Job};
use crate::guest::programs::{Programs, Set};
use crate::metadata::Metadata;
use crate::needs;
use crate::tally::{Outcome, Tally, hand_on, minutes};

/// The options of a run.
#[derive(Debug, Default)]
pub struct GuestOptions {
    /// Number of power cuts.
    pub cuts: Option<u32>,
    /// The jobs to run; all, if none is named.
    pub only: Vec<String>,
    /// The seed of the moments of power cuts; `None`: from the clock.
    pub seed: Option<u64>,
    /// Whether to use programs of the dev profile, which build faster and run slower.
    pub dev: bool,
    /// Whether to use the programs of the last run, whatever the sources are.
    pub no_build: bool,
}

/// The surroundings of a job.
pub struct Bench {
    /// The folder for everything that guests leave.
    folder: PathBuf,
    programs: Programs,
    cuts: u32,
    seed: u64,
}

/// Default number of power cuts.
const CUTS: u32 = 20;

/// Runs the jobs and prints their outcome. Returns `false` if anything failed.
pub fn run(options: &GuestOptions) -> Result<bool> {
    let outcome = outcome(&Metadata::of_the_workspace()?, options)?;
    hand_on(&outcome.not_run)?;
    let mut tally = Tally::default();
    tally.add(
        "guest",
        (std::time::Duration::ZERO, std::time::Duration::ZERO),
        outcome,
    );
    println!("{}", tally.closing());
    Ok(tally.success())
}

/// Runs the jobs.
pub fn outcome(metadata: &Metadata, options: &GuestOptions) -> Result<Outcome> {
    if let Some(unknown) = options
        .only
        .iter()
        .find(|name| JOBS.iter().all(|job| job.name != **name))
    {
        let names: Vec<_> = JOBS.iter().map(|job| job.name).collect();
        bail!("there is no job {unknown}; there are {}", names.join(", "));
    }
    let chosen = || {
        JOBS.iter().filter(|job| {
            options.only.is_empty() || options.only.iter().any(|name| name == job.name)
        })
    };
    if let Err(reason) = ensure_tools() {
        let not_run = chosen()
            .map(|job| (format!("guest: {}", job.name), reason.clone()))
            .collect();
        return Ok(Outcome {
            passed: 0,
            failed: 0,
            not_run,
        });
    }
    let mut total = Outcome::default();
    let lacking = match chosen().any(needs_verbs) {
        true => needs::ensure("verbs").err(),
        false => None,
    };
    let can_build_verbs = lacking.is_none();
    if let Some(missing) = lacking {
        for job in chosen().filter(|job| needs_verbs(job)) {
            total
                .not_run
                .push((format!("guest: {}", job.name), missing.to_string()));
        }
    }
    let chosen = || chosen().filter(|job| can_build_verbs || !needs_verbs(job));
    let folder = metadata.target_directory.join("guest");
    fs::create_dir_all(&folder).with_context(|| format!("creating {}", folder.display()))?;
    let mut sets = Vec::new();
    for set in chosen().flat_map(|job| job.programs) {
        if !sets.contains(set) {
            sets.push(*set);
        }
    }
    let programs = match options.no_build {
        true => Programs::left_in(&folder)?,
        false => Programs::build(metadata, &folder, &sets, !options.dev)?,
    };
    let seed = options.seed.unwrap_or_else(|| {
        std::time::UNIX_EPOCH
            .elapsed()
            .map_or(1, |time| time.as_micros() as u64)
    });
    let bench = Bench {
        folder,
        programs,
        cuts: options.cuts.unwrap_or(CUTS),
        seed,
    };
    for job in chosen() {
        println!("\n--- {}: {}", job.name, job.what);
        let start = Instant::now();
        let outcome = (job.run)(&bench).unwrap_or_else(|error| {
            println!("case failed: {}: {error:#}", job.name);
            Outcome {
                passed: 0,
                failed: 1,
                not_run: Vec::new(),
            }
        });
        println!(
            "--- {}: {} passed, {} failed, {}",
            job.name,
            outcome.passed,
            outcome.failed,
            minutes(start.elapsed())
        );
        total.passed += outcome.passed;
        total.failed += outcome.failed;
        total.not_run.extend(outcome.not_run);
    }
    Ok(total)
}

/// Returns whether a job's programs need the tools that build the bindings of libibverbs.
fn needs_verbs(job: &Job) -> bool {
    job.programs.contains(&Set::Verbs)
}

/// Installs the tools that build and run a guest. The error is the reason why this machine cannot install them.
fn ensure_tools() -> Result<(), String> {
    if !needs::apt::is_debian() {
        return Err("only Debian has the packages of the guest".to_owned());
    }
    needs::ensure("guest").map_err(|missing| missing.to_string())
}

impl Bench {
    /// The newest guest.
    fn image(&self) -> Result<Image> {
        Image::newest(&self.folder)
    }

    /// An empty folder for the boots of the job `name`.
    fn job_folder(&self, name: &str) -> Result<PathBuf> {
        let folder = self.folder.join("jobs").join(name);
        let _may_not_exist = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).with_context(|| format!("creating {}", folder.display()))?;
        fs::write(folder.join("links"), &self.programs.links)
            .context("writing the guest's links")?;
        Ok(folder)
    }
}
