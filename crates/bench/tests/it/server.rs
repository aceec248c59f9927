//! A server of the KV store on a thread of this process, for tests that need no separate process.

use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread::{self, JoinHandle};

use stonecast_bench::kv::Target;
use stonecast_fabric::{BusyPoll, Device as _, Port};
use stonecast_fabric_shm::{ShmDevice, ShmOptions};
use stonecast_kv::{Server, ServerOptions};
use stonecast_media::{
    Ddio, DeclaredPlatform, DirectoryBacking, Durability, PersistenceDomain, Pool, PoolOptions,
    ReceiveBuffers,
};

/// A server that ends when this value is dropped.
pub struct ThreadServer {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
    address: String,
    _folder: tempfile::TempDir,
}

impl ThreadServer {
    /// Starts a server on a new pool of `capacity` bytes that survives the death of processes.
    pub fn start(capacity: u64) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let address = format!("shm:{}", folder.path().join("socket").display());
        let stop = Arc::new(AtomicBool::new(false));
        let (ready, wait) = mpsc::channel();
        let thread = {
            let (pool, address, stop) = (folder.path().join("pool"), address.clone(), stop.clone());
            thread::spawn(move || serve(pool, capacity, &address, &stop, &ready))
        };
        wait.recv().expect("the server starts");
        Self {
            stop,
            thread: Some(thread),
            address,
            _folder: folder,
        }
    }

    pub fn target(&self) -> Target {
        Target {
            address: self.address.clone(),
            server_pid: Some(std::process::id()),
        }
    }
}

impl Drop for ThreadServer {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            let ended = thread.join();
            assert!(
                ended.is_ok() || thread::panicking(),
                "the server ends in order"
            );
        }
    }
}

fn serve(
    folder: PathBuf,
    capacity: u64,
    address: &str,
    stop: &AtomicBool,
    ready: &mpsc::Sender<()>,
) {
    let backing = Rc::new(DirectoryBacking::create(&folder).unwrap());
    let options = PoolOptions {
        capacity,
        segment_size: 256 << 10,
        shards: 1,
        cluster_seed: None,
        platform: DeclaredPlatform {
            persistence_domain: PersistenceDomain::Volatile,
            ddio: Ddio::On,
            receive_buffers: ReceiveBuffers::Dram,
        },
        durability: Durability::Process,
        entropy: [7; 64],
    };
    let pool = Pool::create(backing, options).unwrap();
    let device = ShmDevice::new(ShmOptions::default()).unwrap();
    let executor = BusyPoll::new(device.clone(), 100_000);
    let port = Rc::new(Port::new(device.clone(), 4096).unwrap());
    executor.add_port(&port);
    executor.block_on(async {
        let (server, _) = Server::open(pool, port, executor.runtime(), ServerOptions::default())
            .await
            .unwrap();
        device.listen(address).unwrap();
        ready.send(()).unwrap();
        server.run(&|| stop.load(Ordering::Acquire)).await.unwrap();
        server.close().await.unwrap();
    });
}
