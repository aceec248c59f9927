//! A store in a thread, on a pool in a temporary folder, and a gateway of the store.

use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::Duration;

use stonecast_fabric::{BusyPoll, Device as _, Port};
use stonecast_fabric_shm::{ShmDevice, ShmOptions};
use stonecast_gateway::{GatewayHandle, GatewayOptions, spawn};
use stonecast_kv::{CLIENT_COMPLETIONS, Client as StoreClient, Server, ServerOptions};
use stonecast_media::{
    Ddio, DeclaredPlatform, DirectoryBacking, Durability, OpenMode, PersistenceDomain, Pool,
    PoolOptions, ReceiveBuffers,
};
use tempfile::TempDir;

use super::Client;

/// A store in a thread, and a gateway of the store.
pub struct World {
    gateway: Option<GatewayHandle>,
    store: StoreThread,
    _directory: TempDir,
}

/// Options of a gateway on any free port.
pub fn options() -> GatewayOptions {
    GatewayOptions::new("127.0.0.1:0".parse().unwrap(), "")
}

impl World {
    /// Starts with default options.
    pub fn start() -> Self {
        Self::with(options())
    }

    /// Starts with these options; the store's address is filled in.
    pub fn with(options: GatewayOptions) -> Self {
        Self::of(options, Durability::Process, 256 << 20)
    }

    /// Starts with a pool of this durability and capacity.
    pub fn of(mut options: GatewayOptions, durability: Durability, capacity: u64) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let store = StoreThread::start(directory.path(), durability, capacity);
        options.store = Some(store.address.clone());
        let gateway = spawn(options).unwrap();
        assert!(
            gateway.wait_until_ready(Duration::from_secs(30)),
            "the gateway connects to the store"
        );
        Self {
            gateway: Some(gateway),
            store,
            _directory: directory,
        }
    }

    /// The gateway.
    pub fn gateway(&self) -> &GatewayHandle {
        self.gateway.as_ref().unwrap()
    }

    /// A connection to the gateway.
    pub fn client(&self) -> Client {
        Client::connect(self.gateway().resp_address().unwrap())
    }

    /// Runs `work` with a one-sided client of the store, in this thread.
    pub fn with_store_client<T>(&self, work: impl AsyncFnOnce(&StoreClient) -> T) -> T {
        with_store_client(&self.store.address, work)
    }

    /// The store's address.
    pub fn store_address(&self) -> &str {
        &self.store.address
    }

    /// Ends the store while the gateway runs.
    pub fn stop_store(&mut self) {
        self.store.stop();
    }

    /// Ends the gateway, and returns the outcome.
    pub fn stop_gateway(&mut self) -> Result<(), stonecast_gateway::GatewayError> {
        self.gateway.take().unwrap().stop()
    }
}

/// Runs `work` with a one-sided client of the store at `address`, in this thread.
pub fn with_store_client<T>(address: &str, work: impl AsyncFnOnce(&StoreClient) -> T) -> T {
    let device = ShmDevice::new(ShmOptions::default()).unwrap();
    let executor = BusyPoll::new(device.clone(), 20_000);
    let port = Rc::new(Port::new(device, CLIENT_COMPLETIONS).unwrap());
    executor.add_port(&port);
    executor.block_on(async {
        let client = StoreClient::connect(port, executor.runtime(), address)
            .await
            .unwrap();
        let result = work(&client).await;
        client.close().await;
        result
    })
}

struct StoreThread {
    address: String,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl StoreThread {
    fn start(directory: &Path, durability: Durability, capacity: u64) -> Self {
        let address = format!("shm:{}", directory.join("socket").display());
        let stop = Arc::new(AtomicBool::new(false));
        let (ready, is_ready) = mpsc::channel();
        let (pool, their_address, their_stop) =
            (directory.join("pool"), address.clone(), stop.clone());
        let thread = std::thread::spawn(move || {
            serve(
                &pool,
                &their_address,
                durability,
                capacity,
                || ready.send(()).unwrap(),
                &|| their_stop.load(Ordering::Acquire),
            );
        });
        is_ready.recv().expect("the store starts");
        Self {
            address,
            stop,
            thread: Some(thread),
        }
    }

    fn stop(&mut self) {
        self.stop.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            thread.join().unwrap();
        }
    }
}

impl Drop for StoreThread {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Serves a pool in this thread until `stop`. A missing pool is created.
pub fn serve(
    directory: &Path,
    address: &str,
    durability: Durability,
    capacity: u64,
    ready: impl FnOnce(),
    stop: &dyn Fn() -> bool,
) {
    let pool = open(directory, durability, capacity);
    let device = ShmDevice::new(ShmOptions::default()).unwrap();
    let executor = BusyPoll::new(device.clone(), 20_000);
    let port = Rc::new(Port::new(device.clone(), 65_536).unwrap());
    executor.add_port(&port);
    executor.block_on(async {
        let (server, _) = Server::open(pool, port, executor.runtime(), ServerOptions::default())
            .await
            .unwrap();
        device.listen(address).unwrap();
        ready();
        server.run(stop).await.unwrap();
        server.close().await.unwrap();
    });
}

fn open(directory: &Path, durability: Durability, capacity: u64) -> Pool {
    if let Ok(backing) = DirectoryBacking::open(directory) {
        return Pool::open(Rc::new(backing), OpenMode::Serve).unwrap().0;
    }
    let persistence_domain = match durability {
        Durability::Power => PersistenceDomain::PageFile,
        Durability::Process => PersistenceDomain::Volatile,
    };
    let platform = DeclaredPlatform {
        persistence_domain,
        ddio: Ddio::On,
        receive_buffers: ReceiveBuffers::Dram,
    };
    let options = PoolOptions {
        capacity,
        segment_size: 4 << 20,
        shards: 1,
        cluster_seed: None,
        platform,
        durability,
        entropy: [7; 64],
    };
    Pool::create(
        Rc::new(DirectoryBacking::create(directory).unwrap()),
        options,
    )
    .unwrap()
}
