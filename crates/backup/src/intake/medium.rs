//! The memory that entries land in, and the means to make it durable.

use std::rc::Rc;

use stonecast_base::{Span, mutant};
use stonecast_log::LogFormat;
use stonecast_media::{Durability, Means, PersistError, PersistentRegion};
use stonecast_persist::execute::{Commit, NoCommit};
use stonecast_persist::{Persisted, Platform};

/// A pool's log.
pub(super) struct Medium {
    pub region: Rc<dyn PersistentRegion>,
    pub format: LogFormat,
    commit: Commit,
}

impl Medium {
    pub fn new(
        region: Rc<dyn PersistentRegion>,
        format: LogFormat,
        (platform, durability): (&Platform, Durability),
    ) -> Result<Self, NoCommit> {
        let commit = Commit::choose(platform.declared(), durability, region.means())?;
        Ok(Self {
            region,
            format,
            commit,
        })
    }

    pub fn means(&self) -> Means {
        self.region.means()
    }

    /// Persists this node's stores in `spans`, and then clears `spans`: a future that is dropped leaves them to the
    /// next call.
    pub async fn persist(&self, spans: &mut Vec<Span>) -> Result<Persisted, PersistError> {
        if mutant!(DroppedPersistForgotten) {
            let forgotten = std::mem::take(spans);
            return self.commit.persist(&*self.region, &forgotten).await;
        }
        let persisted = self.commit.persist(&*self.region, spans).await?;
        spans.clear();
        Ok(persisted)
    }
}
