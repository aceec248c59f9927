//! How bytes of a region become durable.
//!
//! A region does what its means asks for and says whether that worked. It gives out no proof: what a write needs beyond its
//! medium is known to the plans of `stonecast-persist`, whose `Persisted` is the only one.

use std::future::poll_fn;
use std::task::{Context, Poll};

use stonecast_base::Span;

use crate::{PersistError, Region};

/// What makes bytes of a region durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Means {
    /// `fdatasync` of the file: whole pages, one call for all waiting writers.
    FileSync,
    /// Each dirty cache line written back, then a fence.
    WriteBack,
    /// The platform is declared to save its caches on power loss: a fence is enough.
    Fence,
    /// Nothing survives power loss. Bytes survive the death of every process that uses them.
    Process,
}

/// What making bytes durable took, since the region was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PersistCounts {
    /// Cache lines written back.
    pub write_backs: u64,
    /// Fences.
    pub fences: u64,
    /// Syncs of files.
    pub syncs: u64,
}

/// Where a pending persist is kept between polls. Opaque to callers.
pub type PersistState = Option<u64>;

/// A region whose bytes can be made durable.
pub trait PersistentRegion: Region {
    /// What `poll_persist` does.
    fn means(&self) -> Means;

    /// What `poll_persist` took so far.
    fn persist_counts(&self) -> PersistCounts;

    /// Takes what `spans` show for changed since the last persist, whatever was told of them: the next persist makes them durable.
    /// For what an earlier run left behind, where a failure that nobody was told of may have kept it from the medium. Changes no
    /// byte. Only means that keep count of what has changed need it.
    fn mark_changed(&self, spans: &[Span]) {
        let _ = spans;
    }

    /// Makes the bytes that `spans` held at the first poll durable. Real media do the work in the first poll and
    /// block; the simulated medium lets virtual time pass. A file syncs more than was asked.
    ///
    /// After an error the region is poisoned: nobody knows which pages reached the medium (a failed `fsync` drops
    /// them), so every later call fails until the pool was closed and recovered.
    fn poll_persist(
        &self,
        spans: &[Span],
        state: &mut PersistState,
        context: &mut Context<'_>,
    ) -> Poll<Result<(), PersistError>>;
}

/// Makes `spans` of `region` durable, as [`PersistentRegion::poll_persist`] describes.
pub async fn persist(region: &dyn PersistentRegion, spans: &[Span]) -> Result<(), PersistError> {
    let mut state = None;
    poll_fn(|context| region.poll_persist(spans, &mut state, context)).await
}
