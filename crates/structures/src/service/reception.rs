//! Reception at a server of structures: accepts peers, takes their messages, and posts receive buffers again.

use std::rc::Rc;

use stonecast_fabric::{
    Access, ConnectionRequest, DeviceError, Port, QueuePair, ReceiveQueue, Received,
    SharedReceiveQueue, SharedReceiveQueueOptions, Status,
};
use stonecast_session::{AnswerRing, Queues, ReceiveBuffers, Side, accept};

use crate::wire::{GREETING, MESSAGE_SIZE_MAX, REQUEST_SIZE_MAX, REQUESTS_MAX, Request};

/// The most peers at a time.
pub(super) const FRONT_ENDS_MAX: u32 = 64;
/// Receive buffers for requests of all peers.
pub(super) const RECEIVES: u32 = FRONT_ENDS_MAX * REQUESTS_MAX as u32;

/// The receive buffers that all peers share.
pub(crate) struct Reception {
    port: Rc<Port>,
    srq: SharedReceiveQueue,
    receives: ReceiveBuffers,
}

impl Reception {
    /// Listens at `address`.
    pub fn open(port: &Rc<Port>, address: &str) -> Result<Self, DeviceError> {
        let device = port.device();
        let srq = device.create_shared_receive_queue(SharedReceiveQueueOptions {
            capacity: RECEIVES,
            multi_packet: None,
            in_order: false,
        })?;
        let region = device.allocate(u64::from(RECEIVES * REQUEST_SIZE_MAX), Access::NONE)?;
        let receives = ReceiveBuffers::new(region, REQUEST_SIZE_MAX);
        receives.post_all(&**device, ReceiveQueue::Shared(srq), RECEIVES)?;
        device.listen(address)?;
        Ok(Self {
            port: port.clone(),
            srq,
            receives,
        })
    }

    /// Accepts a peer beside `peers` others, or refuses the peer with a reason. Returns its connection and the memory
    /// for its answers.
    pub fn accept(
        &self,
        request: ConnectionRequest,
        hello: &[u8],
        peers: usize,
    ) -> Option<(QueuePair, AnswerRing)> {
        let heard = GREETING.hear(Side::Client, hello);
        let refusal = match heard {
            Err(mismatch) => Some(mismatch.to_string()),
            Ok(_) if peers as u32 >= FRONT_ENDS_MAX => {
                Some(format!("the back-end has {FRONT_ENDS_MAX} front-ends"))
            }
            Ok(_) => None,
        };
        if let Some(reason) = refusal {
            // A peer that has vanished needs no answer.
            let _ = self.port.device().reject(request, &reason);
            return None;
        }
        let accepted = accept(&self.port, request, |making| {
            let size = AnswerRing::size(REQUESTS_MAX, 0, MESSAGE_SIZE_MAX);
            let region = making.allocate(size)?;
            making.queue_pair(Queues {
                send_capacity: REQUESTS_MAX as u32,
                receive_capacity: 1,
                shared_receive_queue: Some(self.srq),
                windows: true,
                rnr_retry_count: 1000,
                rnr_retry_delay_ns: 100_000,
            })?;
            let answers = AnswerRing::new(region, REQUESTS_MAX, 0, MESSAGE_SIZE_MAX);
            Ok((GREETING.say(b""), answers))
        });
        // A peer that could not be accepted has been told the reason.
        accepted.ok()
    }

    /// The content of an arrival, whose buffer is posted again.
    pub fn take(&self, received: &Received) -> Result<Message, DeviceError> {
        let mut message = Vec::new();
        if received.status == Status::Success {
            let device = self.port.device();
            self.receives.copy_out(&**device, received, &mut message);
        }
        self.repost(received)?;
        Ok(match received.status {
            Status::Success => Request::parse(&message).map_or(Message::Nonsense, Message::Request),
            _ => Message::Nothing,
        })
    }

    /// Posts the buffer of an arrival again.
    pub fn repost(&self, received: &Received) -> Result<(), DeviceError> {
        let queue = ReceiveQueue::Shared(self.srq);
        self.receives
            .post(&**self.port.device(), queue, received.wr_id)
    }
}

/// The content of an arrival.
pub(crate) enum Message {
    /// A request.
    Request(Request),
    /// A message that is not a request.
    Nonsense,
    /// The connection failed before a message came.
    Nothing,
}
