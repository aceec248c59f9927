//! The long campaign: full counts of seeds and crash states, and every seeded bug. Once for each release, its result is
//! written down in `docs/testing.md`.
//!
//! ```text
//!   orders.rs    one row for each scenario, split into parts
//!   stories.rs   tests with larger counts than those of CI: the tries of quiet, and real processes that are killed
//!   ledger.rs    the parts that are done: no part runs twice at the same commit
//!   report.rs    the totals
//! ```

mod ledger;
mod orders;
mod report;
mod stories;

use std::process::Command;
use std::time::Instant;

use anyhow::{Context, Result, ensure};

use self::ledger::{Done, Ledger};
pub use self::orders::Part;
use self::orders::{MUTANTS, ORDERS, Share};
use self::report::Campaign;
use self::stories::STORIES;
use crate::metadata::Metadata;
use crate::mutants;
use crate::sim::{Binary, Total};

/// Seeds of the unchanged store in each scenario in which seeded bugs are hunted.
const CONTROL_SEEDS: &str = "300";

/// The part of a campaign to run.
pub struct CampaignOptions {
    /// The share of the counts that a whole campaign runs.
    pub percent: f64,
    pub part: Part,
    /// The orders to run; all orders if empty.
    pub orders: Vec<String>,
    pub with_mutants: bool,
    /// Whether to print the totals and run nothing.
    pub only_report: bool,
}

/// Runs the orders of one part that are not done, and prints the totals of all parts that are done. Returns `false` if
/// any of these parts broke a promise or missed a bug.
pub fn run(options: &CampaignOptions) -> Result<bool> {
    let metadata = Metadata::of_the_workspace()?;
    let (commit, is_clean) = commit(&metadata)?;
    let mut ledger = Ledger::open(&metadata.target_directory, &commit, is_clean)?;
    let due = due(options, &ledger)?;
    if !due.is_empty() && !options.only_report {
        let binary = Binary::build(&metadata)?;
        for order in due {
            let start = Instant::now();
            let (holds, total) = run_order(&metadata, &binary, order, options)?;
            ledger.note(Done {
                order: order.to_owned(),
                part: options.part.number,
                of: options.part.of,
                percent: options.percent,
                seconds: start.elapsed().as_secs_f64(),
                holds,
                total,
            })?;
        }
    }
    let commit = match is_clean {
        true => commit,
        false => format!("{commit} and changes"),
    };
    let campaign = Campaign {
        commit: &commit,
        percent: options.percent,
        of: options.part.of,
    };
    print!("{}", campaign.report(&ledger));
    let mut parts = names().flat_map(|order| ledger.parts(order, options.percent, options.part.of));
    Ok(parts.all(|done| done.holds))
}

/// All orders, by name.
fn names() -> impl Iterator<Item = &'static str> {
    let scenarios = ORDERS.iter().map(|order| order.scenario);
    let stories = STORIES.iter().map(|stories| stories.order);
    scenarios.chain(stories).chain([MUTANTS])
}

/// Returns the wanted orders whose part is not done.
fn due(options: &CampaignOptions, ledger: &Ledger) -> Result<Vec<&'static str>> {
    for wanted in &options.orders {
        let known: Vec<&str> = names().collect();
        ensure!(
            known.contains(&&**wanted),
            "there is no order {wanted}; there are {}",
            known.join(", ")
        );
    }
    let is_wanted = |order: &&str| {
        let is_named = options.orders.is_empty() || options.orders.iter().any(|name| name == order);
        let is_here = match *order {
            MUTANTS => options.with_mutants && options.part.number == 1,
            _ if STORIES.iter().any(|stories| stories.order == *order) => options.part.number == 1,
            _ => true,
        };
        is_named && is_here
    };
    let is_due = |order: &&str| !ledger.has(order, options.percent, options.part);
    Ok(names().filter(is_wanted).filter(is_due).collect())
}

/// Runs a part of an order. Returns whether all is well, and the totals.
fn run_order(
    metadata: &Metadata,
    binary: &Binary,
    name: &str,
    options: &CampaignOptions,
) -> Result<(bool, Total)> {
    if let Some(stories) = STORIES.iter().find(|stories| stories.order == name) {
        return Ok((stories.run(metadata, options.percent)?, Total::default()));
    }
    let Some(order) = ORDERS.iter().find(|order| order.scenario == name) else {
        let arguments = ["--control", CONTROL_SEEDS].map(str::to_owned);
        return Ok((
            mutants::run(metadata, mutants::Build::Hunts, &arguments)?,
            Total::default(),
        ));
    };
    let total = match order.share(options.percent, options.part) {
        Share::Seeds(seeds) => binary.run_seeds(order.scenario, seeds)?,
        Share::CrashStates { first, states } => {
            binary.run_crash_states(order.scenario, first, states)?
        }
    };
    Ok((total.broken.is_empty(), total))
}

/// Returns the commit of the checkout, and whether the checkout is unchanged since.
fn commit(metadata: &Metadata) -> Result<(String, bool)> {
    let git = |arguments: &[&str]| -> Result<String> {
        let mut git = Command::new("git");
        let output = git
            .args(arguments)
            .current_dir(&metadata.workspace_root)
            .output()
            .context("starting git")?;
        ensure!(
            output.status.success(),
            "git {} failed",
            arguments.join(" ")
        );
        Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
    };
    let commit = git(&["rev-parse", "--short=12", "HEAD"])?;
    let is_clean = git(&["status", "--porcelain", "--untracked-files=no"])?.is_empty();
    Ok((commit, is_clean))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(number: u64, orders: &[&str]) -> CampaignOptions {
        CampaignOptions {
            percent: 100.0,
            part: Part { number, of: 2 },
            orders: orders.iter().map(|&order| order.to_owned()).collect(),
            with_mutants: true,
            only_report: false,
        }
    }

    #[test]
    fn a_part_that_is_done_is_not_due_again_and_undivided_orders_belong_to_the_first_part() {
        let folder = tempfile::tempdir().unwrap();
        let mut ledger = Ledger::open(folder.path(), "abc", true).unwrap();
        let all: Vec<&str> = names().collect();
        assert_eq!(due(&options(1, &[]), &ledger).unwrap(), all);
        assert_eq!(
            due(&options(2, &[]), &ledger).unwrap(),
            all[..all.len() - 1 - STORIES.len()]
        );
        assert_eq!(due(&options(2, &["copies"]), &ledger).unwrap(), ["copies"]);
        assert!(due(&options(1, &["copy"]), &ledger).is_err());
        ledger
            .note(Done {
                order: "copies".to_owned(),
                part: 2,
                of: 2,
                percent: 100.0,
                seconds: 0.0,
                holds: true,
                total: Total::default(),
            })
            .unwrap();
        assert!(due(&options(2, &["copies"]), &ledger).unwrap().is_empty());
        assert_eq!(due(&options(1, &["copies"]), &ledger).unwrap(), ["copies"]);
    }
}
