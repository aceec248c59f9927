//! Servers of a cluster on this host, each a process of its own.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use stonecast::Connector;
use stonecast::blocking::Client;

use crate::support::{Place, Server, command, run};

use super::Cluster;
use super::etcd::Etcd;

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
    pub fn stop(&self, node: &'static str, pause: Duration) {
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
    pub fn wait_until_complete(&self) {
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

/// A client of the cluster, whose shards may be placed meanwhile.
pub fn connect(url: &str) -> Client {
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
pub fn write(client: &Client, key: &str, turn: u64) {
    let end = Instant::now() + Duration::from_secs(60);
    while let Err(error) = client.put(key, turn.to_string()) {
        assert!(Instant::now() < end, "{key}: {error}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// The value of a key that was stored.
pub fn read(client: &Client, key: &str) -> Vec<u8> {
    let end = Instant::now() + Duration::from_secs(60);
    loop {
        match client.get(key) {
            Ok(found) => return found.expect("it was stored").value,
            Err(error) => assert!(Instant::now() < end, "{key}: {error}"),
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}
