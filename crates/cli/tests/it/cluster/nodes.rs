//! Servers that are nodes of a cluster, as processes.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rand::RngExt as _;
use rustix::process::{Pid, Signal, kill_process};
use stonecast::Connector;
use stonecast::blocking::Client;

use crate::support::{Place, Server, command, not_run, run};

use super::Cluster;
use super::gateways;

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

/// Servers of a cluster, each a process of its own that may be killed.
pub struct Servers {
    cluster: Cluster,
    /// The store of the configuration.
    store: String,
    processes: BTreeMap<&'static str, Server>,
    shards: u64,
    /// The nodes whose pools survive a power cut.
    on_disks: &'static [&'static str],
    _etcd: Option<Etcd>,
}

pub const NODES: [&str; 3] = ["a", "b", "c"];
pub const SHARDS: u64 = 6;
/// Leases that outlast the waits of a process on a busy host.
const UNDISTURBED: [&str; 4] = ["--lease", "10s", "--remove-after", "20s"];

impl Servers {
    /// Three nodes, whose configuration is in files or in an etcd.
    pub fn start(etcd: Option<Etcd>) -> Self {
        Self::created(&[], SHARDS, etcd)
    }

    /// Three nodes with so many shards.
    pub fn of_shards(shards: u64) -> Self {
        Self::created(&[], shards, None)
    }

    /// Three nodes for a story in which none of them fails. Their leases outlast the waits of a process on a busy host,
    /// so that no primary is replaced.
    pub fn undisturbed(shards: u64) -> Self {
        Self::created(&UNDISTURBED, shards, None)
    }

    /// Three nodes with one shard for a story in which none of them fails. The pools of `on_disks` survive a power cut.
    pub fn undisturbed_on_disks(on_disks: &'static [&'static str]) -> Self {
        let place = Place::on_disk();
        Self::created_at(Cluster { place }, on_disks, (&UNDISTURBED, 1, None))
    }

    fn created(flags: &[&str], shards: u64, etcd: Option<Etcd>) -> Self {
        Self::created_at(Cluster::absent(), &[], (flags, shards, etcd))
    }

    fn created_at(
        cluster: Cluster,
        on_disks: &'static [&'static str],
        (flags, shards, etcd): (&[&str], u64, Option<Etcd>),
    ) -> Self {
        let store = match &etcd {
            Some(etcd) => etcd.address(),
            None => cluster.address(),
        };
        let mut create = command();
        create
            .args(["cluster", "create", "--config-store", &store])
            .args(["--shards", &shards.to_string()])
            .args(flags);
        run(create, b"").text();
        let processes = BTreeMap::new();
        let mut servers = Self {
            cluster,
            store,
            processes,
            shards,
            on_disks,
            _etcd: etcd,
        };
        NODES.iter().for_each(|node| servers.launch(node));
        for server in servers.processes.values_mut() {
            assert!(server.wait_until_ready(), "{}", server.heard());
        }
        servers
    }

    fn launch(&mut self, node: &'static str) {
        let durability = match self.on_disks.contains(&node) {
            true => "power",
            false => "process",
        };
        let arguments = [
            ["--durability", durability],
            ["--capacity", "64MiB"],
            ["--cluster", &self.store],
            ["--node", node],
            ["--resp", "127.0.0.1:0"],
            ["--admin", "127.0.0.1:0"],
        ];
        let data = self.cluster.place.path().join(node);
        let server = Server::launch(&data, arguments.concat());
        self.processes.insert(node, server);
    }

    /// Starts a node again, and waits until it is there.
    pub fn start_again(&mut self, node: &'static str) {
        self.launch(node);
        let server = self.processes.get_mut(node).expect("it was started");
        assert!(server.wait_until_ready(), "{}", server.heard());
    }

    pub fn kill(&mut self, node: &'static str) {
        let mut process = self.processes.remove(node).expect("it runs");
        process.kill();
    }

    /// Stops the process of a node for a while.
    fn stop(&self, node: &'static str, pause: Duration) {
        let process = &self.processes[node];
        process.signal(Signal::STOP);
        std::thread::sleep(pause);
        process.signal(Signal::CONT);
    }

    /// The address that a node has printed behind `scheme`.
    pub fn port(&mut self, node: &'static str, scheme: &str) -> SocketAddr {
        let server = self.processes.get_mut(node).expect("it runs");
        crate::gateway::address(server, scheme)
    }

    /// The nodes, as `cluster status` shows them.
    fn status(&self) -> Vec<serde_json::Value> {
        let mut status = command();
        status.args(["cluster", "status", "--json", "--config-store", &self.store]);
        let status = run(status, b"").json();
        status["nodes"].as_array().expect("a list").clone()
    }

    /// The names of the nodes that lead shards.
    pub fn leaders(&self) -> Vec<String> {
        let nodes = self.status().into_iter();
        let led = nodes.filter(|node| node["leads"].as_u64() > Some(0));
        led.map(|node| node["name"].as_str().expect("a name").to_owned())
            .collect()
    }

    /// Waits until every node has a copy of every shard.
    fn wait_until_complete(&self) {
        let end = Instant::now() + Duration::from_secs(30);
        let has_all = |node: &serde_json::Value| node["in_sync"].as_u64() == Some(self.shards);
        while !self.status().iter().all(has_all) {
            assert!(Instant::now() < end, "{:?}", self.status());
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    pub fn url(&self) -> String {
        format!("cluster:{}", self.store)
    }
}

/// An etcd on the loopback, which keeps the configuration in the place of files.
pub struct Etcd {
    process: Child,
    endpoint: String,
    _folder: Place,
}

impl Etcd {
    /// `None`: there is none on this machine.
    pub fn start() -> Option<Self> {
        let free = || {
            let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
            listener.local_addr().expect("an address").to_string()
        };
        let (endpoint, peer, folder) = (free(), free(), Place::in_volatile_memory());
        let (client_url, peer_url) = (format!("http://{endpoint}"), format!("http://{peer}"));
        let mut command = Command::new("etcd");
        command
            .args([
                "--name",
                "one",
                "--initial-cluster",
                &format!("one={peer_url}"),
            ])
            .args([
                "--listen-client-urls",
                &client_url,
                "--advertise-client-urls",
                &client_url,
            ])
            .args([
                "--listen-peer-urls",
                &peer_url,
                "--initial-advertise-peer-urls",
                &peer_url,
            ])
            .arg("--unsafe-no-fsync")
            .arg("--data-dir")
            .arg(folder.path())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let process = command.spawn().ok()?;
        let end = Instant::now() + Duration::from_secs(30);
        while TcpStream::connect(&endpoint).is_err() {
            assert!(Instant::now() < end, "etcd did not start");
            std::thread::sleep(Duration::from_millis(20));
        }
        Some(Self {
            process,
            endpoint,
            _folder: folder,
        })
    }

    /// The address of a configuration.
    pub fn address(&self) -> String {
        format!("etcd://{}/stonecast", self.endpoint)
    }
}

impl Drop for Etcd {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
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

/// A client that counts up under keys of its own, until it is told to stop. Returns the count under each key that was
/// acknowledged last.
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

/// The number of times that nodes are killed and stopped: `NODE_KILLS`, or a few.
fn mishaps() -> u32 {
    let asked = std::env::var("NODE_KILLS").ok();
    asked.map_or(15, |asked| asked.parse().expect("a number"))
}

#[test]
fn acknowledged_writes_are_there_whichever_node_is_killed_or_stands_still() {
    goes_on(None);
}

#[test]
fn the_same_holds_when_the_configuration_is_in_an_etcd() {
    match Etcd::start() {
        Some(etcd) => goes_on(Some(etcd)),
        None => not_run("nodes with an etcd", "etcd is not installed"),
    }
}

/// Kills nodes, and stops some of them for longer than their leases, while clients write through the library and
/// through gateways.
fn goes_on(etcd: Option<Etcd>) {
    let mut servers = Servers::start(etcd);
    let stops = AtomicBool::new(false);
    let seed: u64 = std::env::var("NODE_SEED").map_or(std::process::id().into(), |seed| {
        seed.parse().expect("a number")
    });
    println!("NODE_SEED={seed}");
    let mut random = stonecast_base::random_from_seed(seed);
    let url = servers.url();
    let ports = Mutex::new(NODES.map(|node| servers.port(node, "redis://")));
    let (counts, histories) = std::thread::scope(|scope| {
        let (url, stops, ports) = (&url, &stops, &ports);
        let writers: Vec<_> = (0..2)
            .map(|writer| scope.spawn(move || count_up(url, writer, stops)))
            .collect();
        let counters: Vec<_> = (0..2)
            .map(|client| scope.spawn(move || gateways::increment(ports, client, stops)))
            .collect();
        for mishap in 0..mishaps() {
            std::thread::sleep(Duration::from_millis(random.random_range(50..700)));
            let index = random.random_range(0..3);
            let node = NODES[index];
            let pause = Duration::from_millis(random.random_range(150..450));
            // A third of the nodes stand still for longer than their leases, and go on.
            if mishap % 3 == 2 {
                servers.stop(node, pause);
            } else {
                servers.kill(node);
                std::thread::sleep(pause);
                servers.start_again(node);
                ports.lock().expect("no writer panics")[index] = servers.port(node, "redis://");
            }
        }
        std::thread::sleep(Duration::from_millis(500));
        stops.store(true, Ordering::Relaxed);
        let counts = writers
            .into_iter()
            .map(|it| it.join().expect("every write is done"));
        let counts: Vec<_> = counts.collect();
        let histories = counters
            .into_iter()
            .map(|it| it.join().expect("gateways answer"));
        (counts, histories.collect::<Vec<_>>())
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
    gateways::judge(&histories, |key| {
        let value = read(&client, key);
        String::from_utf8(value)
            .expect("a number")
            .parse()
            .expect("a number")
    });
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
