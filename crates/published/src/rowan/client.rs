//! A client of Rowan-KV or of one of its rivals.

use std::cell::Cell;
use std::rc::Rc;

use stonecast_fabric::{Port, Runtime};

use super::RowanOptions;
use super::caller::Caller;
use super::entry::VALUE_SIZE_MAX;
use super::message::{Kind, Outcome};
use super::placement::Placement;
use crate::PublishedError;

/// A client thread with a connection to one worker thread of each server. Several operations may be under way at a
/// time.
pub struct RowanClient {
    placement: Rc<Placement>,
    servers: Vec<Rc<Caller>>,
    /// Counts operations. Where every copy takes requests, the count picks the next server in turn.
    turns: Option<Cell<usize>>,
}

impl RowanClient {
    /// Connects to worker `worker` of each server.
    ///
    /// # Errors
    ///
    /// A server is not there.
    pub async fn connect(
        options: &RowanOptions,
        placement: Rc<Placement>,
        port: &Rc<Port>,
        runtime: &Rc<dyn Runtime>,
        worker: u32,
    ) -> Result<Self, PublishedError> {
        let mut servers = Vec::new();
        for server in 0..options.servers {
            let address = options.worker_address(server, worker);
            let (caller, _) = Caller::connect(port, runtime, &address, &[]).await?;
            servers.push(caller);
        }
        let is_symmetric = options.replication.is_symmetric();
        Ok(Self {
            placement,
            servers,
            turns: is_symmetric.then(Cell::default),
        })
    }

    /// Looks up a key. Returns whether it is present, and its value in `into`.
    ///
    /// # Errors
    ///
    /// [`PublishedError::Elsewhere`], or the server is gone.
    pub async fn get(&self, key: u64, into: &mut Vec<u8>) -> Result<bool, PublishedError> {
        match self.call(Kind::Get, key, &[], into).await? {
            Outcome::Absent => Ok(false),
            outcome => done(outcome).map(|()| true),
        }
    }

    /// Stores a value.
    ///
    /// # Errors
    ///
    /// [`PublishedError::Unknown`]: the value may be stored or not. A connection that ended means the same.
    pub async fn put(&self, key: u64, value: &[u8]) -> Result<(), PublishedError> {
        if value.len() > VALUE_SIZE_MAX {
            return Err(PublishedError::Size {
                what: "the value",
                size: value.len(),
                expected: VALUE_SIZE_MAX,
            });
        }
        done(self.call(Kind::Put, key, value, &mut Vec::new()).await?)
    }

    /// Removes a key.
    ///
    /// # Errors
    ///
    /// The errors of [`RowanClient::put`].
    pub async fn delete(&self, key: u64) -> Result<(), PublishedError> {
        done(self.call(Kind::Delete, key, &[], &mut Vec::new()).await?)
    }

    async fn call(
        &self,
        kind: Kind,
        key: u64,
        body: &[u8],
        into: &mut Vec<u8>,
    ) -> Result<Outcome, PublishedError> {
        let shard = self.placement.shard_of(key);
        let mut server = self.placement.primary(shard);
        if let Some(turns) = &self.turns {
            let turn = turns.replace(turns.get() + 1);
            let backups = self.placement.backups(shard);
            server = match turn % (backups.len() + 1) {
                0 => server,
                backup => backups[backup - 1],
            };
        }
        self.servers[server as usize]
            .call(kind, key, body, into)
            .await
    }
}

fn done(outcome: Outcome) -> Result<(), PublishedError> {
    match outcome {
        Outcome::Done | Outcome::Absent => Ok(()),
        Outcome::Full => Err(PublishedError::Full),
        Outcome::Failed => Err(PublishedError::Unknown),
        Outcome::Elsewhere => Err(PublishedError::Elsewhere),
    }
}
