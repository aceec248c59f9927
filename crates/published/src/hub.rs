//! The server's side of connections: accepts clients, takes requests, answers.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use stonecast_base::Nanoseconds;
use stonecast_fabric::{
    Access, ConnectionEvent, ConnectionRequest, DeviceError, MemoryRegion, Opcode, Port, QueuePair,
    ReceiveQueue, Runtime, SharedReceiveQueue, SharedReceiveQueueOptions, Status,
};
use stonecast_session::{AnswerRing, Queues, ReceiveBuffers, Side, accept, close};

use crate::PublishedError;
use crate::geometry::Geometry;
use crate::link::{CLIENT_RECEIVES, GREETING, Welcome};
use crate::message::{HEADER_SIZE, Message};

/// Entries of the completion queues that a server's port needs.
pub const SERVER_COMPLETIONS: u32 = CLIENTS_MAX as u32 * ANSWERS as u32 * 2;
/// Most clients at a time.
pub(crate) const CLIENTS_MAX: usize = 128;
/// Answers to one client that may be under way.
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
    answers: MemoryRegion,
    next_answer: u64,
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
        for slot in 0..u64::from(receives.slots) {
            hub.repost(slot)?;
        }
        Ok(hub)
    }

    /// Bytes of the longest message of a store.
    pub fn message_size(geometry: &Geometry) -> u64 {
        ((HEADER_SIZE + geometry.key_size + geometry.value_size) as u64).next_multiple_of(64)
    }

    /// Waits for an arrival, for `longest` at most.
    pub async fn wait(&self, longest: Nanoseconds) {
        let mut activity = pin!(self.port.activity());
        let mut pause = pin!(self.runtime.sleep(longest));
        std::future::poll_fn(|context| {
            let ready = activity.as_mut().poll(context).is_ready()
                || pause.as_mut().poll(context).is_ready();
            if ready {
                Poll::Ready(())
            } else {
                Poll::Pending
            }
        })
        .await;
    }

    /// Accepts new clients and forgets those that are gone; returns the queue pairs of the latter.
    pub fn take_events(&self) -> Vec<QueuePair> {
        let mut gone = Vec::new();
        while let Some(event) = self.port.take_event() {
            match event {
                ConnectionEvent::Request { request, .. } => {
                    if let Err(error) = self.accept(request) {
                        // A client without a reason would wait.
                        let _ = self.port.device().reject(request, &error.to_string());
                    }
                }
                ConnectionEvent::Disconnected { qp, .. } => {
                    if let Some(session) = self.sessions.borrow_mut().remove(&qp) {
                        let device = self.port.device();
                        let _ = self.port.destroy_queue_pair(qp);
                        let _ = device.deregister(session.answers);
                        gone.push(qp);
                    }
                }
                ConnectionEvent::Established { .. } | ConnectionEvent::Rejected { .. } => {}
            }
        }
        gone
    }

    fn accept(&self, request: ConnectionRequest) -> Result<(), DeviceError> {
        let device = self.port.device();
        let mut sessions = self.sessions.borrow_mut();
        let taken = |number| sessions.values().any(|session| session.number == number);
        let number = (0..CLIENTS_MAX as u32).find(|&number| !taken(number));
        let number = number.ok_or(DeviceError::Limit {
            what: "clients",
            limit: CLIENTS_MAX as u64,
        })?;
        let answers =
            device.allocate(ANSWERS * Self::message_size(&self.geometry), Access::NONE)?;
        let qp = device.create_queue_pair(QueuePairOptions {
            send_cq: self.port.send_cq(),
            receive_cq: self.port.receive_cq(),
            shared_receive_queue: Some(self.srq),
            windows: false,
            send_capacity: ANSWERS as u32,
            receive_capacity: 1,
            rnr_retry_count: 1000,
            rnr_retry_delay_ns: 100_000,
        })?;
        let welcome = Welcome {
            geometry: self.geometry,
            number,
            memory_address: self.memory.address,
            memory_rkey: self.memory.rkey,
            request_address: self.requests.address + u64::from(number) * REQUEST_SLOT_SIZE,
            request_rkey: self.requests.rkey,
        };
        device.accept(request, qp, &welcome.encode())?;
        sessions.insert(
            qp,
            Session {
                number,
                answers,
                next_answer: 0,
            },
        );
        Ok(())
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
            return Err(PublishedError::Protocol("a client that does not exist"));
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
        let size = self.receives.slot_size as u32;
        let local = LocalSpan {
            region: self.receives.region,
            offset: self.slot_offset(slot),
            size,
        };
        self.port.device().post_receive(
            ReceiveQueue::Shared(self.srq),
            &[ReceiveRequest { wr_id: slot, local }],
        )?;
        Ok(())
    }

    /// Sends a message to a client. A client that is gone or does not listen needs none.
    pub fn send(&self, qp: QueuePair, message: &Message) {
        let mut sessions = self.sessions.borrow_mut();
        let Some(session) = sessions.get_mut(&qp) else {
            return;
        };
        let bytes = message.encode();
        let offset = session.next_answer % ANSWERS * Self::message_size(&self.geometry);
        session.next_answer += 1;
        let device = self.port.device();
        device.memory(session.answers).write(offset, &bytes);
        let local = LocalSpan {
            region: session.answers,
            offset,
            size: bytes.len() as u32,
        };
        if self.port.post(qp, [Operation::Send { local }]).is_err() {
            let _ = device.disconnect(qp);
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
    "a client has a receive buffer for every answer under way"
);
