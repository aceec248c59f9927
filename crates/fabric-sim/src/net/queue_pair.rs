//! The state of a queue pair: a connection, what it sends, what it receives, and what is on its way to memory.

use std::collections::VecDeque;
use std::task::Waker;

use stonecast_base::Nanoseconds;
use stonecast_fabric::{QueuePairOptions, ReceiveRequest, Status, WorkRequest};

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Stage {
    #[default]
    Idle,
    Connecting,
    /// The acceptor's, until the other side is ready.
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
    /// It broke and the other side was not told.
    pub(super) quiet: bool,
    /// Nothing that it answers arrives any more.
    pub(super) mute: bool,
}

/// What was posted and has not left the queue.
#[derive(Default)]
pub(super) struct SendQueue {
    pub entries: VecDeque<Posted>,
    /// Number of the first entry, counted from the first post.
    pub base: u64,
    /// Number of the entry to transmit next.
    pub next: u64,
    /// READs, atomics and FLUSHes under way.
    pub non_posted: u64,
    /// Counts how often transmission went back: messages of an earlier turn are void.
    pub turn: u32,
    /// Transmits nothing: the responder was not ready, or a request failed.
    pub held: bool,
    /// When the message that was sent last arrives: messages do not overtake each other.
    pub last_arrival: Nanoseconds,
}

pub(super) struct Posted {
    pub request: WorkRequest,
    pub status: Option<Status>,
    pub refusals: u32,
}

/// The receive queue of a queue pair that shares none.
#[derive(Default)]
pub(super) struct OwnReceives {
    pub buffers: VecDeque<ReceiveRequest>,
    /// It is not ready until then.
    pub not_ready_until: Nanoseconds,
}

/// What arrived at a queue pair and is on its way to or from memory.
#[derive(Default)]
pub(super) struct Inbound {
    /// When everything that arrived here so far is in memory.
    pub placed: Nanoseconds,
    /// When everything that was placed here is in the memory controller, as far as it gets there by itself.
    pub settled: Nanoseconds,
    /// When everything that was to be fetched from here so far was fetched.
    pub executed: Nanoseconds,
    /// Messages that arrived here and are not yet in memory, in order.
    pub placing: VecDeque<u32>,
    /// Non-posted messages that arrived here and have not had their effect, in order.
    pub executing: VecDeque<u32>,
    /// What was written through it last: region and offset.
    pub cached: Option<(u32, u64)>,
    /// Whom to tell when nothing is on its way to memory any more.
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
    /// Where the entry with number `sequence` stands, if it is in the queue and has no status.
    pub fn waiting(&self, sequence: u64) -> Option<usize> {
        let position = sequence.checked_sub(self.base)? as usize;
        let posted = self.entries.get(position)?;
        posted.status.is_none().then_some(position)
    }
}
