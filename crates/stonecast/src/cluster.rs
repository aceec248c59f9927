//! A client of a cluster, with the operations and the errors of the library.
//!
//! The client of the store finds the node of each key, and repeats operations, within the time limit of an operation.
//! No other limit is needed here.

use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use stonecast_base::Nanoseconds;
use stonecast_config_store::{Bounds, open_within};
use stonecast_fabric::{Port, Runtime};
use stonecast_kv::{
    Applied, Batch, CLIENT_COMPLETIONS, ClusterClient, ClusterEntries, ClusterError, ClusterGet,
    ClusterOptions, Dial, FoundKey, Metrics, PutRules, Values, Written,
};
use stonecast_media::{Durability, SHARDS_MAX};

use crate::connector::{Connector, nanoseconds};
use crate::error::{Effect, Error, ErrorKind};
use crate::lifetime::Lifetime;
use crate::write::{Retry, Write};

/// The client of the store, whose errors this component translates.
pub(crate) struct Cluster {
    pub client: Rc<ClusterClient>,
}

/// Entries of the completion queues for all sessions: each shard has one primary, and as many sessions may be about to
/// end.
pub(crate) const COMPLETIONS: u32 = 2 * SHARDS_MAX * CLIENT_COMPLETIONS;

fn options(connector: &Connector) -> ClusterOptions {
    let defaults = ClusterOptions::default();
    // Several nodes have a turn within the limit of the connect.
    let of_connect: Nanoseconds = nanoseconds(connector.connect_timeout) / 4;
    ClusterOptions {
        session: connector.options,
        patience_ns: connector
            .operation_timeout
            .map_or(Nanoseconds::MAX, nanoseconds),
        connect_ns: nanoseconds(connector.connect_timeout),
        attempt_ns: defaults.attempt_ns.min(of_connect),
    }
}

/// A GET, with the errors of the library.
#[must_use = "futures do nothing unless they are awaited"]
pub(crate) struct ClusterRead<'a>(ClusterGet<'a>);

impl Future for ClusterRead<'_> {
    type Output = Result<Option<u64>, Error>;

    #[inline(always)]
    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let read = Pin::new(&mut self.get_mut().0);
        read.poll(context).map_err(of_read)
    }
}

impl Cluster {
    /// Reads the configuration of the cluster, and connects to the first primary that answers. The client of the store
    /// keeps the time limit, and names the shard whose primary did not answer within it.
    pub async fn connect(
        port: Rc<Port>,
        runtime: Rc<dyn Runtime>,
        store: &stonecast_config_store::Address,
        connector: &Connector,
    ) -> Result<Self, Error> {
        let store = open_within(store, Bounds::DEFAULT).map_err(ErrorKind::from)?;
        let dial: Dial = Rc::new(move |_: &str| Ok(port.clone()));
        let connecting = ClusterClient::connect(store, dial, runtime, options(connector));
        let client = connecting.await.map_err(|error| match error {
            ClusterError::Unanswered { .. } => Error::from(ErrorKind::Unanswered {
                address: connector.address.to_string(),
                limit: connector.connect_timeout,
            }),
            error => of_read(error),
        })?;
        if connector.durability == Some(Durability::Power) && !client.survives_power() {
            return Err(ErrorKind::Durability {
                address: connector.address.to_string(),
                expected: Durability::Power,
                found: Durability::Process,
            }
            .into());
        }
        let client = Rc::new(client);
        Ok(Self { client })
    }

    #[inline]
    pub fn get_into<'a>(&'a self, key: &'a [u8], value: &'a mut Vec<u8>) -> ClusterRead<'a> {
        ClusterRead(self.client.get(key, value))
    }

    pub async fn put(&self, key: &[u8], value: &[u8]) -> Result<u64, Error> {
        let put = self.client.put(key, value).await;
        put.map_err(of_write)
    }

    pub async fn put_with(&self, key: &[u8], value: &[u8], write: Write) -> Result<Written, Error> {
        let condition = write.condition();
        let expires = match write.lifetime.end(self.client.time_ms(key)).await {
            Ok(expires) => expires,
            Err(error) => {
                return Err(match write.retry.into_token() {
                    None => of_read(error),
                    // The earlier attempt may have been done.
                    token => Error::new(kind_of(error), Effect::Unknown { token }),
                });
            }
        };
        let rules = PutRules { condition, expires };
        let mut token = write.retry.into_token();
        let put = self.client.put_with(&mut token, key, value, rules).await;
        put.map_err(of_write)
    }

    pub async fn find(&self, key: &[u8], value: &mut Vec<u8>) -> Result<Option<FoundKey>, Error> {
        self.client.find(key, value).await.map_err(of_read)
    }

    pub async fn touch(
        &self,
        key: &[u8],
        lifetime: Lifetime,
        version: Option<u64>,
    ) -> Result<Written, Error> {
        let expires = lifetime.end(self.client.time_ms(key)).await;
        let expires = expires.map_err(of_read)?;
        let touched = self.client.touch(key, expires, version).await;
        touched.map_err(of_write)
    }

    /// `None`: the key was absent.
    pub async fn delete_with(&self, key: &[u8], write: Write) -> Result<Option<Written>, Error> {
        let condition = write.condition();
        let mut token = write.retry.into_token();
        let deleted = self.client.delete_with(&mut token, key, condition).await;
        deleted.map_err(of_write)
    }

    pub async fn apply_with(&self, batch: &Batch, retry: Retry) -> Result<Applied, Error> {
        let mut token = retry.into_token();
        let applied = self.client.apply_with(&mut token, batch).await;
        applied.map_err(of_write)
    }

    pub async fn multi_get_into(&self, keys: &[&[u8]], values: &mut Values) -> Result<(), Error> {
        let found: Result<Vec<_>, _> = self.client.multi_get(keys).await.into_iter().collect();
        let found = found.map_err(of_read)?;
        let borrowed = found.iter().map(|found| {
            let (value, found) = found.as_ref()?;
            Some((value.as_slice(), *found))
        });
        values.fill(borrowed);
        Ok(())
    }

    pub async fn multi_put(&self, pairs: &[(&[u8], &[u8])]) -> Vec<Result<u64, Error>> {
        let outcomes = self.client.multi_put(pairs).await.into_iter();
        let outcomes = outcomes.map(|outcome| outcome.map_err(of_write));
        outcomes.collect()
    }

    pub async fn entries(&self) -> Result<ClusterEntries, Error> {
        self.client.entries().await.map_err(of_read)
    }

    pub async fn next_batch(
        &self,
        found: &mut ClusterEntries,
        batch: &mut Vec<stonecast_kv::Entry>,
    ) -> Result<(), Error> {
        found.next(&self.client, batch).await.map_err(of_read)
    }

    /// The counters of each node that leads a shard.
    pub async fn nodes(&self) -> Vec<(String, Result<Metrics, Error>)> {
        let reports = self.client.metrics().await.into_iter();
        let reports = reports.map(|(name, counted)| (name, counted.map_err(of_read)));
        reports.collect()
    }

    /// The counters of all nodes that lead shards, added up.
    pub async fn metrics(&self) -> Result<Metrics, Error> {
        self.client.metrics_of_all().await.map_err(of_read)
    }

    /// Gives the client's leases back, and disconnects.
    pub async fn close(&self) {
        self.client.close().await;
    }
}

/// The error of an operation that changes nothing.
#[cold]
fn of_read(error: ClusterError) -> Error {
    Error::nothing_done(kind_of(error))
}

/// The error of a write.
#[cold]
fn of_write(error: ClusterError) -> Error {
    let effect = match &error {
        ClusterError::Unknown { token, .. } => Effect::Unknown {
            token: Some((**token).clone()),
        },
        other => match other.effect() {
            stonecast_kv::Effect::None => Effect::None,
            stonecast_kv::Effect::Unknown => Effect::Unknown { token: None },
        },
    };
    Error::new(kind_of(error), effect)
}

fn kind_of(error: ClusterError) -> ErrorKind {
    match error {
        ClusterError::Store(error) => ErrorKind::Store(error),
        error => ErrorKind::Cluster(error),
    }
}
