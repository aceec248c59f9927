//! Runs of each peer on little data.

use std::time::Duration;

use stonecast_bench::DataSet;
use stonecast_lab::peers::{Etcd, Lmdb, PeerError, RedisPersistence, RedisServer, View};
use stonecast_workload::{Distribution, Mix, Sequence, SequenceOptions};

const DATA: DataSet = DataSet {
    keys: 1000,
    value_size: 100,
    seed: 4,
};
const SHORT: Duration = Duration::from_millis(50);

fn sequence(mix: Mix, keys: u64) -> Sequence {
    Sequence::new(SequenceOptions {
        mix,
        distribution: Distribution::ScrambledZipfian,
        keys,
        length: 10_000,
        seed: 1,
    })
}

/// Starts redis-server; `None`, with a report, if redis-server is not installed.
fn redis(persistence: RedisPersistence, folder: &std::path::Path) -> Option<RedisServer> {
    match RedisServer::start(persistence, folder) {
        Ok(server) => Some(server),
        Err(PeerError::Missing { program }) => {
            println!("not run: {program} is not installed");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn redis_serves_the_loaded_records_under_every_mix_and_pipeline() {
    let folder = tempfile::tempdir().unwrap();
    for persistence in [RedisPersistence::None, RedisPersistence::AppendFsyncAlways] {
        let Some(server) = redis(persistence, folder.path()) else {
            return;
        };
        let mut connection = server.connect().unwrap();
        connection.load(&DATA).unwrap();
        for mix in Mix::ALL {
            for pipeline in [1, 16, 128] {
                let measured = connection
                    .measure(&sequence(mix, DATA.keys), &DATA, pipeline, SHORT)
                    .unwrap();
                assert_eq!(measured.errors, 0, "{persistence:?} {mix:?} {pipeline}");
                assert_eq!(measured.ops, measured.latencies.count() * pipeline as u64);
                assert!(measured.ops > 0 && measured.seconds >= SHORT.as_secs_f64());
            }
        }
    }
}

/// Needs the check of the reply: otherwise a store with useless answers would count as fast.
#[test]
fn a_key_that_redis_does_not_have_counts_as_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let Some(server) = redis(RedisPersistence::None, folder.path()) else {
        return;
    };
    let mut connection = server.connect().unwrap();
    let measured = connection
        .measure(&sequence(Mix::C, DATA.keys), &DATA, 4, SHORT)
        .unwrap();
    assert_eq!(measured.errors, measured.ops);
    connection
        .load(&DataSet {
            value_size: 99,
            ..DATA
        })
        .unwrap();
    let measured = connection
        .measure(&sequence(Mix::C, DATA.keys), &DATA, 4, SHORT)
        .unwrap();
    assert_eq!(measured.errors, measured.ops);
}

#[test]
fn the_redis_server_and_its_files_are_gone_when_its_value_is_dropped() {
    let folder = tempfile::tempdir().unwrap();
    let Some(server) = redis(RedisPersistence::AppendFsyncAlways, folder.path()) else {
        return;
    };
    let pid = server.pid();
    assert!(std::fs::read_dir(folder.path()).unwrap().next().is_some());
    drop(server);
    assert!(std::fs::read_dir(folder.path()).unwrap().next().is_none());
    assert!(!std::path::Path::new(&format!("/proc/{pid}")).exists());
}

#[test]
fn a_redis_server_that_cannot_start_gives_the_reason() {
    let folder = tempfile::tempdir().unwrap();
    // A Unix socket's path has at most 107 bytes.
    let deep = folder.path().join("x".repeat(150));
    std::fs::create_dir(&deep).unwrap();
    match RedisServer::start(RedisPersistence::None, &deep) {
        Err(PeerError::Missing { program }) => println!("not run: {program} is not installed"),
        Err(PeerError::NotStarted { reason, .. }) => assert!(!reason.is_empty()),
        Err(error) => panic!("{error}"),
        Ok(_) => panic!("it listens on a path that is too long"),
    }
}

#[test]
fn a_batch_of_a_replicated_redis_is_done_when_all_replicas_have_it() {
    let folder = tempfile::tempdir().unwrap();
    let started = RedisServer::start_replicated(RedisPersistence::None, 2, folder.path());
    let server = match started {
        Ok(server) => server,
        Err(PeerError::Missing { program }) => {
            return println!("not run: {program} is not installed");
        }
        Err(error) => panic!("{error}"),
    };
    let mut connection = server.connect().unwrap();
    connection.load(&DATA).unwrap();
    let sets = sequence(Mix::UpdateOnly, DATA.keys);
    connection.await_replicas(2);
    let measured = connection.measure(&sets, &DATA, 16, SHORT).unwrap();
    assert_eq!(measured.errors, 0);
    assert!(measured.ops >= 16);
}

#[test]
fn an_etcd_of_three_members_takes_puts_in_flight_on_one_connection() {
    let folder = tempfile::tempdir().unwrap();
    let etcd = match Etcd::start(3, folder.path()) {
        Ok(etcd) => etcd,
        Err(PeerError::Missing { program }) => {
            return println!("not run: {program} is not installed");
        }
        Err(error) => panic!("{error}"),
    };
    let puts = sequence(Mix::UpdateOnly, DATA.keys);
    let connection = etcd.connect().unwrap();
    let measured = connection.measure(&puts, &DATA, 16, SHORT).unwrap();
    assert!(measured.ops >= 16 && measured.seconds >= SHORT.as_secs_f64());
    drop((connection, etcd));
    assert!(std::fs::read_dir(folder.path()).unwrap().next().is_none());
}

#[test]
fn lmdb_serves_the_loaded_records_and_counts_missing_keys() {
    let folder = tempfile::tempdir().unwrap();
    let lmdb = Lmdb::load(DATA, folder.path()).unwrap();
    for view in [View::Snapshot, View::Latest] {
        let measured = lmdb
            .measure_gets(view, &sequence(Mix::C, DATA.keys), 3, SHORT)
            .unwrap();
        assert_eq!(measured.errors, 0);
        assert_eq!(measured.latencies.count(), measured.ops / 3);
        let measured = lmdb
            .measure_gets(view, &sequence(Mix::C, DATA.keys * 2), 3, SHORT)
            .unwrap();
        assert!(measured.errors > measured.ops / 10 && measured.errors < measured.ops);
    }
    drop(lmdb);
    assert!(std::fs::read_dir(folder.path()).unwrap().next().is_none());
}
