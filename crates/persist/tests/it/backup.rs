//! A primary and a backup on two ports: entries with known bytes and places, a receiver that finds them by reading its
//! memory, and answers between other messages.

use std::cell::Cell;
use std::future::{Future as _, poll_fn};
use std::rc::Rc;
use std::task::Poll;

use stonecast_base::{Nanoseconds, Span};
use stonecast_fabric::append::{AppendOptions, AppendQueue, AppendTerms};
use stonecast_fabric::{
    Access, ConnectionEvent, LocalSpan, MemoryRegion, Port, QueuePair, ReceiveQueue, RemoteAddress,
    Runtime,
};
use stonecast_media::{PersistentRegion, Region};
use stonecast_persist::execute::{
    AppendFailure, AppendReceiver, AppendRehearsal, Appender, NotAppended, Route, WrongAnswer,
};
use stonecast_session::{AnswerRing, Endpoint, Queues, ReceiveBuffers, accept};

/// Completions that a port of either side holds.
pub const COMPLETIONS: u32 = 256;
/// Bytes of the buffer for entries, from the start of the region.
const BUFFER: u32 = 1 << 14;
const MESSAGE_MAX: u32 = 256;
const OPTIONS: AppendOptions = AppendOptions {
    buffers: 1,
    buffer_size_max: BUFFER,
    grain: 64,
    message_size_max: MESSAGE_MAX,
};
/// Pause of a receiver between two polls.
const PAUSE_NS: Nanoseconds = 700;
/// Polls without a result after which a receiver gives up.
const LOOKS_MAX: u32 = 4_000;
const ANSWERS: u32 = 32;
const ANSWER_SIZE: u32 = 8;

/// Bytes of entry `number`, of one line, two lines, or two messages.
pub fn entry(number: u64) -> Vec<u8> {
    let words = [8, 16, 40][number as usize % 3];
    (0..words)
        .flat_map(|word: u64| (number << 32 | word << 8 | 0xa5).to_le_bytes())
        .collect()
}

/// The place of entry `number` if a single primary appends: this function repeats the device's choice.
pub fn place(terms: AppendTerms, number: u64) -> Span {
    let grains = |number: u64| {
        let size = entry(number).len() as u32;
        let (wholes, rest) = (size / MESSAGE_MAX, size % MESSAGE_MAX);
        let of_rest = if rest > 0 { terms.cost(rest) } else { 0 };
        u64::from(wholes) * terms.cost(MESSAGE_MAX) + of_rest
    };
    let before: u64 = (1..number).map(grains).sum();
    let grain = u64::from(terms.grain);
    Span::new(before * grain, entry(number).len() as u64)
}

/// Whether entry `number` lies whole in `region`. Its messages follow each other.
pub fn is_whole(region: &dyn Region, terms: AppendTerms, number: u64) -> bool {
    let place = place(terms, number);
    let grain = u64::from(terms.grain);
    let mut at = place.offset;
    entry(number).chunks(MESSAGE_MAX as usize).all(|message| {
        let mut found = vec![0; message.len()];
        region.read(at, &mut found);
        at += (message.len() as u64).next_multiple_of(grain);
        found == message
    })
}

/// The terms that a backup grants to its primary.
#[derive(Clone, Copy, Debug)]
pub struct Lent {
    pub terms: AppendTerms,
    pub flush: RemoteAddress,
}

/// The backup.
pub struct Backup {
    port: Rc<Port>,
    runtime: Rc<dyn Runtime>,
    region: Rc<dyn PersistentRegion>,
    queue: AppendQueue,
    lent: Lent,
    receiver: AppendReceiver,
    /// Number of entries that the primary has sent, for a receiver that does not poll.
    pub sent: Option<Rc<Cell<u64>>>,
}

impl Backup {
    /// Entries land in `region`; `receiver` is made for it.
    pub fn new(
        port: &Rc<Port>,
        runtime: Rc<dyn Runtime>,
        region: Rc<dyn PersistentRegion>,
        receiver: AppendReceiver,
    ) -> Self {
        let device = port.device();
        let registered = device
            .register_persistent(region.clone(), Access::REMOTE_READ)
            .unwrap();
        let mut queue = AppendQueue::new(device.clone(), OPTIONS).unwrap();
        let buffer = LocalSpan {
            region: registered,
            offset: 0,
            size: BUFFER,
        };
        queue.post(1, buffer).unwrap();
        let lent = Lent {
            terms: queue.terms(),
            flush: RemoteAddress {
                address: registered.address + u64::from(BUFFER),
                rkey: registered.rkey,
            },
        };
        Self {
            port: port.clone(),
            runtime,
            region,
            queue,
            lent,
            receiver,
            sent: None,
        }
    }

    /// The facts that its primary must know.
    pub fn lent(&self) -> Lent {
        self.lent
    }

    /// Accepts one primary, sends `welcome`, and serves `count` entries.
    pub async fn serve(mut self, welcome: Vec<u8>, count: u64) {
        let Some(ConnectionEvent::Request { request, .. }) = self.event().await else {
            panic!("a primary connects first");
        };
        let shared_receive_queue = Some(self.queue.shared_queue());
        let (qp, mut answers) = accept(&self.port, request, |making| {
            making.queue_pair(Queues {
                shared_receive_queue,
                ..QUEUES
            })?;
            let region = making.allocate(AnswerRing::size(64, 0, ANSWER_SIZE.into()))?;
            let answers = AnswerRing::new(region, 64, 0, ANSWER_SIZE.into());
            Ok((welcome, answers))
        })
        .unwrap();
        self.queue.grant(qp, 0);
        let Some(ConnectionEvent::Established { .. }) = self.event().await else {
            panic!("the primary stays");
        };
        let mut next = 1;
        for _ in 0..LOOKS_MAX {
            while let Some(arrival) = self.port.take_received() {
                self.queue.note_arrival(&arrival);
            }
            if self.receiver.answers() {
                next = self.look(qp, next, count);
                self.receiver.persist().await.unwrap();
                for (sender, number) in self.receiver.take_answers() {
                    answers.send(&self.port, sender, &number.to_le_bytes());
                }
            }
            if next > count {
                return std::future::pending().await;
            }
            self.runtime.sleep(PAUSE_NS).await;
        }
    }

    /// Hands all entries that have arrived to the receiver, and returns the number of the next.
    fn look(&mut self, qp: QueuePair, mut next: u64, count: u64) -> u64 {
        let has_arrived = |next| match &self.sent {
            None => is_whole(&*self.region, self.lent.terms, next),
            Some(sent) => next <= sent.get(),
        };
        while next <= count && has_arrived(next) {
            let place = place(self.lent.terms, next);
            self.receiver.arrived(qp, next, &[place]).unwrap();
            next += 1;
        }
        next
    }

    async fn event(&self) -> Option<ConnectionEvent> {
        self.port.activity().await;
        self.port.take_event()
    }
}

const QUEUES: Queues = Queues {
    send_capacity: 64,
    receive_capacity: ANSWERS,
    shared_receive_queue: None,
    windows: false,
    rnr_retry_count: 0,
    rnr_retry_delay_ns: 0,
};

/// The operations of an appender that a story needs, planned or rehearsing.
pub trait Appends {
    /// The value that it yields.
    type Given;
    fn append(&mut self, entry: LocalSpan) -> Result<u64, NotAppended>;
    fn answered(&mut self, number: u64) -> Result<(), WrongAnswer>;
    fn fail(&mut self, cause: &str);
    fn poll_next(
        &mut self,
        context: &mut std::task::Context<'_>,
    ) -> Poll<Result<(u64, Self::Given), AppendFailure>>;
}

macro_rules! appends {
    ($type:ty, $given:ty, $poll:ident) => {
        impl Appends for $type {
            type Given = $given;

            fn append(&mut self, entry: LocalSpan) -> Result<u64, NotAppended> {
                Self::append(self, entry)
            }

            fn answered(&mut self, number: u64) -> Result<(), WrongAnswer> {
                Self::answered(self, number)
            }

            fn fail(&mut self, cause: &str) {
                Self::fail(self, cause);
            }

            fn poll_next(
                &mut self,
                context: &mut std::task::Context<'_>,
            ) -> Poll<Result<(u64, $given), AppendFailure>> {
                self.$poll(context)
            }
        }
    };
}

appends!(Appender, stonecast_persist::Persisted, poll_persisted);
appends!(
    AppendRehearsal,
    stonecast_persist::execute::Concluded,
    poll_concluded
);

/// The primary's end of the connection, with memory for its entries.
pub struct Primary {
    endpoint: Endpoint,
    buffers: ReceiveBuffers,
    entries: MemoryRegion,
    appended: u64,
}

impl Primary {
    pub fn new(port: &Rc<Port>) -> Self {
        let endpoint = Endpoint::new(port, QUEUES).unwrap();
        let answers = endpoint.allocate(u64::from(ANSWERS * ANSWER_SIZE)).unwrap();
        let buffers = ReceiveBuffers::new(answers, ANSWER_SIZE);
        let queue = ReceiveQueue::Own(endpoint.qp());
        buffers.post_all(&**port.device(), queue, ANSWERS).unwrap();
        let entries = endpoint.allocate(u64::from(BUFFER) + 64).unwrap();
        Self {
            endpoint,
            buffers,
            entries,
            appended: 0,
        }
    }

    /// Connects, and returns the data of the backup.
    pub async fn connect(&self, address: &str) -> Vec<u8> {
        self.endpoint.connect(address, b"").await.unwrap()
    }

    pub fn port(&self) -> &Rc<Port> {
        self.endpoint.port()
    }

    pub fn qp(&self) -> QueuePair {
        self.endpoint.qp()
    }

    /// Memory for the results of READs.
    pub fn scratch(&self) -> LocalSpan {
        LocalSpan {
            region: self.entries,
            offset: u64::from(BUFFER),
            size: 8,
        }
    }

    pub fn route(&self, lent: Lent) -> Route {
        Route {
            port: self.endpoint.port().clone(),
            qp: self.qp(),
            scratch: self.scratch(),
            flush: lent.flush,
        }
    }

    /// Appends the next entry.
    pub fn append(&mut self, appender: &mut impl Appends) -> Result<u64, NotAppended> {
        let number = self.appended + 1;
        let bytes = entry(number);
        let packed = AppendTerms {
            grain: 64,
            message_size_max: MESSAGE_MAX,
        };
        let offset = place(packed, number).offset;
        let memory = self.endpoint.port().device().memory(self.entries);
        memory.write(offset, &bytes);
        let appended = appender.append(LocalSpan {
            region: self.entries,
            offset,
            size: bytes.len() as u32,
        })?;
        self.appended = number;
        Ok(appended)
    }

    /// The next concluded entry. Meanwhile, hands answers and the end of the connection to the appender.
    pub async fn next<A: Appends>(
        &self,
        appender: &mut A,
    ) -> Result<(u64, A::Given), AppendFailure> {
        let mut activity = Box::pin(self.endpoint.inbox().activity());
        poll_fn(|context| {
            loop {
                self.take_answers(appender);
                if let Poll::Ready(next) = appender.poll_next(context) {
                    return Poll::Ready(next);
                }
                if activity.as_mut().poll(context).is_pending() {
                    return Poll::Pending;
                }
                activity = Box::pin(self.endpoint.inbox().activity());
            }
        })
        .await
    }

    fn take_answers(&self, appender: &mut impl Appends) {
        let (inbox, device) = (self.endpoint.inbox(), self.endpoint.port().device());
        while let Some(arrival) = inbox.take_received() {
            if arrival.status != stonecast_fabric::Status::Success {
                continue;
            }
            let mut bytes = Vec::new();
            self.buffers.copy_out(&**device, &arrival, &mut bytes);
            let number = u64::from_le_bytes(bytes.try_into().unwrap());
            appender.answered(number).unwrap();
        }
        while let Some(event) = inbox.take_event() {
            if let ConnectionEvent::Disconnected { .. } = event {
                appender.fail("the connection ended");
            }
        }
    }
}
