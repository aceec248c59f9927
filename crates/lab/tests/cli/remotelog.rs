//! `remotelog`: its measurements, and the page and figure of the documentation that it prints.

use std::fs;
use std::path::Path;

use crate::support::{folder, lab};

fn documented(file: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../docs/figures")
        .join(file);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Virtual time gives the same numbers everywhere, so the documentation can be compared byte by byte.
#[test]
fn the_command_prints_the_page_and_the_figure_of_the_documentation() {
    let place = folder("/dev/shm");
    let figure = place.path().join("figure.svg");
    let printed = lab([
        "remotelog",
        "--markdown",
        "--figure",
        figure.to_str().expect("a name in UTF-8"),
    ]);
    let again = "run `stonecast-lab remotelog --markdown --figure docs/figures/remotelog.svg > docs/figures/remotelog.md`";
    assert!(printed.text() == documented("remotelog.md"), "{again}");
    assert!(
        fs::read_to_string(&figure).unwrap() == documented("remotelog.svg"),
        "{again}"
    );
}

#[test]
fn every_published_scenario_is_one_line_of_json() {
    let printed = lab(["remotelog", "--json", "--appends", "20"]);
    let lines: Vec<serde_json::Value> = printed
        .text()
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(lines.len(), 72);
    for line in &lines {
        assert_eq!(line["fabric"], "sim:connectx4-taxonomy");
        assert_eq!(line["appends"], 20);
        assert!(line["latency_ns_mean"].as_f64().unwrap() > 1000.0, "{line}");
        assert!(!line["steps"].as_array().unwrap().is_empty());
    }
    let latency = |persistence: &str, operation: &str| {
        let of = |line: &&serde_json::Value| {
            line["persistence"] == persistence
                && line["operation"] == operation
                && line["update"] == "single"
                && line["ddio"] == true
                && line["receive_buffers"] == "dram"
        };
        lines.iter().find(of).unwrap()["latency_ns_mean"]
            .as_f64()
            .unwrap()
    };
    let (wsp, mhp, dmp) = (
        latency("wsp", "write"),
        latency("mhp", "write"),
        latency("dmp", "write"),
    );
    assert!(
        wsp < mhp && mhp < dmp,
        "{wsp} {mhp} {dmp}: each smaller domain costs more"
    );
    assert!(
        latency("mhp", "send") > mhp,
        "the responder's processor takes time"
    );
}

#[test]
fn the_plans_that_this_host_can_execute_are_executed_and_leave_nothing_behind() {
    let place = folder("/var/tmp");
    let folder = place.path().to_str().expect("a name in UTF-8");
    let printed = lab([
        "remotelog",
        "--fabric",
        "shm",
        "--json",
        "--appends",
        "5",
        "--data",
        folder,
    ]);
    let lines: Vec<serde_json::Value> = printed
        .text()
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(lines.len(), 6);
    for line in &lines {
        assert_eq!(
            (&line["fabric"], &line["persistence"]),
            (&"shm".into(), &"page-file".into())
        );
        assert!(
            line["latency_ns_p50"].as_u64().unwrap() > 0 && line["one_sided"] == false,
            "{line}"
        );
    }
    assert_eq!(fs::read_dir(place.path()).unwrap().count(), 0);
}

#[test]
fn contradictory_flags_are_refused() {
    for (arguments, part) in [
        (&["--fabric", "sim:abacus"][..], "sim:connectx4-taxonomy"),
        (&["--fabric", "shm", "--markdown"], "--fabric sim:PROFILE"),
        (
            &["--fabric", "sim:modern", "--markdown"],
            "sim:connectx4-taxonomy",
        ),
        (&["--data", "/tmp"], "--data"),
        (&["--appends", "0"], "--appends"),
    ] {
        let refused = lab(["remotelog"].iter().chain(arguments));
        assert!(refused.refusal(2).contains(part), "{}", refused.stderr);
    }
    let refused = lab([
        "remotelog",
        "--appends",
        "1",
        "--figure",
        "/no/such/folder/figure.svg",
    ]);
    assert!(refused.refusal(1).contains("/no/such/folder/figure.svg"));
}
