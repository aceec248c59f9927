//! A front-end's connection to a back-end.

use std::cell::Cell;
use std::rc::Rc;

use stonecast_base::Span;
use stonecast_fabric::{
    ConnectionEvent, LocalSpan, MemoryRegion, Operation as Verbs, Port, ReadInto, ReceiveQueue,
    RemoteAddress, Rkey, Status,
};
use stonecast_session::{Endpoint, Queues, ReceiveBuffers, Side};

use super::error::FrontEndError;
use super::reader::Reader;
use super::session_writer::Writer;
use super::writer::DomainWriter;
use crate::backend::{DomainPlace, Grant, PoolGeometry, Territory};
use crate::shapes::{Place, ReadRoots, Stale, Step, Traversal};
use crate::wire::{self, GREETING, LogKey, MESSAGE_SIZE_MAX, Request};

/// Outstanding work requests of a front-end.
const SENDS: usize = 32;
/// Receive buffers of a front-end, which asks one request after the other.
const RECEIVES: u32 = 4;
/// Bytes for READs in transit; the longest READ is that of the longest item or directory.
const SCRATCH_SIZE: u64 = 2 << 20;
/// Bytes from which records and requests are sent.
const STAGING_SIZE: u64 = 2 << 20;
/// Bytes of the largest pool.
const POOL_SIZE_MAX: u64 = 1 << 46;
/// Entries of the completion queues that the port of a front-end needs.
pub const FRONT_END_COMPLETIONS: u32 = SENDS as u32;

/// A connection to a back-end. It reads the pool's memory, and asks one request after the other.
pub struct BackEnd {
    pub(super) endpoint: Endpoint,
    receives: ReceiveBuffers,
    scratch: MemoryRegion,
    staging: MemoryRegion,
    pub(super) geometry: PoolGeometry,
    pub(super) log_key: LogKey,
    pub(super) memory: RemoteAddress,
    /// Whether a call is under way. The memory for READs and messages serves one call at a time; a call that is given up leaves it to the device.
    is_busy: Cell<bool>,
}

impl BackEnd {
    /// Connects to the back-end at `address`.
    ///
    /// # Errors
    /// [`FrontEndError`]: nothing of the connection is left.
    pub async fn connect(port: &Rc<Port>, address: &str) -> Result<Rc<Self>, FrontEndError> {
        let endpoint = Endpoint::new(
            port,
            Queues {
                send_capacity: SENDS as u32,
                receive_capacity: RECEIVES,
                shared_receive_queue: None,
                windows: false,
                rnr_retry_count: 1000,
                rnr_retry_delay_ns: 100_000,
            },
        )?;
        let region = endpoint.allocate(u64::from(RECEIVES) * MESSAGE_SIZE_MAX)?;
        let receives = ReceiveBuffers::new(region, MESSAGE_SIZE_MAX as u32);
        let queue = ReceiveQueue::Own(endpoint.qp());
        receives.post_all(&**port.device(), queue, RECEIVES)?;
        let scratch = endpoint.allocate(SCRATCH_SIZE)?;
        let staging = endpoint.allocate(STAGING_SIZE)?;
        let said = endpoint.connect(address, &GREETING.say(b"")).await?;
        GREETING.hear(Side::Server, &said)?;
        let mut back_end = Self {
            endpoint,
            receives,
            scratch,
            staging,
            geometry: PoolGeometry {
                domains: 0,
                slab_size: 4096,
                slab_count: 0,
            },
            log_key: LogKey(0),
            memory: RemoteAddress {
                address: 0,
                rkey: Rkey(0),
            },
            is_busy: Cell::new(false),
        };
        let wire::Answer::Attached {
            geometry: [domains, slab_size, slab_count],
            log_key,
            address,
            rkey,
        } = back_end.ask(Request::Attach).await?
        else {
            return Err(FrontEndError::Protocol);
        };
        let is_size = slab_size.is_power_of_two() && (4096..=POOL_SIZE_MAX).contains(&slab_size);
        let is_geometry = is_size && slab_count <= POOL_SIZE_MAX / slab_size;
        let domains = u16::try_from(domains).map(u32::from);
        let (Ok(domains), Ok(rkey), true) = (domains, rkey.try_into(), is_geometry) else {
            return Err(FrontEndError::Protocol);
        };
        back_end.geometry = PoolGeometry {
            domains,
            slab_size,
            slab_count,
        };
        back_end.log_key = LogKey(log_key);
        back_end.memory = RemoteAddress {
            address,
            rkey: Rkey(rkey),
        };
        Ok(Rc::new(back_end))
    }

    pub(super) fn port(&self) -> &Rc<Port> {
        self.endpoint.port()
    }

    /// Copies bytes to the staging memory.
    pub(super) fn staged(&self, bytes: &[u8]) -> LocalSpan {
        let memory = self.port().device().memory(self.staging);
        memory.write(0, bytes);
        LocalSpan {
            region: self.staging,
            offset: 0,
            size: bytes.len() as u32,
        }
    }

    /// Does one call at a time.
    pub(super) async fn alone<T>(
        &self,
        call: impl Future<Output = Result<T, FrontEndError>>,
    ) -> Result<T, FrontEndError> {
        if self.is_busy.replace(true) {
            return Err(FrontEndError::Busy);
        }
        let ended = call.await;
        self.is_busy.set(false);
        ended
    }

    /// Asks, and waits for the answer.
    pub(super) async fn ask(&self, request: Request) -> Result<wire::Answer, FrontEndError> {
        self.alone(self.ask_now(request)).await
    }

    async fn ask_now(&self, request: Request) -> Result<wire::Answer, FrontEndError> {
        let qp = self.endpoint.qp();
        let local = self.staged(&request.encode());
        match self.port().submit(qp, &[Verbs::Send { local }]).await? {
            Status::Success => {}
            _ => return Err(FrontEndError::Gone),
        }
        let inbox = self.endpoint.inbox();
        loop {
            if let Some(received) = inbox.take_received() {
                if received.status != Status::Success {
                    return Err(FrontEndError::Gone);
                }
                let device = self.port().device();
                let queue = ReceiveQueue::Own(qp);
                let message = self.receives.take(&**device, queue, &received)?;
                return wire::Answer::parse(&message).ok_or(FrontEndError::Protocol);
            }
            while let Some(event) = inbox.take_event() {
                if matches!(event, ConnectionEvent::Disconnected { .. }) {
                    return Err(FrontEndError::Gone);
                }
            }
            inbox.activity().await;
        }
    }

    /// Reads places of the pool, as many as the queue takes with one doorbell.
    async fn read(&self, spans: &[Span]) -> Result<Vec<Vec<u8>>, FrontEndError> {
        self.alone(self.read_now(spans)).await
    }

    async fn read_now(&self, spans: &[Span]) -> Result<Vec<Vec<u8>>, FrontEndError> {
        let mut read = Vec::new();
        let mut rest = spans;
        while !rest.is_empty() {
            let mut size = 0;
            let count = rest.iter().take(SENDS).take_while(|span| {
                size += span.size.next_multiple_of(8);
                size <= SCRATCH_SIZE
            });
            let (now, later) = rest.split_at(count.count());
            if now.is_empty() {
                return Err(FrontEndError::Protocol);
            }
            let mut bytes: Vec<Vec<u8>> =
                now.iter().map(|span| vec![0; span.size as usize]).collect();
            let mut reads: Vec<ReadInto<'_>> = now
                .iter()
                .zip(&mut bytes)
                .map(|(span, into)| ReadInto {
                    remote: RemoteAddress {
                        address: self.memory.address + span.offset,
                        rkey: self.memory.rkey,
                    },
                    into,
                })
                .collect();
            let scratch = LocalSpan {
                region: self.scratch,
                offset: 0,
                size: SCRATCH_SIZE as u32,
            };
            let qp = self.endpoint.qp();
            match self.port().read(qp, &mut reads, scratch, None).await? {
                Status::Success => {}
                status => return Err(FrontEndError::Failed(status)),
            }
            drop(reads);
            read.append(&mut bytes);
            rest = later;
        }
        Ok(read)
    }

    /// Drives a traversal over the memory of a domain. `patch` changes what was read.
    pub(super) async fn drive<T: Traversal>(
        &self,
        territory: &Territory,
        mut traversal: T,
        patch: impl Fn(Span, &mut [u8]),
    ) -> Result<Result<T::End, Stale>, FrontEndError> {
        let mut bytes = Vec::new();
        loop {
            let places = match traversal.step(&bytes) {
                Step::Done(end) => return Ok(Ok(end)),
                Step::Stale(stale) => return Ok(Err(stale)),
                Step::Read(places) => places,
            };
            let spans: Vec<Span> = places.iter().map(|Place { span, .. }| *span).collect();
            let serving = PoolGeometry::serving_word();
            let outside = spans
                .iter()
                .find(|span| **span != serving && !territory.holds(**span));
            if let Some(&place) = outside {
                let what = "memory of the domain";
                return Ok(Err(Stale { place, what }));
            }
            bytes = self.read(&spans).await?;
            for (span, bytes) in spans.iter().zip(&mut bytes) {
                patch(*span, bytes);
            }
        }
    }

    pub(super) async fn territory(&self, domain: u32) -> Result<Territory, FrontEndError> {
        let answer = self.ask(Request::Slabs { domain }).await?;
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

    /// Makes a new domain with `slabs` slabs. Returns its number.
    ///
    /// # Errors
    /// [`FrontEndError::NoRoom`]: the domain may be there, with fewer slabs.
    pub async fn create_domain(&self, slabs: u32) -> Result<u32, FrontEndError> {
        let answer = self.ask(Request::CreateDomain).await?;
        let wire::Answer::Created { domain } = answer else {
            return Err(refused(answer, 0));
        };
        for _ in 0..slabs {
            let answer = self.ask(Request::GiveSlab { domain }).await?;
            if !matches!(answer, wire::Answer::Slabs { .. }) {
                return Err(refused(answer, domain));
            }
        }
        Ok(domain)
    }

    /// Becomes the writer of a domain.
    ///
    /// # Errors
    /// [`FrontEndError::Held`]: another front-end is.
    pub async fn writer(self: &Rc<Self>, domain: u32) -> Result<Writer, FrontEndError> {
        let answer = self.ask(Request::Lease { domain }).await?;
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
        let bits = self.read(&spans).await?;
        let roots = ReadRoots::new(self.log_key, domain, territory.root);
        let roots = self.drive(&territory, roots, |_, _| {}).await?;
        let roots = roots.map_err(FrontEndError::Stale)?;
        let slabs = territory.slabs.iter().copied().zip(bits);
        let writer = DomainWriter::with(self.log_key, grant, geometry, slabs, roots);
        let rkey = rkey.try_into().map_err(|_| FrontEndError::Protocol)?;
        Ok(Writer {
            back_end: self.clone(),
            domain,
            territory,
            grant,
            rkey: Rkey(rkey),
            writer,
        })
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
        })
    }
}

pub(super) fn refused(answer: wire::Answer, domain: u32) -> FrontEndError {
    match answer {
        wire::Answer::Held { tenure } => FrontEndError::Held { domain, tenure },
        wire::Answer::NotYours => FrontEndError::Over { domain },
        wire::Answer::NoDomain => FrontEndError::NoDomain { domain },
        wire::Answer::NoRoom => FrontEndError::NoRoom,
        wire::Answer::Damaged => FrontEndError::Damaged { domain },
        _ => FrontEndError::Protocol,
    }
}
