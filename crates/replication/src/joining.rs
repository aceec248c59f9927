//! A node that a primary fills.

use stonecast_base::mutant;

use crate::sending::{Connection, Progress};

/// A node on its way from nothing to everything.
///
/// ```text
///   fill ──▶ dropped: appends begin after the horizon ──▶ pulled ──▶ awaited ──▶ named
/// ```
///
/// The pull brings everything that is published, and the appends bring everything above the horizon at which the join
/// began: no write lies between.
#[derive(Clone, Debug)]
pub(crate) struct Joining {
    pub progress: Progress,
    /// The number of the join.
    pub join: u64,
    pub stage: Stage,
}

/// The progress of a joiner.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Stage {
    /// The joiner may still have entries of an earlier life.
    Dropping,
    /// The primary appends entries to the joiner.
    Appending,
    /// Everything that was published is durable on the joiner.
    Pulled,
}

impl Joining {
    /// A joiner to which the primary appends everything above `horizon`, by connections later than `dropped`.
    pub fn above(horizon: u64, join: u64, dropped: Option<Connection>) -> Self {
        Self {
            progress: Progress::behind(dropped, horizon),
            join,
            stage: Stage::Dropping,
        }
    }

    /// Takes the joiner's report that it has come to `stage` of its join `join`. A report of an earlier join has no
    /// effect: the joiner has dropped the state that the report was about.
    pub fn comes_to(&mut self, stage: Stage, join: u64) {
        if join == self.join || mutant!(EarlierPullCounts) {
            self.stage = self.stage.max(stage);
        }
    }

    /// Whether the node has everything that is published.
    pub fn is_filled(&self, published: u64) -> bool {
        self.stage == Stage::Pulled && self.progress.persisted() >= published
    }
}
