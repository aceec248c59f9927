//! Counts of passed and failed tests, and of tests that this machine could not run.
//!
//! A test that cannot run on this machine (no root, no package lists) appends `NAME<tab>REASON` to the file that the
//! environment variable [`NOT_RUN_VARIABLE`] names, and returns. The test harness counts it as passed; this module
//! subtracts it from that count and names it.

use std::fs;
use std::io::Write as _;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result};

/// The environment variable that names the file to which tests append.
pub const NOT_RUN_VARIABLE: &str = "STONECAST_NOT_RUN";

/// The outcome of one step.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// Tests that passed; a step without tests counts as one.
    pub passed: u64,
    /// Tests that failed; a step that broke before its tests counts as one.
    pub failed: u64,
    /// `(name, reason)` of tests that could not run here.
    pub not_run: Vec<(String, String)>,
}

impl Outcome {
    /// Whether nothing failed.
    pub fn is_success(&self) -> bool {
        self.failed == 0
    }

    /// The word for the outcome. A step of which nothing could run has not passed.
    fn verdict(&self) -> &'static str {
        match (self.passed, self.failed, self.not_run.len()) {
            (_, 1.., _) => "FAILED",
            (0, 0, 1..) => "not run",
            _ => "passed",
        }
    }

    /// The outcome of a step without tests.
    pub fn of_check(success: bool) -> Self {
        Self {
            passed: success.into(),
            failed: (!success).into(),
            not_run: Vec::new(),
        }
    }

    /// The outcome of a step that this machine cannot run.
    pub fn not_run(name: &str, reason: &str) -> Self {
        Self {
            not_run: vec![(name.to_owned(), reason.to_owned())],
            ..Self::default()
        }
    }

    /// The outcome of a step whose output contains the closing lines of test binaries.
    pub fn of_tests(
        success: bool,
        (passed, failed): (u64, u64),
        not_run: Vec<(String, String)>,
    ) -> Self {
        let failed = if success { failed } else { failed.max(1) };
        Self {
            passed: passed.saturating_sub(not_run.len() as u64),
            failed,
            not_run,
        }
    }
}

/// `(passed, failed)` of one closing line of a test binary; `None` for any other line.
pub fn counts_of(line: &str) -> Option<(u64, u64)> {
    let line = line.strip_prefix("test result: ")?;
    let number_before = |word: &str| {
        line.split([' ', ';'])
            .collect::<Vec<_>>()
            .windows(2)
            .find(|pair| pair[1] == word)?[0]
            .parse()
            .ok()
    };
    Some((number_before("passed")?, number_before("failed")?))
}

/// `(passed, failed)` of the closing line of [`Tally::report`]; `None` for any other line.
pub fn counts_of_closing_line(line: &str) -> Option<(u64, u64)> {
    let mut parts = line.split(", ");
    let passed = parts.next()?.strip_suffix(" passed")?.parse().ok()?;
    let failed = parts.next()?.strip_suffix(" failed")?.parse().ok()?;
    Some((passed, failed))
}

/// The file to which tests append.
pub struct NotRunFile {
    path: PathBuf,
}

impl NotRunFile {
    /// An empty file below `folder`.
    pub fn new(folder: PathBuf) -> Result<Self> {
        fs::create_dir_all(&folder).with_context(|| format!("creating {}", folder.display()))?;
        let path = folder.join("not-run");
        fs::write(&path, "").with_context(|| format!("writing {}", path.display()))?;
        Ok(Self { path })
    }

    /// The path of the file.
    pub fn path(&self) -> &PathBuf {
        &self.path
    }

    /// Takes the content of the file, and empties the file.
    pub fn take(&self) -> Result<Vec<(String, String)>> {
        let text = fs::read_to_string(&self.path)
            .with_context(|| format!("reading {}", self.path.display()))?;
        fs::write(&self.path, "").with_context(|| format!("writing {}", self.path.display()))?;
        let split = |line: &str| {
            let (name, reason) = line.split_once('\t').unwrap_or((line, "no reason given"));
            (name.to_owned(), reason.to_owned())
        };
        Ok(text.lines().map(split).collect())
    }
}

/// Appends the tests not run to the file that [`NOT_RUN_VARIABLE`] names, if the variable is set:
/// another run started this one.
pub fn hand_on(not_run: &[(String, String)]) -> Result<()> {
    let Some(path) = std::env::var_os(NOT_RUN_VARIABLE) else {
        return Ok(());
    };
    let lines: String = not_run
        .iter()
        .map(|(name, reason)| format!("{name}\t{reason}\n"))
        .collect();
    let file = fs::File::options().append(true).create(true).open(path);
    file.and_then(|mut file| file.write_all(lines.as_bytes()))
        .context("writing the list of tests not run")
}

/// The whole run.
#[derive(Default)]
pub struct Tally {
    /// Each step with the time that it took, and its budget.
    steps: Vec<(&'static str, (Duration, Duration), Outcome)>,
}

impl Tally {
    /// Adds the outcome of a step; `time` is the time that the step took, and its budget.
    pub fn add(&mut self, step: &'static str, time: (Duration, Duration), outcome: Outcome) {
        self.steps.push((step, time, outcome));
    }

    /// Whether nothing failed.
    pub fn success(&self) -> bool {
        self.steps
            .iter()
            .all(|(_, _, outcome)| outcome.is_success())
    }

    /// The table of steps, the tests not run, and the closing line. Some steps run beside others, so `taken`, the time
    /// of the whole run, may be less than the sum of theirs.
    pub fn report(&self, taken: Duration) -> String {
        let mut report = String::from("\n");
        for (step, (time, budget), outcome) in &self.steps {
            let verdict = outcome.verdict();
            let counts = format!("{} passed, {} failed", outcome.passed, outcome.failed);
            let time = of_budget(*time, *budget);
            report += &format!("{verdict:<7}  {step:<12} {time:<36}  {counts}\n");
        }
        let budget = self.steps.iter().map(|(_, (_, budget), _)| *budget).sum();
        report += &format!("\ntotal time {}\n", of_budget(taken, budget));
        report + &self.closing()
    }

    /// The tests not run, and the closing line.
    pub fn closing(&self) -> String {
        let mut report = String::new();
        let not_run: Vec<_> = self
            .steps
            .iter()
            .flat_map(|(_, _, outcome)| &outcome.not_run)
            .collect();
        if !not_run.is_empty() {
            report += &format!("\n{} not run on this machine:\n", not_run.len());
            not_run
                .iter()
                .for_each(|(name, reason)| report += &format!("not run: {name} ({reason})\n"));
        }
        let sum = |field: fn(&Outcome) -> u64| {
            self.steps
                .iter()
                .map(|(_, _, outcome)| field(outcome))
                .sum::<u64>()
        };
        report += &format!(
            "\n{} passed, {} failed",
            sum(|outcome| outcome.passed),
            sum(|outcome| outcome.failed)
        );
        if !not_run.is_empty() {
            report += &format!(", {} skipped", not_run.len());
        }
        report
    }
}

/// A time for people.
pub fn minutes(time: Duration) -> String {
    format!("{}:{:04.1}", time.as_secs() / 60, time.as_secs_f64() % 60.0)
}

/// A time beside its budget, for people. A longer time is reported and fails no step, because machines are shared.
pub fn of_budget(time: Duration, budget: Duration) -> String {
    let over = if time > budget { ", OVER BUDGET" } else { "" };
    format!("{} of {}{over}", minutes(time), minutes(budget))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn closing_lines_of_test_binaries_are_read() {
        let line = "test result: FAILED. 12 passed; 3 failed; 0 ignored; 0 measured; 4 filtered out; finished in 0.00s";
        assert_eq!(counts_of(line), Some((12, 3)));
        assert_eq!(counts_of("test a_test ... ok"), None);
    }

    #[test]
    fn tests_that_did_not_run_are_not_counted_as_passed() {
        let not_run = vec![("full disk".to_owned(), "no root".to_owned())];
        let outcome = Outcome::of_tests(true, (5, 0), not_run);
        assert_eq!((outcome.passed, outcome.failed), (4, 0));
        let mut tally = Tally::default();
        let minute = Duration::from_secs(60);
        tally.add("tests", (minute + Duration::from_secs(1), minute), outcome);
        let report = tally.report(minute);
        assert!(report.contains("not run: full disk (no root)"), "{report}");
        assert!(report.contains("1:01.0 of 1:00.0, OVER BUDGET"), "{report}");
        let closing = report.lines().last();
        assert_eq!(closing, Some("4 passed, 0 failed, 1 skipped"));
        assert_eq!(closing.and_then(counts_of_closing_line), Some((4, 0)));
        assert_eq!(counts_of_closing_line("--- boot: 1 passed, 0 failed"), None);
        assert!(tally.success());
    }

    #[test]
    fn a_step_of_which_nothing_could_run_has_not_passed() {
        let mut tally = Tally::default();
        tally.add(
            "fresh",
            (Duration::ZERO, Duration::ZERO),
            Outcome::not_run("fresh", "no root"),
        );
        let report = tally.report(Duration::ZERO);
        assert!(report.contains("not run  fresh"), "{report}");
        assert!(!report.contains("passed   fresh"), "{report}");
    }

    #[test]
    fn a_step_that_breaks_before_its_tests_has_failed() {
        let mut tally = Tally::default();
        tally.add(
            "tests",
            (Duration::ZERO, Duration::ZERO),
            Outcome::of_tests(false, (0, 0), Vec::new()),
        );
        assert!(!tally.success());
        let report = tally.report(Duration::ZERO);
        assert_eq!(report.lines().last(), Some("0 passed, 1 failed"));
    }
}
