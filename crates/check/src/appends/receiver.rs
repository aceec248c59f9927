//! A receiver: takes sessions, finds entries by reading its memory, makes the entries durable if the plan demands that
//! of the responder, and ends sessions permanently.
//!
//! ```text
//!   connections ─▶ peers        look ─▶ arrived ─▶ persist ─▶ a message to each peer that has news:
//!   ends ─▶ quiesce, forget                                   entries that are durable, credits
//! ```

use std::collections::BTreeMap;
use std::rc::Rc;

use stonecast_base::Nanoseconds;
use stonecast_fabric::append::AppendQueue;
use stonecast_fabric::{
    Access, ConnectionEvent, ConnectionRequest, LocalSpan, MemoryRegion, Port, QueuePair,
    RemoteAddress,
};
use stonecast_media::Durability;
use stonecast_persist::execute::{AppendReceiver, Receiving};
use stonecast_session::{AnswerRing, Queues, accept, close};

use crate::appends::entries::{
    BUFFER_SIZE, BUFFERS, ENTRY_SIZE_MAX, FLUSH, Memory, OPTIONS, SessionId,
};
use crate::appends::setup::Done;
use crate::appends::subject::{Appends, MISTAKE, address};
use crate::subject::Seat;

/// Capacity of a port's completion queue: every slot of all buffers, and more.
const COMPLETIONS: u32 = 1024;
/// Buffers that a receiver posts at first: room for the credits of all peers, and for senders that do not use their
/// credits.
const POSTED_AT_FIRST: u64 = 5;
/// The most credits of a peer, if a buffer has room for so many.
const CREDITS_MAX: u64 = 12;
/// The shortest and the longest pause between two looks.
const PAUSE_NS: Nanoseconds = 2_000;
const PAUSE_NS_MAX: Nanoseconds = 1_000_000;
/// Bytes of a message to a sender.
pub(super) const NEWS_SIZE: u32 = 16;
/// Messages for which a sender has receive buffers.
pub(super) const NEWS: u32 = 32;

/// The queue pairs of both sides.
pub(super) const QUEUES: Queues = Queues {
    send_capacity: 64,
    receive_capacity: NEWS,
    shared_receive_queue: None,
    windows: false,
    rnr_retry_count: 7,
    rnr_retry_delay_ns: 20_000,
};

/// The message of a receiver to a sender.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct News {
    /// All entries up to this number are durable.
    pub durable: u64,
    /// Credits granted since the connection began.
    pub granted: u64,
}

impl News {
    fn encode(self) -> [u8; NEWS_SIZE as usize] {
        let mut bytes = [0; NEWS_SIZE as usize];
        bytes[..8].copy_from_slice(&self.durable.to_le_bytes());
        bytes[8..].copy_from_slice(&self.granted.to_le_bytes());
        bytes
    }

    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let word = |at: usize| Some(u64::from_le_bytes(*bytes.get(at..)?.first_chunk()?));
        Some(Self {
            durable: word(0)?,
            granted: word(8)?,
        })
    }
}

/// The receiver's end of one connection.
struct Peer {
    session: SessionId,
    answers: AnswerRing,
    is_established: bool,
    /// Number of the next entry to find.
    next: u32,
    /// Credits that the found entries have cost.
    taken: u64,
    news: News,
    told: News,
}

/// One life of a receiver.
struct Receiver {
    appends: Rc<Appends>,
    seat: Seat,
    port: Rc<Port>,
    memory: Memory,
    registered: MemoryRegion,
    queue: AppendQueue,
    durable: AppendReceiver,
    welcome: Vec<u8>,
    /// The most credits of a peer: no more than fit into a buffer.
    credits: u64,
    peers: BTreeMap<QueuePair, Peer>,
    /// Buffers that may still take entries.
    posted: Vec<u64>,
}

/// The life of a receiver, until it is asked to stop.
pub(super) async fn serve(appends: Rc<Appends>, seat: Seat) -> Result<(), String> {
    let mut receiver = Receiver::open(appends, seat).map_err(|error| error.to_string())?;
    let served = receiver.serve().await;
    served.map_err(|error| error.to_string())
}

type Failure = Box<dyn std::error::Error>;

impl Receiver {
    fn open(appends: Rc<Appends>, seat: Seat) -> Result<Self, Failure> {
        let platform = appends.place(seat.node).platform;
        let memory = Memory::open(&seat.backing, &platform)?;
        let port = seat.process.port(COMPLETIONS)?;
        let device = port.device();
        let registered = device.register_persistent(memory.region.clone(), Access::REMOTE_READ)?;
        let queue = AppendQueue::new(device.clone(), OPTIONS)?;
        let durable = match appends.setup.done {
            Done::Persisted => {
                AppendReceiver::new(memory.region.clone(), &platform, Durability::Power)?
            }
            Done::Completed => AppendReceiver::rehearsing(memory.region.clone(), &MISTAKE.parse()?),
        };
        let receiving = Receiving {
            platform,
            durability: Durability::Power,
            terms: queue.terms(),
            flush: RemoteAddress {
                address: registered.address + FLUSH,
                rkey: registered.rkey,
            },
        };
        let grains = u64::from(BUFFER_SIZE / receiving.terms.grain);
        let room = grains + 1 - receiving.terms.cost(ENTRY_SIZE_MAX);
        let welcome = receiving.say(memory.region.means(), device.placing())?;
        Ok(Self {
            appends,
            seat,
            port,
            memory,
            registered,
            queue,
            durable,
            welcome: welcome.to_vec(),
            credits: room.min(CREDITS_MAX),
            peers: BTreeMap::new(),
            posted: Vec::new(),
        })
    }

    async fn serve(&mut self) -> Result<(), Failure> {
        for _ in 0..POSTED_AT_FIRST {
            self.post().await?;
        }
        let node = self.seat.node;
        self.port.device().listen(&address(node))?;
        let runtime = self.seat.process.runtime();
        let mut pause = PAUSE_NS;
        while !self.seat.is_stopping() {
            let mut is_busy = self.take_events().await?;
            if let Some(sender) = self.appends.take_dismissal(node) {
                let of_sender = |(_, peer): &(&QueuePair, &Peer)| peer.session.sender == sender;
                if let Some((&qp, _)) = self.peers.iter().find(of_sender) {
                    self.end(qp).await?;
                }
            }
            is_busy |= self.look();
            self.durable.persist().await?;
            self.take_consumed().await?;
            self.tell();
            pause = match is_busy {
                true => PAUSE_NS,
                false => PAUSE_NS_MAX.min(pause * 2),
            };
            runtime.sleep(pause).await;
        }
        Ok(())
    }

    /// Posts the next fresh buffer.
    async fn post(&mut self) -> Result<(), Failure> {
        let buffer = self.memory.first_fresh();
        if buffer == BUFFERS {
            return Err("no buffer is left".into());
        }
        let _persisted = self.memory.claim(buffer).await?;
        let span = Memory::buffer(buffer);
        let local = LocalSpan {
            region: self.registered,
            offset: span.offset,
            size: span.size as u32,
        };
        self.queue.post(buffer, local)?;
        self.posted.push(buffer);
        Ok(())
    }

    /// Takes the events of connections. Returns whether there were any.
    async fn take_events(&mut self) -> Result<bool, Failure> {
        let mut any = false;
        while let Some(event) = self.port.take_event() {
            any = true;
            match event {
                ConnectionEvent::Request {
                    request,
                    private_data,
                    ..
                } => self.take_request(request, &private_data),
                ConnectionEvent::Established { qp, .. } => {
                    if let Some(peer) = self.peers.get_mut(&qp) {
                        peer.is_established = true;
                    }
                }
                ConnectionEvent::Disconnected { qp, .. } => self.end(qp).await?,
                ConnectionEvent::Rejected { .. } => unreachable!("a receiver connects to nobody"),
            }
        }
        let is_over = |peer: &Peer| {
            let mut all = self.peers.values();
            peer.answers.is_stuck() || all.any(|other| peer.session.is_before(other.session))
        };
        let over = |(&qp, peer): (&QueuePair, &Peer)| is_over(peer).then_some(qp);
        let over: Vec<QueuePair> = self.peers.iter().filter_map(over).collect();
        for qp in over {
            self.end(qp).await?;
        }
        Ok(any)
    }

    fn take_request(&mut self, request: ConnectionRequest, hello: &[u8]) {
        let word = |at: usize| {
            hello
                .get(at..)?
                .first_chunk()
                .copied()
                .map(u32::from_le_bytes)
        };
        let (Some(sender), Some(number)) = (word(0), word(4)) else {
            unreachable!("every sender says its session")
        };
        let shared_receive_queue = Some(self.queue.shared_queue());
        let accepted = accept(&self.port, request, |making| {
            making.queue_pair(Queues {
                shared_receive_queue,
                ..QUEUES
            })?;
            let slots = QUEUES.send_capacity.into();
            let size = NEWS_SIZE.into();
            let region = making.allocate(AnswerRing::size(slots, 0, size))?;
            Ok((
                self.welcome.clone(),
                AnswerRing::new(region, slots, 0, size),
            ))
        });
        // The sender may withdraw its request, which is no trouble of the receiver.
        let Ok((qp, answers)) = accepted else { return };
        self.queue.grant(qp, 0);
        let peer = Peer {
            session: SessionId { sender, number },
            answers,
            is_established: false,
            next: 1,
            taken: 0,
            news: News::default(),
            told: News::default(),
        };
        self.peers.insert(qp, peer);
    }

    /// Finds the next entries of every peer. Returns whether it found any.
    fn look(&mut self) -> bool {
        while let Some(arrival) = self.port.take_received() {
            self.queue.note_arrival(&arrival);
        }
        let mut any = false;
        for &buffer in &self.posted {
            for (entry, place) in self.memory.entries(buffer) {
                let is_next =
                    |peer: &Peer| (peer.session, peer.next) == (entry.session, entry.number);
                let mut peers = self.peers.iter_mut();
                let Some((&qp, peer)) = peers.find(|(_, peer)| is_next(peer)) else {
                    continue;
                };
                let arrived = self.durable.arrived(qp, entry.number.into(), &[place]);
                arrived.expect("entries are found in their order");
                peer.next += 1;
                peer.taken += self.queue.terms().cost(place.size as u32);
                any = true;
            }
        }
        any
    }

    /// Replaces full buffers by fresh ones.
    async fn take_consumed(&mut self) -> Result<(), Failure> {
        let mut consumed = Vec::new();
        self.queue.take_consumed(&mut consumed);
        if consumed.is_empty() {
            return Ok(());
        }
        // Entries may have arrived in the buffers after the last look.
        self.look();
        for buffer in consumed {
            self.posted.retain(|posted| *posted != buffer);
            let grains = Memory::buffer(buffer).size / u64::from(self.queue.terms().grain);
            self.queue.settle(buffer, grains);
            self.post().await?;
        }
        Ok(())
    }

    /// Grants credits, and sends each peer its news.
    fn tell(&mut self) {
        for (qp, durable) in self.durable.take_answers() {
            if let Some(peer) = self.peers.get_mut(&qp) {
                peer.news.durable = durable;
            }
        }
        for (&qp, peer) in self
            .peers
            .iter_mut()
            .filter(|(_, peer)| peer.is_established)
        {
            let wanted = self.credits - (peer.news.granted - peer.taken);
            peer.news.granted += self.queue.grant(qp, wanted);
            if peer.news != peer.told {
                peer.told = peer.news;
                peer.answers.send(&self.port, qp, &peer.news.encode());
            }
        }
    }

    /// Ends a session permanently. Each entry that its sender had under way is in memory afterwards, or never will be.
    async fn end(&mut self, qp: QueuePair) -> Result<(), Failure> {
        if !self.peers.contains_key(&qp) {
            return Ok(());
        }
        // Quiescing does not tell the peer. The call fails if the connection has ended already.
        let _ = self.port.device().disconnect(qp);
        self.port.quiesce(qp).await?;
        let session = self.peers[&qp].session;
        let node = self.seat.node;
        self.appends.note_quiet(node, session, &self.memory);
        // A completion that is polled later is lost with the queue pair, and its slot would never be filled up.
        while self.port.pump() {}
        self.look();
        let peer = self.peers.remove(&qp).expect("looked above");
        self.durable.forget(qp);
        close(&self.port, qp, [peer.answers.region()]);
        // A sender may have died and left places without a whole entry. Its credits are not granted again: a fresh
        // buffer makes up for them.
        self.queue.forget(qp, u64::MAX);
        if peer.news.granted > 0 {
            self.post().await?;
        }
        Ok(())
    }
}
