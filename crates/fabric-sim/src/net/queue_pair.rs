//! The state of a queue pair: its connection, its sends, its receives, and its messages in transit to memory.

use std::collections::VecDeque;
use std::task::Waker;

use stonecast_base::Nanoseconds;
use stonecast_fabric::{QueuePairOptions, ReceiveRequest, Status, WorkRequest};

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Stage {
    #[default]
    Idle,
    Connecting,
    /// The state of the acceptor until the other side is ready.
    Accepted,
    Connected,
    Failed,
}

pub(crate) struct Qp {
    pub context: u32,
    pub options: QueuePairOptions,
    pub connection: Connection,
    pub(super) sends: SendQueue,
    pub(super) receives: OwnReceives,
    pub(super) inbound: Inbound,
    /// Keys of its windows.
    pub(super) windows: Vec<u32>,
}

/// One end of a connection.
#[derive(Default)]
pub(crate) struct Connection {
    pub stage: Stage,
    pub peer: Option<u32>,
    /// Whether it broke without notice to the other side.
    pub(super) quiet: bool,
    /// Whether none of its answers arrives.
    pub(super) mute: bool,
}

/// The requests that were posted and have not left the queue.
#[derive(Default)]
pub(super) struct SendQueue {
    pub entries: VecDeque<Posted>,
    /// Number of the first entry, counted from the first post.
    pub base: u64,
    /// Number of the entry to transmit next.
    pub next: u64,
    /// Outstanding READs, atomics and FLUSHes.
    pub non_posted: u64,
    /// Number of times that transmission went back: messages of an earlier turn are void.
    pub turn: u32,
    /// Whether it transmits nothing: the responder was not ready, or a request failed.
    pub held: bool,
    /// The arrival time of the last message sent: messages do not overtake each other.
    pub last_arrival: Nanoseconds,
}

pub(super) struct Posted {
    pub request: WorkRequest,
    pub status: Option<Status>,
    pub refusals: u32,
}

/// The receive queue of a queue pair without a shared one.
#[derive(Default)]
pub(super) struct OwnReceives {
    pub buffers: VecDeque<ReceiveRequest>,
    /// The moment until which it is not ready.
    pub not_ready_until: Nanoseconds,
}

/// The messages that arrived at a queue pair and are in transit to or from memory.
#[derive(Default)]
pub(super) struct Inbound {
    /// The moment at which all arrivals so far are in memory.
    pub placed: Nanoseconds,
    /// The moment at which all placed data are in the memory controller, as far as they get there without help.
    pub settled: Nanoseconds,
    /// The moment at which all fetches so far are executed.
    pub executed: Nanoseconds,
    /// Messages that arrived here and are not yet in memory, in order.
    pub placing: VecDeque<u32>,
    /// Non-posted messages that arrived here and have not had their effect, in order.
    pub executing: VecDeque<u32>,
    /// The last written place: region and offset.
    pub cached: Option<(u32, u64)>,
    /// The waker to call when nothing is in transit to memory.
    pub waiting: Option<Waker>,
}

impl Qp {
    /// A queue pair that is not connected.
    pub fn new(context: u32, options: QueuePairOptions) -> Self {
        Self {
            context,
            options,
            connection: Connection::default(),
            sends: SendQueue::default(),
            receives: OwnReceives::default(),
            inbound: Inbound::default(),
            windows: Vec::new(),
        }
    }
}

impl SendQueue {
    /// The position of the entry with number `sequence`, if it is in the queue and has no status.
    pub fn waiting(&self, sequence: u64) -> Option<usize> {
        let position = sequence.checked_sub(self.base)? as usize;
        let posted = self.entries.get(position)?;
        posted.status.is_none().then_some(position)
    }
}
