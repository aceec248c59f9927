//! A worker thread of a server.
//!
//! ```text
//!   client --PUT--> 1 version, entry   2 own t-log, persisted   3 backups, persisted   4 index   5 answer --> client
//! ```

use std::cell::OnceCell;
use std::rc::Rc;

use stonecast_fabric::{QueuePair, Runtime};

use super::entry::{Entry, VALUE_SIZE_MAX};
use super::log::Log;
use super::message::{Kind, Outcome, Request};
use super::node::Seat;
use super::replication::Replicator;
use super::segments::LogKind;
use super::serving::{Arrival, Serving};
use super::store::Store;
use crate::PublishedError;

/// A worker thread.
pub(crate) struct Worker {
    store: Rc<Store>,
    number: u32,
    runtime: Rc<dyn Runtime>,
    serving: Serving,
    /// The t-log.
    log: Log,
    /// The log for entries of other servers, which only RPC-KV fills.
    backup_log: Log,
    replicator: OnceCell<Replicator>,
}

impl Worker {
    /// Worker `number` at `seat`, which serves its address from now on.
    pub fn open(store: Rc<Store>, number: u32, seat: &Seat) -> Result<Self, PublishedError> {
        let address = store.options.worker_address(store.server, number);
        let log = |kind| Log::new(store.clone(), seat.runtime.clone(), kind);
        let (own, backup_log) = (log(LogKind::Primary), log(LogKind::Backup));
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
            Kind::Get => self.get(qp, &request),
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
            Kind::NextSegment | Kind::Commits => {
                self.serving.answer(qp, request.id, Outcome::Elsewhere, &[]);
            }
        }
    }

    fn get(&self, qp: QueuePair, request: &Request) {
        let shard = self.store.placement.shard_of(request.key);
        if !self.store.is_primary(shard) {
            return self.serving.answer(qp, request.id, Outcome::Elsewhere, &[]);
        }
        let bytes = self
            .store
            .find(shard, request.key)
            .map(|located| self.store.read(&located));
        let entry = bytes.as_deref().and_then(Entry::parse);
        match entry.and_then(|entry| entry.value) {
            Some(value) => self.serving.answer(qp, request.id, Outcome::Done, value),
            None => self.serving.answer(qp, request.id, Outcome::Absent, &[]),
        }
    }

    /// Stores or removes the value of a key.
    async fn put(&self, key: u64, value: Option<&[u8]>) -> Outcome {
        let store = &self.store;
        let shard = store.placement.shard_of(key);
        if !store.is_primary(shard) {
            return Outcome::Elsewhere;
        }
        if value.is_some_and(|value| value.len() > VALUE_SIZE_MAX) {
            return Outcome::Full;
        }
        let version = store.begin(shard);
        let entry = Entry {
            shard,
            version,
            key,
            value,
        };
        let bytes = entry.encode();
        let place = match self.log.append(&bytes).await {
            Ok(place) => place,
            Err(_) => {
                store.end(shard, version, None);
                return Outcome::Full;
            }
        };
        let replicator = self.replicator.get().expect("a server connects first");
        let backups = store.placement.backups(shard);
        let copied = replicator.replicate(&backups, &bytes).await;
        store.end(shard, version, Some(place));
        // As published, nothing is checked between the last copy and the answer: neither a lease nor a term.
        match copied.and_then(|()| store.publish(&entry, place)) {
            Ok(_) => Outcome::Done,
            Err(PublishedError::Full) => Outcome::Full,
            Err(_) => Outcome::Failed,
        }
    }
}
