//! What recoveries find and change beside the pools: the epochs of nodes, and a configuration store with one value in
//! the memory of all processes of a world.

use std::cell::RefCell;
use std::rc::Rc;

use stonecast_base::Nanoseconds;
use stonecast_cluster::{ConfigStore, Pending, Revision, StoreError, Stored, Swap};
use stonecast_fabric::Runtime;

use crate::kv_cluster::places::EpochOf;

/// Pause between two looks of a process that waits for a change.
const LOOK_NS: Nanoseconds = 100_000;

/// What outlives all processes beside the pools.
pub(crate) struct Beside {
    pub configuration: RefCell<Stored>,
    /// The epochs of nodes.
    pub epochs: Vec<EpochOf>,
}

impl Beside {
    /// A copy of `configuration` and of `epochs`.
    pub fn of(configuration: Stored, epochs: &[EpochOf]) -> Self {
        let copied = |epoch: &EpochOf| EpochOf(Rc::new(RefCell::new(*epoch.0.borrow())));
        Self {
            configuration: RefCell::new(configuration),
            epochs: epochs.iter().map(copied).collect(),
        }
    }
}

impl Clone for Beside {
    fn clone(&self) -> Self {
        Self::of(self.configuration.borrow().clone(), &self.epochs)
    }
}

/// The side of one process.
#[derive(Clone)]
pub(super) struct Shelf {
    pub beside: Rc<Beside>,
    pub runtime: Rc<dyn Runtime>,
}

impl ConfigStore for Shelf {
    fn name(&self) -> &str {
        "shelf"
    }

    fn read(&self) -> Pending<'_, Result<Option<Stored>, StoreError>> {
        Box::pin(async { Ok(Some(self.beside.configuration.borrow().clone())) })
    }

    fn compare_and_set(
        &self,
        expected: Option<Revision>,
        bytes: &[u8],
    ) -> Pending<'_, Result<Swap, StoreError>> {
        let bytes = bytes.to_vec();
        Box::pin(async move {
            let mut value = self.beside.configuration.borrow_mut();
            if expected != Some(value.revision) {
                return Ok(Swap::Conflict);
            }
            let revision = Revision(value.revision.0 + 1);
            *value = Stored { revision, bytes };
            Ok(Swap::Done(revision))
        })
    }

    fn changed(&self, since: Option<Revision>) -> Pending<'_, Result<Stored, StoreError>> {
        Box::pin(async move {
            loop {
                let value = self.beside.configuration.borrow().clone();
                if since.is_none_or(|since| value.revision > since) {
                    return Ok(value);
                }
                self.runtime.sleep(LOOK_NS).await;
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Fails if a copy shares the configuration: then a power cut during a recovery would begin with what that recovery
    /// changed after the cut.
    #[test]
    fn what_a_recovery_changes_later_is_not_in_a_copy() {
        let stored = |bytes: &[u8]| Stored {
            revision: Revision(1),
            bytes: bytes.to_vec(),
        };
        let beside = Beside::of(stored(b"first"), &[EpochOf::default()]);
        let copy = beside.clone();
        *beside.configuration.borrow_mut() = stored(b"second");
        assert_eq!(copy.configuration.borrow().bytes, b"first");
        assert!(!Rc::ptr_eq(&beside.epochs[0].0, &copy.epochs[0].0));
    }
}
