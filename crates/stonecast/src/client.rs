//! The client for any thread and executor. The client hands operations to the thread that drives its connection.

use std::sync::Arc;

use futures_channel::oneshot;
use stonecast_kv::{Applied, Batch, Condition, Metrics, Stat, Written};

use crate::connector::Connector;
use crate::driver::{self, Driver, Job};
use crate::entry::{Entry, Record};
use crate::error::{Effect, Error, ErrorKind};
use crate::lifetime::Lifetime;
use crate::local;
use crate::write::{Retry, Write};

/// A client that can be cloned and used from any thread and any executor. [`crate::connect`] makes one.
///
/// A separate thread drives the connection; an operation takes two hops between threads, to the driver and back.
/// Operations of all clones are in flight together. Dropping a future abandons its operation without undoing the
/// operation: a write that was begun goes on. The connection ends when the last clone is dropped.
///
/// ```
/// # let folder = tempfile::tempdir()?;
/// # let server = stonecast::Server::builder(folder.path().join("pool"))
/// #     .durability(stonecast::Durability::Process).serve()?;
/// # let url = server.address().to_string();
/// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
/// let client = stonecast::connect(&url).await?;
/// let tasks = (0..10).map(|number| {
///     let client = client.clone();
///     tokio::spawn(async move { client.put(format!("key {number}"), "value").await })
/// });
/// for task in tasks.collect::<Vec<_>>() {
///     task.await.expect("no task panics")?;
/// }
/// assert_eq!(client.metrics().await?.stat.keys, 10);
/// let mut value = Vec::new(); // goes to the driver's thread and comes back, with its memory
/// client.get_into("key 7", &mut value).await?;
/// assert_eq!(value, b"value");
/// client.close();
/// # Ok::<(), stonecast::Error>(()) })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Client {
    driver: Arc<Driver>,
}

/// The effect of an operation for which the driver gives no answer.
struct Unanswered {
    /// The driver no longer accepts work.
    refused: Effect,
    /// The driver ended during the work, or before.
    lost: Effect,
}

impl Unanswered {
    const READ: Self = Self {
        refused: Effect::None,
        lost: Effect::None,
    };
    /// A fresh token is made on the driver's thread, and is lost with the thread.
    const WRITE: Self = Self {
        refused: Effect::None,
        lost: Effect::Unknown { token: None },
    };

    fn of(retry: &Retry) -> Self {
        match retry {
            Retry::Never | Retry::Fresh => Self::WRITE,
            // An earlier attempt may have taken effect, with any outcome of this attempt.
            Retry::Of(token) => {
                let unknown = Effect::Unknown {
                    token: Some(token.clone()),
                };
                Self {
                    refused: unknown.clone(),
                    lost: unknown,
                }
            }
        }
    }
}

impl Client {
    pub(crate) async fn connect(connector: Connector) -> Result<Self, Error> {
        let driver = Arc::new(driver::start(connector).await?);
        Ok(Self { driver })
    }

    /// The value of `key` with its version; `None` if the key is absent.
    ///
    /// # Errors
    ///
    /// The errors of [`local::Client::get`], and [`ErrorKind::Closed`] after [`Client::close`].
    pub async fn get(&self, key: impl Into<Vec<u8>>) -> Result<Option<Entry>, Error> {
        let key = key.into();
        self.read(async move |client| client.get(&key).await).await
    }

    /// Reads the value of `key` into `value`, in place of its content, and returns the version; `None` if the key is
    /// absent. `value` travels to the driver's thread and back: where it has room, the read allocates no value. The key
    /// and the job are allocated as for every call of this client. A future that is dropped leaves `value` empty.
    ///
    /// # Errors
    ///
    /// The errors of [`Client::get`].
    pub async fn get_into(
        &self,
        key: impl Into<Vec<u8>>,
        value: &mut Vec<u8>,
    ) -> Result<Option<u64>, Error> {
        let (key, mut lent) = (key.into(), std::mem::take(value));
        let (found, lent) = self
            .read(async move |client| {
                let found = client.get_into(&key, &mut lent).await;
                Ok((found, lent))
            })
            .await?;
        *value = lent;
        found
    }

    /// Stores `value` under `key` and returns its version. The value is durable and visible when the call returns.
    ///
    /// # Errors
    ///
    /// The errors of [`local::Client::put`], and [`ErrorKind::Closed`] after [`Client::close`].
    pub async fn put(
        &self,
        key: impl Into<Vec<u8>>,
        value: impl Into<Vec<u8>>,
    ) -> Result<u64, Error> {
        let (key, value) = (key.into(), value.into());
        self.call(Unanswered::WRITE, async move |client| {
            client.put(&key, &value).await
        })
        .await
    }

    /// Stores `value` under `key` if `condition` holds at the moment of the write.
    ///
    /// # Errors
    ///
    /// The errors of [`Client::put`]. A condition that does not hold is not an error.
    pub async fn put_if(
        &self,
        key: impl Into<Vec<u8>>,
        value: impl Into<Vec<u8>>,
        condition: Condition,
    ) -> Result<Written, Error> {
        self.put_with(key, value, Write::new().on(condition)).await
    }

    /// Stores `value` under `key` with the options of `write`.
    ///
    /// # Errors
    ///
    /// The errors of [`Client::put`].
    pub async fn put_with(
        &self,
        key: impl Into<Vec<u8>>,
        value: impl Into<Vec<u8>>,
        write: Write,
    ) -> Result<Written, Error> {
        let (key, value) = (key.into(), value.into());
        self.call(Unanswered::of(&write.retry), async move |client| {
            client.put_with(&key, &value, write).await
        })
        .await
    }

    /// Gives `key` another lifetime and keeps the value; see [`local::Client::touch`].
    ///
    /// # Errors
    ///
    /// The errors of [`Client::put`].
    pub async fn touch(
        &self,
        key: impl Into<Vec<u8>>,
        lifetime: Lifetime,
        version: Option<u64>,
    ) -> Result<Written, Error> {
        let key = key.into();
        self.call(Unanswered::WRITE, async move |client| {
            client.touch(&key, lifetime, version).await
        })
        .await
    }

    /// Removes `key` and returns whether the key was there.
    ///
    /// # Errors
    ///
    /// The errors of [`Client::put`].
    pub async fn delete(&self, key: impl Into<Vec<u8>>) -> Result<bool, Error> {
        let key = key.into();
        self.call(Unanswered::WRITE, async move |client| {
            client.delete(&key).await
        })
        .await
    }

    /// Removes `key` if `condition` holds at the moment of the write.
    ///
    /// # Errors
    ///
    /// The errors of [`Client::put`].
    pub async fn delete_if(
        &self,
        key: impl Into<Vec<u8>>,
        condition: Condition,
    ) -> Result<Written, Error> {
        self.delete_with(key, Write::new().on(condition)).await
    }

    /// Removes `key` with the options of `write`.
    ///
    /// # Errors
    ///
    /// The errors of [`Client::put`].
    pub async fn delete_with(
        &self,
        key: impl Into<Vec<u8>>,
        write: Write,
    ) -> Result<Written, Error> {
        let key = key.into();
        self.call(Unanswered::of(&write.retry), async move |client| {
            client.delete_with(&key, write).await
        })
        .await
    }

    /// Applies `batch`, all of it or nothing; see [`local::Client::apply`].
    ///
    /// # Errors
    ///
    /// The errors of [`local::Client::apply`], and [`ErrorKind::Closed`] after [`Client::close`].
    pub async fn apply(&self, batch: Batch) -> Result<Applied, Error> {
        self.apply_with(batch, Retry::Never).await
    }

    /// Applies `batch`, which can be repeated with the name in `retry`; see [`local::Client::apply_with`].
    ///
    /// # Errors
    ///
    /// The errors of [`Client::apply`].
    pub async fn apply_with(&self, batch: Batch, retry: Retry) -> Result<Applied, Error> {
        self.call(Unanswered::of(&retry), async move |client| {
            client.apply_with(&batch, retry).await
        })
        .await
    }

    /// The values of `keys`, in their order, all in flight together.
    ///
    /// # Errors
    ///
    /// The errors of [`Client::get`].
    pub async fn multi_get(
        &self,
        keys: impl IntoIterator<Item = impl Into<Vec<u8>>>,
    ) -> Result<Vec<Option<Entry>>, Error> {
        let keys: Vec<Vec<u8>> = keys.into_iter().map(Into::into).collect();
        self.read(async move |client| client.multi_get(&keys).await)
            .await
    }

    /// Stores all `pairs`, in flight together, and returns the version of each pair, or the error for which the pair
    /// was not stored.
    ///
    /// # Errors
    ///
    /// The errors of [`local::Client::multi_put`].
    pub async fn multi_put(
        &self,
        pairs: impl IntoIterator<Item = (impl Into<Vec<u8>>, impl Into<Vec<u8>>)>,
    ) -> Result<Vec<Result<u64, Error>>, Error> {
        let pairs = pairs.into_iter();
        let pairs: Vec<(Vec<u8>, Vec<u8>)> = pairs
            .map(|(key, value)| (key.into(), value.into()))
            .collect();
        self.call(Unanswered::WRITE, async move |client| {
            client.multi_put(&pairs).await
        })
        .await
    }

    /// All records, in the commit order of their present versions; see [`local::Client::entries`].
    ///
    /// # Errors
    ///
    /// The errors of [`Client::get`].
    pub async fn entries(&self) -> Result<Entries, Error> {
        let found = self
            .read(async move |client| client.entries().await)
            .await?;
        Ok(Entries {
            client: self.clone(),
            found: Some(found),
        })
    }

    /// The server's statistics.
    ///
    /// # Errors
    ///
    /// The errors of [`Client::get`].
    pub async fn stat(&self) -> Result<Stat, Error> {
        self.read(async move |client| client.stat().await).await
    }

    /// All counters of the server.
    ///
    /// # Errors
    ///
    /// The errors of [`Client::get`].
    pub async fn metrics(&self) -> Result<Metrics, Error> {
        self.read(async move |client| client.metrics().await).await
    }

    /// Ends the connection once all requested operations are done. Operations of other clones are refused from now on.
    pub fn close(self) {
        self.driver.close();
    }

    async fn read<T: Send + 'static>(
        &self,
        work: impl AsyncFnOnce(local::Client) -> Result<T, Error> + Send + 'static,
    ) -> Result<T, Error> {
        self.call(Unanswered::READ, work).await
    }

    /// Runs `work` on the driver's thread.
    async fn call<T: Send + 'static>(
        &self,
        unanswered: Unanswered,
        work: impl AsyncFnOnce(local::Client) -> Result<T, Error> + Send + 'static,
    ) -> Result<T, Error> {
        let (answer, answered) = oneshot::channel();
        let job: Job = Box::new(move |client| {
            Box::pin(async move {
                // A caller that is gone needs no answer.
                let _ = answer.send(work(client).await);
            })
        });
        if !self.driver.push(job) {
            return Err(Error::new(ErrorKind::Closed, unanswered.refused));
        }
        match answered.await {
            Ok(result) => result,
            Err(_) => Err(Error::new(ErrorKind::Closed, unanswered.lost)),
        }
    }
}

/// The records found by [`Client::entries`], read a few at a time.
///
/// ```
/// # let folder = tempfile::tempdir()?;
/// # let server = stonecast::Server::builder(folder.path().join("pool"))
/// #     .durability(stonecast::Durability::Process).serve()?;
/// # let url = server.address().to_string();
/// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
/// let client = stonecast::connect(&url).await?;
/// client.put("a", "1").await?;
/// client.put("b", "2").await?;
/// let (mut entries, mut keys) = (client.entries().await?, Vec::new());
/// loop {
///     let batch = entries.next_batch().await?;
///     if batch.is_empty() {
///         break;
///     }
///     keys.extend(batch.into_iter().map(|record| record.key));
/// }
/// assert_eq!(keys, [b"a", b"b"]);
/// # Ok::<(), stonecast::Error>(()) })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Entries {
    client: Client,
    /// `None` while a batch is being read, and forever after a batch was given up.
    found: Option<local::Entries>,
}

impl Entries {
    /// The next records, a few dozen at a time; empty at the end. After an error, the next call tries the same records
    /// again.
    ///
    /// # Errors
    ///
    /// The errors of [`Client::get`], and [`ErrorKind::Closed`] after a call that was dropped before it ended.
    pub async fn next_batch(&mut self) -> Result<Vec<Record>, Error> {
        let mut found = self.found.take().ok_or(ErrorKind::Closed)?;
        let (found, batch) = self
            .client
            .read(async move |client| {
                let batch = found.next_batch(&client).await;
                Ok((found, batch))
            })
            .await?;
        self.found = Some(found);
        batch
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;
    use crate::error::tests::some_token;

    /// Needs the effects of [`Unanswered`] for work that is lost.
    #[test]
    fn a_driver_that_dies_leaves_reads_without_effect_and_writes_with_an_unknown_outcome() {
        let client = Client {
            driver: Arc::default(),
        };
        let token = some_token();
        let mut get = Box::pin(client.get("a"));
        let mut put = Box::pin(client.put("a", "1"));
        let mut retryable = Box::pin(client.put_with("a", "1", Write::retryable()));
        let mut retry = Box::pin(client.put_with("a", "1", Write::retry(token.clone())));
        assert!(get.as_mut().now_or_never().is_none());
        assert!(put.as_mut().now_or_never().is_none());
        assert!(retryable.as_mut().now_or_never().is_none());
        assert!(retry.as_mut().now_or_never().is_none());
        client.driver.abandon();
        let error = get.now_or_never().unwrap().unwrap_err();
        assert!(error.is_disconnected());
        assert_eq!(error.effect(), Effect::None);
        for lost in [
            put.now_or_never().unwrap().unwrap_err(),
            retryable.now_or_never().unwrap().unwrap_err(),
        ] {
            assert!(lost.is_disconnected());
            assert_eq!(lost.effect(), Effect::Unknown { token: None });
        }
        let retry = retry.now_or_never().unwrap().unwrap_err();
        assert_eq!(retry.effect(), Effect::Unknown { token: Some(token) });
        let late = client.put("a", "1").now_or_never().unwrap().unwrap_err();
        assert_eq!(late.effect(), Effect::None, "it was refused");
    }
}
