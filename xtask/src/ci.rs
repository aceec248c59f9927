//! The whole test command of the project, step by step.
//!
//! Every step runs, whatever happened before, so that a single run shows every failure. Unit and integration tests are
//! built with the `dev` profile, which has assertions of overflow and the fast build; the end-to-end tests start
//! processes of the release build, which users run.

use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};

use crate::beside::Beside;
use crate::metadata::Metadata;
use crate::mutants::Build;
use crate::selection;
use crate::step::{cargo, check, tests};
use crate::tally::{NotRunFile, Outcome, Tally, hand_on, of_budget};
use crate::time_limit::TimeLimit;
use crate::{
    design_index, doc_paths, doc_tables, example_lock, fresh, glossary, guest, layers, mutants,
    needs, python, shown, sim, source_rules,
};

/// The package with the binary, whose integration tests start real processes.
const BINARY_PACKAGE: &str = "stonecast-cli";

/// The package of the laboratory, which measures and judges.
const LAB_PACKAGE: &str = "stonecast-lab";

/// Packages with a feature `verbs`.
const VERBS_PACKAGES: [&str; 7] = [
    "stonecast-fabric-verbs",
    "stonecast-persist",
    "stonecast-kv",
    "stonecast",
    "stonecast-bench",
    BINARY_PACKAGE,
    LAB_PACKAGE,
];

/// The package with the gateway for Redis clients.
const GATEWAY_PACKAGE: &str = "stonecast-gateway";

/// Tests that run at once for each processor, in the step `tests`: many wait for leases, syncs and processes half of
/// their time.
const TESTS_FOR_EACH_PROCESSOR: usize = 2;

/// Seconds for which each of the two fuzzers of the gateway runs: together a minute.
const FUZZ_SECONDS: u32 = 30;

struct Step {
    name: &'static str,
    what: &'static str,
    /// The time that the step should take on two cores, builds included. A shared machine may take longer, which is
    /// reported and fails nothing.
    budget_minutes: u64,
    run: fn(&Surroundings) -> Result<Outcome>,
    place: Place,
}

/// The place of a step among others. Two processors are busy all the time only if steps that wait, for a network or for
/// a guest, have others beside them.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    /// After the step in front.
    InTurn,
    /// In a process of its own with this niceness, beside the steps behind.
    Beside { niceness: u8 },
    /// After the step in front and all steps beside: the step measures time, or its tests have limits of seconds.
    Alone,
}

const STEP: Step = Step {
    name: "",
    what: "",
    budget_minutes: 0,
    run: |_| Ok(Outcome::default()),
    place: Place::InTurn,
};

struct Surroundings {
    metadata: Metadata,
    not_run: NotRunFile,
    /// The steps to run; all steps, if none is named.
    names: Vec<String>,
}

const STEPS: &[Step] = &[
    Step {
        name: "format",
        what: "rustfmt changes nothing",
        budget_minutes: 1,
        run: format,
        ..STEP
    },
    Step {
        name: "lint",
        what: "clippy reports nothing",
        budget_minutes: 2,
        run: lint,
        ..STEP
    },
    Step {
        name: "layers",
        what: "every crate names only permitted crates, the lock file of the examples fits, and clocks and unsafe code stand only in permitted places",
        budget_minutes: 1,
        run: layers,
        ..STEP
    },
    Step {
        name: "doc-tables",
        what: "printed tables of the documentation are up to date, and the files that it names exist",
        budget_minutes: 1,
        run: doc_tables,
        ..STEP
    },
    Step {
        name: "tests",
        what: "unit and integration tests of every crate",
        budget_minutes: 8,
        run: unit_tests,
        ..STEP
    },
    Step {
        name: "verbs",
        what: "the feature `verbs`, where the steps `lint` and `tests` do not run: tests of its provider",
        budget_minutes: 1,
        run: verbs,
        ..STEP
    },
    Step {
        name: "mutants",
        what: "every seeded bug is found, and nothing in the unchanged store",
        budget_minutes: 3,
        run: seeded_bugs,
        ..STEP
    },
    Step {
        name: "models",
        what: "loom: every interleaving of the rings in shared memory, and of wakes with an executor's pause",
        budget_minutes: 1,
        run: models,
        ..STEP
    },
    Step {
        name: "docs",
        what: "rustdoc reports nothing",
        budget_minutes: 1,
        run: docs,
        ..STEP
    },
    Step {
        name: "examples",
        what: "the examples of the library, in a program outside the workspace with a lock file of its own",
        budget_minutes: 1,
        run: examples,
        ..STEP
    },
    Step {
        name: "python",
        what: "the wheel of the Python package, installed in a fresh environment, and its tests",
        budget_minutes: 3,
        run: python_package,
        ..STEP
    },
    Step {
        name: "conformance",
        what: "real Redis clients against the gateway, each installed in a pinned version",
        budget_minutes: 2,
        run: conformance,
        ..STEP
    },
    // An emulated machine is slow enough for the limits of its tests, so the steps beside are nicer.
    Step {
        name: "guest",
        what: "persistent memory and power cuts in an emulated machine",
        budget_minutes: 13,
        run: in_a_guest,
        place: Place::Beside { niceness: 0 },
    },
    Step {
        name: "fresh",
        what: "the first commands, and every step that installs something, in a bare Debian",
        budget_minutes: 8,
        run: fresh,
        place: Place::Beside { niceness: 5 },
    },
    Step {
        name: "fuzz",
        what: "hostile bytes at the decoder of the gateway, for a minute",
        budget_minutes: 2,
        run: fuzz,
        ..STEP
    },
    Step {
        name: "simulate",
        what: "seeds, crash states, faults and determinism of the simulated world",
        budget_minutes: 6,
        run: simulate,
        ..STEP
    },
    Step {
        name: "end-to-end",
        what: "real processes, killed and restarted, release build",
        budget_minutes: 5,
        run: end_to_end,
        place: Place::Alone,
    },
];

/// Prints the names of the steps, with their budgets.
pub fn list() {
    for step in STEPS {
        println!(
            "{:<12} {:>2} min  {}",
            step.name, step.budget_minutes, step.what
        );
    }
    let all: Vec<_> = STEPS.iter().collect();
    println!("{:<12} {:>2} min", "all", budget(&all).as_secs() / 60);
}

/// Runs the named steps (all, if none is named), within `limit`. Returns `false` if anything failed.
pub fn run(names: &[String], limit: Option<Duration>) -> Result<bool> {
    if let Some(unknown) = names
        .iter()
        .find(|name| STEPS.iter().all(|step| step.name != *name))
    {
        bail!("there is no step {unknown}; `cargo xtask ci --list` names them");
    }
    let metadata = Metadata::of_the_workspace()?;
    let folder = metadata.target_directory.join("xtask");
    let not_run = NotRunFile::new(folder.join(names.join("-")))?;
    let surroundings = Surroundings {
        metadata,
        not_run,
        names: names.to_vec(),
    };
    let mut time = TimeLimit::new(limit);
    let mut tally = Tally::default();
    let mut add = |step: &Step, time: Duration, outcome: Outcome| {
        let budget = budget(&[step]);
        println!("=== {} took {}", step.name, of_budget(time, budget));
        hand_on(&outcome.not_run)?;
        tally.add(step.name, (time, budget), outcome);
        anyhow::Ok(())
    };
    let chosen: Vec<_> = STEPS
        .iter()
        .filter(|step| surroundings.runs(step.name))
        .collect();
    let mut beside = Vec::new();
    for (index, step) in chosen.iter().enumerate() {
        let later = &chosen[index + 1..];
        if step.place == Place::Alone {
            let until = time.end_before(budget(&chosen[index..]));
            end_all(&mut beside, until, &time, &mut add)?;
        }
        println!("\n=== {}: {}", step.name, step.what);
        let needed = match step.place {
            Place::Beside { .. } => budget(&chosen[index..]),
            _ => budget(&[*step]),
        };
        if !time.has_room_for(needed) {
            let outcome = Outcome::not_run(step.name, &time.reason());
            add(step, Duration::ZERO, outcome)?;
            continue;
        }
        match step.place {
            Place::Beside { niceness } if !later.is_empty() => {
                println!("runs beside the next steps, and its output follows theirs");
                let running = Beside::start(step.name, niceness, &surroundings.metadata)?;
                beside.push((*step, running));
            }
            _ => {
                let start = Instant::now();
                let outcome = (step.run)(&surroundings)?;
                add(step, start.elapsed(), outcome)?;
                if beside.is_empty() {
                    time.note(budget(&[*step]));
                }
            }
        }
    }
    let until = time.end_before(Duration::ZERO);
    end_all(&mut beside, until, &time, &mut add)?;
    println!("{}", tally.report(time.elapsed()));
    Ok(tally.success())
}

/// Waits for all steps that run beside, at most until `until`, and hands their times and outcomes to `add`.
fn end_all(
    beside: &mut Vec<(&Step, Beside)>,
    until: Option<Instant>,
    limit: &TimeLimit,
    add: &mut impl FnMut(&Step, Duration, Outcome) -> Result<()>,
) -> Result<()> {
    for (step, running) in beside.drain(..) {
        println!("\n=== {}: {}", step.name, step.what);
        let (time, outcome) = running.end(step.name, until, &limit.reason())?;
        add(step, time, outcome)?;
    }
    Ok(())
}

/// The time that these steps should take.
fn budget(steps: &[&Step]) -> Duration {
    let minutes: u64 = steps.iter().map(|step| step.budget_minutes).sum();
    Duration::from_secs(60 * minutes)
}

/// Runs the figures of the laboratory, with both binaries built by Cargo's `profile`. Returns `false`
/// if one missed its ratio.
pub fn bench(profile: &str, arguments: &[String]) -> Result<bool> {
    if let Err(missing) = needs::ensure("bench") {
        println!("not run: every comparison with a server that is not installed ({missing})");
    }
    let metadata = Metadata::of_the_workspace()?;
    // The servers are processes of the binary that users run. The laboratory expects the binary beside itself.
    let binary = cargo(
        &metadata.workspace_root,
        &["build", "--profile", profile, "--package", BINARY_PACKAGE],
    )
    .status()?;
    let mut figures = cargo(
        &metadata.workspace_root,
        &[
            "run",
            "--profile",
            profile,
            "--package",
            LAB_PACKAGE,
            "--",
            "compare",
        ],
    );
    Ok(binary.success() && figures.args(arguments).status()?.success())
}

/// Runs the campaign that must find every seeded bug. Returns `false` if it missed one.
pub fn mutants(arguments: &[String]) -> Result<bool> {
    mutants::run(&Metadata::of_the_workspace()?, Build::Hunts, arguments)
}

/// The breaches of the layers and source rules, and a stale lock file of the examples, as sentences.
pub fn layer_findings() -> Result<Vec<String>> {
    findings_in(&Metadata::of_the_workspace()?)
}

fn findings_in(metadata: &Metadata) -> Result<Vec<String>> {
    let mut findings = layers::findings(metadata);
    findings.extend(source_rules::findings(metadata)?);
    findings.extend(example_lock::findings(&metadata.workspace_root)?);
    findings.extend(shown::findings(&metadata.workspace_root)?);
    Ok(findings)
}

fn format(at: &Surroundings) -> Result<Outcome> {
    check(at.cargo(&["fmt", "--all", "--", "--check"]))
}

/// Lints everything once: with the seeded bugs, and with the feature `verbs` where its tools are there, since two runs
/// take twice the time. The code that stands in for the features is compiled by the steps `simulate` and `fresh`, which
/// build without them.
fn lint(at: &Surroundings) -> Result<Outcome> {
    let mut command = at.cargo(&selection::linted());
    command.args(["--", "-D", "warnings"]);
    check(command)
}

fn layers(at: &Surroundings) -> Result<Outcome> {
    let findings = findings_in(&at.metadata)?;
    findings.iter().for_each(|finding| println!("{finding}"));
    Ok(Outcome::of_check(findings.is_empty()))
}

fn doc_tables(at: &Surroundings) -> Result<Outcome> {
    let mut findings = doc_tables::run(false)?;
    findings.extend(design_index::findings(&at.metadata.workspace_root)?);
    findings.extend(glossary::findings(&at.metadata.workspace_root)?);
    findings.extend(doc_paths::findings(&at.metadata.workspace_root)?);
    findings.iter().for_each(|finding| println!("{finding}"));
    Ok(Outcome::of_check(findings.is_empty()))
}

fn unit_tests(at: &Surroundings) -> Result<Outcome> {
    ensure_for_tests("tests");
    let mut command = at.cargo(&selection::tests());
    command.arg("--no-fail-fast");
    if let Ok(processors) = thread::available_parallelism() {
        let threads = processors.get() * TESTS_FOR_EACH_PROCESSOR;
        command.env("RUST_TEST_THREADS", threads.to_string());
    }
    // The step `mutants` hunts.
    command.args(["--", "--skip", mutants::HUNT]);
    tests(command, &at.not_run)
}

/// The feature needs a C toolchain, which the rest of the workspace does not. Where the tools are there, the steps
/// `lint` and `tests` lint and run everything with the feature; without those steps, this one runs the tests of the
/// provider.
fn verbs(at: &Surroundings) -> Result<Outcome> {
    if let Err(missing) = needs::ensure("verbs") {
        let packages = VERBS_PACKAGES.map(|package| format!("{package} --features verbs"));
        return Ok(Outcome::not_run(&packages.join(", "), &missing.to_string()));
    }
    if at.runs("lint") && at.runs("tests") {
        println!("the steps `lint` and `tests` have done everything");
        return Ok(Outcome::default());
    }
    tests(
        at.cargo(&[
            "test",
            "--package",
            "stonecast-fabric-verbs",
            "--features",
            "verbs",
            "--locked",
            "--no-fail-fast",
        ]),
        &at.not_run,
    )
}

/// The models are a separate build: everything under `cfg(loom)` uses loom's atomics, so they have
/// their own target folder, and they need optimization to finish their interleavings.
fn models(at: &Surroundings) -> Result<Outcome> {
    let mut command = at.cargo(&[
        "test",
        "--release",
        "--package",
        "stonecast-fabric",
        "--package",
        "stonecast-fabric-shm",
        "--lib",
        "--locked",
        "--",
        "loom",
    ]);
    command
        .env("RUSTFLAGS", "--cfg loom")
        .env(
            "CARGO_TARGET_DIR",
            at.metadata.target_directory.join("loom"),
        )
        .env("CARGO_PROFILE_RELEASE_LTO", "off");
    tests(command, &at.not_run)
}

fn seeded_bugs(at: &Surroundings) -> Result<Outcome> {
    let build = match at.runs("tests") {
        true => Build::Tests,
        false => Build::Hunts,
    };
    Ok(Outcome::of_check(mutants::run(&at.metadata, build, &[])?))
}

/// The features with the contract suites: pages of other modules point at them.
const CONTRACTS: &str = "stonecast-fabric/contract,stonecast-cluster/contract";

fn docs(at: &Surroundings) -> Result<Outcome> {
    let mut command = at.cargo(&[
        "doc",
        "--workspace",
        "--no-deps",
        "--document-private-items",
        "--locked",
        "--features",
        CONTRACTS,
    ]);
    command.env("RUSTDOCFLAGS", "-D warnings");
    check(command)
}

/// Builds the examples as a foreign program: outside the workspace, so that only the named
/// dependencies are there.
fn examples(at: &Surroundings) -> Result<Outcome> {
    let manifest = at
        .metadata
        .workspace_root
        .join("examples/stranger/Cargo.toml");
    let mut command = at.cargo(&["test", "--locked", "--manifest-path"]);
    command
        .arg(manifest)
        .env("CARGO_TARGET_DIR", &at.metadata.target_directory);
    something(tests(command, &at.not_run)?)
}

fn python_package(at: &Surroundings) -> Result<Outcome> {
    if let Err(missing) = needs::ensure("python") {
        return Ok(Outcome::not_run("python", &missing.to_string()));
    }
    something(python::outcome(&at.metadata, &at.not_run)?)
}

/// Runs tests that are ignored otherwise, since they install software. The step `fresh` runs the same in a system in
/// which nothing hides a missing step of an installation.
fn conformance(at: &Surroundings) -> Result<Outcome> {
    if at.runs("fresh") && fresh::is_possible(&at.metadata) {
        println!("the step `fresh` does everything");
        return Ok(Outcome::default());
    }
    ensure_for_tests("conformance");
    let mut command = at.gateway_tests();
    command.args(["--test", "it", "--", "--ignored", "conformance::"]);
    something(tests(command, &at.not_run)?)
}

fn fuzz(at: &Surroundings) -> Result<Outcome> {
    let mut command = at.gateway_tests();
    command
        .args(["--lib", "--test", "it", "fuzz::"])
        .args(["--", "--nocapture", "--test-threads", "1"])
        .env("STONECAST_FUZZ_SECONDS", FUZZ_SECONDS.to_string());
    something(tests(command, &at.not_run)?)
}

/// A filter that matches no test is not a success.
fn something(outcome: Outcome) -> Result<Outcome> {
    if outcome.passed + outcome.failed == 0 && outcome.not_run.is_empty() {
        bail!("no test ran");
    }
    Ok(outcome)
}

fn simulate(at: &Surroundings) -> Result<Outcome> {
    let binary = match at.runs("end-to-end") {
        true => sim::Binary::build_with_tests(&at.metadata)?,
        false => sim::Binary::build(&at.metadata)?,
    };
    let (passed, failed) = sim::ci(&binary)?;
    Ok(Outcome {
        passed,
        failed,
        not_run: Vec::new(),
    })
}

fn end_to_end(at: &Surroundings) -> Result<Outcome> {
    ensure_for_tests("end-to-end");
    let mut command = at.cargo(&selection::programs());
    command.arg("--no-fail-fast");
    tests(command, &at.not_run)
}

fn in_a_guest(at: &Surroundings) -> Result<Outcome> {
    guest::outcome(&at.metadata, &guest::GuestOptions::default())
}

/// Installs the programs that a step's tests need. A test without its programs reports itself as not run.
fn ensure_for_tests(step: &str) {
    if let Err(missing) = needs::ensure(step) {
        println!("{missing}");
    }
}

fn fresh(at: &Surroundings) -> Result<Outcome> {
    fresh::outcome(&at.metadata)
}

impl Surroundings {
    /// Returns whether this run contains the step `name`.
    fn runs(&self, name: &str) -> bool {
        self.names.is_empty() || self.names.iter().any(|named| named == name)
    }

    /// Tests of the gateway, without a filter. Beside the step `tests`, the command names all its packages, which are
    /// built, and the filter must match no test of the others.
    fn gateway_tests(&self) -> Command {
        match self.runs("tests") {
            true => self.cargo(&selection::tests()),
            false => self.cargo(&["test", "--package", GATEWAY_PACKAGE, "--locked"]),
        }
    }

    fn cargo(&self, arguments: &[&str]) -> Command {
        cargo(&self.metadata.workspace_root, arguments)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_steps_together_have_a_budget_below_an_hour() {
        assert!(STEPS.iter().all(|step| step.budget_minutes > 0));
        let all: Vec<_> = STEPS.iter().collect();
        assert!(budget(&all) < Duration::from_secs(3600));
    }
}
