//! What a client makes on its device. Undone when dropped, so that a port serves any number of clients one after the other.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::task::{Context, Waker};

use stonecast_fabric::{
    Access, DeviceError, LocalSpan, MemoryRegion, Port, QueuePair, QueuePairOptions, ReceiveQueue,
    ReceiveRequest,
};

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
    port: Rc<Port>,
    qp: Option<QueuePair>,
    /// All memory of the client.
    regions: RefCell<Vec<MemoryRegion>>,
    pub receives: MemoryRegion,
    /// Where records lie until they are written.
    pub staging: MemoryRegion,
    /// The task that takes what arrives, while it waits.
    pub listener: Rc<Cell<Option<Waker>>>,
}

/// The receive buffer of this number.
pub(super) fn receive_request(region: MemoryRegion, index: u64) -> ReceiveRequest {
    let size = ANSWER_SIZE_MAX as u32;
    ReceiveRequest {
        wr_id: index,
        local: LocalSpan {
            region,
            offset: index * u64::from(size),
            size,
        },
    }
}

impl Resources {
    pub fn new(port: Rc<Port>) -> Result<Self, DeviceError> {
        let device = port.device().clone();
        let receives = device.allocate((RECEIVES * ANSWER_SIZE_MAX) as u64, Access::NONE)?;
        let regions = RefCell::new(vec![receives]);
        let mut made = Self {
            port,
            qp: None,
            regions,
            receives,
            staging: receives,
            listener: Rc::default(),
        };
        made.staging = made.allocate(STAGING_SIZE)?;
        let qp = device.create_queue_pair(QueuePairOptions {
            send_cq: made.port.send_cq(),
            receive_cq: made.port.receive_cq(),
            shared_receive_queue: None,
            windows: false,
            send_capacity: SEND_CAPACITY,
            receive_capacity: RECEIVES as u32,
            rnr_retry_count: RNR_RETRY_COUNT,
            rnr_retry_delay_ns: RNR_RETRY_DELAY_NS,
        })?;
        made.qp = Some(qp);
        let all: Vec<ReceiveRequest> = (0..RECEIVES as u64)
            .map(|index| receive_request(receives, index))
            .collect();
        device.post_receive(ReceiveQueue::Own(qp), &all)?;
        Ok(made)
    }

    pub fn queue_pair(&self) -> QueuePair {
        self.qp.expect("made with the rest")
    }

    /// Allocates memory that is freed with the client.
    pub fn allocate(&self, size: u64) -> Result<MemoryRegion, DeviceError> {
        let region = self.port.device().allocate(size, Access::NONE)?;
        self.regions.borrow_mut().push(region);
        Ok(region)
    }

    /// Lets the task that takes what arrives look whether it is still needed.
    pub fn wake_listener(&self) {
        if let Some(waker) = self.listener.take() {
            waker.wake();
        }
    }
}

impl Drop for Resources {
    fn drop(&mut self) {
        // What a provider cannot free now it frees when the device is dropped.
        if let Some(qp) = self.qp {
            let _ = self.port.device().disconnect(qp);
            let _ = self.port.destroy_queue_pair(qp);
        }
        for &region in self.regions.borrow().iter() {
            // Its key opens nothing to any peer, so there is nothing to wait for.
            let _ = self
                .port
                .device()
                .poll_invalidate(region.rkey, &mut Context::from_waker(Waker::noop()));
            let _ = self.port.device().deregister(region);
        }
    }
}
