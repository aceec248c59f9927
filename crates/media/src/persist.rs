//! Makes bytes of a region durable.
//!
//! A region does what its means requires and reports whether that succeeded. A region gives out no proof: only the
//! plans of `stonecast-persist` know whether a medium is enough for a promise, and their `Persisted` is the only
//! witness.

use std::future::poll_fn;
use std::task::{Context, Poll};

use stonecast_base::Span;

use crate::{PersistError, Region};

/// The way in which bytes of a region become durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Means {
    /// `fdatasync` of the file: whole pages, one call for all waiting writers.
    FileSync,
    /// A write-back of each cache line, then a fence.
    WriteBack,
    /// The platform is declared to save its caches on power loss: a fence is enough.
    Fence,
    /// Nothing survives power loss. Bytes survive the death of every process that uses them.
    Process,
}

/// The cost of making bytes durable since the region was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PersistCounts {
    /// Cache lines written back.
    pub write_backs: u64,
    /// Fences that were executed.
    pub fences: u64,
    /// Syncs of files.
    pub syncs: u64,
}

/// State of a pending persist between polls. Opaque to callers.
pub type PersistState = Option<u64>;

/// A region whose bytes can be made durable.
pub trait PersistentRegion: Region {
    /// The means of `poll_persist`.
    fn means(&self) -> Means;

    /// The cost of `poll_persist` so far.
    fn persist_counts(&self) -> PersistCounts;

    /// Treats the bytes of `spans` as changed since the last persist, so that the next persist makes them durable.
    /// Meant for bytes that an earlier run left behind: an unreported failure may have kept them from the medium.
    /// Changes no byte. Only means that track changes need this call.
    fn mark_changed(&self, spans: &[Span]) {
        let _ = spans;
    }

    /// Makes the bytes that `spans` held at the first poll durable. Real media do the work in the first poll and block;
    /// the simulated medium lets virtual time pass. A sync of a file covers more than `spans`.
    ///
    /// After an error the region is poisoned: it is unknown which pages reached the medium (a failed `fsync` drops
    /// their dirty marks), so every later call fails until the pool is closed and recovered. A crash during the call
    /// leaves any of the bytes durable.
    fn poll_persist(
        &self,
        spans: &[Span],
        state: &mut PersistState,
        context: &mut Context<'_>,
    ) -> Poll<Result<(), PersistError>>;
}

/// Makes `spans` of `region` durable, as [`PersistentRegion::poll_persist`] describes.
pub async fn persist_spans(
    region: &dyn PersistentRegion,
    spans: &[Span],
) -> Result<(), PersistError> {
    let mut state = None;
    poll_fn(|context| region.poll_persist(spans, &mut state, context)).await
}
