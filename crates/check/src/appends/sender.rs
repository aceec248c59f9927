//! A sender: appends each entry to every receiver, and takes the entry for persisted when all receivers have it.

use std::collections::BTreeMap;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use rand::RngExt as _;
use stonecast_base::{Nanoseconds, Random, random_from_seed};
use stonecast_fabric::append::AppendTerms;
use stonecast_fabric::{ConnectionEvent, LocalSpan, MemoryRegion, Port, ReceiveQueue, Status};
use stonecast_fabric_sim::Process;
use stonecast_media::Durability;
use stonecast_persist::execute::{
    Agreement, AppendFailure, AppendRehearsal, Appender, NotAppended, Route,
};
use stonecast_session::{Endpoint, ReceiveBuffers};

use crate::appends::entries::{ENTRY_SIZE_MAX, EntryId, SessionId};
use crate::appends::receiver::{NEWS, NEWS_SIZE, News, QUEUES};
use crate::appends::setup::Done;
use crate::appends::subject::{Appends, MISTAKE, address};
use crate::history::{NodeId, OperationId};
use crate::values::VALUE_SIZE_MIN;

/// Capacity of a port's completion queue, for connections to all receivers.
const COMPLETIONS: u32 = 256;
/// Time limit of a handshake.
const PATIENCE_NS: Nanoseconds = 50_000_000;
/// Time without progress after which a sender with work connects again. If the peer's goodbye is lost, a sender that
/// waits for credits does not notice the end of the connection.
const SILENCE_NS: Nanoseconds = 200_000_000;
/// The shortest and the longest pause before a sender connects again. A session costs each receiver that it reached a
/// buffer, even if it never reached the others, so a sender that fails again and again slows down.
const RETRY_NS: Nanoseconds = 200_000;
const RETRY_NS_MAX: Nanoseconds = 100_000_000;
/// The shortest and the longest pause between two looks.
const PAUSE_NS: Nanoseconds = 1_000;
const PAUSE_NS_MAX: Nanoseconds = 1_000_000;
/// The most entries under one flush.
const BATCH_MAX: u32 = 4;
/// Places for entries on their way: more than the largest window.
const PLACES: u64 = 16;
/// Offset of the target of READs, behind the entries.
const SCRATCH: u64 = PLACES * ENTRY_SIZE_MAX as u64;

/// The half of appends that sends, or its rehearsal.
enum Half {
    Persisting(Appender),
    Rehearsing(AppendRehearsal),
}

/// The connection to one receiver.
struct Link {
    endpoint: Endpoint,
    buffers: ReceiveBuffers,
    /// Entries on their way, and the target of READs.
    memory: MemoryRegion,
    half: Half,
    /// Credits that the receiver has granted and this sender has not spent.
    credits: u64,
    terms: AppendTerms,
    heard: News,
    /// The number of the last entry that is persisted on the receiver.
    persisted: u64,
}

/// The connections to all receivers, and the entries under way on them.
struct Session {
    id: SessionId,
    links: Vec<Link>,
    appended: u32,
    under_way: BTreeMap<u32, OperationId>,
}

/// Appends until the run is over.
pub(super) async fn live(appends: Rc<Appends>, process: Process, sender: u32, seed: u64) {
    let mut random = random_from_seed(seed);
    let mut pause = RETRY_NS;
    while !appends.is_over() {
        let id = appends.begin_session(sender);
        pause = match Session::open(&appends, &process, id).await {
            Some(mut session) => {
                appends.note_connected(sender, true);
                session.run(&appends, &process, &mut random).await;
                appends.note_connected(sender, false);
                session.give_up(&appends);
                RETRY_NS
            }
            None => RETRY_NS_MAX.min(pause * 2),
        };
        process.runtime().sleep(pause).await;
    }
}

impl Session {
    async fn open(appends: &Appends, process: &Process, id: SessionId) -> Option<Self> {
        let port = process.port(COMPLETIONS).ok()?;
        let mut links = Vec::new();
        for node in appends.nodes() {
            let link = Link::open(appends, &port, node, id);
            let runtime = process.runtime();
            links.push(runtime.within(PATIENCE_NS, link).await.ok()??);
        }
        Some(Self {
            id,
            links,
            appended: 0,
            under_way: BTreeMap::new(),
        })
    }

    /// Appends until a connection ends, the session makes no progress for too long, or the run is over.
    async fn run(&mut self, appends: &Appends, process: &Process, random: &mut Random) {
        let runtime = process.runtime();
        let mut progress_at = runtime.now();
        let mut pause = PAUSE_NS;
        loop {
            let Ok(concluded) = self.conclude(appends) else {
                return;
            };
            let Ok(appended) = self.append(appends, random) else {
                return;
            };
            let now = runtime.now();
            if concluded || appended || !appends.has_work(self.id.sender) {
                progress_at = now;
            }
            if appends.is_over() || now.saturating_sub(progress_at) > SILENCE_NS {
                return;
            }
            pause = match concluded || appended {
                true => PAUSE_NS,
                false => PAUSE_NS_MAX.min(pause * 2),
            };
            runtime.sleep(pause).await;
        }
    }

    /// Takes the entries that have become persisted everywhere. Returns whether there were any.
    fn conclude(&mut self, appends: &Appends) -> Result<bool, AppendFailure> {
        for link in &mut self.links {
            link.hear();
        }
        let ends: Vec<_> = self.links.iter_mut().map(Link::conclude).collect();
        let everywhere = self.links.iter().map(|link| link.persisted).min();
        let mut any = false;
        while let Some(first) = self.under_way.first_entry()
            && everywhere.is_some_and(|number| u64::from(*first.key()) <= number)
        {
            let (number, operation) = first.remove_entry();
            let session = self.id;
            appends.note_persisted(EntryId { session, number }, operation);
            any = true;
        }
        ends.into_iter().collect::<Result<(), _>>().map(|()| any)
    }

    /// Appends some entries under one flush, as far as there is room. Returns whether there was any.
    fn append(&mut self, appends: &Appends, random: &mut Random) -> Result<bool, NotAppended> {
        let window = appends.setup.window as usize;
        let mut count = 0;
        for _ in 0..random.random_range(1..=BATCH_MAX) {
            let size = random.random_range(VALUE_SIZE_MIN as u32..=ENTRY_SIZE_MAX);
            let has_room = self.under_way.len() < window
                && self
                    .links
                    .iter()
                    .all(|link| link.terms.cost(size) <= link.credits);
            if !has_room || !appends.take_one(self.id.sender) {
                break;
            }
            self.appended += 1;
            let entry = EntryId {
                session: self.id,
                number: self.appended,
            };
            self.under_way.insert(self.appended, appends.call(entry));
            for link in &mut self.links {
                link.append(entry, size)?;
            }
            count += 1;
        }
        if count > 0 {
            for link in &mut self.links {
                link.flush()?;
            }
        }
        Ok(count > 0)
    }

    /// Gives up the entries under way: their outcome stays unknown.
    fn give_up(self, appends: &Appends) {
        for (_, operation) in self.under_way {
            appends.give_up(self.id.sender, operation);
        }
    }
}

impl Link {
    async fn open(appends: &Appends, port: &Rc<Port>, node: NodeId, id: SessionId) -> Option<Self> {
        let endpoint = Endpoint::new(port, QUEUES).ok()?;
        let news = endpoint.allocate((NEWS * NEWS_SIZE).into()).ok()?;
        let buffers = ReceiveBuffers::new(news, NEWS_SIZE);
        let queue = ReceiveQueue::Own(endpoint.qp());
        buffers.post_all(&**port.device(), queue, NEWS).ok()?;
        let memory = endpoint.allocate(SCRATCH + 8).ok()?;
        let hello = [id.sender.to_le_bytes(), id.number.to_le_bytes()].concat();
        let welcome = endpoint.connect(&address(node), &hello).await.ok()?;
        let agreement = Agreement::hear(&welcome, Durability::Power);
        let agreement = agreement.expect("both sides are of one version");
        let scratch = LocalSpan {
            region: memory,
            offset: SCRATCH,
            size: 8,
        };
        let receiving = agreement.receiving();
        let half = match appends.setup.done {
            Done::Persisted => {
                let appender = Appender::new(port.clone(), endpoint.qp(), scratch, &agreement);
                Half::Persisting(appender.expect("a NIC places entries"))
            }
            Done::Completed => {
                let route = Route {
                    port: port.clone(),
                    qp: endpoint.qp(),
                    scratch,
                    flush: receiving.flush,
                };
                let mistake = MISTAKE.parse().expect("a program");
                Half::Rehearsing(AppendRehearsal::new(route, receiving.terms, &mistake))
            }
        };
        Some(Self {
            buffers,
            memory,
            half,
            credits: 0,
            terms: receiving.terms,
            heard: News::default(),
            persisted: 0,
            endpoint,
        })
    }

    /// Takes the receiver's messages and the end of the connection.
    fn hear(&mut self) {
        let (inbox, device) = (
            self.endpoint.inbox().clone(),
            self.endpoint.port().device().clone(),
        );
        while let Some(arrival) = inbox.take_received() {
            let mut bytes = Vec::new();
            if arrival.status != Status::Success {
                continue;
            }
            self.buffers.copy_out(&*device, &arrival, &mut bytes);
            let news = News::decode(&bytes).expect("a receiver says all of its news");
            let queue = ReceiveQueue::Own(self.endpoint.qp());
            // The call fails if the connection has ended. An event tells that.
            let _ = self.buffers.post(&*device, queue, arrival.wr_id);
            let credits = news.granted - self.heard.granted;
            self.credits += credits;
            self.half.add_credits(credits);
            if news.durable > self.heard.durable {
                self.half.answered(news.durable);
            }
            self.heard = news;
        }
        while let Some(event) = inbox.take_event() {
            if let ConnectionEvent::Disconnected { .. } = event {
                self.half.fail("the connection ended");
            }
        }
    }

    fn conclude(&mut self) -> Result<(), AppendFailure> {
        while let Poll::Ready(next) = self.half.poll_next() {
            self.persisted = next?;
        }
        Ok(())
    }

    fn append(&mut self, entry: EntryId, size: u32) -> Result<(), NotAppended> {
        let offset = u64::from(entry.number) % PLACES * u64::from(ENTRY_SIZE_MAX);
        let memory = self.endpoint.port().device().memory(self.memory);
        memory.write(offset, &entry.encode(size));
        self.credits -= self.terms.cost(size);
        self.half.append(LocalSpan {
            region: self.memory,
            offset,
            size,
        })
    }

    fn flush(&mut self) -> Result<(), NotAppended> {
        match &mut self.half {
            Half::Persisting(appender) => appender.flush(),
            Half::Rehearsing(rehearsal) => rehearsal.flush(),
        }
    }
}

impl Half {
    fn add_credits(&self, granted: u64) {
        match self {
            Self::Persisting(appender) => appender.add_credits(granted),
            Self::Rehearsing(rehearsal) => rehearsal.add_credits(granted),
        }
    }

    fn answered(&mut self, number: u64) {
        let heard = match self {
            Self::Persisting(appender) => appender.answered(number),
            Self::Rehearsing(rehearsal) => rehearsal.answered(number),
        };
        heard.expect("a receiver answers for what was sent");
    }

    fn fail(&mut self, cause: &str) {
        match self {
            Self::Persisting(appender) => appender.fail(cause),
            Self::Rehearsing(rehearsal) => rehearsal.fail(cause),
        }
    }

    fn append(&mut self, entry: LocalSpan) -> Result<(), NotAppended> {
        let number = match self {
            Self::Persisting(appender) => appender.append(entry),
            Self::Rehearsing(rehearsal) => rehearsal.append(entry),
        };
        number.map(drop)
    }

    /// Returns the number of the next entry that is persisted, or was taken for persisted.
    fn poll_next(&mut self) -> Poll<Result<u64, AppendFailure>> {
        let context = &mut Context::from_waker(Waker::noop());
        match self {
            Self::Persisting(appender) => appender
                .poll_persisted(context)
                .map_ok(|(number, _persisted)| number),
            Self::Rehearsing(rehearsal) => rehearsal
                .poll_concluded(context)
                .map_ok(|(number, _concluded)| number),
        }
    }
}
