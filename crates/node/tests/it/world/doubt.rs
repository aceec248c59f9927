//! A device that cannot say of one peer whether the peer has stopped inside a write.

use std::cell::Cell;

use stonecast_fabric::decorate::Observer;
use stonecast_fabric::{DeviceError, QueuePair};

/// The answer to that question, which a story gives.
#[derive(Default)]
pub struct Doubt {
    is_awaited: Cell<bool>,
    of: Cell<Option<QueuePair>>,
}

impl Doubt {
    /// Puts the next peer that is asked to be quiet in doubt.
    pub fn begin(&self) {
        self.is_awaited.set(true);
    }

    /// Ends the doubt: the peer has left its write.
    pub fn end(&self) {
        self.is_awaited.set(false);
        self.of.set(None);
    }

    /// Whether a peer is in doubt.
    pub fn is_there(&self) -> bool {
        self.of.get().is_some()
    }
}

impl Observer for Doubt {
    fn quieting(&self, qp: QueuePair) -> Result<(), DeviceError> {
        if self.is_awaited.take() {
            self.of.set(Some(qp));
        }
        if self.of.get() != Some(qp) {
            return Ok(());
        }
        let peer = "a stopped process".to_owned();
        Err(DeviceError::Unquiesced { peer })
    }
}
