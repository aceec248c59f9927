//! The server's side of connections: accepts clients, takes requests, answers.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use stonecast_base::Nanoseconds;
use stonecast_fabric::{
    Access, ConnectionEvent, ConnectionRequest, MemoryRegion, Opcode, Port, QueuePair,
    ReceiveQueue, Runtime, SharedReceiveQueue, SharedReceiveQueueOptions, Status,
};
use stonecast_session::{AnswerRing, Queues, ReceiveBuffers, Side, accept, close};

use crate::PublishedError;
use crate::geometry::Geometry;
use crate::link::{CLIENT_RECEIVES, GREETING, Welcome};
use crate::message::{HEADER_SIZE, Message};

/// Entries of the completion queues that a server's port needs.
pub const SERVER_COMPLETIONS: u32 = CLIENTS_MAX as u32 * ANSWERS as u32 * 2;
/// The most clients at a time.
pub(crate) const CLIENTS_MAX: usize = 128;
/// Outstanding answers to one client.
const ANSWERS: u64 = 16;
/// Bytes of a client's request slot: operation and key.
pub(crate) const REQUEST_SLOT_SIZE: u64 = 32;

/// Receive buffers: the hub's own memory, or the redo log.
#[derive(Clone, Copy)]
pub(crate) struct Receives {
    pub region: MemoryRegion,
    pub offset: u64,
    pub slot_size: u64,
    pub slots: u32,
}

/// The connections of a server.
pub(crate) struct Hub {
    port: Rc<Port>,
    runtime: Rc<dyn Runtime>,
    geometry: Geometry,
    memory: MemoryRegion,
    srq: SharedReceiveQueue,
    receives: Receives,
    /// Memory to which clients write requests, one slot each.
    requests: MemoryRegion,
    sessions: RefCell<BTreeMap<QueuePair, Session>>,
}

struct Session {
    number: u32,
    answers: AnswerRing,
}

/// An arrival.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Arrival {
    pub qp: QueuePair,
    /// The receive buffer, to return with [`Hub::repost`].
    pub slot: u64,
    pub size: u32,
    /// The client whose request slot holds the request.
    pub requester: Option<u32>,
}

impl Hub {
    /// A hub that gives clients `memory`, and takes messages into `receives`.
    pub fn new(
        port: Rc<Port>,
        runtime: Rc<dyn Runtime>,
        geometry: Geometry,
        memory: MemoryRegion,
        receives: Receives,
    ) -> Result<Self, PublishedError> {
        let device = port.device().clone();
        let srq = device.create_shared_receive_queue(SharedReceiveQueueOptions {
            capacity: receives.slots,
            multi_packet: None,
            in_order: false,
        })?;
        let requests =
            device.allocate(CLIENTS_MAX as u64 * REQUEST_SLOT_SIZE, Access::REMOTE_WRITE)?;
        let hub = Self {
            port,
            runtime,
            geometry,
            memory,
            srq,
            receives,
            requests,
            sessions: RefCell::default(),
        };
        let queue = ReceiveQueue::Shared(srq);
        hub.buffers()
            .post_all(&**hub.port.device(), queue, receives.slots)?;
        Ok(hub)
    }

    /// Bytes of the longest message of a store.
    pub fn message_size(geometry: &Geometry) -> u64 {
        ((HEADER_SIZE + geometry.key_size + geometry.value_size) as u64).next_multiple_of(64)
    }

    /// Waits for an arrival, for at most `longest`.
    pub async fn wait(&self, longest: Nanoseconds) {
        // Either result ends the wait.
        let _ = self.runtime.within(longest, self.port.activity()).await;
    }

    /// Accepts new clients and forgets departed clients; returns the queue pairs of the departed.
    pub fn take_events(&self) -> Vec<QueuePair> {
        let mut gone = Vec::new();
        while let Some(event) = self.port.take_event() {
            match event {
                ConnectionEvent::Request {
                    request,
                    private_data,
                    ..
                } => self.accept(request, &private_data),
                ConnectionEvent::Disconnected { qp, .. } => {
                    if let Some(session) = self.sessions.borrow_mut().remove(&qp) {
                        close(&self.port, qp, [session.answers.region()]);
                        gone.push(qp);
                    }
                }
                ConnectionEvent::Established { .. } | ConnectionEvent::Rejected { .. } => {}
            }
        }
        gone
    }

    /// Accepts a client, or refuses the client with a reason.
    fn accept(&self, request: ConnectionRequest, hello: &[u8]) {
        let mut sessions = self.sessions.borrow_mut();
        let taken = |number| sessions.values().any(|session| session.number == number);
        let free = (0..CLIENTS_MAX as u32).find(|&number| !taken(number));
        let refusal = GREETING
            .hear(Side::Client, hello)
            .map_err(|mismatch| mismatch.to_string())
            .and_then(|_| free.ok_or_else(|| format!("the server has {CLIENTS_MAX} clients")));
        let number = match refusal {
            Ok(number) => number,
            Err(reason) => {
                // A client that vanished meanwhile needs no answer.
                let _ = self.port.device().reject(request, &reason);
                return;
            }
        };
        let accepted = accept(&self.port, request, |making| {
            let size = Self::message_size(&self.geometry);
            let region = making.allocate(AnswerRing::size(ANSWERS, 0, size))?;
            making.queue_pair(Queues {
                send_capacity: ANSWERS as u32,
                receive_capacity: 1,
                shared_receive_queue: Some(self.srq),
                windows: false,
                rnr_retry_count: 1000,
                rnr_retry_delay_ns: 100_000,
            })?;
            let answers = AnswerRing::new(region, ANSWERS, 0, size);
            Ok((self.welcome(number).encode(), Session { number, answers }))
        });
        // A client that could not be accepted has been told the reason.
        if let Ok((qp, session)) = accepted {
            sessions.insert(qp, session);
        }
    }

    /// The facts that client `number` needs.
    fn welcome(&self, number: u32) -> Welcome {
        Welcome {
            geometry: self.geometry,
            number,
            memory_address: self.memory.address,
            memory_rkey: self.memory.rkey,
            request_address: self.requests.address + u64::from(number) * REQUEST_SLOT_SIZE,
            request_rkey: self.requests.rkey,
        }
    }

    /// The next arrival, if there is one.
    pub fn take_arrival(&self) -> Option<Arrival> {
        loop {
            let received = self.port.take_received()?;
            if received.status != Status::Success {
                continue;
            }
            let requester = (received.opcode == Opcode::ReceiveWriteWithImmediate)
                .then_some(received.immediate);
            return Some(Arrival {
                qp: received.qp,
                slot: received.wr_id,
                size: received.placement.size,
                requester,
            });
        }
    }

    /// The bytes of a receive buffer.
    pub fn bytes(&self, arrival: &Arrival) -> Vec<u8> {
        let mut bytes = vec![0; u64::from(arrival.size).min(self.receives.slot_size) as usize];
        self.port
            .device()
            .memory(self.receives.region)
            .read(self.slot_offset(arrival.slot), &mut bytes);
        bytes
    }

    /// The request of client `requester` in its slot: an operation and a key.
    pub fn request(&self, requester: u32) -> Result<(u8, Vec<u8>), PublishedError> {
        if requester as usize >= CLIENTS_MAX {
            return Err(PublishedError::Protocol("an unknown client"));
        }
        let mut bytes = vec![0; 1 + self.geometry.key_size];
        let offset = u64::from(requester) * REQUEST_SLOT_SIZE;
        self.port
            .device()
            .memory(self.requests)
            .read(offset, &mut bytes);
        let key = bytes.split_off(1);
        Ok((bytes[0], key))
    }

    /// Start of a receive buffer in its region.
    pub fn slot_offset(&self, slot: u64) -> u64 {
        self.receives.offset + slot * self.receives.slot_size
    }

    /// Returns a receive buffer.
    pub fn repost(&self, slot: u64) -> Result<(), PublishedError> {
        let (device, queue) = (self.port.device(), ReceiveQueue::Shared(self.srq));
        Ok(self.buffers().post(&**device, queue, slot)?)
    }

    fn buffers(&self) -> ReceiveBuffers {
        ReceiveBuffers {
            region: self.receives.region,
            start: self.receives.offset,
            size: self.receives.slot_size as u32,
        }
    }

    /// Sends a message to a client. A client that is gone or does not listen needs none.
    pub fn send(&self, qp: QueuePair, message: &Message) {
        let mut sessions = self.sessions.borrow_mut();
        let Some(session) = sessions.get_mut(&qp) else {
            return;
        };
        session.answers.send(&self.port, qp, &message.encode());
        if session.answers.is_stuck() {
            let _ = self.port.device().disconnect(qp);
        }
    }

    /// Sends a message to every client.
    pub fn send_all(&self, message: &Message) {
        let all: Vec<QueuePair> = self.sessions.borrow().keys().copied().collect();
        all.into_iter().for_each(|qp| self.send(qp, message));
    }
}

const _: () = assert!(
    ANSWERS < CLIENT_RECEIVES as u64,
    "a client has a receive buffer for every outstanding answer"
);
