//! The back-end's side of a mirror: it fills the copy, keeps it up to date, and holds a lease on being the back-end.
//!
//! ```text
//!   attach ─▶ copied anew, piece by piece, where both differ ─▶ bound ─▶ whole          every persist goes to the mirror meanwhile
//!   copy(spans)   WRITE, WRITE, READ            where the mirror's platform has a plan for that
//!                 WRITE, WRITE, SEND of settle  elsewhere: the mirror makes the places durable, and answers
//! ```
//!
//! A mirror that was bound is compared before the pool is opened, when nothing changes. Both copies hold states that a
//! power cut could have left at the end of the back-end's last run. Each mixture of the two is such a state, too, and
//! the mirror could become the back-end at any moment of the comparison.
//!
//! A crash leaves the mirror with a part of the last spans.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;
use std::task::{Context, Poll};

use smallvec::SmallVec;
use stonecast_base::{Nanoseconds, Span, mutant};
use stonecast_fabric::{
    Access, DeviceError, LocalSpan, MemoryRegion, Port, RemoteAddress, Rkey, Runtime,
};
use stonecast_media::{Durability, PersistError};
use stonecast_persist::execute::{LentAgreement, LentAppender, NoAgreement, Piece, Route};
use stonecast_session::{Endpoint, Listener};

use super::bytes::{PIECE_SIZE, common, digest};
use super::expulsions::Expulsions;
use crate::backend::{
    Copying, Medium, Mirror, MirrorLost, PoolGeometry, Role, Standing, StandingError, Stopped,
};
use crate::frontend::{FrontEndError, Reply, Talk};
use crate::standing_record::{OpenError, StandingRecordError};
use crate::wire::{Answer, MirrorStat, Request, SPANS_MAX, Source, StoreStat};

/// Outstanding work requests of a link: batches with their places, and requests.
pub(crate) const LINK_SENDS: u32 = 64;
/// The most batches under way. Requests of other kinds find a slot beside them.
const BATCHES_MAX: u64 = 4;
/// The pause before a request to a mirror that has to end an earlier connection first is repeated.
const PAUSE_NS: Nanoseconds = 1_000_000;
/// The back-end renews its lease when this part of it has passed.
const RENEWED_AFTER: u64 = 4;

/// The reason why a back-end does not start with this mirror.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AttachError {
    /// No connection exists.
    #[error("the mirror cannot be reached: {0}")]
    Connect(FrontEndError),
    /// No plan makes bytes durable there.
    #[error(transparent)]
    NoAgreement(NoAgreement),
    /// The memory of the mirror survives fewer failures than the memory of this pool. So would acknowledged operations
    /// after a promotion.
    #[error(
        "this pool survives power cuts, and the memory of the mirror only the death of its processes; give the mirror an empty folder and durability power"
    )]
    Weaker,
    /// The device refused a call.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// The medium of this pool failed.
    #[error(transparent)]
    Persist(#[from] PersistError),
    /// The mirror was lost in the meantime.
    #[error(transparent)]
    Lost(#[from] MirrorLost),
    /// The pool is a mirror itself.
    #[error(
        "this pool is a mirror of generation {generation}; serve it as a mirror, or promote it"
    )]
    IsMirror {
        /// The generation of the mirror's content.
        generation: u64,
    },
    /// The pool is bound to another mirror, which may have become the back-end.
    #[error(
        "this pool is bound to another mirror; name that one, or detach the pool from it first"
    )]
    OtherMirror,
    /// The other pool is a back-end that followed this one.
    #[error(
        "the mirror was promoted and is the back-end of generation {theirs}; this pool is of generation {ours}. Serve this pool as a mirror of that back-end"
    )]
    Superseded {
        /// The generation of the other pool.
        theirs: u64,
        /// The generation of this pool.
        ours: u64,
    },
    /// The mirror is whole, and this pool is bound to no mirror: the pool is an old copy.
    #[error(
        "the mirror was bound by a later state of this pool than the pool holds: the pool was restored from an old copy. Promote the mirror"
    )]
    Older,
    /// The pool of the mirror holds something else, or is smaller than this pool.
    #[error(
        "the pool of the mirror holds something else, or is smaller than this pool; give the mirror an empty folder and the same capacity"
    )]
    Foreign,
    /// The pool has a standing record that the server does not know.
    #[error(transparent)]
    Standing(#[from] StandingError),
    /// The standing record does not permit the pool to be served.
    #[error(transparent)]
    Record(#[from] StandingRecordError),
    /// Only one of the two has a standing record.
    #[error(
        "{}; give both servers the same store (--structures-cluster)",
        match *.is_recorded {
            true => "this back-end has a store for the standing record, and its mirror has none",
            false => "the mirror has a store for the standing record, and this back-end has none",
        }
    )]
    RecordOfOne {
        /// Whether this server has a standing record.
        is_recorded: bool,
    },
}

/// The connection of a back-end to its mirror.
pub struct MirrorLink {
    talk: Talk,
    runtime: Rc<dyn Runtime>,
    /// The pool, which the device reads in place.
    memory: MemoryRegion,
    bytes: Rc<dyn stonecast_media::PersistentRegion>,
    target: RemoteAddress,
    state: RefCell<State>,
    lease: Lease,
    /// Bytes of the pool that were compared.
    compared: Cell<u64>,
    standing: Cell<Standing>,
    /// The name of the mirror's pool.
    uuid: u128,
    /// The address of the mirror, for front-ends.
    address: String,
    expulsions: RefCell<Expulsions>,
}

struct State {
    appender: LentAppender,
    listener: Listener,
    /// The requests after batches that the mirror answers, with the numbers of the batches.
    answers: VecDeque<(u64, Rc<Reply>)>,
    sent: u64,
    durable: u64,
}

/// The promise of the mirror not to become the back-end for a while.
struct Lease {
    size_ns: Nanoseconds,
    until: Cell<Nanoseconds>,
    /// The request under way, and the moment before it was sent.
    asked: RefCell<Option<(Nanoseconds, Rc<Reply>)>>,
}

impl From<OpenError> for AttachError {
    fn from(error: OpenError) -> Self {
        match error {
            OpenError::Record(error) => error.into(),
            OpenError::Persist(error) => error.into(),
        }
    }
}

impl From<NoAgreement> for AttachError {
    fn from(reason: NoAgreement) -> Self {
        match reason {
            NoAgreement::TooWeak => Self::Weaker,
            reason => Self::NoAgreement(reason),
        }
    }
}

pub(super) fn lost(reason: impl ToString) -> MirrorLost {
    MirrorLost {
        reason: reason.to_string(),
    }
}

impl MirrorLink {
    /// Connects to the mirror at `address`. `lease_ns` is the time for which the mirror waits after the last message of
    /// this back-end before the mirror becomes the back-end. Returns the medium with which the back-end has to work
    /// from now on. If the pool is bound to the mirror, the mirror is whole when the call returns; otherwise the
    /// service fills the mirror while it runs ([`Service::with_mirror`](crate::Service::with_mirror)).
    ///
    /// # Errors
    /// [`AttachError`]: the pool must not be served. A crash leaves the pool unchanged.
    pub async fn attach(
        port: &Rc<Port>,
        runtime: Rc<dyn Runtime>,
        medium: Medium,
        (address, lease_ns): (&str, Nanoseconds),
    ) -> Result<(Rc<Medium>, Rc<Self>), AttachError> {
        let mut standing = standing_of(&medium);
        if standing.role != Role::BackEnd {
            let generation = standing.generation;
            return Err(AttachError::IsMirror { generation });
        }
        medium.check_record(&standing)?;
        // A mirror that was bound without a record may have been promoted without a record, so the mirror is asked
        // first.
        let opens_late = standing.mirror != 0 && !standing.is_recorded;
        if let Some(record) = medium.record().filter(|_| !opens_late) {
            record.open(&medium, false).await?;
            standing = standing_of(&medium);
        }
        let talk = connected(port, address)
            .await
            .map_err(AttachError::Connect)?;
        let source = Source {
            uuid: medium.uuid,
            key: medium.key.0,
            generation: standing.generation,
            size: medium.region.size(),
            lease_ns,
            is_recorded: medium.record().is_some(),
        };
        let began_at = runtime.now();
        let durability = medium.lending().durability;
        let joined = join(&talk, &runtime, (source, durability)).await?;
        let is_bound = standing.mirror != 0;
        if is_bound && standing.mirror != joined.uuid {
            return Err(AttachError::OtherMirror);
        }
        if !is_bound && joined.is_whole {
            return Err(AttachError::Older);
        }
        if let Some(record) = medium.record().filter(|_| opens_late) {
            record.open(&medium, false).await?;
            standing = standing_of(&medium);
        }
        let link = Rc::new(Self {
            memory: port
                .device()
                .register_persistent(medium.region.clone(), Access::NONE)?,
            bytes: medium.region.clone(),
            target: joined.target,
            state: RefCell::new(State::new(port, &talk, &joined)?),
            talk,
            lease: Lease {
                size_ns: lease_ns,
                until: Cell::new(began_at + lease_ns),
                asked: RefCell::default(),
            },
            runtime,
            compared: Cell::new(0),
            standing: Cell::new(standing),
            uuid: joined.uuid,
            address: address.to_owned(),
            expulsions: RefCell::default(),
        });
        if is_bound {
            while link.compared.get() < link.bytes.size() {
                link.compare().await?;
            }
            link.ask(Request::Whole).await?;
        }
        let mirror: Rc<dyn Mirror> = link.clone();
        Ok((Rc::new(medium.mirrored_by(mirror)), link))
    }

    /// Does a part of the work beside the requests of front-ends: renews the lease, and fills a new mirror. The
    /// back-end is bound to the mirror when the mirror has everything.
    pub(crate) async fn go_on(&self, medium: &Medium) -> Result<(), MirrorLost> {
        self.look()?;
        self.expulsions.borrow_mut().go_on(&self.talk)?;
        if self.is_bound() {
            return Ok(());
        }
        // Front-ends wait for one piece at most.
        if self.compared.get() < self.bytes.size() {
            self.compare().await?;
        }
        if self.compared.get() == self.bytes.size() {
            if let Some(record) = medium.record()
                && !record.bind(self.uuid)
            {
                return Ok(());
            }
            // The mirror may become the back-end once it has received the last request below. By then, this side
            // acknowledges nothing without the mirror.
            let mut standing = standing_of(medium);
            let next = Standing {
                mirror: self.uuid,
                is_recorded: medium.record().is_some(),
                ..standing
            };
            standing.replace(medium, next).await.map_err(lost)?;
            if let Some(record) = medium.record() {
                record.bound(self.uuid);
            }
            self.ask(Request::Whole).await?;
            self.standing.set(standing);
        }
        Ok(())
    }

    /// Whether the mirror lacks a part of the pool.
    pub(crate) fn is_filling(&self) -> bool {
        !self.is_bound() && self.compared.get() < self.bytes.size()
    }

    /// Whether the back-end acknowledges nothing without the mirror. Until then, the mirror is being filled.
    pub(crate) fn is_bound(&self) -> bool {
        self.standing.get().mirror == self.uuid
    }

    /// Lets a front-end append to `log` at the mirror. A mirror that is being filled admits no front-end: the log is
    /// copied in pieces, which would overwrite records that land in the meantime.
    pub(crate) async fn admit(&self, log: Span) -> Result<Answer, MirrorLost> {
        let is_whole = self.is_bound();
        if !is_whole || !self.state.borrow().appender.is_one_sided() {
            return Ok(Answer::NoMirrorLog { is_whole });
        }
        let Answer::Admitted { pass } = self.ask(Request::Admit { log }).await? else {
            return Err(lost("it does not keep to the protocol"));
        };
        let address = self.address.clone();
        Ok(Answer::MirrorLog { pass, address })
    }

    /// Begins to expel the front-end with `pass` from its log at the mirror.
    pub(crate) fn expel(&self, pass: u64) {
        self.expulsions.borrow_mut().begin(pass);
    }

    /// Takes the front-ends that the mirror has expelled.
    pub(crate) fn take_expelled(&self) -> Vec<(u64, Stopped)> {
        self.expulsions.borrow_mut().take_ended()
    }

    /// The rest of the time for which the mirror has promised not to become the back-end.
    pub(crate) fn lease_left(&self) -> Nanoseconds {
        self.lease.until.get().saturating_sub(self.runtime.now())
    }

    /// The state of the mirror, for people.
    pub(crate) fn stat(&self, medium: &Medium) -> MirrorStat {
        let state = self.state.borrow();
        MirrorStat {
            generation: self.standing.get().generation,
            bytes_to_copy: self.bytes.size() - self.compared.get(),
            batches_under_way: state.sent - state.durable,
            silent_ns: self.lease.size_ns.saturating_sub(self.lease_left()),
            is_bound: self.is_bound(),
            store: match medium.record() {
                None => StoreStat::None,
                Some(record) if record.trouble().is_some() => StoreStat::Waiting,
                Some(_) => StoreStat::Reached,
            },
        }
    }

    /// Compares the next piece of the pool, and copies it if it differs.
    async fn compare(&self) -> Result<(), MirrorLost> {
        let offset = self.compared.get();
        let size = PIECE_SIZE.min(self.bytes.size() - offset);
        let span = Span::new(offset, size);
        let Answer::Digest { digest: theirs } = self.ask(Request::Digest { span }).await? else {
            return Err(lost("it does not keep to the protocol"));
        };
        if theirs != digest(&*self.bytes, span) {
            self.transfer(&[span]).await?;
        }
        self.compared.set(offset + size);
        Ok(())
    }

    /// Makes the bytes of `spans` durable in the mirror.
    async fn transfer(&self, spans: &[Span]) -> Result<(), MirrorLost> {
        for batch in common(spans).chunks(SPANS_MAX) {
            self.look()?;
            self.wait(|state| state.sent - state.durable < BATCHES_MAX)
                .await?;
            self.send(batch).map_err(lost)?;
        }
        self.wait(|state| state.sent == state.durable).await
    }

    /// Sends bytes, and the operations that make them durable.
    fn send(&self, batch: &[Span]) -> Result<(), FrontEndError> {
        let mut state = self.state.borrow_mut();
        let pieces: SmallVec<[Piece; SPANS_MAX]> = batch
            .iter()
            .map(|span| Piece {
                local: LocalSpan {
                    region: self.memory,
                    offset: span.offset,
                    size: span.size as u32,
                },
                remote: self.target.at(span.offset),
            })
            .collect();
        let number = state
            .appender
            .append(&pieces)
            .map_err(|_| FrontEndError::Gone)?;
        let flushed = if state.appender.is_one_sided() {
            state.appender.flush()
        } else {
            let mut spans = [Span::new(0, 0); SPANS_MAX];
            spans[..batch.len()].copy_from_slice(batch);
            let request = Request::Settle { spans };
            let (notice, reply) = self.talk.begin(request).expect("a slot is left");
            state.answers.push_back((number, reply));
            state.appender.flush_telling(notice)
        };
        flushed.map_err(|_| FrontEndError::Gone)?;
        state.sent = number;
        Ok(())
    }

    /// Waits until the batches are as far as `is_met` says, for as long as the lease lasts.
    async fn wait(&self, is_met: impl Fn(&State) -> bool) -> Result<(), MirrorLost> {
        let waiting = std::future::poll_fn(|context| self.poll(&is_met, context));
        let within = self.runtime.within(self.lease_left(), waiting).await;
        within.unwrap_or_else(|_| Err(lost("it does not answer")))
    }

    fn poll(
        &self,
        is_met: &impl Fn(&State) -> bool,
        context: &mut Context<'_>,
    ) -> Poll<Result<(), MirrorLost>> {
        let mut state = self.state.borrow_mut();
        loop {
            self.talk.hear().map_err(lost)?;
            state.take_answers()?;
            if let Err(error) = self.talk.check() {
                state.appender.fail("the mirror is gone");
                return Poll::Ready(Err(lost(error)));
            }
            while let Poll::Ready(persisted) = state.appender.poll_persisted(context) {
                (state.durable, _) = persisted.map_err(lost)?;
            }
            if is_met(&state) {
                return Poll::Ready(Ok(()));
            }
            if state.listener.poll_activity(context).is_pending() {
                return Poll::Pending;
            }
        }
    }

    /// Asks the mirror, for as long as the lease lasts.
    async fn ask(&self, request: Request) -> Result<Answer, MirrorLost> {
        let asked_at = self.runtime.now();
        let asking = self.talk.ask(request);
        let answer = self.runtime.within(self.lease_left(), asking).await;
        let answer = answer.map_err(|_| lost("it does not answer"))?;
        let answer = answer.map_err(lost)?;
        if matches!(answer, Answer::IsBackEnd { .. } | Answer::NotWhole) {
            return Err(lost("it serves another back-end"));
        }
        self.lease.until.set(asked_at + self.lease.size_ns);
        Ok(answer)
    }

    /// Renews the lease in time. The call does not wait.
    fn look(&self) -> Result<(), MirrorLost> {
        self.talk.hear().map_err(lost)?;
        self.talk.check().map_err(lost)?;
        let (now, lease) = (self.runtime.now(), &self.lease);
        let mut asked = lease.asked.borrow_mut();
        if let Some((asked_at, reply)) = &*asked
            && let Some(answer) = reply.take()
        {
            if answer != Answer::Settled {
                return Err(lost("it serves another back-end"));
            }
            lease.until.set(asked_at + lease.size_ns);
            *asked = None;
        }
        if now >= lease.until.get() {
            return Err(lost("it does not answer"));
        }
        let is_due = lease.until.get() - now < lease.size_ns - lease.size_ns / RENEWED_AFTER;
        if is_due && asked.is_none() {
            let sent = self.talk.send(Request::Renew).map_err(lost)?;
            *asked = sent.map(|reply| (now, reply));
        }
        Ok(())
    }
}

impl Mirror for MirrorLink {
    fn copy<'a>(&'a self, spans: &'a [Span]) -> Copying<'a> {
        if mutant!(CopyWithoutLog) && !self.is_bound() {
            return Box::pin(std::future::ready(Ok(())));
        }
        Box::pin(self.transfer(spans))
    }
}

impl State {
    fn new(port: &Rc<Port>, talk: &Talk, joined: &Joined) -> Result<Self, AttachError> {
        let scratch = LocalSpan {
            region: talk.endpoint.allocate(64)?,
            offset: 0,
            size: 8,
        };
        let word = PoolGeometry::serving_word().offset;
        let route = Route {
            port: port.clone(),
            qp: talk.endpoint.qp(),
            scratch,
            flush: joined.target.at(word),
        };
        Ok(Self {
            appender: LentAppender::new(route, &joined.agreement),
            listener: Listener::new(talk.endpoint.inbox()),
            answers: VecDeque::new(),
            sent: 0,
            durable: 0,
        })
    }

    /// Hands answers of the mirror to their batches.
    fn take_answers(&mut self) -> Result<(), MirrorLost> {
        while let Some((number, reply)) = self.answers.front() {
            let Some(answer) = reply.take() else { break };
            let is_settled = answer == Answer::Settled;
            if !is_settled || self.appender.answered(*number).is_err() {
                return Err(lost("it serves another back-end"));
            }
            self.answers.pop_front();
        }
        Ok(())
    }
}

/// The standing of a pool that may never have had another copy.
fn standing_of(medium: &Medium) -> Standing {
    let alone = Standing::alone(medium.uuid, medium.key.0);
    let standing = Standing::read(medium.bytes()).unwrap_or(alone);
    Standing {
        generation: standing.generation.max(1),
        ..standing
    }
}

/// The answer of a mirror that takes the back-end as its source.
struct Joined {
    uuid: u128,
    is_whole: bool,
    target: RemoteAddress,
    agreement: LentAgreement,
}

/// A connection to the server of structures at `address`.
pub(super) async fn connected(port: &Rc<Port>, address: &str) -> Result<Talk, FrontEndError> {
    let endpoint = Endpoint::new(port, Talk::queues(LINK_SENDS))?;
    Talk::connect(endpoint, address).await
}

/// Asks for the place of the source, until the mirror has ended its connection to an earlier source. The bytes of the
/// mirror have to survive the failure `durability`.
async fn join(
    talk: &Talk,
    runtime: &Rc<dyn Runtime>,
    (source, durability): (Source, Durability),
) -> Result<Joined, AttachError> {
    loop {
        let answer = talk.ask(Request::Join(source)).await;
        match answer.map_err(AttachError::Connect)? {
            Answer::Joined {
                uuid,
                is_whole,
                address,
                rkey,
                lending,
            } => {
                let rkey = rkey
                    .try_into()
                    .map_err(|_| AttachError::Connect(FrontEndError::Protocol))?;
                let target = RemoteAddress {
                    address,
                    rkey: Rkey(rkey),
                };
                return Ok(Joined {
                    uuid,
                    is_whole,
                    target,
                    agreement: LentAgreement::hear(&lending, durability)?,
                });
            }
            Answer::Later { wait_ns } => runtime.sleep(wait_ns.min(PAUSE_NS)).await,
            Answer::IsBackEnd { generation } | Answer::IsMirror { generation, .. } => {
                return Err(AttachError::Superseded {
                    theirs: generation,
                    ours: source.generation,
                });
            }
            Answer::RecordOfOne => {
                let is_recorded = source.is_recorded;
                return Err(AttachError::RecordOfOne { is_recorded });
            }
            _ => return Err(AttachError::Foreign),
        }
    }
}
