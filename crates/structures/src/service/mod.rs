//! The back-end's process: connections of front-ends, their leases, and the end of both.
//!
//! ```text
//!   request ─▶ pool: create, give a slab, grant, take, trim          a lease: the window on the log of a tenure
//!   connection gone, or lease not renewed ─▶ raise the word ─▶ revoke ─▶ (beside the task) ─▶ hand over
//! ```
//!
//! One task serves all front-ends. A front-end that is stopped in a write delays the revocation of its own window, and
//! nothing else.

mod counts;
mod reception;

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use stonecast_base::{Nanoseconds, Span, mutant};
use stonecast_fabric::{
    Access, ConnectionEvent, ConnectionRequest, DeviceError, MemoryRegion, Port, QueuePair,
    Received, Rkey, Runtime,
};
use stonecast_media::PersistError;
use stonecast_persist::Persisted;
use stonecast_persist::execute::{ExecuteError, LENDING_SIZE};
use stonecast_session::{AnswerRing, Ended, Ending, Lease, Lessor, Opening, Revocations};

use crate::backend::{
    Domain, DomainError, Execute, Gathered, Medium, MirrorLost, Records, Replayed, StandingError,
    Stopped, StructurePool, Taken, Territory,
};
use crate::executor::Executor;
use crate::mirror::{LINK_SENDS, MirrorLink};
use crate::standing_record::{OpenError, StandingRecordError};
use crate::wire::{Answer, FrontEndName, Request, SLABS_MAX};

use counts::Counts;
use reception::RECEIVES;
pub(crate) use reception::{Message, Reception};

/// Rounds in which arrivals of an ended connection are collected.
const PUMPS_MAX: u32 = 16;
/// The longest time between two looks at leases.
const LOOK_NS: Nanoseconds = 1_000_000;
/// The longest time between two looks at leases while a mirror is being filled.
const FILLING_NS: Nanoseconds = 10_000;
/// Entries of the completion queues that the port of a back-end needs.
pub const SERVICE_COMPLETIONS: u32 = RECEIVES + LINK_SENDS;

/// A back-end that serves.
pub struct Service {
    port: Rc<Port>,
    runtime: Rc<dyn Runtime>,
    medium: Rc<Medium>,
    pool: StructurePool,
    lent: Lent,
    reception: Reception,
    revocations: Revocations<Tenancy>,
    front_ends: BTreeMap<QueuePair, FrontEnd>,
    /// The latest owner of the tenure of each domain. A tenure outlives its owner's connection.
    holders: BTreeMap<u32, FrontEndName>,
    terms: Terms,
    counts: Counts,
    mirror: Option<Mirroring>,
}

/// The memory that front-ends read.
#[derive(Clone, Copy)]
struct Lent {
    memory: MemoryRegion,
    /// The description of the memory for front-ends.
    lending: [u8; LENDING_SIZE],
}

/// The mirror of the pool.
struct Mirroring {
    link: Rc<MirrorLink>,
    /// Tenures whose window here is closed, and whose owner may still write to the log at the mirror, by its pass.
    expelling: BTreeMap<u64, (Tenancy, Stopped)>,
}

/// The limits on owners of tenures.
#[derive(Clone, Copy, Debug)]
struct Terms {
    /// The time without an append or a request after which a tenure is ended.
    lease_ns: Nanoseconds,
    /// The most slabs of a domain.
    quota: usize,
}

/// The object of a lease: the tenure of a domain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Tenancy {
    domain: u32,
    /// The pass of the owner for the log at the mirror.
    pass: Option<u64>,
}

struct FrontEnd {
    answers: AnswerRing,
    reads: Option<Rkey>,
    leases: Vec<Lease<Tenancy>>,
    /// The moment at which the front-end's oldest snapshot was taken, if any.
    snapshot: Option<Nanoseconds>,
}

/// The reason why a back-end no longer serves.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServiceError {
    /// The device refused a call.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// No front-end can append durably.
    #[error(transparent)]
    Execute(#[from] ExecuteError),
    /// The medium failed.
    #[error(transparent)]
    Persist(#[from] PersistError),
    /// The pool is damaged, or its medium failed.
    #[error(transparent)]
    Domain(#[from] DomainError),
    /// The pool is a mirror, or may not be served without its mirror.
    #[error(transparent)]
    Standing(#[from] StandingError),
    /// The mirror no longer answers.
    #[error(transparent)]
    Mirror(#[from] MirrorLost),
    /// The standing record does not permit the pool to be served.
    #[error(transparent)]
    Record(#[from] StandingRecordError),
}

impl From<OpenError> for ServiceError {
    fn from(error: OpenError) -> Self {
        match error {
            OpenError::Record(error) => error.into(),
            OpenError::Persist(error) => error.into(),
        }
    }
}

impl Service {
    /// Opens the pool, ends all tenures of earlier runs, and listens at `address`. A tenure whose owner is silent for
    /// `lease_ns` is ended.
    ///
    /// # Errors
    /// [`ServiceError`]: nothing is served.
    pub async fn start(
        port: Rc<Port>,
        runtime: Rc<dyn Runtime>,
        medium: Rc<Medium>,
        (address, lease_ns): (&str, Nanoseconds),
    ) -> Result<Self, ServiceError> {
        medium.check_role()?;
        if let Some(record) = medium.record().filter(|_| !medium.is_mirrored()) {
            record.open(&medium, true).await?;
        }
        medium.check_mirror()?;
        let placing = port.device().placing();
        let lending = medium.lending().say(medium.region.means(), placing)?;
        let key = medium.key;
        let mut executor = |place, territory: &Territory| {
            Box::new(Executor::new(key, place, territory.clone())) as Box<dyn Execute>
        };
        let pool = StructurePool::open(medium.clone(), &mut executor).await?;
        let device = port.device();
        let memory = device.register_persistent(medium.region.clone(), Access::NONE)?;
        let reception = Reception::open(&port, address)?;
        let revocations = Revocations::new(port.clone(), runtime.clone(), PUMPS_MAX);
        Ok(Self {
            port,
            runtime,
            medium,
            pool,
            lent: Lent { memory, lending },
            reception,
            revocations,
            front_ends: BTreeMap::new(),
            holders: BTreeMap::new(),
            terms: Terms {
                lease_ns,
                quota: SLABS_MAX,
            },
            counts: Counts::default(),
            mirror: None,
        })
    }

    /// Limits the slabs of a domain, its log left out. A domain that already has more slabs keeps them.
    #[must_use]
    pub fn with_quota(mut self, slabs: u64) -> Self {
        self.terms.quota = usize::try_from(slabs).map_or(SLABS_MAX, |slabs| slabs.min(SLABS_MAX));
        self
    }

    /// Bytes of a slab of the pool.
    pub fn slab_size(&self) -> u64 {
        self.pool.geometry().slab_size
    }

    /// The part of the logs that the opening of the pool has replayed.
    pub fn replayed(&self) -> Replayed {
        self.pool.replayed()
    }

    /// Keeps `mirror` up to date, which holds the copy of the service's medium ([`Medium::mirrored_by`]).
    #[must_use]
    pub fn with_mirror(mut self, mirror: Rc<MirrorLink>) -> Self {
        self.mirror = Some(Mirroring {
            link: mirror,
            expelling: BTreeMap::new(),
        });
        self
    }

    /// Serves until the pool fails, or its mirror is lost. A future that is dropped leaves the pool as a crash does;
    /// the caller then drops the service, too.
    ///
    /// # Errors
    /// [`ServiceError`].
    pub async fn run(&mut self) -> Result<(), ServiceError> {
        loop {
            while let Some(event) = self.port.take_event() {
                match event {
                    ConnectionEvent::Request {
                        request,
                        private_data,
                        ..
                    } => self.accept(request, &private_data),
                    ConnectionEvent::Disconnected { qp, .. } => self.end(qp),
                    ConnectionEvent::Established { .. } | ConnectionEvent::Rejected { .. } => {}
                }
            }
            let mut round = Vec::new();
            while let Some(received) = self.port.take_received() {
                round.extend(self.arrived(received)?);
            }
            self.serve(round).await?;
            for arrival in self.revocations.take_untaken() {
                self.reception.repost(&arrival)?;
            }
            for ended in self.revocations.take_ended() {
                self.note_closed(ended).await?;
            }
            self.note_expelled().await?;
            self.end_silent_leases().await?;
            if let Some(record) = self.medium.record() {
                record.attend(&self.medium).await?;
            }
            if let Some(mirror) = &self.mirror {
                mirror.link.go_on(&self.medium).await?;
            }
            let is_filling = self
                .mirror
                .as_ref()
                .is_some_and(|mirror| mirror.link.is_filling());
            let look_ns = if is_filling { FILLING_NS } else { LOOK_NS };
            // Either result ends the wait.
            let _ = self.runtime.within(look_ns, self.port.activity()).await;
        }
    }

    /// Accepts a front-end, or refuses it with a reason.
    fn accept(&mut self, request: ConnectionRequest, hello: &[u8]) {
        let others = self.front_ends.len();
        let Some((qp, answers)) = self.reception.accept(request, hello, others) else {
            return;
        };
        let front_end = FrontEnd {
            answers,
            reads: None,
            leases: Vec::new(),
            snapshot: None,
        };
        self.front_ends.insert(qp, front_end);
    }

    /// Ends a connection. Its tenures are handed over when their windows are closed.
    fn end(&mut self, qp: QueuePair) {
        let Some(front_end) = self.front_ends.remove(&qp) else {
            return;
        };
        for lease in &front_end.leases {
            self.raise(lease.object().domain);
        }
        self.revocations.begin(Ending {
            connection: Some(qp),
            windows: front_end.reads.into_iter().collect(),
            leases: front_end.leases,
            regions: vec![front_end.answers.region()],
        });
    }

    fn raise(&mut self, domain: u32) {
        if let Some(domain) = self.pool.domain(domain) {
            let _raised = domain.raise();
        }
    }

    /// Ends one lease of a front-end, which continues without that lease.
    fn revoke(&mut self, lease: Lease<Tenancy>) {
        self.raise(lease.object().domain);
        self.revocations.begin(Ending {
            leases: vec![lease],
            ..Ending::default()
        });
    }

    /// Ends the tenures whose owners have neither asked nor appended for longer than a lease.
    async fn end_silent_leases(&mut self) -> Result<(), ServiceError> {
        let (now, lease_ns) = (self.runtime.now(), self.terms.lease_ns);
        let mut silent = Vec::new();
        for front_end in self.front_ends.values_mut() {
            for lease in &mut front_end.leases {
                if lease.held_for(now) > lease_ns {
                    silent.push((lease.owner(), lease.object().domain));
                    lease.recall(now);
                }
            }
        }
        for (qp, number) in silent {
            // The appends of an owner that needs no answers show only in its log.
            let domain = self.pool.domain(number).expect("a lease names a domain");
            let before = domain.found();
            match domain.take().await {
                Ok(_) if domain.found() != before => continue,
                Ok(_) | Err(DomainError::Refused { .. }) => {}
                Err(error) => return Err(error.into()),
            }
            if let Some(lease) = self.take_lease(qp, number) {
                self.counts.tenures_silent += 1;
                self.revoke(lease);
            }
        }
        Ok(())
    }

    /// Hands over the tenures whose windows are closed, including the window on the log at the mirror.
    async fn note_closed(&mut self, ended: Ended<Tenancy>) -> Result<(), ServiceError> {
        let revoked = ended.revoked.into_iter().map(|lease| lease.into_object());
        let revoked = revoked.map(|tenancy| (tenancy, Stopped::Certainly));
        let unquiesced = ended.unquiesced.iter().map(|lease| *lease.object());
        let unquiesced = unquiesced.map(|tenancy| (tenancy, Stopped::Perhaps));
        for (tenancy, stopped) in revoked.chain(unquiesced) {
            match (&mut self.mirror, tenancy.pass) {
                (Some(mirror), Some(pass)) if !mutant!(HandedOverUnexpelled) => {
                    mirror.link.expel(pass);
                    mirror.expelling.insert(pass, (tenancy, stopped));
                }
                _ => self.hand_over(tenancy, stopped).await?,
            }
        }
        Ok(())
    }

    /// Hands over the tenures whose owners no longer write at the mirror.
    async fn note_expelled(&mut self) -> Result<(), ServiceError> {
        let Some(mirror) = &mut self.mirror else {
            return Ok(());
        };
        let expelled = mirror.link.take_expelled().into_iter();
        let expelled = expelled.map(|(pass, there)| {
            let tenure = mirror.expelling.remove(&pass);
            (tenure.expect("its expulsion has begun"), there)
        });
        let expelled: Vec<((Tenancy, Stopped), Stopped)> = expelled.collect();
        for ((tenancy, here), there) in expelled {
            let stopped = match there {
                Stopped::Certainly => here,
                Stopped::Perhaps => there,
            };
            self.hand_over(tenancy, stopped).await?;
        }
        Ok(())
    }

    async fn hand_over(&mut self, tenancy: Tenancy, stopped: Stopped) -> Result<(), ServiceError> {
        let Some(domain) = self.pool.domain(tenancy.domain) else {
            return Ok(());
        };
        let (place, territory) = (domain.place(), domain.territory().clone());
        let mut executor = Executor::new(self.medium.key, place, territory);
        let number = tenancy.domain;
        let _handed = self.pool.hand_over(number, stopped, &mut executor).await?;
        self.counts.tenures_ended += 1;
        Ok(())
    }

    /// The request in a message. A peer that sends anything else is not a front-end.
    fn arrived(
        &mut self,
        received: Received,
    ) -> Result<Option<(QueuePair, Request)>, ServiceError> {
        let taken = self.reception.take(&received)?;
        let qp = received.qp;
        if !self.front_ends.contains_key(&qp) {
            return Ok(None);
        }
        Ok(match taken {
            Message::Request(request) => Some((qp, request)),
            Message::Nothing => None,
            Message::Nonsense => {
                self.end(qp);
                None
            }
        })
    }

    /// Executes the received requests in their order. Records that notices report become durable together: one
    /// write-back or one sync serves them all. Full logs are trimmed after the answers.
    async fn serve(&mut self, round: Vec<(QueuePair, Request)>) -> Result<(), ServiceError> {
        let mut notices = Vec::new();
        let mut noticed = BTreeSet::new();
        for (qp, request) in round {
            if let Request::Notify { domain } = request {
                noticed.insert(domain);
                notices.push(self.gather(qp, domain)?);
                continue;
            }
            self.settle(&mut notices).await?;
            if self.front_ends.contains_key(&qp) {
                let answer = self.answer(qp, request).await?;
                self.send(qp, &answer);
            }
        }
        self.settle(&mut notices).await?;
        for number in noticed {
            // Half of the ring stays free for records that arrive during the trimming.
            if let Some(domain) = self.pool.domain(number)
                && domain.log_is_half_full()
            {
                domain.trim().await?;
            }
        }
        Ok(())
    }

    fn send(&mut self, qp: QueuePair, answer: &Answer) {
        if let Some(front_end) = self.front_ends.get_mut(&qp) {
            front_end.answers.send(&self.port, qp, &answer.encode());
            if front_end.answers.is_stuck() {
                self.end(qp);
            }
        }
    }

    async fn answer(&mut self, qp: QueuePair, request: Request) -> Result<Answer, ServiceError> {
        if let Some(domain) = request.domain()
            && self.pool.damage(domain).is_some()
        {
            return Ok(Answer::Damaged);
        }
        Ok(match request {
            Request::Attach => self.attach(qp)?,
            Request::CreateDomain { name } => match self.pool.open_domain(name).await? {
                Some(domain) => Answer::Created { domain },
                None => Answer::NoRoom,
            },
            Request::GiveSlab { domain } => self.give_slab(qp, domain).await?,
            Request::Slabs { domain } => self.slabs(domain),
            Request::Lease { domain, holder } => self.lease(qp, domain, holder).await?,
            Request::Stat { domain } => match self.pool.domain(domain) {
                Some(domain) => Answer::Stat(domain.stat()),
                None => Answer::NoDomain,
            },
            Request::Notify { .. } => unreachable!("notices are gathered"),
            Request::Release { domain } => match self.take_lease(qp, domain) {
                Some(lease) => {
                    self.revoke(lease);
                    Answer::Released
                }
                None => Answer::NotYours,
            },
            Request::Count { readers } => {
                let now = self.runtime.now();
                let front_end = self.front_ends.get_mut(&qp).expect("it has just asked");
                self.counts.note(readers);
                let age = readers.snapshot_age_ns;
                front_end.snapshot = (age > 0).then(|| now.saturating_sub(age));
                Answer::Counted
            }
            Request::Counts => Answer::Counts(self.stat()),
            Request::Vouch => Answer::Vouched {
                for_ns: self
                    .mirror
                    .as_ref()
                    .map_or(Nanoseconds::MAX, |mirror| mirror.link.lease_left()),
            },
            Request::MirrorLog { domain } => self.mirror_log(qp, domain).await?,
            Request::Join(_)
            | Request::Digest { .. }
            | Request::Settle { .. }
            | Request::Whole
            | Request::Renew
            | Request::Promote
            | Request::Admit { .. }
            | Request::Enter { .. }
            | Request::Expel { .. } => Answer::IsBackEnd {
                generation: self.medium.generation(),
            },
        })
    }

    fn attach(&mut self, qp: QueuePair) -> Result<Answer, ServiceError> {
        let (device, memory) = (self.port.device().clone(), self.lent.memory);
        let front_end = self.front_ends.get_mut(&qp).expect("it has just asked");
        let rkey = match front_end.reads {
            Some(rkey) => rkey,
            None => {
                let whole = (0, memory.size);
                let rkey = device.bind_window(qp, memory, whole.0, whole.1, Access::REMOTE_READ)?;
                *front_end.reads.insert(rkey)
            }
        };
        let geometry = self.pool.geometry();
        Ok(Answer::Attached {
            geometry: [
                geometry.domains.into(),
                geometry.slab_size,
                geometry.slab_count,
            ],
            log_key: self.medium.key.0,
            address: memory.address,
            rkey: rkey.0.into(),
            lending: self.lent.lending,
            is_mirrored: self.mirror.is_some(),
        })
    }

    async fn give_slab(&mut self, qp: QueuePair, number: u32) -> Result<Answer, ServiceError> {
        let is_owner = self.has_lease(qp, number);
        let Some(domain) = self.pool.domain(number) else {
            return Ok(Answer::NoDomain);
        };
        if let Some(tenure) = domain.tenure()
            && !is_owner
        {
            return Ok(self.held(number, tenure));
        }
        if domain.territory().slabs.len() >= self.terms.quota {
            return Ok(Answer::OverQuota);
        }
        Ok(match self.pool.give_slab(number).await? {
            Some(slab) => Answer::Slabs { slabs: vec![slab] },
            None => Answer::NoRoom,
        })
    }

    fn slabs(&mut self, number: u32) -> Answer {
        match self.pool.domain(number) {
            Some(domain) => Answer::Slabs {
                slabs: domain.territory().slabs.iter().copied().collect(),
            },
            None => Answer::NoDomain,
        }
    }

    /// Grants a tenure, and opens a window on its log to its owner.
    async fn lease(
        &mut self,
        qp: QueuePair,
        number: u32,
        holder: FrontEndName,
    ) -> Result<Answer, ServiceError> {
        let Some(domain) = self.pool.domain(number) else {
            return Ok(Answer::NoDomain);
        };
        if let Some(tenure) = domain.tenure() {
            return Ok(self.held(number, tenure));
        }
        let Some(grant) = self.pool.grant(number).await? else {
            return Ok(Answer::NoRoom);
        };
        let opening = Opening {
            region: self.lent.memory,
            span: Span::new(grant.area.offset, grant.area.size),
            access: Access::REMOTE_WRITE,
        };
        let lessor = Lessor {
            port: &self.port,
            epoch: grant.tenure.into(),
        };
        let tenancy = Tenancy {
            domain: number,
            pass: None,
        };
        let now = self.runtime.now();
        let lease = match lessor.grant(qp, tenancy, &[opening], now) {
            Ok(lease) => lease,
            Err((lease, _)) => {
                // A front-end without a window has no tenure.
                self.revoke(lease);
                return Ok(Answer::NoRoom);
            }
        };
        let rkey = lease.windows()[0];
        self.counts.tenures_granted += 1;
        self.holders.insert(number, holder);
        let front_end = self.front_ends.get_mut(&qp).expect("it has just asked");
        front_end.leases.push(lease);
        Ok(Answer::Granted {
            tenure: grant.tenure,
            area: grant.area,
            start: grant.start,
            rkey: rkey.0.into(),
        })
    }

    fn held(&self, number: u32, tenure: u32) -> Answer {
        // Opening has ended the tenures of earlier runs.
        let holder = self.holders.get(&number).copied();
        let holder = holder.unwrap_or(FrontEndName::NONE);
        Answer::Held { tenure, holder }
    }

    /// Also lets the owner of a tenure append to the log at the mirror.
    async fn mirror_log(&mut self, qp: QueuePair, number: u32) -> Result<Answer, ServiceError> {
        let Some(mirror) = self.mirror.as_ref().map(|mirror| mirror.link.clone()) else {
            return Ok(Answer::NotYours);
        };
        let area = self
            .pool
            .domain(number)
            .and_then(|domain| domain.log_area());
        let front_end = self.front_ends.get_mut(&qp).expect("it has just asked");
        let leases = front_end.leases.iter_mut();
        let mut tenancies = leases.map(|lease| lease.object_mut());
        let tenancy = tenancies.find(|tenancy| tenancy.domain == number && tenancy.pass.is_none());
        let (Some(tenancy), Some(area)) = (tenancy, area) else {
            return Ok(Answer::NotYours);
        };
        let answer = mirror.admit(Span::new(area.offset, area.size)).await?;
        if let Answer::MirrorLog { pass, .. } = answer {
            tenancy.pass = Some(pass);
        }
        Ok(answer)
    }

    fn has_lease(&self, qp: QueuePair, number: u32) -> bool {
        let front_end = self.front_ends.get(&qp);
        let mut leases = front_end.iter().flat_map(|front_end| &front_end.leases);
        leases.any(|lease| lease.object().domain == number)
    }

    fn take_lease(&mut self, qp: QueuePair, number: u32) -> Option<Lease<Tenancy>> {
        let leases = &mut self.front_ends.get_mut(&qp)?.leases;
        let index = leases
            .iter()
            .position(|lease| lease.object().domain == number)?;
        Some(leases.swap_remove(index))
    }

    /// Finds the new records of a tenure.
    fn gather(&mut self, qp: QueuePair, number: u32) -> Result<Notice, ServiceError> {
        let refused = |answer| {
            Ok(Notice {
                qp,
                number,
                found: Err(answer),
            })
        };
        if self.pool.damage(number).is_some() {
            return refused(Answer::Damaged);
        }
        if !self.has_lease(qp, number) {
            return refused(Answer::NotYours);
        }
        let now = self.runtime.now();
        let front_end = self.front_ends.get_mut(&qp).expect("it has just asked");
        let leases = front_end.leases.iter_mut();
        for lease in leases.filter(|lease| lease.object().domain == number) {
            lease.recall(now);
        }
        let found = Ok(self.domain(number).gather()?);
        Ok(Notice { qp, number, found })
    }

    /// Makes the records of all notices durable, applies them, and answers. An owner that writes to memory of other
    /// domains loses the tenure.
    async fn settle(&mut self, notices: &mut Vec<Notice>) -> Result<(), ServiceError> {
        let spans: Vec<Span> = notices.iter().flat_map(Notice::spans).copied().collect();
        let mut persisted: Option<Persisted> = None;
        // Answers go out in the order of the requests.
        for Notice { qp, number, found } in notices.drain(..) {
            let answer = match found {
                Err(answer) => answer,
                Ok(Gathered::Nothing(findings)) => self.noted(qp, number, findings.taken())?,
                Ok(Gathered::Records(records)) => {
                    let persisted = match &persisted {
                        Some(persisted) => persisted,
                        None => persisted.insert(self.medium.persist(&spans).await?),
                    };
                    let taken = self.domain(number).settle(records, persisted);
                    self.noted(qp, number, taken)?
                }
            };
            self.send(qp, &answer);
        }
        Ok(())
    }

    /// The answer to a notice.
    fn noted(
        &mut self,
        qp: QueuePair,
        number: u32,
        taken: Result<Taken, DomainError>,
    ) -> Result<Answer, ServiceError> {
        match taken {
            Ok(Taken { durable, applied }) => Ok(Answer::Noted {
                durable,
                applied,
                trimmed: self.domain(number).trimmed(),
            }),
            Err(DomainError::Refused { .. }) => {
                if let Some(lease) = self.take_lease(qp, number) {
                    self.revoke(lease);
                }
                Ok(Answer::NotYours)
            }
            Err(error) => Err(error.into()),
        }
    }

    /// The domain of a lease.
    fn domain(&mut self, number: u32) -> &mut Domain {
        self.pool.domain(number).expect("a lease names a domain")
    }
}

/// A notice that is not answered.
struct Notice {
    qp: QueuePair,
    number: u32,
    found: Result<Gathered, Answer>,
}

impl Notice {
    /// The places that have to be durable before the answer.
    fn spans(&self) -> &[Span] {
        match &self.found {
            Ok(Gathered::Records(Records { spans, .. })) => spans,
            Ok(Gathered::Nothing(_)) | Err(_) => &[],
        }
    }
}
