//! The process of a mirror: one source fills its pool, until an operator makes the mirror the back-end.
//!
//! ```text
//!   join ─▶ a window on the whole pool ─▶ WRITEs of the source, digests, settle ─▶ whole
//!   promote ─▶ the lease of the source is over? ─▶ its window is closed? ─▶ standing of the next generation, durable ─▶ the caller serves the pool
//! ```
//!
//! Nothing of a source that was ended reaches the pool when the next one joins, or when the pool is promoted.
//!
//! A crash leaves a mirror of the same standing, and a part of the bytes that were not settled.

use std::collections::BTreeMap;
use std::rc::Rc;

use stonecast_base::{Nanoseconds, Span, mutant};
use stonecast_fabric::{Access, ConnectionEvent, MemoryRegion, Port, QueuePair, Received, Runtime};
use stonecast_persist::execute::LENDING_SIZE;
use stonecast_session::{AnswerRing, Ended, Ending, Lease, Lessor, Opening, Revocations};

use super::bytes::digest;
use crate::backend::{Medium, PoolGeometry, Role, Standing};
use crate::service::{Message, Reception, ServiceError};
use crate::wire::{Answer, LogKey, Request, Source};

/// Rounds in which arrivals of an ended connection are collected.
const PUMPS_MAX: u32 = 16;
/// The longest time between two looks at endings.
const LOOK_NS: Nanoseconds = 1_000_000;
/// The pause before a peer asks again.
const PAUSE_NS: Nanoseconds = 1_000_000;
/// A clock may be slower than another by one part in so many.
const DRIFT: u64 = 16;

/// A mirror that serves its source.
pub struct MirrorServer {
    port: Rc<Port>,
    runtime: Rc<dyn Runtime>,
    medium: Rc<Medium>,
    memory: MemoryRegion,
    /// The description of the memory for the source.
    lending: [u8; LENDING_SIZE],
    reception: Reception,
    revocations: Revocations<Intake>,
    peers: BTreeMap<QueuePair, Peer>,
    /// `None`: the pool is empty.
    standing: Option<Standing>,
    /// The moment of the latest word of a source.
    heard_at: Nanoseconds,
    /// Whether a source may still write to the pool although its window was closed.
    is_unquiesced: bool,
}

/// The object of the lease of a source: the whole pool.
#[derive(Debug)]
struct Intake;

struct Peer {
    answers: AnswerRing,
    /// The window of a source.
    intake: Option<Lease<Intake>>,
}

/// The generation of the mirror whose pool `region` is; `None`: the pool is a back-end's, or nobody's.
pub fn generation_of_mirror(region: &dyn stonecast_media::Region) -> Option<u64> {
    let standing = Standing::read(region)?;
    (standing.role != Role::BackEnd).then_some(standing.generation)
}

/// A mirror that has become the back-end: the pool has to be served with this name and seed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Promoted {
    /// The generation of the back-end.
    pub generation: u64,
    /// Names the content.
    pub content: u128,
    /// Seed of the tags of records.
    pub key: LogKey,
    /// Whether the back-end acknowledges nothing without a mirror of its own.
    pub is_bound: bool,
}

impl Promoted {
    /// The content of a pool that has had another copy and is the back-end's; `None`: the pool is a mirror, or has
    /// content of its own.
    pub fn of(region: &dyn stonecast_media::Region) -> Option<Self> {
        let standing = Standing::read(region)?;
        (standing.role == Role::BackEnd).then(|| Self::by(&standing))
    }

    fn by(standing: &Standing) -> Self {
        Self {
            generation: standing.generation,
            content: standing.content,
            key: LogKey(standing.key),
            is_bound: standing.mirror != 0,
        }
    }
}

impl MirrorServer {
    /// Whether a pool has content that was made there and never had another copy. Such a pool is nobody's mirror.
    pub fn has_own_content(region: &dyn stonecast_media::Region) -> bool {
        Standing::read(region).is_none() && region.load(0) != 0
    }

    /// Listens at `address` for the back-end whose copy the pool holds, or will hold. A back-end that a mirror has
    /// followed gives up its place with it: the mirror's next source copies the pool anew. `medium` has the name of the
    /// pool itself, whatever content was copied into it: by that name a back-end knows its mirror again.
    ///
    /// # Errors
    /// [`ServiceError`]: nothing is served, and the pool is as it was.
    pub fn start(
        port: Rc<Port>,
        runtime: Rc<dyn Runtime>,
        medium: Rc<Medium>,
        address: &str,
    ) -> Result<Self, ServiceError> {
        let device = port.device();
        let lending = medium
            .lending()
            .say(medium.region.means(), device.placing())?;
        let memory = device.register_persistent(medium.region.clone(), Access::NONE)?;
        let serving = PoolGeometry::serving_word().offset;
        let standing = Standing::read(medium.bytes());
        if standing.is_some() {
            // Front-ends of an earlier back-end may still look at its memory.
            let before = medium.region.load(serving);
            medium.region.store(serving, before | 1);
        }
        Ok(Self {
            reception: Reception::open(&port, address)?,
            revocations: Revocations::new(port.clone(), runtime.clone(), PUMPS_MAX),
            heard_at: runtime.now(),
            port,
            runtime,
            medium,
            memory,
            lending,
            peers: BTreeMap::new(),
            standing,
            is_unquiesced: false,
        })
    }

    /// Serves until the mirror becomes the back-end. A future that is dropped leaves the pool as a crash does.
    ///
    /// # Errors
    /// [`ServiceError`].
    pub async fn run(&mut self) -> Result<Promoted, ServiceError> {
        loop {
            while let Some(event) = self.port.take_event() {
                match event {
                    ConnectionEvent::Request {
                        request,
                        private_data,
                        ..
                    } => {
                        let others = self.peers.len();
                        let accepted = self.reception.accept(request, &private_data, others);
                        let peer = accepted.map(|(qp, answers)| {
                            let intake = None;
                            (qp, Peer { answers, intake })
                        });
                        self.peers.extend(peer);
                    }
                    ConnectionEvent::Disconnected { qp, .. } => self.end(qp),
                    ConnectionEvent::Established { .. } | ConnectionEvent::Rejected { .. } => {}
                }
            }
            let mut round = Vec::new();
            while let Some(received) = self.port.take_received() {
                round.extend(self.arrived(&received)?);
            }
            if let Some(promoted) = self.serve(round).await? {
                // The answer leaves before the caller ends the connections.
                self.runtime.sleep(PAUSE_NS).await;
                return Ok(promoted);
            }
            for arrival in self.revocations.take_untaken() {
                self.reception.repost(&arrival)?;
            }
            for Ended { unquiesced, .. } in self.revocations.take_ended() {
                self.is_unquiesced |= !unquiesced.is_empty();
            }
            // Either result ends the wait.
            let _ = self.runtime.within(LOOK_NS, self.port.activity()).await;
        }
    }

    fn arrived(
        &mut self,
        received: &Received,
    ) -> Result<Option<(QueuePair, Request)>, ServiceError> {
        let taken = self.reception.take(received)?;
        let qp = received.qp;
        if !self.peers.contains_key(&qp) {
            return Ok(None);
        }
        if let Message::Nonsense = taken {
            self.end(qp);
        }
        Ok(match taken {
            Message::Request(request) => Some((qp, request)),
            Message::Nonsense | Message::Nothing => None,
        })
    }

    /// Ends a connection, and closes its window.
    fn end(&mut self, qp: QueuePair) {
        if let Some(peer) = self.peers.remove(&qp) {
            self.revocations.begin(Ending {
                connection: Some(qp),
                leases: peer.intake.into_iter().collect(),
                regions: vec![peer.answers.region()],
                ..Ending::default()
            });
        }
    }

    /// Does the requests that have come, in their order. Places that came together become durable together.
    async fn serve(
        &mut self,
        round: Vec<(QueuePair, Request)>,
    ) -> Result<Option<Promoted>, ServiceError> {
        let mut settled = Vec::new();
        for (qp, request) in round {
            if self.is_source(qp) {
                self.heard_at = self.runtime.now();
            }
            if let Request::Settle { spans } = request
                && self.is_source(qp)
            {
                settled.push((qp, spans));
                continue;
            }
            self.settle(&mut settled).await?;
            let answer = self.answer(qp, request).await?;
            self.send(qp, &answer);
            if request == Request::Promote
                && let (Answer::IsBackEnd { .. }, Some(standing)) = (answer, &self.standing)
            {
                return Ok(Some(Promoted::by(standing)));
            }
        }
        self.settle(&mut settled).await?;
        Ok(None)
    }

    async fn settle(
        &mut self,
        settled: &mut Vec<(QueuePair, [Span; crate::wire::SPANS_MAX])>,
    ) -> Result<(), ServiceError> {
        let size = self.medium.region.size();
        let spans = settled.iter().flat_map(|(_, spans)| spans);
        let spans: Vec<Span> = spans
            .copied()
            .filter(|span| span.size > 0 && span.fits(size))
            .collect();
        if !spans.is_empty() {
            self.medium.region.mark_changed(&spans);
            let _persisted = self.medium.persist_here(&spans).await?;
        }
        for (qp, _) in settled.drain(..) {
            self.send(qp, &Answer::Settled);
        }
        Ok(())
    }

    fn send(&mut self, qp: QueuePair, answer: &Answer) {
        if let Some(peer) = self.peers.get_mut(&qp) {
            peer.answers.send(&self.port, qp, &answer.encode());
            if peer.answers.is_stuck() {
                self.end(qp);
            }
        }
    }

    fn is_source(&self, qp: QueuePair) -> bool {
        let peer = self.peers.get(&qp);
        peer.is_some_and(|peer| peer.intake.is_some())
    }

    /// The connection of the source.
    fn source(&self) -> Option<QueuePair> {
        let mut peers = self.peers.iter();
        peers
            .find(|(_, peer)| peer.intake.is_some())
            .map(|(qp, _)| *qp)
    }

    async fn answer(&mut self, qp: QueuePair, request: Request) -> Result<Answer, ServiceError> {
        let is_source = self.is_source(qp);
        Ok(match request {
            Request::Join(source) => self.join(qp, source).await?,
            Request::Digest { span } if is_source && span.fits(self.medium.region.size()) => {
                let digest = digest(self.medium.bytes(), span);
                Answer::Digest { digest }
            }
            Request::Renew if is_source => Answer::Settled,
            Request::Whole if is_source => {
                self.stand(|standing| standing.role = Role::Mirror).await?;
                Answer::Settled
            }
            Request::Promote => self.promote().await?,
            _ => self.is_mirror(),
        })
    }

    fn is_mirror(&self) -> Answer {
        let standing = self.standing.as_ref();
        Answer::IsMirror {
            generation: standing.map_or(0, |standing| standing.generation),
            is_whole: standing.is_some_and(|standing| standing.role == Role::Mirror),
        }
    }

    /// Changes the standing, durably.
    async fn stand(&mut self, change: impl FnOnce(&mut Standing)) -> Result<(), ServiceError> {
        let standing = self.standing.as_mut().expect("a source has joined");
        let mut next = *standing;
        change(&mut next);
        if next != *standing {
            standing.replace(&self.medium, next).await?;
        }
        Ok(())
    }

    /// What stands in the way of a change of the source: its connection, or writes of an earlier one.
    fn obstacle(&mut self) -> Option<Answer> {
        let is_ending = self.revocations.under_way() > 0 || self.revocations.leases_to_come() > 0;
        let may_be_written = self.is_unquiesced || !self.medium.earlier_writers_are_gone();
        if let Some(source) = self.source() {
            self.end(source);
        } else if !is_ending && !may_be_written {
            return None;
        }
        Some(Answer::Later { wait_ns: PAUSE_NS })
    }

    /// Gives the place of the source to a back-end, with a window on the whole pool.
    async fn join(&mut self, qp: QueuePair, source: Source) -> Result<Answer, ServiceError> {
        let region = &self.medium.region;
        let is_empty = self.standing.is_some() || region.load(0) == 0;
        let fits = source.size <= region.size();
        let known = self.standing;
        let is_known = known.is_none_or(|known| known.content == source.uuid);
        if !is_empty || !fits || !is_known {
            return Ok(Answer::Foreign);
        }
        if let Some(known) = known {
            let is_older = source.generation < known.generation;
            let is_rival = known.role == Role::BackEnd && source.generation == known.generation;
            if is_older || is_rival {
                let generation = known.generation;
                return Ok(Answer::IsBackEnd { generation });
            }
        }
        if let Some(obstacle) = self.obstacle() {
            return Ok(obstacle);
        }
        let new = Standing::alone(source.uuid, source.key);
        self.standing.get_or_insert(new);
        self.stand(|standing| {
            // A copy of an earlier generation may hold what this one does not: nothing of it counts before it was
            // compared.
            let is_same = standing.generation == source.generation && standing.role == Role::Mirror;
            if !is_same && !mutant!(ReturningTaken) {
                standing.role = Role::Copying;
            } else {
                standing.role = Role::Mirror;
            }
            standing.generation = source.generation;
            standing.mirror = 0;
            standing.lease_ns = source.lease_ns;
        })
        .await?;
        self.open_window(qp)
    }

    fn open_window(&mut self, qp: QueuePair) -> Result<Answer, ServiceError> {
        let lessor = Lessor {
            port: &self.port,
            epoch: self.standing.map_or(0, |standing| standing.generation),
        };
        let access = Access::REMOTE_WRITE.and(Access::REMOTE_READ);
        let opening = Opening::whole(self.memory, access);
        let now = self.runtime.now();
        let lease = match lessor.grant(qp, Intake, &[opening], now) {
            Ok(lease) => lease,
            Err((lease, error)) => {
                let leases = vec![lease];
                self.revocations.begin(Ending {
                    leases,
                    ..Ending::default()
                });
                return Err(error.into());
            }
        };
        let rkey = lease.windows()[0];
        self.heard_at = now;
        let peer = self.peers.get_mut(&qp).expect("it has just asked");
        peer.intake = Some(lease);
        Ok(Answer::Joined {
            uuid: self.medium.uuid,
            is_whole: self
                .standing
                .is_some_and(|standing| standing.role == Role::Mirror),
            address: self.memory.address,
            rkey: rkey.0.into(),
            lending: self.lending,
        })
    }

    /// Becomes the back-end, once no other can be: the lease of the source is over, and its window is closed.
    async fn promote(&mut self) -> Result<Answer, ServiceError> {
        let Some(standing) = self.standing.filter(|known| known.role == Role::Mirror) else {
            return Ok(Answer::NotWhole);
        };
        let lease_ns = standing.lease_ns + standing.lease_ns / DRIFT;
        let silent_ns = self.runtime.now().saturating_sub(self.heard_at);
        if silent_ns <= lease_ns && !mutant!(PromotedEarly) {
            let wait_ns = lease_ns - silent_ns + 1;
            return Ok(Answer::Later { wait_ns });
        }
        if !mutant!(PromotedUnfenced)
            && let Some(obstacle) = self.obstacle()
        {
            return Ok(obstacle);
        }
        let generation = standing.generation + 1;
        self.stand(|standing| {
            standing.role = Role::BackEnd;
            standing.generation = generation;
        })
        .await?;
        Ok(Answer::IsBackEnd { generation })
    }
}
