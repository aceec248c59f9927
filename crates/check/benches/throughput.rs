//! Measures the speed of runs: `cargo bench --package stonecast-check [--bench throughput] --
//! SCENARIO FIRST_SEED SEEDS`.

use std::collections::BTreeMap;
use std::time::Instant;

use stonecast_check::{fault_names, run, scenario};

fn main() {
    let arguments: Vec<String> = std::env::args()
        .skip(1)
        .filter(|argument| !argument.starts_with("--"))
        .collect();
    let name = arguments.first().map_or("kv", String::as_str);
    let number = |index: usize, otherwise| {
        arguments
            .get(index)
            .map_or(otherwise, |text| text.parse().expect("a number"))
    };
    let (first, count): (u64, u64) = (number(1, 0), number(2, 20));
    let scenario = scenario(name).expect("there is such a scenario");
    let start = Instant::now();
    let mut hits: BTreeMap<&str, u64> = BTreeMap::new();
    let (mut events, mut operations, mut states, mut violations) = (0, 0, 0, 0);
    let mut traces = 0_u64;
    for seed in first..first + count {
        let report = run(scenario, seed);
        report
            .faults_hit
            .iter()
            .for_each(|(name, count)| *hits.entry(name).or_default() += count);
        (events, operations, states) = (
            events + report.events,
            operations + report.operations,
            states + report.crash_states,
        );
        traces = traces.rotate_left(1) ^ report.hash;
        if count == 1 {
            // A single seed prints its timeline.
            report
                .options
                .iter()
                .for_each(|(name, value)| println!("{name}: {value}"));
            report
                .timeline
                .iter()
                .for_each(|happening| println!("{happening}"));
        }
        for violation in &report.violations {
            violations += 1;
            println!(
                "{name} {seed}: {}",
                violation.to_string().chars().take(600).collect::<String>()
            );
        }
    }
    let seconds = start.elapsed().as_secs_f64();
    println!(
        "{name}: {count} seeds in {seconds:.2} s: {events} events ({:.0}/s), {operations} operations, {states} crash states \
         ({:.0}/s), {violations} violations, traces {traces:016x}",
        events as f64 / seconds,
        states as f64 / seconds
    );
    let missed: Vec<&str> = fault_names()
        .iter()
        .copied()
        .filter(|name| !hits.contains_key(name))
        .collect();
    println!(
        "{} of {} kinds of faults hit: {hits:?}; not hit: {missed:?}",
        hits.len(),
        fault_names().len()
    );
}
