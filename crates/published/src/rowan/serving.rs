//! The serving side of a thread: accepts peers, takes their requests, answers.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use stonecast_fabric::{
    Access, ConnectionEvent, ConnectionRequest, Opcode, Port, QueuePair, ReceiveQueue,
    SharedReceiveQueue, SharedReceiveQueueOptions, Status,
};
use stonecast_session::{
    AnswerRing, Greeting, Protocol, Queues, ReceiveBuffers, Side, accept, close,
};

use super::entry::ENTRY_SIZE_MAX;
use super::message::{ANSWER_SIZE, Outcome, REQUEST_SIZE, Request, answer};
use crate::PublishedError;

/// The first bytes of both sides of every connection.
pub(crate) const GREETING: Greeting = Greeting::of(Protocol {
    magic: *b"stonerow",
    name: "Rowan-KV as published and its rivals",
    version: 1,
});
/// Bytes of the longest message.
pub(crate) const MESSAGE_SIZE: u64 = (ENTRY_SIZE_MAX + REQUEST_SIZE).next_multiple_of(64) as u64;
/// Unanswered requests of a peer.
pub(crate) const IN_FLIGHT_MAX: usize = 64;
/// Bytes of most answers.
const SHORT: u64 = 256;
/// Receive buffers of a thread.
const BUFFERS: u32 = 1024;
/// Used buffers that are posted again with one doorbell.
const REPOSTED: usize = 32;

/// The connections of a serving thread.
pub(crate) struct Serving {
    port: Rc<Port>,
    srq: SharedReceiveQueue,
    buffers: ReceiveBuffers,
    /// Buffers to post again.
    used: RefCell<Vec<u64>>,
    peers: RefCell<BTreeMap<QueuePair, AnswerRing>>,
}

/// A request of a peer.
pub(crate) struct Arrival {
    pub qp: QueuePair,
    pub request: Request,
    pub body: Vec<u8>,
}

impl Serving {
    /// A thread that serves at `address`.
    pub fn open(port: Rc<Port>, address: &str) -> Result<Self, PublishedError> {
        let device = port.device().clone();
        let srq = device.create_shared_receive_queue(SharedReceiveQueueOptions {
            capacity: BUFFERS,
            multi_packet: None,
            in_order: false,
        })?;
        let region = device.allocate(u64::from(BUFFERS) * MESSAGE_SIZE, Access::NONE)?;
        let buffers = ReceiveBuffers::new(region, MESSAGE_SIZE as u32);
        buffers.post_all(&*device, ReceiveQueue::Shared(srq), BUFFERS)?;
        device.listen(address)?;
        Ok(Self {
            port,
            srq,
            buffers,
            used: RefCell::default(),
            peers: RefCell::default(),
        })
    }

    /// The port of the thread.
    pub fn port(&self) -> &Rc<Port> {
        &self.port
    }

    /// Forgets peers that are gone, and passes the requests of new ones to `decide`, with their first bytes. `decide`
    /// returns the data for the peer, and the queue for its SENDs if that is not the queue of messages.
    pub fn take_events(
        &self,
        mut decide: impl FnMut(&[u8]) -> Result<(Vec<u8>, Option<SharedReceiveQueue>), PublishedError>,
    ) {
        while let Some(event) = self.port.take_event() {
            match event {
                ConnectionEvent::Request {
                    request,
                    private_data,
                    ..
                } => {
                    let heard = GREETING.hear(Side::Client, &private_data);
                    let decided = heard
                        .map_err(|mismatch| mismatch.to_string())
                        .and_then(|said| decide(said).map_err(|error| error.to_string()));
                    self.answer_request(request, decided);
                }
                ConnectionEvent::Disconnected { qp, .. } => {
                    if let Some(answers) = self.peers.borrow_mut().remove(&qp) {
                        close(&self.port, qp, [answers.region()]);
                    }
                }
                ConnectionEvent::Established { .. } | ConnectionEvent::Rejected { .. } => {}
            }
        }
    }

    fn answer_request(
        &self,
        request: ConnectionRequest,
        decided: Result<(Vec<u8>, Option<SharedReceiveQueue>), String>,
    ) {
        let (welcome, queue) = match decided {
            Ok(decided) => decided,
            Err(reason) => {
                // A peer that vanished meanwhile needs no answer.
                let _ = self.port.device().reject(request, &reason);
                return;
            }
        };
        let slots = IN_FLIGHT_MAX as u64;
        let accepted = accept(&self.port, request, |making| {
            let region = making.allocate(AnswerRing::size(slots, SHORT, MESSAGE_SIZE))?;
            making.queue_pair(Queues {
                shared_receive_queue: Some(queue.unwrap_or(self.srq)),
                ..queues(slots as u32, 1)
            })?;
            let answers = AnswerRing::new(region, slots, SHORT, MESSAGE_SIZE);
            Ok((GREETING.say(&welcome), answers))
        });
        // A peer that could not be accepted has been told the reason.
        if let Ok((qp, answers)) = accepted {
            self.peers.borrow_mut().insert(qp, answers);
        }
    }

    /// The next request, if there is one. A peer that sends anything else is ended.
    pub fn take_request(&self) -> Option<Arrival> {
        loop {
            let received = self.port.take_received()?;
            if received.status != Status::Success || received.opcode != Opcode::Receive {
                continue;
            }
            let (device, qp) = (self.port.device(), received.qp);
            let mut bytes = Vec::new();
            self.buffers.copy_out(&**device, &received, &mut bytes);
            self.repost(received.wr_id);
            match Request::parse(&bytes) {
                Ok((request, body)) => {
                    let body = body.to_vec();
                    return Some(Arrival { qp, request, body });
                }
                Err(_) => drop(device.disconnect(qp)),
            }
        }
    }

    fn repost(&self, buffer: u64) {
        let used = &mut *self.used.borrow_mut();
        used.push(buffer);
        if used.len() == REPOSTED {
            let requests: Vec<_> = used
                .drain(..)
                .map(|buffer| self.buffers.request(buffer))
                .collect();
            let posted = self
                .port
                .device()
                .post_receive(ReceiveQueue::Shared(self.srq), &requests);
            posted.expect("the buffers were posted before");
        }
    }

    /// Answers a request. A peer that is gone or does not listen needs no answer.
    pub fn answer(&self, qp: QueuePair, id: u64, outcome: Outcome, body: &[u8]) {
        let peers = &mut *self.peers.borrow_mut();
        let Some(answers) = peers.get_mut(&qp) else {
            return;
        };
        answers.send(&self.port, qp, &answer(id, outcome, body));
        if answers.is_stuck() {
            let _ = self.port.device().disconnect(qp);
        }
    }
}

/// Queues of a connection: the artefact retries a receiver without buffers for as long as it takes.
pub(crate) fn queues(send_capacity: u32, receive_capacity: u32) -> Queues {
    Queues {
        send_capacity,
        receive_capacity,
        shared_receive_queue: None,
        windows: false,
        rnr_retry_count: 60_000,
        rnr_retry_delay_ns: 10_000,
    }
}

const _: () = assert!(ANSWER_SIZE <= REQUEST_SIZE, "an answer fits a message");
