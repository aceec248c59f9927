//! A device with somebody in between, who does what a story says.
//!
//! ```text
//!   port ---> Meddling ---> device of the provider
//!                | stands_still: no revocation is over, as where a peer stopped in the middle of what it was doing
//!                | forge:        sees each work request before the device does
//! ```

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::task::{Context, Poll};

use stonecast_fabric::{
    Access, Capabilities, ChangeNow, CompletionQueue, ConnectionEvent, ConnectionRequest, Device,
    DeviceError, LocalSpan, MemoryRegion, Port, QueuePair, QueuePairOptions, ReadInto,
    ReceiveQueue, ReceiveRequest, RemoteAddress, Rkey, SharedReceiveQueue,
    SharedReceiveQueueOptions, Status, WorkCompletion, WorkRequest,
};
use stonecast_media::{PersistentRegion, Region};

use crate::fabric::Fabric;

/// What it does to a work request, through the memory that the request names.
pub type Forge = Box<dyn Fn(&dyn Device, &WorkRequest)>;

/// What the one in between does.
#[derive(Default)]
pub struct Meddler {
    pub stands_still: Cell<bool>,
    pub forge: RefCell<Option<Forge>>,
}

/// See the module documentation.
struct Meddling {
    device: Rc<dyn Device>,
    meddler: Rc<Meddler>,
}

/// A port of `fabric` with `meddler` in between.
pub fn port(fabric: &dyn Fabric, capacity: u32, meddler: &Rc<Meddler>) -> Rc<Port> {
    let device = fabric.port(capacity).device().clone();
    let port = Rc::new(
        Port::new(
            Rc::new(Meddling {
                device,
                meddler: meddler.clone(),
            }),
            capacity,
        )
        .expect("a port"),
    );
    fabric.executor().add_port(&port);
    port
}

impl Device for Meddling {
    fn capabilities(&self) -> &Capabilities {
        self.device.capabilities()
    }
    fn allocate(&self, size: u64, access: Access) -> Result<MemoryRegion, DeviceError> {
        self.device.allocate(size, access)
    }
    fn register(
        &self,
        memory: Rc<dyn Region>,
        access: Access,
    ) -> Result<MemoryRegion, DeviceError> {
        self.device.register(memory, access)
    }
    fn register_persistent(
        &self,
        memory: Rc<dyn PersistentRegion>,
        access: Access,
    ) -> Result<MemoryRegion, DeviceError> {
        self.device.register_persistent(memory, access)
    }
    fn deregister(&self, region: MemoryRegion) -> Result<(), DeviceError> {
        self.device.deregister(region)
    }
    fn memory(&self, region: MemoryRegion) -> Rc<dyn Region> {
        self.device.memory(region)
    }
    fn bind_window(
        &self,
        qp: QueuePair,
        region: MemoryRegion,
        offset: u64,
        size: u64,
        access: Access,
    ) -> Result<Rkey, DeviceError> {
        self.device.bind_window(qp, region, offset, size, access)
    }
    fn poll_invalidate(
        &self,
        rkey: Rkey,
        context: &mut Context<'_>,
    ) -> Poll<Result<(), DeviceError>> {
        match self.meddler.stands_still.get() {
            true => Poll::Ready(Err(DeviceError::Unquiesced {
                peer: "who stands still".to_owned(),
            })),
            false => self.device.poll_invalidate(rkey, context),
        }
    }
    fn poll_quiesce(
        &self,
        qp: QueuePair,
        context: &mut Context<'_>,
    ) -> Poll<Result<(), DeviceError>> {
        self.device.poll_quiesce(qp, context)
    }

    fn create_completion_queue(&self, capacity: u32) -> Result<CompletionQueue, DeviceError> {
        self.device.create_completion_queue(capacity)
    }
    fn create_shared_receive_queue(
        &self,
        options: SharedReceiveQueueOptions,
    ) -> Result<SharedReceiveQueue, DeviceError> {
        self.device.create_shared_receive_queue(options)
    }
    fn create_queue_pair(&self, options: QueuePairOptions) -> Result<QueuePair, DeviceError> {
        self.device.create_queue_pair(options)
    }
    fn destroy_queue_pair(&self, qp: QueuePair) -> Result<(), DeviceError> {
        self.device.destroy_queue_pair(qp)
    }
    fn listen(&self, address: &str) -> Result<(), DeviceError> {
        self.device.listen(address)
    }
    fn connect(
        &self,
        qp: QueuePair,
        address: &str,
        private_data: &[u8],
    ) -> Result<(), DeviceError> {
        self.device.connect(qp, address, private_data)
    }
    fn accept(
        &self,
        request: ConnectionRequest,
        qp: QueuePair,
        private_data: &[u8],
    ) -> Result<(), DeviceError> {
        self.device.accept(request, qp, private_data)
    }
    fn reject(&self, request: ConnectionRequest, reason: &str) -> Result<(), DeviceError> {
        self.device.reject(request, reason)
    }
    fn disconnect(&self, qp: QueuePair) -> Result<(), DeviceError> {
        self.device.disconnect(qp)
    }
    fn poll_connection(&self) -> Option<ConnectionEvent> {
        self.device.poll_connection()
    }
    fn post_send(&self, qp: QueuePair, requests: &[WorkRequest]) -> Result<(), DeviceError> {
        if let Some(forge) = &*self.meddler.forge.borrow() {
            requests
                .iter()
                .for_each(|request| forge(&*self.device, request));
        }
        self.device.post_send(qp, requests)
    }
    fn post_receive(
        &self,
        queue: ReceiveQueue,
        requests: &[ReceiveRequest],
    ) -> Result<(), DeviceError> {
        self.device.post_receive(queue, requests)
    }
    fn poll(&self, cq: CompletionQueue, limit: usize, into: &mut Vec<WorkCompletion>) -> usize {
        self.device.poll(cq, limit, into)
    }
    fn read_now(&self, qp: QueuePair, reads: &mut [ReadInto<'_>]) -> Option<Status> {
        self.device.read_now(qp, reads)
    }
    fn read_soon(
        &self,
        qp: QueuePair,
        reads: &[(LocalSpan, RemoteAddress)],
        wr_id: u64,
        looks: u32,
    ) -> Result<bool, DeviceError> {
        self.device.read_soon(qp, reads, wr_id, looks)
    }
    fn change_now(&self, qp: QueuePair, changes: &mut [ChangeNow<'_>]) -> bool {
        self.device.change_now(qp, changes)
    }
}
