//! The calls of a device.

use std::cell::RefCell;
use std::rc::Rc;
use std::task::{Context, Poll};

use stonecast_base::Span;
use stonecast_fabric::{
    Access, Capabilities, ChangeNow, CompletionQueue, ConnectionEvent, ConnectionRequest, Device,
    DeviceError, DisconnectCause, LocalSpan, MemoryRegion, Operation, Placing, QueuePair,
    QueuePairOptions, ReadInto, ReceiveQueue, ReceiveRequest, RemoteAddress, Rkey,
    SharedReceiveQueue, SharedReceiveQueueOptions, Status, WorkCompletion, WorkRequest,
};
use stonecast_media::{PersistentRegion, Region};

use super::{Completions, Fault, Flavour, Key, Loopback, Memory, Net, Posted, Qp, SharedQueue};

const SEND_SIZE_MAX: u32 = 4096;
const PRIVATE_DATA_SIZE_MAX: usize = 256;

impl Loopback {
    pub(super) fn new(net: Rc<RefCell<Net>>, node: usize) -> Self {
        let Flavour {
            name,
            capable,
            reads_at_once,
            protection_domains,
            ..
        } = net.borrow().flavour;
        let capabilities = Capabilities {
            name: format!("{name} reference provider"),
            send_size_max: SEND_SIZE_MAX,
            private_data_size_max: PRIVATE_DATA_SIZE_MAX,
            multi_packet: capable,
            memory_windows: capable,
            protection_domains,
            flush_global: capable,
            flush_persistent: capable,
            atomic_write: capable,
            read_now: reads_at_once,
            read_soon: !reads_at_once,
            atomic_with_processor: true,
        };
        Self {
            net,
            node,
            capabilities,
        }
    }

    fn add_region(&self, memory: Memory, access: Access) -> MemoryRegion {
        let net = &mut *self.net.borrow_mut();
        let (size, address) = (memory.size(), net.next_address);
        net.next_address += (size + 4096).next_multiple_of(4096);
        let region = net.nodes[self.node].regions.len();
        net.nodes[self.node].regions.push(Some(Rc::new(memory)));
        let rkey = net.new_key(
            self.node,
            Key {
                region,
                address,
                offset: 0,
                size,
                access,
                qp: None,
                valid: true,
            },
        );
        MemoryRegion {
            index: region as u32,
            address,
            size,
            rkey: Rkey(rkey),
        }
    }

    fn unsupported(&self, capability: &'static str) -> DeviceError {
        DeviceError::Unsupported {
            device: self.capabilities.name.clone(),
            capability,
        }
    }

    fn check(&self, net: &Net, operation: &Operation) -> Result<(), DeviceError> {
        let has = &self.capabilities;
        match operation {
            Operation::Send { local }
                if local.size > SEND_SIZE_MAX && net.fault != Fault::LongSendsAccepted =>
            {
                Err(DeviceError::Limit {
                    what: "bytes of a SEND",
                    limit: u64::from(SEND_SIZE_MAX),
                })
            }
            Operation::CompareAndSwap { local, .. } | Operation::FetchAndAdd { local, .. }
                if local.size != 8 =>
            {
                Err(DeviceError::Malformed {
                    reason: "an atomic brings back 8 bytes",
                })
            }
            Operation::Flush { .. } if !has.flush_global => Err(self.unsupported("FLUSH")),
            Operation::Flush { size: 0, .. } if net.fault != Fault::EmptyFlushAccepted => {
                Err(DeviceError::Malformed {
                    reason: "a FLUSH of no bytes",
                })
            }
            Operation::AtomicWrite { .. } if !has.atomic_write => {
                Err(self.unsupported("ATOMIC_WRITE"))
            }
            _ => Ok(()),
        }
    }
}

fn private_data_fits(private_data: &[u8]) -> Result<(), DeviceError> {
    let limit = PRIVATE_DATA_SIZE_MAX as u64;
    if private_data.len() as u64 > limit {
        Err(DeviceError::Limit {
            what: "bytes of private data",
            limit,
        })
    } else {
        Ok(())
    }
}

impl Net {
    fn qp(&mut self, node: usize, qp: QueuePair) -> Result<&mut Qp, DeviceError> {
        let missing = DeviceError::NoSuch {
            what: "queue pair",
            index: u64::from(qp.0),
        };
        self.nodes[node].qps.get_mut(&qp.0).ok_or(missing)
    }
}

impl Device for Loopback {
    fn capabilities(&self) -> &Capabilities {
        &self.capabilities
    }

    fn placing(&self) -> Placing {
        Placing::Nic
    }

    fn allocate(&self, size: u64, access: Access) -> Result<MemoryRegion, DeviceError> {
        let memory = Memory::new(size, false);
        if self.net.borrow().fault == Fault::MemoryNotZeroed {
            memory.write(size - 1, &[1]);
        }
        Ok(self.add_region(memory, access))
    }

    fn register(
        &self,
        memory: Rc<dyn Region>,
        access: Access,
    ) -> Result<MemoryRegion, DeviceError> {
        Ok(self.add_region(Memory::of(memory, false), access))
    }

    fn register_persistent(
        &self,
        memory: Rc<dyn PersistentRegion>,
        access: Access,
    ) -> Result<MemoryRegion, DeviceError> {
        Ok(self.add_region(Memory::of(memory, true), access))
    }

    fn deregister(&self, region: MemoryRegion) -> Result<(), DeviceError> {
        let net = &mut *self.net.borrow_mut();
        let unchecked = net.fault == Fault::DeregistrationUnchecked;
        let node = &mut net.nodes[self.node];
        if !unchecked
            && node
                .keys
                .values()
                .any(|key| key.region == region.index as usize && key.valid)
        {
            return Err(DeviceError::Malformed {
                reason: "a key still opens the region",
            });
        }
        node.regions[region.index as usize] = None;
        Ok(())
    }

    fn memory(&self, region: MemoryRegion) -> Rc<dyn Region> {
        self.net.borrow().nodes[self.node].regions[region.index as usize]
            .clone()
            .expect("registered")
    }

    fn bind_window(
        &self,
        qp: QueuePair,
        region: MemoryRegion,
        offset: u64,
        size: u64,
        access: Access,
    ) -> Result<Rkey, DeviceError> {
        if !self.capabilities.memory_windows {
            return Err(self.unsupported("memory windows"));
        }
        if !Span::new(offset, size).fits(region.size) {
            return Err(DeviceError::Malformed {
                reason: "the window leaves its region",
            });
        }
        let net = &mut *self.net.borrow_mut();
        let made_for_windows = net.qp(self.node, qp)?.options.windows;
        if self.capabilities.protection_domains && !made_for_windows {
            return Err(DeviceError::Malformed {
                reason: "a window for a queue pair that was not made for any",
            });
        }
        let address = region.address + offset;
        let key = Key {
            region: region.index as usize,
            address,
            offset,
            size,
            access,
            qp: Some(qp.0),
            valid: true,
        };
        Ok(Rkey(net.new_key(self.node, key)))
    }

    fn poll_invalidate(
        &self,
        rkey: Rkey,
        context: &mut Context<'_>,
    ) -> Poll<Result<(), DeviceError>> {
        let net = &mut *self.net.borrow_mut();
        let Some(key) = net.nodes[self.node].keys.get_mut(&rkey.0) else {
            return Poll::Ready(Err(DeviceError::NoSuch {
                what: "key",
                index: u64::from(rkey.0),
            }));
        };
        key.valid = false;
        if net.writes_through(self.node, rkey.0) && net.fault != Fault::RevocationDoesNotWait {
            net.wakers.push(context.waker().clone());
            return Poll::Pending;
        }
        Poll::Ready(Ok(()))
    }

    fn poll_quiesce(&self, qp: QueuePair, _: &mut Context<'_>) -> Poll<Result<(), DeviceError>> {
        let net = &mut *self.net.borrow_mut();
        if net.qp(self.node, qp)?.peer.is_none() {
            return Poll::Ready(Err(DeviceError::Malformed {
                reason: "the queue pair was never connected",
            }));
        }
        match net.fault {
            Fault::QuiesceIgnored => {}
            Fault::QuiesceSpreads => {
                let all: Vec<u32> = net.nodes[self.node].qps.keys().copied().collect();
                all.into_iter()
                    .for_each(|qp| net.part(self.node, qp, DisconnectCause::Requested));
            }
            _ => net.part(self.node, qp.0, DisconnectCause::Requested),
        }
        Poll::Ready(Ok(()))
    }

    fn create_completion_queue(&self, capacity: u32) -> Result<CompletionQueue, DeviceError> {
        let queues = &mut self.net.borrow_mut().nodes[self.node].completions;
        queues.push(Completions {
            capacity: capacity as usize,
            entries: Default::default(),
            overrun: false,
        });
        Ok(CompletionQueue(queues.len() as u32 - 1))
    }

    fn create_shared_receive_queue(
        &self,
        options: SharedReceiveQueueOptions,
    ) -> Result<SharedReceiveQueue, DeviceError> {
        if options.multi_packet.is_some() && !self.capabilities.multi_packet {
            return Err(self.unsupported("multi-packet receive queues"));
        }
        let queues = &mut self.net.borrow_mut().nodes[self.node].shared;
        queues.push(SharedQueue {
            options,
            buffers: Default::default(),
            taken: 0,
            consumed: Default::default(),
        });
        Ok(SharedReceiveQueue(queues.len() as u32 - 1))
    }

    fn create_queue_pair(&self, options: QueuePairOptions) -> Result<QueuePair, DeviceError> {
        if self.capabilities.protection_domains
            && options.windows
            && options.shared_receive_queue.is_some()
        {
            return Err(self.unsupported("shared receive queues of several protection domains"));
        }
        let qps = &mut self.net.borrow_mut().nodes[self.node].qps;
        let number = qps.keys().next_back().map_or(7, |last| last + 1);
        let qp = Qp {
            options,
            peer: None,
            failed: false,
            send: Default::default(),
            receive: Default::default(),
        };
        qps.insert(number, qp);
        Ok(QueuePair(number))
    }

    fn destroy_queue_pair(&self, qp: QueuePair) -> Result<(), DeviceError> {
        let net = &mut *self.net.borrow_mut();
        net.qp(self.node, qp)?;
        net.part(self.node, qp.0, DisconnectCause::Requested);
        let kept = net.fault == Fault::CompletesAfterDestruction;
        let node = &mut net.nodes[self.node];
        node.qps.remove(&qp.0);
        node.keys
            .values_mut()
            .filter(|key| key.qp == Some(qp.0))
            .for_each(|key| key.valid = false);
        node.events.retain(
            |event| !matches!(event, ConnectionEvent::Disconnected { qp: of, .. } if *of == qp),
        );
        for queue in &mut node.completions {
            queue
                .entries
                .retain(|completion| completion.qp != qp || kept);
        }
        Ok(())
    }

    fn listen(&self, address: &str) -> Result<(), DeviceError> {
        let net = &mut *self.net.borrow_mut();
        let listeners = &mut net.listeners;
        if listeners.contains_key(address) && net.fault != Fault::AnyoneMayListen {
            return Err(DeviceError::Address {
                address: address.to_owned(),
                reason: "in use".to_owned(),
            });
        }
        listeners.insert(address.to_owned(), self.node);
        Ok(())
    }

    fn connect(
        &self,
        qp: QueuePair,
        address: &str,
        private_data: &[u8],
    ) -> Result<(), DeviceError> {
        private_data_fits(private_data)?;
        let net = &mut *self.net.borrow_mut();
        net.qp(self.node, qp)?;
        net.connect(self.node, qp, address, private_data);
        Ok(())
    }

    fn accept(
        &self,
        request: ConnectionRequest,
        qp: QueuePair,
        private_data: &[u8],
    ) -> Result<(), DeviceError> {
        private_data_fits(private_data)?;
        let net = &mut *self.net.borrow_mut();
        net.qp(self.node, qp)?;
        let missing = DeviceError::NoSuch {
            what: "connection request",
            index: request.0,
        };
        let from = net.requests.remove(&request.0).ok_or(missing)?;
        net.accept(self.node, from, qp.0, private_data);
        Ok(())
    }

    fn reject(&self, request: ConnectionRequest, reason: &str) -> Result<(), DeviceError> {
        let net = &mut *self.net.borrow_mut();
        let missing = DeviceError::NoSuch {
            what: "connection request",
            index: request.0,
        };
        let (node, qp) = net.requests.remove(&request.0).ok_or(missing)?;
        let event = ConnectionEvent::Rejected {
            qp: QueuePair(qp),
            reason: reason.to_owned(),
            nobody_listens: false,
        };
        net.nodes[node].events.push_back(event);
        Ok(())
    }

    fn disconnect(&self, qp: QueuePair) -> Result<(), DeviceError> {
        let net = &mut *self.net.borrow_mut();
        net.qp(self.node, qp)?;
        net.part(self.node, qp.0, DisconnectCause::Requested);
        Ok(())
    }

    fn poll_connection(&self) -> Option<ConnectionEvent> {
        self.net.borrow_mut().nodes[self.node].events.pop_front()
    }

    fn post_send(&self, qp: QueuePair, requests: &[WorkRequest]) -> Result<(), DeviceError> {
        let net = &mut *self.net.borrow_mut();
        requests
            .iter()
            .try_for_each(|request| self.check(net, &request.operation))?;
        let fault = net.fault;
        let pair = net.qp(self.node, qp)?;
        if pair.peer.is_none() && fault != Fault::SendsBeforeTheConnection {
            return Err(DeviceError::Malformed {
                reason: "a send on a queue pair that was never connected",
            });
        }
        let capacity = pair.options.send_capacity;
        let room = (capacity as usize).saturating_sub(pair.send.len());
        let (failed, full) = (
            pair.failed,
            requests.len() > room && fault != Fault::QueueNeverFull,
        );
        let accepted = match fault {
            Fault::HalfABatchAccepted if full => &requests[..room],
            _ if full => &[],
            _ => requests,
        };
        let status = failed.then_some(Status::WorkRequestFlushed);
        let post = |&request| Posted {
            request,
            placed: 0,
            status,
            refusals: 0,
            not_before: 0,
        };
        pair.send.extend(accepted.iter().map(post));
        net.retire(self.node, qp.0);
        if full {
            Err(DeviceError::QueueFull { capacity })
        } else {
            Ok(())
        }
    }

    fn post_receive(
        &self,
        queue: ReceiveQueue,
        requests: &[ReceiveRequest],
    ) -> Result<(), DeviceError> {
        let net = &mut *self.net.borrow_mut();
        if requests
            .iter()
            .any(|request| net.local(self.node, request.local).is_none())
        {
            return Err(DeviceError::Malformed {
                reason: "a receive buffer leaves its region",
            });
        }
        let endless = net.fault == Fault::QueueNeverFull;
        let (buffers, capacity) = match queue {
            ReceiveQueue::Own(qp) => {
                let pair = net.qp(self.node, qp)?;
                if pair.options.shared_receive_queue.is_some() {
                    return Err(DeviceError::Malformed {
                        reason: "the queue pair takes from a shared queue",
                    });
                }
                (&mut pair.receive, pair.options.receive_capacity)
            }
            ReceiveQueue::Shared(queue) => {
                let shared = &mut net.nodes[self.node].shared[queue.0 as usize];
                (&mut shared.buffers, shared.options.capacity)
            }
        };
        if buffers.len() + requests.len() > capacity as usize && !endless {
            return Err(DeviceError::QueueFull { capacity });
        }
        buffers.extend(requests);
        if let ReceiveQueue::Own(qp) = queue
            && net.qp(self.node, qp)?.failed
        {
            net.flush_receives(self.node, qp.0);
        }
        Ok(())
    }

    fn poll(&self, cq: CompletionQueue, limit: usize, into: &mut Vec<WorkCompletion>) -> usize {
        let net = &mut *self.net.borrow_mut();
        if net.nodes[self.node].dead || net.nodes[self.node].held {
            return 0;
        }
        net.progress();
        net.wakers.drain(..).for_each(std::task::Waker::wake);
        let endless = net.fault == Fault::PollLimitIgnored;
        let entries = &mut net.nodes[self.node].completions[cq.0 as usize].entries;
        let count = if endless {
            entries.len()
        } else {
            entries.len().min(limit)
        };
        into.extend(entries.drain(..count));
        count
    }

    fn poll_consumed(&self, queue: SharedReceiveQueue, into: &mut Vec<u64>) -> usize {
        let net = &mut *self.net.borrow_mut();
        if net.nodes[self.node].dead || net.nodes[self.node].held {
            return 0;
        }
        net.progress();
        net.wakers.drain(..).for_each(std::task::Waker::wake);
        let tells_the_sender = net.fault == Fault::ConsumedTellsTheSender;
        let node = &mut net.nodes[self.node];
        let before = into.len();
        for (wr_id, last) in node.shared[queue.0 as usize].consumed.drain(..) {
            if !tells_the_sender || node.qps.contains_key(&last) {
                into.push(wr_id);
            }
        }
        into.len() - before
    }

    fn read_now(&self, qp: QueuePair, reads: &mut [ReadInto<'_>]) -> Option<Status> {
        let net = &mut *self.net.borrow_mut();
        if !net.flavour.reads_at_once {
            return None;
        }
        net.read_now(self.node, qp.0, reads)
    }

    fn change_now(&self, qp: QueuePair, changes: &mut [ChangeNow<'_>]) -> bool {
        let net = &mut *self.net.borrow_mut();
        net.flavour.reads_at_once && net.change_now(self.node, qp.0, changes).is_some()
    }

    fn read_soon(
        &self,
        qp: QueuePair,
        reads: &[(LocalSpan, RemoteAddress)],
        wr_id: u64,
        looks: u32,
    ) -> Result<bool, DeviceError> {
        let (cq, looks) = {
            let net = &mut *self.net.borrow_mut();
            net.reads_in_the_call += 1;
            // A provider that takes every liberty is late now and then.
            let late = net.flavour.overtakes && net.reads_in_the_call.is_multiple_of(3);
            (
                net.qp(self.node, qp)?.options.send_cq,
                if late { 0 } else { looks },
            )
        };
        if reads.is_empty() {
            return Ok(true);
        }
        self.post_send(qp, &WorkRequest::reads(reads, wr_id))?;
        for _ in 0..looks {
            let net = &mut *self.net.borrow_mut();
            net.progress();
            let fault = net.fault;
            let entries = &mut net.nodes[self.node].completions[cq.0 as usize].entries;
            let counts =
                |status| status == Status::Success || fault == Fault::ReadsInTheCallAlwaysSucceed;
            if let Some(at) = entries
                .iter()
                .position(|found| found.wr_id == wr_id && counts(found.status))
            {
                if fault != Fault::ReadsInTheCallToldTwice {
                    entries.remove(at);
                }
                return Ok(true);
            }
        }
        Ok(false)
    }
}

impl Net {
    /// Executes earlier posts first; `None` if they cannot be finished at this moment.
    fn catch_up(&mut self, node: usize, qp: u32, overtakes: Fault) -> Option<()> {
        while self.fault != overtakes
            && self.nodes[node]
                .qps
                .get(&qp)?
                .send
                .iter()
                .any(|posted| posted.status.is_none())
        {
            let waits = self.nodes[node].qps[&qp]
                .send
                .iter()
                .any(|posted| posted.refusals > 0);
            if waits || !self.step(node, qp) {
                return None;
            }
        }
        Some(())
    }

    fn change_now(&mut self, node: usize, qp: u32, changes: &mut [ChangeNow<'_>]) -> Option<()> {
        self.catch_up(node, qp, Fault::ChangesAtOnceOvertake)?;
        let pair = &self.nodes[node].qps[&qp];
        let (to, to_qp) = pair.peer.filter(|_| !pair.failed)?;
        let place = |change: &ChangeNow<'_>| {
            let (remote, size, right) = match change {
                ChangeNow::Write { remote, from } => {
                    (*remote, from.len() as u64, Access::REMOTE_WRITE)
                }
                ChangeNow::CompareAndSwap { remote, .. }
                | ChangeNow::FetchAndAdd { remote, .. } => {
                    self.refuse_misaligned(*remote).ok()?;
                    (*remote, 8, Access::REMOTE_ATOMIC)
                }
            };
            let right = if self.fault == Fault::ChangesAtOnceIgnoreRights {
                Access::NONE
            } else {
                right
            };
            self.resolve(to, to_qp, remote, size, right).ok()
        };
        if self.fault != Fault::ChangesAtOnceHalfDone
            && changes.iter().any(|change| place(change).is_none())
        {
            return None;
        }
        for change in changes {
            let (memory, offset) = place(change)?;
            let mut word = [0; 8];
            match change {
                ChangeNow::Write { from, .. } => memory.write(offset, from),
                ChangeNow::CompareAndSwap {
                    expected,
                    swap,
                    found,
                    ..
                } => {
                    memory.read(offset, &mut word);
                    **found = u64::from_ne_bytes(word);
                    if **found == *expected || self.fault == Fault::SwapAlways {
                        memory.write(offset, &swap.to_ne_bytes());
                    }
                }
                ChangeNow::FetchAndAdd { add, found, .. } => {
                    memory.read(offset, &mut word);
                    **found = u64::from_ne_bytes(word);
                    memory.write(offset, &found.wrapping_add(*add).to_ne_bytes());
                }
            }
        }
        Some(())
    }

    fn read_now(&mut self, node: usize, qp: u32, reads: &mut [ReadInto<'_>]) -> Option<Status> {
        self.catch_up(node, qp, Fault::ReadsAtOnceOvertake)?;
        let pair = &self.nodes[node].qps[&qp];
        let (to, to_qp) = pair.peer?;
        if pair.failed {
            return Some(Status::WorkRequestFlushed);
        }
        for read in reads {
            let right = if self.fault == Fault::ReadsAtOnceIgnoreRights {
                Access::NONE
            } else {
                Access::REMOTE_READ
            };
            match self.resolve(to, to_qp, read.remote, read.into.len() as u64, right) {
                Ok((memory, offset)) => memory.read(offset, read.into),
                Err(status) => {
                    self.break_queue_pair(node, qp);
                    return Some(status);
                }
            }
        }
        Some(Status::Success)
    }
}
