//! A server inside the program.
//!
//! ```
//! use stonecast::{Durability, Server, blocking};
//!
//! # let folder = tempfile::tempdir()?;
//! # let data = folder.path().join("pool");
//! let server = Server::builder(&data).durability(Durability::Process).serve()?;
//! let client = blocking::connect(&server.address().to_string())?;
//! client.put("greeting", "hello")?;
//! client.close();
//! server.shutdown()?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod builder;
mod node;
mod pool;
mod thread;

use std::cell::Cell;
use std::rc::Rc;

use stonecast_base::Nanoseconds;
use stonecast_fabric::{BusyPoll, Device, DeviceError, Port};
use stonecast_kv::limits::IN_FLIGHT_MAX;
use stonecast_media::MediaError;

use crate::address::Address;
use crate::error::Error;
use crate::open_device::OpenDevice;
use node::{Joining, check_log_of_appends};
pub(crate) use pool::{Origin, Wanted};

pub use builder::{Builder, Clients};
pub use node::NotANode;
pub use pool::PoolDescription;
pub use stonecast_kv::{Closing, Places, RecoveryReport};
pub use stonecast_media::Repair;
pub use thread::ServerHandle;
pub(crate) use thread::Threaded;

/// A server on the calling thread. [`Builder::open`] makes one; [`Builder::serve`] gives it a thread of its own.
///
/// ```
/// use std::time::{Duration, Instant};
/// use stonecast::{Durability, Server, server::Closing};
///
/// # let folder = tempfile::tempdir()?;
/// let server = Server::builder(folder.path().join("pool"))
///     .durability(Durability::Process)
///     .open()?;
/// assert!(server.opening().pool.is_new);
/// assert_eq!(server.opening().recovery.keys, 0);
/// let end = Instant::now() + Duration::from_millis(10);
/// server.run(&|| Instant::now() >= end)?;
/// assert!(server.take_trouble().is_none(), "the medium had room");
/// assert!(server.take_refusal().is_none(), "the device had room for each client");
/// assert_eq!(server.close()?, Closing::Clean);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Server {
    executor: BusyPoll,
    store: stonecast_kv::Server,
    addresses: Vec<Address>,
    opening: Opening,
    has_run: Cell<bool>,
    /// The last field to be dropped: a new pool that is given up is removed once nothing uses the pool.
    origin: Origin,
}

/// The result of opening the pool.
#[derive(Debug)]
pub struct Opening {
    /// The pool as it was before the opening.
    pub pool: PoolDescription,
    /// Parts of the pool's header that were damaged and were written again.
    pub repairs: Vec<Repair>,
    /// The report of the recovery.
    pub recovery: RecoveryReport,
}

/// The time for which a server polls for work before it sleeps. The time is longer than a client takes between an
/// answer and its next request, so that only a client that pauses pays for a wake-up. A node of a cluster, with which
/// its peers exchange leases some times a second, polls for this time once requests come often.
const SPIN_NS: Nanoseconds = 200_000;
/// The least number of entries of the server's completion queues: the number of answers for which all clients together
/// may wait.
const COMPLETIONS: u32 = 65_536;

impl Server {
    /// The options of a server of the pool at `data`: a folder, created if it does not exist, or a device of persistent
    /// memory.
    pub fn builder(data: impl Into<std::path::PathBuf>) -> Builder {
        Builder::new(data.into())
    }

    fn open(
        origin: Origin,
        device: OpenDevice,
        options: stonecast_kv::ServerOptions,
        addresses: Vec<Address>,
        joining: Option<Joining>,
    ) -> Result<Self, Error> {
        let OpenDevice { device, park } = device;
        let executor = match joining {
            Some(_) => BusyPoll::for_peers(park, SPIN_NS),
            None => BusyPoll::new(park, SPIN_NS),
        };
        let completions = COMPLETIONS.max((options.places.clients * IN_FLIGHT_MAX) as u32);
        let for_node = joining.as_ref().map_or(0, |joining| {
            let segment_size = origin.segment_size();
            joining.options(segment_size).completions(segment_size) as u32
        });
        let port = Rc::new(Port::new(device.clone(), completions + for_node)?);
        executor.add_port(&port);
        // Opening marks the pool as one that was not closed, so everything else that can be refused has been refused
        // before.
        let (pool, repairs) = origin.open()?;
        let world = (port, executor.runtime());
        let (store, recovery) = match joining {
            None => {
                let opened = stonecast_kv::Server::open(pool, world.0, world.1, options);
                executor.block_on(opened).map_err(Error::of_read)?
            }
            Some(joining) => {
                check_log_of_appends(&*device, &pool, &origin.description().data)?;
                // Peers connect as soon as the node is registered.
                listen_at_all(&*device, &addresses)?;
                let node = joining.options(pool.segment_size());
                let seat = joining.seat(&pool, world, &addresses)?;
                let joined = stonecast_kv::Server::join(pool, seat, options, &node);
                executor.block_on(joined).map_err(Error::of_read)?
            }
        };
        if store.member().is_none()
            && let Err(error) = listen_at_all(&*device, &addresses)
        {
            // No client was served, so every error of the close also shows at the next opening.
            let _ = executor.block_on(store.close());
            return Err(error);
        }
        origin.keep(true);
        Ok(Self {
            executor,
            store,
            addresses,
            opening: Opening {
                pool: origin.description().clone(),
                repairs,
                recovery,
            },
            has_run: Cell::new(false),
            origin,
        })
    }

    /// The addresses at which the server listens.
    pub fn addresses(&self) -> &[Address] {
        &self.addresses
    }

    /// The result of opening the pool.
    pub fn opening(&self) -> &Opening {
        &self.opening
    }

    /// Serves until `stop` returns true. `stop` is called between batches, and every 20 ms while there is nothing to
    /// do.
    ///
    /// # Errors
    ///
    /// A sync or a write-back failed: the server acknowledges nothing after that, and the pool has to be opened again.
    pub fn run(&self, stop: &dyn Fn() -> bool) -> Result<(), Error> {
        self.has_run.set(true);
        self.executor
            .block_on(self.store.run(stop))
            .map_err(Error::of_read)
    }

    /// Returns the reason why the medium has refused space since the last call; at most one reason a minute.
    pub fn take_trouble(&self) -> Option<MediaError> {
        self.store.take_trouble()
    }

    /// Returns the reason why a client was not accepted since the last call, if the server lacked a resource for the
    /// client; at most one reason a minute. The client is also told the reason.
    pub fn take_refusal(&self) -> Option<DeviceError> {
        self.store.take_refusal()
    }

    /// Takes the opening back, for a program that cannot continue: the pool is closed, and a pool that the opening
    /// created is removed, with the folders that were made for it. A pool on which the server has run may hold records,
    /// and is only closed.
    pub fn withdraw(self) {
        let Self {
            executor,
            store,
            origin,
            has_run,
            ..
        } = self;
        // No client was served, so every error of the close also shows at the next opening.
        let _ = executor.block_on(store.close());
        origin.keep(has_run.get());
        // The server's files must be gone from the folder before the folder is removed.
        drop(executor);
        drop(origin);
    }

    /// Ends in order: connections end, written segments are sealed, and the index is kept for the next opening.
    /// Returns how the pool was left. A server that is dropped instead leaves the pool as a crash does; no acknowledged
    /// write is lost.
    ///
    /// # Errors
    ///
    /// The medium failed. The pool opens as after a crash.
    pub fn close(self) -> Result<Closing, Error> {
        let Self {
            executor, store, ..
        } = self;
        executor.block_on(store.close()).map_err(Error::of_read)
    }
}

pub(crate) fn listen_at_all(device: &dyn Device, addresses: &[Address]) -> Result<(), Error> {
    for address in addresses {
        device.listen(&address.to_string())?;
    }
    Ok(())
}
