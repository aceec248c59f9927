//! Every acknowledged write is present after a kill.

use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use stonecast_media::Durability;

use crate::support::{Client, Process, Reply, not_run, request};

/// The number of commands that a loader sends before it reads the first reply.
const PIPELINE: u64 = 16;
const LOADERS: u64 = 4;

/// Stores values under new keys until the connection ends, and counts the acknowledged ones.
fn load(address: std::net::SocketAddr, loader: u64, round: u64, acknowledged: &AtomicU64) -> u64 {
    let mut client = Client::connect(address);
    let mut done = 0;
    loop {
        let commands = (done..done + PIPELINE).map(|n| {
            request([
                "SET".to_owned(),
                key(round, loader, n),
                value(round, loader, n),
            ])
        });
        let bytes: Vec<u8> = commands.flatten().collect();
        if std::io::Write::write_all(&mut client.socket, &bytes).is_err() {
            return done;
        }
        for _ in 0..PIPELINE {
            match client.try_reply() {
                Ok(Some(Reply::Simple(ok))) if ok == "OK" => {
                    done += 1;
                    acknowledged.fetch_add(1, Ordering::Relaxed);
                }
                Ok(Some(other)) => panic!("{other:?}"),
                Ok(None) | Err(_) => return done,
            }
        }
    }
}

fn key(round: u64, loader: u64, n: u64) -> String {
    format!("key:{round}:{loader}:{n}")
}

fn value(round: u64, loader: u64, n: u64) -> String {
    format!("{round}:{loader}:{n}:{}", "x".repeat((n % 200) as usize))
}

/// Needs each OK to come after the store's answer, and the answer after the sync.
#[test]
fn every_acknowledged_set_is_present_after_a_kill_in_the_middle_of_a_benchmark() {
    let directory = tempfile::tempdir().unwrap();
    let mut before: Vec<(u64, u64, u64)> = Vec::new();
    for round in 0..3 {
        let process = Process::start(directory.path(), Durability::Power);
        check(&mut Client::connect(process.address), &before);
        let benchmark = Command::new("redis-benchmark")
            .args([
                "-p",
                &process.address.port().to_string(),
                "-t",
                "set",
                "-c",
                "8",
                "-P",
                "16",
                "-r",
                "10000",
                "-n",
                "100000000",
                "-q",
            ])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        let acknowledged = AtomicU64::new(0);
        let address = process.address;
        let counts: Vec<u64> = std::thread::scope(|scope| {
            let loaders: Vec<_> = (0..LOADERS)
                .map(|loader| {
                    scope.spawn({
                        let acknowledged = &acknowledged;
                        move || load(address, loader, round, acknowledged)
                    })
                })
                .collect();
            let deadline = Instant::now() + Duration::from_secs(60);
            while acknowledged.load(Ordering::Relaxed) < 2_000 + 777 * round
                && Instant::now() < deadline
            {
                std::thread::sleep(Duration::from_micros(100));
            }
            process.kill();
            loaders
                .into_iter()
                .map(|loader| loader.join().unwrap())
                .collect()
        });
        match benchmark {
            Ok(mut benchmark) => {
                // The benchmark may have ended with its server.
                let _ = benchmark.kill();
                benchmark.wait().unwrap();
            }
            Err(_) if round == 0 => not_run(
                "crash: the load of redis-benchmark beside that of the test",
                "redis-benchmark is not installed",
            ),
            Err(_) => {}
        }
        let total: u64 = counts.iter().sum();
        println!("round {round}: {total} acknowledged before the kill");
        assert!(total >= 2_000, "{total}");
        before.extend(
            counts
                .iter()
                .zip(0..)
                .map(|(count, loader)| (round, loader, *count)),
        );
    }
    let process = Process::start(directory.path(), Durability::Power);
    check(&mut Client::connect(process.address), &before);
}

/// Checks that every acknowledged value is present, and no value that was never sent.
fn check(client: &mut Client, acknowledged: &[(u64, u64, u64)]) {
    for &(round, loader, count) in acknowledged {
        for first in (0..count + PIPELINE).step_by(1000) {
            let numbers: Vec<u64> = (first..(first + 1000).min(count + PIPELINE)).collect();
            let keys = numbers.iter().map(|&n| key(round, loader, n));
            let reply = client.call(std::iter::once("MGET".to_owned()).chain(keys));
            for (&n, found) in numbers.iter().zip(reply.list()) {
                let expected = Reply::bulk(value(round, loader, n));
                let is_lost = *found == Reply::NoBulk;
                assert!(
                    *found == expected || is_lost && n >= count,
                    "round {round}, loader {loader}, set {n} of {count}: {found:?}"
                );
            }
        }
    }
}
