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
//! Invariant: a client that keeps to its operations in flight finds a buffer. Of own ones, because a message that was not
//! answered holds at most one.

use stonecast_fabric::{
    Access, Device, DeviceError, LocalSpan, MemoryRegion, QueuePair, ReceiveQueue, ReceiveRequest,
    Received, SharedReceiveQueue, SharedReceiveQueueOptions,
};

use super::Server;
use crate::wire::limits::{IN_FLIGHT_MAX, REQUEST_SIZE_MAX, SERVER_RECEIVES};

/// Buffers of a client that has its own.
pub(super) const OWN_RECEIVES: u32 = IN_FLIGHT_MAX as u32;

/// See the module documentation.
pub(super) enum Receives {
    Shared {
        queue: SharedReceiveQueue,
        region: MemoryRegion,
    },
    /// They are those of the sessions.
    Own,
}

impl Receives {
    /// What the device can do; a shared queue is filled.
    pub fn new(device: &dyn Device) -> Result<Self, DeviceError> {
        if device.capabilities().protection_domains {
            return Ok(Self::Own);
        }
        let options = SharedReceiveQueueOptions {
            capacity: SERVER_RECEIVES,
            multi_packet: None,
        };
        let queue = device.create_shared_receive_queue(options)?;
        let region = allocate(device, SERVER_RECEIVES)?;
        post_all(device, ReceiveQueue::Shared(queue), region, SERVER_RECEIVES)?;
        Ok(Self::Shared { queue, region })
    }

    /// The queue that clients share.
    pub fn shared_queue(&self) -> Option<SharedReceiveQueue> {
        match *self {
            Self::Shared { queue, .. } => Some(queue),
            Self::Own => None,
        }
    }

    /// Memory for the own buffers of one more client, where it needs them.
    pub fn allocate_own(&self, device: &dyn Device) -> Result<Option<MemoryRegion>, DeviceError> {
        match self {
            Self::Shared { .. } => Ok(None),
            Self::Own => allocate(device, OWN_RECEIVES).map(Some),
        }
    }
}

fn allocate(device: &dyn Device, count: u32) -> Result<MemoryRegion, DeviceError> {
    device.allocate(u64::from(count) * REQUEST_SIZE_MAX as u64, Access::NONE)
}

/// Posts all buffers of `region`.
pub(super) fn post_all(
    device: &dyn Device,
    queue: ReceiveQueue,
    region: MemoryRegion,
    count: u32,
) -> Result<(), DeviceError> {
    let all: Vec<ReceiveRequest> = (0..count)
        .map(|index| receive_request(region, index.into()))
        .collect();
    device.post_receive(queue, &all)
}

/// Buffer `index` of `region`.
pub(super) fn receive_request(region: MemoryRegion, index: u64) -> ReceiveRequest {
    let size = REQUEST_SIZE_MAX as u32;
    ReceiveRequest {
        wr_id: index,
        local: LocalSpan {
            region,
            offset: index * u64::from(size),
            size,
        },
    }
}

impl Server {
    /// Where the receive buffers of the client of `qp` lie, if it is connected.
    pub(super) fn receive_region(&self, qp: QueuePair) -> Option<MemoryRegion> {
        match self.receives {
            Receives::Shared { region, .. } => Some(region),
            Receives::Own => self.state.borrow().sessions.get(&qp)?.receives,
        }
    }

    /// Posts own buffers again, whose messages were taken over and are not answered yet.
    pub(super) fn repost_own(&self, arrivals: &[Received]) {
        if let Receives::Shared { .. } = self.receives {
            return;
        }
        for run in arrivals.chunk_by(|one, next| one.qp == next.qp) {
            let qp = run[0].qp;
            let Some(region) = self.receive_region(qp) else {
                continue;
            };
            let requests: Vec<ReceiveRequest> = run
                .iter()
                .map(|arrival| receive_request(region, arrival.wr_id))
                .collect();
            // A queue pair that takes none any more is one whose connection has ended, which its event tells.
            let _ = self
                .port
                .device()
                .post_receive(ReceiveQueue::Own(qp), &requests);
        }
    }
}
