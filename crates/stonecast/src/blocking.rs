//! A client for programs without `async`: each call waits for its answer. A client belongs to the thread that made it.
//!
//! ```no_run
//! let client = stonecast::blocking::connect("shm:./stonecast-data/socket")?;
//! client.put("greeting", "hello")?;
//! for record in client.entries()? {
//!     println!("{:?}", record?.key);
//! }
//! # Ok::<(), stonecast::Error>(())
//! ```
//!
//! A call drives the connection until it has its answer. Between calls, nothing drives the connection, and no driving
//! is necessary.

use stonecast_kv::{Applied, Batch, Condition, Metrics, Stat, Written};

use crate::connector::Connector;
use crate::entry::{Entry, Record};
use crate::error::Error;
use crate::lifetime::Lifetime;
use crate::local::{self, Connection};
use crate::write::{Retry, Write};

/// Connects to the server at `url` with the defaults of [`Connector`].
///
/// # Errors
///
/// The errors of [`Connector::connect`].
pub fn connect(url: &str) -> Result<Client, Error> {
    Connector::new(url)?.connect_blocking()
}

/// A client whose calls wait for their answers.
///
/// ```
/// # let folder = tempfile::tempdir()?;
/// # let server = stonecast::Server::builder(folder.path().join("pool"))
/// #     .durability(stonecast::Durability::Process).serve()?;
/// # let url = server.address().to_string();
/// use stonecast::{Condition, Written};
///
/// let client = stonecast::blocking::connect(&url)?;
/// let version = client.put("balance", "100")?;
/// let lost = client.put_if("balance", "90", Condition::Version(version + 1))?;
/// assert_eq!(lost, Written::Conflict(Some(version)));
/// assert!(matches!(client.put_if("balance", "90", Condition::Version(version))?, Written::Done(_)));
///
/// let mut value = Vec::new(); // kept from call to call: a read allocates nothing where it has room
/// client.get_into("balance", &mut value)?;
/// assert_eq!(value, b"90");
/// let version = client.put("balance", "80")?;
/// assert!(matches!(client.delete_if("balance", Condition::Version(version))?, Written::Done(_)));
/// assert!(!client.delete("balance")?, "the key is gone");
/// assert_eq!(client.metrics()?.stat.deletes, 1);
/// client.close();
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// A key or value that is too long is refused before anything is sent:
///
/// ```
/// # let folder = tempfile::tempdir()?;
/// # let server = stonecast::Server::builder(folder.path().join("pool"))
/// #     .durability(stonecast::Durability::Process).serve()?;
/// # let url = server.address().to_string();
/// use stonecast::{Effect, KEY_SIZE_MAX, VALUE_SIZE_MAX};
///
/// let client = stonecast::blocking::connect(&url)?;
/// client.put([b'k'; KEY_SIZE_MAX], vec![b'v'; VALUE_SIZE_MAX])?;
/// let error = client.put([b'k'; KEY_SIZE_MAX + 1], "v").expect_err("the key is too long");
/// assert_eq!(error.effect(), Effect::None);
/// assert!(client.put("k", vec![b'v'; VALUE_SIZE_MAX + 1]).is_err());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Client {
    connection: Connection,
}

impl Client {
    pub(crate) fn connect(connector: Connector) -> Result<Self, Error> {
        connector
            .connect_local()
            .map(|connection| Self { connection })
    }

    /// The value of `key` with its version; `None` if the key is absent.
    ///
    /// # Errors
    ///
    /// The errors of [`local::Client::get`].
    pub fn get(&self, key: impl AsRef<[u8]>) -> Result<Option<Entry>, Error> {
        self.connection
            .run(async |client| client.get(key.as_ref()).await)
    }

    /// Reads the value of `key` into `value`, in place of its content, and returns the version.
    ///
    /// # Errors
    ///
    /// The errors of [`local::Client::get`].
    pub fn get_into(
        &self,
        key: impl AsRef<[u8]>,
        value: &mut Vec<u8>,
    ) -> Result<Option<u64>, Error> {
        self.connection
            .run(async |client| client.get_into(key.as_ref(), value).await)
    }

    /// Stores `value` under `key` and returns its version.
    ///
    /// # Errors
    ///
    /// The errors of [`local::Client::put`].
    pub fn put(&self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<u64, Error> {
        self.connection
            .run(async |client| client.put(key.as_ref(), value.as_ref()).await)
    }

    /// Stores `value` under `key` if `condition` holds.
    ///
    /// # Errors
    ///
    /// The errors of [`local::Client::put`].
    pub fn put_if(
        &self,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
        condition: Condition,
    ) -> Result<Written, Error> {
        self.put_with(key, value, Write::new().on(condition))
    }

    /// Stores `value` under `key` with the options of `write`.
    ///
    /// # Errors
    ///
    /// The errors of [`local::Client::put`].
    pub fn put_with(
        &self,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
        write: Write,
    ) -> Result<Written, Error> {
        self.connection
            .run(async |client| client.put_with(key.as_ref(), value.as_ref(), write).await)
    }

    /// Gives `key` another lifetime and keeps the value; see [`local::Client::touch`].
    ///
    /// # Errors
    ///
    /// The errors of [`local::Client::put`].
    pub fn touch(
        &self,
        key: impl AsRef<[u8]>,
        lifetime: Lifetime,
        version: Option<u64>,
    ) -> Result<Written, Error> {
        self.connection
            .run(async |client| client.touch(key.as_ref(), lifetime, version).await)
    }

    /// Removes `key` and returns whether the key was there.
    ///
    /// # Errors
    ///
    /// The errors of [`local::Client::put`].
    pub fn delete(&self, key: impl AsRef<[u8]>) -> Result<bool, Error> {
        self.connection
            .run(async |client| client.delete(key.as_ref()).await)
    }

    /// Removes `key` if `condition` holds.
    ///
    /// # Errors
    ///
    /// The errors of [`local::Client::put`].
    pub fn delete_if(&self, key: impl AsRef<[u8]>, condition: Condition) -> Result<Written, Error> {
        self.delete_with(key, Write::new().on(condition))
    }

    /// Removes `key` with the options of `write`.
    ///
    /// # Errors
    ///
    /// The errors of [`local::Client::put`].
    pub fn delete_with(&self, key: impl AsRef<[u8]>, write: Write) -> Result<Written, Error> {
        self.connection
            .run(async |client| client.delete_with(key.as_ref(), write).await)
    }

    /// Applies `batch`: does all of its changes, if each of its expectations holds, or nothing; see
    /// [`local::Client::apply`].
    ///
    /// ```
    /// # let folder = tempfile::tempdir()?;
    /// # let server = stonecast::Server::builder(folder.path().join("pool"))
    /// #     .durability(stonecast::Durability::Process).serve()?;
    /// # let url = server.address().to_string();
    /// use stonecast::{Applied, Batch, Expectation};
    ///
    /// let client = stonecast::blocking::connect(&url)?;
    /// let seen = client.put("stock", "3")?;
    /// let mut order = Batch::new();
    /// order.expect(b"stock", Expectation::Version(seen)).put(b"stock", b"2");
    /// order.expect(b"order 7", Expectation::Absent).put(b"order 7", b"one");
    /// assert!(order.size() <= stonecast::BATCH_SIZE_MAX);
    /// assert!(order.changed().eq([&b"stock"[..], b"order 7"]));
    /// let Applied::Done(versions) = client.apply(&order)? else { panic!("no other client writes") };
    /// assert_eq!(client.get("order 7")?.map(|entry| entry.version), versions.last());
    /// // The stock has another version by now, so nothing is done.
    /// assert_eq!(client.apply(&order)?, Applied::Contradicted { key: b"stock".to_vec() });
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// The errors of [`local::Client::apply`].
    pub fn apply(&self, batch: &Batch) -> Result<Applied, Error> {
        self.connection
            .run(async |client| client.apply(batch).await)
    }

    /// Applies `batch`, which can be repeated with the name in `retry`; see [`local::Client::apply_with`].
    ///
    /// # Errors
    ///
    /// The errors of [`local::Client::apply`].
    pub fn apply_with(&self, batch: &Batch, retry: Retry) -> Result<Applied, Error> {
        self.connection
            .run(async |client| client.apply_with(batch, retry).await)
    }

    /// The values of `keys`, in their order.
    ///
    /// # Errors
    ///
    /// The errors of [`local::Client::multi_get`].
    pub fn multi_get<K: AsRef<[u8]>>(&self, keys: &[K]) -> Result<Vec<Option<Entry>>, Error> {
        self.connection
            .run(async |client| client.multi_get(keys).await)
    }

    /// Stores all `pairs` and returns the version of each pair, or the error for which the pair was not stored.
    ///
    /// # Errors
    ///
    /// The errors of [`local::Client::multi_put`].
    pub fn multi_put<K: AsRef<[u8]>, V: AsRef<[u8]>>(
        &self,
        pairs: &[(K, V)],
    ) -> Result<Vec<Result<u64, Error>>, Error> {
        self.connection
            .run(async |client| client.multi_put(pairs).await)
    }

    /// All records, in the commit order of their present versions; see [`local::Client::entries`]. The iteration ends
    /// after its first error.
    ///
    /// # Errors
    ///
    /// The errors of [`local::Client::get`].
    pub fn entries(&self) -> Result<Entries<'_>, Error> {
        let found = self.connection.run(async |client| client.entries().await)?;
        Ok(Entries {
            client: self,
            found,
            batch: Vec::new().into_iter(),
            has_ended: false,
        })
    }

    /// The server's statistics.
    ///
    /// # Errors
    ///
    /// The errors of [`local::Client::get`].
    pub fn stat(&self) -> Result<Stat, Error> {
        self.connection.run(async |client| client.stat().await)
    }

    /// All counters of the server.
    ///
    /// # Errors
    ///
    /// The errors of [`local::Client::get`].
    pub fn metrics(&self) -> Result<Metrics, Error> {
        self.connection.run(async |client| client.metrics().await)
    }

    /// Gives back the leases of the client and disconnects.
    pub fn close(self) {
        self.connection.close();
    }
}

/// An iteration over all records. See [`Client::entries`].
pub struct Entries<'a> {
    client: &'a Client,
    found: local::Entries,
    batch: std::vec::IntoIter<Record>,
    has_ended: bool,
}

impl Iterator for Entries<'_> {
    type Item = Result<Record, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        if let Some(record) = self.batch.next() {
            return Some(Ok(record));
        }
        if self.has_ended {
            return None;
        }
        let connection = &self.client.connection;
        match connection.run(async |client| self.found.next_batch(client).await) {
            Ok(batch) => {
                self.has_ended = batch.is_empty();
                self.batch = batch.into_iter();
                self.batch.next().map(Ok)
            }
            Err(error) => {
                self.has_ended = true;
                Some(Err(error))
            }
        }
    }
}
