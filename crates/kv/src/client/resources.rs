//! The queue pair and memory that a client makes on its device, freed when the client is dropped. A client takes
//! arrivals of its own queue pair only, so a port serves any number of clients, and a server.

use std::cell::Cell;
use std::rc::Rc;
use std::task::Waker;

use stonecast_fabric::{DeviceError, MemoryRegion, Port, ReceiveQueue};
use stonecast_session::{Endpoint, Queues, ReceiveBuffers};

use crate::wire::limits::{ANSWER_SIZE_MAX, IN_FLIGHT_MAX, STAGING_SIZE};

/// Entries of the send queue: writes, READs, and READs that go ahead because earlier ones were given up.
const SEND_CAPACITY: u32 = 3 * IN_FLIGHT_MAX as u32;
/// Receive buffers beyond one for each answer that may be due. Buffers are posted again in batches of this size.
pub(super) const RECEIVES_SPARE: usize = 32;
/// Receive buffers of a client.
const RECEIVES: usize = IN_FLIGHT_MAX + RECEIVES_SPARE;

/// RNR retries of requests. The server posts most of its receive buffers again before the server polls, so a client
/// waits for at most one batch; a minute covers the slowest sync.
const RNR_RETRY_COUNT: u32 = 60_000;
const RNR_RETRY_DELAY_NS: u64 = 1_000_000;

/// The queue pair and the memory of a client.
pub(super) struct Resources {
    pub endpoint: Endpoint,
    pub receives: ReceiveBuffers,
    /// Memory of records until they are written.
    pub staging: MemoryRegion,
    /// Waker of the task that receives answers, while that task waits.
    pub listener: Rc<Cell<Option<Waker>>>,
}

impl Resources {
    pub fn new(port: &Rc<Port>) -> Result<Self, DeviceError> {
        let endpoint = Endpoint::new(
            port,
            Queues {
                send_capacity: SEND_CAPACITY,
                receive_capacity: RECEIVES as u32,
                shared_receive_queue: None,
                windows: false,
                rnr_retry_count: RNR_RETRY_COUNT,
                rnr_retry_delay_ns: RNR_RETRY_DELAY_NS,
            },
        )?;
        let region = endpoint.allocate((RECEIVES * ANSWER_SIZE_MAX) as u64)?;
        let receives = ReceiveBuffers::new(region, ANSWER_SIZE_MAX as u32);
        let staging = endpoint.allocate(STAGING_SIZE)?;
        let queue = ReceiveQueue::Own(endpoint.qp());
        receives.post_all(&**port.device(), queue, RECEIVES as u32)?;
        Ok(Self {
            endpoint,
            receives,
            staging,
            listener: Rc::default(),
        })
    }

    /// Allocates memory that is freed with the client.
    pub fn allocate(&self, size: u64) -> Result<MemoryRegion, DeviceError> {
        self.endpoint.allocate(size)
    }

    /// Wakes the task that receives answers, which then checks whether the client still exists.
    pub fn wake_listener(&self) {
        if let Some(waker) = self.listener.take() {
            waker.wake();
        }
    }
}
