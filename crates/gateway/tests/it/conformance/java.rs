//! The client Jedis under the Java YCSB: workloads A to F, with a binding of this project.

use std::env;
use std::path::Path;
use std::process::Command;

use super::{installed, need, succeed};
use crate::support::World;

const WORKLOADS: [&str; 6] = ["a", "b", "c", "d", "e", "f"];
const RECORDS: u64 = 500;
const OPERATIONS: u64 = 1000;

#[test]
#[ignore = "installs YCSB and Jedis from Maven Central; see conformance"]
fn ycsb_runs_its_workloads_through_jedis() {
    let test = "conformance: Jedis and YCSB";
    let steps = |folder: &Path| {
        let mut steps = Vec::new();
        let mut maven = Command::new("mvn");
        // Other programs trust the certificates in the file that this variable names; Java has a store of its own.
        if let Some(certificates) = env::var_os("SSL_CERT_FILE") {
            let mut trust = Command::new("java");
            trust.arg("Trust.java").arg(certificates).arg("trust");
            steps.push(trust);
            let options = env::var("MAVEN_OPTS").unwrap_or_default();
            let store = folder.join("trust");
            let believe = format!("{options} -Djavax.net.ssl.trustStore={}", store.display());
            maven.env("MAVEN_OPTS", believe);
        }
        maven.args([
            "--quiet",
            "--batch-mode",
            "dependency:copy-dependencies",
            "-DoutputDirectory=lib",
        ]);
        let mut compiler = Command::new("javac");
        compiler.args(["-cp", "lib/*", "-d", "out", "RespDB.java"]);
        steps.extend([maven, compiler]);
        steps
    };
    if !need(test, &["java", "javac", "mvn"]) {
        return;
    }
    let Some(folder) = installed(test, "ycsb", steps) else {
        return;
    };
    let world = World::start();
    let port = world.gateway().resp_address().unwrap().port();
    for workload in WORKLOADS {
        world.client().words("FLUSHDB");
        let ycsb = |phase: &str| {
            let (records, operations) = (
                format!("recordcount={RECORDS}"),
                format!("operationcount={OPERATIONS}"),
            );
            let (port, file) = (format!("resp.port={port}"), format!("workload{workload}"));
            let properties = [
                "-P",
                &file,
                "-p",
                &records,
                "-p",
                &operations,
                "-p",
                &port,
                "-threads",
                "4",
            ];
            let mut java = Command::new("java");
            java.args([
                "-cp",
                "lib/*:out",
                "site.ycsb.Client",
                phase,
                "-db",
                "RespDB",
            ])
            .args(properties);
            succeed(java.current_dir(&folder))
        };
        let loaded = ycsb("-load");
        assert_eq!(
            returned_ok(&loaded),
            RECORDS,
            "workload {workload}:\n{loaded}"
        );
        let run = ycsb("-t");
        println!("workload {workload}\n{run}");
        let done = returned_ok(&run);
        // In workload F, a read-modify-write also counts as a read and an update.
        assert!(
            if workload == "f" {
                done > OPERATIONS
            } else {
                done == OPERATIONS
            },
            "workload {workload}: {done}\n{run}"
        );
        assert!(
            !run.contains("Return=ERROR") && !run.contains("Return=NOT_FOUND"),
            "workload {workload}:\n{run}"
        );
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
