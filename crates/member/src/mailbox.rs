//! Messages of one peer, in order, until its connection ends.

use std::cell::Cell;
use std::rc::Rc;

use stonecast_fabric::{
    ConnectionEvent, DeviceError, DisconnectCause, Inbox, MemoryRegion, QueuePair, ReceiveQueue,
    Status,
};
use stonecast_session::{Queues, ReceiveBuffers};

use crate::message::MESSAGE_SIZE;

/// The most messages on their way in each direction of a session: asks in one direction, answers in the other.
const MESSAGES: u32 = 4;

/// The queues of each side of a session.
pub(crate) const QUEUES: Queues = Queues {
    send_capacity: MESSAGES,
    receive_capacity: MESSAGES,
    shared_receive_queue: None,
    windows: false,
    rnr_retry_count: 100,
    rnr_retry_delay_ns: 100_000,
};

/// Sends, and receives, for which the port of a node must have room, for each peer. There is one session in each
/// direction and one of a start that is not known. Each session may have its successor beside it while it ends.
pub const COMPLETIONS_PER_PEER: u32 = 6 * MESSAGES;

/// Bytes of the receive buffers of one side.
pub(crate) const MAILBOX_SIZE: u64 = MESSAGES as u64 * MESSAGE_SIZE as u64;

/// The messages of one peer, in order.
pub(crate) struct Mailbox {
    inbox: Rc<Inbox>,
    qp: QueuePair,
    buffers: ReceiveBuffers,
    /// The reason of the end of the connection, once it has ended.
    end: Cell<Option<DisconnectCause>>,
}

impl Mailbox {
    /// Makes the mailbox of `qp` with the first [`MAILBOX_SIZE`] bytes of `region`. `inbox` has claimed the queue pair,
    /// or claims it before the first message.
    pub fn new(inbox: Rc<Inbox>, qp: QueuePair, region: MemoryRegion) -> Result<Self, DeviceError> {
        let buffers = ReceiveBuffers::new(region, MESSAGE_SIZE);
        let device = inbox.port().device();
        buffers.post_all(&**device, ReceiveQueue::Own(qp), MESSAGES)?;
        Ok(Self {
            inbox,
            qp,
            buffers,
            end: Cell::new(None),
        })
    }

    /// Waits for the next message. Returns `None` if the connection has ended or broke.
    pub async fn next(&self) -> Option<Vec<u8>> {
        loop {
            // The receive buffers of a broken connection come back before the event with the reason.
            if let Some(arrival) = self.inbox.take_received()
                && arrival.status == Status::Success
            {
                let device = self.inbox.port().device();
                let queue = ReceiveQueue::Own(self.qp);
                return self.buffers.take(&**device, queue, &arrival).ok();
            }
            match self.inbox.take_event() {
                Some(ConnectionEvent::Disconnected { cause, .. }) => {
                    self.end.set(Some(cause));
                    return None;
                }
                Some(_) => {}
                None => self.inbox.activity().await,
            }
        }
    }

    /// Whether the connection has ended although neither side has asked for that.
    pub fn has_broken(&self) -> bool {
        let end = self.end.get();
        end.is_some_and(|cause| cause != DisconnectCause::Requested)
    }
}
