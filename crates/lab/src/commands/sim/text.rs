//! Reports of runs, for scripts and for people.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde::Serialize;
use stonecast_check::{Adjustment, Report, Scenario, Shrunk, fault_names};

use super::arguments::replay;

/// One run. The field names are an interface: scripts read them.
#[derive(Serialize)]
pub struct Line<'a> {
    scenario: &'a str,
    seed: u64,
    /// 16 hexadecimal digits: many readers of JSON would round a number.
    hash: String,
    events: u64,
    operations: u64,
    crash_states: u64,
    faults_hit: &'a BTreeMap<&'static str, u64>,
    /// Deaths, and the store's work to make room.
    course: &'a BTreeMap<&'static str, u64>,
    violations: Vec<Broken<'a>>,
}

#[derive(Serialize)]
struct Broken<'a> {
    promise: &'a str,
    found: &'a str,
}

impl<'a> Line<'a> {
    /// The line of a report.
    pub fn of(report: &'a Report) -> Self {
        let broken = |violation: &'a stonecast_check::Violation| Broken {
            promise: violation.oracle,
            found: &violation.found,
        };
        Self {
            scenario: report.scenario,
            seed: report.seed,
            hash: format!("{:016x}", report.hash),
            events: report.events,
            operations: report.operations,
            crash_states: report.crash_states,
            faults_hit: &report.faults_hit,
            course: &report.course,
            violations: report.violations.iter().map(broken).collect(),
        }
    }
}

/// Names and values, aligned.
fn table(rows: &[(&str, String)]) -> String {
    rows.iter()
        .map(|(name, value)| format!("{name:<13} {value}\n"))
        .collect()
}

fn counts(all: &BTreeMap<&'static str, u64>) -> String {
    let counted = all
        .iter()
        .filter(|(_, count)| **count > 0)
        .map(|(name, count)| format!("{name} {count}"));
    let counted: Vec<String> = counted.collect();
    if counted.is_empty() {
        "none".to_owned()
    } else {
        counted.join(", ")
    }
}

/// One run, in full.
pub fn of_run(scenario: &Scenario, report: &Report, adjustment: &Adjustment) -> String {
    let sizes = report.sizes;
    let mut rows = vec![
        (
            "scenario",
            format!("{} ({})", scenario.name, scenario.summary),
        ),
        ("seed", report.seed.to_string()),
        (
            "clients",
            format!(
                "{}, each with at most {} operations under way",
                sizes.clients, sizes.lanes
            ),
        ),
        (
            "asked for",
            format!("{} operations on {} keys", sizes.operations, sizes.keys),
        ),
    ];
    let options: Vec<String> = report
        .options
        .iter()
        .map(|(name, value)| format!("{name}: {value}"))
        .collect();
    rows.extend([
        ("options", options.join("; ")),
        ("replay", replay(scenario.name, report.seed, adjustment)),
        ("hash", format!("{:016x}", report.hash)),
        ("events", report.events.to_string()),
        ("operations", format!("{} checked", report.operations)),
        (
            "crash states",
            format!("{} recovered and judged", report.crash_states),
        ),
        ("faults hit", counts(&report.faults_hit)),
        ("course", counts(&report.course)),
        (
            "violations",
            if report.violations.is_empty() {
                "none".to_owned()
            } else {
                of_violations(report)
            },
        ),
    ]);
    table(&rows)
}

/// The promises that a failing run broke.
pub fn of_violations(report: &Report) -> String {
    report
        .violations
        .iter()
        .map(ToString::to_string)
        .collect::<Vec<_>>()
        .join("; ")
}

/// Seeds, as typed.
pub fn seeds(seeds: &[u64]) -> String {
    let words: Vec<String> = seeds.iter().map(u64::to_string).collect();
    words.join(", ")
}

/// The shortest schedule that fails.
pub fn of_shrunk(shrunk: &Shrunk) -> String {
    let Shrunk {
        adjustment,
        report,
        tries,
    } = shrunk;
    let sizes = report.sizes;
    let mut text = table(&[
        (
            "shortest",
            format!(
                "{} operations of {} clients on {} keys, found in {tries} runs",
                sizes.operations, sizes.clients, sizes.keys
            ),
        ),
        ("faults hit", counts(&report.faults_hit)),
        ("violations", of_violations(report)),
        ("replay", replay(report.scenario, report.seed, adjustment)),
    ]);
    text += "timeline\n";
    for happening in &report.timeline {
        writeln!(text, "  {happening}").expect("a String takes everything");
    }
    text
}

/// Many runs together.
#[derive(Default)]
pub struct Sum {
    /// Seeds that broke a promise.
    pub failed: Vec<u64>,
    seeds: u64,
    events: u64,
    operations: u64,
    crash_states: u64,
    /// Number of hits, and of seeds with a hit.
    faults: BTreeMap<&'static str, (u64, u64)>,
}

impl Sum {
    /// Adds a run.
    pub fn add(&mut self, report: &Report) {
        self.seeds += 1;
        self.events += report.events;
        self.operations += report.operations;
        self.crash_states += report.crash_states;
        for (name, count) in report.faults_hit.iter().filter(|(_, count)| **count > 0) {
            let (hits, seeds) = self.faults.entry(name).or_default();
            (*hits, *seeds) = (*hits + count, *seeds + 1);
        }
        if !report.violations.is_empty() {
            self.failed.push(report.seed);
        }
    }

    /// The text for people.
    pub fn text(&self, scenario: &Scenario, first_seed: u64) -> String {
        let missed: Vec<&str> = fault_names()
            .iter()
            .copied()
            .filter(|name| !self.faults.contains_key(name))
            .collect();
        let mut text = table(&[
            ("scenario", scenario.name.to_owned()),
            ("seeds", format!("{} from {first_seed} on", self.seeds)),
            ("events", self.events.to_string()),
            ("operations", format!("{} checked", self.operations)),
            (
                "crash states",
                format!("{} recovered and judged", self.crash_states),
            ),
            (
                "not hit",
                if missed.is_empty() {
                    "every fault was hit".to_owned()
                } else {
                    missed.join(", ")
                },
            ),
            ("violations", format!("in {} seeds", self.failed.len())),
        ]);
        for (name, (hits, seeds)) in &self.faults {
            writeln!(text, "  {name:<40} {hits:>10} times in {seeds} seeds")
                .expect("a String takes everything");
        }
        text
    }
}
