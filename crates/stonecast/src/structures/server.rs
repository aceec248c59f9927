//! A back-end of data structures inside the program.

use std::path::{Path, PathBuf};
use std::pin::pin;
use std::rc::Rc;
use std::time::Duration;

use futures_util::FutureExt as _;
use stonecast_base::{Nanoseconds, Span};
use stonecast_fabric::{BusyPoll, Device, Port};
use stonecast_fabric_shm::{ShmDevice, ShmOptions};
use stonecast_media::{
    Backing as _, Content, DirectoryBacking, Durability, LogOptions, OpenMode, PersistenceDomain,
    Pool, Prepared, inspect_backing,
};
use stonecast_structures::{
    LogKey, Medium, PoolGeometry, SERVICE_COMPLETIONS, Service, StructurePool, SurveyedDomain,
    survey,
};

use crate::address::Address;
use crate::connector::nanoseconds;
use crate::error::{Error, ErrorKind};
use crate::open_device::OpenDevice;
use crate::server::{Origin, PoolDescription, Threaded, Wanted};

/// Bytes of a new pool in a folder.
const CAPACITY: u64 = 256 << 20;
/// A tenure whose owner is silent for so long is ended.
const LEASE: Duration = Duration::from_secs(10);
/// The time for which a back-end polls for work before it sleeps.
const SPIN_NS: Nanoseconds = 200_000;
/// The time between two looks at whether the back-end is to end.
const STOP_LOOK_NS: Nanoseconds = 20_000_000;
/// Lock domains of a new pool.
const DOMAINS: u32 = 64;
/// Bytes of a slab of a new pool: the longest record fits twice.
const SLAB_SIZE_MIN: u64 = 4 << 20;
/// Bytes of a slab of a pool that is too small for such slabs.
const SLAB_SIZE_SMALL: u64 = 1 << 20;
/// Bytes of a piece of a pool that is copied.
const COPIED_SIZE: usize = 1 << 20;
/// Slabs of a pool, about.
const SLABS: u64 = 256;

/// The options of a back-end. [`Server::builder`] makes the default ones.
///
/// If the pool exists, the settings that a pool is made with ([`Builder::durability`], [`Builder::platform`], [`Builder::capacity`]) must be those of the
/// pool; settings that are not given are taken from the pool.
#[derive(Clone, Debug)]
pub struct Builder {
    wanted: Wanted,
    listen: Vec<Address>,
    lease: Duration,
    quota: Option<u64>,
}

impl Builder {
    /// Sets the failures that acknowledged updates survive. By default, power loss for a new pool.
    #[must_use]
    pub fn durability(mut self, durability: Durability) -> Self {
        self.wanted.durability = Some(durability);
        self
    }

    /// Declares the persistence domain of the pool's memory, as [`crate::server::Builder::platform`].
    #[must_use]
    pub fn platform(mut self, domain: PersistenceDomain) -> Self {
        self.wanted.domain = Some(domain);
        self
    }

    /// Sets the number of bytes of a new pool. By default, 256 MiB in a folder, and all of a device.
    #[must_use]
    pub fn capacity(mut self, bytes: u64) -> Self {
        self.wanted.capacity = Some(bytes);
        self
    }

    /// Adds an address to listen at. `shm:DIR/socket` by default.
    #[must_use]
    pub fn listen(mut self, address: Address) -> Self {
        self.listen.push(address);
        self
    }

    /// Sets the time after which a writer that is silent loses its tenure, and another one may follow. 10 seconds by default. A writer whose process
    /// dies loses it at once.
    #[must_use]
    pub fn lease(mut self, lease: Duration) -> Self {
        self.lease = lease;
        self
    }

    /// Sets the bytes of memory that a lock domain may have, its log left out: whole slabs, one at least. By default, all of the pool. A lock domain that has more keeps it.
    #[must_use]
    pub fn quota(mut self, bytes: u64) -> Self {
        self.quota = Some(bytes);
        self
    }

    /// Opens or creates the pool, and serves it from a thread of its own. Front-ends can connect when the call returns.
    ///
    /// # Errors
    ///
    /// The same as [`Builder::open`].
    pub fn serve(self) -> Result<ServerHandle, Error> {
        let started = Threaded::start("stonecast-structures", move |stop, report| {
            let mut server = self.open()?;
            report(server.addresses());
            server.run(stop)?;
            server.close()
        });
        started.map(ServerHandle)
    }

    /// Opens or creates the pool, ends the tenures of earlier runs, and listens. The back-end answers no front-end before [`Server::run`].
    ///
    /// # Errors
    ///
    /// The pool is in use, damaged, one of keys and values, or made with other settings than asked for; no plan makes updates durable on the platform
    /// that the pool declares; the back-end cannot listen at an address.
    pub fn open(self) -> Result<Server, Error> {
        self.open_on(|_| Ok(OpenDevice::new(ShmDevice::new(ShmOptions::default())?)))
    }

    /// Does the same as [`Builder::open`], over a device of the caller.
    ///
    /// # Errors
    ///
    /// The same as [`Builder::open`], and the error that `device` returns.
    pub fn open_on(
        self,
        device: impl FnOnce(&PoolDescription) -> Result<OpenDevice, Error>,
    ) -> Result<Server, Error> {
        let mut wanted = self.wanted;
        if wanted.capacity.is_none() && !is_device(&wanted.data) {
            wanted.capacity = Some(CAPACITY);
        }
        let asked = wanted.clone();
        let origin = Origin::find(&wanted).or_else(|error| match error.kind() {
            // The default is for new pools.
            ErrorKind::OtherSetting {
                setting: "capacity",
                ..
            } if asked.capacity == Some(CAPACITY) => Origin::find(&Wanted {
                capacity: None,
                ..asked
            }),
            _ => Err(error),
        })?;
        let OpenDevice { device, park } = device(origin.description())?;
        let executor = BusyPoll::new(park, SPIN_NS);
        let port = Rc::new(Port::new(device.clone(), SERVICE_COMPLETIONS)?);
        executor.add_port(&port);
        let addresses = match self.listen {
            named if !named.is_empty() => named,
            _ => vec![Address::of_pool(&wanted.data)],
        };
        let (pool, _repairs) = origin.open()?;
        let service = executor.block_on(start(
            &pool,
            (port, executor.runtime()),
            (&*device, &addresses),
            nanoseconds(self.lease),
        ))?;
        let slab_size = geometry_of(pool.capacity()).slab_size;
        let service = match self.quota {
            Some(bytes) => service.with_quota((bytes / slab_size).max(1)),
            None => service,
        };
        origin.keep(true);
        Ok(Server {
            executor,
            service,
            addresses,
            pool,
            description: origin.description().clone(),
        })
    }
}

fn is_device(data: &Path) -> bool {
    use std::os::unix::fs::FileTypeExt as _;
    std::fs::metadata(data).is_ok_and(|status| status.file_type().is_char_device())
}

/// Looks at everything in the pool at `data`, on a copy in `folder`, which has to have room for the whole pool: the copy is opened as a back-end opens a pool, and
/// each structure and each block is visited. The pool must not be served, and is not changed.
///
/// # Errors
///
/// The pool is in use, of keys and values, or so damaged that no back-end opens it. Damage of a lock domain is part of the result.
pub fn verify(data: &Path, folder: &Path) -> Result<Vec<SurveyedDomain>, Error> {
    let backing = inspect_backing(data)?;
    if let Some(process) = backing.in_use_by() {
        return Err(failed(format!(
            "{} is in use by process {process}, which changes it; stop that back-end first",
            data.display()
        )));
    }
    let (pool, _) = Pool::open_of(Content::Structures, backing, OpenMode::Inspect)?;
    let copy = DirectoryBacking::create(folder)?;
    let declared = (pool.platform(), Durability::Process);
    let region = copy.open_log(LogOptions {
        capacity: pool.capacity(),
        platform: declared.0,
        durability: declared.1,
    })?;
    let (mut bytes, original) = (vec![0; COPIED_SIZE], pool.log());
    let mut offset = 0;
    while offset < pool.capacity() {
        let size = (pool.capacity() - offset).min(COPIED_SIZE as u64);
        let bytes = &mut bytes[..size as usize];
        original.read(offset, bytes);
        // Unprepared bytes read as zero.
        if bytes.iter().any(|byte| *byte != 0) {
            while copy.prepare(Span::new(offset, size))? == Prepared::Pending {
                std::thread::yield_now();
            }
            region.write(offset, bytes);
        }
        offset += size;
    }
    while copy.prepare(Span::new(0, pool.capacity()))? == Prepared::Pending {
        std::thread::yield_now();
    }
    let key = LogKey(pool.tag_key());
    let medium = Medium::new(region, declared, key, pool.uuid().as_u128()).map_err(failed)?;
    let surveying = pin!(survey(Rc::new(medium)));
    match surveying.now_or_never() {
        Some(found) => found.map_err(failed),
        None => unreachable!("memory that outlives processes lets nobody wait"),
    }
}

/// Opens the pool of structures in `pool`, or makes it.
async fn start(
    pool: &Pool,
    (port, runtime): (Rc<Port>, Rc<dyn stonecast_fabric::Runtime>),
    (device, addresses): (&dyn Device, &[Address]),
    lease_ns: Nanoseconds,
) -> Result<Service, Error> {
    let backing = pool.backing();
    let whole = Span::new(0, pool.capacity());
    while backing.prepare(whole)? == Prepared::Pending {
        runtime.sleep(100_000).await;
    }
    let declared = (pool.platform(), pool.durability());
    let medium = Medium::new(
        pool.log(),
        declared,
        LogKey(pool.tag_key()),
        pool.uuid().as_u128(),
    );
    let medium = medium.map_err(|error| ErrorKind::Setup(error.to_string()))?;
    let medium = medium.until(Rc::new(move || backing.earlier_writers_are_gone()));
    let medium = Rc::new(medium);
    let geometry = geometry_of(pool.capacity());
    if !StructurePool::was_created(&medium, &geometry) {
        let made = StructurePool::create(medium.clone(), geometry).await;
        drop(made.map_err(failed)?);
    }
    for address in addresses.iter().skip(1) {
        device.listen(&address.to_string())?;
    }
    let first = addresses[0].to_string();
    let service = Service::start(port, runtime, medium, (&first, lease_ns)).await;
    service.map_err(failed)
}

/// The sizes of a new pool of `capacity` bytes.
fn geometry_of(capacity: u64) -> PoolGeometry {
    let least = match capacity >= 32 * SLAB_SIZE_MIN {
        true => SLAB_SIZE_MIN,
        false => SLAB_SIZE_SMALL,
    };
    let slab_size = (capacity / SLABS).next_power_of_two().max(least);
    let mut geometry = PoolGeometry {
        domains: DOMAINS,
        slab_size,
        slab_count: capacity / slab_size,
    };
    while geometry.pool_size() > capacity {
        geometry.slab_count -= 1;
    }
    geometry
}

fn failed(error: impl std::fmt::Display) -> Error {
    ErrorKind::Setup(error.to_string()).into()
}

/// A back-end of data structures on the calling thread. [`Builder::open`] makes one; [`Builder::serve`] gives it a thread of its own.
pub struct Server {
    executor: BusyPoll,
    service: Service,
    addresses: Vec<Address>,
    pool: Pool,
    description: PoolDescription,
}

impl Server {
    /// The options of a back-end of the pool at `data`: a folder, created if it does not exist, or a device of persistent memory.
    ///
    /// ```
    /// use stonecast::Durability;
    /// use stonecast::structures::Server;
    ///
    /// # let folder = tempfile::tempdir()?;
    /// let server = Server::builder(folder.path().join("pool"))
    ///     .durability(Durability::Process)
    ///     .capacity(32 << 20)
    ///     .serve()?;
    /// println!("front-ends connect to {}", server.address());
    /// server.shutdown()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn builder(data: impl Into<PathBuf>) -> Builder {
        let mut wanted = Wanted::new(data.into());
        wanted.content = Content::Structures;
        Builder {
            wanted,
            listen: Vec::new(),
            lease: LEASE,
            quota: None,
        }
    }

    /// The addresses at which the back-end listens.
    pub fn addresses(&self) -> &[Address] {
        &self.addresses
    }

    /// The pool as it was before it was opened.
    pub fn description(&self) -> &PoolDescription {
        &self.description
    }

    /// Serves until `stop` returns true. `stop` is called every 20 ms.
    ///
    /// # Errors
    ///
    /// The medium failed: nothing is acknowledged after that, and the pool has to be opened anew.
    pub fn run(&mut self, stop: &dyn Fn() -> bool) -> Result<(), Error> {
        let runtime = self.executor.runtime();
        self.executor.block_on(async {
            let mut serving = pin!(self.service.run());
            while !stop() {
                if let Ok(ended) = runtime.within(STOP_LOOK_NS, serving.as_mut()).await {
                    return ended.map_err(failed);
                }
            }
            Ok(())
        })
    }

    /// Ends in order. The next opening hands the tenures over.
    ///
    /// # Errors
    ///
    /// The medium failed. The pool opens as after a crash.
    pub fn close(self) -> Result<(), Error> {
        drop(self.service);
        Ok(self.pool.close()?)
    }
}

/// A back-end in a thread of its own. Dropping the handle ends the back-end in order and waits for the end; only
/// [`ServerHandle::shutdown`] returns the outcome.
pub struct ServerHandle(Threaded<()>);

impl ServerHandle {
    /// The address for front-ends: the first at which the back-end listens.
    pub fn address(&self) -> &Address {
        self.0.address()
    }

    /// Returns whether the back-end has ended by itself; [`ServerHandle::shutdown`] tells why.
    pub fn has_ended(&self) -> bool {
        self.0.has_ended()
    }

    /// Ends the back-end in order, and waits for the end.
    ///
    /// # Errors
    ///
    /// The error that ended the back-end earlier, or the medium failed at the end.
    ///
    /// # Panics
    ///
    /// With the panic of the back-end's thread, which means a broken invariant.
    pub fn shutdown(self) -> Result<(), Error> {
        self.0.shutdown()
    }
}
