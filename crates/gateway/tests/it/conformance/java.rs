//! Jedis under the Java YCSB: workloads A to F, with a binding of our own.

use std::process::Command;

use super::{copy, install, succeed};
use crate::support::World;

const WORKLOADS: [&str; 6] = ["a", "b", "c", "d", "e", "f"];
const RECORDS: u64 = 500;
const OPERATIONS: u64 = 1000;

#[test]
#[ignore = "installs YCSB and Jedis from Maven Central; see conformance"]
fn ycsb_runs_its_workloads_through_jedis() {
    let test = "conformance: Jedis and YCSB";
    let directory = tempfile::tempdir().unwrap();
    copy("ycsb", directory.path());
    let here = |program: &str| {
        let mut command = Command::new(program);
        command.current_dir(directory.path());
        command
    };
    let mut maven = here("mvn");
    maven.args(["--quiet", "--batch-mode", "dependency:copy-dependencies", "-DoutputDirectory=lib"]);
    if !install(test, here("java").arg("-version")) || !install(test, &mut maven) {
        return;
    }
    succeed(here("javac").args(["-cp", "lib/*", "-d", "out", "RespDB.java"]));
    let world = World::start();
    let port = world.gateway().resp_address().unwrap().port();
    for workload in WORKLOADS {
        world.client().words("FLUSHDB");
        let ycsb = |phase: &str| {
            let (records, operations) = (format!("recordcount={RECORDS}"), format!("operationcount={OPERATIONS}"));
            let (port, file) = (format!("resp.port={port}"), format!("workload{workload}"));
            let properties = ["-P", &file, "-p", &records, "-p", &operations, "-p", &port, "-threads", "4"];
            succeed(here("java").args(["-cp", "lib/*:out", "site.ycsb.Client", phase, "-db", "RespDB"]).args(properties))
        };
        let loaded = ycsb("-load");
        assert_eq!(returned_ok(&loaded), RECORDS, "workload {workload}:\n{loaded}");
        let run = ycsb("-t");
        println!("workload {workload}\n{run}");
        let done = returned_ok(&run);
        // In F a read-modify-write counts as a read and an update beside.
        assert!(if workload == "f" { done > OPERATIONS } else { done == OPERATIONS }, "workload {workload}: {done}\n{run}");
        assert!(!run.contains("Return=ERROR") && !run.contains("Return=NOT_FOUND"), "workload {workload}:\n{run}");
    }
}

/// Sum of the lines `[OPERATION], Return=OK, COUNT`.
fn returned_ok(printed: &str) -> u64 {
    printed
        .lines()
        .filter_map(|line| line.split_once(", Return=OK, "))
        .map(|(_, count)| count.trim().parse::<u64>().unwrap())
        .sum()
}
