//! The control thread of a server, which gives out the memory of the backups' logs.
//!
//! ```text
//!   Rowan-KV              posts free segments as receive buffers, takes them back when the NIC has filled them
//!   RWrite-KV, Batch-KV   gives a segment to each remote thread, and another one when it is full
//!   Share-KV              serves one area and the word of its end
//! ```
//!
//! The thread also tells the other control threads up to which version the entries of its shards have their
//! copies.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

use stonecast_base::{Nanoseconds, Span};
use stonecast_fabric::append::{AppendOptions, AppendQueue};
use stonecast_fabric::{Access, LocalSpan, MemoryRegion, Rkey, Runtime, SharedReceiveQueue};

use super::Replication;
use super::caller::Caller;
use super::entry::{ENTRY_SIZE_MAX, UNIT};
use super::message::{Kind, Outcome};
use super::node::Seat;
use super::segments::{LogKind, State};
use super::serving::Serving;
use super::store::Store;
use crate::PublishedError;

/// The interval at which the thread looks for buffers that have come back.
const REFILL_NS: Nanoseconds = 20_000;
/// The interval at which the thread tells the other servers its commit versions.
const TELL_NS: Nanoseconds = 200_000;
/// The first bytes of a peer whose SENDs are entries.
pub(crate) const APPENDING: &[u8] = b"append";
/// The first bytes of a peer whose SENDs are requests.
pub(crate) const CALLING: &[u8] = b"call";
/// The key of a request for a segment from a thread that filled none.
pub(crate) const NO_SEGMENT: u64 = u64::MAX;
/// Shards whose commit versions fit a message.
const COMMITS_EACH: usize = 256;

/// The control thread.
pub(crate) struct Control {
    store: Rc<Store>,
    runtime: Rc<dyn Runtime>,
    serving: Serving,
    /// The whole persistent memory.
    log: MemoryRegion,
    /// A byte to read, and at 8 the end of the shared log.
    words: MemoryRegion,
    queue: RefCell<Option<AppendQueue>>,
    /// Receive buffers that could not be posted again, because no segment was free.
    missing: Cell<u32>,
    /// The area of Share-KV's log, and its bytes that were given to digest threads.
    shared: Option<Span>,
    shared_digested: Cell<u64>,
    peers: RefCell<Vec<Rc<Caller>>>,
    /// Changed words of the segment table.
    unpersisted: RefCell<Vec<Span>>,
    told: Cell<Nanoseconds>,
}

/// The memory of a server as a remote thread sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Reached {
    /// The persistent memory.
    pub log: (u64, Rkey),
    /// A word of DRAM, and behind it the end of the shared log.
    pub words: (u64, Rkey),
    /// The area of the shared log.
    pub shared: Span,
}

impl Reached {
    fn encode(&self) -> Vec<u8> {
        let words = [
            self.log.0,
            self.log.1.0.into(),
            self.words.0,
            self.words.1.0.into(),
            self.shared.offset,
            self.shared.size,
        ];
        words.iter().flat_map(|word| word.to_le_bytes()).collect()
    }

    /// The facts in the answer of a control thread.
    pub fn parse(bytes: &[u8]) -> Result<Self, PublishedError> {
        let (words, rest) = bytes.as_chunks::<8>();
        let words: Vec<u64> = words.iter().map(|word| u64::from_le_bytes(*word)).collect();
        let ([log, log_key, word, word_key, offset, size], []) = (&words[..], rest) else {
            return Err(PublishedError::Protocol("a welcome of another length"));
        };
        Ok(Self {
            log: (*log, Rkey(*log_key as u32)),
            words: (*word, Rkey(*word_key as u32)),
            shared: Span::new(*offset, *size),
        })
    }
}

impl Control {
    /// The control thread at `seat`, which serves its address from now on.
    pub fn open(store: Rc<Store>, seat: &Seat) -> Result<Self, PublishedError> {
        let device = seat.port.device().clone();
        let access = Access::REMOTE_READ.and(Access::REMOTE_WRITE);
        let log = device.register_persistent(store.memory.clone(), access)?;
        let words = device.allocate(16, Access::REMOTE_READ.and(Access::REMOTE_ATOMIC))?;
        let address = store.options.control_address(store.server);
        let mut unpersisted = Vec::new();
        let shared = (store.options.replication == Replication::Share)
            .then(|| take_half(&store, &mut unpersisted));
        let serving = Serving::open(seat.port.clone(), &address)?;
        let control = Self {
            runtime: seat.runtime.clone(),
            serving,
            log,
            words,
            queue: RefCell::default(),
            missing: Cell::new(0),
            shared,
            shared_digested: Cell::new(0),
            peers: RefCell::default(),
            unpersisted: RefCell::new(unpersisted),
            told: Cell::new(0),
            store,
        };
        if control.store.options.replication == Replication::Append {
            let buffers = control.store.options.append_buffers;
            let options = AppendOptions {
                buffers,
                buffer_size_max: control.store.options.segment_size,
                grain: UNIT as u32,
                message_size_max: ENTRY_SIZE_MAX as u32,
            };
            control
                .queue
                .replace(Some(AppendQueue::new(device, options)?));
            control.missing.set(buffers);
            control.refill()?;
        }
        Ok(control)
    }

    /// Connects to the control threads of the other servers.
    pub async fn connect(&self) -> Result<(), PublishedError> {
        let options = &self.store.options;
        for server in (0..options.servers).filter(|&server| server != self.store.server) {
            let address = options.control_address(server);
            let port = self.serving.port();
            let (peer, _) = Caller::connect(port, &self.runtime, &address, CALLING).await?;
            self.peers.borrow_mut().push(peer);
        }
        Ok(())
    }

    /// Serves forever.
    pub async fn run(self: Rc<Self>) -> Result<(), PublishedError> {
        loop {
            // Either result ends the wait.
            let _ = self
                .runtime
                .within(REFILL_NS, self.serving.port().activity())
                .await;
            self.serving.take_events(|hello| self.decide(hello));
            while let Some(arrival) = self.serving.take_request() {
                let (outcome, body) =
                    self.serve(arrival.request.kind, arrival.request.key, &arrival.body);
                self.persist().await?;
                self.serving
                    .answer(arrival.qp, arrival.request.id, outcome, &body);
            }
            self.take_back()?;
            self.refill()?;
            self.pass_shared();
            self.tell();
            self.persist().await?;
        }
    }

    fn decide(
        &self,
        hello: &[u8],
    ) -> Result<(Vec<u8>, Option<SharedReceiveQueue>), PublishedError> {
        let reached = Reached {
            log: (self.log.address, self.log.rkey),
            words: (self.words.address, self.words.rkey),
            shared: self.shared.unwrap_or(Span::new(0, 0)),
        };
        let queue = match (hello, &*self.queue.borrow()) {
            (APPENDING, Some(queue)) => Some(queue.shared_queue()),
            (CALLING, _) => None,
            _ => return Err(PublishedError::Protocol("an unknown kind of peer")),
        };
        Ok((reached.encode(), queue))
    }

    fn serve(&self, kind: Kind, key: u64, body: &[u8]) -> (Outcome, Vec<u8>) {
        match kind {
            Kind::NextSegment => {
                if let Ok(full) = u32::try_from(key)
                    && full < self.store.segments.count()
                {
                    self.set_used(full);
                }
                match self.take() {
                    Some(segment) => {
                        let place = self.store.segments.start(segment);
                        let body = [u64::from(segment), place].map(u64::to_le_bytes).concat();
                        (Outcome::Done, body)
                    }
                    None => (Outcome::Full, Vec::new()),
                }
            }
            Kind::Commits => {
                let (pairs, _) = body.as_chunks::<10>();
                for pair in pairs {
                    let shard = u16::from_le_bytes([pair[0], pair[1]]);
                    let version = pair[2..].try_into().expect("8 bytes");
                    self.store.note_commit(shard, u64::from_le_bytes(version));
                }
                self.store.settle_commits();
                (Outcome::Done, Vec::new())
            }
            _ => (Outcome::Elsewhere, Vec::new()),
        }
    }

    /// Takes a segment for a backup's log. Only its first byte is cleared, as in the artefact.
    fn take(&self) -> Option<u32> {
        let (segment, word) = self.store.segments.take(LogKind::Backup)?;
        let first = Span::new(self.store.segments.start(segment), 1);
        self.store.memory.write(first.offset, &[0]);
        self.unpersisted.borrow_mut().extend([word, first]);
        Some(segment)
    }

    fn set_used(&self, segment: u32) {
        let word = self.store.segments.set(segment, State::Used);
        self.unpersisted.borrow_mut().push(word);
        self.store.note_full(segment);
    }

    /// Takes the buffers that the NIC has filled.
    fn take_back(&self) -> Result<(), PublishedError> {
        let mut consumed = Vec::new();
        if let Some(queue) = &mut *self.queue.borrow_mut() {
            queue.take_consumed(&mut consumed);
            let units = self.store.segments.size() / UNIT as u64;
            for &segment in &consumed {
                queue.settle(segment, units);
            }
        }
        self.missing.set(self.missing.get() + consumed.len() as u32);
        for segment in consumed {
            self.set_used(segment as u32);
        }
        Ok(())
    }

    /// Posts free segments in place of those that were taken back.
    fn refill(&self) -> Result<(), PublishedError> {
        while self.missing.get() > 0 {
            // Senders wait if no segment is free.
            let Some(segment) = self.take() else { break };
            let buffer = LocalSpan {
                region: self.log,
                offset: self.store.segments.start(segment),
                size: self.store.options.segment_size,
            };
            if let Some(queue) = &mut *self.queue.borrow_mut() {
                queue.post(segment.into(), buffer)?;
            }
            self.missing.set(self.missing.get() - 1);
        }
        Ok(())
    }

    /// Gives the full segments of the shared log to the digest threads: those behind which another one was begun.
    fn pass_shared(&self) {
        let Some(area) = self.shared else { return };
        let size = self.store.segments.size();
        let end = self.serving.port().device().memory(self.words).load(8);
        while self.shared_digested.get() + 2 * size <= end.min(area.size) {
            let place = area.offset + self.shared_digested.get();
            self.set_used(self.store.segments.of(place));
            self.shared_digested.set(self.shared_digested.get() + size);
        }
    }

    /// Tells the other servers the commit versions of the shards of this server, at intervals.
    fn tell(&self) {
        let now = self.runtime.now();
        if now < self.told.get() + TELL_NS || self.peers.borrow().is_empty() {
            return;
        }
        self.told.set(now);
        let mut commits: BTreeMap<u16, u64> = BTreeMap::new();
        for shard in 0..self.store.placement.shards() {
            if self.store.is_primary(shard) {
                commits.insert(shard, self.store.commit_version(shard));
            }
        }
        let pair = |(shard, version): (&u16, &u64)| {
            [&shard.to_le_bytes()[..], &version.to_le_bytes()].concat()
        };
        let pairs: Vec<Vec<u8>> = commits.iter().map(pair).collect();
        for part in pairs.chunks(COMMITS_EACH) {
            let body: Rc<[u8]> = part.concat().into();
            for peer in &*self.peers.borrow() {
                let (peer, body) = (peer.clone(), body.clone());
                self.runtime.spawn(Box::pin(async move {
                    // A server that is gone needs no commit versions.
                    let _ = peer.call(Kind::Commits, 0, &body, &mut Vec::new()).await;
                }));
            }
        }
    }

    async fn persist(&self) -> Result<(), PublishedError> {
        let spans = self.unpersisted.take();
        if !spans.is_empty() {
            let store = &self.store;
            drop(store.commit.persist(&*store.memory, &spans).await?);
        }
        Ok(())
    }
}

/// Takes half of the segments, which follow each other, for the shared log.
fn take_half(store: &Store, words: &mut Vec<Span>) -> Span {
    let count = store.segments.count() / 2;
    let taken: Vec<u32> = (0..count)
        .map(|_| {
            let (segment, word) = store
                .segments
                .take(LogKind::Backup)
                .expect("half of the segments are free");
            words.push(word);
            segment
        })
        .collect();
    let first = *taken.first().expect("a server has segments");
    assert!(
        taken
            .iter()
            .zip(first..)
            .all(|(&segment, expected)| segment == expected),
        "free segments of a new server follow each other"
    );
    Span::new(
        store.segments.start(first),
        u64::from(count) * store.segments.size(),
    )
}
