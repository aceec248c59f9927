//! The memory from which entries are sent.

use std::cell::RefCell;
use std::rc::Rc;

use stonecast_fabric::{Access, LocalSpan, MemoryRegion, Port};

use crate::PublishedError;

/// Slots of a worker: more than its clients have requests under way.
const SLOTS: u64 = 4096;
/// Bytes of a slot: an entry, or a batch of entries.
const SLOT_SIZE: u64 = 4096;

/// Slots for entries in transit. The one that was freed last is taken first: its lines are in the cache.
pub(crate) struct Staging {
    port: Rc<Port>,
    region: MemoryRegion,
    free: RefCell<Vec<u64>>,
}

/// A slot with an entry. Dropping the value frees the slot, which must not happen before the entry has left.
pub(crate) struct Staged<'a> {
    staging: &'a Staging,
    slot: u64,
    /// The entry.
    pub span: LocalSpan,
}

impl Staging {
    /// Memory on the device of `port`.
    pub fn new(port: &Rc<Port>) -> Result<Self, PublishedError> {
        let size = SLOTS * SLOT_SIZE;
        let region = port.device().allocate(size, Access::NONE)?;
        Ok(Self {
            port: port.clone(),
            region,
            free: RefCell::new((0..SLOTS).rev().collect()),
        })
    }

    /// Copies `bytes` into a slot.
    pub fn stage(&self, bytes: &[u8]) -> Result<Staged<'_>, PublishedError> {
        assert!(bytes.len() as u64 <= SLOT_SIZE, "a batch fits a slot");
        let slot = self.free.borrow_mut().pop();
        let slot = slot.ok_or(PublishedError::Full)?;
        let span = LocalSpan {
            region: self.region,
            offset: slot * SLOT_SIZE,
            size: bytes.len() as u32,
        };
        self.port
            .device()
            .memory(self.region)
            .write(span.offset, bytes);
        Ok(Staged {
            staging: self,
            slot,
            span,
        })
    }

    /// The bytes of a slot.
    pub fn read(&self, staged: &Staged<'_>, into: &mut [u8]) {
        let memory = self.port.device().memory(self.region);
        memory.read(staged.span.offset, into);
    }
}

impl Drop for Staged<'_> {
    fn drop(&mut self) {
        self.staging.free.borrow_mut().push(self.slot);
    }
}
