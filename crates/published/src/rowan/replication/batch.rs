//! Batch-KV: as RWrite-KV, with the entries of a short time in one WRITE.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Poll, Waker};

use futures_util::future::try_join_all;
use stonecast_base::Nanoseconds;
use stonecast_fabric::Runtime;

use super::Connecting;
use super::staging::Staging;
use super::write::RemoteLog;
use crate::PublishedError;

/// Batches of WRITEs into the worker's logs.
pub(crate) struct Batches {
    logs: BTreeMap<u32, Batching>,
    staging: Staging,
    runtime: Rc<dyn Runtime>,
    size: usize,
    wait_ns: Nanoseconds,
}

/// The log of a worker at another server, and the batch that takes entries for it.
struct Batching {
    log: RemoteLog,
    open: RefCell<Option<Rc<Batch>>>,
}

/// Entries that are written together, by the task of the first one.
#[derive(Default)]
struct Batch {
    bytes: RefCell<Vec<u8>>,
    stage: Cell<Stage>,
    waiting: RefCell<Vec<Waker>>,
}

#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
enum Stage {
    /// Takes entries.
    #[default]
    Open,
    /// Takes no further entry.
    Closed,
    /// The entries of the batch are persisted.
    Done,
    Failed,
}

impl Batches {
    pub async fn connect(connecting: &Connecting<'_>) -> Result<Self, PublishedError> {
        let logs = RemoteLog::connect_all(connecting).await?;
        let batching = |(server, log)| {
            let open = RefCell::default();
            (server, Batching { log, open })
        };
        let (size, wait_ns) = connecting.store.options.batch;
        Ok(Self {
            logs: logs.into_iter().map(batching).collect(),
            staging: Staging::new(connecting.port)?,
            runtime: connecting.runtime.clone(),
            size: size as usize,
            wait_ns,
        })
    }

    pub async fn replicate(&self, backups: &[u32], entry: &[u8]) -> Result<(), PublishedError> {
        let copies = backups
            .iter()
            .map(|backup| self.append(&self.logs[backup], entry));
        try_join_all(copies).await?;
        Ok(())
    }

    async fn append(&self, batching: &Batching, entry: &[u8]) -> Result<(), PublishedError> {
        let joined = batching.open.borrow().clone();
        let is_first = joined.is_none();
        let batch = joined.unwrap_or_default();
        batch.bytes.borrow_mut().extend_from_slice(entry);
        let is_full = batch.bytes.borrow().len() >= self.size;
        let open = (!is_full).then(|| batch.clone());
        batching.open.replace(open);
        if is_full {
            batch.enter(Stage::Closed);
        }
        if !is_first {
            batch.until(Stage::Done).await;
            return match batch.stage.get() {
                Stage::Failed => Err(PublishedError::Unknown),
                _ => Ok(()),
            };
        }
        // Either result ends the wait.
        let _ = self
            .runtime
            .within(self.wait_ns, batch.until(Stage::Closed))
            .await;
        if batch.stage.get() == Stage::Open {
            batching.open.replace(None);
            batch.enter(Stage::Closed);
        }
        let written = self.write(batching, &batch).await;
        batch.enter(match written {
            Ok(()) => Stage::Done,
            Err(_) => Stage::Failed,
        });
        written
    }

    async fn write(&self, batching: &Batching, batch: &Batch) -> Result<(), PublishedError> {
        let bytes = batch.bytes.take();
        let staged = self.staging.stage(&bytes)?;
        batching.log.append(staged.span).await
    }
}

impl Batch {
    fn enter(&self, stage: Stage) {
        self.stage.set(stage);
        self.waiting.take().into_iter().for_each(Waker::wake);
    }

    async fn until(&self, stage: Stage) {
        poll_fn(|context| {
            if self.stage.get() >= stage {
                return Poll::Ready(());
            }
            self.waiting.borrow_mut().push(context.waker().clone());
            Poll::Pending
        })
        .await;
    }
}
