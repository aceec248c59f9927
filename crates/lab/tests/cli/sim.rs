//! `sim`: its output, the same run for the same seed, and the report of a failure.

use crate::support::lab;

const FIELDS: [&str; 9] = [
    "scenario",
    "seed",
    "hash",
    "events",
    "operations",
    "crash_states",
    "faults_hit",
    "course",
    "violations",
];

#[test]
fn each_seed_is_a_line_of_json_and_means_the_same_run_for_ever() {
    let run = || lab(["sim", "kv", "--seed", "40", "--seeds", "6", "--json"]);
    let output = run();
    let lines: Vec<serde_json::Value> = output
        .text()
        .lines()
        .map(|line| serde_json::from_str(line).expect("a line of JSON"))
        .collect();
    assert_eq!(lines.len(), 6);
    for (seed, line) in (40..).zip(&lines) {
        let object = line.as_object().expect("an object");
        assert_eq!(object.len(), FIELDS.len(), "{line}");
        FIELDS
            .iter()
            .for_each(|field| assert!(object.contains_key(*field), "{field} in {line}"));
        assert_eq!(
            (&line["scenario"], &line["seed"]),
            (&"kv".into(), &seed.into())
        );
        assert_eq!(line["violations"], serde_json::json!([]));
        assert_eq!(line["hash"].as_str().map(str::len), Some(16));
        assert!(
            line["operations"].as_u64() >= Some(1000) && line["crash_states"].is_u64(),
            "{line}"
        );
        assert!(
            line["faults_hit"].is_object() && line["course"].is_object(),
            "{line}"
        );
    }
    // A pool that need only survive processes has no crash states.
    let has_states = |line: &&serde_json::Value| line["crash_states"].as_u64() > Some(0);
    assert!(
        lines.iter().filter(has_states).count() > lines.len() / 2,
        "{}",
        output.text()
    );
    assert_ne!(lines[0]["hash"], lines[1]["hash"]);
    assert_eq!(run().text(), output.text());
}

#[test]
fn one_seed_is_told_in_full_with_the_command_that_replays_it() {
    let output = lab(["sim", "kv", "--seed", "7", "--operations", "50"]);
    for part in [
        "seed          7\n",
        "replay        stonecast-lab sim kv --seed 7 --operations 50\n",
        "profile: ",
        "violations    none\n",
    ] {
        assert!(output.text().contains(part), "{part} in {}", output.text());
    }
    let help = lab(["sim", "--help"]);
    let (first, other) = (help.text().find("- kv:"), help.text().find("- kv-crashes:"));
    assert!(first.is_some() && first < other, "{}", help.text());
    assert!(lab(["sim", "store-abacus"]).refusal(2).contains("kv"));
}

#[test]
fn the_classes_of_faults_are_forty_and_each_says_why_if_it_cannot_be_reached() {
    let output = lab(["sim", "--faults", "--json"]);
    let classes: Vec<serde_json::Value> = output
        .text()
        .lines()
        .map(|line| serde_json::from_str(line).expect("a line of JSON"))
        .collect();
    assert_eq!(classes.len(), 40);
    for (number, class) in (1..).zip(&classes) {
        assert_eq!(class["number"], number);
        assert_eq!(
            class["reachable"].as_bool(),
            Some(class["why_not"].is_null()),
            "{class}"
        );
    }
    assert_eq!(lab(["sim", "--faults"]).text().lines().count(), 40);
    assert!(lab(["sim"]).refusal(2).contains("<SCENARIO>"));
}

/// The canary breaks in every run. Needs the exit status, the search, and a replay command that
/// reproduces the run.
#[test]
fn a_failure_is_status_1_and_comes_with_the_shortest_schedule_and_its_replay() {
    let output = lab(["sim", "kv", "--seed", "3", "--canary"]);
    assert!(
        output.code == Some(1) && output.stderr.contains("1 of 1 seeds broke a promise"),
        "{}",
        output.stderr
    );
    let text = String::from_utf8(output.stdout).expect("words");
    let (_, shortest) = text.split_once("shortest").expect("a search");
    assert!(
        shortest.contains("timeline\n")
            && shortest.contains("if the power of the server is cut here"),
        "{text}"
    );
    let replay = shortest
        .lines()
        .find_map(|line| line.strip_prefix("replay "))
        .expect("a command");
    let arguments: Vec<&str> = replay.split_whitespace().skip(1).collect();
    let again = lab(arguments.iter().chain(&["--no-shrink", "--json"]));
    assert_eq!(again.code, Some(1));
    // The run, then the object that every failed command prints.
    let lines: Vec<serde_json::Value> = serde_json::Deserializer::from_slice(&again.stdout)
        .into_iter()
        .collect::<Result<_, _>>()
        .expect("lines of JSON");
    assert_eq!((lines.len(), &lines[1]["error"]), (2, &"failed".into()));
    let line = &lines[0];
    assert_eq!(
        line["violations"][0]["promise"],
        "acknowledged writes survive"
    );
    assert!(line["operations"].as_u64() < Some(10), "{line}");
}
