//! `sim`: runs a scenario of the simulated world from seeds, and reports the findings.
//!
//! ```text
//!   one seed      everything about it                     text.rs
//!   many seeds    failing ones, then the sum              text.rs  campaign.rs
//!   --json        one line for each seed, in their order; words for people go to stderr
//!   --faults      the classes of faults                   classes.rs
//!   a failure     the first one is made as small as possible, and printed as a timeline
//! ```

mod arguments;
mod campaign;
mod classes;
mod text;

use std::hash::{BuildHasher, RandomState};
use std::thread;

use stonecast_check::{Report, Scenario, scenario, shrink};

pub use arguments::Sim;
use campaign::{QuietPanics, run_one};

use crate::failure::Failure;
use crate::output;
use crate::progress::Progress;

/// Runs the seeds that `flags` ask for.
pub fn run(flags: &Sim) -> Result<(), Failure> {
    let Some(name) = &flags.scenario else {
        return classes::print(flags.json);
    };
    let scenario = scenario(name).expect("the command line takes no other name");
    let adjustment = flags.adjustment();
    // Small enough for every reader of JSON.
    let first = flags
        .seed
        .unwrap_or_else(|| RandomState::new().hash_one(0) >> 16);
    let end = first
        .checked_add(flags.seeds)
        .ok_or_else(|| Failure::usage("--seed and --seeds together exceed 64 bits"))?;
    let processors = thread::available_parallelism().map_or(1, usize::from);
    let threads = flags
        .threads
        .map_or(processors, |threads| threads as usize)
        .min(flags.seeds.try_into().unwrap_or(usize::MAX));

    let _quiet = QuietPanics::begin();
    let mut sum = text::Sum::default();
    let mut first_failure = None;
    let progress = Progress::of_count("seeds", Some(flags.seeds));
    campaign::run(scenario, first..end, threads, &adjustment, |report| {
        progress.advance(1);
        sum.add(&report);
        if flags.json {
            output::json(&text::Line::of(&report))?;
        } else if flags.seeds == 1 {
            output::bytes(text::of_run(scenario, &report, &adjustment).as_bytes())?;
        }
        if !report.violations.is_empty() {
            if flags.json || flags.seeds > 1 {
                output::say(format_args!(
                    "seed {}: {}",
                    report.seed,
                    text::of_violations(&report)
                ));
            }
            first_failure.get_or_insert(report);
        }
        Ok(())
    })?;
    drop(progress);
    if flags.seeds > 1 && !flags.json {
        output::bytes(sum.text(scenario, first).as_bytes())?;
    }
    let Some(failure) = first_failure else {
        return Ok(());
    };
    if !flags.no_shrink {
        tell_shortest(flags, scenario, &failure)?;
    }
    Err(Failure::operation(format!(
        "{} of {} seeds broke a promise: {}",
        sum.failed.len(),
        flags.seeds,
        text::seeds(&sum.failed)
    )))
}

/// Searches for the shortest schedule that fails as `failure` did, and prints it.
fn tell_shortest(flags: &Sim, scenario: &Scenario, failure: &Report) -> Result<(), Failure> {
    output::say_to_a_person("searching for the shortest schedule that fails");
    let shrunk = shrink(&flags.adjustment(), failure, |adjustment| {
        run_one(scenario, failure.seed, adjustment)
    });
    let text = text::of_shrunk(&shrunk);
    if flags.json {
        output::say(text.trim_end());
        return Ok(());
    }
    output::bytes(text.as_bytes())
}
