//! Servers over shared memory as stand-ins for the nodes of a cluster, whose configuration is in files. There are no
//! copies: a shard that moves begins empty at its next node.

use std::path::Path;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use stonecast_cluster::{
    Attempt, Configuration, Found, HashRange, Node, NodeName, Nonce, Policy, Start, Subject, Swap,
};
use stonecast_config_store::{executor, open};
use stonecast_fabric::{BusyPoll, Device as _, Port};
use stonecast_fabric_shm::{ShmDevice, ShmOptions};
use stonecast_kv::ServerOptions;
use stonecast_media::{
    Ddio, DeclaredPlatform, Durability, PersistenceDomain, Pool, PoolOptions, ReceiveBuffers,
    create_backing,
};
use tempfile::TempDir;
use uuid::Uuid;

pub const SHARDS: u32 = 6;
const NAMES: [&str; 3] = ["a", "b", "c"];
const SEGMENT_SIZE: u64 = 1 << 20;
const SPIN_NS: u64 = 200_000;
/// Longer than a stand-in takes to see a change.
const LEASE: Duration = Duration::from_millis(100);
/// Bytes of the entropy that decide the seed of the hash of a key.
const KEY_SEED: std::ops::Range<usize> = 16..24;
const PLATFORM: DeclaredPlatform = DeclaredPlatform {
    persistence_domain: PersistenceDomain::PageFile,
    ddio: Ddio::On,
    receive_buffers: ReceiveBuffers::Dram,
};

/// A server that stands for a node.
struct StandIn {
    name: NodeName,
    pool: Uuid,
    is_over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

/// Three nodes and their configuration, in a folder that goes with the value.
pub struct Cluster {
    nodes: Vec<StandIn>,
    configuration: Configuration,
    /// The configuration that the nodes know.
    told: Told,
    folder: TempDir,
}

type Told = Arc<Mutex<Option<Configuration>>>;

impl Cluster {
    /// Three nodes that serve, each of which leads some shards.
    pub fn start() -> Self {
        let folder = tempfile::tempdir().expect("a folder for the test");
        let told = Told::default();
        let nodes = (0..NAMES.len()).map(|index| StandIn::start(folder.path(), index, &told));
        let nodes: Vec<_> = nodes.collect();
        let mut configuration = without_nodes();
        for node in &nodes {
            let addresses = vec![address(folder.path(), node.name.as_str())];
            let registered = Node::new(node.pool, Durability::Process, PLATFORM, addresses);
            let start = Start {
                cluster: Some(configuration.nonce),
                found: Found::nothing(),
                node: registered,
            };
            configuration = configuration
                .register(&node.name, &start)
                .expect("it is new");
        }
        let configuration = configuration.place_shards().expect("there are three nodes");
        let mut cluster = Self {
            nodes,
            configuration: configuration.clone(),
            told,
            folder,
        };
        cluster.change(configuration);
        cluster
    }

    /// The address of the cluster.
    pub fn url(&self) -> String {
        format!("cluster:{}", self.store())
    }

    /// The address of the store of the configuration.
    pub fn store(&self) -> String {
        store_in(self.folder.path())
    }

    /// Gives `shard` to the next node. Once the call returns, the predecessor no longer leads the
    /// shard.
    pub fn hand_over(&mut self, shard: u32) {
        let present = &self
            .configuration
            .group(&subject(shard))
            .expect("it is placed")
            .primary;
        let at = NAMES.iter().position(|name| *name == present.as_str());
        let heir = &self.nodes[(at.expect("a node") + 1) % NAMES.len()].name;
        let next = self
            .configuration
            .take_lead(&subject(shard), heir)
            .expect("it has a copy");
        self.change(next);
    }

    /// Ends all nodes.
    pub fn end(&mut self) {
        self.nodes.clear();
    }

    /// Tells the nodes a configuration, and stores it.
    fn change(&mut self, next: Configuration) {
        *self.told.lock().expect("no holder panics") = Some(next.clone());
        thread::sleep(LEASE);
        store(&self.store(), &next.encode());
        self.configuration = next;
    }
}

impl StandIn {
    fn start(folder: &Path, index: usize, told: &Told) -> Self {
        let name = NAMES[index];
        let data = folder.join(name);
        let (address, told) = (address(folder, name), told.clone());
        let is_over = Arc::<AtomicBool>::default();
        let (over, (report, started)) = (is_over.clone(), mpsc::channel());
        let thread = thread::spawn(move || {
            let mut entropy = [index as u8 + 1; 64];
            entropy[KEY_SEED].fill(7);
            let options = PoolOptions {
                capacity: 16 * SEGMENT_SIZE,
                segment_size: SEGMENT_SIZE,
                shards: SHARDS,
                cluster_seed: None,
                platform: PLATFORM,
                durability: Durability::Process,
                entropy,
            };
            let backing = create_backing(&data).expect("a new folder");
            let pool = Pool::create(backing, options).expect("a new pool");
            let uuid = pool.uuid();
            let device = ShmDevice::new(ShmOptions::default()).expect("shared memory");
            let executor = BusyPoll::new(device.clone(), SPIN_NS);
            let port = Rc::new(Port::new(device.clone(), 65_536).expect("a port"));
            executor.add_port(&port);
            let opened = stonecast_kv::Server::open(
                pool,
                port,
                executor.runtime(),
                ServerOptions::default(),
            );
            let (server, _) = executor.block_on(opened).expect("the pool is new");
            server.offer_by(Rc::new(|_, _| Some(LEASE.as_nanos() as u64 / 2)));
            device.listen(&address).expect("the socket is new");
            report.send(uuid).expect("the story waits");
            let stop = || {
                if let Some(known) = &*told.lock().expect("no holder panics") {
                    lead(&server, name, known);
                }
                over.load(Ordering::Relaxed)
            };
            executor.block_on(server.run(&stop)).expect("nothing fails");
        });
        Self {
            name: name.parse().expect("a name"),
            pool: started.recv().expect("the server starts"),
            is_over,
            thread: Some(thread),
        }
    }
}

impl Drop for StandIn {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // A second panic inside an unwind would abort the tests.
            let _ = thread.join();
        }
    }
}

fn lead(server: &stonecast_kv::Server, name: &str, known: &Configuration) {
    for shard in 0..SHARDS {
        let group = known.group(&subject(shard)).expect("all shards are placed");
        let term = (group.primary.as_str() == name).then_some(group.term);
        server.lead(known.epoch, shard, term);
    }
}

/// A configuration without nodes.
pub fn without_nodes() -> Configuration {
    let attempt = Attempt {
        writer: "test".to_owned(),
        number: Uuid::from_u128(1),
    };
    let policy = Policy::new(NAMES.len() as u8, SHARDS);
    Configuration::create(Nonce::from_u128(5), policy, attempt)
}

/// The store of a configuration in `folder`.
pub fn store_in(folder: &Path) -> String {
    format!("file:{}/configuration", folder.display())
}

/// Stores `bytes` as the next configuration in the store at `address`.
pub fn store(address: &str, bytes: &[u8]) {
    let (store, executor) = (open(address).expect("an address"), executor());
    let present = executor.block_on(store.read()).ok().flatten();
    let expected = present.map(|stored| stored.revision);
    let swapped = executor.block_on(store.compare_and_set(expected, bytes));
    assert!(matches!(swapped, Ok(Swap::Done(_))), "{swapped:?}");
}

fn subject(shard: u32) -> Subject {
    Subject::Keys(HashRange::even(shard, SHARDS))
}

fn address(folder: &Path, name: &str) -> String {
    format!("shm:{}/{name}/socket", folder.display())
}
