//! The calling side of a connection: requests and their answers, in any order.

use std::cell::RefCell;
use std::future::poll_fn;
use std::rc::Rc;
use std::task::Poll;

use stonecast_fabric::{
    ConnectionEvent, LocalSpan, MemoryRegion, Operation, Port, ReceiveQueue, Runtime, Status,
};
use stonecast_session::{
    ConnectError, Endpoint, ReceiveBuffers, RequestHandle, RequestId, Requests, Side,
};

use super::message::{ANSWER_SIZE, Kind, Outcome, Request, parse_answer};
use super::serving::{GREETING, IN_FLIGHT_MAX, MESSAGE_SIZE, queues};
use crate::PublishedError;

/// Receive buffers: one for each unanswered request, and those that wait to be posted again.
const BUFFERS: u32 = IN_FLIGHT_MAX as u32 + REPOSTED as u32;
/// Used buffers that are posted again with one doorbell.
const REPOSTED: usize = 16;
/// Bytes from which requests are sent.
const RING_SIZE: u64 = IN_FLIGHT_MAX as u64 * MESSAGE_SIZE;
/// Work requests of a connection.
const SENDS: u32 = 4 * IN_FLIGHT_MAX as u32;
/// Bytes of the longest message without an answer.
const TOLD_SIZE: u64 = 64;

/// An answer in a receive buffer.
#[derive(Clone, Copy)]
struct Answered {
    outcome: Outcome,
    buffer: u64,
    size: u32,
}

/// A connection to a serving thread.
pub(crate) struct Caller {
    endpoint: Endpoint,
    ring: MemoryRegion,
    buffers: ReceiveBuffers,
    used: RefCell<Vec<u64>>,
    requests: RefCell<Requests<Answered, ()>>,
    gone: RefCell<bool>,
    /// Memory for messages without an answer, and the number of them so far. The places outnumber the send queue, so a
    /// message has left when its place comes again.
    told: (MemoryRegion, RefCell<u64>),
}

impl Caller {
    /// Connects to the thread at `address` and says `hello`. Returns the data of that thread, too.
    pub async fn connect(
        port: &Rc<Port>,
        runtime: &Rc<dyn Runtime>,
        address: &str,
        hello: &[u8],
    ) -> Result<(Rc<Self>, Vec<u8>), PublishedError> {
        let endpoint = Endpoint::new(port, queues(SENDS, BUFFERS))?;
        let region = endpoint.allocate(u64::from(BUFFERS) * MESSAGE_SIZE)?;
        let buffers = ReceiveBuffers::new(region, MESSAGE_SIZE as u32);
        let queue = ReceiveQueue::Own(endpoint.qp());
        buffers.post_all(&**port.device(), queue, BUFFERS)?;
        let welcome = connect(&endpoint, address, hello).await?;
        let ring = endpoint.allocate(RING_SIZE)?;
        let told = endpoint.allocate(u64::from(SENDS) * TOLD_SIZE)?;
        let caller = Rc::new(Self {
            endpoint,
            ring,
            buffers,
            used: RefCell::default(),
            requests: RefCell::new(Requests::new(IN_FLIGHT_MAX, RING_SIZE)),
            gone: RefCell::new(false),
            told: (told, RefCell::new(0)),
        });
        runtime.spawn(Box::pin(caller.clone().listen()));
        Ok((caller, welcome))
    }

    /// The endpoint of the connection.
    pub fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    /// Hands answers to the waiting requests, until the connection ends.
    async fn listen(self: Rc<Self>) {
        let inbox = self.endpoint.inbox().clone();
        loop {
            inbox.activity().await;
            while let Some(received) = inbox.take_received() {
                if received.status != Status::Success {
                    continue;
                }
                let (buffer, size) = (received.wr_id, received.placement.size);
                let mut head = [0; ANSWER_SIZE];
                let memory = self.endpoint.port().device().memory(self.buffers.region);
                memory.read(self.buffers.request(buffer).local.offset, &mut head);
                let Ok((id, outcome)) = parse_answer(&head) else {
                    return self.end();
                };
                let answered = Answered {
                    outcome,
                    buffer,
                    size,
                };
                let waited = self
                    .requests
                    .borrow_mut()
                    .answer(RequestId(id), answered)
                    .is_some();
                if !waited {
                    return self.end();
                }
            }
            while let Some(event) = inbox.take_event() {
                if matches!(event, ConnectionEvent::Disconnected { .. }) {
                    return self.end();
                }
            }
        }
    }

    fn end(&self) {
        self.gone.replace(true);
        self.requests.borrow_mut().end();
        self.endpoint.end();
    }

    /// Sends a request and waits for its answer. The body of the answer goes to `into`.
    pub async fn call(
        &self,
        kind: Kind,
        key: u64,
        body: &[u8],
        into: &mut Vec<u8>,
    ) -> Result<Outcome, PublishedError> {
        let handle = self.send(kind, key, body).await?;
        let answered =
            poll_fn(|context| self.requests.borrow_mut().poll(handle, context.waker())).await;
        self.requests.borrow_mut().forget(handle);
        let Ok(answered) = answered else {
            return Err(gone());
        };
        into.clear();
        let body_size = answered.size as usize - ANSWER_SIZE;
        if body_size > 0 {
            into.resize(body_size, 0);
            let offset = self.buffers.request(answered.buffer).local.offset + ANSWER_SIZE as u64;
            let memory = self.endpoint.port().device().memory(self.buffers.region);
            memory.read(offset, into);
        }
        self.repost(answered.buffer)?;
        Ok(answered.outcome)
    }

    /// Copies short bytes to memory from which they may be sent without a wait.
    pub fn keep(&self, bytes: &[u8]) -> LocalSpan {
        assert!(bytes.len() as u64 <= TOLD_SIZE, "the bytes are short");
        let (region, count) = &self.told;
        let turn = *count.borrow() % u64::from(SENDS);
        *count.borrow_mut() += 1;
        let offset = turn * TOLD_SIZE;
        let memory = self.endpoint.port().device().memory(*region);
        memory.write(offset, bytes);
        LocalSpan {
            region: *region,
            offset,
            size: bytes.len() as u32,
        }
    }

    /// Sends a message that has no answer.
    pub fn tell(&self, kind: Kind, key: u64, body: &[u8]) -> Result<(), PublishedError> {
        let local = self.keep(&Request { kind, id: 0, key }.encode(body));
        let port = self.endpoint.port();
        Ok(port.post(self.endpoint.qp(), [Operation::Send { local }])?)
    }

    async fn send(
        &self,
        kind: Kind,
        key: u64,
        body: &[u8],
    ) -> Result<RequestHandle, PublishedError> {
        let size = (super::message::REQUEST_SIZE + body.len()).next_multiple_of(64) as u64;
        let (handle, offset) = poll_fn(|context| {
            if *self.gone.borrow() {
                return Poll::Ready(Err(gone()));
            }
            let requests = &mut *self.requests.borrow_mut();
            match requests.begin(size) {
                Some(begun) => Poll::Ready(Ok(begun)),
                None => {
                    requests.wait_for_room(context.waker());
                    Poll::Pending
                }
            }
        })
        .await?;
        let request = Request {
            kind,
            id: handle.id().0,
            key,
        };
        let bytes = request.encode(body);
        let port = self.endpoint.port();
        port.device().memory(self.ring).write(offset, &bytes);
        let local = LocalSpan {
            region: self.ring,
            offset,
            size: bytes.len() as u32,
        };
        port.post(self.endpoint.qp(), [Operation::Send { local }])?;
        Ok(handle)
    }

    fn repost(&self, buffer: u64) -> Result<(), PublishedError> {
        let used = &mut *self.used.borrow_mut();
        used.push(buffer);
        if used.len() == REPOSTED {
            let requests: Vec<_> = used
                .drain(..)
                .map(|buffer| self.buffers.request(buffer))
                .collect();
            let queue = ReceiveQueue::Own(self.endpoint.qp());
            let device = self.endpoint.port().device();
            device.post_receive(queue, &requests)?;
        }
        Ok(())
    }
}

/// Connects `endpoint` to the thread at `address`, and returns the data of that thread.
pub(crate) async fn connect(
    endpoint: &Endpoint,
    address: &str,
    hello: &[u8],
) -> Result<Vec<u8>, PublishedError> {
    let said = match endpoint.connect(address, &GREETING.say(hello)).await {
        Ok(said) => said,
        Err(ConnectError::Device(error)) => return Err(error.into()),
        Err(other) => return Err(PublishedError::Connection(other.to_string())),
    };
    let heard = GREETING.hear(Side::Server, &said);
    Ok(heard
        .map_err(|mismatch| PublishedError::Connection(mismatch.to_string()))?
        .to_vec())
}

fn gone() -> PublishedError {
    PublishedError::Connection("the server is gone".to_owned())
}
