//! Receive buffers for what clients send.
//!
//! ```text
//!   Shared   all clients take from one queue of SERVER_RECEIVES buffers, which are posted again many at a time
//!   Own      each client's queue pair has IN_FLIGHT_MAX buffers, each posted again before its message is answered
//! ```
//!
//! The shared queue needs less memory and fewer doorbells. A device that keeps clients apart by protection domains cannot
//! have it: a buffer would belong to one of these alone.
//!
//! Invariant: a client that keeps to its operations in flight finds a buffer. Own buffers suffice because a message that was not
//! answered holds at most one. Shared buffers suffice because each is posted again, even if its client is gone before its
//! message is looked at.

use stonecast_fabric::{
    Access, Device, DeviceError, ReceiveQueue, SharedReceiveQueue, SharedReceiveQueueOptions,
};
use stonecast_session::{Making, ReceiveBuffers};

use crate::wire::limits::{IN_FLIGHT_MAX, REQUEST_SIZE_MAX, SERVER_RECEIVES};

/// Buffers of a client that has its own.
pub(super) const OWN_RECEIVES: u32 = IN_FLIGHT_MAX as u32;

/// See the module documentation.
#[derive(Clone, Copy)]
pub(in crate::server) enum Receives {
    Shared {
        queue: SharedReceiveQueue,
        buffers: ReceiveBuffers,
    },
    /// They are those of the sessions.
    Own,
}

impl Receives {
    /// A shared queue, filled, if the device can have one; else buffers for each client.
    pub fn new(device: &dyn Device) -> Result<Self, DeviceError> {
        if device.capabilities().protection_domains {
            return Ok(Self::Own);
        }
        let options = SharedReceiveQueueOptions {
            capacity: SERVER_RECEIVES,
            multi_packet: None,
            in_order: false,
        };
        let queue = device.create_shared_receive_queue(options)?;
        let region = device.allocate(size_of_all(SERVER_RECEIVES), Access::NONE)?;
        let buffers = ReceiveBuffers::new(region, REQUEST_SIZE_MAX as u32);
        buffers.post_all(device, ReceiveQueue::Shared(queue), SERVER_RECEIVES)?;
        Ok(Self::Shared { queue, buffers })
    }

    /// The queue that clients share.
    pub fn shared_queue(&self) -> Option<SharedReceiveQueue> {
        match *self {
            Self::Shared { queue, .. } => Some(queue),
            Self::Own => None,
        }
    }

    /// The buffers that all clients share.
    pub fn shared_buffers(&self) -> Option<ReceiveBuffers> {
        match *self {
            Self::Shared { buffers, .. } => Some(buffers),
            Self::Own => None,
        }
    }

    /// The own buffers of one more client, if it needs them.
    pub fn allocate_own(
        &self,
        making: &mut Making<'_>,
    ) -> Result<Option<ReceiveBuffers>, DeviceError> {
        match self {
            Self::Shared { .. } => Ok(None),
            Self::Own => {
                let region = making.allocate(size_of_all(OWN_RECEIVES))?;
                Ok(Some(ReceiveBuffers::new(region, REQUEST_SIZE_MAX as u32)))
            }
        }
    }
}

fn size_of_all(count: u32) -> u64 {
    u64::from(count) * REQUEST_SIZE_MAX as u64
}
