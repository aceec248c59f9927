//! Servers that are nodes of a cluster, each in a thread of its own, over shared memory.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use stonecast::server::{Builder, NotANode, ServerHandle};
use stonecast::{Connector, Durability, Error, ErrorKind, Server, blocking};
use stonecast_base::random_from_seed;
use stonecast_cluster::{Configuration, HashSeed, Policy, Writer, create};
use stonecast_config_store::{executor, open};
use tempfile::TempDir;
use uuid::Uuid;

const SHARDS: u32 = 4;

/// A cluster in a folder.
struct Cluster {
    folder: TempDir,
}

impl Cluster {
    fn create(policy: Policy) -> Self {
        let cluster = Self {
            folder: tempfile::tempdir().unwrap(),
        };
        std::fs::create_dir(cluster.folder.path().join("config")).unwrap();
        let (executor, store) = (executor(), open(&cluster.store()).unwrap());
        let mut writer = Writer::new("test".to_owned(), random_from_seed(7));
        let nonce = Uuid::from_u128(0x5707_eca5);
        let runtime = executor.runtime();
        let created = create(&*store, &runtime, &mut writer, nonce, policy);
        executor.block_on(created).unwrap();
        cluster
    }

    /// Three copies of each of a few shards.
    fn of_three() -> Self {
        Self::create(Policy {
            hash_seed: Some(HashSeed(0x5eed)),
            ..Policy::new(3, SHARDS)
        })
    }

    fn store(&self) -> String {
        format!("file:{}", self.folder.path().join("config").display())
    }

    fn configuration(&self) -> Configuration {
        let store = open(&self.store()).unwrap();
        let stored = executor().block_on(store.read()).unwrap().unwrap();
        Configuration::decode(&stored.bytes).unwrap()
    }

    fn data(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn builder(&self, name: &str) -> Builder {
        Server::builder(self.data(name))
            .durability(Durability::Process)
            .capacity(64 << 20)
            .cluster(self.store())
            .node(name)
    }

    fn start(&self, name: &str) -> ServerHandle {
        self.builder(name).serve().unwrap()
    }

    fn refused(&self, builder: Builder) -> Error {
        builder.serve().err().expect("a refusal")
    }

    /// A client. The shards may be placed meanwhile.
    fn connect(&self) -> blocking::Client {
        let end = Instant::now() + Duration::from_secs(20);
        let url = format!("cluster:{}", self.store());
        loop {
            let connector = Connector::new(&url).unwrap();
            let limit = Some(Duration::from_secs(10));
            match connector.operation_timeout(limit).connect_blocking() {
                Ok(client) => return client,
                Err(error) if Instant::now() > end => panic!("{error}"),
                Err(_) => std::thread::sleep(Duration::from_millis(20)),
            }
        }
    }
}

#[test]
fn three_nodes_serve_what_they_are_told_and_one_of_them_may_go() {
    let cluster = Cluster::of_three();
    let mut nodes = ["a", "b", "c"].map(|name| Some(cluster.start(name)));
    let client = cluster.connect();
    let keys: Vec<String> = (0..100).map(|number| format!("key {number}")).collect();
    for key in &keys {
        client.put(key, key).unwrap();
    }
    nodes[0].take().unwrap().shutdown().unwrap();
    for key in &keys {
        assert_eq!(client.get(key).unwrap().unwrap().value, key.as_bytes());
        client.put(key, "later").unwrap();
    }
    nodes[0] = Some(cluster.start("a"));
    for key in &keys {
        client.put(key, "at last").unwrap();
    }
    client.close();
    for node in nodes.into_iter().flatten() {
        node.shutdown().unwrap();
    }
    // All nodes start again: everything is there.
    let _nodes = ["a", "b", "c"].map(|name| cluster.start(name));
    let client = cluster.connect();
    for key in &keys {
        assert_eq!(client.get(key).unwrap().unwrap().value, b"at last");
    }
}

#[test]
fn a_name_belongs_to_one_pool_and_a_pool_to_one_name_and_one_cluster() {
    let cluster = Cluster::of_three();
    cluster.start("a").shutdown().unwrap();
    let pool = cluster.configuration().nodes[&"a".parse().unwrap()].pool;
    let words = |builder: Builder| cluster.refused(builder).to_string();
    let a = |data: &str| {
        Server::builder(cluster.data(data))
            .durability(Durability::Process)
            .capacity(64 << 20)
            .cluster(cluster.store())
            .node("a")
    };
    let missing = words(a("empty"));
    assert!(missing.contains("remove the node first"), "{missing}");
    assert!(missing.contains(&pool.to_string()), "{missing}");
    assert!(!cluster.data("empty").exists(), "nothing is left behind");
    cluster.start("b").shutdown().unwrap();
    let taken = words(a("b"));
    assert!(taken.contains("a is the name of pool"), "{taken}");
    let other = words(cluster.builder("a").node("c"));
    assert!(other.contains("registered as a"), "{other}");
    let alone = cluster.refused(Server::builder(cluster.data("a")));
    let is_of_node = matches!(alone.kind(), ErrorKind::Node(NotANode::PoolOfNode { .. }));
    assert!(is_of_node, "{alone}");
    let foreign = Cluster::create(Policy {
        hash_seed: Some(HashSeed(0x5eed + 1)),
        ..Policy::new(3, SHARDS)
    });
    let refused = words(cluster.builder("a").cluster(foreign.store()));
    assert!(
        refused.contains("of a node of another cluster"),
        "{refused}"
    );
    assert!(foreign.configuration().nodes.is_empty());
    // The pool is as it was.
    cluster.start("a").shutdown().unwrap();
}

#[test]
fn a_node_is_registered_with_the_power_zone_of_its_latest_start() {
    let cluster = Cluster::of_three();
    let registered = || {
        let nodes = cluster.configuration().nodes;
        nodes[&"a".parse().unwrap()].zone.clone()
    };
    for zone in ["east", "west"] {
        let node = cluster.builder("a").zone(zone).serve().unwrap();
        assert_eq!(registered().as_deref(), Some(zone));
        node.shutdown().unwrap();
    }
    let words = |builder: Builder| cluster.refused(builder).to_string();
    let wrong = words(cluster.builder("a").zone("the east"));
    assert!(wrong.contains("is no name of a power zone"), "{wrong}");
    let alone = words(Server::builder(cluster.data("alone")).zone("east"));
    assert!(alone.contains("give a cluster and a name"), "{alone}");
    assert!(!cluster.data("alone").exists(), "nothing is left behind");
    assert_eq!(registered().as_deref(), Some("west"));
}

#[test]
fn a_node_needs_a_cluster_with_keys_and_a_pool_of_its_own() {
    let cluster = Cluster::of_three();
    let kind = |builder: Builder| match cluster.refused(builder).kind() {
        ErrorKind::Node(reason) => reason.to_string(),
        other => panic!("{other}"),
    };
    let nameless = Server::builder(cluster.data("a")).cluster(cluster.store());
    assert!(kind(nameless).contains("a cluster and a name"));
    assert!(kind(cluster.builder("-a")).contains("is no name of a node"));
    let nowhere = format!("file:{}", cluster.data("nowhere").display());
    assert!(kind(cluster.builder("a").cluster(nowhere)).contains("nowhere"));
    let keyless = Cluster::create(Policy::new(3, SHARDS));
    assert!(kind(cluster.builder("a").cluster(keyless.store())).contains("keeps no keys"));
    let wide = Cluster::create(Policy {
        hash_seed: Some(HashSeed(1)),
        ..Policy::new(3, 65)
    });
    assert!(kind(cluster.builder("a").cluster(wide.store())).contains("65 shards"));
    assert!(kind(cluster.builder("a").accept_copy()).contains("begin with a new pool"));
    let alone = Server::builder(cluster.data("alone")).durability(Durability::Process);
    alone.serve().unwrap().shutdown().unwrap();
    let pool_of_server = Server::builder(cluster.data("alone"))
        .cluster(cluster.store())
        .node("a");
    assert!(kind(pool_of_server).contains("the pool of a server alone"));
    assert!(!cluster.data("a").exists(), "nothing is left behind");
}
