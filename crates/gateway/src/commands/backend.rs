//! The server or the cluster behind the gateway.
//!
//! A server executes the writes of one connection in their order. Nodes of a cluster do not: an attempt may be repeated
//! at another node while later writes are under way. Writes of one key in a step are therefore not in flight together;
//! the last one stands for those that it overwrites.
//!
//! The calls of a cluster are futures on the heap, so that the calls of a server take no more memory than they need.

use std::rc::Rc;

use stonecast::local;
use stonecast_kv::{
    Applied, Batch, Client, ClusterClient, ClusterEntries, Condition, Copies, Entry, FoundKey,
    PutRules, Stat, Values, Written, limits,
};
use stonecast_media::SHARDS_MAX;

use super::error::Failure;

/// A client of a server or of a cluster.
pub enum Backend {
    Server(Client),
    Cluster(Rc<ClusterClient>),
}

/// Keys that were found, without their records.
pub enum Entries {
    Server(stonecast_kv::Entries),
    Cluster(Box<ClusterEntries>),
}

/// Keys of a cluster that are read together. Their values may all be long, and no account counts the memory of the
/// values of one call.
const KEYS_TOGETHER: usize = 32;
/// The shards of a cursor of a cluster.
const SHARDS: u64 = SHARDS_MAX as u64;

impl Backend {
    /// The store of a connection.
    pub fn of(client: &local::Client) -> Self {
        match (client.store(), client.cluster()) {
            (Some(server), _) => Self::Server(server.clone()),
            (None, Some(cluster)) => Self::Cluster(cluster.clone()),
            (None, None) => unreachable!("a client has a server or a cluster"),
        }
    }

    pub async fn entries(&self) -> Result<Entries, Failure> {
        Ok(match self {
            Self::Server(client) => Entries::Server(client.entries().await?),
            Self::Cluster(client) => Entries::Cluster(Box::new(client.entries().await?)),
        })
    }

    pub async fn next_entries(
        &self,
        entries: &mut Entries,
        page: &mut Vec<Entry>,
    ) -> Result<(), Failure> {
        match (self, entries) {
            (Self::Server(client), Entries::Server(found)) => found.next(client, page).await?,
            (Self::Cluster(client), Entries::Cluster(found)) => {
                found.next(client, page).await?;
            }
            _ => unreachable!("entries are read from the store that found them"),
        }
        Ok(())
    }

    /// The cursor after an entry. Keys of a server come in the order of their versions, and keys of a cluster shard by
    /// shard, in that order within a shard.
    pub fn cursor_behind(&self, entry: &Entry) -> u64 {
        match self {
            Self::Server(_) => entry.version,
            Self::Cluster(client) => {
                let shard = client.shard_of(&entry.key);
                // A cursor is never 0, since a version is not.
                entry.version * SHARDS + u64::from(shard)
            }
        }
    }

    /// Whether an entry comes after the entries that `cursor` stands for; 0 is the beginning.
    pub fn is_behind(&self, entry: &Entry, cursor: u64) -> bool {
        match self {
            Self::Server(_) => entry.version > cursor,
            Self::Cluster(client) => {
                let place = (u64::from(client.shard_of(&entry.key)), entry.version);
                place > (cursor % SHARDS, cursor / SHARDS)
            }
        }
    }

    pub async fn report(&self) {
        match self {
            // The next command shows whether the connection has ended.
            Self::Server(client) => drop(client.report().await),
            Self::Cluster(client) => Box::pin(client.report()).await,
        }
    }

    /// Reads the values of the first keys; see [`Client::multi_get_within`]. A cluster reads nothing without room for a
    /// long value.
    pub async fn get_many(
        &self,
        keys: &[&[u8]],
        size_max: usize,
        values: &mut Values,
    ) -> Result<usize, Failure> {
        let client = match self {
            Self::Server(client) => {
                return Ok(client.multi_get_within(keys, size_max, values).await?);
            }
            Self::Cluster(client) => client,
        };
        if size_max < limits::WHOLE_VALUE_SIZE_MAX {
            return Ok(0);
        }
        let together = &keys[..keys.len().min(KEYS_TOGETHER)];
        let found = client.multi_get(together).await.into_iter();
        let found: Vec<_> = found.collect::<Result<_, _>>()?;
        let (mut size, mut count) = (0, 0);
        for value in &found {
            size += value.as_ref().map_or(0, |(value, _)| value.len());
            if size > size_max && (count > 0 || size_max < limits::VALUE_SIZE_MAX) {
                break;
            }
            count += 1;
        }
        let borrowed = found[..count].iter().map(|found| {
            let (value, found) = found.as_ref()?;
            Some((value.as_slice(), *found))
        });
        values.fill(borrowed);
        Ok(count)
    }

    /// The time by which `key` expires, in milliseconds since 1970.
    pub async fn time_ms(&self, key: &[u8]) -> Result<u64, Failure> {
        Ok(match self {
            Self::Server(client) => client.server_time_ms().await?,
            Self::Cluster(client) => client.time_ms(key).await?,
        })
    }

    pub async fn get(&self, key: &[u8], value: &mut Vec<u8>) -> Result<Option<FoundKey>, Failure> {
        Ok(match self {
            Self::Server(client) => client.find(key, value).await?,
            Self::Cluster(client) => client.find(key, value).await?,
        })
    }

    pub async fn put(&self, key: &[u8], value: &[u8], rules: PutRules) -> Result<Written, Failure> {
        Ok(match self {
            Self::Server(client) => client.put_if(key, value, rules).await?,
            Self::Cluster(client) => client.put_with(&mut None, key, value, rules).await?,
        })
    }

    /// Puts a value that another put of the same step overwrites, if the two stay in their order. Returns whether the
    /// value was put.
    pub async fn put_at_once(&self, key: &[u8], value: &[u8]) -> Result<bool, Failure> {
        Ok(match self {
            Self::Server(client) => client.put_once(key, value).await?.is_some(),
            Self::Cluster(_) => false,
        })
    }

    pub async fn delete(
        &self,
        key: &[u8],
        condition: Condition,
    ) -> Result<Option<Written>, Failure> {
        Ok(match self {
            Self::Server(client) => client.delete_if(key, condition).await?,
            Self::Cluster(client) => client.delete_with(&mut None, key, condition).await?,
        })
    }

    pub fn is_alone(&self) -> bool {
        matches!(self, Self::Server(_))
    }

    pub async fn apply(&self, batch: &Batch) -> Result<Applied, Failure> {
        Ok(match self {
            Self::Server(client) => client.apply(batch).await?,
            Self::Cluster(client) => client.apply(batch).await?,
        })
    }

    pub fn shard_of(&self, key: &[u8]) -> u32 {
        match self {
            Self::Server(_) => 0,
            Self::Cluster(client) => client.shard_of(key),
        }
    }

    /// The copies of the acknowledged writes to `shards`. A server that is alone has one.
    pub async fn copies(&self, shards: &[u32]) -> Result<Copies, Failure> {
        Ok(match self {
            Self::Server(client) => Copies {
                backups: 0,
                primary_survives_power: client.stat().await?.power,
                backups_that_survive_power: 0,
            },
            Self::Cluster(client) => client.copies(shards).await?,
        })
    }

    /// The number of keys.
    pub async fn keys(&self) -> Result<u64, Failure> {
        match self {
            Self::Server(client) => Ok(client.stat().await?.keys),
            Self::Cluster(client) => Ok(client.keys().await?),
        }
    }

    /// The report of the server, or those of all nodes that lead shards, added up.
    pub async fn stat(&self) -> Result<Stat, Failure> {
        match self {
            Self::Server(client) => Ok(client.stat().await?),
            Self::Cluster(client) => Ok(client.metrics_of_all().await?.stat),
        }
    }
}

impl Entries {
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub fn len(&self) -> usize {
        match self {
            Self::Server(found) => found.len(),
            Self::Cluster(found) => found.len(),
        }
    }
}
