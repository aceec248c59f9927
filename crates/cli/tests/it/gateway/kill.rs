//! kill -9 in the middle of redis-benchmark: every SET that the server acknowledged is present.

use std::collections::HashMap;
use std::process::{Command, Stdio};
use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};

use super::address;
use super::proxy::{Proxy, Set};
use crate::support::{Place, Reply, RespClient, Server, not_run};

const ROUNDS: u64 = 3;
/// The number of acknowledged SETs after which the first round is killed. Each later round has some more, so that the
/// kill comes at another point.
const SETS_MIN: u64 = 5_000;
/// The time limit of a round, far longer than a round takes.
const PATIENCE: Duration = Duration::from_secs(60);
/// The number of keys that one command reads.
const PIECE: usize = 500;

/// Needs each OK to come after the store's answer, and that answer to come after the sync.
#[test]
fn every_set_that_was_acknowledged_to_redis_benchmark_is_present_after_kill_9() {
    if Command::new("redis-benchmark")
        .arg("--version")
        .stdout(Stdio::null())
        .status()
        .is_err()
    {
        return not_run(
            "gateway: kill -9 under redis-benchmark",
            "redis-benchmark is not installed",
        );
    }
    let place = Place::on_disk();
    let mut acknowledged: Vec<Set> = Vec::new();
    for round in 0..ROUNDS {
        let mut server = Server::start(
            &place.pool(),
            ["--resp", "127.0.0.1:0", "--durability", "power"],
        );
        let resp = address(&mut server, "redis://");
        check(resp, &acknowledged);
        let proxy = Proxy::start(resp);
        let port = proxy.address.port().to_string();
        let mut benchmark = Command::new("redis-benchmark")
            .args([
                "-p",
                &port,
                "-c",
                "8",
                "-P",
                "16",
                "-r",
                "1000000000",
                "-n",
                "100000000",
                "-q",
            ])
            .args([
                "SET",
                &format!("{round}:__rand_int__:__rand_int__"),
                "value:__rand_int__",
            ])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("redis-benchmark is installed");
        let start = Instant::now();
        while proxy.count.load(Ordering::Relaxed) < SETS_MIN + 777 * round {
            assert!(
                start.elapsed() < PATIENCE,
                "redis-benchmark stores something"
            );
            thread::sleep(Duration::from_micros(100));
        }
        server.kill();
        // The benchmark may have ended by itself, without its server.
        let _ = benchmark.kill();
        benchmark.wait().expect("a child can be waited for");
        acknowledged.extend(proxy.acknowledged());
    }
    let mut server = Server::start(&place.pool(), ["--resp", "127.0.0.1:0"]);
    check(address(&mut server, "redis://"), &acknowledged);
    println!(
        "{} acknowledged SETs are there after {ROUNDS} kills",
        acknowledged.len()
    );
    server.stop();
}

/// Checks that every key has the value that was acknowledged. The benchmark draws from 10^18 keys, so no key is drawn
/// twice.
fn check(resp: std::net::SocketAddr, acknowledged: &[Set]) {
    let values: HashMap<&[u8], &[u8]> = acknowledged
        .iter()
        .map(|(key, value)| (key.as_slice(), value.as_slice()))
        .collect();
    let mut client = RespClient::connect(resp);
    let keys: Vec<&[u8]> = values.keys().copied().collect();
    for piece in keys.chunks(PIECE) {
        let command: Vec<&[u8]> = std::iter::once(&b"MGET"[..])
            .chain(piece.iter().copied())
            .collect();
        assert!(client.send(&[command]));
        let Some(Reply::List(found)) = client.reply() else {
            panic!("MGET returns a list")
        };
        for (key, found) in piece.iter().zip(found) {
            let Reply::Bulk(Some(found)) = found else {
                panic!("{} was acknowledged and is lost", key.escape_ascii())
            };
            assert_eq!(found, values[key], "{}", key.escape_ascii());
        }
    }
}
