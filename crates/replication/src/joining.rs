//! What a primary knows of a node that it fills.

use stonecast_base::mutant;

use crate::primary::Progress;

/// A node on its way from nothing to everything.
///
/// ```text
///   appends begin ──▶ everything stamped before is published ──▶ pull ──▶ awaited ──▶ named
/// ```
#[derive(Clone, Copy, Debug)]
pub(crate) struct Joining {
    pub progress: Progress,
    /// The last version that was stamped before the first append.
    barrier: u64,
    pulled: bool,
}

impl Joining {
    /// Everything above `last` will be appended.
    pub fn after(last: u64) -> Self {
        Self {
            progress: Progress::up_to(last),
            barrier: last,
            pulled: false,
        }
    }

    /// What was stamped before the first append comes by the pull, so the pull begins when all of that is published.
    pub fn may_pull(&self, published: u64) -> bool {
        published >= self.barrier || mutant!(PullWithoutBarrier)
    }

    pub fn pulled(&mut self) {
        self.pulled = true;
    }

    /// Whether the node has everything that is published.
    pub fn is_filled(&self, published: u64) -> bool {
        self.pulled && self.progress.persisted >= published
    }
}
