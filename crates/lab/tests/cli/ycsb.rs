//! `ycsb`: a workload between simulated machines.

use stonecast_bench::YcsbResult;

use crate::support::lab;

/// Needs virtual time and the seeded world: with a clock of this machine, two runs would differ.
#[test]
fn two_runs_between_simulated_machines_print_the_same_bytes() {
    for profile in [
        "connectx3-erda",
        "connectx3-asymnvm",
        "connectx4-taxonomy",
        "connectx5-rowan",
        "modern",
    ] {
        let fabric = format!("sim:{profile}");
        let arguments = [
            "ycsb",
            "--json",
            "--workload",
            "a",
            "--keys",
            "1000",
            "--ops",
            "4000",
            "--clients",
            "3",
        ];
        let run = || lab(arguments.iter().copied().chain(["--fabric", &*fabric]));
        let first = run();
        assert_eq!(first.text(), run().text());
        let result = first.json();
        let more = [
            "events",
            "nvm_bytes_written",
            "media_bytes_written",
            "round_trips_per_op",
        ];
        assert_eq!(
            result.as_object().expect("an object").len(),
            YcsbResult::FIELDS.len() + more.len(),
            "{result}"
        );
        YcsbResult::FIELDS
            .iter()
            .chain(&more)
            .for_each(|field| assert!(result.get(field).is_some(), "{field} in {result}"));
        assert_eq!(
            (&result["fabric"], &result["errors"]),
            (&(*fabric).into(), &0.into()),
            "{result}"
        );
        assert!(
            result["round_trips_per_op"].as_f64() > Some(1.0)
                && result["nvm_bytes_written"].as_u64() > Some(0),
            "{result}"
        );
    }
    let table = lab([
        "ycsb",
        "--fabric",
        "sim:modern",
        "--keys",
        "100",
        "--ops",
        "500",
    ]);
    for part in [
        "throughput ",
        "latency p99 ",
        "CPU ",
        "NVM written ",
        "write amplification ",
        "round trips ",
        "places known ",
    ] {
        assert!(table.text().contains(part), "{part} in {}", table.text());
    }
    lab(["ycsb", "--fabric", "sim:abacus"]).refusal(2);
    assert!(lab(["ycsb"]).refusal(2).contains("--fabric"));
    assert!(
        lab(["ycsb", "--fabric", "shm"])
            .refusal(2)
            .contains("stonecast bench ycsb")
    );
}
