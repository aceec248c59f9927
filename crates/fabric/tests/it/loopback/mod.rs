//! The reference provider: devices in one thread that exchange work through shared state, one small step per poll.
//!
//! The provider is as plain as possible, so a story of the contract that fails here is wrong. It can be told to break
//! one promise at a time ([`Fault`]), so a story that never fails is found.
//!
//! ```text
//!   world.rs     clock, executor, nodes            memory.rs     regions and keys
//!   device.rs    the calls of a device             delivery.rs   receive queues
//!   engine.rs    steps of posted work, failure     connection.rs beginning and end
//! ```

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;
use std::task::Waker;

use stonecast_base::Nanoseconds;
use stonecast_fabric::{
    ConnectionEvent, QueuePairOptions, ReceiveRequest, SharedReceiveQueueOptions, Status,
    WorkCompletion, WorkRequest,
};

mod connection;
mod delivery;
mod device;
mod engine;
mod memory;
mod world;

pub use memory::Memory;
pub use world::LoopbackWorld;

/// Liberties that the contract leaves to a provider. A story must pass with any of them.
#[derive(Clone, Copy, Debug)]
pub struct Flavour {
    /// The name for messages.
    pub name: &'static str,
    /// Has every optional capability.
    pub capable: bool,
    /// Lets WRITEs overtake earlier non-posted operations.
    pub overtakes: bool,
    /// Executes READs at once.
    pub reads_at_once: bool,
    /// Makes windows of protection domains.
    pub protection_domains: bool,
}

/// Has every capability and takes no liberty.
pub const PLAIN: Flavour = Flavour {
    name: "plain",
    capable: true,
    overtakes: false,
    reads_at_once: false,
    protection_domains: false,
};
/// Has every capability and takes every liberty.
pub const LIBERAL: Flavour = Flavour {
    name: "liberal",
    capable: true,
    overtakes: true,
    reads_at_once: true,
    protection_domains: false,
};
/// Keeps peers apart by protection domains, as strictly as it may.
pub const PROTECTION_DOMAINS: Flavour = Flavour {
    name: "protective",
    protection_domains: true,
    ..PLAIN
};
/// Has no optional capability.
pub const POOR: Flavour = Flavour {
    name: "poor",
    capable: false,
    overtakes: false,
    reads_at_once: true,
    protection_domains: false,
};

/// The promise that is broken on purpose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    Nothing,
    SendsReordered,
    FenceIgnored,
    ReadsOvertakeWrites,
    WriteNotExecuted,
    WordsTorn,
    BoundsIgnored,
    WritesUpToTheBound,
    RightsIgnored,
    MisalignmentIgnored,
    SwapAlways,
    RevocationIgnored,
    RevocationDoesNotWait,
    KeysReused,
    WindowForEverybody,
    WindowOpensItsRegion,
    FlushedRequestsForgotten,
    FlushedReceivesForgotten,
    SharedBuffersFlushed,
    UnsignalledFailureSwallowed,
    UnsignalledSuccessReported,
    FailureSpreads,
    LongMessagesCut,
    NoReceiverNotReady,
    ReceiverNotReadyForEver,
    SharedBuffersBackwards,
    RefusedBufferPostedAgain,
    StrideIgnored,
    BufferConsumedTwice,
    ConsumedTellsTheSender,
    SilentQueueTells,
    QuiesceIgnored,
    QuiesceSpreads,
    ArrivalsCompleteLate,
    ImmediateTakesNoReceive,
    ImmediateLost,
    QueueNeverFull,
    HalfABatchAccepted,
    UnsignalledStaysInTheQueue,
    OverrunSilent,
    DisconnectToldTwice,
    DeathUnnoticed,
    PersistentFlushOfVolatileMemory,
    EmptyFlushAccepted,
    CompletesAfterDestruction,
    ReadsAtOnceIgnoreRights,
    ReadsAtOnceOvertake,
    ChangesAtOnceIgnoreRights,
    ChangesAtOnceOvertake,
    ChangesAtOnceHalfDone,
    ReadsInTheCallAlwaysSucceed,
    ReadsInTheCallToldTwice,
    KeyNumberIgnored,
    LocalBoundsIgnored,
    CompletionsBackwards,
    AtomicsReturnTheNewWord,
    PollLimitIgnored,
    MessageLengthLost,
    PrivateDataLost,
    RejectionLost,
    LongSendsAccepted,
    MemoryNotZeroed,
    DeregistrationUnchecked,
    AnyoneMayListen,
    ResponderMustPoll,
    SendsBeforeTheConnection,
}

/// The state that all devices share.
pub struct Net {
    flavour: Flavour,
    fault: Fault,
    clock: Rc<Clock>,
    nodes: Vec<NodeState>,
    listeners: BTreeMap<String, usize>,
    requests: BTreeMap<u64, (usize, u32)>,
    next_request: u64,
    next_address: u64,
    wakers: Vec<Waker>,
    reads_in_the_call: u64,
}

/// The clock. Time passes when the clock is read, and when the executor parks.
#[derive(Default)]
pub struct Clock {
    now: Cell<Nanoseconds>,
}

impl Clock {
    fn now(&self) -> Nanoseconds {
        self.now.set(self.now.get() + 50);
        self.now.get()
    }
}

#[derive(Default)]
struct NodeState {
    dead: bool,
    /// Whether the node gets no processor time.
    held: bool,
    regions: Vec<Option<Rc<Memory>>>,
    keys: BTreeMap<u32, Key>,
    next_key: u32,
    completions: Vec<Completions>,
    /// Completions that a fault holds back, each with the moment until which it does.
    held_back: VecDeque<(Nanoseconds, u32, WorkCompletion)>,
    shared: Vec<SharedQueue>,
    qps: BTreeMap<u32, Qp>,
    events: VecDeque<ConnectionEvent>,
}

struct Key {
    region: usize,
    address: u64,
    offset: u64,
    size: u64,
    access: stonecast_fabric::Access,
    qp: Option<u32>,
    valid: bool,
}

struct Completions {
    capacity: usize,
    entries: VecDeque<WorkCompletion>,
    overrun: bool,
}

struct SharedQueue {
    options: SharedReceiveQueueOptions,
    buffers: VecDeque<ReceiveRequest>,
    /// Strides of the first buffer that are taken.
    taken: u32,
    /// Buffers that took their last message, and the queue pair of that message.
    consumed: VecDeque<(u64, u32)>,
}

struct Qp {
    options: QueuePairOptions,
    peer: Option<(usize, u32)>,
    failed: bool,
    send: VecDeque<Posted>,
    receive: VecDeque<ReceiveRequest>,
}

struct Posted {
    request: WorkRequest,
    /// Bytes that a WRITE has placed.
    placed: u32,
    status: Option<Status>,
    refusals: u32,
    not_before: Nanoseconds,
}

/// A device of the reference provider.
pub struct Loopback {
    net: Rc<RefCell<Net>>,
    node: usize,
    capabilities: stonecast_fabric::Capabilities,
}
