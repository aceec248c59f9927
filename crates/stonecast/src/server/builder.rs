//! The options of a server.

use std::path::PathBuf;

use stonecast_fabric_shm::{ShmDevice, ShmOptions};
use stonecast_kv::limits::CLIENTS_MAX;
use stonecast_kv::{ClientPolicy, Places, ServerOptions};
use stonecast_media::{Durability, PersistenceDomain};

use super::node::Joining;
use super::pool::{Origin, PoolDescription, Wanted};
use super::{Server, ServerHandle};
use crate::address::{Address, Place};
use crate::error::{Error, ErrorKind};
use crate::open_device::OpenDevice;

/// The options of a server. [`Server::builder`] makes the default ones.
///
/// If the pool exists, the settings that a pool is made with ([`Builder::durability`], [`Builder::platform`],
/// [`Builder::capacity`], [`Builder::segment_size`], [`Builder::shards`]) must be those of the pool; settings that are
/// not given are taken from the pool.
///
/// ```
/// use stonecast::{Durability, ErrorKind, Server};
///
/// # let folder = tempfile::tempdir()?;
/// # let data = folder.path().join("pool");
/// let pool = || Server::builder(&data).durability(Durability::Process);
/// pool().capacity(64 << 20).serve()?.shutdown()?;
/// let other = pool().capacity(128 << 20).serve().err().expect("it has 64 MiB");
/// assert!(matches!(other.kind(), ErrorKind::OtherSetting { setting: "capacity", .. }));
/// pool().serve()?.shutdown()?; // as it is
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// A pool may be moved while no server runs on it, and a server may listen anywhere:
///
/// ```
/// use stonecast::server::{Clients, Places};
/// use stonecast::{Durability, PersistenceDomain, Server};
///
/// # let folder = tempfile::tempdir()?;
/// # let at = |name: &str| folder.path().join(name);
/// let new = Server::builder(at("pool"))
///     .durability(Durability::Process)
///     .platform(PersistenceDomain::Volatile) // bytes need to survive no power cut
///     .segment_size(1 << 20)
///     .shards(4)
///     .capacity(64 << 20);
/// new.serve()?.shutdown()?;
///
/// std::fs::rename(at("pool"), at("moved"))?;
/// let server = Server::builder(at("moved"))
///     .accept_copy() // serve the pool, even if it was copied under a server: then with the losses of the copy
///     .listen(format!("shm:{}", at("socket").display()).parse()?)
///     .places(Places { clients: 2, per_user: 2, per_process: 1 })
///     .clients(Clients::Copying) // clients are not trusted to write into the log
///     .open()?;
/// assert_eq!(server.addresses().len(), 1);
/// assert!(server.opening().pool.data.ends_with("moved"));
/// server.close()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Builder {
    wanted: Wanted,
    cluster: Option<String>,
    node: Option<String>,
    zone: Option<String>,
    listen: Vec<Address>,
    clients: Clients,
    places: Places,
}

/// The rights of clients to write into the log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Clients {
    /// Clients write records to their final place, in extents that they lease. The server decides and publishes.
    #[default]
    Trusted,
    /// Trusted clients may also publish overwrites themselves, for durability `process`.
    Publishing,
    /// Clients write to staging memory of the server, which checks and copies the records.
    Copying,
}

impl Builder {
    pub(super) fn new(data: PathBuf) -> Self {
        Self {
            wanted: Wanted::new(data),
            cluster: None,
            node: None,
            zone: None,
            listen: Vec::new(),
            clients: Clients::default(),
            places: Places::default(),
        }
    }

    /// Sets the failures that acknowledged writes survive. By default, power loss for a new pool.
    #[must_use]
    pub fn durability(mut self, durability: Durability) -> Self {
        self.wanted.durability = Some(durability);
        self
    }

    /// Declares the persistence domain of the pool's memory: the part that a power loss leaves intact. By default, a
    /// page file for a new pool in a folder, and the domain that the kernel reports for a device of persistent memory.
    #[must_use]
    pub fn platform(mut self, domain: PersistenceDomain) -> Self {
        self.wanted.domain = Some(domain);
        self
    }

    /// Sets the number of bytes of the log, rounded down to whole segments. By default, 1 GiB for a new pool in a
    /// folder, and all of a device of persistent memory.
    #[must_use]
    pub fn capacity(mut self, bytes: u64) -> Self {
        self.wanted.capacity = Some(bytes);
        self
    }

    /// Sets the number of bytes of a segment, a power of two from 256 KiB to 1 GiB. By default, 4 MiB for a new pool,
    /// or a 32nd of a pool below 128 MiB, rounded down. A record lies in one segment.
    #[must_use]
    pub fn segment_size(mut self, bytes: u64) -> Self {
        self.wanted.segment_size = Some(bytes);
        self
    }

    /// Splits the keys of a new pool into this many shards, 1 to 64: even ranges of key hashes, each with an index of
    /// its own. By default, one. The number is kept in the pool.
    #[must_use]
    pub fn shards(mut self, shards: u32) -> Self {
        self.wanted.shards = Some(shards);
        self
    }

    /// Accepts a pool that was copied while a server ran on it: the records in the copy count, and records written
    /// during the copy are missing.
    #[must_use]
    pub fn accept_copy(mut self) -> Self {
        self.wanted.accepts_copy = true;
        self
    }

    /// Makes the server a node of the cluster whose configuration is in the store at `address`, as `stonecast cluster
    /// create` names it ([`Builder::node`]). The pool gets the shards of the cluster. The other nodes keep copies of
    /// what this node acknowledges.
    ///
    /// ```no_run
    /// use stonecast::Server;
    ///
    /// let node = Server::builder("./n1").cluster("etcd://10.0.0.1:2379/blue").node("n1").serve()?;
    /// # Ok::<(), stonecast::Error>(())
    /// ```
    #[must_use]
    pub fn cluster(mut self, address: impl Into<String>) -> Self {
        self.cluster = Some(address.into());
        self
    }

    /// Sets the name of the node in its cluster ([`Builder::cluster`]). The name stays with the pool.
    #[must_use]
    pub fn node(mut self, name: impl Into<String>) -> Self {
        self.node = Some(name.into());
        self
    }

    /// Sets the power zone of the node ([`Builder::node`]): nodes of one zone lose power together, as those of one
    /// host, rack or room. The copies of a shard are placed in different zones as far as there are enough. The node is
    /// registered with the zone at each start, so a later start may name another one, which places later copies.
    ///
    /// ```no_run
    /// use stonecast::Server;
    ///
    /// let node = Server::builder("./n1").cluster("etcd://10.0.0.1:2379/blue").node("n1").zone("rack-2").serve()?;
    /// # Ok::<(), stonecast::Error>(())
    /// ```
    #[must_use]
    pub fn zone(mut self, zone: impl Into<String>) -> Self {
        self.zone = Some(zone.into());
        self
    }

    /// Adds an address to listen at. `shm:DIR/socket` by default.
    #[must_use]
    pub fn listen(mut self, address: Address) -> Self {
        self.listen.push(address);
        self
    }

    /// Sets the rights of clients to write into the log. [`Clients::Trusted`] by default.
    #[must_use]
    pub fn clients(mut self, clients: Clients) -> Self {
        self.clients = clients;
        self
    }

    /// Sets how many clients may be connected at a time: in total, of one user, and of one process. By default, 256 in
    /// total, a quarter of the total of one user, and half of the total of one process.
    #[must_use]
    pub fn places(mut self, places: Places) -> Self {
        self.places = places;
        self
    }

    /// Opens or creates the pool, and serves it from a thread of its own. Clients can connect when the call returns.
    ///
    /// # Errors
    ///
    /// The errors of [`Builder::open`].
    pub fn serve(self) -> Result<ServerHandle, Error> {
        ServerHandle::start(self)
    }

    /// Opens or creates the pool, and listens. The server answers no client before [`Server::run`]. A refusal leaves
    /// the pool as it was: a pool that was closed stays closed, and a pool that was created is removed.
    ///
    /// # Errors
    ///
    /// The pool is in use, damaged, or made with other settings than asked for; the pool was copied while a server ran
    /// on it; no plan makes writes durable on the platform that the pool declares; the server cannot listen at an
    /// address. For a node also: the configuration cannot be read, the name or the pool does not belong to this
    /// cluster, or the node is not registered.
    pub fn open(self) -> Result<Server, Error> {
        let is_elsewhere = |address: &Address| !matches!(address.0, Place::SharedMemory(_));
        if self.listen.iter().any(is_elsewhere) {
            return Err(ErrorKind::Setup(
                "an embedded server listens at shm: addresses; over RDMA the program needs a device of its own, which \
                 Builder::open_on takes"
                    .to_owned(),
            )
            .into());
        }
        self.open_on(|_| Ok(OpenDevice::new(ShmDevice::new(ShmOptions::default())?)))
    }

    /// Opens the pool as [`Builder::open`] does, over a device of the caller. The device is opened once the pool is
    /// found, and before the pool is opened. A program that has more to start than the server, and fails to start
    /// it, calls [`Server::withdraw`].
    ///
    /// ```
    /// use stonecast::{Durability, OpenDevice, Server};
    /// use stonecast_fabric_shm::{ShmDevice, ShmOptions};
    ///
    /// # let folder = tempfile::tempdir()?;
    /// let builder = Server::builder(folder.path().join("pool")).durability(Durability::Process);
    /// let server = builder.open_on(|pool| {
    ///     println!("serving {} bytes", pool.capacity);
    ///     let options = ShmOptions { socket_mode: 0o660, ..ShmOptions::default() };
    ///     Ok(OpenDevice::new(ShmDevice::new(options)?))
    /// })?;
    /// # server.withdraw();
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// The errors of [`Builder::open`], and the error that `device` returns.
    pub fn open_on(
        self,
        device: impl FnOnce(&PoolDescription) -> Result<OpenDevice, Error>,
    ) -> Result<Server, Error> {
        if !(1..=CLIENTS_MAX).contains(&self.places.clients) {
            let words = format!("a server has places for 1 to {CLIENTS_MAX} clients");
            return Err(ErrorKind::Setup(words).into());
        }
        // The origin is made first and so dropped last: a new pool that is refused is removed once nothing uses the
        // pool.
        let joining = Joining::find(self.cluster.as_deref(), self.node.as_deref(), self.zone)?;
        let mut wanted = self.wanted;
        if let Some(joining) = &joining {
            joining.complete(&mut wanted)?;
        }
        let origin = Origin::find(&wanted)?;
        if let Some(joining) = &joining {
            joining.admit(origin.identity(), &wanted)?;
        }
        let device = device(origin.description())?;
        let options = ServerOptions {
            clients: match self.clients {
                Clients::Trusted => ClientPolicy::Trusted,
                Clients::Publishing => ClientPolicy::Publishing,
                Clients::Copying => ClientPolicy::Copying,
            },
            places: self.places,
            process: std::process::id(),
        };
        let addresses = match self.listen {
            named if !named.is_empty() => named,
            _ => vec![Address::of_pool(&wanted.data)],
        };
        Server::open(origin, device, options, addresses, joining)
    }
}
