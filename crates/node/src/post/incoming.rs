//! A session by which a peer sends letters.

use std::rc::Rc;
use std::task::{Context, Poll};

use stonecast_fabric::{
    ConnectionEvent, ConnectionRequest, DeviceError, Inbox, MemoryRegion, Port, QueuePair,
    ReceiveQueue, Status,
};
use stonecast_session::{Listener, ReceiveBuffers, accept, close};

use super::{LETTERS, QUEUES};
use crate::letter::LETTER_SIZE;

/// A session by which a peer sends letters. A drop ends the session.
pub struct Incoming {
    port: Rc<Port>,
    inbox: Rc<Inbox>,
    listener: Listener,
    qp: QueuePair,
    memory: MemoryRegion,
    buffers: ReceiveBuffers,
}

/// The letters that a session has brought.
pub struct Came {
    pub letters: Vec<Vec<u8>>,
    /// Whether more may come.
    pub goes_on: bool,
}

impl Incoming {
    /// Accepts `request`. `None`: the device has no resources left, and the peer has been told so.
    pub fn accept(port: &Rc<Port>, request: ConnectionRequest, welcome: &[u8]) -> Option<Self> {
        let inbox = Rc::new(Inbox::new(port));
        let accepted = accept(port, request, |making| {
            let memory = making.allocate(u64::from(LETTERS * LETTER_SIZE))?;
            let qp = making.queue_pair(QUEUES)?;
            inbox.claim(qp);
            let buffers = ReceiveBuffers::new(memory, LETTER_SIZE);
            buffers.post_all(&**port.device(), ReceiveQueue::Own(qp), LETTERS)?;
            Ok((welcome.to_vec(), (memory, buffers)))
        });
        let (qp, (memory, buffers)) = accepted.ok()?;
        Some(Self {
            port: port.clone(),
            listener: Listener::new(&inbox),
            inbox,
            qp,
            memory,
            buffers,
        })
    }

    /// Whether a letter, or the end of the session, can be taken; if not, the next one wakes `context`.
    pub fn poll_news(&mut self, context: &mut Context<'_>) -> Poll<()> {
        self.listener.poll_activity(context)
    }

    /// Takes the letters that have come.
    pub fn take(&self) -> Came {
        let mut letters = Vec::new();
        while let Some(arrival) = self.inbox.take_received() {
            let taken = (arrival.status == Status::Success).then(|| self.read(&arrival));
            match taken {
                Some(Ok(letter)) => letters.push(letter),
                Some(Err(_)) | None => {
                    let goes_on = false;
                    return Came { letters, goes_on };
                }
            }
        }
        let mut goes_on = true;
        while let Some(event) = self.inbox.take_event() {
            goes_on &= !matches!(event, ConnectionEvent::Disconnected { .. });
        }
        Came { letters, goes_on }
    }

    fn read(&self, arrival: &stonecast_fabric::Received) -> Result<Vec<u8>, DeviceError> {
        let queue = ReceiveQueue::Own(self.qp);
        self.buffers.take(&**self.port.device(), queue, arrival)
    }
}

impl Drop for Incoming {
    fn drop(&mut self) {
        close(&self.port, self.qp, [self.memory]);
    }
}
