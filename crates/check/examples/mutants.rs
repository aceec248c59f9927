//! The campaign that checks the checks: plants one seeded bug after the other and runs seeds until an oracle objects.
//!
//! ```text
//!   mutants [--shard I/N] [--seeds N] [NAME ...]      one line for each: name, seeds, oracle
//!   mutants [--shard I/N] --control N                 the unchanged store, on N seeds: must find nothing
//! ```
//!
//! Exit status 1: a mutant was not found, or an oracle objected to the unchanged store.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;

use stonecast_base::mutants::{Mutant, plant};
use stonecast_check::{Scenario, run, scenario};

/// Seeds within which each mutant must be found.
const SEEDS_MAX: u64 = 10_000;
/// Places of bugs that no store shows: tests of these crates hunt them, those of `appends` in `fabric-sim`.
const ELSEWHERE: [&str; 6] = [
    "append-log",
    "appends",
    "cluster",
    "member",
    "persist/append",
    "replication",
];
/// The scenario to run.
const SCENARIO: &str = "kv-lite";

struct Arguments {
    shard: (usize, usize),
    seeds: u64,
    /// Seeds of the unchanged store; `None`: mutants.
    control: Option<u64>,
    names: Vec<String>,
}

fn main() -> ExitCode {
    let arguments = arguments(std::env::args().skip(1));
    let scenario = scenario(SCENARIO).expect("there is such a scenario");
    // A broken assertion is a finding like any other; its text is in the report.
    std::panic::set_hook(Box::new(|_| {}));
    let good = match arguments.control {
        Some(seeds) => control(scenario, seeds, arguments.shard),
        None => campaign(scenario, &arguments),
    };
    if good {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

/// Hunts the shard's part of the mutants. Returns whether each was found.
fn campaign(scenario: &Scenario, arguments: &Arguments) -> bool {
    let chosen: Vec<Mutant> = match arguments.names.is_empty() {
        true => Mutant::ALL
            .iter()
            .copied()
            .filter(|mutant| !ELSEWHERE.contains(&mutant.place()))
            .collect(),
        false => arguments
            .names
            .iter()
            .map(|name| Mutant::by_name(name).unwrap_or_else(|| unknown(name)))
            .collect(),
    };
    let (index, count) = arguments.shard;
    let mut good = true;
    for mutant in chosen.into_iter().skip(index).step_by(count) {
        match hunt(scenario, Some(mutant), 0..arguments.seeds) {
            Some((seeds, oracle)) => println!(
                "{:<28} found after {seeds:>5} seeds by: {oracle}",
                mutant.name()
            ),
            None => {
                println!(
                    "{:<28} NOT FOUND in {} seeds: {}",
                    mutant.name(),
                    arguments.seeds,
                    mutant.what()
                );
                good = false;
            }
        }
    }
    good
}

/// Runs the shard's part of the seeds of the unchanged store. Returns whether nothing was found.
fn control(scenario: &Scenario, seeds: u64, (index, count): (usize, usize)) -> bool {
    match hunt(scenario, None, (0..seeds).skip(index).step_by(count)) {
        Some((seed, oracle)) => {
            println!(
                "{:<28} VIOLATION in the unchanged store, seed {}: {oracle}",
                "none",
                seed - 1
            );
            false
        }
        None => {
            println!(
                "{:<28} nothing found in {seeds} seeds (part {} of {count})",
                "none",
                index + 1
            );
            true
        }
    }
}

/// Runs `seeds` with `mutant` planted until an oracle objects. Returns how many seeds it took, and
/// the oracle.
fn hunt(
    scenario: &Scenario,
    mutant: Option<Mutant>,
    seeds: impl Iterator<Item = u64>,
) -> Option<(u64, String)> {
    plant(mutant);
    let found = seeds.into_iter().find_map(|seed| {
        let outcome = catch_unwind(AssertUnwindSafe(|| run(scenario, seed)));
        let oracle = match outcome {
            Ok(report) => report
                .violations
                .first()
                .map(|violation| violation.oracle.to_owned()),
            Err(panic) => Some(format!("assertion: {}", text_of(&*panic))),
        };
        oracle.map(|oracle| (seed + 1, oracle))
    });
    plant(None);
    found
}

fn text_of(panic: &dyn std::any::Any) -> String {
    let text = panic
        .downcast_ref::<String>()
        .map(String::as_str)
        .or_else(|| panic.downcast_ref::<&str>().copied());
    text.unwrap_or("no text")
        .lines()
        .next()
        .unwrap_or_default()
        .chars()
        .take(80)
        .collect()
}

fn arguments(mut words: impl Iterator<Item = String>) -> Arguments {
    let mut arguments = Arguments {
        shard: (0, 1),
        seeds: SEEDS_MAX,
        control: None,
        names: Vec::new(),
    };
    let number = |text: Option<&str>| {
        text.and_then(|text| text.parse().ok())
            .unwrap_or_else(|| usage())
    };
    while let Some(word) = words.next() {
        match &*word {
            "--shard" => {
                let text = words.next().unwrap_or_else(|| usage());
                let mut parts = text.split('/');
                arguments.shard = (
                    number(parts.next()) as usize,
                    (number(parts.next()) as usize).max(1),
                );
            }
            "--control" => arguments.control = Some(number(words.next().as_deref())),
            "--seeds" => arguments.seeds = number(words.next().as_deref()),
            _ if word.starts_with('-') => usage(),
            _ => arguments.names.push(word),
        }
    }
    arguments
}

fn usage() -> ! {
    eprintln!("usage: mutants [--shard I/N] [--seeds N | --control N] [NAME ...]");
    std::process::exit(2)
}

fn unknown(name: &str) -> ! {
    let names: Vec<&str> = Mutant::ALL.iter().map(|mutant| mutant.name()).collect();
    eprintln!("there is no mutant {name}; there are {}", names.join(", "));
    std::process::exit(2)
}
