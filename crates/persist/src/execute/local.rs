//! The steps of a responder's processor on its own medium, between a receipt and the acknowledgement.
//!
//! ```text
//!   rsp.receive(a)   rsp.copy(a)  rsp.write_back(a)  rsp.copy(b)  rsp.write_back(b)   rsp.send(ack)
//!                    [------------------ local steps ---------------------------]
//! ```

use stonecast_base::Span;
use stonecast_media::{Means, PersistError, PersistentRegion, persist_spans};

use crate::step::Step;

/// Ends `step` after its stores were made. `spans` hold these stores, and the bytes that a requester wrote beside them.
///
/// A copy is done when its stores have left the store buffer. Where caches survive, the copy is then persisted.
/// Elsewhere, the plan has a write-back after the copy, which also waits for the stores, so that one update costs one
/// fence.
///
/// A crash during the call leaves any part of `spans`.
pub(super) async fn end(
    step: Step,
    region: &dyn PersistentRegion,
    spans: &[Span],
) -> Result<(), PersistError> {
    match step {
        Step::Copy(_) if is_written_back(region.means()) => Ok(()),
        Step::Copy(_) | Step::WriteBack(_) => persist_spans(region, spans).await,
        other => unreachable!("{other} is not a step on the responder's own memory"),
    }
}

/// Whether stores must be written back or synced to be durable.
fn is_written_back(means: Means) -> bool {
    match means {
        Means::WriteBack | Means::FileSync => true,
        Means::Fence | Means::Process => false,
    }
}
