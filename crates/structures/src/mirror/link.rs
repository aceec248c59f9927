//! The back-end's side of a mirror: it fills the copy, keeps it up to date, and holds a lease on being the back-end.
//!
//! ```text
//!   attach ─▶ copied anew, piece by piece, where both differ ─▶ bound ─▶ whole          every persist goes to the mirror meanwhile
//!   copy(spans)   WRITE, WRITE, READ            where the mirror's platform has a plan for that
//!                 WRITE, WRITE, SEND of settle  elsewhere: the mirror makes the places durable, and answers
//! ```
//!
//! A mirror that was bound is compared before the pool is opened, when nothing changes. Both copies hold states that a
//! power cut could have left at the end of the back-end's last run, so each mixture of both is such a state, and the
//! mirror could become the back-end at any moment of the comparison.
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
use stonecast_session::{Endpoint, Listener, Queues, Side};

use super::bytes::{PIECE_SIZE, common, digest};
use crate::backend::{Copying, Medium, Mirror, MirrorLost, PoolGeometry, Role, Standing};
use crate::frontend::{FrontEndError, Reply, Talk};
use crate::wire::{Answer, GREETING, MirrorStat, REQUESTS_MAX, Request, SPANS_MAX, Source};

/// Outstanding work requests of a link: batches with their places, and requests.
pub(crate) const LINK_SENDS: u32 = 64;
/// Batches under way, at most. Requests of other kinds find a slot beside them.
const BATCHES_MAX: u64 = 4;
/// The pause before a mirror is asked again that has something to end first.
const PAUSE_NS: Nanoseconds = 1_000_000;
/// The back-end renews its lease when this part of it has passed.
const RENEWED_AFTER: u64 = 4;

/// The reason why a back-end does not start with this mirror.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AttachError {
    /// There is no connection.
    #[error("the mirror cannot be reached: {0}")]
    Connect(FrontEndError),
    /// No plan makes bytes durable there.
    #[error(transparent)]
    NoAgreement(#[from] NoAgreement),
    /// The device refused a call.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// The medium of this pool failed.
    #[error(transparent)]
    Persist(#[from] PersistError),
    /// The mirror was lost meanwhile.
    #[error(transparent)]
    Lost(#[from] MirrorLost),
    /// The pool is a mirror itself.
    #[error(
        "this pool is a mirror of generation {generation}; serve it as a mirror, or promote it"
    )]
    IsMirror {
        /// Its generation.
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
    /// The mirror is whole, and this pool is bound to none: it is an old copy.
    #[error(
        "the mirror was bound by a later state of this pool than the pool holds: the pool was restored from an old copy. Promote the mirror"
    )]
    Older,
    /// The pool of the mirror holds something else, or is smaller than this pool.
    #[error(
        "the pool of the mirror holds something else, or is smaller than this pool; give the mirror an empty folder and the same capacity"
    )]
    Foreign,
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
    /// Names the pool of the mirror.
    uuid: u128,
}

struct State {
    appender: LentAppender,
    listener: Listener,
    /// The requests behind batches that the mirror answers, with the numbers of the batches.
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

fn lost(reason: impl ToString) -> MirrorLost {
    MirrorLost {
        reason: reason.to_string(),
    }
}

impl MirrorLink {
    /// Connects to the mirror at `address`. `lease_ns`: the mirror waits for so long after the last message of this
    /// back-end before it becomes the back-end. Returns the medium with which the back-end has to work from now on. A
    /// mirror that the pool is bound to is whole when the call returns; another one is filled while the service runs
    /// ([`Service::with_mirror`](crate::Service::with_mirror)).
    ///
    /// # Errors
    /// [`AttachError`]: the pool must not be served. A crash leaves the pool as it was.
    pub async fn attach(
        port: &Rc<Port>,
        runtime: Rc<dyn Runtime>,
        medium: Medium,
        (address, lease_ns): (&str, Nanoseconds),
    ) -> Result<(Rc<Medium>, Rc<Self>), AttachError> {
        let alone = Standing::alone(medium.uuid, medium.key.0);
        let mut standing = Standing::read(medium.bytes()).unwrap_or(alone);
        if standing.role != Role::BackEnd {
            let generation = standing.generation;
            return Err(AttachError::IsMirror { generation });
        }
        standing.generation = standing.generation.max(1);
        let talk = connected(port, address)
            .await
            .map_err(AttachError::Connect)?;
        let source = Source {
            uuid: medium.uuid,
            key: medium.key.0,
            generation: standing.generation,
            size: medium.region.size(),
            lease_ns,
        };
        let began_at = runtime.now();
        let joined = join(&talk, &runtime, source).await?;
        let is_bound = standing.mirror != 0;
        if is_bound && standing.mirror != joined.uuid {
            return Err(AttachError::OtherMirror);
        }
        if !is_bound && joined.is_whole {
            return Err(AttachError::Older);
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

    /// Does a part of what is to be done beside the requests of front-ends: renews the lease, and fills a new mirror.
    /// The back-end is bound to the mirror when it has everything.
    pub(crate) async fn go_on(&self, medium: &Medium) -> Result<(), MirrorLost> {
        self.look()?;
        if self.is_bound() {
            return Ok(());
        }
        // Front-ends wait for one piece at most.
        if self.compared.get() < self.bytes.size() {
            self.compare().await?;
        }
        if self.compared.get() == self.bytes.size() {
            // The mirror may become the back-end from its last word on. By then this side acknowledges nothing without
            // it, whatever happens.
            let mut standing = self.standing.get();
            let next = Standing {
                mirror: self.uuid,
                ..standing
            };
            standing.replace(medium, next).await.map_err(lost)?;
            self.ask(Request::Whole).await?;
            self.standing.set(standing);
        }
        Ok(())
    }

    /// Whether nothing is acknowledged without the mirror. Before, it is being filled.
    pub(crate) fn is_bound(&self) -> bool {
        self.standing.get().mirror == self.uuid
    }

    /// The rest of the time for which the mirror has promised not to become the back-end.
    pub(crate) fn lease_left(&self) -> Nanoseconds {
        self.lease.until.get().saturating_sub(self.runtime.now())
    }

    /// The state of the mirror, for people.
    pub(crate) fn stat(&self) -> MirrorStat {
        let state = self.state.borrow();
        MirrorStat {
            generation: self.standing.get().generation,
            bytes_to_copy: self.bytes.size() - self.compared.get(),
            batches_under_way: state.sent - state.durable,
            silent_ns: self.lease.size_ns.saturating_sub(self.lease_left()),
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

    /// Sends bytes, and what makes them durable.
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
                remote: RemoteAddress {
                    address: self.target.address + span.offset,
                    ..self.target
                },
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

    /// Renews the lease in time. Waits for nothing.
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
            flush: RemoteAddress {
                address: joined.target.address + word,
                ..joined.target
            },
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

/// The answer of a mirror that takes the back-end as its source.
struct Joined {
    uuid: u128,
    is_whole: bool,
    target: RemoteAddress,
    agreement: LentAgreement,
}

/// A connection to the server of structures at `address`.
pub(super) async fn connected(port: &Rc<Port>, address: &str) -> Result<Talk, FrontEndError> {
    let endpoint = Endpoint::new(
        port,
        Queues {
            send_capacity: LINK_SENDS,
            receive_capacity: REQUESTS_MAX as u32,
            shared_receive_queue: None,
            windows: false,
            rnr_retry_count: 1000,
            rnr_retry_delay_ns: 100_000,
        },
    )?;
    let talk = Talk::new(endpoint)?;
    let said = talk.endpoint.connect(address, &GREETING.say(b"")).await?;
    GREETING.hear(Side::Server, &said)?;
    Ok(talk)
}

/// Asks for the place of the source, until the mirror has ended what it had before.
async fn join(
    talk: &Talk,
    runtime: &Rc<dyn Runtime>,
    source: Source,
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
                    agreement: LentAgreement::hear(&lending, Durability::Process)?,
                });
            }
            Answer::Later { wait_ns } => runtime.sleep(wait_ns.min(PAUSE_NS)).await,
            Answer::IsBackEnd { generation } | Answer::IsMirror { generation, .. } => {
                return Err(AttachError::Superseded {
                    theirs: generation,
                    ours: source.generation,
                });
            }
            _ => return Err(AttachError::Foreign),
        }
    }
}
