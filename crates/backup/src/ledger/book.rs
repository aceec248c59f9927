//! The ledger in memory, and how much of it is durable.

use std::collections::BTreeMap;

use stonecast_base::Span;
use stonecast_lineage::Lineage;
use stonecast_log::{Ledger, LedgerFull, Lineages, LogFormat, SegmentState};
use stonecast_media::{PersistError, Region};
use stonecast_persist::Persisted;

use super::LedgerError;

pub(super) struct Book {
    ledger: Ledger,
    /// The floors in the ledger.
    floors: Lineages,
    home: Option<SegmentState>,
    /// Counts the changes.
    changed: u64,
    /// The last change that is durable.
    durable: u64,
    /// A ledger that was written into a home, and is not durable yet.
    written: Option<Written>,
    writes: u64,
    failed: bool,
}

#[derive(Clone, Copy)]
struct Written {
    span: Span,
    /// The last change in this ledger.
    changed: u64,
}

impl Book {
    pub fn new(ledger: Ledger, home: Option<SegmentState>) -> Self {
        let floors = floors_of(ledger.lineages());
        Self {
            ledger,
            floors,
            home,
            // The content that was read is the first change.
            changed: 1,
            durable: 0,
            written: None,
            writes: 0,
            failed: false,
        }
    }

    pub fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    pub fn floors(&self) -> &Lineages {
        &self.floors
    }

    pub fn changed(&self) -> u64 {
        self.changed
    }

    pub fn durable(&self) -> u64 {
        self.durable
    }

    pub fn writes(&self) -> u64 {
        self.writes
    }

    pub fn has_failed(&self) -> bool {
        self.failed
    }

    pub fn move_home(&mut self, home: Option<SegmentState>) {
        self.home = home;
    }

    pub fn change<T>(&mut self, change: impl FnOnce(&mut Ledger) -> T) -> T {
        let changed = change(&mut self.ledger);
        self.floors = floors_of(self.ledger.lineages());
        self.changed += 1;
        changed
    }

    /// Lends the ledger to a turn, which changes none of its rows.
    pub fn carry<T>(&mut self, step: impl FnOnce(&mut Ledger) -> T) -> T {
        step(&mut self.ledger)
    }

    pub fn write(&mut self, region: &dyn Region, format: &LogFormat) -> Result<(), LedgerError> {
        let home = self.home.as_ref().ok_or(LedgerError::NoHome)?;
        assert!(
            self.written.is_none(),
            "the ledger before this one is durable"
        );
        let written: Result<Span, LedgerFull> = self.ledger.write(region, format, home);
        self.written = Some(Written {
            span: written?,
            changed: self.changed,
        });
        self.writes += 1;
        Ok(())
    }

    /// The bytes of a ledger that is written and not durable.
    pub fn unfinished(&self) -> Option<Span> {
        self.written.map(|written| written.span)
    }

    pub fn finished(
        &mut self,
        persisted: Result<Persisted, PersistError>,
    ) -> Result<(), PersistError> {
        self.failed |= persisted.is_err();
        let _durable = persisted?;
        let written = self.written.take();
        self.durable = written.map_or(self.durable, |written| written.changed);
        Ok(())
    }
}

/// The floors alone: everything above one may count in a later history.
fn floors_of(lineages: &Lineages) -> Lineages {
    let mut floors = Lineages::default();
    for (shard, lineage) in lineages.iter() {
        let floor = Lineage {
            term: lineage.floor.term,
            cuts: BTreeMap::new(),
            ..*lineage
        };
        floors.keep(shard, floor);
    }
    floors
}
