//! How each design carries an entry to the backups, one file each. Rowan-KV and its rivals share everything else.
//!
//! ```text
//!   append.rs   SEND, READ                       one log of all servers      Rowan-KV
//!   rpc.rs      request, copy by the backup      a log for each worker       RPC-KV
//!               the same, and a message behind it  the same                    like HermesKV
//!   write.rs    WRITE, READ                      a log for each remote one   RWrite-KV
//!   batch.rs    wait, WRITE, READ                the same                    Batch-KV
//!   share.rs    FETCH_AND_ADD, then WRITE, READ  one log of all servers      Share-KV
//! ```
//!
//! A READ of one byte follows each SEND or WRITE, with the same doorbell: with DDIO off, its answer means that the
//! entry is persisted.

mod append;
mod batch;
mod link;
mod rpc;
mod share;
pub(crate) mod staging;
mod write;

use std::rc::Rc;

use stonecast_fabric::{Port, Runtime};

use self::append::Appends;
use self::batch::Batches;
use self::rpc::Calls;
use self::share::Shares;
use self::write::Writes;
use super::Replication;
use super::entry::Entry;
use super::message::Kind;
use super::store::Store;
use crate::PublishedError;

/// A worker's way to the backups.
pub(crate) enum Replicator {
    Append(Appends),
    Rpc(Calls),
    Write(Writes),
    Batch(Batches),
    Share(Shares),
}

/// A worker that connects to the other servers.
pub(crate) struct Connecting<'a> {
    store: &'a Store,
    port: &'a Rc<Port>,
    runtime: &'a Rc<dyn Runtime>,
    worker: u32,
}

impl Connecting<'_> {
    /// The servers to connect to.
    fn others(&self) -> impl Iterator<Item = u32> + use<> {
        let own = self.store.server;
        (0..self.store.options.servers).filter(move |&server| server != own)
    }
}

impl Replicator {
    /// Connects worker `worker` to the other servers.
    pub async fn connect(
        store: &Store,
        port: &Rc<Port>,
        runtime: &Rc<dyn Runtime>,
        worker: u32,
    ) -> Result<Self, PublishedError> {
        let connecting = Connecting {
            store,
            port,
            runtime,
            worker,
        };
        Ok(match store.options.replication {
            Replication::Append => Self::Append(Appends::connect(&connecting).await?),
            Replication::Rpc => Self::Rpc(Calls::connect(&connecting, Kind::Replicate).await?),
            Replication::Hermes | Replication::HermesUntold => {
                Self::Rpc(Calls::connect(&connecting, Kind::Invalidate).await?)
            }
            Replication::Write => Self::Write(Writes::connect(&connecting).await?),
            Replication::Batch => Self::Batch(Batches::connect(&connecting).await?),
            Replication::Share => Self::Share(Shares::connect(&connecting).await?),
        })
    }

    /// Brings an entry to the backups. The entry is persisted there when the future ends.
    pub async fn replicate(&self, backups: &[u32], entry: &[u8]) -> Result<(), PublishedError> {
        match self {
            Self::Append(appends) => appends.replicate(backups, entry).await,
            Self::Rpc(calls) => calls.replicate(backups, entry).await,
            Self::Write(writes) => writes.replicate(backups, entry).await,
            Self::Batch(batches) => batches.replicate(backups, entry).await,
            Self::Share(shares) => shares.replicate(backups, entry).await,
        }
    }

    /// Tells the other servers that all copies of an entry are made, if the design does.
    pub fn conclude(&self, others: &[u32], entry: &Entry<'_>) {
        if let Self::Rpc(calls) = self {
            calls.conclude(others, entry);
        }
    }
}
