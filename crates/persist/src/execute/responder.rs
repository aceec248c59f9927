//! The responder's half of a plan: the work of its processor for each update, if there is any.
//!
//! ```text
//!   arrival --> step receive(x) --> copy(x), write_back(x), ... --> send(ack) --> next receive, from the top
//!           \-> no step waits for it: a one-sided plan. A message is copied to its place without the requester
//!   buffer  --> posted again; a persistent one only when its message is at its place and cleared
//! ```
//!
//! Invariants:
//! - Steps of a session run in their order, one update after the other.
//! - A persistent receive buffer that is posted holds no whole message; see `replay.rs`.
//! - Bytes of a message are copied out before they are parsed, and places are checked before anything is written.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::convert::Infallible;
use std::rc::Rc;

use stonecast_base::Span;
use stonecast_fabric::{
    Access, ConnectionEvent, ConnectionRequest, MemoryRegion, Opcode, Port, QueuePair,
    ReceiveQueue, Received, RemoteAddress, SharedReceiveQueue, SharedReceiveQueueOptions, Status,
};
use stonecast_media::PersistentRegion;
use stonecast_session::{AnswerRing, Queues, ReceiveBuffers, accept, close};

use crate::execute::error::ExecuteError;
use crate::execute::halves::Halves;
use crate::execute::local;
use crate::execute::message::{self, Framed, Kind};
use crate::execute::payload::PLACE_GRAIN;
use crate::execute::replay::{Layout, clear, finish};
use crate::execute::session::{self, Peer};
use crate::platform::FlushKind;
use crate::step::{Item, Message, Step};

/// Outstanding acknowledgements of a session.
const SEND_CAPACITY: u32 = 16;
/// Bytes of an acknowledgement's buffer.
const ACKNOWLEDGEMENT_SIZE: u64 = 64;
/// Bytes of all of them.
const ACKNOWLEDGEMENTS_SIZE: u64 = AnswerRing::size(SEND_CAPACITY as u64, 0, ACKNOWLEDGEMENT_SIZE);
/// Volatile receive buffers, if the layout has no persistent ones.
const VOLATILE_BUFFERS: u32 = 64;
/// The most sessions of a responder.
const SESSIONS_MAX: u32 = 64;
/// Retries towards a requester that is slow to post buffers for acknowledgements.
const RNR_RETRY_COUNT: u32 = 1_000;
const RNR_RETRY_DELAY_NS: u64 = 10_000;

/// Completions that the port of a responder must hold.
pub const RESPONDER_COMPLETIONS: u32 = SESSIONS_MAX * SEND_CAPACITY + 4096;

/// A responder: one region, many sessions.
pub(crate) struct ResponderEnd {
    port: Rc<Port>,
    region: Rc<dyn PersistentRegion>,
    layout: Layout,
    halves: Halves,
    /// The registration of the persistent region.
    registered: MemoryRegion,
    /// The buffers in which messages arrive: in a part of that region, or in volatile memory.
    receives: ReceiveBuffers,
    srq: SharedReceiveQueue,
    sessions: RefCell<BTreeMap<QueuePair, Session>>,
    served: Cell<u64>,
}

/// One requester.
struct Session {
    /// The next step.
    next: usize,
    /// Places of the parts of the update, as far as the requester has named them.
    places: [Option<Span>; 2],
    /// The bytes of the parts, as far as the requester has sent them.
    values: [Option<Vec<u8>>; 2],
    /// Receive buffers with a whole message in persistent memory, until its update is done.
    held: Vec<u64>,
    acknowledgements: AnswerRing,
    acknowledged: u64,
}

impl ResponderEnd {
    /// Makes `region` ready for updates. `port` must belong to this responder alone.
    pub fn new(
        port: &Rc<Port>,
        region: Rc<dyn PersistentRegion>,
        layout: Layout,
        halves: Halves,
    ) -> Result<Self, ExecuteError> {
        let device = port.device();
        halves.check(device.capabilities())?;
        let fits = layout.data.fits(region.size())
            && layout
                .receive_buffers
                .is_none_or(|span| span.fits(region.size()));
        assert!(
            fits,
            "{layout:?} is not in a region of {} bytes",
            region.size()
        );
        assert!(
            layout.buffer_size.is_multiple_of(64),
            "receive buffers are whole lines"
        );
        let rights = Access::REMOTE_READ.and(Access::REMOTE_WRITE);
        let rights = if halves.flush == FlushKind::Read {
            rights
        } else {
            rights.and(Access::REMOTE_FLUSH)
        };
        let registered = device.register_persistent(region.clone(), rights)?;
        let (receives, start, count) = match layout.receive_buffers {
            Some(span) => (registered, span.offset, layout.buffers().count() as u32),
            None => (
                device.allocate(
                    u64::from(VOLATILE_BUFFERS * layout.buffer_size),
                    Access::NONE,
                )?,
                0,
                VOLATILE_BUFFERS,
            ),
        };
        let srq = device.create_shared_receive_queue(SharedReceiveQueueOptions {
            capacity: count,
            multi_packet: None,
            in_order: false,
        })?;
        let responder = Self {
            port: port.clone(),
            region,
            layout,
            halves,
            registered,
            receives: ReceiveBuffers {
                region: receives,
                start,
                size: layout.buffer_size,
            },
            srq,
            sessions: RefCell::default(),
            served: Cell::new(0),
        };
        let queue = ReceiveQueue::Shared(srq);
        responder.receives.post_all(&**device, queue, count)?;
        Ok(responder)
    }

    /// Number of messages and immediates that were taken so far.
    pub fn served(&self) -> u64 {
        self.served.get()
    }

    /// Serves until the medium or the device fails.
    pub async fn serve(&self) -> Result<Infallible, ExecuteError> {
        loop {
            while let Some(event) = self.port.take_event() {
                self.take_event(event).await?;
            }
            while let Some(arrival) = self.port.take_received() {
                self.take_arrival(arrival).await?;
            }
            self.port.activity().await;
        }
    }

    async fn take_event(&self, event: ConnectionEvent) -> Result<(), ExecuteError> {
        match event {
            ConnectionEvent::Request {
                request,
                private_data,
                ..
            } => {
                self.answer(request, &private_data);
                Ok(())
            }
            ConnectionEvent::Established { qp, .. } => self.run(qp).await,
            ConnectionEvent::Rejected { .. } => Ok(()),
            ConnectionEvent::Disconnected { qp, .. } => self.end(qp).await,
        }
    }

    /// Accepts a requester of the same plan for the same platform, or refuses the requester with a reason.
    fn answer(&self, request: ConnectionRequest, private_data: &[u8]) {
        let greeting = self.halves.greeting();
        let program = self.halves.fingerprint();
        let refusal = session::refusal(&greeting, program, private_data).or_else(|| {
            let is_full = self.sessions.borrow().len() as u32 >= SESSIONS_MAX;
            is_full
                .then(|| format!("the responder has {SESSIONS_MAX} sessions, as many as it takes"))
        });
        if let Some(reason) = refusal {
            // A requester that vanished meanwhile needs no answer.
            let _ = self.port.device().reject(request, &reason);
            return;
        }
        let accepted = accept(&self.port, request, |making| {
            making.queue_pair(Queues {
                send_capacity: SEND_CAPACITY,
                receive_capacity: 1,
                shared_receive_queue: Some(self.srq),
                windows: false,
                rnr_retry_count: RNR_RETRY_COUNT,
                rnr_retry_delay_ns: RNR_RETRY_DELAY_NS,
            })?;
            let region = making.allocate(ACKNOWLEDGEMENTS_SIZE)?;
            let session = Session {
                next: 0,
                places: [None; 2],
                values: [None, None],
                held: Vec::new(),
                acknowledgements: AnswerRing::new(
                    region,
                    SEND_CAPACITY.into(),
                    0,
                    ACKNOWLEDGEMENT_SIZE,
                ),
                acknowledged: 0,
            };
            Ok((self.as_peer().encode(&greeting), session))
        });
        // A requester that could not be accepted has been told the reason.
        if let Ok((qp, session)) = accepted {
            self.sessions.borrow_mut().insert(qp, session);
        }
    }

    /// The facts that requesters must know of the memory here.
    fn as_peer(&self) -> Peer {
        let at = |span: Span| RemoteAddress {
            address: self.registered.address + span.offset,
            rkey: self.registered.rkey,
        };
        let buffers = self.layout.receive_buffers;
        Peer {
            data: at(self.layout.data),
            data_size: self.layout.data.size,
            message_size_max: self.layout.buffer_size,
            receive_buffers: buffers.map(|span| (at(span), span.size)),
        }
    }

    /// Forgets a session. An update that it began and did not acknowledge stays undone.
    async fn end(&self, qp: QueuePair) -> Result<(), ExecuteError> {
        let Some(session) = self.sessions.borrow_mut().remove(&qp) else {
            return Ok(());
        };
        close(&self.port, qp, [session.acknowledgements.region()]);
        for buffer in session.held {
            self.give_back(buffer).await?;
        }
        Ok(())
    }

    async fn take_arrival(&self, arrival: Received) -> Result<(), ExecuteError> {
        // Buffers of a shared queue outlive the connections that use them, even a buffer whose message died half-way
        // and may have left parts there.
        if arrival.status == Status::WorkRequestFlushed && self.layout.receive_buffers.is_some() {
            return self.give_back(arrival.wr_id).await;
        }
        if arrival.status != Status::Success || !self.sessions.borrow().contains_key(&arrival.qp) {
            return self.post(arrival.wr_id);
        }
        self.served.set(self.served.get() + 1);
        if arrival.opcode == Opcode::ReceiveWriteWithImmediate {
            self.post(arrival.wr_id)?;
            let place = Span::new(
                u64::from(arrival.immediate) * PLACE_GRAIN,
                arrival.placement.size.into(),
            );
            return self.received(arrival.qp, &[place], &[]).await;
        }
        let mut bytes = Vec::new();
        let device = self.port.device();
        self.receives.copy_out(&**device, &arrival, &mut bytes);
        let Some(message) = message::parse(&bytes).filter(|message| self.is_sound(message)) else {
            self.post(arrival.wr_id)?;
            return self.end(arrival.qp).await;
        };
        let holds = self.layout.receive_buffers.is_some() && message.kind == Kind::Values;
        if !holds {
            self.post(arrival.wr_id)?;
        }
        if self.waits(arrival.qp) {
            if holds {
                self.with(arrival.qp, |session| session.held.push(arrival.wr_id));
            }
            let values: Vec<Vec<u8>> = message
                .values
                .iter()
                .map(|value| bytes[value.clone()].to_vec())
                .collect();
            return self.received(arrival.qp, &message.places, &values).await;
        }
        if message.kind == Kind::Values && self.halves.responder.is_empty() {
            finish(&*self.region, &self.layout, &bytes, &message).await?;
        }
        if holds {
            self.give_back(arrival.wr_id).await?;
        }
        if !self.halves.responder.is_empty() && !self.halves.responder_waits() {
            self.with(arrival.qp, |session| session.next = 0);
            return self.run(arrival.qp).await;
        }
        Ok(())
    }

    fn is_sound(&self, message: &Framed) -> bool {
        message.kind != Kind::Acknowledgement
            && message
                .places
                .iter()
                .all(|place| place.fits(self.layout.data.size))
    }

    /// Whether a step of the session waits for an arrival.
    fn waits(&self, qp: QueuePair) -> bool {
        let next = self.with(qp, |session| session.next);
        next.is_some_and(|next| matches!(self.halves.responder.get(next), Some(Step::Receive(_))))
    }

    /// Takes the arrival for which a step waited.
    async fn received(
        &self,
        qp: QueuePair,
        places: &[Span],
        values: &[Vec<u8>],
    ) -> Result<(), ExecuteError> {
        let Some(next) = self.with(qp, |session| session.next) else {
            return Ok(());
        };
        let Some(Step::Receive(content)) = self.halves.responder.get(next) else {
            return Ok(());
        };
        let items: &[Item] = match content {
            Message::Value(Item::A) | Message::Address(Item::A) => &[Item::A],
            Message::Value(Item::B) | Message::Address(Item::B) => &[Item::B],
            Message::Both => &[Item::A, Item::B],
        };
        let sound = places.len() == items.len()
            && places.iter().all(|place| place.fits(self.layout.data.size));
        if !sound {
            return self.end(qp).await;
        }
        self.with(qp, |session| {
            for (index, item) in items.iter().enumerate() {
                session.places[*item as usize] = Some(places[index]);
                session.values[*item as usize] = values.get(index).cloned();
            }
            session.next += 1;
        });
        self.run(qp).await
    }

    /// Runs steps until one waits for an arrival.
    async fn run(&self, qp: QueuePair) -> Result<(), ExecuteError> {
        loop {
            let Some(next) = self.with(qp, |session| session.next) else {
                return Ok(());
            };
            match self.halves.responder.get(next) {
                Some(Step::Receive(_)) => return Ok(()),
                Some(Step::Copy(item)) => self.copy(qp, *item).await?,
                Some(Step::WriteBack(item)) => self.write_back(qp, *item).await?,
                Some(Step::SendAck) => self.acknowledge(qp).await?,
                Some(_) => unreachable!("the step belongs to the requester"),
                None => {
                    let held = self
                        .with(qp, |session| std::mem::take(&mut session.held))
                        .unwrap_or_default();
                    for buffer in held {
                        self.put_away(buffer).await?;
                    }
                    // A program without waits runs when the session begins and again with each arrival, whose content
                    // it ignores.
                    if !self.halves.responder_waits() {
                        return Ok(());
                    }
                    self.with(qp, |session| session.next = 0);
                    continue;
                }
            }
            self.with(qp, |session| session.next += 1);
        }
    }

    async fn copy(&self, qp: QueuePair, item: Item) -> Result<(), ExecuteError> {
        let what = self.with(qp, |session| {
            (
                session.places[item as usize],
                session.values[item as usize].take(),
            )
        });
        let Some((Some(place), Some(value))) = what else {
            return Ok(());
        };
        let target = Span::new(self.layout.data.offset + place.offset, place.size);
        self.region.write(target.offset, &value);
        Ok(local::end(Step::Copy(item), &*self.region, &[target]).await?)
    }

    async fn write_back(&self, qp: QueuePair, item: Item) -> Result<(), ExecuteError> {
        let place = self.with(qp, |session| session.places[item as usize]);
        let Some(Some(place)) = place else {
            return Ok(());
        };
        let target = Span::new(self.layout.data.offset + place.offset, place.size);
        Ok(local::end(Step::WriteBack(item), &*self.region, &[target]).await?)
    }

    async fn acknowledge(&self, qp: QueuePair) -> Result<(), ExecuteError> {
        let is_stuck = self.with(qp, |session| {
            session.acknowledged += 1;
            let number = session.acknowledged;
            let bytes = message::without_values(Kind::Acknowledgement, number, &[]);
            session.acknowledgements.send(&self.port, qp, &bytes);
            session.acknowledgements.is_stuck()
        });
        match is_stuck {
            // The requester does not take its answers.
            Some(true) => self.end(qp).await,
            _ => Ok(()),
        }
    }

    /// Posts a persistent buffer again after its update was answered. If the receipt alone makes the update durable,
    /// the requester relies on the message itself, which is copied to its place first.
    async fn put_away(&self, buffer: u64) -> Result<(), ExecuteError> {
        if self
            .halves
            .responder
            .iter()
            .all(|step| matches!(step, Step::Receive(_) | Step::SendAck))
        {
            let span = self.buffer(buffer);
            let mut bytes = vec![0; span.size as usize];
            self.region.read(span.offset, &mut bytes);
            if let Some(message) = message::parse(&bytes).filter(|message| self.is_sound(message)) {
                finish(&*self.region, &self.layout, &bytes, &message).await?;
            }
        }
        self.give_back(buffer).await
    }

    /// Clears a persistent buffer, so that no recovery mistakes its content for a message, and posts it again.
    async fn give_back(&self, buffer: u64) -> Result<(), ExecuteError> {
        clear(&*self.region, self.buffer(buffer)).await?;
        self.post(buffer)
    }

    fn post(&self, buffer: u64) -> Result<(), ExecuteError> {
        let (device, queue) = (self.port.device(), ReceiveQueue::Shared(self.srq));
        Ok(self.receives.post(&**device, queue, buffer)?)
    }

    fn buffer(&self, number: u64) -> Span {
        let local = self.receives.request(number).local;
        Span::new(local.offset, local.size.into())
    }

    fn with<T>(&self, qp: QueuePair, look: impl FnOnce(&mut Session) -> T) -> Option<T> {
        self.sessions.borrow_mut().get_mut(&qp).map(look)
    }
}
