//! The programs redis-cli and redis-benchmark of the distribution.

use std::process::{Command, Stdio};

use super::{need, run, succeed};
use crate::support::World;

#[test]
#[ignore = "needs redis-cli; see conformance"]
fn redis_cli_works() {
    if !need("conformance: redis-cli", &["redis-cli"]) {
        return;
    }
    let world = World::start();
    let port = world.gateway().resp_address().unwrap().port().to_string();
    let cli = |arguments: &[&str]| {
        succeed(
            Command::new("redis-cli")
                .args(["-p", &port])
                .args(arguments),
        )
    };
    assert_eq!(cli(&["PING"]), "PONG\n");
    assert_eq!(cli(&["SET", "a b", "c\"d"]), "OK\n");
    assert_eq!(cli(&["GET", "a b"]), "c\"d\n");
    assert_eq!(cli(&["-3", "--json", "GET", "nothing"]), "null\n");
    assert_eq!(cli(&["-r", "3", "INCR", "counter"]), "1\n2\n3\n");
    assert_eq!(cli(&["-3", "MGET", "counter", "nothing"]), "3\n\n");
    assert_eq!(
        cli(&["--csv", "MGET", "counter", "nothing"]),
        "\"3\",NULL\n"
    );
    let pairs: Vec<String> = (0..100)
        .flat_map(|number| [format!("key:{number}"), number.to_string()])
        .collect();
    let pairs: Vec<&str> = std::iter::once("MSET")
        .chain(pairs.iter().map(String::as_str))
        .collect();
    assert_eq!(cli(&pairs), "OK\n");
    assert_eq!(cli(&["--scan", "--pattern", "key:*"]).lines().count(), 100);
    assert!(cli(&["INFO", "server"]).contains("redis_version:"));
    assert!(cli(&["COMMAND", "DOCS", "get"]).contains("Returns the value of a key."));
    assert!(cli(&["-3", "COMMAND", "INFO", "get"]).contains("readonly"));
    let refused =
        run(Command::new("redis-cli").args(["-p", &port, "-e", "SET", "a", "b", "IFNE", "10"]))
            .unwrap();
    assert!(!refused.status.success());
    let words = [refused.stdout, refused.stderr].concat();
    assert!(
        String::from_utf8_lossy(&words)
            .contains("ERR SET option IFNE is not supported by this store")
    );
}

#[test]
#[ignore = "needs redis-cli; see conformance"]
fn redis_cli_loads_a_pipe_of_commands() {
    if !need("conformance: redis-cli --pipe", &["redis-cli"]) {
        return;
    }
    let world = World::start();
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("commands");
    let commands: Vec<u8> = (0..10_000)
        .flat_map(|n| crate::support::request(["SET", &format!("key:{n}"), &n.to_string()]))
        .collect();
    std::fs::write(&path, commands).unwrap();
    let port = world.gateway().resp_address().unwrap().port().to_string();
    let output = Command::new("redis-cli")
        .args(["-p", &port, "--pipe"])
        .stdin(Stdio::from(std::fs::File::open(path).unwrap()))
        .output()
        .unwrap();
    let printed = String::from_utf8_lossy(&output.stdout);
    assert!(printed.contains("errors: 0, replies: 10000"), "{printed}");
    assert_eq!(world.client().words("DBSIZE").integer(), 10_000);
}

#[test]
#[ignore = "needs redis-benchmark; see conformance"]
fn redis_benchmark_works() {
    if !need("conformance: redis-benchmark", &["redis-benchmark"]) {
        return;
    }
    let world = World::start();
    let port = world.gateway().resp_address().unwrap().port().to_string();
    for pipeline in ["1", "16"] {
        let arguments = [
            "-p",
            &port,
            "-t",
            "ping,set,get,incr,mset",
            "-n",
            "5000",
            "-c",
            "20",
            "-r",
            "1000",
            "-P",
            pipeline,
            "--csv",
        ];
        let printed = succeed(Command::new("redis-benchmark").args(arguments));
        let rows: Vec<(&str, f64)> = printed
            .lines()
            .skip(1)
            .map(|line| {
                let mut cells = line.split(',').map(|cell| cell.trim_matches('"'));
                (
                    cells.next().unwrap(),
                    cells.next().unwrap().parse().unwrap(),
                )
            })
            .collect();
        let names: Vec<&str> = rows.iter().map(|row| row.0).collect();
        assert_eq!(
            names,
            [
                "PING_INLINE",
                "PING_MBULK",
                "SET",
                "GET",
                "INCR",
                "MSET (10 keys)"
            ]
        );
        assert!(rows.iter().all(|row| row.1 > 0.0), "{printed}");
    }
    assert_eq!(world.client().words("CONFIG GET save").list().len(), 2);
}
