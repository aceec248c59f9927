//! Large tables, in small.

use serde_json::Value;

use crate::support::{folder, is_beside, lab, not_run};

/// More than the log of a pool, which a start reads.
const ENTRIES: u64 = 300_000;

/// Every value that is read is the right one, before the back-end is killed and after it. The new back-end reads the
/// log and pages of its own: its start touches a small part of the pool.
#[test]
fn tables_are_built_and_read_and_a_restart_touches_little_of_them() {
    if !is_beside("stonecast") {
        return not_run(
            "large tables",
            "the stonecast binary is not built; `cargo build` builds it",
        );
    }
    let folder = folder("/tmp");
    let place = folder.path().to_str().expect("a name in UTF-8");
    let entries = ENTRIES.to_string();
    let run = lab([
        "tables",
        "--json",
        "--folder",
        place,
        "--entries",
        &entries,
        "--seconds",
        "0.1",
    ]);
    let text = run.text();
    let figures: Vec<Value> = text
        .lines()
        .map(|line| serde_json::from_str(line).expect("one JSON object a line"))
        .collect();
    let names: Vec<_> = figures.iter().map(|of| of["table"].as_str()).collect();
    assert_eq!(names, [Some("hash-table"), Some("b-tree")]);
    for of in &figures {
        let figure = |name: &str| of[name].as_f64().expect("a figure");
        let bytes = figure("bytes_per_entry") * ENTRIES as f64;
        assert!(figure("bytes_per_entry") > 108.0, "{of}");
        assert!(figure("restart_touched_bytes") < bytes, "{of}");
        for rate in ["gets_per_second", "scanned_per_second", "restart_seconds"] {
            assert!(figure(rate) > 0.0, "{of}");
        }
    }
    let left = std::fs::read_dir(folder.path()).expect("the folder is there");
    assert_eq!(left.count(), 0, "the pools are removed");
}
