//! A connection to a back-end, which opens writers and readers.

use std::ops::Bound;
use std::rc::Rc;
use std::time::Duration;

use stonecast_fabric::{BusyPoll, Runtime};
use stonecast_structures::shapes::{Named, Structure, Watched};
use stonecast_structures::{
    BackEnd, BackEndStat, DomainName, DomainStat, FRONT_END_COMPLETIONS, FrontEndError,
    FrontEndName, StructureReader, UNIT_SIZE,
};

use super::domain::Domain;
use super::error::Error;
use super::reader::Reader;
use super::tally::Tally;
use super::types::{Shape, kind_in_words};
use super::writer::Writer;
use crate::connector::{Connector, nanoseconds};
use crate::open_device::OpenDevice;

/// Bytes of inner nodes that a reader caches.
pub(super) const CACHE_SIZE: u64 = 16 << 20;
/// The pause between two tries to become the writer.
const PAUSE_NS: u64 = 1_000_000;

/// Connects to the back-end at `url`, `shm:PATH` or `verbs:HOST:PORT`, with the defaults of [`Connector`].
///
/// # Errors
///
/// [`Error::Connect`].
pub fn connect(url: &str) -> Result<Connection, Error> {
    Connection::open(Connector::new(url)?)
}

/// A connection to a back-end, and the loop that drives it. Both belong to one thread. Futures of its [`Session`] make
/// progress only inside [`Connection::run`].
pub struct Connection {
    executor: BusyPoll,
    session: Session,
}

impl Connection {
    /// Connects as `connector` says: time limits, keys, the device.
    ///
    /// # Errors
    ///
    /// [`Error::Connect`].
    pub fn open(connector: Connector) -> Result<Self, Error> {
        let device = connector.open_device()?;
        Self::over(device, connector)
    }

    /// Connects as [`Connection::open`] does, over a device of the caller.
    ///
    /// ```
    /// # let folder = tempfile::tempdir()?;
    /// # let server = structures::Server::builder(folder.path().join("pool"))
    /// #     .durability(stonecast::Durability::Process).capacity(32 << 20).serve()?;
    /// # let url = server.address().to_string();
    /// use stonecast::structures::{self, Connection, Stack};
    /// use stonecast::{Connector, OpenDevice};
    /// use stonecast_fabric_shm::{ShmDevice, ShmOptions};
    ///
    /// let device = OpenDevice::new(ShmDevice::new(ShmOptions::default())?);
    /// let connection = Connection::over(device, Connector::new(&url)?)?;
    /// let session = connection.session().clone(); // for tasks of the program
    /// connection.spawn(async move {
    ///     let mut undo = session.writer::<Stack<u64>>("undo").await.expect("the server runs");
    ///     undo.push(&7).await.expect("the server runs");
    /// });
    /// connection.run(async |session| {
    ///     while session.list().await?.is_empty() {}
    ///     Ok::<(), structures::Error>(())
    /// })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error::Connect`].
    pub fn over(device: OpenDevice, connector: Connector) -> Result<Self, Error> {
        let (executor, mut sessions) = connected(device, &[connector])?;
        let session = sessions.pop().expect("one connector, one session");
        Ok(Self { executor, session })
    }

    /// The session of the connection, for tasks of the program.
    pub fn session(&self) -> &Session {
        &self.session
    }

    /// Runs `work` to its end, with spawned tasks beside it. Must not be called from inside a task of this connection.
    pub fn run<T>(&self, work: impl AsyncFnOnce(&Session) -> T) -> T {
        self.executor.block_on(work(&self.session))
    }

    /// Runs `task` beside the work that [`Connection::run`] is given. Tasks end with the connection.
    pub fn spawn(&self, task: impl Future<Output = ()> + 'static) {
        self.session.runtime.spawn(Box::pin(task));
    }
}

impl Drop for Connection {
    /// Sends the latest counts to the back-end, if the back-end listens.
    fn drop(&mut self) {
        self.session.tally.tell();
    }
}

/// Connects to several back-ends over one device, which one loop drives.
pub(super) fn connected(
    device: OpenDevice,
    connectors: &[Connector],
) -> Result<(BusyPoll, Vec<Session>), Error> {
    let spin_ns = connectors.iter().map(Connector::spin_ns).max();
    let completions = FRONT_END_COMPLETIONS * connectors.len() as u32;
    let (executor, port) = device.drive(spin_ns.unwrap_or(0), completions)?;
    let runtime = executor.runtime();
    let mut sessions = Vec::with_capacity(connectors.len());
    for connector in connectors {
        let address = connector.address.to_string();
        let connecting = BackEnd::connect(&port, &address);
        let connecting = async {
            connecting
                .await
                .map_err(|error| not_connected(error, connector))
        };
        let back_end = executor.block_on(connector.accepted(&runtime, connecting))?;
        back_end.keep_time(runtime.clone());
        back_end.introduce_as(name_of(connector));
        let tally = Tally::new(&back_end, &runtime);
        sessions.push(Session {
            back_end,
            runtime: runtime.clone(),
            tally,
        });
    }
    Ok((executor, sessions))
}

/// The name under which a connection holds tenures.
fn name_of(connector: &Connector) -> FrontEndName {
    let own = || {
        let process = std::process::id();
        let host = std::fs::read_to_string("/proc/sys/kernel/hostname");
        match host.as_deref().map(str::trim) {
            Ok(host) if !host.is_empty() => format!("process {process} on {host}"),
            _ => format!("process {process}"),
        }
    };
    let name = connector.name.clone().unwrap_or_else(own);
    FrontEndName::of(&name)
}

fn not_connected(error: FrontEndError, connector: &Connector) -> Error {
    match error {
        FrontEndError::Connect(error) => {
            let is_absent = crate::knock::absence(&connector.address).unwrap_or(false);
            refused(error.to_string(), is_absent).into()
        }
        FrontEndError::Mismatch(error) => refused(error.to_string(), false).into(),
        error => Error::of_read("", error),
    }
}

fn refused(refusal: String, is_absent: bool) -> crate::Error {
    crate::ErrorKind::Unreachable { refusal, is_absent }.into()
}

/// A structure of a back-end, as [`Session::list`] shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    /// The name by which the structure is opened.
    pub name: String,
    /// The kind, in words.
    pub kind: &'static str,
    /// The names of the types of keys and values.
    pub schema: u64,
    /// Bytes of the longest encoded key; 0: no keys.
    pub key_size_max: u16,
    /// The number of its lock domain.
    pub domain: u32,
    pub(crate) structure: Structure,
}

/// The state of a lock domain, as [`Session::stat`] shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DomainState {
    /// The name.
    pub name: String,
    /// The number.
    pub number: u32,
    /// Tenure, staged lag and trim lag.
    pub stat: DomainStat,
    /// Bytes of its slabs, its log left out.
    pub memory: u64,
    /// Bytes of old versions that are kept for readers.
    pub old_versions: u64,
}

/// The state and the work of a back-end, as [`Session::metrics`] shows them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Metrics {
    /// Tenures, slabs, and the reports of readers.
    pub stat: BackEndStat,
    /// Bytes of a slab.
    pub slab_size: u64,
    /// The lock domains.
    pub domains: Vec<DomainState>,
}

/// The structures of a back-end. A clone is another handle of the same connection.
/// ```
/// use stonecast::structures::{self, HashTable, Server};
///
/// # let folder = tempfile::tempdir()?;
/// # let server = Server::builder(folder.path().join("pool"))
/// #     .durability(stonecast::Durability::Process).capacity(32 << 20).serve()?;
/// let connection = structures::connect(&server.address().to_string())?;
/// connection.run(async |session| {
///     let mut stock = session.writer::<HashTable<u64, u64>>("shop/stock").await?;
///     stock.insert(&1, &10).await?;
///
///     let all = session.list().await?;
///     assert_eq!(all[0].name, "shop/stock");
///     assert_eq!(session.length("shop/stock").await?, 1);
///     assert_eq!(session.contents("shop/stock").await?.len(), 1); // encoded, whatever the type
///     let told = std::cell::Cell::new(0);
///     session.contents_watched("shop/stock", &|bytes| told.set(told.get() + bytes)).await?;
///     assert!(told.get() > 0);
///     assert_eq!(session.stat().await?[0].name, "shop"); // the lock domains
///     let back_end = session.back_end_stat().await?;
///     assert!(!back_end.mirror.exists()); // the server was started without one
///     println!("{back_end:?}, and readers began again {} times", session.retries());
///     Ok::<(), structures::Error>(())
/// })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Session {
    pub(super) back_end: Rc<BackEnd>,
    pub(super) runtime: Rc<dyn Runtime>,
    pub(super) tally: Rc<Tally>,
}

/// A name in its two parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Name<'a> {
    pub whole: &'a str,
    pub domain: DomainName,
    pub structure: &'a str,
}

impl<'a> Name<'a> {
    /// `orders` is the only structure of the lock domain `orders`; `shop/orders` is a structure of the lock domain
    /// `shop`.
    pub fn parse(whole: &'a str) -> Result<Self, Error> {
        let refused = || Error::Name {
            name: whole.to_owned(),
        };
        let (domain, structure) = whole.split_once('/').unwrap_or((whole, whole));
        let is_part = |part: &str| DomainName::new(part).is_some() && !part.contains('/');
        if !is_part(structure) {
            return Err(refused());
        }
        Ok(Self {
            whole,
            domain: DomainName::new(domain).ok_or_else(refused)?,
            structure,
        })
    }
}

impl Session {
    /// Becomes the writer of the structure `name`, which is made if it does not exist. A name with a slash names the
    /// lock domain, too: `shop/orders` and `shop/stock` have one writer.
    ///
    /// # Errors
    ///
    /// [`Error::Held`]: another front-end writes the lock domain, or its tenure is being ended at this moment.
    /// [`Error::OtherType`]: the structure is of another type. [`Error::Name`], [`Error::NoRoom`].
    pub async fn writer<S: Shape>(&self, name: &str) -> Result<Writer<S>, Error> {
        let Name {
            domain, structure, ..
        } = Name::parse(name)?;
        let mut domain = self.lock(name, domain).await?;
        match domain.number_of::<S>(name, structure).await {
            Ok(number) => Ok(Writer::new(name, domain, number)),
            Err(error) => {
                domain.give_back().await;
                Err(error)
            }
        }
    }

    /// Becomes the writer of the lock domain `name`, which is made if it does not exist, for transactions over its
    /// structures.
    ///
    /// # Errors
    ///
    /// [`Error::Held`]: another front-end writes the lock domain, or its tenure is being ended at this moment.
    /// [`Error::Name`], [`Error::NoRoom`].
    pub async fn domain(&self, name: &str) -> Result<Domain, Error> {
        let domain = DomainName::new(name).filter(|_| !name.contains('/'));
        let domain = domain.ok_or_else(|| Error::Name {
            name: name.to_owned(),
        })?;
        self.lock(name, domain).await
    }

    pub(super) async fn lock(&self, name: &str, domain: DomainName) -> Result<Domain, Error> {
        let of = |error| Error::of_read(name, error);
        let number = self.back_end.open_domain(domain).await.map_err(of)?;
        let writer = self.back_end.writer(number).await.map_err(of)?;
        Ok(Domain::new(domain.as_str(), writer))
    }

    /// Becomes the writer of the structure `name`, and waits for at most `limit` while another front-end is the writer.
    ///
    /// # Errors
    ///
    /// The errors of [`Session::writer`].
    pub async fn writer_within<S: Shape>(
        &self,
        name: &str,
        limit: Duration,
    ) -> Result<Writer<S>, Error> {
        let end = self.runtime.now().saturating_add(nanoseconds(limit));
        loop {
            match self.writer(name).await {
                Err(Error::Held { .. }) if self.runtime.now() < end => {
                    self.runtime.sleep(PAUSE_NS).await;
                }
                result => return result,
            }
        }
    }

    /// A reader of the structure `name`. The reader caches inner nodes; the answers are as fresh as without a cache.
    ///
    /// # Errors
    ///
    /// [`Error::NotFound`], [`Error::OtherType`], [`Error::Name`].
    pub async fn reader<S: Shape>(&self, name: &str) -> Result<Reader<S>, Error> {
        self.reader_caching(name, CACHE_SIZE).await
    }

    /// A reader of the structure `name` that caches at most `cache_size` bytes of inner nodes.
    ///
    /// # Errors
    ///
    /// The errors of [`Session::reader`].
    pub async fn reader_caching<S: Shape>(
        &self,
        name: &str,
        cache_size: u64,
    ) -> Result<Reader<S>, Error> {
        let reader = self.find(name, cache_size).await?;
        check::<S>(name, reader.row())?;
        Ok(Reader::new(name, (reader, cache_size), &self.tally))
    }

    /// The names of the structures of a lock domain, if it exists.
    pub(super) async fn names(&self, domain: DomainName) -> Result<Vec<String>, Error> {
        let of = |error| Error::of_read(domain.as_str(), error);
        let domains = self.back_end.domains().await.map_err(of)?;
        let found = domains.iter().find(|(_, known)| *known == domain);
        let Some((number, _)) = found else {
            return Ok(Vec::new());
        };
        let mut reader = self.back_end.reader(*number).await.map_err(of)?;
        let roots = reader.roots().await.map_err(of)?;
        Ok(roots.rows().iter().map(|row| row.name.clone()).collect())
    }

    async fn find(&self, name: &str, cache_size: u64) -> Result<StructureReader, Error> {
        let Name {
            domain, structure, ..
        } = Name::parse(name)?;
        let of = |error| Error::of_read(name, error);
        let domains = self.back_end.domains().await.map_err(of)?;
        let found = domains.iter().find(|(_, known)| *known == domain);
        let (number, _) = found.ok_or_else(|| Error::NotFound {
            name: name.to_owned(),
        })?;
        let reader = self.back_end.reader(*number).await.map_err(of)?;
        let reader = reader.remembering(cache_size);
        StructureReader::open(reader, structure).await.map_err(of)
    }

    /// The structures of all lock domains.
    ///
    /// # Errors
    ///
    /// [`Error::Gone`], [`Error::Damaged`].
    pub async fn list(&self) -> Result<Vec<Listed>, Error> {
        let of = |error| Error::of_read("", error);
        let mut all = Vec::new();
        for (number, domain) in self.back_end.domains().await.map_err(of)? {
            let mut reader = match self.back_end.reader(number).await {
                Ok(reader) => reader,
                // The back-end reports the place of the damage.
                Err(FrontEndError::Damaged { .. }) => continue,
                Err(error) => return Err(of(error)),
            };
            let roots = reader.roots().await.map_err(of)?;
            for row in roots.rows() {
                let name = match domain.as_str() == row.name {
                    true => row.name.clone(),
                    false => format!("{}/{}", domain.as_str(), row.name),
                };
                all.push(Listed {
                    name,
                    kind: kind_in_words(row.description.kind),
                    schema: row.description.schema,
                    key_size_max: row.description.key_size_max,
                    domain: number,
                    structure: roots.structure(row.number).expect("it has a row"),
                });
            }
        }
        Ok(all)
    }

    /// The states of all lock domains, as the back-end sees them at this moment.
    ///
    /// # Errors
    ///
    /// [`Error::Gone`].
    pub async fn stat(&self) -> Result<Vec<DomainState>, Error> {
        let of = |error| Error::of_read("", error);
        let slab_size = self.back_end.geometry().slab_size;
        let mut all = Vec::new();
        for (number, name) in self.back_end.domains().await.map_err(of)? {
            let stat = match self.back_end.stat(number).await {
                Ok(stat) => stat,
                // The back-end reports the place of the damage.
                Err(FrontEndError::Damaged { .. }) => continue,
                Err(error) => return Err(of(error)),
            };
            let mut reader = self.back_end.reader(number).await.map_err(of)?;
            let roots = reader.roots().await.map_err(of)?;
            all.push(DomainState {
                name: name.as_str().to_owned(),
                number,
                stat,
                memory: stat.slabs * slab_size,
                old_versions: roots.retired_units() * UNIT_SIZE,
            });
        }
        Ok(all)
    }

    /// The state of the back-end without its lock domains: tenures, memory, the reports of its readers, and its mirror.
    ///
    /// # Errors
    ///
    /// [`Error::Gone`].
    pub async fn back_end_stat(&self) -> Result<BackEndStat, Error> {
        let counts = self.back_end.counts().await;
        counts.map_err(|error| Error::of_read("", error))
    }

    /// The state and the work of the back-end: its tenures, its memory, the reports of its readers, and all lock
    /// domains.
    ///
    /// Readers tell about once a second, and lack the answers of the last one.
    ///
    /// # Errors
    ///
    /// [`Error::Gone`].
    pub async fn metrics(&self) -> Result<Metrics, Error> {
        Ok(Metrics {
            stat: self.back_end_stat().await?,
            slab_size: self.back_end.geometry().slab_size,
            domains: self.stat().await?,
        })
    }

    /// Waits for `work` for at most `limit`; `None`: the work took longer, and was dropped.
    pub async fn within<T>(&self, limit: Duration, work: impl Future<Output = T>) -> Option<T> {
        self.runtime.within(nanoseconds(limit), work).await.ok()
    }

    /// Everything that the structure `name` holds, as encoded keys and values, in the order of the structure. Beside a
    /// writer, the consistency is that of [`Reader::entries`]. The call is meant for tools: the structure may be of any
    /// type.
    ///
    /// # Errors
    ///
    /// [`Error::NotFound`], [`Error::Damaged`].
    pub async fn contents(&self, name: &str) -> Result<Vec<(Vec<u8>, Vec<u8>)>, Error> {
        self.contents_watched(name, &|_| ()).await
    }

    /// Returns what [`Session::contents`] returns, and often calls `watch` with the number of bytes read since the last
    /// call.
    ///
    /// # Errors
    ///
    /// The errors of [`Session::contents`].
    pub async fn contents_watched(
        &self,
        name: &str,
        watch: &dyn Fn(u64),
    ) -> Result<Vec<(Vec<u8>, Vec<u8>)>, Error> {
        let mut reader = self.find(name, 0).await?;
        let walk = |structure: &Structure| Watched::new(structure.walk(), watch);
        let contents = reader.end_of(walk).await;
        Ok(contents.map_err(|error| Error::of_read(name, error))?.items)
    }

    /// The number of entries of the structure `name`, which may be of any type, as [`Reader::len`] returns it.
    ///
    /// # Errors
    ///
    /// The errors of [`Session::contents`].
    pub async fn length(&self, name: &str) -> Result<u64, Error> {
        let mut reader = self.find(name, 0).await?;
        let length = reader.end_of(Structure::length).await;
        length.map_err(|error| Error::of_read(name, error))
    }

    /// The number of times that readers of this connection began again because a place was changing.
    pub fn retries(&self) -> u64 {
        self.back_end.retries()
    }
}

/// Refuses a structure of another type.
pub(super) fn check<S: Shape>(name: &str, row: &Named) -> Result<(), Error> {
    let wanted = S::description();
    if row.description == wanted {
        return Ok(());
    }
    let found = kind_in_words(row.description.kind);
    Err(Error::OtherType {
        name: name.to_owned(),
        found: match row.description.kind == wanted.kind {
            true => format!("{found} of other keys or values"),
            false => found.to_owned(),
        },
        asked: S::words(),
    })
}

/// A bound of encoded keys.
pub(super) fn encoded_bound<K: super::types::Key>(bound: Bound<&K>) -> Bound<Vec<u8>> {
    bound.map(|key| key.encoded())
}
