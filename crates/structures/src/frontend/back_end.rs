//! A front-end's connection to a back-end.

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Poll, Waker};

use smallvec::SmallVec;
use stonecast_base::{Nanoseconds, Span, mutant};
use stonecast_fabric::{
    DeviceError, LocalSpan, MemoryRegion, Port, ReadInto, RemoteAddress, Rkey, Runtime, Status,
};
use stonecast_media::Durability;
use stonecast_persist::execute::LentAgreement;
use stonecast_session::Endpoint;

use super::appends::{Appends, PIECES_MAX, STAGING_SIZE};
use super::buffers::Buffers;
use super::cache::PlaceCache;
use super::error::FrontEndError;
use super::mirror_log::{self, Seats};
use super::reader::Reader;
use super::session_writer::Writer;
use super::talk::Talk;
use super::writer::DomainWriter;
use crate::backend::{DomainPlace, Grant, PoolGeometry, Territory};
use crate::shapes::{Place, Places, ReadRoots, Stale, Step, Traversal};
use crate::wire::{
    self, BackEndStat, DomainName, DomainStat, FrontEndName, LogKey, ReaderCounts, Request,
};

/// Outstanding work requests of a front-end: pieces of records, each followed by a READ if a caller waits for that
/// record alone, READs of a call, and requests.
const SENDS: usize = 2 * PIECES_MAX + READS_MAX + 32;
/// READs of one doorbell.
const READS_MAX: usize = 32;
/// Bytes for READs in transit; the longest READ is that of the longest item or of a directory.
const SCRATCH_SIZE: u64 = 2 << 20;
/// Bytes of the largest pool.
const POOL_SIZE_MAX: u64 = 1 << 46;
/// Entries of the completion queues that the port of a front-end needs.
pub const FRONT_END_COMPLETIONS: u32 = SENDS as u32 + mirror_log::COMPLETIONS;

/// A connection to a back-end, which reads the pool's memory.
pub struct BackEnd {
    pub(super) talk: Talk,
    name: Cell<FrontEndName>,
    scratch: MemoryRegion,
    /// Memory of former writers.
    spare_staging: RefCell<Vec<MemoryRegion>>,
    pub(super) geometry: PoolGeometry,
    pub(super) log_key: LogKey,
    memory: RemoteAddress,
    /// The plans by which records become durable.
    pub(super) agreement: LentAgreement,
    /// The assurances of the back-end of a mirrored pool that it still is the back-end.
    pub(super) vouching: Option<Vouching>,
    pub(super) mirror_seats: Seats,
    scratch_use: Rc<ScratchUse>,
    retries: Cell<u64>,
}

/// The assurance of a back-end that no other back-end has taken its place.
#[derive(Default)]
pub(super) struct Vouching {
    clock: RefCell<Option<Rc<dyn Runtime>>>,
    /// By the clock.
    until: Cell<Nanoseconds>,
}

impl Vouching {
    fn now(&self) -> Option<Nanoseconds> {
        self.clock.borrow().as_ref().map(|clock| clock.now())
    }
}

/// The memory for READs in transit, which serves one call at a time.
#[derive(Default)]
struct ScratchUse {
    is_taken: Cell<bool>,
    waiting: RefCell<Vec<Waker>>,
}

/// The turn of a call. The turn ends when the device is done with the memory, even if the call is dropped.
struct ScratchTurn(Rc<ScratchUse>);

impl ScratchUse {
    async fn take(self: &Rc<Self>) -> Rc<ScratchTurn> {
        poll_fn(|context| {
            if self.is_taken.replace(true) {
                self.waiting.borrow_mut().push(context.waker().clone());
                return Poll::Pending;
            }
            Poll::Ready(())
        })
        .await;
        Rc::new(ScratchTurn(self.clone()))
    }
}

impl Drop for ScratchTurn {
    fn drop(&mut self) {
        self.0.is_taken.set(false);
        self.0.waiting.take().into_iter().for_each(Waker::wake);
    }
}

impl BackEnd {
    /// Connects to the back-end at `address`. Both sides agree on the plans for records that have to outlive the
    /// failure that the pool declares.
    ///
    /// # Errors
    /// [`FrontEndError`]: nothing of the connection is left. [`FrontEndError::NoAgreement`] names the platform for
    /// which no plan exists.
    pub async fn connect(port: &Rc<Port>, address: &str) -> Result<Rc<Self>, FrontEndError> {
        let endpoint = Endpoint::new(port, Talk::queues(SENDS as u32))?;
        let scratch = endpoint.allocate(SCRATCH_SIZE)?;
        let talk = Talk::connect(endpoint, address).await?;
        let attached = match talk.ask(Request::Attach).await? {
            wire::Answer::IsMirror {
                generation,
                is_whole,
            } => {
                return Err(FrontEndError::IsMirror {
                    generation,
                    is_whole,
                });
            }
            answer => answer,
        };
        let wire::Answer::Attached {
            geometry: [domains, slab_size, slab_count],
            log_key,
            address,
            rkey,
            lending,
            is_mirrored,
        } = attached
        else {
            return Err(FrontEndError::Protocol);
        };
        let is_size = slab_size.is_power_of_two() && (4096..=POOL_SIZE_MAX).contains(&slab_size);
        let is_geometry = is_size && slab_count <= POOL_SIZE_MAX / slab_size;
        let domains = u16::try_from(domains).map(u32::from);
        let (Ok(domains), Ok(rkey), true) = (domains, rkey.try_into(), is_geometry) else {
            return Err(FrontEndError::Protocol);
        };
        let agreement = LentAgreement::hear(&lending, Durability::Process)?;
        Ok(Rc::new(Self {
            talk,
            name: Cell::new(FrontEndName::NONE),
            scratch,
            spare_staging: RefCell::default(),
            geometry: PoolGeometry {
                domains,
                slab_size,
                slab_count,
            },
            log_key: LogKey(log_key),
            memory: RemoteAddress {
                address,
                rkey: Rkey(rkey),
            },
            agreement,
            vouching: is_mirrored.then(Vouching::default),
            mirror_seats: Seats::default(),
            scratch_use: Rc::default(),
            retries: Cell::default(),
        }))
    }

    /// Sets the name under which the front-end holds later tenures. By default, the front-end has no name.
    pub fn introduce_as(&self, name: FrontEndName) {
        self.name.set(name);
    }

    /// The plans by which records of this front-end become durable.
    pub fn agreement(&self) -> &LentAgreement {
        &self.agreement
    }

    /// The number of times that a reader of this connection began again because a place was changing.
    pub fn retries(&self) -> u64 {
        self.retries.get()
    }

    pub(super) fn count_retry(&self) {
        self.retries.set(self.retries.get() + 1);
    }

    /// The sizes of the pool.
    pub fn geometry(&self) -> PoolGeometry {
        self.geometry
    }

    pub(super) fn port(&self) -> &Rc<Port> {
        self.talk.port()
    }

    /// The address of a place of the pool.
    pub(super) fn address_of(&self, place: Span) -> RemoteAddress {
        self.memory.at(place.offset)
    }

    /// Memory for the records of a writer.
    pub(super) fn staging(&self) -> Result<MemoryRegion, DeviceError> {
        let spare = self.spare_staging.borrow_mut().pop();
        spare.map_or_else(|| self.talk.endpoint.allocate(STAGING_SIZE), Ok)
    }

    /// Takes the memory of a former writer.
    pub(super) fn give_staging_back(&self, memory: MemoryRegion) {
        self.spare_staging.borrow_mut().push(memory);
    }

    /// Reads a place of the pool.
    pub(super) async fn read_one(&self, span: Span) -> Result<Vec<u8>, FrontEndError> {
        let mut bytes = Buffers::default();
        self.read(&[span], &mut bytes).await?;
        Ok(bytes.into_first())
    }

    /// Reads places of the pool into buffers, one for each place: in the call where the device can, and else as many as
    /// the queue takes with one doorbell.
    pub(super) async fn read(
        &self,
        spans: &[Span],
        into: &mut Buffers,
    ) -> Result<(), FrontEndError> {
        let buffers = into.of_sizes(spans.iter().map(|span| span.size as usize));
        let reads = spans.iter().zip(buffers);
        let mut reads: SmallVec<[ReadInto<'_>; 2]> = reads
            .map(|(span, into)| ReadInto {
                remote: self.address_of(*span),
                into,
            })
            .collect();
        self.read_into(&mut reads).await?;
        self.vouch().await
    }

    /// Lets the front-end remember for how long the back-end of a mirrored pool has vouched for reads. Without a clock,
    /// each read asks the back-end.
    pub fn keep_time(&self, clock: Rc<dyn Runtime>) {
        if let Some(vouching) = &self.vouching {
            vouching.clock.replace(Some(clock));
        }
    }

    /// Makes sure that the back-end was the back-end when the bytes of earlier reads were read: its mirror may have
    /// taken its place without a change of its memory.
    pub(super) async fn vouch(&self) -> Result<(), FrontEndError> {
        let Some(vouching) = self
            .vouching
            .as_ref()
            .filter(|_| !mutant!(ReaderLeaseIgnored))
        else {
            return Ok(());
        };
        let now = vouching.now();
        if now.is_some_and(|now| now < vouching.until.get()) {
            return Ok(());
        }
        match self.talk.ask(Request::Vouch).await? {
            wire::Answer::Vouched { for_ns: 0 } => Err(FrontEndError::Gone),
            wire::Answer::Vouched { for_ns } => {
                let until = now.map_or(0, |now| now.saturating_add(for_ns));
                vouching.until.set(until);
                Ok(())
            }
            _ => Err(FrontEndError::Protocol),
        }
    }

    /// Reads in the call, if the device can at this moment. The caller lets other tasks run from time to time
    /// ([`Port::take_turn`]).
    pub(super) fn read_now(&self, reads: &mut [ReadInto<'_>]) -> bool {
        let qp = self.talk.endpoint.qp();
        let status = self.port().device().read_now(qp, reads);
        status == Some(Status::Success)
    }

    pub(super) async fn read_into(&self, reads: &mut [ReadInto<'_>]) -> Result<(), FrontEndError> {
        if reads.is_empty() || self.read_now(reads) {
            self.port().take_turn().await;
            return Ok(());
        }
        self.read_posted(reads).await
    }

    /// Posts reads, as many as the queue takes with one doorbell, and waits for them.
    async fn read_posted(&self, mut rest: &mut [ReadInto<'_>]) -> Result<(), FrontEndError> {
        let turn = self.scratch_use.take().await;
        while !rest.is_empty() {
            let mut size = 0;
            let count = rest.iter().take(READS_MAX).take_while(|read| {
                size += (read.into.len() as u64).next_multiple_of(8);
                size <= SCRATCH_SIZE
            });
            let count = count.count();
            if count == 0 {
                return Err(FrontEndError::Protocol);
            }
            let (now, later) = rest.split_at_mut(count);
            let scratch = LocalSpan {
                region: self.scratch,
                offset: 0,
                size: SCRATCH_SIZE as u32,
            };
            let qp = self.talk.endpoint.qp();
            let held: Rc<dyn Any> = turn.clone();
            match self.port().read(qp, now, scratch, Some(held)).await? {
                Status::Success => {}
                status => {
                    self.talk.check()?;
                    return Err(FrontEndError::Failed(status));
                }
            }
            rest = later;
        }
        Ok(())
    }

    /// Drives a traversal over the memory of a domain.
    pub(super) async fn drive<T: Traversal>(
        &self,
        territory: &Territory,
        mut traversal: T,
    ) -> Result<Result<T::End, Stale>, FrontEndError> {
        let mut bytes = Buffers::default();
        loop {
            let places = match traversal.step(bytes.used()) {
                Step::Done(end) => return Ok(Ok(end)),
                Step::Stale(stale) => return Ok(Err(stale)),
                Step::Read(places) => places,
            };
            let spans: SmallVec<[Span; 2]> = places.iter().map(|place| place.span).collect();
            if let Some(stale) = outside(territory, spans.iter().copied()) {
                return Ok(Err(stale));
            }
            self.read(&spans, &mut bytes).await?;
        }
    }

    /// Drives a traversal of a reader, which remembers places. `trusts`: remembered places are taken as they are, where
    /// the traversal allows that.
    pub(super) async fn drive_remembering<T: Traversal>(
        &self,
        territory: &Territory,
        mut traversal: T,
        (cache, trusts): (&mut PlaceCache, bool),
    ) -> Result<Result<T::End, Stale>, FrontEndError> {
        let mut places = Places::new();
        let mut bytes: Vec<Vec<u8>> = cache.spare();
        let ended = loop {
            let step = traversal.step(&bytes);
            let is_stale = matches!(step, Step::Stale(_));
            // Places that the traversal has found to be whole are remembered.
            for (place, bytes) in places.drain(..).zip(bytes.drain(..)) {
                match place.may_be_old && !is_stale {
                    true => cache.put(place.span, bytes),
                    false => cache.give_back(bytes),
                }
            }
            places = match step {
                Step::Done(end) => break Ok(end),
                Step::Stale(stale) => break Err(stale),
                Step::Read(places) => places,
            };
            let mut missing: SmallVec<[(usize, Span); 2]> = SmallVec::new();
            for (index, Place { span, may_be_old }) in places.iter().enumerate() {
                let known = (*may_be_old && trusts).then(|| cache.lend(*span)).flatten();
                bytes.push(known.unwrap_or_else(|| {
                    missing.push((index, *span));
                    cache.buffer(span.size as usize)
                }));
            }
            if let Some(stale) = outside(territory, missing.iter().map(|(_, span)| *span)) {
                break Err(stale);
            }
            let mut reads: SmallVec<[ReadInto<'_>; 2]> = SmallVec::new();
            let mut spans = missing.iter().peekable();
            for (index, into) in bytes.iter_mut().enumerate() {
                if let Some((_, span)) = spans.next_if(|(missing, _)| *missing == index) {
                    let remote = self.address_of(*span);
                    reads.push(ReadInto { remote, into });
                }
            }
            if !reads.is_empty() && !self.read_now(&mut reads) {
                self.read_posted(&mut reads).await?;
            }
        };
        cache.give_spare_back(bytes);
        self.port().take_turn().await;
        self.vouch().await?;
        Ok(ended)
    }

    pub(super) async fn territory(&self, domain: u32) -> Result<Territory, FrontEndError> {
        let answer = self.talk.ask(Request::Slabs { domain }).await?;
        let wire::Answer::Slabs { slabs } = answer else {
            return Err(refused(answer, domain));
        };
        if slabs.iter().any(|slab| *slab >= self.geometry.slab_count) {
            return Err(FrontEndError::Protocol);
        }
        Ok(Territory {
            root: self.place(domain).root_word(),
            geometry: self.geometry.slabs(),
            slabs: slabs.into_iter().collect(),
        })
    }

    fn place(&self, domain: u32) -> DomainPlace {
        PoolGeometry::place(domain)
    }

    /// The state of a domain, as the back-end sees it at this moment.
    ///
    /// # Errors
    /// [`FrontEndError::NoDomain`], [`FrontEndError::Damaged`].
    pub async fn stat(&self, domain: u32) -> Result<DomainStat, FrontEndError> {
        match self.talk.ask(Request::Stat { domain }).await? {
            wire::Answer::Stat(stat) => Ok(stat),
            answer => Err(refused(answer, domain)),
        }
    }

    /// The state of the back-end at this moment.
    ///
    /// # Errors
    /// [`FrontEndError`].
    pub async fn counts(&self) -> Result<BackEndStat, FrontEndError> {
        match self.talk.ask(Request::Counts).await? {
            wire::Answer::Counts(stat) => Ok(stat),
            answer => Err(refused(answer, 0)),
        }
    }

    /// Reports the counts of readers since the last report, without waiting. Returns whether the message was sent: with
    /// too many requests under way, or without a back-end, the message is not sent.
    pub fn tell_counts(&self, readers: ReaderCounts) -> bool {
        let is_heard = self.talk.hear().is_ok() && self.talk.check().is_ok();
        is_heard && matches!(self.talk.send(Request::Count { readers }), Ok(Some(_)))
    }

    /// The number of the domain with this name, which is made if it does not exist.
    ///
    /// # Errors
    /// [`FrontEndError::NoRoom`]: the pool has the most domains that it may have.
    pub async fn open_domain(&self, name: DomainName) -> Result<u32, FrontEndError> {
        match self.talk.ask(Request::CreateDomain { name }).await? {
            wire::Answer::Created { domain } => Ok(domain),
            answer => Err(refused(answer, 0)),
        }
    }

    /// The domains of the pool, with their names.
    ///
    /// # Errors
    /// [`FrontEndError`]; [`FrontEndError::Protocol`]: a name is damaged.
    pub async fn domains(&self) -> Result<Vec<(u32, DomainName)>, FrontEndError> {
        let words = self.read_one(self.geometry.domain_words()).await?;
        let (words, _) = words.as_chunks::<8>();
        let exists = |(number, word): (u32, &[u8; 8])| (*word != [0; 8]).then_some(number);
        let numbers: Vec<u32> = (0..).zip(words).filter_map(exists).collect();
        let places = numbers.iter().map(|number| self.place(*number).name());
        let mut names = Buffers::default();
        self.read(&places.collect::<Vec<_>>(), &mut names).await?;
        let names = names.used().iter();
        let named = numbers.into_iter().zip(names).map(|(number, name)| {
            let name = DomainName::decode(self.log_key, name);
            name.map(|name| (number, name))
                .ok_or(FrontEndError::Protocol)
        });
        named.collect()
    }

    /// Makes a new domain with `slabs` slabs. Returns its number.
    ///
    /// # Errors
    /// [`FrontEndError::NoRoom`]: the domain may exist, with fewer slabs.
    pub async fn create_domain(&self, slabs: u32) -> Result<u32, FrontEndError> {
        let domain = self.open_domain(DomainName::NONE).await?;
        for _ in 0..slabs {
            let answer = self.talk.ask(Request::GiveSlab { domain }).await?;
            if !matches!(answer, wire::Answer::Slabs { .. }) {
                return Err(refused(answer, domain));
            }
        }
        Ok(domain)
    }

    /// Becomes the writer of a domain.
    ///
    /// # Errors
    /// [`FrontEndError::Held`]: another front-end is the writer.
    pub async fn writer(self: &Rc<Self>, domain: u32) -> Result<Writer, FrontEndError> {
        let holder = self.name.get();
        let answer = self.talk.ask(Request::Lease { domain, holder }).await?;
        let wire::Answer::Granted {
            tenure,
            area,
            start,
            rkey,
        } = answer
        else {
            return Err(refused(answer, domain));
        };
        let territory = self.territory(domain).await?;
        // The log of a tenure is one slab.
        let log = Span::new(area.offset, area.size);
        let slab = self.geometry.slabs().slab_of(log);
        let is_log = slab.is_some() && area.size == self.geometry.slab_size;
        if !is_log || start.position != 0 {
            return Err(FrontEndError::Protocol);
        }
        let grant = Grant {
            tenure,
            area,
            start,
        };
        // The bits of all slabs, and the table of structures.
        let geometry = territory.geometry;
        let bits = |slab: &u64| Span::new(geometry.slab(*slab).offset, geometry.bits_size());
        let spans: Vec<Span> = territory.slabs.iter().map(bits).collect();
        let mut bits = Buffers::default();
        self.read(&spans, &mut bits).await?;
        let roots = ReadRoots::new(self.log_key, domain, territory.root);
        let roots = self.drive(&territory, roots).await?;
        if roots.is_err() {
            // A front-end that stood still since the grant reads what its successor writes.
            self.check_tenure(domain, tenure).await?;
        }
        let roots = roots.map_err(FrontEndError::Stale)?;
        let slabs = territory.slabs.iter().copied();
        let slabs = slabs.zip(bits.used().iter().map(|bits| &**bits));
        let writer = DomainWriter::with(self.log_key, grant, geometry, slabs, roots);
        let rkey = rkey.try_into().map_err(|_| FrontEndError::Protocol)?;
        let appends = Rc::new(Appends::new(self, domain, grant, Rkey(rkey))?);
        appends.reach_mirror(grant).await;
        Ok(Writer {
            back_end: self.clone(),
            domain,
            territory,
            grant,
            writer,
            appends,
            publishing: VecDeque::new(),
        })
    }

    /// Reads the tenure word of `domain`. While the tenure lasts, only its owner changes the memory of the domain.
    pub(super) async fn check_tenure(&self, domain: u32, tenure: u32) -> Result<(), FrontEndError> {
        let word = PoolGeometry::place(domain).tenure_word();
        let found = self.read_one(word).await?;
        match found == u64::from(tenure).to_le_bytes() {
            true => Ok(()),
            false => Err(FrontEndError::Over { domain }),
        }
    }

    /// Becomes a reader of a domain.
    ///
    /// # Errors
    /// [`FrontEndError`].
    pub async fn reader(self: &Rc<Self>, domain: u32) -> Result<Reader, FrontEndError> {
        let territory = self.territory(domain).await?;
        Ok(Reader {
            back_end: self.clone(),
            domain,
            territory,
            cache: PlaceCache::new(0),
        })
    }
}

/// A place that a reader may not read, as a stale place for the traversal.
fn outside(territory: &Territory, mut spans: impl Iterator<Item = Span>) -> Option<Stale> {
    let serving = PoolGeometry::serving_word();
    let is_foreign = |span: &Span| *span != serving && !territory.holds(*span);
    let place = spans.find(|span| is_foreign(span) && !mutant!(PlaceTrusted))?;
    Some(Stale {
        place,
        what: "memory of the domain",
    })
}

pub(super) fn refused(answer: wire::Answer, domain: u32) -> FrontEndError {
    match answer {
        wire::Answer::Held { tenure, holder } => FrontEndError::Held {
            domain,
            tenure,
            holder,
        },
        wire::Answer::NotYours => FrontEndError::Over { domain },
        wire::Answer::NoDomain => FrontEndError::NoDomain { domain },
        wire::Answer::NoRoom => FrontEndError::NoRoom,
        wire::Answer::OverQuota => FrontEndError::OverQuota { domain },
        wire::Answer::Damaged => FrontEndError::Damaged { domain },
        _ => FrontEndError::Protocol,
    }
}
