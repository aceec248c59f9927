//! The durable part of the minimal store: records and histories. A power cut loses the changes that were not committed,
//! from some change on.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use stonecast_cluster::{EpochCell, Known, Pending};
use stonecast_replication::{Entry, Judgement, Kind, Lineage, Point};

use super::pages::Item;
use super::store::{Word, body_of};

/// A record of a shard.
#[derive(Clone, Debug)]
pub struct Record {
    pub entry: Entry,
    pub body: Vec<u8>,
    /// Whether this node stamped it; else it was digested.
    pub is_own: bool,
}

impl Record {
    /// The record of a word that another store had.
    fn pulled(shard: u32, key: u8, word: Word) -> Self {
        let Point { term, version } = word.point;
        let entry = Entry {
            shard,
            term,
            version,
            previous: 0,
            horizon: 0,
            kind: Kind::Record,
        };
        let body = body_of((key, false), word.number);
        let is_own = false;
        Self {
            entry,
            body,
            is_own,
        }
    }
}

#[derive(Clone, Debug)]
pub enum Change {
    Record(Record),
    History(u32, Lineage),
    Dropped(u32),
    /// A part of a page of another store.
    Pulled(u32, Item),
}

/// The shards of a store.
#[derive(Clone, Debug, Default)]
pub struct Content {
    pub records: BTreeMap<(u32, Point), Record>,
    pub histories: BTreeMap<u32, Lineage>,
    /// Outcomes of writes that came from another store: by shard and number.
    pub outcomes: BTreeMap<(u32, u64), Point>,
}

/// The durable part of the minimal store.
#[derive(Clone, Default)]
pub struct Disk(Rc<RefCell<Parts>>);

#[derive(Default)]
struct Parts {
    durable: Content,
    pending: Vec<Change>,
    epochs: Option<Known>,
    /// The time by which a commit takes longer than usual.
    delay_ns: u64,
    is_broken: bool,
}

impl Disk {
    pub fn note(&self, change: Change) {
        self.0.borrow_mut().pending.push(change);
    }

    /// Makes commits that begin from here on take `delay_ns` longer.
    pub fn slow_down(&self, delay_ns: u64) {
        self.0.borrow_mut().delay_ns = delay_ns;
    }

    pub fn delay_ns(&self) -> u64 {
        self.0.borrow().delay_ns
    }

    /// Each commit that ends from here on fails, until the disk is mended.
    pub fn is_to_break(&self, is_broken: bool) {
        self.0.borrow_mut().is_broken = is_broken;
    }

    pub fn is_broken(&self) -> bool {
        self.0.borrow().is_broken
    }

    /// The number of changes to commit.
    pub fn mark(&self) -> usize {
        self.0.borrow().pending.len()
    }

    /// Makes the first `mark` changes durable. Returns the histories among them. A shard that was dropped has one that
    /// needs no entry.
    pub fn commit(&self, mark: usize) -> Vec<(u32, Lineage)> {
        let parts = &mut *self.0.borrow_mut();
        let mut histories = Vec::new();
        for change in parts.pending.drain(..mark) {
            match &change {
                Change::History(shard, history) => histories.push((*shard, history.clone())),
                Change::Dropped(shard) => {
                    let known = parts.durable.histories.get(shard);
                    histories.extend(known.map(|known| (*shard, known.dropped())));
                }
                Change::Record(_) | Change::Pulled(..) => {}
            }
            parts.durable.apply(change);
        }
        histories
    }

    /// The power fails: the first `kept` changes were durable by chance.
    pub fn fail(&self, kept: usize) {
        let _told = self.commit(kept.min(self.mark()));
        self.0.borrow_mut().pending.clear();
    }

    /// Becomes another disk, with nothing on it.
    pub fn replace(&self) {
        self.0.take();
    }

    pub fn content(&self) -> Content {
        self.0.borrow().durable.clone()
    }

    pub fn enter(&self, known: Known) {
        self.0.borrow_mut().epochs = Some(known);
    }
}

impl Content {
    fn apply(&mut self, change: Change) {
        match change {
            Change::Record(record) => {
                let at = (record.entry.shard, record.entry.point());
                // A node that led digests what it has stamped: the log has both records then.
                self.records.entry(at).or_insert(record);
            }
            Change::History(shard, history) => {
                // The rows of void versions stand for this in a real log.
                let is_void = |record: &Record| {
                    record.is_own && history.judge(record.entry.point()) == Judgement::Void
                };
                self.records
                    .retain(|&(of, _), record| of != shard || !is_void(record));
                self.histories.insert(shard, history);
            }
            Change::Pulled(shard, Item::Outcome(number, point)) => {
                self.outcomes.insert((shard, number), point);
            }
            Change::Pulled(shard, Item::Word(key, word)) => {
                let record = Record::pulled(shard, key, word);
                self.records.insert((shard, word.point), record);
            }
            Change::Dropped(shard) => {
                self.records.retain(|&(of, _), _| of != shard);
                self.outcomes.retain(|&(of, _), _| of != shard);
                self.histories.remove(&shard);
            }
        }
    }
}

impl EpochCell for Disk {
    type Error = &'static str;

    fn load(&self) -> Option<Known> {
        self.0.borrow().epochs
    }

    fn store<'a>(&'a self, known: Known) -> Pending<'a, Result<(), Self::Error>> {
        self.enter(known);
        Box::pin(std::future::ready(Ok(())))
    }
}
