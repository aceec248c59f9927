//! Comparisons on little data.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::support::{folder, is_beside, lab, not_run};

/// The other stores lie in this process. The back-end is a process of its own, and every value that is read is the
/// right one. Whether a figure meets its target is no part of the test.
#[test]
fn data_structures_are_measured_beside_lmdb() {
    if !is_beside("stonecast") {
        return not_run(
            "data structures beside LMDB",
            "the stonecast binary is not built; `cargo build` builds it",
        );
    }
    let folder = folder("/tmp");
    let place = folder.path().to_str().expect("a name in UTF-8");
    let sizes = ["--keys", "1000", "--seconds", "0.05", "--repetitions", "2"];
    let mut arguments = vec!["compare", "structures", "--json", "--memory-folder", place];
    arguments.extend(["--disk-folder", place]);
    arguments.extend(sizes);
    let run = lab(arguments);
    assert!(matches!(run.code, Some(0 | 1)), "{}", run.stderr);
    let text = String::from_utf8(run.stdout).expect("UTF-8 on stdout");
    // A last line says that a figure has missed its target.
    let figures = text.lines().filter_map(|line| {
        let figure: Value = serde_json::from_str(line).expect("one JSON object a line");
        let name = figure["name"].as_str()?.to_owned();
        Some((name, figure["ours"].as_f64().expect("a figure")))
    });
    let figures: BTreeMap<String, f64> = figures.collect();
    let names: Vec<&str> = figures.keys().map(String::as_str).collect();
    let expected = [
        "b-tree-durable-128",
        "b-tree-durable-16",
        "b-tree-get-cold",
        "b-tree-get-warm",
        "b-tree-insert",
        "b-tree-insert-128",
        "b-tree-insert-128-redb",
        "b-tree-insert-redb",
        "b-tree-range",
        "b-tree-reader",
        "b-tree-restart",
        "b-tree-restart-time",
        "b-tree-staged",
        "hash-table-reader",
    ];
    assert_eq!(names, expected, "{}", run.stderr);
    assert!(figures.values().all(|ours| *ours > 0.0), "{figures:?}");
}

/// Needs a lease that is longer than a measurement: the writer says nothing while LMDB is measured.
#[test]
fn a_measurement_may_last_longer_than_the_lease_of_a_server() {
    if !is_beside("stonecast") {
        return not_run(
            "a long measurement",
            "the stonecast binary is not built; `cargo build` builds it",
        );
    }
    let folder = folder("/tmp");
    let place = folder.path().to_str().expect("a name in UTF-8");
    let mut arguments = vec!["compare", "structures", "--json", "--disk-folder", place];
    // The lease of `stonecast serve` is 10 s.
    arguments.extend(["--keys", "1000", "--seconds", "11", "--repetitions", "1"]);
    arguments.extend(["--only", "b-tree-durable-128"]);
    let run = lab(arguments);
    assert!(matches!(run.code, Some(0 | 1)), "{}", run.stderr);
    let text = String::from_utf8(run.stdout).expect("UTF-8 on stdout");
    let first = text.lines().next().expect("a figure");
    let figure: Value = serde_json::from_str(first).expect("one JSON object a line");
    assert_eq!(figure["name"], "b-tree-durable-128", "{}", run.stderr);
}
