//! The end of a tenure.
//!
//! ```text
//!   raise the word -> the caller revokes the window -> scan -> persist -> seal -> apply -> execute leftovers -> persist data -> leave the log
//! ```
//!
//! From the raise to the seal nothing is applied: until the seal is durable, a crash may still change which records
//! count. The back-end executes leftovers as transactions of the next tenure, in a log of its own. These transactions
//! are durable before their first entry is applied, so a restart in the middle applies them again and executes nothing
//! twice.

use std::ops::AddAssign;

use stonecast_base::{Span, mutant};
use stonecast_media::Region;

use super::descriptor::{Descriptor, Sealed};
use super::domain::{Change, Domain, OpenLog};
use super::error::DomainError;
use crate::tenure::{LogArea, LogScan, Mark, TenureWriter};
use crate::wire::{Entries, Kind, RecordFault};

/// The tenure word was raised: no writer of an earlier tenure completes any further operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "the hand-over goes on when the window of the old tenure is closed"]
pub struct Raised {
    /// The tenure that ends; `None`: no tenure lasted.
    pub ended: Option<u32>,
}

/// An operation that its writer has logged and not published.
#[derive(Clone, Copy, Debug)]
pub struct Leftover<'a> {
    /// The number of the operation.
    pub number: u64,
    /// The body of its record ([`Operation`](crate::Operation)).
    pub body: &'a [u8],
    /// Log sequence number of the transaction that will publish the operation: the generation of the blocks that the
    /// operation takes.
    pub lsn: u64,
}

/// Executes operations in the memory of a domain, as parts of one transaction or a few.
pub trait Execute {
    /// Executes an operation in front of those since the last [`Execute::close`]. An operation that cannot be executed
    /// changes nothing. Returns false if the open transaction has no room for the operation: the caller closes the
    /// transaction first.
    fn execute(&mut self, memory: &dyn Region, operation: Leftover<'_>) -> bool;

    /// Closes the open transaction, which has the changes of the operations since the last call. The transaction is
    /// applied before the next operation.
    fn close(&mut self) -> Entries;
}

/// The state in which a hand-over has left the domain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HandedOver {
    /// Operations up to this number count.
    pub operation: u64,
    /// The part of the log that this call has replayed.
    pub replayed: Replayed,
}

/// The work of hand-overs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Replayed {
    /// Bytes of logs that were read.
    pub log_bytes: u64,
    /// Operations that were executed: durable ones that their writers had not published.
    pub executed: u64,
}

impl AddAssign for Replayed {
    fn add_assign(&mut self, other: Self) {
        self.log_bytes += other.log_bytes;
        self.executed += other.executed;
    }
}

impl Domain {
    /// Raises the tenure word, so that the owner of the tenure completes no further operation. The caller closes the
    /// owner's window next.
    ///
    /// A crash leaves the word raised or not. The number becomes durable with the seal.
    pub fn raise(&mut self) -> Raised {
        let tenure = self.descriptor.base.chain.tenure;
        let ended = self.log.is_some().then_some(tenure);
        if ended.is_some() && !mutant!(WordNotRaised) {
            let word = self.place.tenure_word();
            self.medium.region.store(word.offset, (tenure + 1).into());
        }
        Raised { ended }
    }

    /// Completes a hand-over after the window of the old tenure was closed. `own` is memory for the back-end's records
    /// that no front-end reaches, at least twice as long as the longest record. A hand-over that is repeated after a
    /// crash uses the same memory.
    ///
    /// Afterwards every operation that was acknowledged to a writer of the tenure, or could have been, is applied and
    /// durable, and the domain may be granted. A writer that could not be stopped for certain may still write to its
    /// area: no record that lands there after the scan counts, and the caller does not reuse the area. A crash at any
    /// point leaves a domain that is opened and handed over again, with the same result.
    ///
    /// # Errors
    /// [`DomainError::Gap`] and [`DomainError::Corrupt`]: records that were durable are damaged.
    /// [`DomainError::NoRoom`] if `own` is too small; [`DomainError::Persist`].
    pub async fn finish(
        &mut self,
        raised: Raised,
        own: LogArea,
        executor: &mut dyn Execute,
    ) -> Result<HandedOver, DomainError> {
        let mut replayed = Replayed::default();
        if raised.ended.is_some() {
            let mut changes = self.scan_to_the_end()?;
            replayed.log_bytes +=
                self.open_log().scan.at().position - self.descriptor.base.position;
            let sealed = self.seal(own).await?;
            let scan = self.read_own(&sealed, &mut changes)?;
            replayed.log_bytes += scan.at().position - sealed.own_base.position;
            self.redo(&sealed, &scan, &changes).await?;
            let mut own = OwnLog { sealed, scan };
            while !self.open_log().uncovered.is_empty() && !mutant!(LeftoverNotExecuted) {
                replayed.executed += self.execute(&mut own, executor).await?;
            }
            self.leave(*own.scan.at()).await?;
        }
        Ok(HandedOver {
            operation: self.operation(),
            replayed,
        })
    }

    /// Scans the records of the tenure to the seal, or to the first record that does not check. Returns the
    /// transactions that are not applied.
    fn scan_to_the_end(&mut self) -> Result<Vec<Change>, DomainError> {
        let sealed = self.descriptor.sealed.map(|sealed| sealed.end);
        let expected = sealed.map_or(self.horizon(), |end| end.chain.lsn);
        let base = self.descriptor.base;
        let log = self.log.as_mut().expect("a tenure ends");
        let limit = sealed.map_or(log.limit(&base), |end| end.position);
        let mut changes = Vec::new();
        let fault = loop {
            let before = log.scan.clone();
            let record = match log.scan.next(self.medium.bytes(), limit) {
                Ok(record) => record,
                Err(fault) => break fault,
            };
            match log.note(*before.at(), record, &self.territory) {
                Ok(change) => changes.extend(change),
                Err(_) => {
                    // The owner may not write such a record: the log ends before the record.
                    log.scan = before;
                    break RecordFault::Kind(0);
                }
            }
        };
        let applied = log.applied;
        changes.retain(|change| change.end > applied);
        expect(log.scan.at(), expected, fault)?;
        Ok(changes)
    }

    /// Makes the records durable that the scan has counted, then the end of the log.
    async fn seal(&mut self, own: LogArea) -> Result<Sealed, DomainError> {
        if let Some(sealed) = self.descriptor.sealed {
            return Ok(sealed);
        }
        let end = *self.open_log().scan.at();
        let base = self.descriptor.base.position;
        let records: Vec<Span> = self
            .open_log()
            .area
            .pieces(base, end.position - base)
            .collect();
        if !records.is_empty() && !mutant!(ScannedNotSettled) {
            let _settled = self.medium.persist(&records).await?;
        }
        let mut own_base = Mark { position: 0, ..end };
        own_base.chain.tenure += 1;
        let sealed = Sealed { end, own, own_base };
        if !mutant!(EndNotSealed) {
            let descriptor = Descriptor {
                sealed: Some(sealed),
                ..self.descriptor
            };
            let word = self.place.tenure_word();
            self.replace_descriptor(descriptor, &[word]).await?;
        }
        Ok(sealed)
    }

    /// Reads the transactions of an earlier hand-over of this tenure, and adds them to `changes`.
    fn read_own(
        &mut self,
        sealed: &Sealed,
        changes: &mut Vec<Change>,
    ) -> Result<LogScan, DomainError> {
        let (own, base) = (sealed.own, sealed.own_base);
        let limit = base.position + own.size;
        let expected = self.horizon();
        let mut scan = LogScan::new(self.medium.key, own, base);
        let log = self.log.as_mut().expect("a tenure ends");
        log.cover(base.chain.covered);
        let fault = loop {
            let before = *scan.at();
            let record = match scan.next(self.medium.bytes(), limit) {
                Ok(record) => record,
                Err(fault) => break fault,
            };
            let change = log.note(before, record, &self.territory);
            changes.extend(change.expect("the back-end changes nothing outside of the domain"));
        };
        expect(scan.at(), expected, fault)?;
        Ok(scan)
    }

    /// Applies transactions that are sealed or were executed before.
    async fn redo(
        &mut self,
        sealed: &Sealed,
        own: &LogScan,
        changes: &[Change],
    ) -> Result<(), DomainError> {
        let (from, to) = (sealed.own_base.position, own.at().position);
        let records: Vec<Span> = sealed.own.pieces(from, to - from).collect();
        // Transactions of a process that died may be visible and not durable.
        let persisted = self.medium.persist(&records).await?;
        self.note_horizon(own.at().chain.lsn);
        for change in changes {
            self.medium
                .apply(&persisted, &change.entries, &mut self.dirty);
        }
        Ok(())
    }

    /// Executes as many operations that no transaction covers as fit into one transaction: logs their changes, makes
    /// the record durable, and applies the record. Returns the number of operations.
    async fn execute(
        &mut self,
        own: &mut OwnLog,
        executor: &mut dyn Execute,
    ) -> Result<u64, DomainError> {
        let lsn = own.scan.at().chain.lsn;
        let (mut covers, mut last) = (0, 0);
        for (_, record) in &self.open_log().uncovered {
            let Kind::Operation { number } = record.header.kind else {
                unreachable!("only operations wait");
            };
            let body = &record.body;
            let operation = Leftover { number, body, lsn };
            // An operation for which an empty transaction has no room changes nothing.
            if !executor.execute(self.medium.bytes(), operation) && covers > 0 {
                break;
            }
            (covers, last) = (covers + 1, number);
        }
        // The executor has read bytes that the owner wrote, so its result is not trusted.
        let entries = executor.close();
        let entries = self.territory.check(entries.body()).unwrap_or_default();
        if own.is_full_for(&entries) {
            self.make_room(own).await?;
        }
        let area = own.sealed.own;
        let (end, base) = (*own.scan.at(), own.sealed.own_base.position);
        let mut writer = TenureWriter::new(self.medium.key, area, end, base);
        let kind = Kind::Transaction { last, covers };
        let append = writer.append(kind, entries.body(), 0);
        let append = append.map_err(|fault| DomainError::NoRoom {
            operation: last,
            fault,
        })?;
        if mutant!(ExecutedUnlogged) {
            self.medium.write_entries(entries.iter(), &mut self.dirty);
        } else {
            area.write(self.medium.bytes(), end.position, &append.bytes);
            let persisted = self.medium.persist(&append.pieces).await?;
            self.note_horizon(append.lsn + 1);
            self.medium.apply(&persisted, &entries, &mut self.dirty);
        }
        own.scan = LogScan::new(self.medium.key, area, *writer.end());
        let log = self.log.as_mut().expect("a tenure ends");
        log.cover(last);
        Ok(u64::from(covers))
    }

    /// Frees the back-end's log: the words of its transactions become durable.
    async fn make_room(&mut self, own: &mut OwnLog) -> Result<(), DomainError> {
        self.settle_data().await?;
        own.sealed.own_base = *own.scan.at();
        let descriptor = Descriptor {
            base: self.open_log().base(),
            sealed: Some(own.sealed),
            ..self.descriptor
        };
        self.replace_descriptor(descriptor, &[]).await
    }

    /// Makes the data durable, and gives the log up: all of its records are applied.
    async fn leave(&mut self, end: Mark) -> Result<(), DomainError> {
        self.settle_data().await?;
        let mut base = end;
        base.chain.covered = base.chain.operation;
        base.chain.tenure = self.descriptor.base.chain.tenure + 1;
        let descriptor = Descriptor {
            log: None,
            base,
            sealed: None,
            ..self.descriptor
        };
        let words = [self.place.tenure_word()];
        self.replace_descriptor(descriptor, &words).await?;
        self.log = None;
        Ok(())
    }

    fn open_log(&self) -> &OpenLog {
        self.log.as_ref().expect("a tenure ends")
    }
}

/// The log in which the back-end executes the leftovers of a tenure.
struct OwnLog {
    sealed: Sealed,
    /// The place after the last record.
    scan: LogScan,
}

impl OwnLog {
    fn is_full_for(&self, entries: &Entries) -> bool {
        let used = self.scan.at().position - self.sealed.own_base.position;
        used > 0 && used + crate::wire::record_size(entries.body().len()) > self.sealed.own.size
    }
}

/// Refuses a log that ends before a record that was durable.
fn expect(end: &Mark, horizon: u64, fault: RecordFault) -> Result<(), DomainError> {
    if end.chain.lsn >= horizon || mutant!(GapNotReported) {
        return Ok(());
    }
    Err(DomainError::Gap {
        lsn: end.chain.lsn,
        tenure: end.chain.tenure,
        horizon,
        fault,
    })
}
