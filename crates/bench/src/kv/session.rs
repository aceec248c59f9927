//! A connection to a server, its device, and the loop that drives both. A session belongs to one thread.

use std::rc::Rc;
use std::time::Duration;

use stonecast::local::Connection;
use stonecast::{Connector, ErrorKind, OpenDevice};
use stonecast_fabric_shm::ShmDevice;
use stonecast_kv::limits::LOCATIONS;
use stonecast_kv::{Client, StoreError};

use super::devices::{Devices, OpenedDevice, SharedMemory};
use super::limit::{Piece, StoreMemory};
use crate::crowd::Crowd;

/// The time for which a client polls for its answer before it sleeps. The time is longer than a sync takes, so that a
/// wake-up is not part of the measurement.
const SPIN: Duration = Duration::from_millis(2);

/// A connection that one thread measures: the store's own client.
pub struct Session {
    connection: Connection,
    /// The device, if the server's memory is mapped into this process.
    shared_memory: Option<Rc<ShmDevice>>,
}

impl Session {
    /// Connects to the server at `address`, `shm:PATH`.
    pub fn open(address: &str) -> Result<Self, stonecast::Error> {
        Self::open_with(&SharedMemory, address, LOCATIONS)
    }

    /// Connects to the server at `address`, with a device of `devices` and a client that remembers the places of
    /// `locations` keys.
    pub fn open_with(
        devices: &dyn Devices,
        address: &str,
        locations: usize,
    ) -> Result<Self, stonecast::Error> {
        Self::connect(devices, address, locations, |connector, device| {
            connector.connect_on(device)
        })
    }

    /// Connects as [`Session::open_with`] does, for a server that has accepted other clients. A refusal is not followed
    /// by a second attempt, which would burden a server that lacks resources.
    pub fn open_another(
        devices: &dyn Devices,
        address: &str,
        locations: usize,
    ) -> Result<Self, stonecast::Error> {
        Self::connect(devices, address, locations, |connector, device| {
            Connection::over(device, connector)
        })
    }

    fn connect(
        devices: &dyn Devices,
        address: &str,
        locations: usize,
        connect: impl FnOnce(Connector, OpenDevice) -> Result<Connection, stonecast::Error>,
    ) -> Result<Self, stonecast::Error> {
        let connector = Connector::new(address)?
            .remembered_places(locations)
            .spin(SPIN);
        let OpenedDevice {
            device,
            shared_memory,
        } = devices.open()?;
        let connection = connect(connector, device)?;
        if connection.client().store().is_none() {
            let words = format!(
                "{address} is a cluster, and one server is measured, by a client that reads the memory of one server"
            );
            return Err(ErrorKind::Setup(words).into());
        }
        Ok(Self {
            connection,
            shared_memory,
        })
    }

    /// The client.
    pub fn client(&self) -> &Client {
        let store = self.handle().store();
        store.expect("a session is with one server")
    }

    /// The library's handle of the client.
    pub fn handle(&self) -> &stonecast::local::Client {
        self.connection.client()
    }

    /// Returns the store's memory, as mapped into this process. Reads `key`, which must exist, because the first READ
    /// that needs a mapping makes the mapping. `None` if nothing is mapped, or if the server has several shards, and so
    /// several indexes: the bare loop reads one index.
    pub fn store_memory(&self, key: &[u8]) -> Result<Option<StoreMemory>, StoreError> {
        self.block_on(self.client().get(key, &mut Vec::new()))?;
        Ok(self.mapped())
    }

    fn mapped(&self) -> Option<StoreMemory> {
        if self.client().shards() > 1 {
            return None;
        }
        let device = self.shared_memory.as_ref()?;
        let yardstick = self.client().yardstick()?;
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
        self.connection.run(async |_| work.await)
    }

    /// Runs `count` tasks side by side until all have ended. The first failure is returned.
    pub fn run_tasks<F>(&self, count: u32, mut task: impl FnMut() -> F) -> Result<(), StoreError>
    where
        F: Future<Output = Result<(), StoreError>> + 'static,
    {
        let crowd = Crowd::new();
        (0..count).for_each(|_| crowd.spawn(&**self.handle().runtime(), task()));
        self.block_on(crowd.ends()).into_iter().collect()
    }

    /// Gives back the client's leases and disconnects.
    pub fn close(self) {
        self.connection.close();
    }
}
