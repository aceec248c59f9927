//! A connection driven by the thread that opened the connection. Many operations are in flight at a time, with nothing
//! between the program and the store.
//!
//! ```no_run
//! let connection = stonecast::local::connect("shm:./stonecast-data/socket")?;
//! connection.run(async |client| {
//!     client.put(b"greeting", b"hello").await?;
//!     client.get(b"greeting").await
//! })?;
//! # Ok::<(), stonecast::Error>(())
//! ```
//!
//! Futures of [`Client`] make progress only inside [`Connection::run`]. Dropping such a future abandons its operation
//! without undoing the operation: a write that was sent goes on.

use std::pin::pin;
use std::rc::Rc;
use std::time::Duration;

use stonecast_fabric::{BusyPoll, Port, Runtime};
use stonecast_kv::{
    Applied, Batch, CLIENT_COMPLETIONS, ClusterClient, ClusterEntries, Condition, Metrics,
    PutRules, Stat, StoreError, Written,
};
use stonecast_media::Durability;

use crate::address::Place;
use crate::cluster::{self, Cluster};
use crate::connector::{Connector, nanoseconds};
use crate::entry::{Entry, Record};
use crate::error::{Error, ErrorKind, Fault};
use crate::lifetime::Lifetime;
use crate::open_device::OpenDevice;
use crate::timed::{Reading, Timed, TimedRead};
use crate::write::{Retry, Write};

pub use stonecast_kv::{FoundKey, Values};

/// The time for which a client without a time limit waits for the server when the client disconnects.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(5);

/// Connects to the server at `url` with the defaults of [`Connector`].
///
/// # Errors
///
/// The errors of [`Connector::connect`].
pub fn connect(url: &str) -> Result<Connection, Error> {
    Connector::new(url)?.connect_local()
}

/// A connection, and the loop that drives it. Both belong to one thread.
///
/// ```
/// # let folder = tempfile::tempdir()?;
/// # let server = stonecast::Server::builder(folder.path().join("pool"))
/// #     .durability(stonecast::Durability::Process).serve()?;
/// # let url = server.address().to_string();
/// let connection = stonecast::local::connect(&url)?;
/// let client = connection.client().clone();
/// connection.spawn(async move {
///     client.put(b"background", b"done").await.expect("the server runs");
/// });
/// // Spawned tasks get on inside `run`.
/// connection.run(async |client| {
///     while client.get(b"background").await?.is_none() {}
///     Ok::<(), stonecast::Error>(())
/// })?;
/// // The store's own client has calls for servers and benchmarks.
/// assert!(connection.client().store().is_some() && connection.client().cluster().is_none());
/// println!("{} ns since this machine started", connection.client().runtime().now());
/// connection.close();
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Connection {
    executor: BusyPoll,
    client: Client,
}

/// The operations of a [`Connection`]. A clone is another handle of the same connection.
///
/// ```
/// # let folder = tempfile::tempdir()?;
/// # let server = stonecast::Server::builder(folder.path().join("pool"))
/// #     .durability(stonecast::Durability::Process).serve()?;
/// # let url = server.address().to_string();
/// use stonecast::local::{self, Values};
///
/// let connection = local::connect(&url)?;
/// connection.run(async |client| {
///     for outcome in client.multi_put(&[("a", "1"), ("b", "2")]).await? {
///         outcome?;
///     }
///     let mut values = Values::default(); // kept from call to call, as the vector of `get_into`
///     client.multi_get_into(&[b"a", b"missing", b"b"], &mut values).await?;
///     assert_eq!(values.expires(0), None);
///     assert_eq!(values.get(0).map(|(value, _)| value), Some(&b"1"[..]));
///     assert_eq!(values.get(1), None);
///     Ok::<(), stonecast::Error>(())
/// })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// A program whose keys come from several stores fills [`Values`] itself:
///
/// ```
/// use stonecast::local::{FoundKey, Values};
///
/// let cached = FoundKey { version: 7, expires: None };
/// let mut values = Values::default();
/// values.fill([Some((&b"hello"[..], cached)), None]);
/// assert_eq!(values.get(0), Some((&b"hello"[..], 7)));
/// assert_eq!(values.get(1), None);
/// ```
#[derive(Clone)]
pub struct Client {
    store: Store,
    runtime: Rc<dyn Runtime>,
    /// The time limit of an operation.
    limit: Option<Duration>,
}

/// The store that a client uses.
#[derive(Clone)]
enum Store {
    Server(stonecast_kv::Client),
    Cluster(Rc<Cluster>),
}

impl Connection {
    /// Opens a connection over a device of the caller, for programs whose threads also wait for something else.
    /// [`Connector::connect_on`] does the same, and also finds out whether a server listens if none accepts.
    ///
    /// # Errors
    ///
    /// The errors of [`Connector::connect`], with [`ErrorKind::Store`] in place of [`ErrorKind::Unreachable`].
    pub fn over(device: OpenDevice, connector: Connector) -> Result<Self, Error> {
        let store = match &connector.address.0 {
            Place::Cluster(store) => Some(store),
            _ => None,
        };
        let completions = store.map_or(CLIENT_COMPLETIONS, |_| cluster::COMPLETIONS);
        let (executor, port) = device.drive(connector.spin_ns(), completions)?;
        let runtime = executor.runtime();
        let client = executor.block_on(async {
            match store {
                Some(store) => Client::connect_to_cluster(store, port, runtime, &connector).await,
                None => Client::connect(port, runtime, &connector).await,
            }
        })?;
        Ok(Self { executor, client })
    }

    /// The operations, for tasks of the program; see [`Connection::spawn`].
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// Runs `work` to its end, with spawned tasks beside the work. Must not be called from inside a task of this
    /// connection.
    pub fn run<T>(&self, work: impl AsyncFnOnce(&Client) -> T) -> T {
        self.executor.block_on(work(&self.client))
    }

    /// Runs `task` beside the work that [`Connection::run`] is given. Tasks make progress only inside that call, and
    /// end with the connection.
    pub fn spawn(&self, task: impl Future<Output = ()> + 'static) {
        self.client.runtime.spawn(Box::pin(task));
    }

    /// Gives back the leases of the client and disconnects. If the server does not answer within the time limit of an
    /// operation, or within 5 seconds if there is no limit, the client disconnects anyway. If the connection is dropped
    /// instead, the server notices the drop and takes the leases back.
    pub fn close(self) {
        let Self { executor, client } = self;
        let Client {
            store,
            runtime,
            limit,
        } = client;
        let limit = nanoseconds(limit.unwrap_or(CLOSE_TIMEOUT));
        let closed = async {
            match store {
                Store::Server(server) => server.close().await,
                Store::Cluster(cluster) => cluster.close().await,
            }
        };
        // The server takes back the leases that were not given back in time.
        let _ = executor.block_on(runtime.within(limit, closed));
    }
}

impl Client {
    fn of(store: Store, runtime: Rc<dyn Runtime>, connector: &Connector) -> Self {
        let limit = connector.operation_timeout;
        Self {
            store,
            runtime,
            limit,
        }
    }

    async fn connect_to_cluster(
        store: &stonecast_config_store::Address,
        port: Rc<Port>,
        runtime: Rc<dyn Runtime>,
        connector: &Connector,
    ) -> Result<Self, Error> {
        let cluster = Cluster::connect(port, runtime.clone(), store, connector).await?;
        Ok(Self::of(
            Store::Cluster(Rc::new(cluster)),
            runtime,
            connector,
        ))
    }

    async fn connect(
        port: Rc<Port>,
        runtime: Rc<dyn Runtime>,
        connector: &Connector,
    ) -> Result<Self, Error> {
        let address = connector.address.to_string();
        let connecting =
            stonecast_kv::Client::connect_with(connector.options, port, runtime.clone(), &address);
        let connecting = async { connecting.await.map_err(Error::of_read) };
        let store = connector.accepted(&runtime, connecting).await?;
        let client = Self::of(Store::Server(store), runtime, connector);
        if connector.durability == Some(Durability::Power) && !client.stat().await?.power {
            return Err(ErrorKind::Durability {
                address,
                expected: Durability::Power,
                found: Durability::Process,
            }
            .into());
        }
        Ok(client)
    }

    /// The store's own client, with the calls that only servers and benchmarks need. `None` on a cluster.
    pub fn store(&self) -> Option<&stonecast_kv::Client> {
        match &self.store {
            Store::Server(server) => Some(server),
            Store::Cluster(_) => None,
        }
    }

    /// The client of a cluster behind this one. `None` on a server.
    pub fn cluster(&self) -> Option<&Rc<ClusterClient>> {
        match &self.store {
            Store::Server(_) => None,
            Store::Cluster(cluster) => Some(&cluster.client),
        }
    }

    /// The runtime of this connection: its tasks, its clock and its timers.
    pub fn runtime(&self) -> &Rc<dyn Runtime> {
        &self.runtime
    }

    /// The value of `key` with its version; `None` if the key is absent. The read runs no code of the server.
    ///
    /// # Errors
    ///
    /// See [`ErrorKind`]; a read never changes anything.
    pub async fn get(&self, key: &[u8]) -> Result<Option<Entry>, Error> {
        let mut value = Vec::new();
        let found = match &self.store {
            Store::Server(server) => {
                let found = self.timed(server.find(key, &mut value)).await;
                found.map_err(Fault::of_read)?
            }
            Store::Cluster(cluster) => cluster.find(key, &mut value).await?,
        };
        Ok(found.map(|FoundKey { version, expires }| Entry {
            value,
            version,
            expires,
        }))
    }

    /// Reads the value of `key` into `value`, in place of its content, and returns the version. Allocates nothing if
    /// `value` has room.
    ///
    /// # Errors
    ///
    /// The errors of [`Client::get`].
    #[inline]
    pub fn get_into<'a>(
        &'a self,
        key: &'a [u8],
        value: &'a mut Vec<u8>,
    ) -> impl Future<Output = Result<Option<u64>, Error>> + use<'a> {
        match &self.store {
            Store::Server(server) => {
                let read = server.get(key, value);
                Reading::Server(TimedRead(Timed::new(read, self.limit, &self.runtime)))
            }
            Store::Cluster(cluster) => Reading::Cluster(cluster.get_into(key, value)),
        }
    }

    /// Stores `value` under `key` and returns its version. The value is durable and visible when the call returns.
    ///
    /// # Errors
    ///
    /// See [`ErrorKind`], and [`Error::effect`] for the effect of the write.
    pub async fn put(&self, key: &[u8], value: &[u8]) -> Result<u64, Error> {
        match &self.store {
            Store::Server(server) => {
                let put = server.put(key, value);
                self.timed(put).await.map_err(|fault| fault.of_write(None))
            }
            Store::Cluster(cluster) => cluster.put(key, value).await,
        }
    }

    /// Stores `value` under `key` if `condition` holds at the moment of the write.
    ///
    /// # Errors
    ///
    /// The errors of [`Client::put`]. A condition that does not hold is not an error.
    pub async fn put_if(
        &self,
        key: &[u8],
        value: &[u8],
        condition: Condition,
    ) -> Result<Written, Error> {
        self.put_with(key, value, Write::new().on(condition)).await
    }

    /// Stores `value` under `key` with the options of `write`.
    ///
    /// # Errors
    ///
    /// The errors of [`Client::put`].
    pub async fn put_with(&self, key: &[u8], value: &[u8], write: Write) -> Result<Written, Error> {
        let server = match &self.store {
            Store::Server(server) => server,
            Store::Cluster(cluster) => return cluster.put_with(key, value, write).await,
        };
        let condition = write.condition();
        let expires = match self
            .timed(write.lifetime.end(server.server_time_ms()))
            .await
        {
            Ok(expires) => expires,
            Err(fault) => {
                return Err(match write.retry.into_token() {
                    None => fault.of_read(),
                    Some(token) => fault.of_retry(token),
                });
            }
        };
        let rules = PutRules { condition, expires };
        match write.retry {
            Retry::Never => {
                let put = server.put_if(key, value, rules);
                self.timed(put).await.map_err(|fault| fault.of_write(None))
            }
            Retry::Fresh => {
                let mut token = server.token();
                let put = server.put_with(&mut token, key, value, rules);
                let written = self.timed(put).await;
                written.map_err(|fault| fault.of_write(Some(token)))
            }
            Retry::Of(mut token) => {
                let put = server.put_with(&mut token, key, value, rules);
                let written = self.timed(put).await;
                written.map_err(|fault| fault.of_retry(token))
            }
        }
    }

    /// Gives `key` another lifetime and keeps the value. With `version`, only if the key has this version at the moment
    /// of the write. A key that is absent is [`Written::Conflict`]`(None)`.
    ///
    /// The value is read and stored again, with a new version. A crash leaves the key with the old lifetime or with the
    /// new one.
    ///
    /// # Errors
    ///
    /// The errors of [`Client::put`].
    pub async fn touch(
        &self,
        key: &[u8],
        lifetime: Lifetime,
        version: Option<u64>,
    ) -> Result<Written, Error> {
        let server = match &self.store {
            Store::Server(server) => server,
            Store::Cluster(cluster) => return cluster.touch(key, lifetime, version).await,
        };
        let touched = async {
            let expires = lifetime.end(server.server_time_ms()).await?;
            server.touch(key, expires, version).await
        };
        let touched = self.timed(touched).await;
        touched.map_err(|fault| fault.of_write(None))
    }

    /// Removes `key` and returns whether the key was there. The removal is durable and visible when the call returns.
    ///
    /// # Errors
    ///
    /// The errors of [`Client::put`].
    pub async fn delete(&self, key: &[u8]) -> Result<bool, Error> {
        let removed = self.remove(key, Write::new()).await?;
        Ok(matches!(removed, Some(Written::Done(_))))
    }

    /// Removes `key` if `condition` holds at the moment of the write. A key that is absent is
    /// [`Written::Conflict`]`(None)`.
    ///
    /// # Errors
    ///
    /// The errors of [`Client::put`].
    pub async fn delete_if(&self, key: &[u8], condition: Condition) -> Result<Written, Error> {
        self.delete_with(key, Write::new().on(condition)).await
    }

    /// Removes `key` with the options of `write`. A key that is absent is [`Written::Conflict`]`(None)`.
    ///
    /// # Errors
    ///
    /// The errors of [`Client::put`].
    pub async fn delete_with(&self, key: &[u8], write: Write) -> Result<Written, Error> {
        let removed = self.remove(key, write).await?;
        Ok(removed.unwrap_or(Written::Conflict(None)))
    }

    /// Removes `key` with the options of `write`. `None`: the key was absent.
    async fn remove(&self, key: &[u8], write: Write) -> Result<Option<Written>, Error> {
        let server = match &self.store {
            Store::Server(server) => server,
            Store::Cluster(cluster) => return cluster.delete_with(key, write).await,
        };
        let condition = write.condition();
        match write.retry {
            Retry::Never => {
                let delete = server.delete_if(key, condition);
                let removed = self.timed(delete).await;
                removed.map_err(|fault| fault.of_write(None))
            }
            Retry::Fresh => {
                let mut token = server.token();
                let delete = server.delete_with(&mut token, key, condition);
                let removed = self.timed(delete).await;
                removed.map_err(|fault| fault.of_write(Some(token)))
            }
            Retry::Of(mut token) => {
                let delete = server.delete_with(&mut token, key, condition);
                let removed = self.timed(delete).await;
                removed.map_err(|fault| fault.of_retry(token))
            }
        }
    }

    /// Applies `batch`: does all of its changes, if each of its expectations holds, or nothing. The changes are durable
    /// as one, and visible, when the call returns [`Applied::Done`]; a crash leaves all of them or none.
    ///
    /// Changes become visible one after the other: a reader of several keys may see some changes and not yet the
    /// others.
    ///
    /// # Errors
    ///
    /// The errors of [`Client::put`], and [`StoreError::BatchKeys`], [`StoreError::BatchNames`],
    /// [`StoreError::BatchSize`] and, in a cluster, [`StoreError::BatchShards`]: all keys of a batch are of one shard.
    /// An expectation that does not hold is not an error.
    pub async fn apply(&self, batch: &Batch) -> Result<Applied, Error> {
        self.apply_with(batch, Retry::Never).await
    }

    /// Applies `batch`, which can be repeated with the name in `retry`. Conditions and lifetimes belong to the
    /// expectations and changes of the batch.
    ///
    /// # Errors
    ///
    /// The errors of [`Client::apply`].
    pub async fn apply_with(&self, batch: &Batch, retry: Retry) -> Result<Applied, Error> {
        let server = match &self.store {
            Store::Server(server) => server,
            Store::Cluster(cluster) => return cluster.apply_with(batch, retry).await,
        };
        match retry {
            Retry::Never => {
                let applied = self.timed(server.apply(batch)).await;
                applied.map_err(|fault| fault.of_write(None))
            }
            Retry::Fresh => {
                let mut token = server.token();
                let applied = self.timed(server.apply_with(&mut token, batch)).await;
                applied.map_err(|fault| fault.of_write(Some(token)))
            }
            Retry::Of(mut token) => {
                let applied = self.timed(server.apply_with(&mut token, batch)).await;
                applied.map_err(|fault| fault.of_retry(token))
            }
        }
    }

    /// The values of `keys`, in their order, all in flight together. Each value is read as by [`Client::get`]; the
    /// values together are no snapshot.
    ///
    /// # Errors
    ///
    /// The errors of [`Client::get`].
    pub async fn multi_get<K: AsRef<[u8]>>(&self, keys: &[K]) -> Result<Vec<Option<Entry>>, Error> {
        let keys: Vec<&[u8]> = keys.iter().map(AsRef::as_ref).collect();
        let mut values = Values::default();
        self.multi_get_into(&keys, &mut values).await?;
        Ok((0..keys.len())
            .map(|index| {
                values.get(index).map(|(value, version)| Entry {
                    value: value.to_vec(),
                    version,
                    expires: values.expires(index),
                })
            })
            .collect())
    }

    /// Reads as [`Client::multi_get`] does, with memory that is reused.
    ///
    /// # Errors
    ///
    /// The errors of [`Client::get`].
    pub async fn multi_get_into(&self, keys: &[&[u8]], values: &mut Values) -> Result<(), Error> {
        match &self.store {
            Store::Server(server) => {
                let read = server.multi_get(keys, values);
                self.timed(read).await.map_err(Fault::of_read)
            }
            Store::Cluster(cluster) => cluster.multi_get_into(keys, values).await,
        }
    }

    /// Stores all `pairs`, in flight together, and returns the version of each pair, or the error for which the pair
    /// was not stored. Each pair is a put of its own: a crash may leave any of the pairs without an answer.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::TimedOut`] if not all puts were answered in time: the outcome of each put is then unknown.
    pub async fn multi_put<K: AsRef<[u8]>, V: AsRef<[u8]>>(
        &self,
        pairs: &[(K, V)],
    ) -> Result<Vec<Result<u64, Error>>, Error> {
        let pairs: Vec<_> = pairs
            .iter()
            .map(|(key, value)| (key.as_ref(), value.as_ref()))
            .collect();
        let server = match &self.store {
            Store::Server(server) => server,
            Store::Cluster(cluster) => return Ok(cluster.multi_put(&pairs).await),
        };
        let mut outcomes = Vec::new();
        let put = async {
            server.multi_put(&pairs, &mut outcomes).await;
            Ok(())
        };
        self.timed(put)
            .await
            .map_err(|fault| fault.of_write(None))?;
        let outcomes = outcomes.into_iter();
        Ok(outcomes
            .map(|outcome| outcome.map_err(|error| Fault::Store(error).of_write(None)))
            .collect())
    }

    /// All records, in the commit order of their present versions; on a cluster, shard by shard, and in that order
    /// within a shard. The iteration is no snapshot: a key that is present all the time is found once, and a key that
    /// is written or deleted meanwhile may or may not be found. The iteration holds 24 bytes for each key.
    ///
    /// # Errors
    ///
    /// The errors of [`Client::get`].
    pub async fn entries(&self) -> Result<Entries, Error> {
        // The time limit of an operation does not apply: the call takes one round trip for each 256 buckets of the
        // whole index.
        let found = match &self.store {
            Store::Server(server) => Found::Server(server.entries().await.map_err(Error::of_read)?),
            Store::Cluster(cluster) => Found::Cluster(cluster.entries().await?),
        };
        Ok(Entries {
            found,
            batch: Vec::new(),
        })
    }

    /// The client of a server that is alone, for a backup.
    pub(crate) fn server(&self) -> Result<&stonecast_kv::Client, Error> {
        match &self.store {
            Store::Server(server) => Ok(server),
            Store::Cluster(_) => Err(Error::of_read(StoreError::NoHold {
                reason: "it is of a cluster, whose keys are written at several nodes; `stonecast export` writes its keys, which is no single version",
            })),
        }
    }

    /// The server's statistics; on a cluster, those of all nodes that lead shards, added up.
    ///
    /// # Errors
    ///
    /// The errors of [`Client::get`].
    pub async fn stat(&self) -> Result<Stat, Error> {
        match &self.store {
            Store::Server(server) => self.timed(server.stat()).await.map_err(Fault::of_read),
            Store::Cluster(cluster) => Ok(cluster.metrics().await?.stat),
        }
    }

    /// All counters of the server, including those of this client's operations; on a cluster, those of all nodes that
    /// lead shards, added up.
    ///
    /// # Errors
    ///
    /// The errors of [`Client::get`].
    pub async fn metrics(&self) -> Result<Metrics, Error> {
        match &self.store {
            Store::Server(server) => self.timed(server.metrics()).await.map_err(Fault::of_read),
            Store::Cluster(cluster) => cluster.metrics().await,
        }
    }

    /// All counters of each node of a cluster that leads shards, with the node's name. For a single server, the list is
    /// empty.
    ///
    /// ```no_run
    /// let connection = stonecast::local::connect("cluster:file:./cluster")?;
    /// for (name, counted) in connection.run(async |client| client.nodes().await) {
    ///     println!("{name}: {} keys", counted?.stat.keys);
    /// }
    /// # Ok::<(), stonecast::Error>(())
    /// ```
    pub async fn nodes(&self) -> Vec<(String, Result<Metrics, Error>)> {
        match &self.store {
            Store::Server(_) => Vec::new(),
            Store::Cluster(cluster) => cluster.nodes().await,
        }
    }

    async fn timed<T>(
        &self,
        work: impl Future<Output = Result<T, StoreError>>,
    ) -> Result<T, Fault> {
        Timed::new(pin!(work), self.limit, &self.runtime).await
    }
}

/// The records found by [`Client::entries`], read a few at a time.
///
/// ```
/// # let folder = tempfile::tempdir()?;
/// # let server = stonecast::Server::builder(folder.path().join("pool"))
/// #     .durability(stonecast::Durability::Process).serve()?;
/// # let url = server.address().to_string();
/// let connection = stonecast::local::connect(&url)?;
/// connection.run(async |client| {
///     client.put(b"a", b"1").await?;
///     client.put(b"b", b"2").await?;
///     let (mut entries, mut keys) = (client.entries().await?, Vec::new());
///     loop {
///         let batch = entries.next_batch(client).await?;
///         if batch.is_empty() {
///             break;
///         }
///         keys.extend(batch.into_iter().map(|record| record.key));
///     }
///     assert_eq!(keys, [b"a", b"b"]);
///     Ok::<(), stonecast::Error>(())
/// })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Entries {
    found: Found,
    batch: Vec<stonecast_kv::Entry>,
}

/// The keys of a server, or of a cluster.
enum Found {
    Server(stonecast_kv::Entries),
    Cluster(ClusterEntries),
}

impl Entries {
    /// Number of keys that were found.
    pub fn len(&self) -> usize {
        match &self.found {
            Found::Server(found) => found.len(),
            Found::Cluster(found) => found.len(),
        }
    }

    /// Returns true if no key was found.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The next records, a few dozen at a time; empty at the end. After an error, the next call tries the same records
    /// again.
    ///
    /// # Errors
    ///
    /// The errors of [`Client::get`].
    pub async fn next_batch(&mut self, client: &Client) -> Result<Vec<Record>, Error> {
        match (&mut self.found, &client.store) {
            (Found::Server(found), Store::Server(server)) => {
                let read = found.next(server, &mut self.batch);
                client.timed(read).await.map_err(Fault::of_read)?;
            }
            (Found::Cluster(found), Store::Cluster(cluster)) => {
                cluster.next_batch(found, &mut self.batch).await?;
            }
            // The hashes of keys of one store mean nothing to another store.
            _ => return Err(ErrorKind::Closed.into()),
        }
        Ok(self.batch.drain(..).map(Record::from).collect())
    }
}
