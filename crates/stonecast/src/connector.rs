//! The options of a connection.

use std::path::PathBuf;
use std::rc::Rc;
use std::time::Duration;

use stonecast_base::Nanoseconds;
use stonecast_fabric::Runtime;
use stonecast_fabric_shm::{ShmDevice, ShmOptions};
use stonecast_kv::limits::ROOM_WAIT_NS;
use stonecast_kv::{ClientOptions, ClientPath};
use stonecast_media::Durability;

use crate::address::{Address, Place};
use crate::blocking;
use crate::client::Client;
use crate::error::{Error, ErrorKind};
use crate::knock::explained;
use crate::local::Connection;
use crate::observer::Observer;
use crate::open_device::OpenDevice;

/// The options of a connection: time limits, keys, the durability that the program expects.
///
/// ```no_run
/// use std::time::Duration;
/// use stonecast::{Connector, Durability};
///
/// let client = Connector::new("shm:./stonecast-data/socket")?
///     .operation_timeout(Some(Duration::from_secs(2)))
///     .expect_durability(Durability::Power)
///     .connect_blocking()?;
/// # Ok::<(), stonecast::Error>(())
/// ```
///
/// A program that knows how it waits and what it reads sets more options:
///
/// ```
/// # let folder = tempfile::tempdir()?;
/// # let server = stonecast::Server::builder(folder.path().join("pool"))
/// #     .durability(stonecast::Durability::Process).serve()?;
/// # let url = server.address().to_string();
/// use std::time::Duration;
/// use stonecast::Connector;
/// use stonecast::metrics::ClientPath;
///
/// let connection = Connector::new(&url)?
///     .connect_timeout(Duration::from_secs(1))
///     .spin(Duration::from_millis(1)) // saves wake-ups, and keeps a processor busy
///     .remembered_places(1 << 18) // 4 MiB: over RDMA, such a key is read in one round trip
///     .publishing(false) // overwrites go through the server, even if it lets clients publish
///     .counted_as(ClientPath::Gateway) // beside those of programs
///     .connect_local()?;
/// connection.run(async |client| client.put(b"greeting", b"hello").await)?;
/// connection.close();
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// Over RDMA, both sides prove that they have the same key:
///
/// ```no_run
/// # use stonecast::Connector;
/// let connector = Connector::new("verbs:192.0.2.7:7171")?.keys("keys").rdma_device("rxe0").gid_index(1);
/// # Ok::<(), stonecast::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Connector {
    pub(crate) address: Address,
    pub(crate) connect_timeout: Duration,
    pub(crate) operation_timeout: Option<Duration>,
    pub(crate) durability: Option<Durability>,
    pub(crate) spin: Duration,
    /// The name under which the program holds lock domains.
    pub(crate) name: Option<String>,
    pub(crate) options: ClientOptions,
    rdma: Rdma,
}

/// The options of the RDMA device.
#[derive(Clone, Debug, Default)]
struct Rdma {
    keys: Option<PathBuf>,
    device: Option<String>,
    gid_index: Option<u8>,
}

/// A server accepts connections between two batches, and a batch takes no longer than a sync.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// The limit exceeds the time for which a write asks for room, as long as a request takes at most twice the pause that
/// follows it. A write that gets no room therefore ends with *busy*, which means that nothing was done, and not with an
/// unknown outcome.
const OPERATION_TIMEOUT: Duration = Duration::from_nanos(3 * ROOM_WAIT_NS);
/// A wake-up costs about ten microseconds and a sync about a hundred: a client that polls longer for its answer wastes
/// processor time.
const SPIN: Duration = Duration::from_micros(50);

impl Connector {
    /// Connects to the server at `url`, `shm:PATH` or `verbs:HOST:PORT`, or to the cluster `cluster:URL`, whose
    /// configuration is in the store at `URL`: `file:PATH`, or `etcd://HOST:PORT,HOST:PORT/NAME`, or over TLS
    /// `etcds://HOST:PORT,HOST:PORT/NAME?cacert=FILE&cert=FILE&key=FILE`.
    ///
    /// # Errors
    ///
    /// [`crate::ErrorKind::Address`] if `url` is not an address.
    pub fn new(url: &str) -> Result<Self, Error> {
        Ok(Self::to(url.parse()?))
    }

    /// Connects to the server or the cluster at `address`.
    pub fn to(address: Address) -> Self {
        Self {
            address,
            connect_timeout: CONNECT_TIMEOUT,
            operation_timeout: Some(OPERATION_TIMEOUT),
            durability: None,
            spin: SPIN,
            name: None,
            options: ClientOptions::default(),
            rdma: Rdma::default(),
        }
    }

    /// Sets the time limit for the server to accept the connection. 10 seconds by default.
    #[must_use]
    pub fn connect_timeout(mut self, limit: Duration) -> Self {
        self.connect_timeout = limit;
        self
    }

    /// Sets the time limit of an operation; `None` for no limit. 60 seconds by default. A write that exceeds the limit
    /// has an unknown outcome. On a cluster, an operation is tried again within this time, at whichever node leads the
    /// key's shard, and a write that was never sent has done nothing.
    #[must_use]
    pub fn operation_timeout(mut self, limit: Option<Duration>) -> Self {
        self.operation_timeout = limit;
        self
    }

    /// Refuses a pool that promises less: with [`Durability::Power`], a pool that survives only the death of processes.
    #[must_use]
    pub fn expect_durability(mut self, durability: Durability) -> Self {
        self.durability = Some(durability);
        self
    }

    /// Sets the time for which the client polls for an answer before its thread sleeps. 50 microseconds by default. A
    /// longer time saves the wake-up, about ten microseconds, and costs processor time.
    #[must_use]
    pub fn spin(mut self, time: Duration) -> Self {
        self.spin = time;
        self
    }

    /// Sets the name under which the program holds lock domains of data structures. Another program that asks for such
    /// a lock domain gets the name ([`structures::Error::Held`](crate::structures::Error::Held)), at most its first 64
    /// bytes. By default, the name states the process and its host, as in `process 4711 on db1`.
    ///
    /// ```
    /// use stonecast::structures::{self, BTree, Connection, Server};
    /// use stonecast::Connector;
    ///
    /// # let folder = tempfile::tempdir()?;
    /// let server = Server::builder(folder.path().join("pool"))
    ///     .durability(stonecast::Durability::Process)
    ///     .capacity(32 << 20)
    ///     .serve()?;
    /// let url = server.address().to_string();
    /// let first = Connection::open(Connector::new(&url)?.named("nightly import"))?;
    /// let other = structures::connect(&url)?;
    /// let _orders = first.run(async |session| session.writer::<BTree<u64, u64>>("orders").await)?;
    /// let refused = other.run(async |session| session.writer::<BTree<u64, u64>>("orders").await);
    /// let refused = refused.err().expect("it has a writer").to_string();
    /// assert!(refused.starts_with("\"orders\" has a writer, nightly import (tenure 1)"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn named(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// Sets the number of keys whose places in the log the client remembers, so that a read of such a key takes one
    /// round trip. Each place takes 16 bytes, and the number is rounded up to a power of two. Over shared memory, the
    /// client remembers no places, since they would save nothing.
    #[must_use]
    pub fn remembered_places(mut self, count: usize) -> Self {
        self.options.locations = count;
        self
    }

    /// Sets whether the client publishes its overwrites itself, if the server allows that. True by default. A client of
    /// a cluster never publishes.
    #[must_use]
    pub fn publishing(mut self, publishes: bool) -> Self {
        self.options.publishes = publishes;
        self
    }

    /// Sets the path under which the server counts the operations of this client.
    #[must_use]
    pub fn counted_as(mut self, path: ClientPath) -> Self {
        self.options.path = path;
        self
    }

    /// Sets the file with the key that proves the client's identity, for `verbs:` addresses. With such a file, a client
    /// of a cluster reaches the nodes at their `verbs:` addresses, and otherwise at their `shm:` addresses. The first
    /// line of the file holds a name and 64 hexadecimal digits; only the owner may be able to read the file.
    #[must_use]
    pub fn keys(mut self, path: impl Into<PathBuf>) -> Self {
        self.rdma.keys = Some(path.into());
        self
    }

    /// Sets the name of the RDMA device, as `rdma link` shows the name. The first device by default.
    #[must_use]
    pub fn rdma_device(mut self, name: impl Into<String>) -> Self {
        self.rdma.device = Some(name.into());
        self
    }

    /// Sets the entry of the RDMA device's table of addresses. By default, an entry for RoCE v2, with an IPv4 address
    /// if there is such an entry.
    #[must_use]
    pub fn gid_index(mut self, index: u8) -> Self {
        self.rdma.gid_index = Some(index);
        self
    }

    /// Connects a client that can be cloned and used from any thread and executor.
    ///
    /// # Errors
    ///
    /// [`crate::ErrorKind::Unreachable`] if nothing listens at the address, [`crate::ErrorKind::Store`] if the server
    /// refuses, [`crate::ErrorKind::Unanswered`] if the server is silent, [`crate::ErrorKind::Durability`] if the pool
    /// promises less than expected, [`crate::ErrorKind::Setup`] if a key file is missing or unusable.
    pub async fn connect(self) -> Result<Client, Error> {
        Client::connect(self).await
    }

    /// Connects a client whose calls wait. The client belongs to the calling thread.
    ///
    /// # Errors
    ///
    /// The errors of [`Connector::connect`].
    pub fn connect_blocking(self) -> Result<blocking::Client, Error> {
        blocking::Client::connect(self)
    }

    /// Opens a connection that the calling thread drives itself.
    ///
    /// # Errors
    ///
    /// The errors of [`Connector::connect`].
    pub fn connect_local(self) -> Result<Connection, Error> {
        let device = self.open_device()?;
        self.connect_on(device)
    }

    /// Opens a connection that the calling thread drives itself, over a device of the caller.
    ///
    /// If the connection is refused, the call tries the address once more, to distinguish a server that refuses from an
    /// absent server. A program that opens many connections at once should use [`Connection::over`], which spares the
    /// server the second attempt.
    ///
    /// # Errors
    ///
    /// The errors of [`Connector::connect`].
    pub fn connect_on(self, device: OpenDevice) -> Result<Connection, Error> {
        let address = self.address.clone();
        Connection::over(device, self).map_err(|error| explained(error, &address))
    }

    /// Connects an observer, which asks one server for its counts. [`Connector::counted_as`], the time limits and the
    /// options of the device take effect; options about reads and writes of keys do not.
    ///
    /// # Errors
    ///
    /// The errors of [`Connector::connect`], and [`crate::ErrorKind::Setup`] for the address of a cluster.
    pub fn observe(self) -> Result<Observer, Error> {
        Observer::connect(self)
    }

    /// Waits until the server has accepted, within the time limit of the connect.
    pub(crate) async fn accepted<T, E: From<Error>>(
        &self,
        runtime: &Rc<dyn Runtime>,
        connecting: impl Future<Output = Result<T, E>>,
    ) -> Result<T, E> {
        let limit = self.connect_timeout;
        match runtime.within(nanoseconds(limit), connecting).await {
            Ok(connected) => connected,
            Err(_) => {
                let address = self.address.to_string();
                Err(Error::from(ErrorKind::Unanswered { address, limit }).into())
            }
        }
    }

    pub(crate) fn spin_ns(&self) -> Nanoseconds {
        nanoseconds(self.spin)
    }

    pub(crate) fn open_device(&self) -> Result<OpenDevice, Error> {
        match &self.address.0 {
            #[cfg(feature = "verbs")]
            Place::Verbs(_) => self.open_rdma(),
            #[cfg(feature = "verbs")]
            Place::Cluster(_) if self.rdma.keys.is_some() => self.open_rdma(),
            Place::SharedMemory(_) | Place::Cluster(_) => {
                Ok(OpenDevice::new(ShmDevice::new(ShmOptions::default())?))
            }
        }
    }

    #[cfg(feature = "verbs")]
    fn open_rdma(&self) -> Result<OpenDevice, Error> {
        let options = self.rdma.options()?;
        let device = stonecast_fabric_verbs::VerbsDevice::open(options)?;
        Ok(OpenDevice::new(device))
    }
}

#[cfg(feature = "verbs")]
impl Rdma {
    fn options(&self) -> Result<stonecast_fabric_verbs::VerbsOptions, Error> {
        use stonecast_fabric_verbs::control::KeyRing;

        let path = self.keys.as_ref().ok_or_else(|| {
            ErrorKind::Setup(
                "verbs: addresses need a key file, the same line on both sides: a name and 64 hexadecimal digits (make one: \
                 echo \"NAME $(openssl rand -hex 32)\" > FILE; chmod 600 FILE)"
                    .to_owned(),
            )
        })?;
        let keys = KeyRing::load(path).map_err(|error| ErrorKind::Setup(error.to_string()))?;
        Ok(stonecast_fabric_verbs::VerbsOptions {
            device: self.device.clone(),
            gid_index: self.gid_index,
            keys,
            ..stonecast_fabric_verbs::VerbsOptions::default()
        })
    }
}

/// Converts `time` to nanoseconds; a time that is too long becomes the longest one.
pub(crate) fn nanoseconds(time: Duration) -> Nanoseconds {
    Nanoseconds::try_from(time.as_nanos()).unwrap_or(Nanoseconds::MAX)
}
