//! Batches: several keys, which are changed together or not at all.
//!
//! ```text
//!   entries -> the value of one record -> one WRITE_WITH_IMM -> one answer
//! ```
//!
//! The record that brings a batch goes where a put of this client would go. The server takes it apart, and writes the
//! records of the batch itself.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use stonecast_fabric::Boxed;
use stonecast_log::{Condition, Draft, Expiry, Form, Kind, record_size, record_size_until};

use super::{BUSY_PAUSE_NS, BUSY_RETRIES_MAX, Cargo, Writer};
use crate::error::StoreError;
use crate::wire::limits::{BATCH_KEYS_MAX, BATCH_NAMES_MAX, BATCH_SIZE_MAX, check_key};
use crate::wire::{BatchEntry, EntryChange, Expectation, Verdict, push_entry};

/// Changes of several keys, and expectations of several keys: done together or not at all.
///
/// A batch changes a key once: a later change of the same key replaces the earlier one, in its place. The same holds
/// for expectations. Expectations are of the keys as they were before the batch.
#[derive(Clone, Debug, Default)]
pub struct Batch {
    entries: Vec<Entry>,
    places: BTreeMap<Arc<[u8]>, usize>,
}

#[derive(Clone, Debug)]
struct Entry {
    key: Arc<[u8]>,
    expectation: Option<Expectation>,
    change: Option<Change>,
}

#[derive(Clone, Debug)]
enum Change {
    Put(Vec<u8>, Option<Expiry>),
    Delete,
}

/// The outcome of a batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Applied {
    /// All changes are done. Each has a version of its own: the first key that the batch changes has the first version,
    /// the next key the next one, in the order in which the batch first named them. The range is empty if the batch
    /// changes nothing.
    Done(Range<u64>),
    /// An expectation did not hold, and nothing was done.
    Contradicted {
        /// The key that is not as expected; the first such key, in the order in which the batch named them.
        key: Vec<u8>,
    },
}

impl Batch {
    /// A batch without keys.
    pub fn new() -> Self {
        Self::default()
    }

    /// Gives `key` this value. The key does not expire.
    pub fn put(&mut self, key: &[u8], value: &[u8]) -> &mut Self {
        self.change(key, Change::Put(value.to_vec(), None))
    }

    /// Gives `key` this value until `expires`; `None`: the key does not expire.
    pub fn put_until(&mut self, key: &[u8], value: &[u8], expires: Option<Expiry>) -> &mut Self {
        self.change(key, Change::Put(value.to_vec(), expires))
    }

    /// Removes `key`. An absent key remains absent; expect [`Expectation::Present`] where that is wrong.
    pub fn delete(&mut self, key: &[u8]) -> &mut Self {
        self.change(key, Change::Delete)
    }

    /// Lets the batch be done only if `key` is as expected before it.
    pub fn expect(&mut self, key: &[u8], expectation: Expectation) -> &mut Self {
        self.entry(key).expectation = Some(expectation);
        self
    }

    /// The number of keys that the batch names.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether the batch names no key.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Bytes of the batch, as [`BATCH_SIZE_MAX`] counts them.
    pub fn size(&self) -> usize {
        self.entries.iter().map(Entry::size).sum()
    }

    /// The keys that the batch changes, in the order of the versions that they get.
    pub fn changed(&self) -> impl Iterator<Item = &[u8]> {
        let changed = self.entries.iter().filter(|entry| entry.change.is_some());
        changed.map(|entry| &entry.key[..])
    }

    /// The keys that the batch names, in order.
    pub fn keys(&self) -> impl Iterator<Item = &[u8]> {
        self.entries.iter().map(|entry| &entry.key[..])
    }

    /// The first of the keys that the batch changes.
    pub(in crate::client) fn first_changed(&self) -> Option<&[u8]> {
        self.changed().next()
    }

    /// The outcome if the first change has the version `first`.
    pub(crate) fn done(&self, first: u64) -> Applied {
        Applied::Done(first..first + self.changed().count() as u64)
    }

    fn change(&mut self, key: &[u8], change: Change) -> &mut Self {
        self.entry(key).change = Some(change);
        self
    }

    fn entry(&mut self, key: &[u8]) -> &mut Entry {
        let place = match self.places.get(key) {
            Some(&place) => place,
            None => {
                let key: Arc<[u8]> = key.into();
                self.places.insert(key.clone(), self.entries.len());
                self.entries.push(Entry {
                    key,
                    expectation: None,
                    change: None,
                });
                self.entries.len() - 1
            }
        };
        &mut self.entries[place]
    }

    fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(self.size());
        for entry in &self.entries {
            let change = entry.change.as_ref().map(|change| match change {
                Change::Put(value, expires) => EntryChange::Put {
                    value,
                    expires: *expires,
                },
                Change::Delete => EntryChange::Delete,
            });
            push_entry(
                &mut bytes,
                &BatchEntry {
                    key: &entry.key,
                    expectation: entry.expectation,
                    change,
                },
            );
        }
        bytes
    }
}

impl Entry {
    /// Bytes of the entry on its way to the server.
    fn size(&self) -> usize {
        BatchEntry::size(self.key.len(), self.value_size())
    }

    /// Bytes of the record in the log.
    fn record_size(&self) -> u64 {
        match &self.change {
            None => 0,
            Some(Change::Put(value, expires)) => {
                record_size_until(self.key.len(), value.len(), *expires)
            }
            Some(Change::Delete) => record_size_until(self.key.len(), 0, None),
        }
    }

    fn value_size(&self) -> usize {
        match &self.change {
            Some(Change::Put(value, _)) => value.len(),
            Some(Change::Delete) | None => 0,
        }
    }
}

/// Whether `batch` can be applied at all.
pub(in crate::client) fn check_batch(writer: &Writer, batch: &Batch) -> Result<(), StoreError> {
    let (names, changes) = (batch.len(), batch.changed().count());
    if names > BATCH_NAMES_MAX {
        return Err(StoreError::BatchNames {
            count: names,
            max: BATCH_NAMES_MAX,
        });
    }
    if changes > BATCH_KEYS_MAX {
        return Err(StoreError::BatchKeys {
            count: changes,
            max: BATCH_KEYS_MAX,
        });
    }
    for entry in &batch.entries {
        check_key(&entry.key)?;
    }
    let sent = batch.size();
    let logged: u64 = batch.entries.iter().map(Entry::record_size).sum();
    let key_size = batch.entries.first().map_or(1, |entry| entry.key.len());
    let logged_max = writer.segment_room();
    let sent_max = BATCH_SIZE_MAX.min((logged_max - record_size(key_size, 0)) as usize);
    match (sent > sent_max, logged > logged_max) {
        (false, false) => Ok(()),
        (true, _) => Err(StoreError::BatchSize {
            size: sent,
            max: sent_max,
        }),
        (false, true) => Err(StoreError::BatchSize {
            size: logged as usize,
            max: logged_max as usize,
        }),
    }
}

/// Applies a batch; see `Client::apply`.
pub(in crate::client) fn apply<'a>(
    writer: &'a Writer,
    token: u64,
    batch: &'a Batch,
) -> Boxed<'a, Result<Applied, StoreError>> {
    Box::pin(async move {
        check_batch(writer, batch)?;
        let Some(first) = batch.entries.first() else {
            return Ok(batch.done(0));
        };
        let bytes = batch.encode();
        let draft = Draft {
            kind: Kind::Put,
            form: Form::Whole,
            condition: Condition::None,
            token,
            expires: None,
            key: &first.key,
            value: &bytes,
        };
        for _ in 0..BUSY_RETRIES_MAX {
            let turn = writer.turns.lock().await;
            writer.connection.check_open()?;
            match writer.send_record(turn, &draft, Cargo::Batch).await? {
                (Verdict::Done, version) => return Ok(batch.done(version)),
                (Verdict::Contradicted, place) => {
                    let entry = batch.entries.get(place as usize);
                    let entry = entry.ok_or(StoreError::Protocol {
                        what: "the server names a key that the batch does not have",
                    })?;
                    let key = entry.key.to_vec();
                    return Ok(Applied::Contradicted { key });
                }
                (Verdict::NoBatch, place) if place > 0 => {
                    let other = batch.entries.get(place as usize);
                    let other = other.ok_or(StoreError::Protocol {
                        what: "the server names a key that the batch does not have",
                    })?;
                    return Err(StoreError::BatchShards {
                        keys: Box::new([first.key.to_vec(), other.key.to_vec()]),
                    });
                }
                (Verdict::Busy | Verdict::NoTime, _) => {
                    writer.connection.runtime.sleep(BUSY_PAUSE_NS).await;
                }
                (verdict, number) => return Err(writer.failure(verdict, number)),
            }
        }
        Err(StoreError::Busy)
    })
}
