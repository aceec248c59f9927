//! Memory that receives READs if the provider cannot read into place, and from which changes are posted.
//!
//! ```text
//!   free --lent--> held by the future, and from the post on by the batch --both have let go--> free
//! ```
//!
//! Invariants:
//! - Memory is not lent again while a READ may still write to the memory or a change may be sent from it. The batch
//!   holds the memory, because only the batch knows when a batch that was given up has ended.
//! - For the same time, a READ keeps its index open.

use std::cell::RefCell;
use std::rc::Rc;

use stonecast_fabric::{DeviceError, LocalSpan, MemoryRegion};

use super::era::Era;
use crate::client::resources::Resources;

/// Bytes of a piece, and of the longest READ into a piece.
pub(in crate::client) const SCRATCH_SIZE: u64 = 64 << 10;

/// The pieces that are free.
#[derive(Default)]
pub(super) struct Scratch {
    free: Rc<RefCell<Vec<MemoryRegion>>>,
}

/// A piece in use. Free again when it is dropped.
pub(in crate::client) struct Lent {
    region: MemoryRegion,
    free: Rc<RefCell<Vec<MemoryRegion>>>,
    _era: Rc<Era>,
}

impl Scratch {
    /// A free piece, or a new one, which is freed with the client.
    pub fn lend(&self, resources: &Resources, era: Rc<Era>) -> Result<Rc<Lent>, DeviceError> {
        let free = self.free.borrow_mut().pop();
        let region = match free {
            Some(region) => region,
            None => resources.allocate(SCRATCH_SIZE)?,
        };
        Ok(Rc::new(Lent {
            region,
            free: Rc::clone(&self.free),
            _era: era,
        }))
    }
}

impl Lent {
    /// All bytes of the piece.
    pub fn span(&self) -> LocalSpan {
        LocalSpan {
            region: self.region,
            offset: 0,
            size: SCRATCH_SIZE as u32,
        }
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        self.free.borrow_mut().push(self.region);
    }
}
