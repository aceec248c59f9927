//! A back-end of data structures inside the program, or a mirror of one.

use std::path::{Path, PathBuf};
use std::pin::pin;
use std::rc::Rc;
use std::time::Duration;

use stonecast_base::Nanoseconds;
use stonecast_fabric::{BusyPoll, Port, Runtime};
use stonecast_fabric_shm::{ShmDevice, ShmOptions};
use stonecast_media::{Durability, PersistenceDomain, Pool};
use stonecast_structures::{
    DomainError, MirrorServer, Promoted, Replayed, SERVICE_COMPLETIONS, Service, ServiceError,
    StandingStore, StructurePool,
};

use super::mirror::{MirrorError, attach};
use super::pool::{content_of, copy_of, geometry_of, prepare, wanted};
use super::standing::{self, StandingNotes};
use crate::address::Address;
use crate::connector::nanoseconds;
use crate::error::{Error, ErrorKind};
use crate::open_device::OpenDevice;
use crate::server::{Origin, PoolDescription, Threaded, Wanted};

/// Bytes of a new pool in a folder.
const CAPACITY: u64 = 256 << 20;
/// The time of silence after which the tenure of an owner is ended.
const LEASE: Duration = Duration::from_secs(10);
/// The time after the last message of a back-end before which its mirror is not promoted.
const MIRROR_LEASE: Duration = Duration::from_secs(5);
/// The time for which a back-end polls for work before it sleeps.
const SPIN_NS: Nanoseconds = 200_000;
/// The time between two looks at whether the back-end is to end.
const STOP_LOOK_NS: Nanoseconds = 20_000_000;

/// The options of a back-end. [`Server::builder`] makes the default ones.
///
/// ```
/// use std::time::Duration;
///
/// use stonecast::Durability;
/// use stonecast::structures::Server;
///
/// # let folder = tempfile::tempdir()?;
/// let mut server = Server::builder(folder.path().join("pool"))
///     .durability(Durability::Process)
///     .capacity(32 << 20)
///     .lease(Duration::from_secs(2)) // a silent writer is followed after two seconds
///     .quota(8 << 20)
///     .open()?;
/// assert!(server.description().data.ends_with("pool"));
/// assert!(!server.is_mirror());
/// server.run(&|| true)?; // on this thread, until the closure says so
/// server.close()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// If the pool exists, the settings that a pool is made with ([`Builder::durability`], [`Builder::platform`],
/// [`Builder::capacity`]) must be those of the pool; settings that are not given are taken from the pool.
#[derive(Clone, Debug)]
pub struct Builder {
    wanted: Wanted,
    listen: Vec<Address>,
    lease: Duration,
    quota: Option<u64>,
    mirroring: Mirroring,
}

/// The role of a server among the copies of its content.
#[derive(Clone, Debug)]
struct Mirroring {
    /// The mirror of a back-end.
    mirror: Option<Address>,
    /// The lease of the back-end at its mirror.
    lease: Duration,
    is_mirror: bool,
    /// The store of the standing record.
    store: Option<String>,
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

    /// Sets the number of bytes of a new pool. By default, 256 MiB in a folder, and all of a device of persistent
    /// memory.
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

    /// Sets the time after which a writer that is silent loses its tenure, so that another writer may follow. 10
    /// seconds by default. A writer whose process dies loses it at once.
    #[must_use]
    pub fn lease(mut self, lease: Duration) -> Self {
        self.lease = lease;
        self
    }

    /// Sets the bytes of memory that a lock domain may have, its log left out: whole slabs, at least one. By default,
    /// all of the pool. A lock domain that already has more memory keeps it.
    #[must_use]
    pub fn quota(mut self, bytes: u64) -> Self {
        self.quota = Some(bytes);
        self
    }

    /// Names the mirror: the server at this address holds a copy of the pool ([`Builder::as_mirror`]), and nothing is
    /// acknowledged before it is durable in both. The address is of the kind at which the back-end listens. The pool of
    /// the mirror has at least the capacity of this one, and survives at least the same crashes.
    ///
    /// The opening waits for the mirror for 10 seconds. A new mirror is filled while the back-end serves
    /// ([`super::MirrorStat`]); from then on the back-end is *bound* to it: the pool opens with this mirror alone, or
    /// after it was detached ([`super::detach`]), and the back-end ends when the mirror is lost
    /// ([`MirrorError::Lost`]).
    ///
    /// A crash leaves both pools as a power cut leaves them; the next opening makes them equal, and the mirror may be
    /// promoted instead ([`super::promote`]).
    #[must_use]
    pub fn mirror(mut self, address: Address) -> Self {
        self.mirroring.mirror = Some(address);
        self
    }

    /// Sets the time after the last message of this back-end before which its mirror is not promoted. 5 seconds by
    /// default. A back-end that has heard nothing from its mirror for this long ends. A promotion waits for a sixteenth
    /// more than this.
    #[must_use]
    pub fn mirror_lease(mut self, lease: Duration) -> Self {
        self.mirroring.lease = lease;
        self
    }

    /// Serves the pool as the mirror of the back-end that names this server ([`Builder::mirror`]), until the mirror is
    /// promoted ([`super::promote`]): from then on, and after each later opening, the pool is the back-end's. A pool
    /// without structures counts as new. A back-end of an earlier generation gives up what its successor does not have.
    ///
    /// A crash leaves the mirror a mirror, with everything that its back-end has acknowledged.
    #[must_use]
    pub fn as_mirror(mut self) -> Self {
        self.mirroring.is_mirror = true;
        self
    }

    /// Names the store of the *standing record* that this server shares with its mirror, or with its back-end:
    /// `file:PATH`, `etcd://HOST:PORT/NAME` or `etcds://HOST:PORT/NAME?cacert=FILE`, one for each back-end and its
    /// mirror. Both servers name the same store.
    ///
    /// The record is changed by compare-and-swap alone. A mirror promotes itself when its back-end has been silent for
    /// its lease ([`Builder::mirror_lease`]) and a sixteenth, and a pool is detached by [`super::detach_recorded`]:
    /// only one of the two happens. An old back-end learns from the record that it was succeeded
    /// ([`MirrorError::Record`]). While the store is unreachable, the servers go on, and promotion and binding wait
    /// ([`Server::standing_notes`]).
    ///
    /// A pool keeps its record: from then on, it is opened only with the store. A crash between the record and a pool
    /// leaves the decision to the record, and the next opening notes it in the pool.
    ///
    /// ```
    /// use std::time::{Duration, Instant};
    /// use stonecast::Durability;
    /// use stonecast::structures::{self, Server};
    ///
    /// # let folder = tempfile::tempdir()?;
    /// # let (first, second) = (folder.path().join("first"), folder.path().join("second"));
    /// let store = format!("file:{}", folder.path().join("record").display());
    /// let pool = |data| {
    ///     let pool = Server::builder(data).durability(Durability::Process).capacity(16 << 20);
    ///     pool.cluster(&store)
    /// };
    /// let mirror = pool(second).as_mirror().serve()?;
    /// let back_end = pool(first)
    ///     .mirror(mirror.address().clone())
    ///     .mirror_lease(Duration::from_secs(1))
    ///     .serve()?;
    /// # let connection = structures::connect(&back_end.address().to_string())?;
    /// # connection.run(async |session| {
    /// #     while !session.metrics().await?.stat.mirror.is_bound {
    /// #         session.within(Duration::from_millis(1), std::future::pending::<()>()).await;
    /// #     }
    /// #     Ok::<(), structures::Error>(())
    /// # })?;
    /// # drop(connection);
    /// back_end.shutdown()?; // the mirror is not promoted
    /// let end = Instant::now() + Duration::from_secs(60);
    /// while structures::connect(&mirror.address().to_string()).is_err() {
    ///     assert!(Instant::now() < end);
    ///     std::thread::sleep(Duration::from_millis(10));
    /// }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn cluster(mut self, url: impl Into<String>) -> Self {
        self.mirroring.store = Some(url.into());
        self
    }

    /// Opens or creates the pool, and serves it from a thread of its own. Front-ends can connect when the call returns;
    /// to a mirror, once it is promoted.
    ///
    /// # Errors
    ///
    /// The errors of [`Builder::open`].
    pub fn serve(self) -> Result<ServerHandle, Error> {
        let started = Threaded::start("stonecast-structures", move |stop, report| {
            let server = self.clone().open()?;
            report(server.addresses());
            server.serve(stop, || self.clone().open())
        });
        started.map(ServerHandle)
    }

    /// Opens or creates the pool, ends the tenures of earlier runs, and listens. The back-end answers no front-end
    /// before [`Server::run`].
    ///
    /// # Errors
    ///
    /// The pool is in use, damaged, one of keys and values, or made with other settings than asked for; no plan makes
    /// updates durable on the platform that the pool declares; the back-end cannot listen at an address.
    /// [`MirrorError`]: the pool may not be served in this way, or the mirror is not reached.
    pub fn open(self) -> Result<Server, Error> {
        self.open_on(|_| Ok(OpenDevice::new(ShmDevice::new(ShmOptions::default())?)))
    }

    /// Opens the pool as [`Builder::open`] does, over a device of the caller.
    ///
    /// # Errors
    ///
    /// The errors of [`Builder::open`], and the error that `device` returns.
    pub fn open_on(
        self,
        device: impl FnOnce(&PoolDescription) -> Result<OpenDevice, Error>,
    ) -> Result<Server, Error> {
        if self.mirroring.is_mirror && self.mirroring.mirror.is_some() {
            return Err(MirrorError::Both.into());
        }
        let store = self.mirroring.store.as_deref().map(standing::open);
        let store = store.transpose()?;
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
        let opened = device(origin.description())?;
        let device = opened.device.clone();
        let (executor, port) = opened.drive(SPIN_NS, SERVICE_COMPLETIONS)?;
        let addresses = match self.listen {
            named if !named.is_empty() => named,
            _ => vec![Address::of_pool(&wanted.data)],
        };
        self.mirroring.check(&addresses[0])?;
        let (pool, _repairs) = origin.open()?;
        let world = (port, executor.runtime());
        executor.block_on(prepare(&pool, &world.1))?;
        for address in addresses.iter().skip(1) {
            device.listen(&address.to_string())?;
        }
        let record = store.map(|store| standing::record_of(store, world.1.clone(), &pool));
        let record_of = record.as_ref();
        let is_mirror = executor.block_on(self.mirroring.is_mirror_of(&pool, record_of))?;
        let serving = if is_mirror {
            let of = (&*wanted.data, &addresses[0]);
            Serving::Mirror(start_mirror(&pool, world, of, record_of)?)
        } else {
            let of = (&addresses[0], nanoseconds(self.lease));
            let service = start(&pool, world, of, self.mirroring.attachment(), record_of);
            let service = executor.block_on(service)?;
            let slabs = self.quota.map(|bytes| bytes / service.slab_size());
            Serving::BackEnd(match slabs {
                Some(slabs) => service.with_quota(slabs.max(1)),
                None => service,
            })
        };
        origin.keep(true);
        Ok(Server {
            executor,
            serving,
            record,
            addresses,
            pool,
            description: origin.description().clone(),
        })
    }
}

impl Mirroring {
    /// Refuses a mirror that the device of the back-end does not reach.
    fn check(&self, listen: &Address) -> Result<(), Error> {
        let is_same = |mirror: &Address| {
            !mirror.is_cluster() && mirror.socket().is_some() == listen.socket().is_some()
        };
        match &self.mirror {
            Some(mirror) if !is_same(mirror) => Err(MirrorError::OtherKind {
                mirror: mirror.clone(),
                listen: listen.clone(),
            }
            .into()),
            _ => Ok(()),
        }
    }

    /// Whether the server of this pool is a mirror. A pool that was promoted is the back-end's, whatever the settings
    /// of its server, unless the standing record says that the pool was succeeded.
    async fn is_mirror_of(
        &self,
        pool: &Pool,
        record: Option<&Rc<StandingStore>>,
    ) -> Result<bool, Error> {
        let promoted = Promoted::of(&*pool.log());
        if !self.is_mirror || promoted.is_none_or(|known| known.is_bound) {
            return Ok(self.is_mirror);
        }
        Ok(match record {
            Some(record) => record.was_succeeded(&content_of(pool, None)?).await,
            None => false,
        })
    }

    /// The mirror, and the lease there.
    fn attachment(&self) -> Option<(&Address, Nanoseconds)> {
        let lease_ns = nanoseconds(self.lease);
        self.mirror.as_ref().map(|mirror| (mirror, lease_ns))
    }
}

fn is_device(data: &Path) -> bool {
    use std::os::unix::fs::FileTypeExt as _;
    std::fs::metadata(data).is_ok_and(|status| status.file_type().is_char_device())
}

/// Serves the pool as a mirror.
fn start_mirror(
    pool: &Pool,
    (port, runtime): (Rc<Port>, Rc<dyn Runtime>),
    (data, address): (&Path, &Address),
    record: Option<&Rc<StandingStore>>,
) -> Result<MirrorServer, Error> {
    if MirrorServer::has_own_content(&*pool.log()) {
        let data = data.to_owned();
        return Err(MirrorError::OwnContent { data }.into());
    }
    let medium = Rc::new(copy_of(pool, record)?);
    MirrorServer::start(port, runtime, medium, &address.to_string()).map_err(ended)
}

/// Opens the pool of structures in `pool`, or makes it.
async fn start(
    pool: &Pool,
    (port, runtime): (Rc<Port>, Rc<dyn Runtime>),
    (address, lease_ns): (&Address, Nanoseconds),
    mirror: Option<(&Address, Nanoseconds)>,
    record: Option<&Rc<StandingStore>>,
) -> Result<Service, Error> {
    let medium = Rc::new(content_of(pool, record)?);
    let geometry = geometry_of(pool.capacity());
    if !StructurePool::was_created(&medium, &geometry) {
        let made = StructurePool::create(medium.clone(), geometry).await;
        drop(made.map_err(failed)?);
    }
    let address = address.to_string();
    let of = (&*address, lease_ns);
    let Some(mirror) = mirror else {
        let service = Service::start(port, runtime, medium, of).await;
        return service.map_err(ended);
    };
    let (medium, link) = attach(pool, &port, &runtime, mirror, record).await?;
    let service = Service::start(port, runtime, medium, of).await;
    Ok(service.map_err(ended)?.with_mirror(link))
}

/// The error of a server that has ended by itself.
fn ended(error: ServiceError) -> Error {
    match error {
        ServiceError::Standing(standing) => MirrorError::from(standing).into(),
        ServiceError::Record(record) => MirrorError::from(record).into(),
        ServiceError::Mirror(lost) | ServiceError::Domain(DomainError::Mirror(lost)) => {
            MirrorError::from(lost).into()
        }
        error => failed(error),
    }
}

pub(super) fn failed(error: impl std::fmt::Display) -> Error {
    ErrorKind::Setup(error.to_string()).into()
}

/// The work of a server.
enum Serving {
    BackEnd(Service),
    Mirror(MirrorServer),
}

/// The reason why a server has ended without an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The program stopped the server.
    Stopped,
    /// The mirror was promoted: close the server, and open its pool as the back-end's.
    Promoted,
}

/// A back-end of data structures on the calling thread, or a mirror. [`Builder::open`] makes one; [`Builder::serve`]
/// gives it a thread of its own.
pub struct Server {
    executor: BusyPoll,
    serving: Serving,
    record: Option<Rc<StandingStore>>,
    addresses: Vec<Address>,
    pool: Pool,
    description: PoolDescription,
}

impl Server {
    /// The options of a back-end of the pool at `data`: a folder, created if it does not exist, or a device of
    /// persistent memory.
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
        Builder {
            wanted: wanted(&data.into()),
            listen: Vec::new(),
            lease: LEASE,
            quota: None,
            mirroring: Mirroring {
                mirror: None,
                lease: MIRROR_LEASE,
                is_mirror: false,
                store: None,
            },
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

    /// The part of the logs of an earlier run that the opening has replayed, if that run did not end in order. A mirror
    /// replays nothing.
    ///
    /// ```
    /// use stonecast::Durability;
    /// use stonecast::structures::{Replayed, Server};
    ///
    /// # let folder = tempfile::tempdir()?;
    /// let server = Server::builder(folder.path().join("pool"))
    ///     .durability(Durability::Process)
    ///     .capacity(16 << 20)
    ///     .open()?;
    /// let Replayed { log_bytes, executed } = server.replayed();
    /// assert_eq!((log_bytes, executed), (0, 0)); // a new pool
    /// server.close()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn replayed(&self) -> Replayed {
        match &self.serving {
            Serving::BackEnd(service) => service.replayed(),
            Serving::Mirror(_) => Replayed::default(),
        }
    }

    /// Whether the server is a mirror, which serves no front-end.
    pub fn is_mirror(&self) -> bool {
        matches!(self.serving, Serving::Mirror(_))
    }

    /// The words about the standing record, for the log of the program; `None`: the server has none
    /// ([`Builder::cluster`]). The caller asks now and then, such as in the closure of [`Server::run`].
    ///
    /// ```
    /// use stonecast::Durability;
    /// use stonecast::structures::Server;
    ///
    /// # let folder = tempfile::tempdir()?;
    /// let mut server = Server::builder(folder.path().join("pool"))
    ///     .durability(Durability::Process)
    ///     .capacity(16 << 20)
    ///     .cluster(format!("file:{}", folder.path().join("record").display()))
    ///     .open()?;
    /// let notes = server.standing_notes().expect("it names a store");
    /// server.run(&|| {
    ///     if let Some(words) = notes.take() {
    ///         eprintln!("{words}"); // such as: the store is away, and promotion waits
    ///     }
    ///     true
    /// })?;
    /// server.close()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn standing_notes(&self) -> Option<StandingNotes> {
        self.record.as_ref().map(StandingNotes::of)
    }

    /// Serves until `stop` returns true, or until the mirror is promoted. `stop` is called every 20 ms.
    ///
    /// # Errors
    ///
    /// The medium failed, or the mirror is lost ([`MirrorError::Lost`]): nothing is acknowledged after that, and the
    /// pool has to be opened anew.
    pub fn run(&mut self, stop: &dyn Fn() -> bool) -> Result<End, Error> {
        let runtime = self.executor.runtime();
        let serving = &mut self.serving;
        self.executor.block_on(async {
            let mut working = pin!(async {
                match serving {
                    Serving::BackEnd(service) => service.run().await.map(|()| End::Stopped),
                    Serving::Mirror(server) => server.run().await.map(|_| End::Promoted),
                }
            });
            while !stop() {
                if let Ok(end) = runtime.within(STOP_LOOK_NS, working.as_mut()).await {
                    return end.map_err(ended);
                }
            }
            Ok(End::Stopped)
        })
    }

    /// Serves until `stop` returns true, and ends in order. A mirror that is promoted in the meantime is closed, and
    /// continues as the back-end that `reopen` opens. `stop` is called every 20 ms.
    ///
    /// # Errors
    ///
    /// The errors of [`Server::run`] and [`Server::close`], and the error that `reopen` returns.
    pub fn serve<E: From<Error>>(
        mut self,
        stop: &dyn Fn() -> bool,
        reopen: impl Fn() -> Result<Self, E>,
    ) -> Result<(), E> {
        while self.run(stop)? == End::Promoted {
            self.close()?;
            self = reopen()?;
        }
        Ok(self.close()?)
    }

    /// Ends in order. The next opening of a back-end hands the tenures over. The next opening of a mirror continues as
    /// a mirror, or as the back-end if the mirror was promoted.
    ///
    /// # Errors
    ///
    /// The medium failed. The pool opens as after a crash.
    pub fn close(self) -> Result<(), Error> {
        drop(self.serving);
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
    /// Panics with the panic of the back-end's thread, which means a broken invariant.
    pub fn shutdown(self) -> Result<(), Error> {
        self.0.shutdown()
    }
}
