//! The device: all state of one thread, and the interface for programs.
//!
//! | file | content |
//! | --- | --- |
//! | `mod.rs` | the device and its state |
//! | `open.rs`, `options.rs` | opening, and detected abilities |
//! | `region.rs`, `keys.rs` | registered memory, windows, the end of keys |
//! | `queue_pair.rs`, `posting.rs` | posts |
//! | `in_call.rs` | READs that end in the call |
//! | `completions.rs`, `progress.rs` | results of the NIC and the control plane |
//! | `connecting.rs` | beginning and end of connections |
//! | `quirks.rs` | deviations of devices from the specification |
//! | `park.rs` | falling asleep |

mod completions;
mod connecting;
mod in_call;
mod keys;
mod open;
mod options;
mod park;
mod posting;
mod progress;
mod queue_pair;
mod quirks;
mod receives;
mod region;
mod table;

use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;
use std::task::{Context as TaskContext, Poll};

use stonecast_base::Span;
use stonecast_fabric::{
    Access, Capabilities, CompletionQueue, ConnectionEvent, ConnectionRequest, Device, DeviceError,
    LocalSpan, MemoryRegion, Placing, QueuePair, QueuePairOptions, ReceiveQueue, ReceiveRequest,
    RemoteAddress, Rkey, SharedReceiveQueue, SharedReceiveQueueOptions, WorkCompletion,
    WorkRequest,
};
use stonecast_media::{PersistentRegion, Region};

use crate::control::{ControlPlane, LinkId, PeerProfile};
use crate::verbs::completion::{CompletionChannel, RawCompletion};
use crate::verbs::context::{Context, Facts};
use crate::verbs::memory::ProtectionDomain;
use crate::verbs::port::Port;
use crate::verbs::queue_pair::{ExtraOperations, Retransmission};
use completions::CompletionQueueState;
use connecting::PendingRequest;
use keys::KeyUse;
use queue_pair::QueuePairState;
use receives::SharedQueueState;
use region::{RegionState, WindowState};
use table::Table;

pub use open::Abilities;
pub use options::VerbsOptions;

/// A device over libibverbs. Belongs to one thread; the thread of its control plane lives as long as it does.
///
/// Addresses are `verbs:HOST:PORT`: the place at which the control plane listens, with a TCP port.
pub struct VerbsDevice {
    capabilities: Capabilities,
    state: RefCell<State>,
}

/// The state that the device's thread changes. The objects of the library are freed in the order of the fields: queue
/// pairs and windows before their parents.
struct State {
    control: ControlPlane,
    windows: Table<WindowState>,
    qps: Table<QueuePairState>,
    regions: Table<RegionState>,
    cqs: Table<CompletionQueueState>,
    srqs: Table<SharedQueueState>,
    connections: Connections,
    keys: Keys,
    collecting: Collecting,
    /// Set once [`VerbsDevice::abandon`] was called.
    abandoned: bool,
    hardware: Hardware,
    abilities: DeviceAbilities,
}

/// Queue pairs by their external names, and events that the program has not polled yet.
#[derive(Default)]
struct Connections {
    /// Queue pairs by the numbers that the NIC gave them.
    by_number: BTreeMap<u32, u32>,
    /// Queue pairs by their connections.
    by_link: BTreeMap<LinkId, u32>,
    /// Requests of peers that wait for an answer of the program.
    requests: BTreeMap<LinkId, PendingRequest>,
    events: VecDeque<ConnectionEvent>,
}

/// Keys that were given out.
struct Keys {
    uses: BTreeMap<u32, KeyUse>,
    /// Keys that were given out and ended; none is given out again.
    ended: keys::EndedKeys,
    /// The address at which the next region begins for peers.
    next_address: u64,
}

/// State between two polls.
#[derive(Default)]
struct Collecting {
    /// Room for completions of the NIC.
    raw: Vec<RawCompletion>,
    /// Polls since the last check of the device's events.
    polls: u32,
}

/// The opened device; its parts are freed in the order of the fields.
struct Hardware {
    domain: Rc<ProtectionDomain>,
    channel: Rc<CompletionChannel>,
    context: Context,
    port: Port,
    facts: Facts,
}

/// The detected abilities of the device, and its settings.
struct DeviceAbilities {
    extra: ExtraOperations,
    retransmission: Retransmission,
    name: String,
    send_size_max: u32,
    has_flush_persistent: bool,
}

impl VerbsDevice {
    /// Opens a device and starts its control plane.
    pub fn open(options: VerbsOptions) -> Result<Rc<Self>, DeviceError> {
        let (capabilities, state) = State::open(options)?;
        Ok(Rc::new(Self {
            capabilities,
            state: RefCell::new(state),
        }))
    }

    /// The names of this machine's devices; an error if libibverbs or its kernel part is missing.
    pub fn names() -> Result<Vec<String>, DeviceError> {
        crate::verbs::context::device_names()
    }

    /// The platform that the peer of a connected queue pair declared.
    pub fn peer_profile(&self, qp: QueuePair) -> Option<PeerProfile> {
        self.state
            .borrow()
            .qps
            .get(qp.0)
            .ok()?
            .peer
            .map(|(_, profile)| profile)
    }

    /// Ends every connection as the death of this process would, without a goodbye. Meant for tests of higher layers:
    /// no peer can tell the difference.
    pub fn abandon(&self) {
        self.state.borrow_mut().abandon();
    }
}

impl Device for VerbsDevice {
    fn capabilities(&self) -> &Capabilities {
        &self.capabilities
    }

    fn placing(&self) -> Placing {
        quirks::placing(&self.state.borrow().hardware.facts)
    }

    fn allocate(&self, size: u64, access: Access) -> Result<MemoryRegion, DeviceError> {
        self.state.borrow_mut().allocate(size, access)
    }

    fn register(
        &self,
        memory: Rc<dyn Region>,
        access: Access,
    ) -> Result<MemoryRegion, DeviceError> {
        self.state.borrow_mut().add_region(memory, access, None)
    }

    fn register_persistent(
        &self,
        memory: Rc<dyn PersistentRegion>,
        access: Access,
    ) -> Result<MemoryRegion, DeviceError> {
        let means = Some(memory.means());
        self.state.borrow_mut().add_region(memory, access, means)
    }

    fn deregister(&self, region: MemoryRegion) -> Result<(), DeviceError> {
        self.state.borrow_mut().deregister(region)
    }

    fn memory(&self, region: MemoryRegion) -> Rc<dyn Region> {
        self.state
            .borrow()
            .regions
            .get(region.index)
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
        _context: &mut TaskContext<'_>,
    ) -> Poll<Result<(), DeviceError>> {
        // The system call returns when the NIC has forgotten the key, so there is nothing to wait for afterwards.
        Poll::Ready(self.state.borrow_mut().invalidate(rkey))
    }

    fn poll_quiesce(
        &self,
        qp: QueuePair,
        context: &mut TaskContext<'_>,
    ) -> Poll<Result<(), DeviceError>> {
        match self.state.borrow_mut().quiesce(qp) {
            Ok(true) => Poll::Ready(Ok(())),
            Ok(false) => {
                // Outstanding requests will complete within microseconds, too soon for a sleep.
                context.waker().wake_by_ref();
                Poll::Pending
            }
            Err(error) => Poll::Ready(Err(error)),
        }
    }

    fn create_completion_queue(&self, capacity: u32) -> Result<CompletionQueue, DeviceError> {
        self.state.borrow_mut().create_completion_queue(capacity)
    }

    fn create_shared_receive_queue(
        &self,
        options: SharedReceiveQueueOptions,
    ) -> Result<SharedReceiveQueue, DeviceError> {
        self.state.borrow_mut().create_shared_receive_queue(options)
    }

    fn create_queue_pair(&self, options: QueuePairOptions) -> Result<QueuePair, DeviceError> {
        self.state.borrow_mut().create_queue_pair(options)
    }

    fn destroy_queue_pair(&self, qp: QueuePair) -> Result<(), DeviceError> {
        self.state.borrow_mut().destroy_queue_pair(qp)
    }

    fn listen(&self, address: &str) -> Result<(), DeviceError> {
        let address = address.parse()?;
        self.state.borrow().control.listen(&address).map(drop)
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
        state.progress();
        state.connections.events.pop_front()
    }

    fn post_send(&self, qp: QueuePair, requests: &[WorkRequest]) -> Result<(), DeviceError> {
        self.state.borrow_mut().post_send(qp, requests)
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
        state.progress();
        state.take_completions(cq.0, limit, into)
    }

    fn read_soon(
        &self,
        qp: QueuePair,
        reads: &[(LocalSpan, RemoteAddress)],
        wr_id: u64,
        looks: u32,
    ) -> Result<bool, DeviceError> {
        self.state.borrow_mut().read_soon(qp, reads, wr_id, looks)
    }
}
