//! The device: all state of one thread, and the interface for programs.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use stonecast_base::Span;
use stonecast_fabric::{
    Access, Appended, Capabilities, ChangeNow, CompletionQueue, ConnectionEvent, ConnectionRequest,
    Device, DeviceError, DisconnectCause, MemoryRegion, Operation, Placing, QueuePair,
    QueuePairOptions, ReadInto, ReceiveQueue, ReceiveRequest, RemoteAddress, Rkey,
    SharedReceiveQueue, SharedReceiveQueueOptions, Status, WorkCompletion, WorkRequest,
};
use stonecast_media::{MappedRegion, PersistentRegion, Region};

use crate::bell::Bell;
use crate::completion_queue::CompletionQueueState;
use crate::connecting::PendingRequest;
use crate::control::{Control, Line, Token};
use crate::descriptors;
use crate::in_call;
use crate::key_table::KeyTable;
use crate::layout::SEND_SIZE_MAX;
use crate::message::PRIVATE_DATA_SIZE_MAX;
use crate::options::ShmOptions;
use crate::queue_pair::{QueuePairState, Surroundings};
use crate::registration::FIRST_ADDRESS;
use crate::revocation::Leaving;
use crate::shared_receive_queue::{Buffers, SharedReceiveQueueState};
use crate::socket::SocketAccess;
use crate::table::{TABLE_CAPACITY, Table};
use crate::time_bound::TimeBound;

/// A device on the memory of this host. Belongs to one thread; its control thread lives as long as the device.
///
/// Addresses are `shm:PATH`, where PATH is that of a Unix socket.
#[derive(Debug)]
pub struct ShmDevice {
    capabilities: Capabilities,
    pub(crate) options: ShmOptions,
    pub(crate) time_bound: TimeBound,
    pub(crate) state: RefCell<State>,
}

/// The state that the device's thread changes.
pub(crate) struct State {
    pub(crate) control: Control,
    pub(crate) bell: Bell,
    pub(crate) keys: KeyTable,
    pub(crate) qps: Table<QueuePairState>,
    pub(crate) around: Surroundings,
    /// Connected queue pairs.
    pub(crate) listed: Vec<u32>,
    pub(crate) by_token: BTreeMap<Token, u32>,
    /// Requests of peers that wait for an answer of the program.
    pub(crate) requests: BTreeMap<Token, PendingRequest>,
    /// Requests of this device that wait for an answer of the peer.
    pub(crate) calls: BTreeMap<Token, (QueuePair, Line, MappedRegion)>,
    pub(crate) leaving: Leaving,
    pub(crate) next_address: u64,
    pub(crate) socket_access: SocketAccess,
}

impl std::fmt::Debug for State {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("State")
            .field("qps", &self.qps)
            .finish_non_exhaustive()
    }
}

/// Wraps the error of a failed system call.
pub(crate) fn system<E: Into<io::Error>>(doing: &'static str) -> impl Fn(E) -> DeviceError {
    let wrap = move |source: io::Error| DeviceError::System {
        doing,
        source: descriptors::explain(source),
    };
    move |error| wrap(error.into())
}

const NAME: &str = "shm";

impl ShmDevice {
    /// Makes a device and starts its control thread.
    pub fn new(options: ShmOptions) -> Result<Rc<Self>, DeviceError> {
        let keys = KeyTable::new().map_err(system("making the key table"))?;
        let bell = Bell::new(keys.memory().clone()).map_err(system("making the bell"))?;
        let control = Control::start(bell.clone(), options.copying_only, options.log.clone())
            .map_err(system("starting the control thread"))?;
        let capabilities = Capabilities {
            name: NAME.into(),
            send_size_max: SEND_SIZE_MAX,
            private_data_size_max: PRIVATE_DATA_SIZE_MAX,
            multi_packet: !options.copying_only,
            // Peers of other users can receive windows only on whole regions.
            memory_windows: !options.copying_only,
            protection_domains: false,
            flush_global: true,
            flush_persistent: false,
            atomic_write: true,
            read_now: true,
            read_soon: false,
            atomic_with_processor: true,
        };
        let state = RefCell::new(State {
            control,
            bell,
            keys,
            qps: Table::default(),
            around: Surroundings::default(),
            listed: Vec::new(),
            by_token: BTreeMap::new(),
            requests: BTreeMap::new(),
            calls: BTreeMap::new(),
            leaving: Leaving::new(options.quiesce_timeout_ns),
            next_address: FIRST_ADDRESS,
            socket_access: SocketAccess {
                mode: options.socket_mode,
                group: options.socket_group,
            },
        });
        Ok(Rc::new(Self {
            capabilities,
            options,
            time_bound: TimeBound::new(),
            state,
        }))
    }

    /// The mapping that READs of `qp` at `remote` copy from, and the offset in it; `None` before the first such READ.
    /// Meant for yardsticks: this call does not check whether the key is still valid.
    pub fn peer_memory(
        &self,
        qp: QueuePair,
        remote: RemoteAddress,
    ) -> Option<(Rc<MappedRegion>, u64)> {
        self.state
            .borrow()
            .qps
            .get(qp.0)?
            .connection
            .as_deref()?
            .memory
            .read_mapping(remote)
    }

    /// Hangs up every socket, as the death of this process would, without a goodbye. Meant for tests of higher layers:
    /// no peer can tell the difference.
    pub fn abandon(&self) {
        self.state.borrow().control.abandon();
    }
}

impl Drop for ShmDevice {
    fn drop(&mut self) {
        for (_, qp) in self.state.get_mut().qps.iter() {
            if let Some(connection) = qp.connection.as_ref().filter(|_| qp.is_connected()) {
                connection.say_goodbye(DisconnectCause::Requested);
            }
        }
    }
}

impl State {
    pub(crate) fn lacks(&self, capability: &'static str) -> DeviceError {
        DeviceError::Unsupported {
            device: NAME.into(),
            capability,
        }
    }

    pub(crate) fn queue_pair(&self, qp: QueuePair) -> Result<&QueuePairState, DeviceError> {
        self.qps.get(qp.0).ok_or(DeviceError::NoSuch {
            what: "queue pair",
            index: qp.0.into(),
        })
    }

    pub(crate) fn queue_pair_mut(
        &mut self,
        qp: QueuePair,
    ) -> Result<&mut QueuePairState, DeviceError> {
        self.qps.get_mut(qp.0).ok_or(DeviceError::NoSuch {
            what: "queue pair",
            index: qp.0.into(),
        })
    }

    /// Lets `work` operate on a queue pair, and then informs all users of an overrun completion queue.
    pub(crate) fn with_queue_pair(
        &mut self,
        handle: u32,
        work: impl FnOnce(&mut QueuePairState, &mut Surroundings),
    ) {
        if let Some(qp) = self.qps.get_mut(handle) {
            work(qp, &mut self.around);
        }
        self.spread_overruns();
    }

    /// Processes the reports of the control thread. Also called before every operation on a peer's memory: that memory
    /// outlives the peer, and a requester that only reads it would otherwise continue on stale memory.
    fn hear(&mut self) {
        if self.control.has_events() {
            self.progress_control();
        }
    }

    /// Makes all possible progress. Returns the wakers of tasks that wait for revocations or for appended messages.
    pub(crate) fn progress(&mut self) -> Vec<Waker> {
        self.hear();
        let Self { qps, around, .. } = self;
        self.listed.retain(|&handle| {
            let Some(qp) = qps.get_mut(handle) else {
                return false;
            };
            qp.progress(around);
            qp.is_connected()
        });
        let mut woken = Vec::new();
        self.progress_appends(&mut woken);
        self.spread_overruns();
        if !self.leaving.is_empty() {
            woken.extend(self.progress_revocations());
        }
        woken
    }

    /// Fails every queue pair that uses a completion queue which lost completions.
    pub(crate) fn spread_overruns(&mut self) {
        while let Some(cq) = self.around.cqs.overrun.pop() {
            for (_, qp) in self.qps.iter_mut() {
                if qp.options.send_cq.0 == cq || qp.options.receive_cq.0 == cq {
                    qp.fail_here(&mut self.around, Status::WorkRequestFlushed);
                }
            }
        }
    }
}

impl Device for ShmDevice {
    fn capabilities(&self) -> &Capabilities {
        &self.capabilities
    }

    fn placing(&self) -> Placing {
        Placing::RequesterProcessor
    }

    fn allocate(&self, size: u64, access: Access) -> Result<MemoryRegion, DeviceError> {
        self.state.borrow_mut().allocate(size, access)
    }

    fn register(
        &self,
        memory: Rc<dyn Region>,
        access: Access,
    ) -> Result<MemoryRegion, DeviceError> {
        self.state.borrow_mut().add_region(memory, access, false)
    }

    fn register_persistent(
        &self,
        memory: Rc<dyn PersistentRegion>,
        access: Access,
    ) -> Result<MemoryRegion, DeviceError> {
        self.state.borrow_mut().add_region(memory, access, false)
    }

    fn deregister(&self, region: MemoryRegion) -> Result<(), DeviceError> {
        self.state.borrow_mut().deregister(region)
    }

    fn memory(&self, region: MemoryRegion) -> Rc<dyn Region> {
        self.state
            .borrow()
            .region(region)
            .expect("the region is registered here")
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
        self.state
            .borrow_mut()
            .bind_window(qp, region, Span::new(offset, size), access)
    }

    fn poll_invalidate(
        &self,
        rkey: Rkey,
        context: &mut Context<'_>,
    ) -> Poll<Result<(), DeviceError>> {
        self.state.borrow_mut().poll_invalidate(rkey, context)
    }

    fn poll_quiesce(
        &self,
        qp: QueuePair,
        context: &mut Context<'_>,
    ) -> Poll<Result<(), DeviceError>> {
        let state = &mut *self.state.borrow_mut();
        state.hear();
        state.poll_quiesce(qp, context)
    }

    fn create_completion_queue(&self, capacity: u32) -> Result<CompletionQueue, DeviceError> {
        let limit = DeviceError::Limit {
            what: "completion queues",
            limit: TABLE_CAPACITY as u64,
        };
        let state = &mut *self.state.borrow_mut();
        state
            .around
            .cqs
            .table
            .insert(CompletionQueueState::new(capacity))
            .map(CompletionQueue)
            .ok_or(limit)
    }

    fn create_shared_receive_queue(
        &self,
        options: SharedReceiveQueueOptions,
    ) -> Result<SharedReceiveQueue, DeviceError> {
        self.state
            .borrow_mut()
            .create_shared_receive_queue(options, self.capabilities.multi_packet)
    }

    fn create_queue_pair(&self, options: QueuePairOptions) -> Result<QueuePair, DeviceError> {
        self.state.borrow_mut().create_queue_pair(options)
    }

    fn destroy_queue_pair(&self, qp: QueuePair) -> Result<(), DeviceError> {
        self.state.borrow_mut().destroy_queue_pair(qp)
    }

    fn listen(&self, address: &str) -> Result<(), DeviceError> {
        self.state.borrow_mut().listen(address)
    }

    fn connect(
        &self,
        qp: QueuePair,
        address: &str,
        private_data: &[u8],
    ) -> Result<(), DeviceError> {
        self.state.borrow_mut().connect(qp, address, private_data)
    }

    fn accept(
        &self,
        request: ConnectionRequest,
        qp: QueuePair,
        private_data: &[u8],
    ) -> Result<(), DeviceError> {
        self.state.borrow_mut().accept(request, qp, private_data)
    }

    fn reject(&self, request: ConnectionRequest, reason: &str) -> Result<(), DeviceError> {
        self.state.borrow_mut().reject(request, reason)
    }

    fn disconnect(&self, qp: QueuePair) -> Result<(), DeviceError> {
        self.state.borrow_mut().disconnect(qp)
    }

    fn poll_connection(&self) -> Option<ConnectionEvent> {
        let state = &mut *self.state.borrow_mut();
        state.hear();
        state.around.events.pop_front()
    }

    fn post_send(&self, qp: QueuePair, requests: &[WorkRequest]) -> Result<(), DeviceError> {
        check_requests(requests)?;
        let state = &mut *self.state.borrow_mut();
        state.hear();
        state.post_send(qp, requests)
    }

    fn post_receive(
        &self,
        queue: ReceiveQueue,
        requests: &[ReceiveRequest],
    ) -> Result<(), DeviceError> {
        self.state.borrow_mut().post_receive(queue, requests)
    }

    fn poll(&self, cq: CompletionQueue, limit: usize, into: &mut Vec<WorkCompletion>) -> usize {
        let state = &mut *self.state.borrow_mut();
        let waiting = state.progress();
        let count = state
            .around
            .cqs
            .table
            .get_mut(cq.0)
            .map_or(0, |cq| cq.take(limit, into));
        waiting.into_iter().for_each(Waker::wake);
        count
    }

    fn poll_consumed(&self, queue: SharedReceiveQueue, into: &mut Vec<u64>) -> usize {
        let state = &mut *self.state.borrow_mut();
        let waiting = state.progress();
        let before = into.len();
        if let Some(SharedReceiveQueueState {
            buffers: Buffers::Multi(multi),
            ..
        }) = state.around.srqs.get_mut(queue.0)
        {
            into.append(&mut multi.consumed);
        }
        waiting.into_iter().for_each(Waker::wake);
        into.len() - before
    }

    fn poll_appended(
        &self,
        queue: SharedReceiveQueue,
        waiter: Option<&Waker>,
        into: &mut Vec<Appended>,
    ) -> bool {
        let state = &mut *self.state.borrow_mut();
        let waiting = state.progress();
        let are_all = match state
            .around
            .srqs
            .get_mut(queue.0)
            .map(|srq| &mut srq.buffers)
        {
            Some(Buffers::Multi(multi)) => multi.take_appended(waiter, into),
            Some(Buffers::Single(_)) | None => false,
        };
        waiting.into_iter().for_each(Waker::wake);
        are_all
    }

    fn read_now(&self, qp: QueuePair, reads: &mut [ReadInto<'_>]) -> Option<Status> {
        let state = self.state.borrow();
        if state.control.has_events() {
            return None;
        }
        in_call::read_now(state.qps.get(qp.0)?, reads)
    }

    fn change_now(&self, qp: QueuePair, changes: &mut [ChangeNow<'_>]) -> bool {
        let state = &mut *self.state.borrow_mut();
        !state.control.has_events()
            && state
                .qps
                .get_mut(qp.0)
                .is_some_and(|qp| in_call::change_now(qp, changes))
    }
}

/// The faults of a batch that do not depend on the peer.
fn check_requests(requests: &[WorkRequest]) -> Result<(), DeviceError> {
    for request in requests {
        match request.operation {
            Operation::Send { local } if local.size > SEND_SIZE_MAX => {
                return Err(DeviceError::Limit {
                    what: "bytes of a SEND",
                    limit: SEND_SIZE_MAX.into(),
                });
            }
            Operation::CompareAndSwap { local, .. } | Operation::FetchAndAdd { local, .. }
                if local.size != 8 =>
            {
                return Err(DeviceError::Malformed {
                    reason: "the local span of an atomic is not 8 bytes",
                });
            }
            Operation::Flush { size: 0, .. } => {
                return Err(DeviceError::Malformed {
                    reason: "a FLUSH of no bytes",
                });
            }
            Operation::Flush {
                placement: stonecast_fabric::FlushPlacement::Persistent,
                ..
            } => {
                return Err(DeviceError::Unsupported {
                    device: NAME.into(),
                    capability: "FLUSH with persistence",
                });
            }
            _ => {}
        }
    }
    Ok(())
}
