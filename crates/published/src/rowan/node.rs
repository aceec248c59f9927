//! A server: its threads and the state that they share.

use std::rc::Rc;

use futures_util::future::try_join_all;
use stonecast_fabric::{Access, Port, Runtime};
use stonecast_media::PersistentRegion;
use stonecast_persist::execute::Commit;

use super::RowanOptions;
use super::cleaner::clean_forever;
use super::control::Control;
use super::digest::{digest_all, digest_forever, recover};
use super::placement::Placement;
use super::store::Store;
use super::worker::Worker;
use crate::PublishedError;

/// A thread with its access to the network.
pub struct Seat {
    /// A port on a device of its own.
    pub port: Rc<Port>,
    /// The thread.
    pub runtime: Rc<dyn Runtime>,
}

/// The threads of a server.
pub struct Seats {
    /// The worker threads.
    pub workers: Vec<Seat>,
    /// The control thread.
    pub control: Seat,
    /// The digest threads.
    pub digesters: Vec<Rc<dyn Runtime>>,
    /// The cleaning threads.
    pub cleaners: Vec<Rc<dyn Runtime>>,
}

/// A server of Rowan-KV or of one of its rivals.
pub struct RowanServer {
    store: Rc<Store>,
    workers: Vec<Rc<Worker>>,
    control: Rc<Control>,
}

impl RowanServer {
    /// Opens server `server` in `memory`, rebuilds its indexes from what it finds there, and lets its threads run. The
    /// server takes requests when all servers are open and [`RowanServer::connect`] has ended.
    ///
    /// # Errors
    ///
    /// A device refused an object.
    pub fn open(
        options: &RowanOptions,
        server: u32,
        placement: Rc<Placement>,
        memory: Rc<dyn PersistentRegion>,
        commit: Commit,
        seats: Seats,
    ) -> Result<Self, PublishedError> {
        let device = seats.control.port.device();
        let region = device.allocate(Store::dram_size(options), Access::NONE)?;
        let dram = device.memory(region);
        let store = Store::new(options.clone(), server, placement, memory, commit, dram);
        let store = Rc::new(store);
        recover(&store);
        let control = Rc::new(Control::open(store.clone(), &seats.control)?);
        let mut workers = Vec::new();
        for (number, seat) in (0..).zip(&seats.workers) {
            let worker = Rc::new(Worker::open(store.clone(), number, seat)?);
            seat.runtime.spawn(Box::pin(worker.clone().run()));
            workers.push(worker);
        }
        let running = control.clone();
        seats.control.runtime.spawn(Box::pin(async move {
            // The thread ends with its device or its memory, and the server with it.
            let _ = running.run().await;
        }));
        for runtime in seats.digesters {
            let digesting = digest_forever(store.clone(), runtime.clone());
            runtime.spawn(Box::pin(digesting));
        }
        for runtime in seats.cleaners {
            let cleaning = clean_forever(store.clone(), runtime.clone());
            runtime.spawn(Box::pin(cleaning));
        }
        Ok(Self {
            store,
            workers,
            control,
        })
    }

    /// Connects the threads to those of the other servers.
    ///
    /// # Errors
    ///
    /// A server is not open.
    pub async fn connect(&self) -> Result<(), PublishedError> {
        try_join_all(self.workers.iter().map(|worker| worker.connect())).await?;
        self.control.connect().await
    }

    /// Enters everything that the logs of other servers hold at this moment into the indexes. The configuration manager
    /// lets a backup do so before the backup becomes the primary of a shard ([`Placement::place`]).
    pub fn digest_all(&self) {
        digest_all(&self.store);
    }

    /// Full segments of the backups' logs that wait for a digest thread.
    pub fn undigested(&self) -> usize {
        self.store.undigested()
    }

    /// Segments that are free.
    pub fn free_segments(&self) -> usize {
        self.store.segments.free()
    }
}
