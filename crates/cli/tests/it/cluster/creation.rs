//! The first configuration: one wins, and the others change nothing.

use std::fs;
use std::net::TcpListener;
use std::process::Stdio;
use std::time::{Duration, Instant};

use crate::support::{command, run, stonecast};

use super::Cluster;

#[test]
fn a_cluster_is_created_with_the_numbers_that_were_asked_for() {
    let cluster = Cluster::absent();
    let flags = [
        "--replicas=5",
        "--shards=7",
        "--min-copies=3",
        "--lease=20ms",
        "--remove-after=1s",
        "--json",
    ];
    let printed = cluster.run("create", &flags).json();
    let (_, created) = cluster.read();
    assert_eq!(printed["cluster"], created.nonce.to_string());
    assert_eq!((&printed["epoch"], created.epoch.0), (&1.into(), 1));
    let policy = &created.policy;
    assert_eq!(
        (policy.replicas, policy.shards, policy.min_copies),
        (5, 7, 3)
    );
    assert_eq!(policy.lease.duration_ns, 20_000_000);
    assert_eq!(policy.remove_after_ns, 1_000_000_000);
    assert!(created.nodes.is_empty() && created.groups.is_empty());
}

#[test]
fn defaults_are_three_copies_of_32_shards_and_writes_need_two() {
    let (_, created) = Cluster::created(&[]).read();
    let policy = created.policy;
    assert_eq!(
        (policy.replicas, policy.shards, policy.min_copies),
        (3, 32, 2)
    );
    let (_, created) = Cluster::created(&["--replicas", "2"]).read();
    assert_eq!(created.policy.min_copies, 1);
}

#[test]
fn an_existing_cluster_is_refused_by_name_and_stays() {
    let cluster = Cluster::created(&[]);
    let before = cluster.read();
    let refused = cluster.run("create", &["--replicas", "1", "--json"]);
    let refused = refused.json_failure(6, "conflict");
    assert_eq!(refused["cluster"], before.1.nonce.to_string());
    let message = refused["message"].as_str().expect("words");
    assert!(
        message.contains(Cluster::ADDRESS) && message.contains(&before.1.nonce.to_string()),
        "{message}"
    );
    assert_eq!(cluster.read(), before);
}

/// Needs the compare-and-set: a look at the store before a write would let both win.
#[test]
fn of_creations_at_once_one_wins() {
    for _ in 0..5 {
        let cluster = Cluster::absent();
        let mut creations = Vec::new();
        for _ in 0..4 {
            let mut create = cluster.command("create", &["--json"]);
            create.stdout(Stdio::piped()).stderr(Stdio::piped());
            creations.push(create.spawn().expect("the binary starts"));
        }
        let outputs = creations
            .into_iter()
            .map(|creation| creation.wait_with_output().expect("it ends"));
        let (won, lost): (Vec<_>, Vec<_>) = outputs.partition(|output| output.status.success());
        assert_eq!((won.len(), lost.len()), (1, 3));
        let printed: serde_json::Value = serde_json::from_slice(&won[0].stdout).expect("JSON");
        assert_eq!(printed["cluster"], cluster.read().1.nonce.to_string());
        assert!(lost.iter().all(|output| output.status.code() == Some(6)));
    }
}

#[test]
fn impossible_numbers_are_wrong_usage_and_say_what_is_missing() {
    let cluster = Cluster::absent();
    for (flags, part) in [
        (&["--replicas", "0"][..], "0 is not in 1..=5"),
        (&["--replicas", "6"], "6 is not in 1..=5"),
        (&["--shards", "0"], "0 is not in 1..=64"),
        (&["--shards", "65"], "65 is not in 1..=64"),
        (
            &["--min-copies", "4"],
            "--min-copies 4 needs 4 copies, and there are 3 of each shard: ask for --replicas 4 or more",
        ),
        (&["--min-copies", "0"], "it has to be 1 to 3"),
        (
            &["--lease", "600ms"],
            "--remove-after is shorter than --lease",
        ),
        (
            &["--lease", "2min", "--remove-after", "3min"],
            "it has to be 1000 to 60000000000",
        ),
        (&["--lease", "100"], "a time is a number with ms"),
    ] {
        let output = cluster.run("create", flags);
        assert!(
            output.code == Some(2) && output.stderr.contains(part),
            "{flags:?}: {}",
            output.stderr
        );
    }
    assert!(
        !cluster.place.path().join("cluster").exists(),
        "nothing is made"
    );
}

#[test]
fn an_address_that_names_no_store_is_wrong_usage() {
    for address in ["./cluster", "etcd://10.0.0.1/blue", "http://x:1/y"] {
        for name in ["create", "status"] {
            let mut asked = command();
            asked.args(["cluster", name, "--config-store", address]);
            let refused = run(asked, b"");
            let message = refused.refusal(2);
            assert!(message.contains("use file:PATH, or etcd://"), "{message}");
        }
    }
}

/// Needs the bound of an answer: an etcd that is stopped accepts connections, and says nothing.
#[test]
fn an_etcd_that_is_away_or_silent_is_an_error_with_its_name_within_seconds() {
    let silent = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let closed = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let port = |listener: &TcpListener| listener.local_addr().expect("bound").port();
    let ports = [port(&silent), port(&closed)];
    drop(closed);
    for (port, part) in ports.into_iter().zip(["did not answer", "is not reached"]) {
        let address = format!("etcd://127.0.0.1:{port}/stonecast");
        for name in ["create", "status"] {
            let mut asked = command();
            asked.args(["cluster", name, "--config-store", &address]);
            let begin = Instant::now();
            let refused = run(asked, b"");
            let message = refused.refusal(1);
            assert!(
                message.contains(part) && message.contains(&address),
                "{name}: {message}"
            );
            assert!(begin.elapsed() < Duration::from_secs(30), "{name}");
        }
    }
}

#[test]
fn a_damaged_file_is_named_with_its_offset_and_is_not_overwritten() {
    let cluster = Cluster::created(&[]);
    let file = cluster
        .place
        .path()
        .join("cluster/revision-00000000000000000001");
    let mut bytes = fs::read(&file).expect("it was created");
    let last = bytes.len() - 5;
    bytes[last] ^= 0x10;
    fs::write(&file, &bytes).expect("it can be written");
    for name in ["status", "create"] {
        let refused = cluster.run(name, &[]);
        let message = refused.refusal(1);
        assert!(
            message.contains("revision-00000000000000000001 is damaged: at byte"),
            "{message}"
        );
    }
    assert_eq!(fs::read(&file).expect("it is there"), bytes);
}

#[test]
fn a_value_of_another_program_is_refused_with_what_to_do() {
    let cluster = Cluster::created(&[]);
    cluster.write(b"stonecast-configuration 99 tag\nunknown");
    for name in ["status", "create"] {
        let refused = cluster.run(name, &[]);
        let message = refused.refusal(1);
        assert!(
            message.contains("has format 99")
                && message.contains("use the program that wrote it, or a newer one"),
            "{message}"
        );
    }
    let cluster = Cluster::created(&[]);
    cluster.write(b"something else\n");
    let refused = cluster.run("status", &["--json"]);
    let refused = refused.json_failure(5, "corrupt");
    let message = refused["message"].as_str().expect("words");
    assert!(
        message.contains("is no configuration of a cluster"),
        "{message}"
    );
}

#[test]
fn the_store_is_a_setting_of_all_commands() {
    let cluster = Cluster::absent();
    let address = cluster.address();
    let run_with = |name: &str| {
        let mut asked = command();
        asked
            .args(["cluster", name])
            .env("STONECAST_CONFIG_STORE", &address);
        run(asked, b"")
    };
    run_with("create").text();
    assert!(run_with("status").text().contains(&address));
    let file = cluster.place.path().join("stonecast.toml");
    fs::write(&file, format!("config-store = '{address}'\n")).expect("room for a line");
    let mut asked = command();
    asked.args(["cluster", "status", "--config"]).arg(&file);
    assert!(run(asked, b"").text().contains(&address));
    let refused = stonecast(["cluster", "status"]);
    assert!(refused.refusal(2).contains("STONECAST_CONFIG_STORE"));
}
