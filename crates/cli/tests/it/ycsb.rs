//! `bench ycsb`: the measurement, the output, and the absence of leftovers.

use std::fs;

use stonecast_bench::YcsbResult;

use crate::support::{Place, Server, stonecast};

#[test]
fn each_workload_runs_on_a_server_of_its_own_that_leaves_nothing_behind() {
    let place = Place::in_volatile_memory();
    let data = place.path().to_str().expect("a name in UTF-8");
    let run = |arguments: &[&str]| {
        let common = [
            "bench", "ycsb", "--json", "--keys", "2000", "--ops", "3000", "--data", data,
        ];
        stonecast(common.iter().chain(arguments)).json()
    };
    for arguments in [
        &["--workload", "a", "--in-flight", "8"][..],
        &[
            "--workload",
            "b",
            "--clients",
            "2",
            "--distribution",
            "uniform",
        ],
        &["--workload", "c", "--batch", "16", "--value-size", "1KiB"],
        &["--workload", "update-only", "--in-flight", "16"],
    ] {
        let result = run(arguments);
        assert_eq!(
            result.as_object().expect("an object").len(),
            YcsbResult::FIELDS.len(),
            "{result}"
        );
        YcsbResult::FIELDS
            .iter()
            .for_each(|field| assert!(!result[field].is_null(), "{field} in {result}"));
        assert_eq!(
            (&result["workload"], &result["errors"]),
            (&arguments[1].into(), &0.into()),
            "{result}"
        );
        // The benchmark counts whole batches only, so the last operations may be missing.
        assert!(result["ops"].as_u64() > Some(3000 - 16), "{result}");
        let left = fs::read_dir(place.path()).expect("a folder").count();
        assert_eq!(left, 0, "pools of benchmarks go away");
    }
}

#[test]
fn a_running_server_can_be_measured_and_wrong_mixes_are_wrong_usage() {
    let place = Place::in_volatile_memory();
    let mut server = Server::start(
        &place.pool(),
        ["--durability", "process", "--capacity", "64MiB"],
    );
    let arguments = [
        "bench",
        "ycsb",
        "--workload",
        "a",
        "--keys",
        "1000",
        "--ops",
        "1000",
    ];
    let table = server.client(&arguments);
    assert!(
        table
            .text()
            .lines()
            .any(|line| line.starts_with("throughput")),
        "{}",
        table.text()
    );
    assert_eq!(server.client(&["stat", "--json"]).json()["keys"], 1000);
    server.stop();
    let message = stonecast([
        "bench",
        "ycsb",
        "--workload",
        "a",
        "--batch",
        "4",
        "--keys",
        "10",
    ])
    .refusal(2)
    .to_owned();
    assert!(message.contains("batch"), "{message}");
    stonecast(["bench", "ycsb", "--seconds", "0"]).refusal(2);
}

/// Needs the look at the number of shards: the bare loop reads the index of the first shard, which has few of the keys.
#[test]
fn a_server_with_several_shards_is_measured_without_the_bare_loop() {
    let place = Place::in_volatile_memory();
    let arguments = ["--durability", "process", "--capacity", "64MiB"];
    let several = [&arguments[..], &["--shards", "8"]].concat();
    let mut server = Server::start(&place.pool(), several);
    let common = ["bench", "ycsb", "--keys", "1000", "--ops", "1000"];
    let measured = server.client(&common);
    let (shown, said) = (measured.text(), &measured.stderr);
    assert!(shown.contains("bare loop      not measured"), "{shown}");
    assert!(
        said.contains("no bare loop") && said.contains("8 shards"),
        "{said}"
    );
    let json = server.client(&[&common[..], &["--json"]].concat()).json();
    assert!(
        json["limit_ops_per_s"].is_null() && json["errors"] == 0,
        "{json}"
    );
    server.stop();
}

#[test]
fn a_cluster_is_refused_with_the_reason_and_the_command_that_measures_nodes() {
    let refused = stonecast(["bench", "ycsb", "--connect", "cluster:file:./nowhere"]);
    let words = refused.refusal(2);
    assert!(
        words.contains("stonecast-lab compare --only nodes-get"),
        "{words}"
    );
}

#[test]
fn simulated_machines_belong_to_another_binary() {
    let refused = stonecast(["bench", "ycsb", "--fabric", "sim:modern"]);
    assert!(
        refused
            .refusal(2)
            .contains("stonecast-lab ycsb --fabric sim:modern"),
        "{}",
        refused.stderr
    );
}
