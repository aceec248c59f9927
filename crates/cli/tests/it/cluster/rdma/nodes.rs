//! The nodes: a process, a pool and a link for each.

use std::collections::BTreeMap;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use stonecast::Connector;

use crate::support::{Output, Server, command, run};

/// The number of nodes. The number of a node decides its pool, its device, its address, its port at the switch and its
/// user.
const NODES: usize = 3;
/// The folder of the configuration, which all users may write.
const CONFIGURATION: &str = "/disk/cluster";
const NAMES: [&str; NODES] = ["a", "b", "c"];
/// The user of the first node.
const USER: u32 = 1001;
/// The device of the clients.
const CLIENTS: &str = "rxe3";
/// The file with the key that everybody has, once for each user: only its owner may read it.
const KEYS: &str = "/tmp/keys";
const SHARDS: u64 = 3;
/// Emulation takes long, above all beside other work of the host.
pub const PATIENCE: Duration = Duration::from_secs(240);

/// Servers of a cluster, each a process of its own that may be killed.
pub struct Nodes {
    processes: BTreeMap<usize, Server>,
}

impl Nodes {
    /// Starts all nodes, and waits until every one of them has a copy of every shard. The first call makes the cluster.
    pub fn start() -> Self {
        let mut nodes = Self {
            processes: BTreeMap::new(),
        };
        if !is_created() {
            let mut create = command();
            create.args(["cluster", "create", "--config-store", &store()]);
            create.args(["--shards", &SHARDS.to_string()]);
            // A story ends with one node alone.
            create.args(["--min-copies", "1"]);
            let lease_s = lease_s();
            create.args(["--lease", &format!("{lease_s}s")]);
            create.args(["--remove-after", &format!("{}s", 3 * lease_s)]);
            run(create, b"").text();
        }
        (0..NODES).for_each(|number| nodes.launch(number));
        for server in nodes.processes.values_mut() {
            assert!(server.wait_until_ready(), "{}", server.heard());
        }
        nodes.wait_until_complete();
        nodes
    }

    fn launch(&mut self, number: usize) {
        let pool = format!("/dev/dax{number}.0");
        let mut serve = command();
        serve
            .args(["serve", "--cluster", &store()])
            .args(["--node", NAMES[number], "--data", &pool])
            .args(["--listen", &format!("verbs:10.9.0.{}:7171", number + 1)])
            .args(["--rdma-device", &format!("rxe{number}")])
            .args(["--keys", &format!("{KEYS}-{number}")])
            .uid(USER + number as u32);
        let server = Server::spawn(serve, Path::new(&pool));
        self.processes.insert(number, server);
    }

    /// Starts a node again, and waits until it is there.
    pub fn start_again(&mut self, number: usize) {
        self.launch(number);
        let server = self.processes.get_mut(&number).expect("it was started");
        assert!(server.wait_until_ready(), "{}", server.heard());
    }

    pub fn kill(&mut self, number: usize) {
        let mut process = self.processes.remove(&number).expect("it runs");
        process.kill();
    }

    /// Cuts the link of a node at the switch: packets are lost in both directions, and the device sees no change.
    pub fn cut(&self, number: usize) {
        ip(&["link", "set", &format!("port{number}"), "nomaster"]);
    }

    pub fn heal(&self, number: usize) {
        ip(&["link", "set", &format!("port{number}"), "master", "switch"]);
    }

    /// Takes the link of a node down at the switch: the device reports that its port is down.
    pub fn take_down(&self, number: usize) {
        ip(&["link", "set", &format!("port{number}"), "down"]);
    }

    pub fn bring_up(&self, number: usize) {
        ip(&["link", "set", &format!("port{number}"), "up"]);
    }

    /// The number of the node that leads most shards.
    pub fn leader(&self) -> usize {
        let leads = self.status("leads");
        let numbers = 0..NODES;
        numbers.max_by_key(|number| leads[*number]).expect("nodes")
    }

    /// Waits until every node has a copy of every shard.
    pub fn wait_until_complete(&self) {
        let begun = Instant::now();
        while self.status("in_sync") != [SHARDS; NODES] {
            assert!(begun.elapsed() < PATIENCE, "{:?}", self.status("in_sync"));
            std::thread::sleep(Duration::from_millis(200));
        }
    }

    /// Waits until every node has answered `cluster status --ask` over RDMA.
    pub fn wait_until_told(&self) {
        let begun = Instant::now();
        loop {
            let mut status = command();
            status.args([
                "cluster",
                "status",
                "--ask",
                "--json",
                "--config-store",
                &store(),
            ]);
            status.args(["--keys", KEYS, "--rdma-device", CLIENTS]);
            let status = run(status, b"").json();
            let mut asked = status["asked"].as_array().expect("a list").iter();
            if asked.all(|one| one["answers"] == true) {
                return;
            }
            assert!(begun.elapsed() < PATIENCE, "{}", status["asked"]);
        }
    }

    /// A count of each node, as `cluster status` shows it; 0 for nodes that have not registered.
    fn status(&self, count: &str) -> [u64; NODES] {
        let mut status = command();
        status.args(["cluster", "status", "--json", "--config-store", &store()]);
        let status = run(status, b"").json();
        let shown = status["nodes"].as_array().expect("a list");
        NAMES.map(|name| {
            let node = shown.iter().find(|node| node["name"] == name);
            node.map_or(0, |node| node[count].as_u64().expect("a count"))
        })
    }

    /// The address of the cluster for clients.
    pub fn url(&self) -> String {
        format!("cluster:{}", store())
    }

    /// Runs a client command against the cluster.
    pub fn client(&self, arguments: &[&str]) -> Output {
        let mut client = command();
        client.args(arguments).args(["--connect", &self.url()]);
        client.args(["--keys", KEYS, "--rdma-device", CLIENTS]);
        run(client, b"")
    }

    /// The way of clients to the cluster.
    pub fn connector(&self) -> Connector {
        let connector = Connector::new(&self.url()).expect("an address");
        connector
            .keys(KEYS)
            .rdma_device(CLIENTS)
            .connect_timeout(PATIENCE)
            .operation_timeout(Some(PATIENCE))
    }
}

/// A story that fails shows the cluster and the messages of its nodes.
impl Drop for Nodes {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            return;
        }
        let mut status = command();
        status.args(["cluster", "status", "--config-store", &store()]);
        let status = run(status, b"");
        println!(
            "{}{}",
            String::from_utf8_lossy(&status.stdout),
            status.stderr
        );
        for (number, server) in &mut self.processes {
            println!("node {}:\n{}", NAMES[*number], server.heard());
        }
    }
}

/// The lease of a primary: a process of an emulated machine may wait for a second, and for longer on a busy host.
fn lease_s() -> u64 {
    let asked = std::env::var("STONECAST_CLUSTER_LEASE_S").ok();
    asked.map_or(3, |asked| asked.parse().expect("a number"))
}

fn store() -> String {
    format!("file:{CONFIGURATION}")
}

/// Whether the configuration has been written: a boot may have ended before that.
fn is_created() -> bool {
    let first = "revision-00000000000000000001";
    Path::new(CONFIGURATION).join(first).exists()
}

fn ip(arguments: &[&str]) {
    let output = Command::new("/usr/bin/ip").args(arguments).output();
    let output = output.expect("the guest has the program");
    assert!(
        output.status.success(),
        "ip {arguments:?}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
}
