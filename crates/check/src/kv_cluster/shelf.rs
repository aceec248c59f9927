//! A configuration store for recoveries: one value in the memory of all processes of a world.

use std::cell::RefCell;
use std::rc::Rc;

use stonecast_base::Nanoseconds;
use stonecast_cluster::{ConfigStore, Pending, Revision, StoreError, Stored, Swap};
use stonecast_fabric::Runtime;

/// Pause between two looks of a process that waits for a change.
const LOOK_NS: Nanoseconds = 100_000;

/// The side of one process.
#[derive(Clone)]
pub(super) struct Shelf {
    pub value: Rc<RefCell<Stored>>,
    pub runtime: Rc<dyn Runtime>,
}

impl ConfigStore for Shelf {
    fn name(&self) -> &str {
        "shelf"
    }

    fn read(&self) -> Pending<'_, Result<Option<Stored>, StoreError>> {
        Box::pin(async { Ok(Some(self.value.borrow().clone())) })
    }

    fn compare_and_set(
        &self,
        expected: Option<Revision>,
        bytes: &[u8],
    ) -> Pending<'_, Result<Swap, StoreError>> {
        let bytes = bytes.to_vec();
        Box::pin(async move {
            let mut value = self.value.borrow_mut();
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
                let value = self.value.borrow().clone();
                if since.is_none_or(|since| value.revision > since) {
                    return Ok(value);
                }
                self.runtime.sleep(LOOK_NS).await;
            }
        })
    }
}
