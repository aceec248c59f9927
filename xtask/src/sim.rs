//! Campaigns in the simulated world: many seeds of many runs, by the release build of the laboratory.
//!
//! ```text
//!   ci            fixed seeds: full runs, crash states, each fault class hit, the same hash twice
//!   --minutes N   fresh seeds until the time is over; a failure is printed with the command that replays it
//!   campaign      fixed seeds in the counts of a release (campaign/)
//! ```
//!
//! The binary uses every processor. Nothing here depends on the speed of the machine: a campaign of
//! fixed seeds ends when it has met its demands.

use std::collections::BTreeMap;
use std::hash::{BuildHasher, RandomState};
use std::io::{BufRead, BufReader};
use std::ops::Range;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use serde::{Deserialize, Serialize};

use crate::beside::nice;
use crate::metadata::Metadata;
use crate::selection::programs;
use crate::step::cargo;
use crate::tally::minutes;

/// The niceness of the simulated world, whose clock does not run while others use the processor.
const NICENESS: u8 = 10;
/// The scenario with several clients and a thousand operations.
const FULL: &str = "kv";
/// The scenario that examines every moment.
const CRASHES: &str = "kv-crashes";
/// The scenario that cuts the power of any of several machines at every moment.
const COPIES: &str = "copies";
/// The scenario of entries that several senders append to the memory of receivers.
const APPENDS: &str = "appends";
/// The scenario of shards with copies on several nodes.
const REPLICATION: &str = "replication";
/// The scenario of the KV store on several nodes.
const KV_CLUSTER: &str = "kv-cluster";
/// The scenario of the KV store on three nodes whose power is cut at many moments.
const KV_CLUSTER_CRASHES: &str = "kv-cluster-crashes";
/// The scenario of data structures in the memory of a back-end.
const STRUCTURES: &str = "structures";
/// Full runs in each run of the whole test command.
const FULL_SEEDS: u64 = 2000;
/// Minimum number of operations of a full run.
const FULL_OPERATIONS: u64 = 1000;
/// Events that full runs must show, each in a minimum number of seeds, and all together in some:
/// cleaning, growth of the index, deaths of clients, power failures after which the run goes on.
const COURSE: [&str; 4] = [
    "segments_cleaned",
    "index_growths",
    "client_deaths",
    "power_cuts",
];
const COURSE_SEEDS_MIN: u64 = 100;
const WHOLE_COURSE_SEEDS_MIN: u64 = 10;
/// Crash states that are recovered and judged in each run of the whole test command.
const CRASH_STATES: u64 = 1_000_000;
/// Seeds of records with copies on several machines.
const COPIES_SEEDS: u64 = 40;
/// Seeds of appends.
const APPENDS_SEEDS: u64 = 30;
/// Seeds of replication.
const REPLICATION_SEEDS: u64 = 500;
/// Seeds of the KV store on several nodes.
const KV_CLUSTER_SEEDS: u64 = 500;
/// Crash states of three nodes that are recovered and judged in each run of the whole test command.
const KV_CLUSTER_CRASH_STATES: u64 = 15_000;
/// Seeds of crash states of three nodes in one batch.
const KV_CLUSTER_CRASH_SEEDS_AT_A_TIME: u64 = 40;
/// Seeds of data structures.
const STRUCTURES_SEEDS: u64 = 500;
/// Mishaps that the seeds of data structures must show, each with its minimum number in all of them together.
const STRUCTURES_MISHAPS: [(&str, u64); 7] = [
    ("back_end_kills", 100),
    ("back_end_pauses", 100),
    ("back_end_pauses_past_the_lease", 50),
    ("front_end_kills", 100),
    ("front_end_pauses_past_the_lease", 50),
    ("partitions", 100),
    ("power_cuts", 100),
];
/// The scenario of data structures whose every moment is examined.
const STRUCTURES_CRASHES: &str = "structures-crashes";
/// Crash states of data structures that are recovered and judged in each run of the whole test command.
const STRUCTURES_CRASH_STATES: u64 = 500_000;
/// Seeds that are run twice.
const TWICE_SEEDS: u64 = 100;
/// Seeds of the scenario of crashes in one batch: about a hundred thousand states.
const CRASH_SEEDS_AT_A_TIME: u64 = 4;
/// Seeds of crash states of data structures in one batch.
const STRUCTURES_CRASH_SEEDS_AT_A_TIME: u64 = 200;
/// The scenarios of which fresh seeds are run in turn, with their seeds in one batch.
const FRESH: [(&str, u64); 9] = [
    (FULL, 200),
    (CRASHES, CRASH_SEEDS_AT_A_TIME),
    (COPIES, 10),
    (APPENDS, 200),
    (REPLICATION, 200),
    (KV_CLUSTER, 20),
    (KV_CLUSTER_CRASHES, KV_CLUSTER_CRASH_SEEDS_AT_A_TIME),
    (STRUCTURES, 200),
    (STRUCTURES_CRASHES, STRUCTURES_CRASH_SEEDS_AT_A_TIME),
];

/// One run, as `stonecast-lab sim --json` prints it.
#[derive(Debug, Deserialize)]
struct Run {
    seed: u64,
    hash: String,
    events: u64,
    operations: u64,
    crash_states: u64,
    faults_hit: BTreeMap<String, u64>,
    course: BTreeMap<String, u64>,
    violations: Vec<Violation>,
}

#[derive(Debug, Deserialize)]
struct Violation {
    promise: String,
    found: String,
}

/// A line that `stonecast-lab sim --json` prints.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Line {
    Run(Run),
    /// The last line, if a seed broke a promise. The runs say more.
    Failure {
        #[serde(rename = "error")]
        _error: String,
    },
}

/// A class of faults, as `stonecast-lab sim --faults --json` prints it.
#[derive(Debug, Deserialize)]
struct Class {
    name: String,
    reachable: bool,
    why_not: Option<String>,
}

/// The sum of several runs.
#[derive(Default)]
struct Sum {
    seeds: u64,
    events: u64,
    operations: u64,
    crash_states: u64,
    /// Hits, and seeds with a hit.
    faults: BTreeMap<String, (u64, u64)>,
    /// Seeds in which each of [`COURSE`] happened, and those in which all did.
    course: [u64; COURSE.len()],
    whole_course: u64,
    /// Occurrences of everything that a run counts.
    counts: BTreeMap<String, u64>,
    /// Seeds that broke a promise.
    broken: Vec<u64>,
    hashes: BTreeMap<u64, String>,
    time: Duration,
}

impl Sum {
    /// Adds the runs of `scenario` that `output` names, a line for each seed, and prints the promises that were broken.
    fn read(&mut self, scenario: &str, output: impl BufRead) -> Result<()> {
        for line in output.lines() {
            let line = line.context("reading the output of stonecast-lab sim")?;
            let line: Line = serde_json::from_str(&line)
                .with_context(|| format!("stonecast-lab sim printed {line}"))?;
            let Line::Run(run) = line else { continue };
            for Violation { promise, found } in &run.violations {
                println!(
                    "BROKEN: {promise}: {found}\n  replay: stonecast-lab sim {scenario} --seed {}",
                    run.seed
                );
            }
            self.add(run);
        }
        Ok(())
    }

    fn add(&mut self, run: Run) {
        self.seeds += 1;
        self.events += run.events;
        self.operations += run.operations;
        self.crash_states += run.crash_states;
        for (name, hits) in run.faults_hit.into_iter().filter(|(_, hits)| *hits > 0) {
            let entry = self.faults.entry(name).or_default();
            *entry = (entry.0 + hits, entry.1 + 1);
        }
        let happened = COURSE.map(|name| run.course.get(name).is_some_and(|count| *count > 0));
        self.course
            .iter_mut()
            .zip(happened)
            .for_each(|(seeds, happened)| *seeds += u64::from(happened));
        self.whole_course += u64::from(happened == [true; COURSE.len()]);
        for (name, count) in run.course {
            *self.counts.entry(name).or_default() += count;
        }
        if !run.violations.is_empty() {
            self.broken.push(run.seed);
        }
        self.hashes.insert(run.seed, run.hash);
    }

    /// Prints how often each of `demands` happened. Returns whether each did as often as it must.
    fn meets(&self, demands: &[(&str, u64)]) -> bool {
        let mut all = true;
        for (name, minimum) in demands {
            let count = self.counts.get(*name).copied().unwrap_or(0);
            println!("  {name:<32} {count} times, at least {minimum}");
            all &= count >= *minimum;
        }
        all
    }

    fn tell(&self, scenario: &str) {
        let seconds = self.time.as_secs_f64().max(1e-9);
        println!(
            "{scenario}: {} seeds in {}: {} events ({:.0}/s), {} operations, {} crash states ({:.0}/s), {} seeds broke a promise",
            self.seeds,
            minutes(self.time),
            self.events,
            self.events as f64 / seconds,
            self.operations,
            self.crash_states,
            self.crash_states as f64 / seconds,
            self.broken.len(),
        );
    }
}

/// The release build of the binary.
pub struct Binary {
    path: PathBuf,
}

impl Binary {
    /// Builds the binary alone.
    pub fn build(metadata: &Metadata) -> Result<Self> {
        let arguments = [
            "build",
            "--release",
            "--locked",
            "--package",
            "stonecast-lab",
        ];
        Self::of(metadata, &mut cargo(&metadata.workspace_root, &arguments))
    }

    /// Builds the binary beside the product and the tests of both, for a run that needs these, too.
    pub fn build_with_tests(metadata: &Metadata) -> Result<Self> {
        let mut command = cargo(&metadata.workspace_root, &programs());
        Self::of(metadata, command.arg("--no-run"))
    }

    fn of(metadata: &Metadata, build: &mut Command) -> Result<Self> {
        ensure!(build.status()?.success(), "the release build failed");
        Ok(Self {
            path: metadata.target_directory.join("release/stonecast-lab"),
        })
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = nice(NICENESS, &self.path);
        command.args(arguments);
        command
    }

    /// Runs `count` seeds from `first` on.
    fn run(&self, scenario: &str, first: u64, count: u64, sum: &mut Sum) -> Result<()> {
        let start = Instant::now();
        let (seed, seeds) = (first.to_string(), count.to_string());
        let mut child = self
            .command(&[
                "sim", scenario, "--seed", &seed, "--seeds", &seeds, "--json",
            ])
            .stdout(Stdio::piped())
            .spawn()
            .context("starting stonecast-lab sim")?;
        let output = child.stdout.take().expect("stdout is a pipe");
        let before = sum.seeds;
        sum.read(scenario, BufReader::new(output))?;
        let broken = !sum.broken.is_empty();
        let status = child.wait().context("waiting for stonecast-lab sim")?;
        ensure!(
            sum.seeds - before == count,
            "stonecast-lab sim ended early: {status}"
        );
        ensure!(
            status.success() || broken,
            "stonecast-lab sim failed and named no broken promise: {status}"
        );
        sum.time += start.elapsed();
        Ok(())
    }

    fn classes(&self) -> Result<Vec<Class>> {
        let output = self
            .command(&["sim", "--faults", "--json"])
            .output()
            .context("starting stonecast-lab sim --faults")?;
        ensure!(output.status.success(), "stonecast-lab sim --faults failed");
        let text =
            String::from_utf8(output.stdout).context("the output of stonecast-lab sim --faults")?;
        text.lines()
            .map(|line| serde_json::from_str(line).with_context(|| format!("a class: {line}")))
            .collect()
    }
}

/// Runs the checks of the whole test command. Returns the numbers of passed and failed checks.
pub fn ci(binary: &Binary) -> Result<(u64, u64)> {
    std::thread::scope(|scope| {
        // Many seeds, none of which needs another run.
        let nodes = scope.spawn(|| {
            let mut nodes = Sum::default();
            binary.run(KV_CLUSTER, 0, KV_CLUSTER_SEEDS, &mut nodes)?;
            anyhow::Ok(nodes)
        });
        ci_beside(binary, nodes)
    })
}

/// The checks, beside the seeds of several nodes.
fn ci_beside(
    binary: &Binary,
    nodes: std::thread::ScopedJoinHandle<'_, Result<Sum>>,
) -> Result<(u64, u64)> {
    let mut checks = Checks::default();

    let mut full = Sum::default();
    binary.run(FULL, 0, FULL_SEEDS, &mut full)?;
    full.tell(FULL);
    checks.note("no seed breaks a promise", full.broken.is_empty());
    checks.note(
        "each seed has a thousand operations",
        full.operations >= FULL_SEEDS * FULL_OPERATIONS,
    );

    for (name, seeds) in COURSE.iter().zip(full.course) {
        println!("  {name:<28} in {seeds} seeds");
    }
    println!(
        "  all of these                 in {} seeds",
        full.whole_course
    );
    checks.note(
        "seeds clean, grow, lose clients and power",
        full.course.iter().all(|seeds| *seeds >= COURSE_SEEDS_MIN),
    );
    checks.note(
        "some seeds do all of that",
        full.whole_course >= WHOLE_COURSE_SEEDS_MIN,
    );

    let mut crashes = Sum::default();
    while full.crash_states + crashes.crash_states < CRASH_STATES && crashes.broken.is_empty() {
        binary.run(CRASHES, crashes.seeds, CRASH_SEEDS_AT_A_TIME, &mut crashes)?;
    }
    crashes.tell(CRASHES);
    checks.note("no crash state breaks a promise", crashes.broken.is_empty());
    checks.note(
        "a million crash states were judged",
        full.crash_states + crashes.crash_states >= CRASH_STATES,
    );

    let mut copies = Sum::default();
    binary.run(COPIES, 0, COPIES_SEEDS, &mut copies)?;
    copies.tell(COPIES);
    checks.note(
        "no cut of several machines breaks a promise",
        copies.broken.is_empty(),
    );

    let mut appends = Sum::default();
    binary.run(APPENDS, 0, APPENDS_SEEDS, &mut appends)?;
    appends.tell(APPENDS);
    checks.note(
        "no mishap of appends breaks a promise",
        appends.broken.is_empty(),
    );

    let mut replication = Sum::default();
    binary.run(REPLICATION, 0, REPLICATION_SEEDS, &mut replication)?;
    replication.tell(REPLICATION);
    checks.note(
        "no mishap of replication breaks a promise",
        replication.broken.is_empty(),
    );

    let mut structures = Sum::default();
    binary.run(STRUCTURES, 0, STRUCTURES_SEEDS, &mut structures)?;
    structures.tell(STRUCTURES);
    checks.note(
        "no mishap of data structures breaks a promise",
        structures.broken.is_empty(),
    );
    checks.note(
        "data structures meet every mishap",
        structures.meets(&STRUCTURES_MISHAPS),
    );

    let mut torn = Sum::default();
    while torn.crash_states < STRUCTURES_CRASH_STATES && torn.broken.is_empty() {
        let seeds = STRUCTURES_CRASH_SEEDS_AT_A_TIME;
        binary.run(STRUCTURES_CRASHES, torn.seeds, seeds, &mut torn)?;
    }
    torn.tell(STRUCTURES_CRASHES);
    checks.note(
        "no crash state of data structures breaks a promise: what was told is there, and no block is lost or used twice",
        torn.broken.is_empty(),
    );
    let judged = structures.crash_states + torn.crash_states;
    println!("{judged} crash states of data structures were judged");

    let mut cut = Sum::default();
    while cut.crash_states < KV_CLUSTER_CRASH_STATES && cut.broken.is_empty() {
        let seeds = KV_CLUSTER_CRASH_SEEDS_AT_A_TIME;
        binary.run(KV_CLUSTER_CRASHES, cut.seeds, seeds, &mut cut)?;
    }
    cut.tell(KV_CLUSTER_CRASHES);
    checks.note(
        "no crash state of three nodes breaks a promise: they serve again, with what was acknowledged",
        cut.broken.is_empty(),
    );

    let nodes = nodes.join().expect("the seeds of several nodes")?;
    nodes.tell(KV_CLUSTER);
    checks.note(
        "no mishap of several nodes breaks a promise",
        nodes.broken.is_empty(),
    );
    checks.note(
        "each seed of several nodes has a thousand operations",
        nodes.operations >= KV_CLUSTER_SEEDS * FULL_OPERATIONS,
    );

    let mut again = Sum::default();
    binary.run(FULL, 0, TWICE_SEEDS, &mut again)?;
    let same = again
        .hashes
        .iter()
        .filter(|(seed, hash)| full.hashes.get(seed) == Some(hash))
        .count();
    println!("{same} of {TWICE_SEEDS} seeds that were run twice have the same hash of events");
    checks.note(
        "the same seed gives the same run",
        same as u64 == TWICE_SEEDS,
    );

    checks.note(
        "every class of faults that can be reached was hit",
        coverage(&binary.classes()?, &[full, crashes]),
    );
    speed(binary)?;
    Ok((checks.passed, checks.failed))
}

#[derive(Default)]
struct Checks {
    passed: u64,
    failed: u64,
}

impl Checks {
    fn note(&mut self, what: &str, holds: bool) {
        println!("{}: {what}", if holds { "ok" } else { "FAILED" });
        *(if holds {
            &mut self.passed
        } else {
            &mut self.failed
        }) += 1;
    }
}

/// Prints how often each class was hit. Returns whether every reachable class was.
fn coverage(classes: &[Class], sums: &[Sum]) -> bool {
    let mut all = true;
    let mut count = 0;
    for class in classes {
        let of_class = sums.iter().filter_map(|sum| sum.faults.get(&class.name));
        let (hits, seeds) = of_class.fold((0, 0), |(hits, seeds), more| {
            (hits + more.0, seeds + more.1)
        });
        let verdict = match (hits, class.reachable) {
            (0, true) => "NOT HIT".to_owned(),
            (0, false) => format!(
                "not reached in these runs: {}",
                class.why_not.as_deref().unwrap_or("no reason given")
            ),
            _ => format!("{hits} times in {seeds} seeds"),
        };
        all &= hits > 0 || !class.reachable;
        count += u64::from(hits > 0);
        println!("  {:<28} {verdict}", class.name);
    }
    println!("{count} of {} classes of faults were hit", classes.len());
    all && !classes.is_empty()
}

/// Prints the speed of the world, for the record: no speed is demanded of a shared machine.
fn speed(binary: &Binary) -> Result<()> {
    #[derive(Deserialize)]
    struct Result {
        events: u64,
    }
    let fabric = [
        "--fabric",
        "sim:connectx5-rowan",
        "--workload",
        "a",
        "--clients",
        "8",
    ];
    let sizes = ["--keys", "20000", "--ops", "400000", "--json"];
    let start = Instant::now();
    let output = binary
        .command(&["ycsb"])
        .args(fabric)
        .args(sizes)
        .output()
        .context("starting stonecast-lab ycsb")?;
    let seconds = start.elapsed().as_secs_f64();
    if !output.status.success() {
        bail!(
            "stonecast-lab ycsb failed: {}",
            String::from_utf8_lossy(&output.stderr)
        );
    }
    let result: Result =
        serde_json::from_slice(&output.stdout).context("the output of stonecast-lab ycsb")?;
    let per_second = result.events as f64 / seconds;
    println!(
        "YCSB A, 8 clients: {} events in {seconds:.2} s on one core, {per_second:.0} events/s",
        result.events
    );
    Ok(())
}

/// The totals of one scenario.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Total {
    pub seeds: u64,
    pub operations: u64,
    pub crash_states: u64,
    /// Seeds that broke a promise.
    pub broken: Vec<u64>,
}

impl Sum {
    fn into_total(self) -> Total {
        Total {
            seeds: self.seeds,
            operations: self.operations,
            crash_states: self.crash_states,
            broken: self.broken,
        }
    }
}

impl Binary {
    /// Runs `seeds` of a scenario.
    pub fn run_seeds(&self, scenario: &str, seeds: Range<u64>) -> Result<Total> {
        let mut sum = Sum::default();
        if !seeds.is_empty() {
            self.run(scenario, seeds.start, seeds.end - seeds.start, &mut sum)?;
        }
        sum.tell(scenario);
        Ok(sum.into_total())
    }

    /// Runs seeds of a scenario from `first` on until `states` crash states were judged, or a promise was broken.
    pub fn run_crash_states(&self, scenario: &str, first: u64, states: u64) -> Result<Total> {
        let mut sum = Sum::default();
        while sum.crash_states < states && sum.broken.is_empty() {
            let seeds = match scenario {
                STRUCTURES_CRASHES => STRUCTURES_CRASH_SEEDS_AT_A_TIME,
                KV_CLUSTER_CRASHES => KV_CLUSTER_CRASH_SEEDS_AT_A_TIME,
                _ => CRASH_SEEDS_AT_A_TIME,
            };
            self.run(scenario, first + sum.seeds, seeds, &mut sum)?;
            sum.tell(scenario);
        }
        Ok(sum.into_total())
    }
}

/// Runs fresh seeds of each scenario in turn until the time is over. Returns `false` if one broke a
/// promise.
pub fn fresh_seeds(time: Duration) -> Result<bool> {
    let metadata = Metadata::of_the_workspace()?;
    let binary = Binary::build(&metadata)?;
    // Small enough for every reader of JSON, and far from the seeds of the whole test command.
    let mut seed = RandomState::new().hash_one(0) >> 16;
    println!("fresh seeds from {seed} on");
    let start = Instant::now();
    let mut sums = FRESH.map(|(scenario, count)| (scenario, count, Sum::default()));
    while start.elapsed() < time && sums.iter().all(|(.., sum)| sum.broken.is_empty()) {
        for (scenario, count, sum) in &mut sums {
            binary.run(scenario, seed, *count, sum)?;
            seed += *count;
            sum.tell(scenario);
        }
    }
    let sums = sums.map(|(.., sum)| sum);
    coverage(&binary.classes()?, &sums);
    Ok(sums.iter().all(|sum| sum.broken.is_empty()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(seed: u64, fault: &str) -> Run {
        let line = format!(
            "{{\"scenario\":\"s\",\"seed\":{seed},\"hash\":\"0f\",\"events\":5,\"operations\":3,\"crash_states\":2,\
             \"faults_hit\":{{\"{fault}\":4,\"never\":0}},\"course\":{{\"power_cuts\":1,\"index_growths\":0}},\
             \"violations\":[]}}"
        );
        serde_json::from_str(&line).unwrap()
    }

    fn sum_of(fault: &str) -> Sum {
        let mut sum = Sum::default();
        sum.add(run(1, fault));
        sum
    }

    #[test]
    fn a_mishap_that_happens_less_often_than_it_must_or_never_is_noticed() {
        let mut sum = sum_of("torn_write");
        sum.add(run(2, "torn_write"));
        assert!(sum.meets(&[("power_cuts", 2)]));
        assert!(!sum.meets(&[("power_cuts", 3)]));
        assert!(!sum.meets(&[("power_cuts", 2), ("partitions", 1)]));
    }

    #[test]
    fn a_batch_with_a_broken_seed_is_counted_to_its_end_and_the_seed_is_named() {
        let line = |seed: u64, violations: &str| {
            format!(
                "{{\"seed\":{seed},\"hash\":\"0f\",\"events\":5,\"operations\":3,\"crash_states\":2,\"faults_hit\":{{}},\
                 \"course\":{{}},\"violations\":[{violations}]}}\n"
            )
        };
        let violation = r#"{"promise":"redundancy is restored","found":"no copy"}"#;
        let error =
            r#"{"error":"failed","status":1,"message":"1 of 3 seeds broke a promise: 536"}"#;
        let output = line(535, "") + &line(536, violation) + &line(537, "") + error;
        let mut sum = Sum::default();
        sum.read("appends", output.as_bytes()).unwrap();
        assert_eq!((sum.seeds, &*sum.broken), (3, &[536][..]));
        assert!(sum.read("appends", &b"{\"seed\":538}"[..]).is_err());
    }

    #[test]
    fn a_class_that_can_be_reached_and_was_not_hit_fails_and_others_do_not() {
        let mut sum = sum_of("a");
        sum.add(run(2, "a"));
        assert_eq!(
            (sum.seeds, sum.events, sum.operations, sum.crash_states),
            (2, 10, 6, 4)
        );
        assert_eq!(sum.faults["a"], (8, 2));
        assert_eq!((sum.course, sum.whole_course), ([0, 0, 0, 2], 0));
        let class = |name: &str, reachable| Class {
            name: name.to_owned(),
            reachable,
            why_not: None,
        };
        let sums = [sum];
        assert!(coverage(&[class("a", true), class("b", false)], &sums));
        assert!(coverage(
            &[class("a", true)],
            &[Sum::default(), sum_of("a")]
        ));
        assert!(!coverage(&[class("a", true), class("b", true)], &sums));
        assert!(!coverage(&[class("never", true)], &sums));
        assert!(!coverage(&[], &sums));
    }
}
