//! Devices around devices: an [`Observer`] sees the traffic, which is otherwise unchanged.
//!
//! ```text
//!   Port -> Observed<Meter> -> Observed<Audit> -> fabric-sim, fabric-shm, ...
//!              |                  |
//!            Counts             hash
//! ```
//!
//! An observer sees accepted requests and delivered results, in the order in which they happened, and no refused
//! request. Two calls come before the device's own, for stories in which a peer or a device misbehaves: there an
//! observer may change memory, or answer in the device's place. The observer is shared, so that it can be queried after
//! the device has disappeared behind `Rc<dyn Device>`.

use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use stonecast_media::{PersistentRegion, Region};

use crate::{
    Access, Appended, Capabilities, ChangeNow, CompletionQueue, ConnectionEvent, ConnectionRequest,
    Device, DeviceError, LocalSpan, MemoryRegion, Placing, QueuePair, QueuePairOptions, ReadInto,
    ReceiveQueue, ReceiveRequest, RemoteAddress, Rkey, SharedReceiveQueue,
    SharedReceiveQueueOptions, Status, WorkCompletion, WorkRequest,
};

mod audit;
mod meter;

pub use audit::Audit;
pub use meter::{Counts, Meter};

/// A device that counts the requests and completions that pass through it.
pub type Metered = Observed<Meter>;
/// A device that hashes the requests and completions that pass through it.
pub type Audited = Observed<Audit>;

/// Sees the traffic of a device.
pub trait Observer {
    /// A batch is about to be posted to `device`.
    fn sending(&self, device: &dyn Device, requests: &[WorkRequest]) {
        let _ = (device, requests);
    }
    /// An invalidation is requested. An error becomes the answer, and the device does not learn of the request.
    fn invalidating(&self, rkey: Rkey) -> Result<(), DeviceError> {
        let _ = rkey;
        Ok(())
    }
    /// The peer of a queue pair is asked to be quiet. An error becomes the answer, and the device does not learn of the
    /// request.
    fn quieting(&self, qp: QueuePair) -> Result<(), DeviceError> {
        let _ = qp;
        Ok(())
    }
    /// A batch was accepted.
    fn sent(&self, qp: QueuePair, requests: &[WorkRequest]) {
        let _ = (qp, requests);
    }
    /// Receive buffers were accepted.
    fn posted_receive(&self, queue: ReceiveQueue, requests: &[ReceiveRequest]) {
        let _ = (queue, requests);
    }
    /// Completions were handed out; not called when there were none.
    fn completed(&self, cq: CompletionQueue, completions: &[WorkCompletion]) {
        let _ = (cq, completions);
    }
    /// Buffers of a multi-packet queue were handed back; not called when there were none.
    fn consumed(&self, queue: SharedReceiveQueue, buffers: &[u64]) {
        let _ = (queue, buffers);
    }
    /// READs were executed in the call.
    fn read_now(&self, qp: QueuePair, reads: &[ReadInto<'_>], status: Status) {
        let _ = (qp, reads, status);
    }
    /// READs were posted and awaited in the call; `succeeded` if they ended there.
    fn read_soon(&self, qp: QueuePair, reads: &[(LocalSpan, RemoteAddress)], succeeded: bool) {
        let _ = (qp, reads, succeeded);
    }
    /// Changes were executed in the call.
    fn changed_now(&self, qp: QueuePair, changes: &[ChangeNow<'_>]) {
        let _ = (qp, changes);
    }
    /// A connection event was handed out.
    fn happened(&self, event: &ConnectionEvent) {
        let _ = event;
    }
}

/// A device under observation.
pub struct Observed<O> {
    device: Rc<dyn Device>,
    observer: Rc<O>,
}

impl<O: Observer> Observed<O> {
    /// Lets `observer` see every request and completion of `device`.
    pub fn new(device: Rc<dyn Device>, observer: Rc<O>) -> Self {
        Self { device, observer }
    }

    /// The observer.
    pub fn observer(&self) -> &Rc<O> {
        &self.observer
    }
}

impl<O: Observer> Device for Observed<O> {
    fn capabilities(&self) -> &Capabilities {
        self.device.capabilities()
    }

    fn placing(&self) -> Placing {
        self.device.placing()
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
        match self.observer.invalidating(rkey) {
            Ok(()) => self.device.poll_invalidate(rkey, context),
            Err(error) => Poll::Ready(Err(error)),
        }
    }

    fn poll_quiesce(
        &self,
        qp: QueuePair,
        context: &mut Context<'_>,
    ) -> Poll<Result<(), DeviceError>> {
        match self.observer.quieting(qp) {
            Ok(()) => self.device.poll_quiesce(qp, context),
            Err(error) => Poll::Ready(Err(error)),
        }
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
        let event = self.device.poll_connection()?;
        self.observer.happened(&event);
        Some(event)
    }

    fn post_send(&self, qp: QueuePair, requests: &[WorkRequest]) -> Result<(), DeviceError> {
        self.observer.sending(&*self.device, requests);
        self.device.post_send(qp, requests)?;
        self.observer.sent(qp, requests);
        Ok(())
    }

    fn post_receive(
        &self,
        queue: ReceiveQueue,
        requests: &[ReceiveRequest],
    ) -> Result<(), DeviceError> {
        self.device.post_receive(queue, requests)?;
        self.observer.posted_receive(queue, requests);
        Ok(())
    }

    fn poll(&self, cq: CompletionQueue, limit: usize, into: &mut Vec<WorkCompletion>) -> usize {
        let before = into.len();
        let count = self.device.poll(cq, limit, into);
        if count > 0 {
            self.observer.completed(cq, &into[before..]);
        }
        count
    }

    fn poll_consumed(&self, queue: SharedReceiveQueue, into: &mut Vec<u64>) -> usize {
        let before = into.len();
        let count = self.device.poll_consumed(queue, into);
        if count > 0 {
            self.observer.consumed(queue, &into[before..]);
        }
        count
    }

    fn poll_appended(
        &self,
        queue: SharedReceiveQueue,
        waiter: Option<&Waker>,
        into: &mut Vec<Appended>,
    ) -> bool {
        self.device.poll_appended(queue, waiter, into)
    }

    fn read_now(&self, qp: QueuePair, reads: &mut [ReadInto<'_>]) -> Option<Status> {
        let status = self.device.read_now(qp, reads)?;
        self.observer.read_now(qp, reads, status);
        Some(status)
    }

    fn read_soon(
        &self,
        qp: QueuePair,
        reads: &[(LocalSpan, RemoteAddress)],
        wr_id: u64,
        looks: u32,
    ) -> Result<bool, DeviceError> {
        let succeeded = self.device.read_soon(qp, reads, wr_id, looks)?;
        self.observer.read_soon(qp, reads, succeeded);
        Ok(succeeded)
    }

    fn change_now(&self, qp: QueuePair, changes: &mut [ChangeNow<'_>]) -> bool {
        let done = self.device.change_now(qp, changes);
        if done {
            self.observer.changed_now(qp, changes);
        }
        done
    }
}
