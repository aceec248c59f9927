//! Servers that are nodes of a cluster, as processes.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use stonecast::Connector;

use crate::support::{Place, command, run};

use super::Cluster;
use super::servers::{NODES, Servers, connect, read, write};

/// `cluster dev` in a folder, and the address of its cluster.
struct Dev {
    process: Child,
    url: String,
}

impl Dev {
    fn start(place: &Place, flags: &[&str]) -> Self {
        let mut command = command();
        command
            .args(["cluster", "dev", "--capacity", "32MiB"])
            .args(flags)
            .arg("--data")
            .arg(place.path().join("dev"))
            .stderr(Stdio::piped());
        let mut process = command.spawn().expect("it starts");
        let said = BufReader::new(process.stderr.take().expect("it is piped"));
        let mut lines = said.lines().map_while(Result::ok);
        let ready = lines.find(|line| line.contains("ready: nodes"));
        let ready = ready.expect("the nodes are ready");
        let (_, url) = ready.split_once(" at ").expect("an address");
        let url = url.to_owned();
        // The pipe stays open, so that the nodes can go on to speak.
        std::thread::spawn(move || lines.for_each(drop));
        Self { process, url }
    }

    fn on(&self, arguments: &[&str]) -> crate::support::Output {
        let mut command = command();
        command.args(arguments).args(["--connect", &self.url]);
        run(command, b"")
    }

    /// The nodes, each with whether it answers.
    fn asked(&self) -> Vec<(String, bool)> {
        let store = self.url.strip_prefix("cluster:").expect("a cluster");
        let mut command = command();
        command.args([
            "cluster",
            "status",
            "--ask",
            "--json",
            "--config-store",
            store,
        ]);
        let status = run(command, b"").json();
        let asked = status["asked"].as_array().expect("a list").iter();
        let of = |one: &serde_json::Value| {
            let name = one["name"].as_str().expect("a name").to_owned();
            (name, one["answers"].as_bool().expect("a fact"))
        };
        asked.map(of).collect()
    }

    /// Repeats a command until it succeeds: shards are placed after the start.
    fn until_done(&self, arguments: &[&str]) -> String {
        let end = Instant::now() + Duration::from_secs(20);
        loop {
            let output = self.on(arguments);
            if output.code == Some(0) {
                return output.text().to_owned();
            }
            assert!(Instant::now() < end, "{}", output.stderr);
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    fn end(mut self) {
        signal(self.process.id(), Signal::TERM);
        let status = self.process.wait().expect("it ends");
        assert!(status.success(), "{status}");
    }
}

impl Drop for Dev {
    fn drop(&mut self) {
        // A story that has failed leaves no process behind: the nodes end with this one.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn signal(process: u32, signal: Signal) {
    let pid = Pid::from_raw(process.cast_signed()).expect("a process");
    kill_process(pid, signal).expect("it runs");
}

/// The process of a node, from its ready file.
fn process_of(place: &Place, node: &str) -> u32 {
    let ready = place.path().join("dev").join(format!("{node}.ready"));
    let text = std::fs::read_to_string(ready).expect("the node is ready");
    text.trim().parse().expect("a number")
}

#[test]
fn a_cluster_of_processes_goes_on_without_one_of_them_and_comes_back_with_everything() {
    let place = Place::in_volatile_memory();
    let dev = Dev::start(&place, &["--nodes", "3"]);
    dev.until_done(&["put", "greeting", "hello"]);
    assert_eq!(dev.on(&["get", "greeting"]).text(), "hello");
    let asked = dev.asked();
    assert!(asked.iter().all(|(_, answers)| *answers), "{asked:?}");
    signal(process_of(&place, "node-2"), Signal::KILL);
    let asked = dev.asked();
    let away: Vec<_> = asked.iter().filter(|(_, answers)| !answers).collect();
    assert_eq!(away, [&("node-2".to_owned(), false)]);
    dev.until_done(&["put", "greeting", "again"]);
    the_nodes_tell_of_their_copies(&dev);
    dev.until_done(&["put", "other", "one"]);
    let long = "long".repeat(30_000);
    dev.until_done(&["put", "large", &long]);
    assert_eq!(dev.on(&["get", "greeting"]).text(), "again");
    dev.end();
    let dev = Dev::start(&place, &[]);
    assert_eq!(dev.until_done(&["get", "greeting"]), "again");
    assert_eq!(dev.until_done(&["get", "other"]), "one");
    assert_eq!(dev.until_done(&["get", "large"]), long);
    dev.end();
}

/// The counts of the nodes, in `stat` and in `cluster status --ask`.
fn the_nodes_tell_of_their_copies(dev: &Dev) {
    let shown = dev.on(&["stat", "--json"]).json();
    let nodes = shown["nodes"].as_object().expect("nodes").values();
    let leads = nodes
        .clone()
        .map(|node| node["copying"]["leads"].as_u64().expect("a count"));
    // The shards of the dead node may be on their way to an heir.
    assert!((1..=32).contains(&leads.sum::<u64>()), "{shown}");
    for node in nodes {
        let written = node["write_amplification"].as_f64().expect("a ratio");
        assert!((1.0..10.0).contains(&written), "{shown}");
    }
    let store = dev.url.strip_prefix("cluster:").expect("a cluster");
    let mut status = command();
    status.args(["cluster", "status", "--ask", "--config-store", store]);
    let text = run(status, b"").text().to_owned();
    for words in ["node-1 leads", "more copies", "node-2 does not answer"] {
        assert!(text.contains(words), "{words} in {text}");
    }
}

/// A shard has one copy, so the death of a node leaves some shards without any.
#[test]
fn shards_without_a_surviving_copy_are_named_and_the_others_go_on() {
    let place = Place::in_volatile_memory();
    let dev = Dev::start(&place, &["--nodes", "2", "--replicas", "1"]);
    let keys: Vec<String> = (0..24).map(|n| format!("key/{n}")).collect();
    dev.until_done(&["put", &keys[0], "here"]);
    // The node that registered first has all shards, and gives the other one its share.
    let store = dev.url.strip_prefix("cluster:").expect("a cluster");
    let on_store = |words: &[&str]| {
        let mut command = command();
        command.arg("cluster").args(words);
        command.args(["--config-store", store]);
        run(command, b"")
    };
    let shown = on_store(&["status", "--json"]).json()["nodes"].clone();
    let mut shown = shown.as_array().expect("a list").iter();
    let spare = shown.find(|node| node["leads"] == 0);
    if let Some(spare) = spare {
        on_store(&["add", spare["name"].as_str().expect("a name")]).text();
    }
    for key in &keys {
        dev.until_done(&["put", key, "here"]);
    }
    signal(process_of(&place, "node-2"), Signal::KILL);
    let status = |flags: &[&str]| on_store(&[&["status", "--ask"], flags].concat());
    let text = status(&[]).text().replace("\n  ", " ");
    assert!(
        text.contains("no node with a copy in sync answers"),
        "{text}"
    );
    assert!(
        text.contains("Start node-2 with the pool that it had"),
        "{text}"
    );
    let placements = status(&["--json"]).json()["placements"].clone();
    for placement in placements.as_array().expect("a list") {
        assert_eq!(
            placement["served"],
            placement["primary"] == "node-1",
            "{placement}"
        );
    }
    let client = Connector::new(&dev.url)
        .expect("an address")
        .operation_timeout(Some(Duration::from_secs(3)))
        .connect_blocking()
        .expect("a node serves");
    let (mut read, mut refused) = (0, None);
    for key in &keys {
        match client.get(key) {
            Ok(_) => read += 1,
            Err(error) => refused = Some(error),
        }
        // Each key without a copy takes the whole time of an operation.
        if read > 0 && refused.is_some() {
            break;
        }
    }
    let refused = refused.expect("one node of two had some of the keys");
    assert!(
        read > 0 && refused.to_string().contains("is not served"),
        "{refused}"
    );
    drop(client);
    dev.end();
    let dev = Dev::start(&place, &[]);
    for key in &keys {
        assert_eq!(dev.until_done(&["get", key]), "here");
    }
    dev.end();
}

/// Needs a start that waits for nodes alone: a client that makes no call keeps the log of its dead server mapped.
/// Prints the time without writes, with the default policy.
#[test]
fn a_killed_node_starts_again_while_its_clients_make_no_call() {
    let mut servers = Servers::start(None);
    let (url, key) = (servers.url(), |number: u32| format!("idle/{number}"));
    let (idle, client) = (connect(&url), connect(&url));
    (0..32).for_each(|number| write(&idle, &key(number), 1));
    let mut last = 1;
    for node in NODES {
        servers.wait_until_complete();
        last += 1;
        let killed = Instant::now();
        servers.kill(node);
        (0..32).for_each(|number| write(&client, &key(number), last));
        let time = killed.elapsed();
        println!("{node} was killed, and {time:?} later every shard had taken a write");
        servers.start_again(node);
    }
    servers.wait_until_complete();
    for number in 0..32 {
        assert_eq!(read(&idle, &key(number)), last.to_string().as_bytes());
    }
}

fn serve(cluster: &Cluster, data: &Path, arguments: &[&str]) -> crate::support::Output {
    let mut command = command();
    command
        .args(["serve", "--durability", "process", "--capacity", "32MiB"])
        .args(arguments)
        .arg("--data")
        .arg(data)
        .current_dir(cluster.place.path());
    run(command, b"")
}

#[test]
fn a_server_that_cannot_become_a_node_says_what_to_do_and_leaves_nothing() {
    let cluster = Cluster::created(&[]);
    let data = cluster.place.path().join("pool");
    let node = ["--cluster", Cluster::ADDRESS, "--node", "a"];
    let with = |more: &[&str]| serve(&cluster, &data, &[&node[..], more].concat());
    let nameless = serve(&cluster, &data, &node[..2]);
    assert!(nameless.refusal(1).contains("a cluster and a name"));
    assert!(
        with(&["--clients", "publishing"])
            .refusal(1)
            .contains("node of a cluster")
    );
    assert!(
        with(&["--accept-copy"])
            .refusal(1)
            .contains("begin with a new pool")
    );
    let nowhere = ["--cluster", "file:./nowhere", "--node", "a"];
    assert!(
        serve(&cluster, &data, &nowhere)
            .refusal(1)
            .contains("nowhere")
    );
    assert!(!data.exists());
    let few = command_dev(&cluster, &["--nodes", "2", "--replicas", "3"]);
    assert!(few.refusal(2).contains("--nodes 3"));
}

fn command_dev(cluster: &Cluster, flags: &[&str]) -> crate::support::Output {
    let mut command = command();
    command
        .args(["cluster", "dev"])
        .args(flags)
        .current_dir(cluster.place.path());
    run(command, b"")
}
