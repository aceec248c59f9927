//! Servers of a cluster on this host, each a process of its own.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use stonecast::Connector;
use stonecast::blocking::Client;
use stonecast_cluster::Configuration;
use stonecast_config_store::{executor, open};

use crate::support::{Output, Place, Server, command, run};

use super::Cluster;
use super::etcd::Etcd;
use super::load::{Gateways, Ways};

/// Servers of a cluster, each a process of its own that may be killed.
pub struct Servers {
    cluster: Cluster,
    /// The store of the configuration.
    store: String,
    processes: BTreeMap<&'static str, Server>,
    shards: u64,
    /// The nodes whose pools survive a power cut.
    on_disks: &'static [&'static str],
    etcd: Option<Etcd>,
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

    /// Three nodes of a cluster that was created with these flags.
    pub fn with_flags(flags: &[&str], etcd: Option<Etcd>) -> Self {
        Self::created(flags, SHARDS, etcd)
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
            etcd,
        };
        servers.start_all_again();
        servers
    }

    fn wait_until_ready(&mut self) {
        for server in self.processes.values_mut() {
            assert!(server.wait_until_ready(), "{}", server.heard());
        }
    }

    fn launch(&mut self, node: &'static str) {
        let server = Server::launch(&self.data(node), self.arguments(node));
        self.processes.insert(node, server);
    }

    /// The folder of a node's pool.
    pub fn data(&self, node: &str) -> PathBuf {
        self.cluster.place.path().join(node)
    }

    fn arguments(&self, node: &'static str) -> Vec<String> {
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
        arguments.concat().into_iter().map(str::to_owned).collect()
    }

    /// Starts a node again, and waits until it is there.
    pub fn start_again(&mut self, node: &'static str) {
        self.launch(node);
        let server = self.processes.get_mut(node).expect("it was started");
        assert!(server.wait_until_ready(), "{}", server.heard());
    }

    /// Starts all nodes again, and waits until they are there.
    pub fn start_all_again(&mut self) {
        NODES.iter().for_each(|node| self.launch(node));
        self.wait_until_ready();
    }

    /// The message of a node that must refuse to start.
    pub fn refused(&self, node: &'static str) -> String {
        Server::refused(&self.data(node), self.arguments(node))
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

    /// Sends a signal to the process of a node.
    pub fn signal(&self, node: &'static str, signal: Signal) {
        self.processes[node].signal(signal);
    }

    /// The address that a node has printed behind `scheme`.
    pub fn port(&mut self, node: &'static str, scheme: &str) -> SocketAddr {
        let server = self.processes.get_mut(node).expect("it runs");
        crate::gateway::address(server, scheme)
    }

    /// Runs a command on the configuration.
    pub fn cluster(&self, arguments: &[&str]) -> Output {
        let mut command = command();
        command.arg("cluster").args(arguments);
        command.args(["--config-store", &self.store]);
        run(command, b"")
    }

    /// The nodes, as `cluster status` shows them.
    pub fn status(&self) -> Vec<serde_json::Value> {
        let status = self.cluster(&["status", "--json"]).json();
        status["nodes"].as_array().expect("a list").clone()
    }

    pub fn configuration(&self) -> Configuration {
        let store = open(&self.store).expect("the address is good");
        let end = Instant::now() + Duration::from_secs(30);
        loop {
            match executor().block_on(store.read()) {
                Ok(stored) => {
                    let stored = stored.expect("it was created");
                    return Configuration::decode(&stored.bytes).expect("a configuration");
                }
                Err(error) => assert!(Instant::now() < end, "{error}"),
            }
        }
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

    /// The etcd of the configuration.
    pub fn etcd(&mut self) -> &mut Etcd {
        self.etcd.as_mut().expect("the story began with one")
    }

    /// The gateways of all nodes.
    pub fn gateways(&mut self) -> Arc<Gateways> {
        let addresses = NODES.map(|node| self.port(node, "redis://"));
        Arc::new(Gateways::new(addresses.to_vec()))
    }

    /// Clients of the library and of gateways.
    pub fn ways(&self, gateways: &Arc<Gateways>) -> Ways {
        let connector = Connector::new(&self.url()).expect("an address");
        Ways {
            connector: connector.operation_timeout(Some(Duration::from_secs(20))),
            gateways: Some(gateways.clone()),
            patience: Duration::from_secs(120),
            pause: Duration::from_millis(5),
        }
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
