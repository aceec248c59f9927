//! A queue pair: its outstanding requests, and its end.
//!
//! ```text
//!   Idle -> Connecting -> Connected -> Error
//!     ^---------'  rejected
//! ```
//!
//! Requests are executed in order, as far as the order of effects allows; they complete from the front. A failed
//! request stops the execution, and when it has reached the front the queue pair fails with its status.

use std::collections::VecDeque;

use stonecast_base::Nanoseconds;
use stonecast_fabric::{
    ConnectionEvent, DisconnectCause, Opcode, Operation, Placement, QueuePair, QueuePairOptions,
    ReceiveRequest, Status, WorkCompletion, WorkRequest,
};

use crate::completion_queue::CompletionQueues;
use crate::connection::Connection;
use crate::control::Token;
use crate::memory_region::LocalRegion;
use crate::sends::Sends;
use crate::shared_receive_queue::SharedReceiveQueueState;
use crate::table::Table;

/// The state of a queue pair.
#[derive(Debug)]
pub(crate) enum Phase {
    Idle,
    /// The request was sent.
    Connecting {
        token: Token,
    },
    Connected,
    Error,
}

#[derive(Debug)]
pub(crate) struct QueuePairState {
    pub(crate) handle: u32,
    pub(crate) options: QueuePairOptions,
    pub(crate) phase: Phase,
    /// Present from the connection until the queue pair is destroyed.
    pub(crate) connection: Option<Box<Connection>>,
    /// Outstanding sends.
    pub(crate) sends: Sends,
    /// The end of the last SEND in the ring: later requests wait until it is taken.
    pub(crate) last_send_end: u64,
    /// The moment since which the peer's append queue has had no buffer.
    pub(crate) append_refused_since: Option<Nanoseconds>,
    /// Outstanding buffers of this queue pair's own receive queue, oldest first.
    pub(crate) receives: VecDeque<ReceiveRequest>,
    /// The moment since which the message at the front of the peer's ring has found no buffer.
    pub(crate) refused_since: Option<Nanoseconds>,
}

/// The parts of the device that the work of a queue pair needs.
#[derive(Default)]
pub(crate) struct Surroundings {
    pub(crate) cqs: CompletionQueues,
    pub(crate) srqs: Table<SharedReceiveQueueState>,
    pub(crate) regions: Table<LocalRegion>,
    pub(crate) events: VecDeque<ConnectionEvent>,
    pub(crate) scratch: Vec<u8>,
}

impl QueuePairState {
    pub(crate) fn new(options: QueuePairOptions) -> Self {
        Self {
            handle: 0,
            options,
            phase: Phase::Idle,
            connection: None,
            sends: Sends::default(),
            last_send_end: 0,
            append_refused_since: None,
            receives: VecDeque::new(),
            refused_since: None,
        }
    }

    /// Whether the queue pair is connected and works.
    pub(crate) fn is_connected(&self) -> bool {
        matches!(self.phase, Phase::Connected)
    }

    /// Makes all possible progress. Returns whether there was any.
    pub(crate) fn progress(&mut self, around: &mut Surroundings) -> bool {
        if !self.is_connected() {
            return false;
        }
        let received = self.progress_receives(around);
        let sent = self.progress_sends(around);
        received | sent
    }

    /// Whether [`QueuePairState::progress`] would find work that no ring announces.
    pub(crate) fn has_work(&self) -> bool {
        if !self.is_connected() {
            return false;
        }
        let connection = self
            .connection
            .as_ref()
            .expect("a connected queue pair has a connection");
        let arrived =
            self.refused_since.is_none() && !connection.consumer.is_empty(&*connection.area);
        let acknowledged = !self.sends.is_empty()
            && (connection.producer.has_news(&*connection.area) || connection.verdict().is_some());
        arrived || acknowledged
    }

    /// Whether a send waits for an action of the peer.
    pub(crate) fn waits_for_peer(&self) -> bool {
        self.is_connected() && !self.sends.is_empty()
    }

    /// The time until the queue pair must check again by itself.
    pub(crate) fn patience_ns(&self) -> Option<Nanoseconds> {
        if !self.is_connected() {
            return None;
        }
        let peer_delay = self
            .connection
            .as_ref()
            .map_or(0, |connection| connection.peer.rnr_retry_delay_ns);
        let refused = self.refused_since.map(|_| peer_delay);
        let append_refused = self
            .append_refused_since
            .map(|_| self.options.rnr_retry_delay_ns);
        refused.into_iter().chain(append_refused).min()
    }

    /// Ends the connection and completes every outstanding request with an error: the oldest send with `first`, all
    /// others as flushed. `goodbye` is the message to the peer.
    pub(crate) fn fail(
        &mut self,
        around: &mut Surroundings,
        first: Status,
        cause: DisconnectCause,
        goodbye: Option<DisconnectCause>,
    ) {
        if matches!(self.phase, Phase::Error) {
            return;
        }
        let was_connected = self.is_connected();
        self.phase = Phase::Error;
        let mut status = first;
        for request in self.sends.take() {
            self.complete_send(&mut around.cqs, &request, status);
            status = Status::WorkRequestFlushed;
        }
        for receive in std::mem::take(&mut self.receives) {
            self.complete_receive(&mut around.cqs, receive.wr_id, Status::WorkRequestFlushed);
        }
        if was_connected {
            if let (Some(connection), Some(goodbye)) = (&self.connection, goodbye) {
                connection.say_goodbye(goodbye);
            }
            around.events.push_back(ConnectionEvent::Disconnected {
                qp: QueuePair(self.handle),
                cause,
            });
        }
    }

    /// Fails because of a local error.
    pub(crate) fn fail_here(&mut self, around: &mut Surroundings, first: Status) {
        let cause = DisconnectCause::QueuePairError;
        self.fail(around, first, cause, Some(cause));
    }

    /// Completes a send; success only if it is signalled.
    pub(crate) fn complete_send(
        &self,
        cqs: &mut CompletionQueues,
        request: &WorkRequest,
        status: Status,
    ) {
        if status == Status::Success && !request.signalled {
            return;
        }
        let completion = WorkCompletion {
            wr_id: request.wr_id,
            status,
            opcode: opcode(&request.operation),
            qp: QueuePair(self.handle),
            immediate: 0,
            placement: Placement { offset: 0, size: 0 },
        };
        cqs.push(self.options.send_cq.0, completion);
    }

    /// Completes a receive that got no message.
    pub(crate) fn complete_receive(&self, cqs: &mut CompletionQueues, wr_id: u64, status: Status) {
        let completion = WorkCompletion {
            wr_id,
            status,
            opcode: Opcode::Receive,
            qp: QueuePair(self.handle),
            immediate: 0,
            placement: Placement { offset: 0, size: 0 },
        };
        cqs.push(self.options.receive_cq.0, completion);
    }
}

fn opcode(operation: &Operation) -> Opcode {
    match operation {
        Operation::Write { .. } | Operation::WriteWithImmediate { .. } => Opcode::Write,
        Operation::Send { .. } => Opcode::Send,
        Operation::Read { .. } => Opcode::Read,
        Operation::CompareAndSwap { .. } => Opcode::CompareAndSwap,
        Operation::FetchAndAdd { .. } => Opcode::FetchAndAdd,
        Operation::Flush { .. } => Opcode::Flush,
        Operation::AtomicWrite { .. } => Opcode::AtomicWrite,
    }
}
