//! The queue pair and memory that a client makes on its device, and frees when it is dropped. A client takes only what arrives on its own
//! queue pair, so a port serves any number of clients, and a server.

use std::cell::Cell;
use std::rc::Rc;
use std::task::Waker;

use stonecast_fabric::{DeviceError, MemoryRegion, Port, ReceiveQueue};
use stonecast_session::{Endpoint, Queues, ReceiveBuffers};

use crate::wire::limits::{ANSWER_SIZE_MAX, IN_FLIGHT_MAX, STAGING_SIZE};

/// Entries of the send queue: writes, READs, and READs that go ahead of those that were given up.
const SEND_CAPACITY: u32 = 3 * IN_FLIGHT_MAX as u32;
/// Receive buffers beyond one for each answer that may be due; as many are posted again at a time.
pub(super) const RECEIVES_SPARE: usize = 32;
/// Receive buffers of a client.
const RECEIVES: usize = IN_FLIGHT_MAX + RECEIVES_SPARE;

/// RNR retries of requests. The server posts most of its receive buffers again before it polls, so a client that has to wait
/// waits for a batch; a minute covers the slowest sync.
const RNR_RETRY_COUNT: u32 = 60_000;
const RNR_RETRY_DELAY_NS: u64 = 1_000_000;

/// See the module documentation.
pub(super) struct Resources {
    pub endpoint: Endpoint,
    pub receives: ReceiveBuffers,
    /// Where records lie until they are written.
    pub staging: MemoryRegion,
    /// The task that takes what arrives, while it waits.
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

    /// Wakes the task that takes arrivals, which then checks whether it is still needed.
    pub fn wake_listener(&self) {
        if let Some(waker) = self.listener.take() {
            waker.wake();
        }
    }
}
