//! The process of a mirror: one source fills its pool, until an operator makes the mirror the back-end.
//!
//! ```text
//!   join ─▶ a window on the whole pool ─▶ WRITEs of the source, digests, settle ─▶ whole
//!   admit ─▶ a pass ─▶ a front-end enters with it: a window on one log ─▶ WRITEs of the front-end ─▶ expel
//!   promote ─▶ the lease of the source is over? ─▶ all windows are closed? ─▶ standing of the next generation, durable ─▶ the caller serves the pool
//! ```
//!
//! Invariants:
//! - A front-end has a window only while its source has one.
//! - No write of a source that was ended, or of its front-ends, reaches the pool after the next source joins, or after
//!   the pool is promoted.
//!
//! A crash leaves a mirror of the same standing, and a part of the bytes that were not settled.

use std::collections::BTreeMap;
use std::rc::Rc;

use stonecast_base::{Nanoseconds, Span, mutant};
use stonecast_fabric::{
    Access, ConnectionEvent, DeviceError, MemoryRegion, Port, QueuePair, Received, Rkey, Runtime,
};
use stonecast_persist::execute::LENDING_SIZE;
use stonecast_session::{AnswerRing, Ended, Ending, Lease, Lessor, Opening, Revocations};

use super::admissions::{Admissions, Expulsion};
use super::bytes::digest;
use crate::backend::{Medium, PoolGeometry, Role, Standing};
use crate::service::{Message, Reception, ServiceError};
use crate::standing_record::{Asking, Claim};
use crate::wire::{Answer, LogKey, Request, Source};

/// Rounds in which arrivals of an ended connection are collected.
const PUMPS_MAX: u32 = 16;
/// The longest time between two looks at endings.
const LOOK_NS: Nanoseconds = 1_000_000;
/// The pause before a peer asks again.
const PAUSE_NS: Nanoseconds = 1_000_000;
/// The inverse of the greatest relative difference between the rates of two clocks.
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
    /// The moment of the latest message of a source.
    heard_at: Nanoseconds,
    /// Whether a source may still write to the pool although its window was closed.
    is_unquiesced: bool,
    admissions: Admissions,
}

/// The object of the lease of a peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Intake {
    /// Of a source: the whole pool.
    Pool,
    /// Of a front-end: the log for which this pass was given.
    Log(u64),
}

struct Peer {
    answers: AnswerRing,
    /// The window of a source or of a front-end.
    intake: Option<Lease<Intake>>,
}

impl Peer {
    fn intake(&self) -> Option<Intake> {
        self.intake.as_ref().map(|lease| *lease.object())
    }
}

/// The generation of the mirror whose pool `region` is; `None`: the pool belongs to a back-end, or has no content.
pub fn generation_of_mirror(region: &dyn stonecast_media::Region) -> Option<u64> {
    let standing = Standing::read(region)?;
    (standing.role != Role::BackEnd).then_some(standing.generation)
}

/// A mirror that has become the back-end: the pool has to be served with this name and seed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Promoted {
    /// The generation of the back-end.
    pub generation: u64,
    /// The name of the content.
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
    /// Whether a pool has content that was made there and never had another copy. Such a pool cannot become a mirror.
    pub fn has_own_content(region: &dyn stonecast_media::Region) -> bool {
        Standing::read(region).is_none() && region.load(0) != 0
    }

    /// Listens at `address` for the back-end whose copy the pool holds, or will hold. A back-end that was succeeded by
    /// its mirror gives up its content here: the next source copies the pool again. `medium` has the name of the pool
    /// itself, whatever content was copied into it: by that name a back-end recognizes its mirror.
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
        if let Some(standing) = &standing {
            medium.check_record(standing)?;
        }
        if let Some(record) = medium.record() {
            record.begin_to_follow();
        }
        if standing.is_some() {
            // Front-ends of an earlier back-end may still read its memory.
            let before = medium.region.load(serving);
            medium.region.store(serving, before | 1);
        }
        let server = Self {
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
            admissions: Admissions::default(),
        };
        server.tell_record();
        Ok(server)
    }

    /// Serves until the mirror becomes the back-end: on the request of an operator, and with a standing record also by
    /// itself. A future that is dropped leaves the pool as a crash does.
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
            let mut promoted = self.serve(round).await?;
            if let Some(record) = self.medium.record() {
                record.go_on();
            }
            if promoted.is_none() && self.asking().is_some() {
                let answer = self.promote().await?;
                promoted = self.promoted(&answer);
            }
            if let Some(promoted) = promoted {
                // The answer leaves before the caller ends the connections.
                self.runtime.sleep(PAUSE_NS).await;
                return Ok(promoted);
            }
            for arrival in self.revocations.take_untaken() {
                self.reception.repost(&arrival)?;
            }
            for ended in self.revocations.take_ended() {
                self.note_closed(&ended);
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

    /// Ends a connection, and closes its window. The windows of front-ends end with that of their source.
    fn end(&mut self, qp: QueuePair) {
        let Some(peer) = self.peers.remove(&qp) else {
            return;
        };
        let intake = peer.intake();
        if let Some(Intake::Log(pass)) = intake {
            self.admissions.leave(pass);
        }
        self.revocations.begin(Ending {
            connection: Some(qp),
            leases: peer.intake.into_iter().collect(),
            regions: vec![peer.answers.region()],
            ..Ending::default()
        });
        if intake == Some(Intake::Pool) && !mutant!(MirrorLogsLeftOpen) {
            let is_of_front_end = |peer: &Peer| matches!(peer.intake(), Some(Intake::Log(_)));
            let peers = self.peers.iter();
            let front_ends = peers.filter(|(_, peer)| is_of_front_end(peer));
            let front_ends: Vec<QueuePair> = front_ends.map(|(qp, _)| *qp).collect();
            front_ends.into_iter().for_each(|qp| self.end(qp));
        }
    }

    /// Notes that windows are closed.
    fn note_closed(&mut self, ended: &Ended<Intake>) {
        let revoked = ended.revoked.iter().map(|lease| (*lease.object(), false));
        let unquiesced = ended.unquiesced.iter().map(|lease| (*lease.object(), true));
        for (intake, is_unquiesced) in revoked.chain(unquiesced) {
            match intake {
                Intake::Pool => self.is_unquiesced |= is_unquiesced,
                Intake::Log(pass) => self.admissions.note_gone(pass, is_unquiesced),
            }
        }
    }

    /// Executes the received requests in their order. Places that came together become durable together.
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
                && let Some(promoted) = self.promoted(&answer)
            {
                return Ok(Some(promoted));
            }
        }
        self.settle(&mut settled).await?;
        Ok(None)
    }

    /// The pool after a promotion with this answer.
    fn promoted(&self, answer: &Answer) -> Option<Promoted> {
        match (answer, &self.standing) {
            (Answer::IsBackEnd { .. }, Some(standing)) => Some(Promoted::by(standing)),
            _ => None,
        }
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
        peer.is_some_and(|peer| peer.intake() == Some(Intake::Pool))
    }

    /// The connection of the source.
    fn source(&self) -> Option<QueuePair> {
        let mut peers = self.peers.iter();
        peers
            .find(|(_, peer)| peer.intake() == Some(Intake::Pool))
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
            Request::Admit { log } if is_source && log.fits(self.medium.region.size()) => {
                let pass = self.admissions.admit(log);
                Answer::Admitted { pass }
            }
            Request::Expel { pass } if is_source => self.expel(pass),
            Request::Enter { pass } => self.enter(qp, pass),
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

    /// Gives a front-end its window on a log.
    fn enter(&mut self, qp: QueuePair, pass: u64) -> Answer {
        let has_window = self.peers[&qp].intake.is_some();
        let log = (!has_window).then(|| self.admissions.enter(pass, qp));
        let Some(log) = log.flatten() else {
            return Answer::NotYours;
        };
        // The READ after the records needs a place.
        let access = Access::REMOTE_WRITE.and(Access::REMOTE_READ);
        let opening = Opening {
            region: self.memory,
            span: log,
            access,
        };
        match self.grant(qp, Intake::Log(pass), opening) {
            Ok(rkey) => Answer::Entered {
                address: self.memory.address,
                rkey: rkey.0.into(),
                lending: self.lending,
            },
            Err(_) => {
                self.admissions.leave(pass);
                Answer::NoRoom
            }
        }
    }

    /// Closes the window of a front-end.
    fn expel(&mut self, pass: u64) -> Answer {
        match self.admissions.expel(pass) {
            Expulsion::Done => Answer::Settled,
            Expulsion::Unquiesced => Answer::Unquiesced,
            Expulsion::End(qp) => {
                self.end(qp);
                Answer::Later { wait_ns: 0 }
            }
            Expulsion::Later => Answer::Later { wait_ns: 0 },
        }
    }

    /// Opens a window to a peer.
    fn grant(
        &mut self,
        qp: QueuePair,
        intake: Intake,
        opening: Opening,
    ) -> Result<Rkey, DeviceError> {
        let lessor = Lessor {
            port: &self.port,
            epoch: self.standing.map_or(0, |standing| standing.generation),
        };
        let now = self.runtime.now();
        match lessor.grant(qp, intake, &[opening], now) {
            Ok(lease) => {
                let rkey = lease.windows()[0];
                let peer = self.peers.get_mut(&qp).expect("it has just asked");
                peer.intake = Some(lease);
                Ok(rkey)
            }
            Err((lease, error)) => {
                let leases = vec![lease];
                self.revocations.begin(Ending {
                    leases,
                    ..Ending::default()
                });
                Err(error)
            }
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
        self.tell_record();
        Ok(())
    }

    /// The mirror as its standing record knows it; `None`: the mirror is not whole, or has no record.
    fn asking(&self) -> Option<Asking> {
        let record = self.medium.record()?;
        let is_whole = self.standing?.role == Role::Mirror;
        is_whole.then(|| record.asking(&self.medium))
    }

    fn tell_record(&self) {
        if let Some(record) = self.medium.record() {
            record.follow(self.asking());
        }
    }

    /// The obstacle to a change of the source: its connection, or writes of an earlier source or its front-ends.
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
        let record = self.medium.record();
        if source.is_recorded != record.is_some() {
            return Ok(Answer::RecordOfOne);
        }
        if let Some(generation) = self.won().filter(|won| source.generation < *won) {
            return Ok(Answer::IsBackEnd { generation });
        }
        if self.admissions.is_unquiesced() {
            return Ok(Answer::Later { wait_ns: PAUSE_NS });
        }
        if let Some(obstacle) = self.obstacle() {
            return Ok(obstacle);
        }
        self.admissions.clear();
        let new = Standing::alone(source.uuid, source.key);
        self.standing.get_or_insert(new);
        self.stand(|standing| {
            // A copy of an earlier generation may hold bytes that this generation lacks: no part of the copy counts
            // before the comparison.
            let is_same = standing.generation == source.generation && standing.role == Role::Mirror;
            if !is_same && !mutant!(ReturningTaken) {
                standing.role = Role::Copying;
            } else {
                standing.role = Role::Mirror;
            }
            standing.generation = source.generation;
            standing.mirror = 0;
            standing.lease_ns = source.lease_ns;
            standing.is_recorded = source.is_recorded;
        })
        .await?;
        self.open_window(qp)
    }

    fn open_window(&mut self, qp: QueuePair) -> Result<Answer, ServiceError> {
        let access = Access::REMOTE_WRITE.and(Access::REMOTE_READ);
        let rkey = self.grant(qp, Intake::Pool, Opening::whole(self.memory, access))?;
        self.heard_at = self.runtime.now();
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

    /// Becomes the back-end once no other server can be: the lease of the source is over, and its window is closed.
    async fn promote(&mut self) -> Result<Answer, ServiceError> {
        let Some(standing) = self.standing.filter(|known| known.role == Role::Mirror) else {
            return Ok(Answer::NotWhole);
        };
        if self.won().is_some()
            && let Some(source) = self.source()
        {
            // The source was succeeded, and its mirror no longer answers it.
            self.end(source);
        }
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
        match self.claim() {
            Claim::Won => {}
            Claim::Waiting => return Ok(Answer::Later { wait_ns: PAUSE_NS }),
            Claim::Overtaken => {
                // The back-end has started, and has a lease to come.
                self.heard_at = self.runtime.now();
                return Ok(Answer::Later { wait_ns: PAUSE_NS });
            }
            Claim::Refused { generation } => return Ok(Answer::NotNamed { generation }),
        }
        let generation = standing.generation + 1;
        self.stand(|standing| {
            standing.role = Role::BackEnd;
            standing.generation = generation;
        })
        .await?;
        Ok(Answer::IsBackEnd { generation })
    }

    /// Claims the next generation in the standing record, if there is one.
    fn claim(&self) -> Claim {
        match (self.medium.record(), self.asking()) {
            (Some(record), Some(asking)) if !mutant!(PromotedUnrecorded) => record.claim(asking),
            _ => Claim::Won,
        }
    }

    /// The generation that the mirror has won in the standing record, and that its pool is about to have.
    fn won(&self) -> Option<u64> {
        let won = self.medium.record()?.won()?;
        let standing = self.standing?;
        (won > standing.generation).then_some(won)
    }
}
