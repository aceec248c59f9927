//! A connection to a server, the device behind it, and the loop that drives both. Belongs to one thread.

use std::rc::Rc;

use stonecast_base::Nanoseconds;
use stonecast_fabric::{BusyPoll, Elapsed, Port};
use stonecast_fabric_shm::ShmDevice;
use stonecast_kv::limits::LOCATIONS;
use stonecast_kv::{CLIENT_COMPLETIONS, Client, ClientOptions, StoreError};

use super::devices::{Devices, OpenedDevice, SharedMemory};
use super::limit::{Piece, StoreMemory};
use crate::crowd::Crowd;

/// How long a client looks for its answer before it sleeps: longer than a sync takes, so that a wake-up is not part of
/// what is measured.
const SPIN_NS: Nanoseconds = 2_000_000;
/// A server accepts between two batches, and a batch is a sync at the longest.
const CONNECT_NS_MAX: Nanoseconds = 10_000_000_000;

/// See the module documentation.
pub struct Session {
    executor: BusyPoll,
    /// Where the server's memory is mapped.
    shared_memory: Option<Rc<ShmDevice>>,
    client: Client,
}

impl Session {
    /// Connects to the server at `address`, `shm:PATH`.
    pub fn open(address: &str) -> Result<Self, StoreError> {
        Self::open_with(&SharedMemory, address, LOCATIONS)
    }

    /// Connects to the server at `address`, with a device of `devices`, a client that remembers the places of `locations`
    /// keys.
    pub fn open_with(
        devices: &dyn Devices,
        address: &str,
        locations: usize,
    ) -> Result<Self, StoreError> {
        let options = ClientOptions {
            locations,
            ..ClientOptions::default()
        };
        let OpenedDevice {
            device,
            park,
            shared_memory,
        } = devices.open()?;
        let executor = BusyPoll::new(park, SPIN_NS);
        let port = Rc::new(Port::new(device, CLIENT_COMPLETIONS)?);
        executor.add_port(&port);
        let runtime = executor.runtime();
        let client = executor.block_on(async {
            let connected = Client::connect_with(options, port, executor.runtime(), address);
            let in_time = runtime.within(CONNECT_NS_MAX, connected).await;
            in_time.unwrap_or_else(|Elapsed| {
                Err(StoreError::refused(address, "the server does not answer"))
            })
        })?;
        Ok(Self {
            executor,
            shared_memory,
            client,
        })
    }

    /// The client.
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// The store's memory as it is mapped here. Reads `key`, which must be there, because a mapping is made by the first
    /// READ that needs it. `None` where nothing is mapped.
    pub fn store_memory(&self, key: &[u8]) -> Result<Option<StoreMemory>, StoreError> {
        self.block_on(self.client.get(key, &mut Vec::new()))?;
        Ok(self.mapped())
    }

    fn mapped(&self) -> Option<StoreMemory> {
        let device = self.shared_memory.as_ref()?;
        let yardstick = self.client.yardstick();
        let piece = |address| {
            let (memory, start) = device.peer_memory(yardstick.queue_pair, address)?;
            Some(Piece { memory, start })
        };
        Some(StoreMemory {
            index: piece(yardstick.index)?,
            index_size: yardstick.index_size,
            log: piece(yardstick.log)?,
            tag_key: yardstick.tag_key,
        })
    }

    /// Runs `work` to its end.
    pub fn block_on<T>(&self, work: impl Future<Output = T>) -> T {
        self.executor.block_on(work)
    }

    /// Runs `count` tasks side by side until all have ended. The first failure is returned.
    pub fn run_tasks<F>(&self, count: u32, mut task: impl FnMut() -> F) -> Result<(), StoreError>
    where
        F: Future<Output = Result<(), StoreError>> + 'static,
    {
        let crowd = Crowd::new();
        (0..count).for_each(|_| crowd.spawn(&*self.executor.runtime(), task()));
        self.executor.block_on(crowd.ends()).into_iter().collect()
    }

    /// Gives back what the client holds.
    pub fn close(self) {
        self.executor.block_on(self.client.close());
    }
}
