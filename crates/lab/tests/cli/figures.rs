//! `figure`: designs of papers beside the store, in the simulated world and as processes.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use serde_json::Value;
use tempfile::TempDir;

use crate::support::{folder, is_beside, lab, not_run};

const SERIES: [&str; 4] = ["erda-published", "redo-logging", "read-after-write", "kv"];

fn points(printed: &str) -> Vec<Value> {
    printed
        .lines()
        .map(|line| serde_json::from_str(line).expect("one object a line"))
        .collect()
}

/// The measurement of a series at a place.
fn at(points: &[Value], series: &str, x: &str) -> f64 {
    let point = points
        .iter()
        .find(|point| point["series"] == series && point["x"] == x);
    point.unwrap_or_else(|| panic!("{series} at {x} is not in {points:?}"))["y"]
        .as_f64()
        .expect("a number")
}

/// The paper's own count of bytes (section 5.5 of Erda's paper), except that this test counts the whole word, and that
/// a message of a baseline has one byte more.
#[test]
fn the_bytes_of_each_operation_are_those_of_the_formats() {
    let printed = lab(["figure", "erda-table1", "--json"]);
    let points = points(printed.text());
    for point in &points {
        assert_eq!(
            (&point["figure"], &point["unit"]),
            (&Value::from("erda-table1"), &Value::from("bytes")),
            "{point}"
        );
    }
    let names: std::collections::BTreeSet<&str> = points
        .iter()
        .map(|point| point["series"].as_str().unwrap())
        .collect();
    assert_eq!(names, SERIES.into());
    let pair = 23.0 + 256.0;
    // The update stores 8 bytes of word beside the object, which has tag and checksum: 4 bytes more than the paper
    // counts.
    let update = at(&points, "erda-published", "update 256");
    assert!((update - (pair + 9.0)).abs() <= 4.0, "{update}");
    for series in ["redo-logging", "read-after-write"] {
        let update = at(&points, series, "update 256");
        assert!(
            (2.0 * pair..2.0 * pair + 16.0).contains(&update),
            "{series} writes twice: {update}"
        );
    }
    // The KV store writes each byte of the record once, with a header of 40 bytes, of which 24 are the stamp. The
    // count includes all metadata: the witness of a segment is 8 bytes for each 16 KiB, of which some are lost at the
    // ends of extents.
    for (size, most) in [(64.0, 1.3), (1024.0, 1.05)] {
        let ours = at(&points, "kv", &format!("update {size}"));
        let record = 40.0 + 23.0 + size;
        let witness = 8.0 * record / f64::from(16 << 10);
        assert!((record..=record + 2.0 * witness).contains(&ours), "{ours}");
        assert!(
            ours <= most * at(&points, "erda-published", &format!("update {size}")),
            "values of {size} bytes"
        );
    }
}

#[test]
fn a_figure_is_printed_with_a_header_and_all_series_in_a_row_beside_the_published_numbers() {
    let told = lab(["figure", "erda-table1"]);
    let mut lines = told.text().lines();
    assert!(lines.next().unwrap().starts_with("erda-table1: "));
    let header = lines.next().unwrap();
    assert!(
        SERIES.iter().all(|series| header.contains(series)),
        "{header}"
    );
    let row = |name: &str| {
        told.text()
            .lines()
            .find(|line| line.starts_with(name))
            .map(|line| line.split_whitespace().count())
    };
    assert_eq!(row("update 256 "), Some(2 + SERIES.len()));
    assert!(row("published, update 256 ").is_some(), "{}", told.text());
}

#[test]
fn a_figure_is_the_same_each_time_and_its_picture_and_points_are_written() {
    let place = folder("/dev/shm");
    let folder = place.path().to_str().expect("a name in UTF-8");
    let run = || {
        lab([
            "figure",
            "erda-14",
            "--operations",
            "100",
            "--json",
            "--out",
            folder,
        ])
        .text()
        .to_owned()
    };
    let printed = run();
    assert_eq!(printed, run());
    assert_eq!(
        fs::read_to_string(place.path().join("erda-14.jsonl")).unwrap(),
        printed
    );
    assert!(
        fs::read_to_string(place.path().join("erda-14.svg"))
            .unwrap()
            .contains("<svg")
    );
    let points = points(&printed);
    assert_eq!(points.len(), SERIES.len() * 5);
    // The KV store needs one round trip and the published design two, on machines on which only round trips count.
    assert!(at(&points, "kv", "64") < at(&points, "erda-published", "64"));
}

/// Runs `figure NAME`, which must write `pages`, pictures and points, each as the documents show it. Returns the
/// folder.
fn written(name: &str, pages: &[&str], pictures: usize, figures: usize) -> TempDir {
    let place = folder("/dev/shm");
    let told = lab(["figure", name, "--out", text(&place)]);
    assert!(!told.text().is_empty());
    let documented = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/figures");
    let mut found = Vec::new();
    for entry in fs::read_dir(place.path()).unwrap() {
        let file = entry.unwrap().file_name().into_string().unwrap();
        let shown = fs::read_to_string(documented.join(&file)).unwrap_or_default();
        assert!(
            fs::read_to_string(place.path().join(&file)).unwrap() == shown,
            "{file}: run `stonecast-lab figure {name} --out docs/figures`, and look at what changed"
        );
        found.push(file);
    }
    found.sort();
    let of = |kind: &str| -> Vec<&String> {
        let files = found.iter();
        files.filter(|file| file.ends_with(kind)).collect()
    };
    assert_eq!(of(".md"), pages);
    assert_eq!(of(".svg").len(), pictures);
    assert_eq!(of(".jsonl").len(), figures);
    assert_eq!(found.len(), pages.len() + pictures + figures);
    place
}

fn text(place: &TempDir) -> &str {
    place.path().to_str().expect("a name in UTF-8")
}

#[test]
fn the_command_prints_the_page_of_the_documentation_and_its_pictures() {
    // Neither the table nor the moved bytes are drawn.
    let place = written("erda", &["erda.md"], 13, 15);
    cleaning_costs_other_clients_little(place.path());
}

#[test]
fn the_same_command_writes_remotelog() {
    written("remotelog", &["remotelog.md"], 1, 1);
}

#[test]
fn a_figure_that_was_measured_and_kept_is_not_measured_again() {
    let place = folder("/dev/shm");
    let kept = |operations: &str| {
        let keep = ["--keep", text(&place), "--operations", operations];
        lab(["figure", "erda-14"].iter().chain(&keep))
            .text()
            .to_owned()
    };
    let measured = kept("20");
    assert_eq!(measured, kept("20"));
    let files: Vec<_> = fs::read_dir(place.path()).unwrap().flatten().collect();
    assert_eq!(files.len(), 1, "{files:?}");
    // Only a run that takes the kept points shows a number that nothing measures.
    let file = files[0].path();
    let changed: String = fs::read_to_string(&file)
        .unwrap()
        .lines()
        .map(|line| match line.rsplit_once('\t') {
            Some((point, _)) => format!("{point}\t98765\n"),
            None => format!("{line}\n"),
        })
        .collect();
    fs::write(&file, changed).unwrap();
    assert!(kept("20").contains("98765.00"));
    assert!(
        !kept("21").contains("98765.00"),
        "another amount is another figure"
    );
}

#[test]
fn contradictory_flags_are_refused() {
    for (arguments, code, part) in [
        (
            &["rowan-appends", "--operations", "20"][..],
            2,
            "a fixed time",
        ),
        (&["erda-shm", "--keep", "/dev/shm"], 2, "the same numbers"),
        (&["erda-shm", "--out", "/dev/shm"], 2, "the same numbers"),
        (&["erda-shm", "--markdown"], 2, "the same numbers"),
        (
            &["erda-14", "--markdown", "--operations", "20"],
            2,
            "--operations",
        ),
        (&["erda-99"], 2, "rowan-amplification"),
    ] {
        let refused = lab(["figure"].iter().chain(arguments));
        assert!(refused.refusal(code).contains(part), "{}", refused.stderr);
    }
}

/// Checks the cost of the working cleaner to other clients.
fn cleaning_costs_other_clients_little(folder: &Path) {
    let read = |name: &str| points(&fs::read_to_string(folder.join(name)).unwrap());
    let (latencies, moved) = (read("erda-26.jsonl"), read("erda-26-moved.jsonl"));
    for workload in ["c", "a"] {
        let beside_a_writer = at(&latencies, "kv", &format!("{workload} beside a writer"));
        let cleaning = at(&latencies, "kv", &format!("{workload} cleaning"));
        assert!(
            cleaning <= 1.15 * beside_a_writer,
            "{workload}: {cleaning} us, {beside_a_writer} us"
        );
        let moved = at(&moved, "kv", workload);
        assert!(
            moved >= 0.25,
            "{workload}: cleaning went on all the time: {moved}"
        );
    }
}

/// Each design has a server process of its own, and every key that is read is present.
#[test]
fn the_same_designs_run_as_processes_over_shared_memory() {
    if !is_beside("stonecast") {
        return not_run(
            "the same designs as processes over shared memory",
            "the stonecast binary is not built; `cargo build` builds it",
        );
    }
    let printed = lab(["figure", "erda-shm", "--operations", "200", "--json"]);
    let mut counts = BTreeMap::new();
    for point in points(printed.text()) {
        assert!(point["y"].as_f64().unwrap() > 0.0, "{point}");
        let series = point["series"].as_str().unwrap().to_owned();
        *counts
            .entry((point["figure"].as_str().unwrap().to_owned(), series))
            .or_insert(0) += 1;
    }
    let figures = ["erda-shm-cpu", "erda-shm-latency", "erda-shm-throughput"];
    let expected = figures
        .iter()
        .flat_map(|figure| SERIES.map(|series| (((*figure).to_owned(), series.to_owned()), 4)));
    assert_eq!(counts, expected.collect());
}
