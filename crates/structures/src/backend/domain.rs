//! A lock domain while a tenure lasts: records are taken, applied and trimmed.

use std::collections::VecDeque;
use std::rc::Rc;

use stonecast_base::{Span, mutant};
use stonecast_persist::Persisted;

use super::descriptor::Descriptor;
use super::error::DomainError;
use super::medium::Medium;
use super::territory::Territory;
use crate::tenure::{LogArea, LogScan, Mark};
use crate::wire::{Chain, DomainStat, Entries, EntryFault, Kind, NAME_SIZE, Record};

/// Bytes of the page of a domain.
pub const PAGE_SIZE: u64 = 4096;
/// Bytes from the start of the page to the words, each in a line of its own.
const TENURE_OFFSET: u64 = 0;
const ROOT_OFFSET: u64 = 64;
const HORIZON_OFFSET: u64 = 128;
const NAME_OFFSET: u64 = 3072;
const WORD_SIZE: u64 = 8;

/// The place of a domain in its pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DomainPlace {
    /// The number of the domain.
    pub number: u32,
    /// Bytes from the start of the pool to the page of the domain.
    pub page: u64,
}

impl DomainPlace {
    /// The tenure word. A writer reads the word after its record is durable. If the word still names the writer's
    /// tenure, the record was written while the tenure lasted.
    pub const fn tenure_word(&self) -> Span {
        Span::new(self.page + TENURE_OFFSET, WORD_SIZE)
    }

    /// The root word, by which all roots of the domain change at once.
    pub const fn root_word(&self) -> Span {
        Span::new(self.page + ROOT_OFFSET, WORD_SIZE)
    }

    /// The name of the domain.
    pub(crate) const fn name(&self) -> Span {
        Span::new(self.page + NAME_OFFSET, NAME_SIZE)
    }

    /// The word that holds the log sequence number after the last record that is known to be durable.
    const fn horizon(&self) -> Span {
        Span::new(self.page + HORIZON_OFFSET, WORD_SIZE)
    }
}

/// A tenure that was granted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grant {
    /// The tenure.
    pub tenure: u32,
    /// The log of the tenure.
    pub area: LogArea,
    /// The place of the first record.
    pub start: Mark,
}

/// The effect of [`Domain::take`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Taken {
    /// Log sequence number after the last record that is durable.
    pub durable: u64,
    /// Operations up to this number are applied, so that all readers see them.
    pub applied: u64,
}

/// The content of a log after the records that were taken.
pub(crate) enum Gathered {
    /// No new records.
    Nothing(Findings),
    /// New records, which are not known to be durable.
    Records(Records),
}

/// Records that were found in a log and are not known to be durable.
pub(crate) struct Records {
    /// The places that have to be durable first.
    pub spans: Vec<Span>,
    changes: Vec<Change>,
    findings: Findings,
}

/// The end of the records of a log, and the fault of the record there, if any.
pub(crate) struct Findings {
    end: Mark,
    refused: Option<DomainError>,
}

impl Findings {
    /// The effect of taking the records, once they are settled.
    ///
    /// # Errors
    /// [`DomainError::Refused`], as [`Domain::take`] returns it.
    pub fn taken(self) -> Result<Taken, DomainError> {
        self.refused.map_or(Ok(()), Err)?;
        Ok(Taken {
            durable: self.end.chain.lsn,
            applied: self.end.chain.covered,
        })
    }
}

/// A lock domain: one or several structures with one writer.
///
/// A restart of the back-end ends the tenure: an opened domain is handed over first ([`Domain::raise`],
/// [`Domain::finish`]), and then granted.
pub struct Domain {
    pub(super) medium: Rc<Medium>,
    pub(super) place: DomainPlace,
    pub(super) territory: Territory,
    pub(super) descriptor: Descriptor,
    pub(super) log: Option<OpenLog>,
    /// Lines that were changed since the data was made durable.
    pub(super) dirty: Vec<Span>,
}

/// The log of a tenure, as the back-end reads it.
pub(super) struct OpenLog {
    pub area: LogArea,
    pub scan: LogScan,
    /// Operations that no transaction covers, oldest first, each with the mark before it.
    pub uncovered: VecDeque<(Mark, Record)>,
    /// Transactions below this position are applied.
    pub applied: u64,
}

impl OpenLog {
    fn new(medium: &Medium, area: LogArea, base: Mark) -> Self {
        Self {
            area,
            scan: LogScan::new(medium.key, area, base),
            uncovered: VecDeque::new(),
            applied: base.position,
        }
    }

    /// The end of the records that may be read: the ring is full there.
    pub fn limit(&self, base: &Mark) -> u64 {
        base.position + self.area.size
    }

    /// Notes a record that the scan has read: an operation waits for its transaction. Returns the changes of a
    /// transaction.
    pub fn note(
        &mut self,
        before: Mark,
        record: Record,
        territory: &Territory,
    ) -> Result<Option<Change>, EntryFault> {
        match record.header.kind {
            Kind::Operation { .. } => {
                self.uncovered.push_back((before, record));
                Ok(None)
            }
            Kind::Transaction { last, .. } => {
                let entries = territory.check(&record.body)?;
                self.cover(last);
                let end = record.end();
                Ok(Some(Change { entries, end }))
            }
        }
    }

    /// Forgets operations up to the one with the number `last`: a transaction covers them.
    pub fn cover(&mut self, last: u64) {
        let is_covered = |(_, record): &(Mark, Record)| matches!(record.header.kind, Kind::Operation { number } if number <= last);
        while self.uncovered.front().is_some_and(is_covered) {
            self.uncovered.pop_front();
        }
    }

    /// Where a replay has to begin if everything that was applied is durable.
    pub fn base(&self) -> Mark {
        let first = self.uncovered.front().map(|(before, _)| *before);
        first.unwrap_or(*self.scan.at())
    }
}

/// A transaction that was checked.
pub(super) struct Change {
    pub entries: Entries,
    /// Position after the transaction's record.
    pub end: u64,
}

impl Domain {
    /// Makes the page of a new domain, durably. Its slabs hold zeros.
    ///
    /// # Errors
    /// [`DomainError::Persist`]; a crash leaves no domain, or the new one.
    pub async fn create(
        medium: Rc<Medium>,
        place: DomainPlace,
        territory: Territory,
    ) -> Result<Self, DomainError> {
        for word in [place.tenure_word(), place.root_word(), place.horizon()] {
            medium.region.store(word.offset, 0);
        }
        let chain = Chain::start(medium.key, place.number, 0, 1, 0);
        let descriptor = Descriptor {
            serial: 1,
            log: None,
            base: Mark { position: 0, chain },
            sealed: None,
        };
        let slot = descriptor.write(medium.bytes(), place.page, medium.uuid);
        let words = Span::new(place.page, ROOT_OFFSET * 3);
        let _made = medium.persist(&[words, slot]).await?;
        Ok(Self {
            medium,
            place,
            territory,
            descriptor,
            log: None,
            dirty: Vec::new(),
        })
    }

    /// Opens a domain after a restart. A tenure that has a log has to be handed over before anything else.
    ///
    /// # Errors
    /// [`DomainError::Corrupt`] if the page holds no descriptor; [`DomainError::Persist`]. A crash changes nothing.
    pub async fn open(
        medium: Rc<Medium>,
        place: DomainPlace,
        territory: Territory,
    ) -> Result<Self, DomainError> {
        let descriptor = Descriptor::read(medium.bytes(), place.page, medium.uuid)?;
        // If only the process died, page and records are visible and perhaps not durable. The next descriptor replaces
        // the descriptor before this one.
        let page = Span::new(place.page, PAGE_SIZE);
        let areas = descriptor.areas();
        medium.region.mark_changed(&[&[page], &*areas].concat());
        let _settled = medium.persist(&[page]).await?;
        let log = descriptor
            .log
            .map(|area| OpenLog::new(&medium, area, descriptor.base));
        Ok(Self {
            medium,
            place,
            territory,
            descriptor,
            log,
            dirty: Vec::new(),
        })
    }

    /// The memory that the domain's records may change.
    pub fn territory(&self) -> &Territory {
        &self.territory
    }

    /// The place of the domain.
    pub fn place(&self) -> DomainPlace {
        self.place
    }

    /// Operations up to this number are applied or were executed, if no tenure lasts.
    pub fn operation(&self) -> u64 {
        self.descriptor.base.chain.operation
    }

    /// Log sequence number of the next record, if no tenure lasts.
    pub fn lsn(&self) -> u64 {
        self.descriptor.base.chain.lsn
    }

    /// The position in the log below which its writer may use the ring again.
    pub fn trimmed(&self) -> u64 {
        self.descriptor.base.position
    }

    /// The state of the domain, for people.
    pub(crate) fn stat(&self) -> DomainStat {
        let base = self.descriptor.base;
        let slabs = self.territory.slabs.len() as u64;
        let Some(log) = &self.log else {
            let published = base.chain.operation;
            return DomainStat {
                published,
                slabs,
                ..DomainStat::default()
            };
        };
        let Mark { position, chain } = *log.scan.at();
        DomainStat {
            tenure: base.chain.tenure,
            published: chain.covered,
            staged: chain.operation - chain.covered,
            log_used: position - base.position,
            log_size: log.area.size,
            slabs,
        }
    }

    /// Whether more than half of the tenure's ring is in use.
    pub(crate) fn log_is_half_full(&self) -> bool {
        let base = self.descriptor.base.position;
        let log = self.log.as_ref();
        log.is_some_and(|log| (log.scan.at().position - base) * 2 > log.area.size)
    }

    /// The tenure that lasts, or has to be handed over.
    pub fn tenure(&self) -> Option<u32> {
        let tenure = self.descriptor.base.chain.tenure;
        self.log.is_some().then_some(tenure)
    }

    /// Where the log of the tenure lies.
    pub(crate) fn log_area(&self) -> Option<LogArea> {
        self.log.as_ref().map(|log| log.area)
    }

    /// Whether a hand-over has begun and was not finished.
    pub(super) fn is_sealed(&self) -> bool {
        self.descriptor.sealed.is_some()
    }

    /// The tenure word.
    pub(super) fn word(&self) -> u32 {
        self.medium.region.load(self.place.tenure_word().offset) as u32
    }

    pub(super) fn horizon(&self) -> u64 {
        self.medium.region.load(self.place.horizon().offset)
    }

    /// Notes that all records that the scan has read are durable. The horizon's word itself becomes durable with the
    /// next records.
    pub(super) fn note_horizon(&mut self, lsn: u64) {
        self.medium.region.store(self.place.horizon().offset, lsn);
    }

    /// Grants the next tenure a log in `area`. The area must be out of reach of earlier owners. The tenure begins with
    /// everything applied, and no operation in its log.
    ///
    /// # Errors
    /// [`DomainError::Held`] if a tenure was not handed over. A crash leaves the tenure granted or not.
    pub async fn grant(&mut self, area: LogArea) -> Result<Grant, DomainError> {
        let before = self.descriptor.base.chain;
        if self.log.is_some() {
            return Err(DomainError::Held {
                tenure: before.tenure,
            });
        }
        // The hand-over of the tenure before ended under the raised number; before the first tenure there was none.
        let tenure = before.tenure.max(1);
        let word = self.place.tenure_word();
        self.medium.region.store(word.offset, tenure.into());
        let key = self.medium.key;
        let chain = Chain::start(key, self.place.number, tenure, before.lsn, before.operation);
        let start = Mark { position: 0, chain };
        let descriptor = Descriptor {
            log: Some(area),
            base: start,
            sealed: None,
            ..self.descriptor
        };
        self.replace_descriptor(descriptor, &[word]).await?;
        self.log = Some(OpenLog::new(&self.medium, area, start));
        Ok(Grant {
            tenure,
            area,
            start,
        })
    }

    /// Takes the records that were appended since: makes them durable, then applies the transactions among them.
    ///
    /// # Errors
    /// [`DomainError::Over`] once the tenure word was raised; [`DomainError::Refused`] if a transaction names memory
    /// that is not the domain's: the records before it were taken, and the tenure has to end. [`DomainError::Persist`].
    /// A crash leaves any part of the applied words.
    pub async fn take(&mut self) -> Result<Taken, DomainError> {
        match self.gather()? {
            Gathered::Nothing(findings) => findings.taken(),
            Gathered::Records(records) => {
                let persisted = self.medium.persist(&records.spans).await?;
                self.settle(records, &persisted)
            }
        }
    }

    /// Log sequence number after the last record that was found.
    pub(crate) fn found(&self) -> Option<u64> {
        self.log.as_ref().map(|log| log.scan.at().chain.lsn)
    }

    /// Finds the records that were appended since. The caller persists new records, and then settles them.
    ///
    /// # Errors
    /// [`DomainError::Over`] once the tenure word was raised.
    pub(crate) fn gather(&mut self) -> Result<Gathered, DomainError> {
        let word = self.word();
        let log = self.log.as_mut().ok_or(DomainError::Vacant)?;
        let tenure = self.descriptor.base.chain.tenure;
        if word != tenure {
            return Err(DomainError::Over { tenure, word });
        }
        let from = log.scan.at().position;
        let limit = log.limit(&self.descriptor.base);
        let mut changes = Vec::new();
        let mut refused = None;
        loop {
            let before = log.scan.clone();
            let Ok(record) = log.scan.next(self.medium.bytes(), limit) else {
                break;
            };
            let lsn = record.header.lsn;
            match log.note(*before.at(), record, &self.territory) {
                Ok(change) => changes.extend(change),
                Err(fault) => {
                    log.scan = before;
                    refused = Some(DomainError::Refused { lsn, tenure, fault });
                    break;
                }
            }
        }
        let end = *log.scan.at();
        let findings = Findings { end, refused };
        if end.position == from {
            return Ok(Gathered::Nothing(findings));
        }
        let pieces = log.area.pieces(from, end.position - from);
        let mut spans: Vec<Span> = pieces.into_iter().collect();
        spans.push(self.place.horizon());
        if mutant!(AppliedBeforeDurable) {
            for change in &changes {
                self.medium
                    .write_entries(change.entries.iter(), &mut self.dirty);
            }
        }
        Ok(Gathered::Records(Records {
            spans,
            changes,
            findings,
        }))
    }

    /// Applies the transactions among records that are durable, as `persisted` proves.
    ///
    /// # Errors
    /// [`DomainError::Refused`], as [`Domain::take`] returns it.
    pub(crate) fn settle(
        &mut self,
        records: Records,
        persisted: &Persisted,
    ) -> Result<Taken, DomainError> {
        let Records {
            changes, findings, ..
        } = records;
        self.note_horizon(findings.end.chain.lsn);
        for change in &changes {
            self.medium
                .apply(persisted, &change.entries, &mut self.dirty);
        }
        let log = self.log.as_mut().expect("the tenure lasts");
        log.applied = changes.last().map_or(log.applied, |change| change.end);
        findings.taken()
    }

    /// Makes applied words durable, and lets the writer use the ring again up to [`Domain::trimmed`].
    ///
    /// # Errors
    /// [`DomainError::Persist`]: the pool has to be closed. A crash leaves the log trimmed or not.
    pub async fn trim(&mut self) -> Result<(), DomainError> {
        let log = self.log.as_ref().ok_or(DomainError::Vacant)?;
        let base = log.base();
        self.settle_data().await?;
        let descriptor = Descriptor {
            base,
            ..self.descriptor
        };
        self.replace_descriptor(descriptor, &[]).await
    }

    /// Makes applied words durable.
    pub(super) async fn settle_data(&mut self) -> Result<(), DomainError> {
        let mut dirty = std::mem::take(&mut self.dirty);
        dirty.sort_unstable();
        dirty.dedup();
        if !dirty.is_empty() && !mutant!(TrimmedBeforeData) {
            let _settled = self.medium.persist(&dirty).await?;
        }
        Ok(())
    }

    /// Makes `descriptor` the descriptor of the domain, durably, together with `words`.
    pub(super) async fn replace_descriptor(
        &mut self,
        descriptor: Descriptor,
        words: &[Span],
    ) -> Result<(), DomainError> {
        let serial = self.descriptor.serial + 1;
        let descriptor = Descriptor {
            serial,
            ..descriptor
        };
        let slot = descriptor.write(self.medium.bytes(), self.place.page, self.medium.uuid);
        let spans = [words, &[slot]].concat();
        let _replaced = self.medium.persist(&spans).await?;
        self.descriptor = descriptor;
        Ok(())
    }
}
