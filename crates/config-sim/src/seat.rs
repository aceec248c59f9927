//! One process of a service: it accepts connections, and answers one request on each.

use std::cell::Cell;
use std::rc::Rc;

use stonecast_base::Nanoseconds;
use stonecast_fabric::{
    ConnectionEvent, ConnectionRequest, DeviceError, Inbox, LocalSpan, MemoryRegion, Operation,
    Port, QueuePair, ReceiveQueue, Received, Runtime, Selected, Status, select,
};
use stonecast_fabric_sim::{Fault, Process};
use stonecast_session::{Queues, ReceiveBuffers, accept, close};

use crate::council::Council;
use crate::wire::{Answer, MESSAGE_SIZE_MAX, Request};

/// One message each way.
pub(crate) const QUEUES: Queues = Queues {
    send_capacity: 1,
    receive_capacity: 1,
    shared_receive_queue: None,
    windows: false,
    rnr_retry_count: 7,
    rnr_retry_delay_ns: 10_000,
};

/// Completions of a seat: the number of simultaneous connections.
const CONNECTIONS_MAX: u32 = 1024;

/// One process of a service.
pub(crate) struct Seat {
    number: usize,
    council: Rc<Council>,
    process: Process,
    port: Rc<Port>,
    runtime: Rc<dyn Runtime>,
    round_ns: Nanoseconds,
}

/// A caller's connection, on the side of the seat.
struct Conversation {
    inbox: Inbox,
    qp: QueuePair,
    /// Memory of the request, and behind it of the answer.
    region: MemoryRegion,
    /// Whether the caller is gone.
    ended: Cell<bool>,
}

impl Seat {
    /// Starts seat `number`, which listens at `address` in a process of its own. A round between the seats takes
    /// `round_ns`.
    pub fn start(
        number: usize,
        address: &str,
        process: Process,
        council: Rc<Council>,
        round_ns: Nanoseconds,
    ) -> Result<(), DeviceError> {
        let port = process.port(CONNECTIONS_MAX)?;
        port.device().listen(address)?;
        let runtime = process.runtime();
        let seat = Rc::new(Self {
            number,
            council,
            process,
            port,
            runtime: runtime.clone(),
            round_ns,
        });
        runtime.spawn(Box::pin(seat.run()));
        Ok(())
    }

    async fn run(self: Rc<Self>) {
        loop {
            match self.port.take_event() {
                Some(ConnectionEvent::Request { request, .. }) => {
                    // A refused caller has received the reason.
                    if let Ok(conversation) = self.accept(request) {
                        let task = self.clone().converse(conversation);
                        self.runtime.spawn(Box::pin(task));
                    }
                }
                Some(_) => {}
                None => self.port.activity().await,
            }
        }
    }

    fn accept(&self, request: ConnectionRequest) -> Result<Conversation, DeviceError> {
        let inbox = Inbox::new(&self.port);
        let (qp, region) = accept(&self.port, request, |making| {
            let qp = making.queue_pair(QUEUES)?;
            inbox.claim(qp);
            let region = making.allocate(2 * u64::from(MESSAGE_SIZE_MAX))?;
            let buffers = ReceiveBuffers::new(region, MESSAGE_SIZE_MAX);
            buffers.post_all(&**self.port.device(), ReceiveQueue::Own(qp), 1)?;
            Ok((Vec::new(), region))
        })?;
        let ended = Cell::new(false);
        Ok(Conversation {
            inbox,
            qp,
            region,
            ended,
        })
    }

    /// Answers one request, and waits until the caller is gone.
    async fn converse(self: Rc<Self>, conversation: Conversation) {
        if let Some(arrival) = conversation.arrival().await
            && let Some(request) = self.decode(&conversation, &arrival)
        {
            if let Some(answer) = self.answer(request, &conversation).await {
                // A lost answer is the caller's concern.
                let _ = self.say(&conversation, &answer).await;
            }
            conversation.end().await;
        }
        close(&self.port, conversation.qp, [conversation.region]);
    }

    fn decode(&self, conversation: &Conversation, arrival: &Received) -> Option<Request> {
        let mut message = Vec::new();
        let buffers = ReceiveBuffers::new(conversation.region, MESSAGE_SIZE_MAX);
        buffers.copy_out(&**self.port.device(), arrival, &mut message);
        Request::decode(&message)
    }

    /// Executes a request, if this seat leads. `None`: the caller gets no answer. A compare-and-set is decided even if
    /// its caller is gone; a watch ends with its caller.
    async fn answer(&self, request: Request, conversation: &Conversation) -> Option<Answer> {
        if !self.council.leads(self.number) {
            if self.council.leader().is_none() {
                self.process.hit(Fault::ManagerFailover);
            }
            return Some(Answer::NotLeading);
        }
        let answer = match request {
            Request::Read => Answer::Value(self.council.value()),
            Request::CompareAndSet { expected, bytes } => {
                let taken = self.council.take(expected, bytes);
                let round = self.round_ns + self.council.swap_delay();
                self.runtime.sleep(round).await;
                self.council.decide(self.number, &taken)?
            }
            Request::Changed { since } => {
                let later = self.council.later_than(self.number, since);
                match select(later, conversation.end()).await {
                    Selected::First(answer) => answer,
                    Selected::Second(()) => return None,
                }
            }
        };
        self.runtime.sleep(self.council.answer_delay()?).await;
        Some(answer)
    }

    async fn say(&self, conversation: &Conversation, answer: &Answer) -> Result<(), DeviceError> {
        let message = answer.encode();
        let local = LocalSpan {
            region: conversation.region,
            offset: MESSAGE_SIZE_MAX.into(),
            size: message.len() as u32,
        };
        let memory = self.port.device().memory(local.region);
        memory.write(local.offset, &message);
        let send = Operation::Send { local };
        self.port.submit(conversation.qp, &[send]).await?;
        Ok(())
    }
}

impl Conversation {
    /// The request; `None` if the caller is gone.
    async fn arrival(&self) -> Option<Received> {
        loop {
            if let Some(arrival) = self.inbox.take_received() {
                return Some(arrival).filter(|arrival| arrival.status == Status::Success);
            }
            if let Some(ConnectionEvent::Disconnected { .. }) = self.inbox.take_event() {
                return None;
            }
            self.inbox.activity().await;
        }
    }

    /// Waits until the caller is gone.
    async fn end(&self) {
        while !self.ended.get() {
            match self.inbox.take_event() {
                Some(ConnectionEvent::Disconnected { .. }) => self.ended.set(true),
                Some(_) => {}
                None => self.inbox.activity().await,
            }
            // A caller sends one request.
            self.inbox.take_received();
        }
    }
}
