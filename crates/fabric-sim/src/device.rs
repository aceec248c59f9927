//! A process's view of its NIC: the calls of [`Device`].

use std::cell::RefCell;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use stonecast_base::Span;
use stonecast_fabric::{
    Access, Appended, Capabilities, CompletionQueue, ConnectionEvent, ConnectionRequest, Device,
    DeviceError, MemoryRegion, Placing, QueuePair, QueuePairOptions, ReceiveQueue, ReceiveRequest,
    Rkey, SharedReceiveQueue, SharedReceiveQueueOptions, WorkCompletion, WorkRequest,
};
use stonecast_media::{PersistentRegion, Region};

use crate::executor::Executor;
use crate::faults::Fault;
use crate::machine::dram;
use crate::memory::Memory;
use crate::net::{Completions, Net, SharedQueue, wake};
use crate::profile::MachineProfile;
use crate::time::Time;

/// A NIC of the simulated world, as opened by one process.
pub struct SimDevice {
    pub(crate) net: Rc<RefCell<Net>>,
    pub(crate) executor: Rc<Executor>,
    pub(crate) time: Rc<Time>,
    pub(crate) context: u32,
    pub(crate) capabilities: Rc<Capabilities>,
    pub(crate) follows_appends: bool,
    pub(crate) profile: MachineProfile,
}

impl SimDevice {
    /// Runs `call` on the hardware, and then notifies the affected threads. Calls of a killed process have no effect.
    fn with<T>(
        &self,
        call: impl FnOnce(&mut Net) -> Result<T, DeviceError>,
    ) -> Result<T, DeviceError> {
        let (result, wakers) = {
            let net = &mut *self.net.borrow_mut();
            if net
                .contexts
                .get(self.context as usize)
                .is_none_or(|context| context.dead)
            {
                return Err(DeviceError::NoSuch {
                    what: "process",
                    index: u64::from(self.context),
                });
            }
            let result = call(net);
            (result, net.conclude(|thread| self.executor.arrived(thread)))
        };
        wake(wakers);
        result
    }

    /// Whether the system pins and maps more memory for the NIC at this moment.
    fn may_register(&self) -> Result<(), DeviceError> {
        let net = self.net.borrow();
        let place = net.place_of(self.context);
        if net.faults.enabled(Fault::AllocationFailure, place)
            && net.faults.draw(Fault::AllocationFailure, place, 1000)
        {
            net.faults.hit(Fault::AllocationFailure);
            let reason =
                "the system locks no more memory; raise the limit of locked memory".to_owned();
            return Err(DeviceError::Registration { reason });
        }
        Ok(())
    }

    fn has(&self, capability: bool, name: &'static str) -> Result<(), DeviceError> {
        if capability {
            Ok(())
        } else {
            Err(DeviceError::Unsupported {
                device: self.capabilities.name.clone(),
                capability: name,
            })
        }
    }
}

impl Device for SimDevice {
    fn capabilities(&self) -> &Capabilities {
        &self.capabilities
    }

    fn placing(&self) -> Placing {
        Placing::Nic
    }

    fn allocate(&self, size: u64, access: Access) -> Result<MemoryRegion, DeviceError> {
        self.may_register()?;
        let memory = Memory::new(size, self.time.clone(), dram(&self.profile));
        self.register(Rc::new(memory), access)
    }

    fn register(
        &self,
        memory: Rc<dyn Region>,
        access: Access,
    ) -> Result<MemoryRegion, DeviceError> {
        self.with(|net| Ok(net.register(self.context, memory, None, access)))
    }

    fn register_persistent(
        &self,
        memory: Rc<dyn PersistentRegion>,
        access: Access,
    ) -> Result<MemoryRegion, DeviceError> {
        self.may_register()?;
        self.with(|net| Ok(net.register(self.context, memory.clone(), Some(memory), access)))
    }

    fn deregister(&self, region: MemoryRegion) -> Result<(), DeviceError> {
        self.with(|net| net.deregister(self.context, region))
    }

    fn memory(&self, region: MemoryRegion) -> Rc<dyn Region> {
        let net = self.net.borrow();
        net.registered(self.context, region.index)
            .expect("the caller registered it")
            .memory
            .clone()
    }

    fn bind_window(
        &self,
        qp: QueuePair,
        region: MemoryRegion,
        offset: u64,
        size: u64,
        access: Access,
    ) -> Result<Rkey, DeviceError> {
        self.has(self.capabilities.memory_windows, "memory windows")?;
        self.time
            .charge(self.profile.cpu_post_ns + self.profile.cpu_work_request_ns);
        self.with(|net| {
            net.own_qp(self.context, qp)?;
            net.bind_window(self.context, qp.0, region, Span::new(offset, size), access)
        })
    }

    fn poll_invalidate(
        &self,
        rkey: Rkey,
        context: &mut Context<'_>,
    ) -> Poll<Result<(), DeviceError>> {
        match self.with(|net| net.invalidate(self.context, rkey, context.waker())) {
            Ok(true) => Poll::Ready(Ok(())),
            Ok(false) => Poll::Pending,
            Err(error) => Poll::Ready(Err(error)),
        }
    }

    fn poll_quiesce(
        &self,
        qp: QueuePair,
        context: &mut Context<'_>,
    ) -> Poll<Result<(), DeviceError>> {
        match self.with(|net| net.quiesce(self.context, qp, context.waker())) {
            Ok(true) => Poll::Ready(Ok(())),
            Ok(false) => Poll::Pending,
            Err(error) => Poll::Ready(Err(error)),
        }
    }

    fn create_completion_queue(&self, capacity: u32) -> Result<CompletionQueue, DeviceError> {
        self.with(|net| {
            let queues = &mut net.contexts[self.context as usize].completions;
            queues.push(Completions {
                capacity: capacity as usize,
                entries: Default::default(),
                overrun: false,
                late_until: 0,
            });
            Ok(CompletionQueue(queues.len() as u32 - 1))
        })
    }

    fn create_shared_receive_queue(
        &self,
        options: SharedReceiveQueueOptions,
    ) -> Result<SharedReceiveQueue, DeviceError> {
        if let Some(multi_packet) = options.multi_packet {
            self.has(
                self.capabilities.multi_packet,
                "multi-packet receive queues",
            )?;
            if multi_packet.stride == 0 {
                return Err(DeviceError::Malformed {
                    reason: "a stride of no bytes",
                });
            }
        }
        self.with(|net| {
            let queues = &mut net.contexts[self.context as usize].shared;
            queues.push(SharedQueue::new(options));
            Ok(SharedReceiveQueue(queues.len() as u32 - 1))
        })
    }

    fn create_queue_pair(&self, options: QueuePairOptions) -> Result<QueuePair, DeviceError> {
        self.with(|net| net.create_queue_pair(self.context, options))
    }

    fn destroy_queue_pair(&self, qp: QueuePair) -> Result<(), DeviceError> {
        self.with(|net| net.destroy_queue_pair(self.context, qp))
    }

    fn listen(&self, address: &str) -> Result<(), DeviceError> {
        self.with(|net| net.listen(self.context, address))
    }

    fn connect(
        &self,
        qp: QueuePair,
        address: &str,
        private_data: &[u8],
    ) -> Result<(), DeviceError> {
        self.with(|net| net.connect(self.context, qp, address, private_data))
    }

    fn accept(
        &self,
        request: ConnectionRequest,
        qp: QueuePair,
        private_data: &[u8],
    ) -> Result<(), DeviceError> {
        self.with(|net| net.accept(self.context, request, qp, private_data))
    }

    fn reject(&self, request: ConnectionRequest, reason: &str) -> Result<(), DeviceError> {
        self.with(|net| net.reject(self.context, request, reason))
    }

    fn disconnect(&self, qp: QueuePair) -> Result<(), DeviceError> {
        self.with(|net| net.disconnect(self.context, qp))
    }

    fn poll_connection(&self) -> Option<ConnectionEvent> {
        self.net
            .borrow_mut()
            .contexts
            .get_mut(self.context as usize)?
            .events
            .pop_front()
    }

    fn post_send(&self, qp: QueuePair, requests: &[WorkRequest]) -> Result<(), DeviceError> {
        let profile = &self.profile;
        self.time
            .charge(profile.cpu_post_ns + profile.cpu_work_request_ns * requests.len() as u64);
        let doorbell = self.time.clock() + profile.nic_doorbell_ns;
        self.with(|net| net.post_send(self.context, qp, requests, doorbell))
    }

    fn post_receive(
        &self,
        queue: ReceiveQueue,
        requests: &[ReceiveRequest],
    ) -> Result<(), DeviceError> {
        let profile = &self.profile;
        if !requests.is_empty() {
            self.time
                .charge(profile.cpu_post_ns + profile.cpu_work_request_ns * requests.len() as u64);
        }
        self.with(|net| net.post_receive(self.context, queue, requests))
    }

    fn poll(&self, cq: CompletionQueue, limit: usize, into: &mut Vec<WorkCompletion>) -> usize {
        let count = self.net.borrow_mut().poll(self.context, cq.0, limit, into);
        if count > 0 {
            self.time
                .charge(self.profile.cpu_poll_ns + self.profile.cpu_completion_ns * count as u64);
        }
        count
    }

    fn poll_appended(
        &self,
        queue: SharedReceiveQueue,
        waiter: Option<&Waker>,
        into: &mut Vec<Appended>,
    ) -> bool {
        let net = &mut *self.net.borrow_mut();
        self.follows_appends && net.take_appended((self.context, queue.0), waiter, into)
    }

    fn poll_consumed(&self, queue: SharedReceiveQueue, into: &mut Vec<u64>) -> usize {
        let count = self
            .net
            .borrow_mut()
            .take_consumed(self.context, queue.0, into);
        if count > 0 {
            self.time
                .charge(self.profile.cpu_poll_ns + self.profile.cpu_completion_ns * count as u64);
        }
        count
    }
}
