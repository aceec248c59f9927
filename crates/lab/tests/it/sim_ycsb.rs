//! YCSB in virtual time: the figures are the same from run to run, and plausible.

use std::time::Duration;

use stonecast_bench::DataSet;
use stonecast_bench::kv::{Amount, YcsbOptions};
use stonecast_fabric_sim::MachineProfile;
use stonecast_kv::limits::LOCATIONS;
use stonecast_lab::sim::{SimYcsbOptions, SimYcsbResult, run};
use stonecast_workload::{Distribution, Mix};

fn options(profile: MachineProfile, mix: Mix) -> SimYcsbOptions {
    let workload = YcsbOptions {
        mix,
        distribution: Distribution::ScrambledZipfian,
        data: DataSet {
            keys: 2000,
            value_size: 100,
            seed: 5,
        },
        clients: 4,
        in_flight: 1,
        batch: 1,
        amount: Amount::Operations(8000),
        with_limit: false,
        locations: LOCATIONS,
    };
    SimYcsbOptions {
        workload,
        profile,
        capacity: 64 << 20,
    }
}

fn measure(options: &SimYcsbOptions) -> SimYcsbResult {
    run(options).expect("nothing fails here")
}

#[test]
fn two_runs_agree_to_the_last_digit_and_other_seeds_and_machines_do_not() {
    for profile in MachineProfile::ALL {
        let options = options(profile, Mix::A);
        let first = measure(&options);
        assert_eq!(first, measure(&options));
        assert_eq!(
            serde_json::to_string(&first).unwrap(),
            serde_json::to_string(&measure(&options)).unwrap()
        );
        assert_eq!((first.run.ops, first.run.errors), (8000, 0), "{first:?}");
    }
    let mut other = options(MachineProfile::MODERN, Mix::A);
    let first = measure(&other);
    other.workload.data.seed = 6;
    assert_ne!(first.hash, measure(&other).hash);
    assert_ne!(
        first.run.p50_ns,
        measure(&options(MachineProfile::ALL[0], Mix::A)).run.p50_ns
    );
}

#[test]
fn reads_leave_server_and_medium_alone_and_take_one_trip_where_the_place_is_known_else_two() {
    let mut options = options(MachineProfile::MODERN, Mix::C);
    let result = measure(&options);
    assert_eq!(
        (
            result.nvm_bytes_written,
            result.media_bytes_written,
            result.run.errors
        ),
        (0, 0, 0)
    );
    let share = result.run.location_hits as f64 / 8000.0;
    assert!(
        share > 0.5 && result.run.location_hits + result.run.location_misses == 8000,
        "{result:?}"
    );
    assert!(
        (result.round_trips_per_op - (2.0 - share)).abs() < 0.02,
        "{result:?}"
    );
    options.workload.locations = 0;
    let result = measure(&options);
    assert_eq!(
        (result.run.location_hits, result.run.location_misses),
        (0, 8000)
    );
    assert_eq!(
        (
            result.nvm_bytes_written,
            result.media_bytes_written,
            result.run.errors
        ),
        (0, 0, 0)
    );
    assert!(result.run.server_cpu_ns_per_op.unwrap() < 1.0, "{result:?}");
    // A key that shares a fingerprint in its bucket needs one more.
    assert!(
        (2.0..2.05).contains(&result.round_trips_per_op),
        "{result:?}"
    );
    assert_eq!(result.nodes.len(), 5);
    assert!(
        result.nodes[1..]
            .iter()
            .all(|node| node.cpu_ns > 0 && node.busy <= 1.0),
        "{result:?}"
    );
}

#[test]
fn updates_take_one_trip_and_write_each_record_once() {
    let result = measure(&options(
        MachineProfile::by_name("connectx5-rowan").unwrap(),
        Mix::UpdateOnly,
    ));
    assert!(
        (1.0..1.05).contains(&result.round_trips_per_op),
        "{result:?}"
    );
    // A record of a value of 100 bytes is three lines, which bypass the caches; its stamp writes one of them again. The
    // medium combines both. Each client's segment has a line of its neighbour's for each 16 KiB that it gains whole.
    let of_witnesses = result.nvm_bytes_written - 4 * 64 * result.run.ops;
    let steps = 3 * 64 * result.run.ops / (16 << 10);
    let clients = result.run.clients as u64;
    assert!(
        of_witnesses.is_multiple_of(64) && (steps - clients..=steps).contains(&(of_witnesses / 64)),
        "{of_witnesses} bytes: {result:?}"
    );
    assert!(
        (0.70..0.80).contains(&result.write_amplification()),
        "{result:?}"
    );
    let modern = measure(&options(MachineProfile::MODERN, Mix::UpdateOnly));
    let bytes_per_op = modern.nvm_bytes_written as f64 / modern.run.ops as f64;
    assert!(
        (192.0..194.0).contains(&bytes_per_op),
        "once where caches are saved, and headers of segments: {modern:?}"
    );
    assert!(
        result.run.server_cpu_ns_per_op.unwrap() > 100.0 && result.nodes[0].busy > 0.0,
        "{result:?}"
    );
}

/// Two NICs and one round trip bound an operation from below, and each client can do no more than that allows.
#[test]
fn figures_agree_with_each_other() {
    for profile in MachineProfile::ALL {
        let mut options = options(profile, Mix::C);
        options.workload.locations = 0;
        options.workload.amount = Amount::Time(Duration::from_millis(4));
        let result = measure(&options);
        let trip_ns = 2 * (2 * profile.nic_processing_ns + profile.wire_ns) + profile.pcie_read_ns;
        assert!(
            result.run.p50_ns >= 2 * trip_ns && result.run.p50_ns <= result.run.p99_ns,
            "{result:?}"
        );
        assert!(
            result.run.p99_ns <= result.run.p999_ns && (result.run.seconds - 0.004).abs() < 0.001,
            "{result:?}"
        );
        let most = f64::from(options.workload.clients) / (2.0 * trip_ns as f64 / 1e9);
        assert!(
            result.run.ops_per_s > 0.0 && result.run.ops_per_s <= most,
            "{result:?}"
        );
        let in_order = result.run.ops as f64 / result.run.seconds;
        assert!((in_order / result.run.ops_per_s - 1.0).abs() < 1e-9);
    }
}

#[test]
fn batches_and_many_in_flight_are_measured_too_and_contradictions_are_refused() {
    let mut batches = options(MachineProfile::MODERN, Mix::C);
    batches.workload.batch = 16;
    let result = measure(&batches);
    assert_eq!((result.run.ops, result.run.errors), (8000, 0));
    assert!(
        result.round_trips_per_op < 0.2,
        "two trips for sixteen: {result:?}"
    );
    let mut many = options(MachineProfile::MODERN, Mix::A);
    many.workload.in_flight = 16;
    assert!(
        measure(&many).run.ops_per_s
            > 2.0
                * measure(&options(MachineProfile::MODERN, Mix::A))
                    .run
                    .ops_per_s
    );
    many.workload.batch = 2;
    assert!(run(&many).is_err());
}
