//! The commands that reach a server, on a cluster.

use crate::stand_ins::{self, Cluster, SHARDS};
use crate::support::{Output, Place, command, run};

fn on(url: &str, arguments: &[&str], input: &[u8]) -> Output {
    let mut command = command();
    command.args(arguments).args(["--connect", url]);
    run(command, input)
}

#[test]
fn the_commands_on_keys_do_on_a_cluster_what_they_do_on_a_server() {
    let mut cluster = Cluster::start();
    let url = cluster.url();
    let version = on(&url, &["put", "greeting", "hello", "--json"], b"").json();
    assert!(version["version"].is_u64(), "{version}");
    assert_eq!(on(&url, &["get", "greeting"], b"").text(), "hello");
    let refused = on(&url, &["put", "greeting", "hi", "--if-absent"], b"");
    refused.refusal(6);
    on(&url, &["delete", "greeting"], b"").text();
    on(&url, &["get", "greeting"], b"").refusal(3);
    on(&url, &["put", "greeting", "hello", "--expire", "1h"], b"").text();
    let found = on(&url, &["get", "greeting", "--json"], b"").json();
    assert!(found["expires"].is_u64(), "{found}");
    on(&url, &["delete", "greeting"], b"").text();
    let lines: Vec<String> = (0..100)
        .map(|number| format!("{{\"key\":\"key {number}\",\"value\":\"value\"}}\n"))
        .collect();
    on(&url, &["import"], lines.concat().as_bytes()).text();
    assert_eq!(
        sorted(on(&url, &["export"], b"").text()),
        sorted(&lines.concat())
    );
    assert_eq!(on(&url, &["ls", "key 1"], b"").text().lines().count(), 11);
    (0..SHARDS).for_each(|shard| cluster.hand_over(shard));
    on(&url, &["put", "greeting", "hello"], b"").text();
    assert_eq!(on(&url, &["get", "greeting"], b"").text(), "hello");
}

fn sorted(text: &str) -> Vec<&str> {
    let mut lines: Vec<_> = text.lines().collect();
    lines.sort_unstable();
    lines
}

/// Runs the commands of the page, on two clusters of this test.
#[test]
fn the_keys_of_a_cluster_go_into_another_one_as_the_page_says() {
    let (cluster, other) = (Cluster::start(), Cluster::start());
    let place = Place::in_volatile_memory();
    let long = "long".repeat(25_000);
    on(&cluster.url(), &["put", "long"], long.as_bytes()).text();
    on(
        &cluster.url(),
        &["put", "brief", "b", "--expire", "1h"],
        b"",
    )
    .text();
    for number in 0..50 {
        on(
            &cluster.url(),
            &["put", &format!("key {number}"), "value"],
            b"",
        )
        .text();
    }
    let file = place.path().join("all.backup");
    let backup = ["backup", file.to_str().expect("a path of text")];
    let refused = on(&cluster.url(), &backup, b"");
    let message = refused.refusal(1);
    assert!(message.contains("`stonecast export`"), "{message}");
    assert!(!file.exists());
    let page = include_str!("../../../../../docs/cluster.md");
    let (_, rest) = page
        .split_once("```sh keys-of-a-cluster\n")
        .expect("the page has it");
    let (script, _) = rest.split_once("```").expect("a block ends");
    for line in script.lines() {
        let line = line.replace("cluster:file:./cluster", &cluster.url());
        let line = line.replace("cluster:file:./new-cluster", &other.url());
        let mut command = command();
        command
            .args(line.split(' ').skip(1))
            .current_dir(place.path());
        run(command, b"").text();
    }
    let [all, restored] = [&cluster, &other].map(|it| on(&it.url(), &["export"], b""));
    assert_eq!(all.text().lines().count(), 52);
    assert!(all.text().contains("\"expires\":"));
    assert_eq!(sorted(restored.text()), sorted(all.text()));
}

#[test]
fn stat_shows_each_node_that_leads() {
    let cluster = Cluster::start();
    on(&cluster.url(), &["put", "greeting", "hello"], b"").text();
    let shown = on(&cluster.url(), &["stat", "--json"], b"").json();
    let keys = ["a", "b", "c"].map(|node| shown["nodes"][node]["keys"].as_u64());
    assert_eq!(keys.into_iter().flatten().sum::<u64>(), 1, "{shown}");
    let shown = on(&cluster.url(), &["stat"], b"");
    for node in ["node a", "node b", "node c"] {
        assert!(shown.text().contains(node), "{}", shown.text());
    }
    let refused = on(&cluster.url(), &["stat", "--watch"], b"");
    assert!(refused.refusal(2).contains("one server"));
}

#[test]
fn the_status_says_whether_the_cluster_or_its_nodes_are_missing() {
    let mut cluster = Cluster::start();
    cluster.end();
    let away = on(&cluster.url(), &["get", "greeting"], b"");
    assert!(away.refusal(4).contains("/socket"), "{}", away.stderr);
    stand_ins::store(&cluster.store(), b"nothing of ours");
    let foreign = on(&cluster.url(), &["get", "greeting"], b"");
    foreign.refusal(5);
    let place = Place::in_volatile_memory();
    let url = format!("cluster:{}", stand_ins::store_in(place.path()));
    let none = on(&url, &["get", "greeting"], b"");
    assert!(
        none.refusal(4).contains("create the cluster"),
        "{}",
        none.stderr
    );
    stand_ins::store(
        &url["cluster:".len()..],
        &stand_ins::without_nodes().encode(),
    );
    let empty = on(&url, &["get", "greeting"], b"");
    assert!(
        empty.refusal(1).contains("cluster status"),
        "{}",
        empty.stderr
    );
    on("cluster:nowhere", &["get", "greeting"], b"").refusal(2);
}

#[test]
fn no_server_listens_at_the_address_of_a_cluster() {
    let place = Place::in_volatile_memory();
    let mut serve = command();
    serve.args(["serve", "--listen", "cluster:file:./cluster"]);
    serve.arg("--data").arg(place.pool());
    assert!(run(serve, b"").refusal(2).contains("of a cluster"));
    assert!(!place.pool().exists());
}
