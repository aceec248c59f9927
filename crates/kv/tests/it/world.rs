//! A server and its clients in one thread, each with a device of its own, over shared memory, on a pool in a temporary
//! directory. A story is an async closure; the server runs beside it.

use std::cell::{Cell, RefCell};
use std::path::PathBuf;
use std::rc::{Rc, Weak};

use stonecast_fabric::{Port, Runtime};
use stonecast_kv::{
    CLIENT_COMPLETIONS, Client, Closing, RecoveryReport, Server, ServerOptions, StoreError,
};
use stonecast_media::{
    Backing, Ddio, DeclaredPlatform, DirectoryBacking, Durability, OpenMode, PersistenceDomain,
    Pool, PoolOptions, ReceiveBuffers,
};
use tempfile::TempDir;

use crate::fabric::{Fabric, Provider};
use crate::meddling::{self, Meddler};
use crate::trouble::{Seen, Trouble, TroubledBacking};

pub struct World {
    pub directory: TempDir,
    pub capacity: u64,
    pub segment_size: u64,
    pub shards: u32,
    pub cluster_seed: Option<u64>,
    pub durability: Durability,
    pub options: ServerOptions,
    pub provider: Provider,
    pub fabric: RefCell<Option<Rc<dyn Fabric>>>,
    pub stop: Rc<Cell<bool>>,
    pub report: RefCell<RecoveryReport>,
    /// Whether the latest opening of the pool repaired a copy of the header.
    pub header_repaired: Cell<bool>,
    /// The failure of the medium.
    pub trouble: Rc<Cell<Trouble>>,
    /// The observed order in which the server makes bytes durable.
    pub seen: Rc<RefCell<Seen>>,
    /// The meddler between the server and its device.
    pub meddler: Rc<Meddler>,
    /// The result of the latest `run` of the server.
    pub ended: Rc<RefCell<Option<Result<(), StoreError>>>>,
    /// The server, while a story runs.
    pub server: RefCell<Weak<Server>>,
    /// The state in which the latest closed server left the pool.
    pub closing: Cell<Option<Closing>>,
}

thread_local! {
    static SHARDS: Cell<u32> = const { Cell::new(1) };
    static CLUSTER_SEED: Cell<Option<u64>> = const { Cell::new(None) };
}

/// Tells `story` in pools of this many shards.
pub fn in_shards(shards: u32, story: impl FnOnce()) {
    SHARDS.set(shards);
    story();
    SHARDS.set(1);
}

/// Tells `story` in pools of a cluster.
pub fn in_cluster(story: impl FnOnce()) {
    CLUSTER_SEED.set(Some(0x5eed_0f4c_1057_e72b));
    story();
    CLUSTER_SEED.set(None);
}

/// The end of the server after a story.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The server is closed.
    Close,
    /// The server is killed, as by kill -9: nothing is written afterwards.
    Kill,
}

impl Default for World {
    fn default() -> Self {
        let provider = Provider::chosen();
        Self {
            directory: TempDir::new().expect("a temporary directory"),
            // Kernels pin the whole log for each client of an RDMA device.
            capacity: if provider.leases_extents() {
                64 << 20
            } else {
                32 << 20
            },
            segment_size: 4 << 20,
            shards: SHARDS.get(),
            cluster_seed: CLUSTER_SEED.get(),
            durability: Durability::Process,
            options: ServerOptions::default(),
            provider,
            fabric: RefCell::default(),
            stop: Rc::default(),
            report: RefCell::default(),
            header_repaired: Cell::default(),
            trouble: Rc::default(),
            seen: Rc::default(),
            meddler: Rc::default(),
            ended: Rc::default(),
            server: RefCell::default(),
            closing: Cell::default(),
        }
    }
}

impl World {
    /// A pool that fills after a few hundred records.
    pub fn small() -> Self {
        let segment_size = 256 << 10;
        // The ledger takes a segment of its own.
        let ledger_size = CLUSTER_SEED.get().map_or(0, |_| segment_size);
        Self {
            capacity: (2 << 20) + ledger_size,
            segment_size,
            ..Self::default()
        }
    }

    pub fn pool_path(&self) -> PathBuf {
        self.directory.path().join("pool")
    }

    pub fn address(&self) -> String {
        self.fabric().address()
    }

    pub fn fabric(&self) -> Rc<dyn Fabric> {
        self.fabric.borrow().clone().expect("a story runs")
    }

    /// Opens the pool like a server, and creates it the first time.
    pub fn open_pool(&self) -> Result<Pool, stonecast_media::MediaError> {
        let path = self.pool_path();
        if !path.exists() {
            let platform = DeclaredPlatform {
                persistence_domain: match self.durability {
                    Durability::Power => PersistenceDomain::PageFile,
                    Durability::Process => PersistenceDomain::Volatile,
                },
                ddio: Ddio::On,
                receive_buffers: ReceiveBuffers::Dram,
            };
            let entropy = std::array::from_fn(|i| (i as u8).wrapping_mul(37).wrapping_add(11));
            let options = PoolOptions {
                capacity: self.capacity,
                segment_size: self.segment_size,
                shards: self.shards,
                cluster_seed: self.cluster_seed,
                platform,
                durability: self.durability,
                entropy,
            };
            let backing: Rc<dyn Backing> = Rc::new(DirectoryBacking::create(&path)?);
            drop(Pool::create(backing, options)?);
        }
        let backing: Rc<dyn Backing> = Rc::new(DirectoryBacking::open(&path)?);
        let (trouble, seen) = (self.trouble.clone(), self.seen.clone());
        let backing = TroubledBacking::new(backing, self.segment_size, trouble, seen);
        let backing = Rc::new(backing);
        let (pool, repairs) = Pool::open(backing, OpenMode::Serve)?;
        self.header_repaired.set(!repairs.is_empty());
        Ok(pool)
    }

    /// Opens the pool of an earlier story.
    pub fn open_pool_for(&self, mode: OpenMode) -> Pool {
        let path = self.pool_path();
        let backing = match mode {
            OpenMode::Serve | OpenMode::Adopt => DirectoryBacking::open(&path),
            OpenMode::Inspect => DirectoryBacking::inspect(&path),
        };
        Pool::open(Rc::new(backing.expect("there is a pool")), mode)
            .expect("it opens")
            .0
    }

    /// Runs `story` with a server beside it, then closes the server.
    pub fn run<T>(&self, story: impl AsyncFnOnce(&World) -> T) -> T {
        self.run_until(End::Close, story)
    }

    /// Runs `story` with a server beside it, then ends the server.
    pub fn run_until<T>(&self, end: End, story: impl AsyncFnOnce(&World) -> T) -> T {
        self.try_run(end, story).expect("the pool opens")
    }

    /// Like `run_until`. An error comes from the opening.
    pub fn try_run<T>(
        &self,
        end: End,
        story: impl AsyncFnOnce(&World) -> T,
    ) -> Result<T, StoreError> {
        let pool = self.open_pool()?;
        let fabric: Rc<dyn Fabric> = self.provider.start(self.directory.path()).into();
        *self.fabric.borrow_mut() = Some(fabric.clone());
        let executor = fabric.executor();
        let port = meddling::port(&*fabric, 65_536, &self.meddler);
        let runtime = executor.runtime();
        let stop = self.stop.clone();
        stop.set(false);
        self.ended.replace(None);
        let (server, report) = executor.block_on(Server::open(
            pool,
            port.clone(),
            runtime.clone(),
            self.options,
        ))?;
        *self.report.borrow_mut() = report;
        port.device()
            .listen(&self.address())
            .expect("the address is free");
        let server = Rc::new(server);
        self.server.replace(Rc::downgrade(&server));
        let ended = self.ended.clone();
        let serving = server.clone();
        let done = Rc::new(Cell::new(false));
        let done2 = done.clone();
        runtime.spawn(Box::pin(async move {
            let result = serving.run(&|| stop.get()).await;
            *ended.borrow_mut() = Some(result);
            drop(serving);
            done2.set(true);
        }));
        let result = executor.block_on(story(self));
        self.stop.set(true);
        executor.block_on(async {
            while !done.get() {
                runtime.sleep(1_000_000).await;
            }
        });
        if end == End::Close && matches!(*self.ended.borrow(), Some(Ok(()))) {
            let server = Rc::into_inner(server).expect("nobody else holds the server");
            let closing = executor.block_on(server.close());
            self.closing.set(Some(closing.expect("the server closes")));
        }
        *self.fabric.borrow_mut() = None;
        Ok(result)
    }

    /// A new client with a device of its own.
    pub async fn client(&self) -> Client {
        self.try_client().await.expect("the server accepts")
    }

    pub async fn try_client(&self) -> Result<Client, StoreError> {
        let (port, runtime) = self.port();
        Client::connect(port, runtime, &self.address()).await
    }

    /// A device of its own for a client.
    pub fn port(&self) -> (Rc<Port>, Rc<dyn Runtime>) {
        let fabric = self.fabric();
        (fabric.port(CLIENT_COMPLETIONS), fabric.executor().runtime())
    }

    /// A port, and an address at which it may listen.
    pub fn listener(&self) -> (Rc<Port>, String) {
        self.fabric().listener()
    }

    pub fn runtime(&self) -> Rc<dyn Runtime> {
        self.fabric().executor().runtime()
    }
}

/// The `n`-th key.
pub fn key(n: u64) -> Vec<u8> {
    let mut key = b"key-".to_vec();
    key.extend_from_slice(&n.to_be_bytes());
    key
}

/// A value made from `seed`; different seeds give different values.
pub fn value(seed: u64, size: usize) -> Vec<u8> {
    use rand::Rng as _;
    let mut bytes = vec![0; size];
    stonecast_base::random_from_seed(seed).fill_bytes(&mut bytes);
    bytes
}
