//! The pool of a back-end: its header, the serving word, the use of each slab, and the domains.
//!
//! ```text
//!   page 0   | header | serving word | ... | domains |      page 1 + n: domain n      uses of slabs      slabs
//! ```
//!
//! The back-end alone writes everything in front of the slabs. A use is a word, which is durable before any code relies
//! on it.
//!
//! A crash leaves each use with its old or its new value. A slab for a log that no domain names is free after the next
//! opening.

use std::collections::BTreeMap;
use std::rc::Rc;

use stonecast_base::{Corruption, Span, hash, mutant};
use zerocopy::little_endian::{U32, U64, U128};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::domain::{Domain, DomainPlace, Grant, PAGE_SIZE};
use super::error::DomainError;
use super::hand_over::{Execute, HandedOver, Replayed};
use super::medium::Medium;
use super::standing::Standing;
use super::territory::Territory;
use crate::space::SlabGeometry;
use crate::tenure::LogArea;
use crate::wire::DomainName;

const MAGIC: [u8; 8] = *b"stonstru";
const VERSION: u32 = 2;
const SERVING_OFFSET: u64 = 64;
/// Words that say which domains exist.
const DOMAINS_OFFSET: u64 = 512;
/// The most domains of a pool: as many words as fit on the page.
const DOMAINS_MAX: u32 = ((PAGE_SIZE - DOMAINS_OFFSET) / 8) as u32;
/// The slab that holds the back-end's own records during hand-overs, which are done one after the other.
const OWN_SLAB: u64 = 0;
const MAGIC_SIZE: u64 = 8;
const CHECKSUM_OFFSET: usize = std::mem::offset_of!(HeaderBytes, checksum);

#[derive(Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct HeaderBytes {
    magic: [u8; 8],
    version: U32,
    domains: U32,
    slab_size: U64,
    slab_count: U64,
    checksum: U128,
    reserved: [u8; 16],
}

/// The sizes of a pool. They never change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PoolGeometry {
    /// Domains, at most.
    pub domains: u32,
    /// Bytes of a slab; a power of two. A log has one slab, and the longest record has to fit twice.
    pub slab_size: u64,
    /// The number of slabs.
    pub slab_count: u64,
}

impl PoolGeometry {
    fn header(&self, uuid: u128) -> HeaderBytes {
        let mut header = HeaderBytes {
            magic: MAGIC,
            version: U32::new(VERSION),
            domains: U32::new(self.domains),
            slab_size: U64::new(self.slab_size),
            slab_count: U64::new(self.slab_count),
            checksum: U128::ZERO,
            reserved: [0; 16],
        };
        let bound = [&header.as_bytes()[..CHECKSUM_OFFSET], &uuid.to_be_bytes()].concat();
        header.checksum = U128::new(hash::xxh3_128(&bound));
        header
    }

    fn uses(&self) -> Span {
        let offset = PAGE_SIZE * (1 + u64::from(self.domains));
        Span::new(offset, self.slab_count * 8)
    }

    /// Where the slabs lie.
    pub fn slabs(&self) -> SlabGeometry {
        let uses = self.uses();
        let offset = (uses.offset + uses.size).next_multiple_of(self.slab_size);
        SlabGeometry::new(offset, self.slab_size)
    }

    /// Bytes of the pool.
    pub fn pool_size(&self) -> u64 {
        self.slabs().slab(self.slab_count).offset
    }

    /// The word that is even while the back-end serves.
    pub const fn serving_word() -> Span {
        Span::new(SERVING_OFFSET, 8)
    }

    /// The words that say which domains exist.
    pub(crate) fn domain_words(&self) -> Span {
        Span::new(DOMAINS_OFFSET, u64::from(self.domains) * 8)
    }

    fn domain_word(number: u32) -> Span {
        Span::new(DOMAINS_OFFSET + u64::from(number) * 8, 8)
    }

    /// The place of a domain.
    pub fn place(number: u32) -> DomainPlace {
        let page = PAGE_SIZE * (1 + u64::from(number));
        DomainPlace { number, page }
    }
}

/// The use of a slab.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SlabUse {
    Free,
    /// Memory of a domain.
    Data(u32),
    /// The log of a tenure of a domain.
    Log(u32),
    /// The back-end's own.
    Own,
}

impl SlabUse {
    fn word(self) -> u64 {
        match self {
            Self::Free => 0,
            Self::Data(domain) => 1 | u64::from(domain) << 32,
            Self::Log(domain) => 2 | u64::from(domain) << 32,
            Self::Own => 3,
        }
    }

    fn of(word: u64) -> Option<Self> {
        let domain = (word >> 32) as u32;
        match word as u32 {
            0 if domain == 0 => Some(Self::Free),
            1 => Some(Self::Data(domain)),
            2 => Some(Self::Log(domain)),
            3 if domain == 0 => Some(Self::Own),
            _ => None,
        }
    }
}

/// The certainty that the owner of a tenure is stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stopped {
    /// The owner's window is closed, and no write of the owner is in flight.
    Certainly,
    /// The owner may still write to its log. The back-end does not give the slab out until the pool is opened again.
    Perhaps,
}

/// The pool of a back-end.
pub struct StructurePool {
    medium: Rc<Medium>,
    geometry: PoolGeometry,
    uses: Vec<SlabUse>,
    domains: BTreeMap<u32, Domain>,
    /// Logs of earlier runs to which their owners may still write.
    old_logs: Vec<u64>,
    /// Damaged domains, each with its damage. Since the owner of a domain can cause damage there, other domains are not
    /// affected.
    damaged: BTreeMap<u32, DomainError>,
    /// The work of the opening.
    replayed: Replayed,
}

fn corrupt(what: &'static str, offset: u64, found: String, expected: &str) -> DomainError {
    DomainError::Corrupt(Corruption {
        what: what.into(),
        file: "pool".into(),
        offset,
        found,
        expected: expected.to_owned(),
    })
}

impl StructurePool {
    /// Makes a pool of zeros the pool of a back-end, durably.
    ///
    /// # Errors
    /// [`DomainError::Persist`]. A crash leaves no pool, or the new one.
    ///
    /// # Panics
    /// If the region is smaller than the geometry says, or the geometry has no slab or too many domains.
    pub async fn create(medium: Rc<Medium>, geometry: PoolGeometry) -> Result<Self, DomainError> {
        assert!(geometry.pool_size() <= medium.region.size());
        assert!(geometry.slab_count > 0 && (1..=DOMAINS_MAX).contains(&geometry.domains));
        let own = SlabUse::Own.word();
        medium
            .region
            .store(geometry.uses().offset + OWN_SLAB * 8, own);
        let header = geometry.header(medium.uuid);
        medium
            .region
            .write(MAGIC_SIZE, &header.as_bytes()[MAGIC_SIZE as usize..]);
        let page = Span::new(0, PAGE_SIZE);
        let _header = medium.persist(&[geometry.uses(), page]).await?;
        // A power cut may tear a line: the magic comes when everything else is durable.
        medium.region.store(0, u64::from_le_bytes(MAGIC));
        let _magic = medium.persist(&[page]).await?;
        let mut uses = vec![SlabUse::Free; geometry.slab_count as usize];
        uses[OWN_SLAB as usize] = SlabUse::Own;
        Ok(Self {
            medium,
            geometry,
            uses,
            domains: BTreeMap::new(),
            old_logs: Vec::new(),
            damaged: BTreeMap::new(),
            replayed: Replayed::default(),
        })
    }

    /// Whether a region holds a pool of a back-end, whole or damaged, or a mirror, whole or not. Otherwise the bytes in
    /// front of the uses of the slabs have always been zero, or a crash has interrupted [`StructurePool::create`].
    pub fn was_created(medium: &Medium, geometry: &PoolGeometry) -> bool {
        let mut page = vec![0; PAGE_SIZE as usize];
        let has_magic = medium.region.load(0) != 0;
        has_magic
            || Standing::read(medium.bytes()).is_some()
            || (1..=u64::from(geometry.domains)).any(|number| {
                medium.region.read(number * PAGE_SIZE, &mut page);
                page.iter().any(|byte| *byte != 0)
            })
    }

    /// Opens a pool, ends all tenures, and begins to serve. Until then the serving word is odd, and reads in between do
    /// not count.
    ///
    /// `executor` gives the executor for a domain. Where an earlier owner of a tenure may still write to its log
    /// ([`Medium::until`]), the log is not reused until that owner is gone.
    ///
    /// A damaged domain is set aside ([`StructurePool::damage`]), and the others are served.
    ///
    /// # Errors
    /// [`DomainError::Corrupt`] if this is no pool of structures, or if its header or a use is damaged;
    /// [`DomainError::Persist`]. A crash leaves a pool that is opened again, with the same result.
    pub async fn open(
        medium: Rc<Medium>,
        executor: &mut dyn FnMut(DomainPlace, &Territory) -> Box<dyn Execute>,
    ) -> Result<Self, DomainError> {
        let geometry = read_geometry(&medium)?;
        let serving = PoolGeometry::serving_word();
        let before = medium.region.load(serving.offset);
        if !mutant!(ServingLeftEven) {
            medium.region.store(serving.offset, before | 1);
        }
        let uses = read_uses(&medium, &geometry)?;
        let front = Span::new(0, geometry.uses().offset + geometry.uses().size);
        medium.region.mark_changed(&[front]);
        let _settled = medium.persist(&[front]).await?;
        let mut pool = Self {
            medium,
            geometry,
            uses,
            domains: BTreeMap::new(),
            old_logs: Vec::new(),
            damaged: BTreeMap::new(),
            replayed: Replayed::default(),
        };
        let exists = |number: &u32| {
            let word = PoolGeometry::domain_word(*number);
            pool.medium.region.load(word.offset) != 0
        };
        let numbers: Vec<u32> = (0..geometry.domains).filter(exists).collect();
        check_owners(&geometry, &pool.uses, &numbers)?;
        for number in numbers {
            let (place, territory) = (PoolGeometry::place(number), pool.territory_of(number));
            match Domain::open(pool.medium.clone(), place, territory).await {
                Ok(domain) => drop(pool.domains.insert(number, domain)),
                Err(error) => pool.set_aside(number, error)?,
            }
        }
        // The domain whose hand-over has begun has records in the back-end's own slab.
        let mut order: Vec<u32> = pool.domains.keys().copied().collect();
        order.sort_by_key(|number| !pool.domains[number].is_sealed());
        for number in order {
            let domain = &pool.domains[&number];
            let mut executor = executor(domain.place(), domain.territory());
            let handed = pool
                .hand_over(number, Stopped::Perhaps, &mut *executor)
                .await?;
            if let Some(handed) = handed {
                pool.replayed += handed.replayed;
            }
        }
        pool.old_logs = pool.unused_logs();
        pool.free_old_logs().await?;
        let now = pool.medium.region.load(serving.offset);
        let next = (now | 1) + 1;
        pool.medium.region.store(serving.offset, next);
        Ok(pool)
    }

    /// The part of the logs that the opening has replayed. The opening has read nothing else of them.
    pub fn replayed(&self) -> Replayed {
        self.replayed
    }

    /// The sizes of the pool.
    pub fn geometry(&self) -> PoolGeometry {
        self.geometry
    }

    /// The domain with this number.
    pub fn domain(&mut self, number: u32) -> Option<&mut Domain> {
        self.domains.get_mut(&number)
    }

    /// The damage of a domain, if any. A damaged domain is neither read nor written.
    pub fn damage(&self, number: u32) -> Option<&DomainError> {
        self.damaged.get(&number)
    }

    /// The number of domains that are damaged.
    pub fn damaged(&self) -> usize {
        self.damaged.len()
    }

    /// Sets a damaged domain aside.
    ///
    /// # Errors
    /// Passes `error` on, if it concerns the whole pool.
    fn set_aside(&mut self, number: u32, error: DomainError) -> Result<(), DomainError> {
        let is_of_domain = matches!(
            error,
            DomainError::Gap { .. } | DomainError::Corrupt(_) | DomainError::NoRoom { .. }
        );
        if !is_of_domain || mutant!(DamageStopsAll) {
            return Err(error);
        }
        self.domains.remove(&number);
        self.damaged.insert(number, error);
        Ok(())
    }

    /// The numbers of the domains that are not damaged.
    pub fn domains(&self) -> impl Iterator<Item = u32> {
        self.domains.keys().copied()
    }

    /// Unused slabs.
    pub fn free_slabs(&self) -> u64 {
        let free = self.uses.iter().filter(|slab| **slab == SlabUse::Free);
        free.count() as u64
    }

    /// Makes a new domain without slabs and without a name. Returns its number; `None`: the pool has the most domains
    /// that it may have.
    ///
    /// # Errors
    /// [`DomainError::Persist`]. A crash leaves the domain or not.
    pub async fn create_domain(&mut self) -> Result<Option<u32>, DomainError> {
        self.open_domain(DomainName::NONE).await
    }

    /// The domain with this name, or a new one without slabs. Returns its number; `None`: the pool has the most domains
    /// that it may have.
    ///
    /// # Errors
    /// [`DomainError::Persist`]. A crash leaves the domain or not.
    pub async fn open_domain(&mut self, name: DomainName) -> Result<Option<u32>, DomainError> {
        let has_name = |number: &u32| self.name_of(*number) == Some(name);
        if name != DomainName::NONE
            && let Some(number) = (0..self.geometry.domains).find(has_name)
        {
            return Ok(Some(number));
        }
        let is_free =
            |number: &u32| !self.domains.contains_key(number) && !self.damaged.contains_key(number);
        let Some(number) = (0..self.geometry.domains).find(is_free) else {
            return Ok(None);
        };
        let (place, territory) = (PoolGeometry::place(number), self.territory_of(number));
        let bytes = name.encode(self.medium.key);
        self.medium.region.write(place.name().offset, &bytes);
        let _named = self.medium.persist(&[place.name()]).await?;
        let domain = Domain::create(self.medium.clone(), place, territory).await?;
        let word = PoolGeometry::domain_word(number);
        self.medium.region.store(word.offset, 1);
        let _made = self.medium.persist(&[word]).await?;
        self.domains.insert(number, domain);
        Ok(Some(number))
    }

    /// The name of a domain; `None`: the domain does not exist, or its name is damaged.
    pub fn name_of(&self, number: u32) -> Option<DomainName> {
        if !self.domains.contains_key(&number) && !self.damaged.contains_key(&number) {
            return None;
        }
        let place = PoolGeometry::place(number).name();
        let mut bytes = vec![0; place.size as usize];
        self.medium.region.read(place.offset, &mut bytes);
        DomainName::decode(self.medium.key, &bytes)
    }

    /// Gives a domain another slab, all of whose units are free. Returns its number; `None`: no slab is free.
    ///
    /// The owner of a tenure may use the slab as soon as the owner learns of it.
    ///
    /// # Errors
    /// [`DomainError::Persist`]. A crash leaves the slab given or not.
    ///
    /// # Panics
    /// Panics if the domain does not exist.
    pub async fn give_slab(&mut self, number: u32) -> Result<Option<u64>, DomainError> {
        self.free_old_logs().await?;
        let Some(slab) = self.free_slab() else {
            return Ok(None);
        };
        let slabs = self.geometry.slabs();
        let bits = Span::new(slabs.slab(slab).offset, slabs.bits_size());
        if !mutant!(SlabGivenDirty) {
            let zeros = vec![0; bits.size as usize];
            self.medium.region.write(bits.offset, &zeros);
            let _cleared = self.medium.persist(&[bits]).await?;
        }
        self.use_slab(slab, SlabUse::Data(number)).await?;
        let domain = self.domains.get_mut(&number);
        domain
            .expect("the domain exists")
            .territory
            .slabs
            .insert(slab);
        Ok(Some(slab))
    }

    /// Takes a slab back from a domain. Returns whether the slab was taken: a slab with units in use stays.
    ///
    /// A slab changes hands only while its domain has no tenure: otherwise the log may still hold entries for the slab,
    /// and a replay would write to memory of the next domain.
    ///
    /// # Errors
    /// [`DomainError::Held`] while a tenure lasts; [`DomainError::Persist`]. A crash leaves the slab with the domain or
    /// free.
    pub async fn take_slab(&mut self, number: u32, slab: u64) -> Result<bool, DomainError> {
        let Some(domain) = self.domains.get_mut(&number) else {
            return Ok(false);
        };
        if slab >= self.geometry.slab_count {
            return Ok(false);
        }
        if let Some(tenure) = domain.tenure()
            && !mutant!(SlabTakenEarly)
        {
            return Err(DomainError::Held { tenure });
        }
        let slabs = self.geometry.slabs();
        let mut bits = vec![0; slabs.bits_size() as usize];
        self.medium.region.read(slabs.slab(slab).offset, &mut bits);
        if bits.iter().any(|byte| *byte != 0) || !domain.territory.slabs.remove(&slab) {
            return Ok(false);
        }
        self.use_slab(slab, SlabUse::Free).await?;
        Ok(true)
    }

    /// Grants the next tenure of a domain, with a log in a slab of its own; `None`: no slab is free.
    ///
    /// # Errors
    /// The errors of [`Domain::grant`].
    ///
    /// # Panics
    /// Panics if the domain does not exist.
    pub async fn grant(&mut self, number: u32) -> Result<Option<Grant>, DomainError> {
        let domain = self.domains.get(&number).expect("the domain exists");
        if let Some(tenure) = domain.tenure() {
            return Err(DomainError::Held { tenure });
        }
        self.free_old_logs().await?;
        let Some(slab) = self.free_slab() else {
            return Ok(None);
        };
        self.use_slab(slab, SlabUse::Log(number)).await?;
        let area = self.area(slab);
        let domain = self.domains.get_mut(&number).expect("the domain exists");
        domain.grant(area).await.map(Some)
    }

    /// Ends the tenure of a domain, if any; `None`: the domain is damaged, and was set aside.
    ///
    /// # Errors
    /// [`DomainError::Persist`].
    ///
    /// # Panics
    /// Panics if the domain does not exist.
    pub async fn hand_over(
        &mut self,
        number: u32,
        stopped: Stopped,
        executor: &mut dyn Execute,
    ) -> Result<Option<HandedOver>, DomainError> {
        let own = self.area(OWN_SLAB);
        let domain = self.domains.get_mut(&number).expect("the domain exists");
        let log = domain.log_area();
        let raised = domain.raise();
        let ended = match domain.finish(raised, own, executor).await {
            Ok(ended) => ended,
            Err(error) => {
                self.set_aside(number, error)?;
                return Ok(None);
            }
        };
        let slab = log.and_then(|log| {
            let span = Span::new(log.offset, log.size);
            self.geometry.slabs().slab_of(span)
        });
        if let (Some(slab), Stopped::Certainly) = (slab, stopped) {
            self.use_slab(slab, SlabUse::Free).await?;
        }
        Ok(Some(ended))
    }

    fn area(&self, slab: u64) -> LogArea {
        let Span { offset, size } = self.geometry.slabs().slab(slab);
        LogArea { offset, size }
    }

    fn free_slab(&self) -> Option<u64> {
        let free = self.uses.iter().position(|slab| *slab == SlabUse::Free);
        free.map(|slab| slab as u64)
    }

    async fn use_slab(&mut self, slab: u64, of: SlabUse) -> Result<(), DomainError> {
        let word = Span::new(self.geometry.uses().offset + slab * 8, 8);
        self.medium.region.store(word.offset, of.word());
        let _used = self.medium.persist(&[word]).await?;
        self.uses[slab as usize] = of;
        Ok(())
    }

    /// Logs of tenures that have ended, except logs of damaged domains, which are needed.
    fn unused_logs(&self) -> Vec<u64> {
        let is_unused = |slab: &u64| match self.uses[*slab as usize] {
            SlabUse::Log(number) => !self.damaged.contains_key(&number),
            _ => false,
        };
        (0..self.geometry.slab_count).filter(is_unused).collect()
    }

    /// Frees the logs of earlier runs once their owners are gone.
    async fn free_old_logs(&mut self) -> Result<(), DomainError> {
        let may_be_written = !self.medium.earlier_writers_are_gone() && !mutant!(OldLogGiven);
        if self.old_logs.is_empty() || may_be_written {
            return Ok(());
        }
        for slab in std::mem::take(&mut self.old_logs) {
            self.use_slab(slab, SlabUse::Free).await?;
        }
        Ok(())
    }

    fn territory_of(&self, number: u32) -> Territory {
        let of_domain = (0..self.geometry.slab_count)
            .filter(|slab| self.uses[*slab as usize] == SlabUse::Data(number));
        Territory {
            root: PoolGeometry::place(number).root_word(),
            geometry: self.geometry.slabs(),
            slabs: of_domain.collect(),
        }
    }
}

fn read_geometry(medium: &Medium) -> Result<PoolGeometry, DomainError> {
    let mut bytes = [0; size_of::<HeaderBytes>()];
    medium.region.read(0, &mut bytes);
    let header = HeaderBytes::read_from_bytes(&bytes).expect("a header has this size");
    let what = "header of structures";
    if header.magic != MAGIC {
        let found = format!("{:02x?}", header.magic);
        return Err(corrupt(what, 0, found, "the magic \"stonstru\""));
    }
    if header.version.get() != VERSION {
        let found = format!("version {}", header.version.get());
        return Err(corrupt(what, 8, found, "version 2"));
    }
    let geometry = PoolGeometry {
        domains: header.domains.get(),
        slab_size: header.slab_size.get(),
        slab_count: header.slab_count.get(),
    };
    if geometry.header(medium.uuid).as_bytes() != bytes {
        let found = format!("{:032x}", header.checksum.get());
        let offset = CHECKSUM_OFFSET as u64;
        return Err(corrupt(what, offset, found, "the checksum of this header"));
    }
    if geometry.pool_size() > medium.region.size() {
        let found = format!("{} bytes", medium.region.size());
        let expected = format!("{} bytes", geometry.pool_size());
        return Err(corrupt("pool of structures", 0, found, &expected));
    }
    Ok(geometry)
}

/// Refuses a pool with a slab of a domain that does not exist: a domain is never dropped, so its word is damaged.
fn check_owners(
    geometry: &PoolGeometry,
    uses: &[SlabUse],
    domains: &[u32],
) -> Result<(), DomainError> {
    for (slab, of) in (0_u64..).zip(uses) {
        let (SlabUse::Data(domain) | SlabUse::Log(domain)) = of else {
            continue;
        };
        if !domains.contains(domain) {
            let offset = geometry.uses().offset + slab * 8;
            let found = format!("a slab of domain {domain}, which does not exist");
            return Err(corrupt(
                "use of a slab",
                offset,
                found,
                "an existing domain",
            ));
        }
    }
    Ok(())
}

fn read_uses(medium: &Medium, geometry: &PoolGeometry) -> Result<Vec<SlabUse>, DomainError> {
    let words = 0..geometry.slab_count;
    let read = words.map(|slab| {
        let offset = geometry.uses().offset + slab * 8;
        let word = medium.region.load(offset);
        let is_known = |slab: &SlabUse| match slab {
            SlabUse::Data(domain) | SlabUse::Log(domain) => *domain < geometry.domains,
            SlabUse::Free | SlabUse::Own => true,
        };
        let known = SlabUse::of(word).filter(is_known);
        known.ok_or_else(|| {
            let found = format!("{word:#018x}");
            corrupt("use of a slab", offset, found, "a use and a domain")
        })
    });
    read.collect()
}
