//! Servers that are nodes of a cluster, as processes.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rand::RngExt as _;
use rustix::process::{Pid, Signal, kill_process};
use stonecast::Connector;
use stonecast::blocking::Client;

use crate::support::{Place, command, run};

use super::Cluster;

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

/// Servers of a cluster, each a process of its own that may be killed.
struct Servers {
    cluster: Cluster,
    processes: BTreeMap<&'static str, Child>,
}

const NODES: [&str; 3] = ["a", "b", "c"];

impl Servers {
    fn start() -> Self {
        let mut servers = Self {
            cluster: Cluster::created(&["--shards", "6"]),
            processes: BTreeMap::new(),
        };
        NODES.iter().for_each(|node| servers.start_one(node));
        servers
    }

    fn start_one(&mut self, node: &'static str) {
        let mut command = command();
        command
            .args(["serve", "--durability", "process", "--capacity", "64MiB"])
            .args(["--cluster", &self.cluster.address(), "--node", node])
            .arg("--data")
            .arg(self.cluster.place.path().join(node))
            .stderr(Stdio::null());
        let process = command.spawn().expect("it starts");
        self.processes.insert(node, process);
    }

    fn kill(&mut self, node: &'static str) {
        let mut process = self.processes.remove(node).expect("it runs");
        process.kill().expect("it runs");
        process.wait().expect("it ends");
    }

    /// The process of a node stands still for a while.
    fn stop(&self, node: &'static str, pause: Duration) {
        let process = self.processes[node].id();
        signal(process, Signal::STOP);
        std::thread::sleep(pause);
        signal(process, Signal::CONT);
    }

    fn url(&self) -> String {
        format!("cluster:{}", self.cluster.address())
    }
}

/// A client of the cluster, whose shards may be placed meanwhile.
fn connect(url: &str) -> Client {
    let end = Instant::now() + Duration::from_secs(30);
    loop {
        let connector = Connector::new(url).expect("an address");
        let limit = Some(Duration::from_secs(20));
        match connector.operation_timeout(limit).connect_blocking() {
            Ok(client) => return client,
            Err(error) => assert!(Instant::now() < end, "{error}"),
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}

impl Drop for Servers {
    fn drop(&mut self) {
        for process in self.processes.values_mut() {
            let _ = process.kill();
            let _ = process.wait();
        }
    }
}

/// Writes, and repeats the write until it is done: a shard with too few copies takes none.
fn write(client: &Client, key: &str, turn: u64) {
    let end = Instant::now() + Duration::from_secs(60);
    while let Err(error) = client.put(key, turn.to_string()) {
        assert!(Instant::now() < end, "{key}: {error}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// The value of a key that was stored.
fn read(client: &Client, key: &str) -> Vec<u8> {
    let end = Instant::now() + Duration::from_secs(60);
    loop {
        match client.get(key) {
            Ok(found) => return found.expect("it was stored").value,
            Err(error) => assert!(Instant::now() < end, "{key}: {error}"),
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// A client that counts up under keys of its own, until it is told to stop. Returns the count under each key that was acknowledged last.
fn count_up(url: &str, writer: u32, stops: &AtomicBool) -> Vec<u64> {
    let client = connect(url);
    let mut acknowledged = vec![0; 16];
    let mut longest = Duration::ZERO;
    for turn in 1_u64.. {
        if stops.load(Ordering::Relaxed) {
            break;
        }
        for (number, known) in acknowledged.iter_mut().enumerate() {
            let begun = Instant::now();
            write(&client, &format!("{writer}/{number}"), turn);
            longest = longest.max(begun.elapsed());
            *known = turn;
        }
        let key = format!("{writer}/{}", turn % 16);
        let found = read(&client, &key);
        assert_eq!(found, turn.to_string().as_bytes(), "{key}");
    }
    println!("writer {writer}: the longest write took {longest:?}");
    acknowledged
}

/// The number of times that a node is killed or stopped: `NODE_KILLS`, or a few.
fn kills() -> u32 {
    let asked = std::env::var("NODE_KILLS").ok();
    asked.map_or(4, |asked| asked.parse().expect("a number"))
}

#[test]
fn what_was_acknowledged_is_there_whichever_node_is_killed_or_stands_still() {
    let mut servers = Servers::start();
    let stops = AtomicBool::new(false);
    let seed: u64 = std::env::var("NODE_SEED").map_or(std::process::id().into(), |seed| {
        seed.parse().expect("a number")
    });
    println!("NODE_SEED={seed}");
    let mut random = stonecast_base::random_from_seed(seed);
    let url = servers.url();
    let counts = std::thread::scope(|scope| {
        let writer = |writer| {
            let (url, stops) = (&url, &stops);
            scope.spawn(move || count_up(url, writer, stops))
        };
        let writers: Vec<_> = (0..2).map(writer).collect();
        for _ in 0..kills() {
            std::thread::sleep(Duration::from_millis(random.random_range(300..1500)));
            let node = NODES[random.random_range(0..3)];
            let pause = Duration::from_millis(random.random_range(0..1200));
            // A third of the nodes stand still for longer than their leases, and go on.
            let stands_still = random.random_range(0..3) == 0;
            println!(
                "{node} is {}",
                if stands_still { "stopped" } else { "killed" }
            );
            if stands_still {
                servers.stop(node, pause);
            } else {
                servers.kill(node);
                std::thread::sleep(pause);
                servers.start_one(node);
            }
        }
        std::thread::sleep(Duration::from_secs(1));
        stops.store(true, Ordering::Relaxed);
        let counts = writers
            .into_iter()
            .map(|writer| writer.join().expect("every write is done"));
        counts.collect::<Vec<_>>()
    });
    let client = connect(&url);
    for (writer, counts) in counts.iter().enumerate() {
        println!("writer {writer}: {:?}", counts.first());
        for (number, count) in counts.iter().enumerate() {
            let key = format!("{writer}/{number}");
            let found = read(&client, &key);
            assert_eq!(found, count.to_string().as_bytes(), "{key}");
        }
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
        with(&["--resp", "127.0.0.1:0"])
            .refusal(2)
            .contains("--resp")
    );
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
