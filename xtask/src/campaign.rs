//! The long campaign: full counts of seeds and crash states, and every seeded bug. Once for each release, its result is
//! written down in `docs/testing.md`.

use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use crate::metadata::Metadata;
use crate::mutants;
use crate::sim::{self, Counts, Total};
use crate::tally::minutes;

/// The counts of a whole campaign.
const WHOLE: Counts = Counts {
    seeds: 10_000,
    crash_states: 10_000_000,
};

/// Runs `percent` percent of the counts, and every seeded bug unless told otherwise. Returns `false` if a promise was broken or a bug not found.
pub fn run(percent: f64, with_mutants: bool) -> Result<bool> {
    let metadata = Metadata::of_the_workspace()?;
    let commit = commit(&metadata)?;
    let start = Instant::now();
    let totals = sim::totals(&metadata, WHOLE.percent(percent))?;
    let found = match with_mutants {
        true => Some(mutants::run(&metadata, &[])?),
        false => None,
    };
    print!(
        "{}",
        report(&commit, percent, &totals, found, start.elapsed())
    );
    Ok(totals.iter().all(|total| total.broken == 0) && found.unwrap_or(true))
}

impl Counts {
    /// A part of these counts, and at least one of each.
    fn percent(self, percent: f64) -> Self {
        let part = |count: u64| (count as f64 * percent / 100.0).max(1.0) as u64;
        Self {
            seeds: part(self.seeds),
            crash_states: part(self.crash_states),
        }
    }
}

/// The commit of the checkout, which says whether something was changed since.
fn commit(metadata: &Metadata) -> Result<String> {
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
    Ok(if is_clean {
        commit
    } else {
        format!("{commit} and changes")
    })
}

/// The result in the form of `docs/testing.md`.
fn report(
    commit: &str,
    percent: f64,
    totals: &[Total],
    bugs: Option<bool>,
    time: Duration,
) -> String {
    let mut report = format!(
        "\n### {commit}\n\n{percent} % of the counts, {}\n\n\
         | scenario | seeds | operations | crash states | seeds that broke a promise |\n| --- | --- | --- | --- | --- |\n",
        minutes(time),
    );
    for total in totals {
        report += &format!(
            "| {} | {} | {} | {} | {} |\n",
            total.scenario, total.seeds, total.operations, total.crash_states, total.broken
        );
    }
    let states: u64 = totals.iter().map(|total| total.crash_states).sum();
    report += &format!("| all | | | {states} | |\n\n");
    report
        + match bugs {
            Some(true) => "Every seeded bug was found, and nothing in the unchanged store.\n",
            Some(false) => "NOT every seeded bug was found, or something in the unchanged store.\n",
            None => "Seeded bugs were not planted.\n",
        }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_of_a_campaign_has_at_least_one_of_everything() {
        assert_eq!(WHOLE.percent(100.0), WHOLE);
        let tenth = Counts {
            seeds: 1000,
            crash_states: 1_000_000,
        };
        assert_eq!(WHOLE.percent(10.0), tenth);
        assert_eq!(WHOLE.percent(0.0).seeds, 1);
    }

    #[test]
    fn a_report_names_the_commit_and_says_what_was_not_done() {
        let total = Total {
            scenario: "kv",
            seeds: 10,
            operations: 10_400,
            crash_states: 1500,
            broken: 0,
        };
        let report = report("0123456789ab", 0.1, &[total], None, Duration::from_secs(90));
        let expected = "
### 0123456789ab

0.1 % of the counts, 1:30.0

| scenario | seeds | operations | crash states | seeds that broke a promise |
| --- | --- | --- | --- | --- |
| kv | 10 | 10400 | 1500 | 0 |
| all | | | 1500 | |

Seeded bugs were not planted.
";
        assert_eq!(report, expected);
    }
}
