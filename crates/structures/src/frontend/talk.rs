//! Requests to the back-end, and its answers, which come in the order of the requests.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Poll, Waker};

use stonecast_fabric::{
    ConnectionEvent, DeviceError, LocalSpan, MemoryRegion, Operation as Verbs, Port, ReceiveQueue,
    Status,
};
use stonecast_session::{Endpoint, Listener, Queues, ReceiveBuffers, Side};

use super::error::FrontEndError;
use crate::wire::{Answer, GREETING, MESSAGE_SIZE_MAX, REQUEST_SIZE_MAX, REQUESTS_MAX, Request};

/// An answer that may not have come.
#[derive(Default)]
pub(crate) struct Reply(RefCell<Option<Answer>>);

impl Reply {
    /// Takes the answer, once.
    pub fn take(&self) -> Option<Answer> {
        self.0.borrow_mut().take()
    }
}

/// The messages of a connection.
pub(crate) struct Talk {
    pub endpoint: Endpoint,
    receives: ReceiveBuffers,
    /// The slots that requests are sent from, used in turn. A slot is used again only after the answer to its last
    /// request.
    sent_from: MemoryRegion,
    sent: Cell<u64>,
    /// Requests without an answer, oldest first.
    waiting: RefCell<VecDeque<Rc<Reply>>>,
    /// Tasks that wait for answers, which another task may take.
    asking: RefCell<Vec<Waker>>,
    /// The reason why no further answer comes.
    end: RefCell<Option<Silence>>,
}

/// The reason why no further answer comes from the back-end.
#[derive(Clone, Copy)]
enum Silence {
    Gone,
    Protocol,
}

impl Silence {
    fn error(self) -> FrontEndError {
        match self {
            Self::Gone => FrontEndError::Gone,
            Self::Protocol => FrontEndError::Protocol,
        }
    }
}

impl Talk {
    /// The queues of an endpoint that talks to a server of structures, with room for `send_capacity` work requests.
    pub fn queues(send_capacity: u32) -> Queues {
        Queues {
            send_capacity,
            receive_capacity: REQUESTS_MAX as u32,
            shared_receive_queue: None,
            windows: false,
            rnr_retry_count: 1000,
            rnr_retry_delay_ns: 100_000,
        }
    }

    /// Connects `endpoint` to the server of structures at `address`.
    pub async fn connect(endpoint: Endpoint, address: &str) -> Result<Self, FrontEndError> {
        let talk = Self::new(endpoint)?;
        let said = talk.endpoint.connect(address, &GREETING.say(b"")).await?;
        GREETING.hear(Side::Server, &said)?;
        Ok(talk)
    }

    fn new(endpoint: Endpoint) -> Result<Self, DeviceError> {
        let region = endpoint.allocate(REQUESTS_MAX * MESSAGE_SIZE_MAX)?;
        let receives = ReceiveBuffers::new(region, MESSAGE_SIZE_MAX as u32);
        let queue = ReceiveQueue::Own(endpoint.qp());
        receives.post_all(&**endpoint.port().device(), queue, REQUESTS_MAX as u32)?;
        let sent_from = endpoint.allocate(REQUESTS_MAX * u64::from(REQUEST_SIZE_MAX))?;
        Ok(Self {
            endpoint,
            receives,
            sent_from,
            sent: Cell::default(),
            waiting: RefCell::default(),
            asking: RefCell::default(),
            end: RefCell::default(),
        })
    }

    pub fn port(&self) -> &Rc<Port> {
        self.endpoint.port()
    }

    /// A request that the caller sends. `None`: every slot has a request without an answer.
    pub fn begin(&self, request: Request) -> Option<(LocalSpan, Rc<Reply>)> {
        if self.waiting.borrow().len() as u64 == REQUESTS_MAX {
            return None;
        }
        let slot = self.sent.get() % REQUESTS_MAX;
        self.sent.set(self.sent.get() + 1);
        let bytes = request.encode();
        let local = LocalSpan {
            region: self.sent_from,
            offset: slot * u64::from(REQUEST_SIZE_MAX),
            size: bytes.len() as u32,
        };
        self.port()
            .device()
            .memory(self.sent_from)
            .write(local.offset, &bytes);
        let reply = Rc::<Reply>::default();
        self.waiting.borrow_mut().push_back(reply.clone());
        Some((local, reply))
    }

    /// Takes back the latest request, which could not be sent.
    pub fn cancel(&self) {
        self.sent.set(self.sent.get() - 1);
        self.waiting.borrow_mut().pop_back();
    }

    /// Sends a request. `None`: the queue has no room at this moment.
    pub fn send(&self, request: Request) -> Result<Option<Rc<Reply>>, FrontEndError> {
        let Some((local, reply)) = self.begin(request) else {
            return Ok(None);
        };
        match self
            .port()
            .post(self.endpoint.qp(), [Verbs::Send { local }])
        {
            Ok(()) => Ok(Some(reply)),
            Err(DeviceError::QueueFull { .. }) => {
                self.cancel();
                Ok(None)
            }
            Err(error) => {
                self.cancel();
                Err(error.into())
            }
        }
    }

    /// Asks, and waits for the answer.
    pub async fn ask(&self, request: Request) -> Result<Answer, FrontEndError> {
        let mut asked: Option<Rc<Reply>> = None;
        let mut listener = Listener::new(self.endpoint.inbox());
        poll_fn(|context| {
            self.forget(context.waker());
            loop {
                self.hear()?;
                if let Some(answer) = asked.as_ref().and_then(|reply| reply.take()) {
                    return Poll::Ready(Ok(answer));
                }
                self.check()?;
                if asked.is_none() {
                    asked = self.send(request)?;
                }
                if listener.poll_activity(context).is_pending() {
                    // Another task may take the answer.
                    self.asking.borrow_mut().push(context.waker().clone());
                    return Poll::Pending;
                }
            }
        })
        .await
    }

    fn forget(&self, waker: &Waker) {
        let mut asking = self.asking.borrow_mut();
        asking.retain(|known| !known.will_wake(waker));
    }

    /// Hands answers that have come to their requests.
    pub fn hear(&self) -> Result<(), FrontEndError> {
        if self.end.borrow().is_some() {
            return Ok(());
        }
        let inbox = self.endpoint.inbox();
        let has_any = inbox.has_activity();
        let mut silence = None;
        while let Some(received) = inbox.take_received() {
            if received.status != Status::Success {
                silence = Some(Silence::Gone);
                break;
            }
            let queue = ReceiveQueue::Own(self.endpoint.qp());
            let message = self
                .receives
                .take(&**self.port().device(), queue, &received)?;
            let answer = Answer::parse(&message);
            let reply = self.waiting.borrow_mut().pop_front();
            let (Some(answer), Some(reply)) = (answer, reply) else {
                silence = Some(Silence::Protocol);
                break;
            };
            *reply.0.borrow_mut() = Some(answer);
        }
        while let Some(event) = inbox.take_event() {
            if matches!(event, ConnectionEvent::Disconnected { .. }) {
                silence.get_or_insert(Silence::Gone);
            }
        }
        *self.end.borrow_mut() = silence;
        if has_any {
            self.asking.take().into_iter().for_each(Waker::wake);
        }
        Ok(())
    }

    /// Whether the connection lasts. Answers that came before its end were handed out.
    pub fn check(&self) -> Result<(), FrontEndError> {
        let end = *self.end.borrow();
        end.map_or(Ok(()), |silence| Err(silence.error()))
    }
}
