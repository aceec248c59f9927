//! RWrite-KV: each worker thread has a log of its own at each other server, and writes there.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::rc::Rc;

use futures_util::future::try_join_all;
use stonecast_base::Nanoseconds;
use stonecast_fabric::{LocalSpan, Runtime};

use super::super::control::NO_SEGMENT;
use super::super::message::{Kind, Outcome};
use super::Connecting;
use super::link::CallLink;
use super::staging::Staging;
use crate::PublishedError;

/// The pause of an entry that finds another one asking for a segment.
const PAUSE_NS: Nanoseconds = 500;

/// WRITEs into the worker's logs.
pub(crate) struct Writes {
    logs: BTreeMap<u32, RemoteLog>,
    staging: Staging,
}

/// The log of a worker at another server.
pub(super) struct RemoteLog {
    link: CallLink,
    runtime: Rc<dyn Runtime>,
    segment_size: u64,
    tail: Cell<Tail>,
    /// Whether a segment was asked for.
    is_asking: Cell<bool>,
}

#[derive(Clone, Copy)]
struct Tail {
    /// The place of the segment that is being filled, and the bytes that are taken.
    place: u64,
    taken: u64,
    /// The segment that is being filled, and the one before it.
    segments: [u64; 2],
}

impl Writes {
    pub async fn connect(connecting: &Connecting<'_>) -> Result<Self, PublishedError> {
        let logs = RemoteLog::connect_all(connecting).await?;
        let staging = Staging::new(connecting.port)?;
        Ok(Self { logs, staging })
    }

    pub async fn replicate(&self, backups: &[u32], entry: &[u8]) -> Result<(), PublishedError> {
        let staged = self.staging.stage(entry)?;
        try_join_all(
            backups
                .iter()
                .map(|backup| self.logs[backup].append(staged.span)),
        )
        .await?;
        Ok(())
    }
}

impl RemoteLog {
    /// A log of the worker at each other server.
    pub async fn connect_all(
        connecting: &Connecting<'_>,
    ) -> Result<BTreeMap<u32, Self>, PublishedError> {
        let mut logs = BTreeMap::new();
        for server in connecting.others() {
            let segment_size = connecting.store.options.segment_size.into();
            let log = Self {
                link: CallLink::connect(connecting, server).await?,
                runtime: connecting.runtime.clone(),
                segment_size,
                tail: Cell::new(Tail {
                    place: 0,
                    taken: segment_size,
                    segments: [NO_SEGMENT; 2],
                }),
                is_asking: Cell::new(false),
            };
            logs.insert(server, log);
        }
        Ok(logs)
    }

    /// Writes entries behind the earlier ones, and waits until they are persisted.
    pub async fn append(&self, entries: LocalSpan) -> Result<(), PublishedError> {
        let place = loop {
            if let Some(place) = self.reserve(entries.size.into()) {
                break place;
            }
            if self.is_asking.replace(true) {
                self.runtime.sleep(PAUSE_NS).await;
                continue;
            }
            let asked = self.ask().await;
            self.is_asking.set(false);
            asked?;
        };
        self.link.write(entries, place).await
    }

    fn reserve(&self, size: u64) -> Option<u64> {
        let tail = self.tail.get();
        if tail.taken + size > self.segment_size {
            return None;
        }
        let taken = tail.taken + size;
        self.tail.set(Tail { taken, ..tail });
        Some(tail.place + tail.taken)
    }

    /// Asks for the next segment. The segment before the one that is full now is given back: no WRITE is under way
    /// there.
    async fn ask(&self) -> Result<(), PublishedError> {
        let [current, before] = self.tail.get().segments;
        let mut answer = Vec::new();
        let asked = self
            .link
            .caller
            .call(Kind::NextSegment, before, &[], &mut answer);
        if asked.await? != Outcome::Done {
            return Err(PublishedError::Full);
        }
        let (words, []) = answer.as_chunks::<8>() else {
            return Err(PublishedError::Protocol("a segment of another length"));
        };
        let &[segment, place] = words else {
            return Err(PublishedError::Protocol("a segment of another length"));
        };
        self.tail.set(Tail {
            place: u64::from_le_bytes(place),
            taken: 0,
            segments: [u64::from_le_bytes(segment), current],
        });
        Ok(())
    }
}
