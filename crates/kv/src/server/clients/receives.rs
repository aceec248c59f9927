//! Receive buffers for the messages of clients.
//!
//! ```text
//!   Shared   all clients take from one queue of SERVER_RECEIVES buffers, which are posted again many at a time
//!   Own      each client's queue pair has IN_FLIGHT_MAX buffers, each posted again before its message is answered
//! ```
//!
//! The shared queue needs less memory and fewer doorbells. A device that separates clients by protection domains cannot
//! have a shared queue: a buffer belongs to one protection domain.
//!
//! Invariant: a client that keeps to the limit of operations in flight finds a buffer. Own buffers suffice because a
//! message without an answer holds at most one buffer. Shared buffers suffice because each buffer is posted again, even
//! if its client is gone before the message is read.

use stonecast_fabric::{
    Access, Device, DeviceError, ReceiveQueue, SharedReceiveQueue, SharedReceiveQueueOptions,
};
use stonecast_session::{Making, ReceiveBuffers};

use crate::wire::limits::{IN_FLIGHT_MAX, REQUEST_SIZE_MAX, SERVER_RECEIVES};

/// Buffers of a client with buffers of its own.
pub(super) const OWN_RECEIVES: u32 = IN_FLIGHT_MAX as u32;

/// Receive buffers for the messages of clients.
#[derive(Clone, Copy)]
pub(in crate::server) enum Receives {
    Shared {
        queue: SharedReceiveQueue,
        buffers: ReceiveBuffers,
    },
    /// The sessions hold the buffers.
    Own,
}

impl Receives {
    /// A shared queue, filled, if the device supports one; else buffers for each client.
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

    /// The shared queue, if there is one.
    pub fn shared_queue(&self) -> Option<SharedReceiveQueue> {
        match *self {
            Self::Shared { queue, .. } => Some(queue),
            Self::Own => None,
        }
    }

    /// The buffers that all clients share, if any.
    pub fn shared_buffers(&self) -> Option<ReceiveBuffers> {
        match *self {
            Self::Shared { buffers, .. } => Some(buffers),
            Self::Own => None,
        }
    }

    /// Allocates the buffers of one more client, if the client needs its own.
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
