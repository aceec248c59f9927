//! Runs of workloads and the bare loop against a real server.

use std::sync::Arc;
use std::time::Duration;

use stonecast_bench::DataSet;
use stonecast_bench::kv::{Amount, Limit, Loop, Order, Session, YcsbError, YcsbOptions, load, run};
use stonecast_kv::limits::LOCATIONS;
use stonecast_workload::{Distribution, KeyName, Mix, Sequence, SequenceOptions};

use crate::server::ThreadServer;

const DATA: DataSet = DataSet {
    keys: 2000,
    value_size: 100,
    seed: 4,
};
const CAPACITY: u64 = 256 << 20;
const SHORT: Duration = Duration::from_millis(50);

const OPTIONS: YcsbOptions = YcsbOptions {
    mix: Mix::C,
    distribution: Distribution::ScrambledZipfian,
    data: DATA,
    clients: 1,
    in_flight: 1,
    batch: 1,
    amount: Amount::Operations(20_000),
    with_limit: true,
    locations: LOCATIONS,
};

fn loaded(capacity: u64, data: DataSet) -> ThreadServer {
    let server = ThreadServer::start(capacity);
    let session = Session::open(&server.target().address).unwrap();
    let mut last = 0;
    load(&session, data, |stored| last = stored).unwrap();
    assert_eq!(last, data.keys);
    session.close();
    server
}

#[test]
fn a_run_does_the_requested_number_of_operations_in_every_mix_and_shape() {
    let server = loaded(CAPACITY, DATA);
    let shapes = [
        (1, 1, 1),
        (2, 1, 1),
        (1, 16, 1),
        (2, 16, 1),
        (1, 1, 16),
        (2, 1, 16),
    ];
    for mix in Mix::ALL {
        for (clients, in_flight, batch) in shapes
            .into_iter()
            .filter(|shape| shape.2 == 1 || mix == Mix::C)
        {
            let with_limit = in_flight == 1 && batch == 1;
            let options = YcsbOptions {
                mix,
                clients,
                in_flight,
                batch,
                with_limit,
                ..OPTIONS
            };
            let mut shares = Vec::new();
            let result = run(&server.target(), &options, |share| shares.push(share)).unwrap();
            let shape =
                format!("{mix:?}, {clients} clients, {in_flight} in flight, batches of {batch}");
            assert_eq!((result.ops, result.errors), (20_000, 0), "{shape}");
            assert_eq!(
                (
                    result.clients,
                    result.in_flight,
                    result.keys,
                    result.value_size
                ),
                (clients, in_flight, 2000, 100)
            );
            assert!(
                result.p50_ns > 0
                    && result.p50_ns <= result.p99_ns
                    && result.p99_ns <= result.p999_ns,
                "{shape}"
            );
            assert!(result.client_cpu_ns_per_op > 0.0, "{shape}");
            assert_eq!(
                result.limit_ops_per_s.is_some_and(|limit| limit > 0.0),
                with_limit,
                "{shape}"
            );
            assert!(
                shares.is_sorted() && shares.iter().all(|share| (0.0..=1.0).contains(share)),
                "{shape}"
            );
        }
    }
}

#[test]
fn a_run_takes_the_requested_time() {
    let server = loaded(CAPACITY, DATA);
    let options = YcsbOptions {
        amount: Amount::Time(SHORT),
        with_limit: false,
        ..OPTIONS
    };
    let result = run(&server.target(), &options, |_| {}).unwrap();
    assert!(result.seconds >= SHORT.as_secs_f64() && result.ops > 0);
    assert!((result.ops_per_s - result.ops as f64 / result.seconds).abs() < 1.0);
    assert_eq!(result.limit_ops_per_s, None);
}

/// Needs the check of the values that reads return: otherwise a store that finds nothing would be the fastest.
#[test]
fn absent_keys_and_values_of_another_size_count_as_errors() {
    let server = loaded(CAPACITY, DATA);
    let session = Session::open(&server.target().address).unwrap();
    for batch in [1, 16] {
        for (keys, value_size) in [(4000, 100), (2000, 99)] {
            let options = SequenceOptions {
                mix: Mix::C,
                distribution: Distribution::Uniform,
                keys,
                length: 8192,
                seed: 3,
            };
            let sequence = Arc::new(Sequence::new(options));
            let absent = sequence
                .operations()
                .iter()
                .filter(|operation| operation.number() >= 2000)
                .count();
            let expected = if value_size == 99 { 8192 } else { absent };
            let plan = Loop {
                sequence,
                start: 0,
                value_size,
                in_flight: 1,
                batch,
                interval: 1,
                amount: Amount::Operations(8192),
                begun: Arc::default(),
            };
            let measured = plan.run(&session).unwrap();
            assert_eq!((measured.ops, measured.errors), (8192, expected as u64));
            assert_eq!(measured.latencies.count() * u64::from(batch), 8192);
        }
    }
    session.close();
}

#[test]
fn a_full_pool_ends_a_run_early_with_a_result() {
    let server = loaded(8 << 20, DATA);
    // Updates of keys that were never loaded create keys.
    let data = DataSet {
        keys: 500_000,
        ..DATA
    };
    for in_flight in [1, 16] {
        let amount = Amount::Operations(1_000_000);
        let distribution = Distribution::Uniform;
        let mix = Mix::UpdateOnly;
        let options = YcsbOptions {
            mix,
            distribution,
            data,
            in_flight,
            amount,
            with_limit: false,
            ..OPTIONS
        };
        let result = run(&server.target(), &options, |_| {}).unwrap();
        assert!(
            result.errors > 0 && result.errors <= 16,
            "{}",
            result.errors
        );
        assert!(result.ops < 1_000_000);
    }
}

#[test]
fn a_run_without_a_server_fails_and_does_not_hang() {
    let folder = tempfile::tempdir().unwrap();
    let mut target = ThreadServer::start(CAPACITY).target();
    target.address = format!("shm:{}", folder.path().join("socket").display());
    for clients in [1, 3] {
        let result = run(&target, &YcsbOptions { clients, ..OPTIONS }, |_| {});
        assert!(matches!(result, Err(YcsbError::Connect(_))), "{result:?}");
    }
}

#[test]
fn options_that_contradict_each_other_are_refused() {
    let target = stonecast_bench::kv::Target {
        address: "shm:nowhere".to_owned(),
        server_pid: Some(1),
    };
    for options in [
        YcsbOptions {
            clients: 0,
            ..OPTIONS
        },
        YcsbOptions {
            in_flight: 0,
            ..OPTIONS
        },
        YcsbOptions {
            batch: 0,
            ..OPTIONS
        },
        YcsbOptions {
            batch: 2,
            in_flight: 2,
            ..OPTIONS
        },
        YcsbOptions {
            batch: 2,
            mix: Mix::A,
            ..OPTIONS
        },
    ] {
        assert!(matches!(
            run(&target, &options, |_| {}),
            Err(YcsbError::Options(_))
        ));
    }
}

/// The bare loop knows the formats by itself. If the loop read wrong places, or fewer bytes than a GET checks, the tags
/// would be wrong.
#[test]
fn the_bare_loop_reads_the_records_of_its_sequence_and_finds_their_tags_right() {
    for value_size in [0, 1, 100, 1000, 3000] {
        let data = DataSet {
            value_size,
            keys: 300,
            ..DATA
        };
        let server = loaded(CAPACITY, data);
        let session = Session::open(&server.target().address).unwrap();
        let store = session
            .store_memory(KeyName::of(1).as_bytes())
            .unwrap()
            .expect("the store's memory is mapped");
        let options = SequenceOptions {
            mix: Mix::C,
            distribution: Distribution::Uniform,
            keys: 300,
            length: 5000,
            seed: 3,
        };
        let limit = Limit::prepare(&store, &Sequence::new(options)).unwrap();
        let mut wrong = store.clone();
        wrong.tag_key ^= 1;
        for order in [Order::Dependent, Order::Overlapping] {
            let measured = limit.run(&store, order, 77, SHORT).unwrap();
            assert!(measured.ops >= 5000, "every key was read: {}", measured.ops);
            assert_eq!(measured.errors, 0, "values of {value_size} bytes");
            let measured = limit.run(&wrong, order, 0, SHORT).unwrap();
            assert_eq!(measured.errors, measured.ops);
        }
        session.close();
    }
}

#[test]
fn there_is_no_bare_loop_for_values_that_take_more_than_two_reads_or_for_absent_keys() {
    let data = DataSet {
        value_size: 5000,
        keys: 10,
        ..DATA
    };
    let server = loaded(CAPACITY, data);
    let result = run(&server.target(), &YcsbOptions { data, ..OPTIONS }, |_| {}).unwrap();
    assert_eq!((result.limit_ops_per_s, result.errors), (None, 0));
    let data = DataSet { keys: 20, ..data };
    let result = run(&server.target(), &YcsbOptions { data, ..OPTIONS }, |_| {});
    assert!(matches!(result, Err(YcsbError::Limit(_))), "{result:?}");
}
