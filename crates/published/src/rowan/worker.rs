//! A worker thread of a server.
//!
//! ```text
//!   client --PUT--> 1 version, entry   2 own t-log, persisted   3 backups, persisted   4 index   5 answer --> client
//! ```

use std::cell::OnceCell;
use std::rc::Rc;

use stonecast_base::Nanoseconds;
use stonecast_fabric::{QueuePair, Runtime};

use super::Replication;
use super::entry::{Entry, VALUE_SIZE_MAX};
use super::log::Log;
use super::message::{Kind, Outcome, Request};
use super::node::Seat;
use super::replication::Replicator;
use super::segments::LogKind;
use super::serving::{Arrival, Serving};
use super::store::Store;
use crate::PublishedError;

/// The pause before an entry that readers wait for is looked at again.
const INVALID_NS: Nanoseconds = 500;

/// A worker thread.
pub(crate) struct Worker {
    store: Rc<Store>,
    number: u32,
    runtime: Rc<dyn Runtime>,
    serving: Serving,
    /// The t-log.
    log: Log,
    /// The log for entries of other servers, which RPC-KV and the store like HermesKV fill.
    backup_log: Log,
    replicator: OnceCell<Replicator>,
}

impl Worker {
    /// Worker `number` at `seat`, which serves its address from now on.
    pub fn open(store: Rc<Store>, number: u32, seat: &Seat) -> Result<Self, PublishedError> {
        let address = store.options.worker_address(store.server, number);
        let log = |kind| Log::new(store.clone(), seat.runtime.clone(), kind);
        let kinds = match store.is_symmetric() {
            true => [LogKind::Applied; 2],
            false => [LogKind::Primary, LogKind::Backup],
        };
        let [own, backup_log] = kinds.map(log);
        Ok(Self {
            serving: Serving::open(seat.port.clone(), &address)?,
            runtime: seat.runtime.clone(),
            log: own,
            backup_log,
            replicator: OnceCell::new(),
            number,
            store,
        })
    }

    /// Connects to the other servers.
    pub async fn connect(&self) -> Result<(), PublishedError> {
        let port = self.serving.port();
        let replicator = Replicator::connect(&self.store, port, &self.runtime, self.number).await?;
        assert!(
            self.replicator.set(replicator).is_ok(),
            "a worker connects once"
        );
        Ok(())
    }

    /// Serves forever.
    pub async fn run(self: Rc<Self>) {
        loop {
            self.serving.port().activity().await;
            self.serving.take_events(|_| Ok((Vec::new(), None)));
            while let Some(arrival) = self.serving.take_request() {
                self.serve(arrival);
            }
        }
    }

    fn serve(self: &Rc<Self>, arrival: Arrival) {
        let Arrival { qp, request, body } = arrival;
        let worker = self.clone();
        match request.kind {
            Kind::Get => self.get(qp, request),
            Kind::Put | Kind::Delete => self.runtime.spawn(Box::pin(async move {
                let value = (request.kind == Kind::Put).then_some(&body[..]);
                let outcome = worker.put(request.key, value).await;
                worker.serving.answer(qp, request.id, outcome, &[]);
            })),
            Kind::Replicate => self.runtime.spawn(Box::pin(async move {
                let outcome = match worker.backup_log.append(&body).await {
                    Ok(_) => Outcome::Done,
                    Err(PublishedError::Full) => Outcome::Full,
                    Err(_) => Outcome::Failed,
                };
                worker.serving.answer(qp, request.id, outcome, &[]);
            })),
            Kind::Invalidate => self.runtime.spawn(Box::pin(async move {
                let outcome = worker.invalidate(&body).await;
                worker.serving.answer(qp, request.id, outcome, &[]);
            })),
            Kind::Validate => {
                if let Ok(version) = body[..].try_into() {
                    let shard = self.store.placement.shard_of(request.key);
                    let version = u64::from_le_bytes(version);
                    self.store.validate(shard, request.key, version);
                }
            }
            Kind::NextSegment | Kind::Commits | Kind::Open | Kind::Allocate | Kind::Retire => {
                self.serving.answer(qp, request.id, Outcome::Elsewhere, &[]);
            }
        }
    }

    fn get(self: &Rc<Self>, qp: QueuePair, request: Request) {
        let shard = self.store.placement.shard_of(request.key);
        if !self.store.serves(shard) {
            return self.serving.answer(qp, request.id, Outcome::Elsewhere, &[]);
        }
        let located = self.store.find(shard, request.key);
        if located.is_some_and(|located| located.is_invalid) {
            let worker = self.clone();
            return self.runtime.spawn(Box::pin(async move {
                worker.runtime.sleep(INVALID_NS).await;
                worker.get(qp, request);
            }));
        }
        let bytes = located.map(|located| self.store.read(&located));
        let entry = bytes.as_deref().and_then(Entry::parse);
        match entry.and_then(|entry| entry.value) {
            Some(value) => self.serving.answer(qp, request.id, Outcome::Done, value),
            None => self.serving.answer(qp, request.id, Outcome::Absent, &[]),
        }
    }

    /// Appends an entry of another server, and lets readers of its key wait.
    async fn invalidate(&self, body: &[u8]) -> Outcome {
        let Some(entry) = Entry::parse(body) else {
            return Outcome::Failed;
        };
        let appended = self.backup_log.append(body).await;
        match appended.and_then(|place| self.store.invalidate(&entry, place)) {
            Ok(_) if self.is_untold() => {
                self.store.validate(entry.shard, entry.key, entry.version);
                Outcome::Done
            }
            Ok(_) => Outcome::Done,
            Err(PublishedError::Full) => Outcome::Full,
            Err(_) => Outcome::Failed,
        }
    }

    /// Stores or removes the value of a key.
    async fn put(&self, key: u64, value: Option<&[u8]>) -> Outcome {
        let store = &self.store;
        let shard = store.placement.shard_of(key);
        if !store.serves(shard) {
            return Outcome::Elsewhere;
        }
        if value.is_some_and(|value| value.len() > VALUE_SIZE_MAX) {
            return Outcome::Full;
        }
        let is_symmetric = store.is_symmetric();
        let version = match is_symmetric {
            true => store.stamp(shard, key),
            false => store.begin(shard),
        };
        let entry = Entry {
            shard,
            version,
            key,
            value,
        };
        let bytes = entry.encode();
        let appended = self.log.append(&bytes).await;
        let copied = match appended {
            Ok(place) => self.copy(&entry, place, &bytes).await.map(|()| place),
            Err(error) => {
                store.end(shard, version, None);
                Err(error)
            }
        };
        let published = match copied {
            Ok(_) if is_symmetric => {
                store.validate(shard, key, version);
                Ok(true)
            }
            // As published, nothing is checked between the last copy and the answer: neither a lease nor a term.
            Ok(place) => store.publish(&entry, place),
            Err(error) => Err(error),
        };
        match published {
            Ok(_) => Outcome::Done,
            Err(PublishedError::Full) => Outcome::Full,
            Err(_) => Outcome::Failed,
        }
    }

    /// Whether no message says that all copies of an entry are made.
    fn is_untold(&self) -> bool {
        self.store.options.replication == Replication::HermesUntold
    }

    /// Brings an entry at `place` to the other servers.
    async fn copy(
        &self,
        entry: &Entry<'_>,
        place: u64,
        bytes: &[u8],
    ) -> Result<(), PublishedError> {
        let store = &self.store;
        let is_symmetric = store.is_symmetric();
        if is_symmetric {
            store.invalidate(entry, place)?;
        }
        let replicator = self.replicator.get().expect("a server connects first");
        let others = store.others(entry.shard);
        let copied = replicator.replicate(&others, bytes).await;
        match is_symmetric {
            true if self.is_untold() => {}
            true => replicator.conclude(&others, entry),
            false => store.end(entry.shard, entry.version, Some(place)),
        }
        copied
    }
}
