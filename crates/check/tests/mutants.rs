//! The campaign that checks the checks: plants one seeded bug after the other and runs seeds until an oracle objects;
//! then runs the same seeds of the unchanged store, in which no oracle may object.
//!
//! ```text
//!   mutants [--seeds N] [--control N] [--scenario NAME] [NAME ...]
//!                                       one line for each mutant: name, seeds, scenario, oracle
//!                                       one line for each scenario: seeds of the unchanged store, N or more
//! ```
//!
//! Threads share the work: a mutant is planted in one thread only. Exit status 1: a mutant was not found, or an oracle
//! objected to the unchanged store.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::thread;

use stonecast_base::mutants::{Mutant, plant};
use stonecast_check::{Scenario, run, scenario};

/// Seeds within which each mutant must be found.
const SEEDS_MAX: u64 = 10_000;
/// Seeds within which a directed hunt must find its mutant.
const DIRECTED_SEEDS_MAX: u64 = 200;
/// Minimum number of seeds of the unchanged store, where every mutant is hunted.
const CONTROL_MIN: u64 = 500;
/// Places of bugs that this campaign hunts.
const HERE: [&str; 5] = ["fabric-sim", "kv", "log", "persist", "session"];
/// Places of bugs that no store shows. Tests of these crates hunt such bugs; tests of `fabric-sim` hunt the bugs of
/// `appends` and `power`, tests of `member` those of `clocks`.
const ELSEWHERE: [&str; 25] = [
    "append-log",
    "appends",
    "backup",
    "clocks",
    "cluster",
    "fabric-shm",
    "kv/backup",
    "kv/batches",
    "kv/cluster",
    "kv/expiry",
    "kv/flaws",
    "kv/hold",
    "kv/node",
    "kv/chunks",
    "kv/resigned",
    "kv/time",
    "kv/told",
    "member",
    "node",
    "own-log",
    "persist/append",
    "power",
    "replication",
    "replication/machines",
    "structures",
];
/// The scenario of all hunts but the directed ones.
const SCENARIO: &str = "kv-lite";
/// Mutants that show only where several rare things meet, and the scenarios that dwell on these.
const DIRECTED: [(Mutant, &str); 9] = [
    (Mutant::TornBatchCounts, "kv-batches"),
    (Mutant::ExpectationIgnored, "kv-batches"),
    (Mutant::ClaimIgnored, "kv-rivals"),
    (Mutant::OutcomesNotRecovered, "kv-restarts"),
    (Mutant::StampedBesideItsCause, "kv-restarts"),
    (Mutant::TombstoneWinsAlways, "kv-batches"),
    (Mutant::SyncErrorIgnored, "kv-syncs"),
    (Mutant::PublishBeforeDurable, "kv-syncs"),
    (Mutant::DeletesNotReserved, "kv-full"),
];

struct Arguments {
    /// Maximum number of seeds of each hunt; `None`: the limit of each hunt.
    seeds: Option<u64>,
    /// Fewest seeds of the unchanged store, in each scenario in which a mutant is hunted.
    control: u64,
    /// The scenario of all hunts; `None`: that of each mutant.
    scenario: Option<&'static str>,
    names: Vec<String>,
}

fn main() -> ExitCode {
    let arguments = arguments(std::env::args().skip(1));
    let chosen = chosen(&arguments.names);
    // A broken assertion is a finding like any other; its text is in the report.
    std::panic::set_hook(Box::new(|_| {}));
    let hunted = campaign(&arguments, &chosen);
    let mut needed = hunted.needed;
    if arguments.names.is_empty() {
        let seeds = needed.entry(SCENARIO).or_default();
        *seeds = CONTROL_MIN.max(*seeds);
    }
    let mut good = hunted.found_all;
    for (name, seeds) in needed {
        good &= control(name, seeds.max(arguments.control));
    }
    if good {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

/// The result of the hunts.
struct Hunted {
    found_all: bool,
    /// The most seeds that a mutant needed, by scenario.
    needed: BTreeMap<&'static str, u64>,
}

/// Hunts the chosen mutants.
fn campaign(arguments: &Arguments, chosen: &[Mutant]) -> Hunted {
    let next = AtomicUsize::new(0);
    let hunted = Mutex::new(Hunted {
        found_all: true,
        needed: BTreeMap::new(),
    });
    on_every_processor(|| {
        while let Some(&mutant) = chosen.get(next.fetch_add(1, Ordering::Relaxed)) {
            let (name, most) = hunt_of(mutant);
            let name = arguments.scenario.unwrap_or(name);
            let seeds_max = arguments.seeds.unwrap_or(most);
            let found = hunt(scenario_of(name), Some(mutant), 0..seeds_max);
            let mut hunted = hunted.lock().expect("no hunt panics");
            let Some((seed, oracle)) = found else {
                println!(
                    "{:<28} NOT FOUND in {seeds_max} seeds of {name}: {}",
                    mutant.name(),
                    mutant.what()
                );
                hunted.found_all = false;
                continue;
            };
            let seeds = seed + 1;
            println!(
                "{:<28} found after {seeds:>5} seeds of {name} by: {oracle}",
                mutant.name()
            );
            let needed = hunted.needed.entry(name).or_default();
            *needed = seeds.max(*needed);
        }
    });
    hunted.into_inner().expect("no hunt panics")
}

/// The mutants to hunt, the longest hunts first.
fn chosen(names: &[String]) -> Vec<Mutant> {
    if !names.is_empty() {
        let mutant = |name: &String| Mutant::by_name(name).unwrap_or_else(|| unknown(name));
        return names.iter().map(mutant).collect();
    }
    let is_here = |mutant: &Mutant| {
        let place = mutant.place();
        let is_here = HERE.contains(&place);
        assert!(
            is_here || ELSEWHERE.contains(&place),
            "nothing hunts the bugs of {place}: name the place here or elsewhere"
        );
        is_here || is_directed(mutant)
    };
    let mut chosen: Vec<Mutant> = Mutant::ALL.iter().copied().filter(is_here).collect();
    chosen.sort_by_key(|mutant| !is_directed(mutant));
    chosen
}

/// Whether a scenario dwells on what shows `mutant`.
fn is_directed(mutant: &Mutant) -> bool {
    DIRECTED.iter().any(|(directed, _)| directed == mutant)
}

/// The scenario in which `mutant` is hunted, and the seeds within which it must be found.
fn hunt_of(mutant: Mutant) -> (&'static str, u64) {
    let directed = DIRECTED.iter().find(|(directed, _)| *directed == mutant);
    directed.map_or((SCENARIO, SEEDS_MAX), |(_, name)| {
        (name, DIRECTED_SEEDS_MAX)
    })
}

fn scenario_of(name: &str) -> &'static Scenario {
    scenario(name).expect("there is such a scenario")
}

/// Runs the first `seeds` seeds of the unchanged store. Returns whether nothing was found.
fn control(name: &'static str, seeds: u64) -> bool {
    let next = AtomicU64::new(0);
    let objections = Mutex::new(Vec::new());
    on_every_processor(|| {
        let turns = std::iter::from_fn(|| Some(next.fetch_add(1, Ordering::Relaxed)));
        let own = turns.take_while(|seed| *seed < seeds);
        if let Some(found) = hunt(scenario_of(name), None, own) {
            objections.lock().expect("no hunt panics").push(found);
        }
    });
    let objections = objections.into_inner().expect("no hunt panics");
    for (seed, oracle) in &objections {
        println!(
            "{:<28} VIOLATION in the unchanged store, seed {seed} of {name}: {oracle}",
            "none"
        );
    }
    if objections.is_empty() {
        println!("{:<28} nothing found in {seeds} seeds of {name}", "none");
    }
    objections.is_empty()
}

/// Runs `work` in one thread for each processor.
fn on_every_processor(work: impl Fn() + Sync) {
    let threads = thread::available_parallelism().map_or(1, usize::from);
    thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(&work);
        }
    });
}

/// Runs `seeds` with `mutant` planted until an oracle objects. Returns the seed and the oracle.
fn hunt(
    scenario: &Scenario,
    mutant: Option<Mutant>,
    mut seeds: impl Iterator<Item = u64>,
) -> Option<(u64, String)> {
    plant(mutant);
    let found = seeds.find_map(|seed| {
        let outcome = catch_unwind(AssertUnwindSafe(|| run(scenario, seed)));
        let oracle = match outcome {
            Ok(report) => report
                .violations
                .first()
                .map(|violation| violation.oracle.to_owned()),
            Err(panic) => Some(format!("assertion: {}", text_of(&*panic))),
        };
        oracle.map(|oracle| (seed, oracle))
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
        seeds: None,
        control: 0,
        scenario: None,
        names: Vec::new(),
    };
    while let Some(word) = words.next() {
        let mut count = || -> u64 {
            let count = words.next().and_then(|text| text.parse().ok());
            count.unwrap_or_else(|| usage())
        };
        match &*word {
            "--seeds" => arguments.seeds = Some(count()),
            "--control" => arguments.control = count(),
            "--scenario" => {
                let named = words.next().and_then(|name| scenario(&name));
                arguments.scenario = Some(named.unwrap_or_else(|| usage()).name);
            }
            _ if word.starts_with('-') => usage(),
            _ => arguments.names.push(word),
        }
    }
    arguments
}

fn usage() -> ! {
    eprintln!("usage: mutants [--seeds N] [--control N] [--scenario NAME] [NAME ...]");
    std::process::exit(2)
}

fn unknown(name: &str) -> ! {
    let names: Vec<&str> = Mutant::ALL.iter().map(|mutant| mutant.name()).collect();
    eprintln!("there is no mutant {name}; there are {}", names.join(", "));
    std::process::exit(2)
}
