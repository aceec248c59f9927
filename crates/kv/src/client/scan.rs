//! Iteration over all keys, in the order in which their present versions were committed.
//!
//! The index is read bucket by bucket, then the first line of each record for its version, then the records. It is no
//! snapshot: keys that were there all the time appear once, keys written or deleted meanwhile may or may not.

use std::rc::Rc;

use smallvec::SmallVec;
use stonecast_base::LINE_SIZE;
use stonecast_fabric::ReadInto;
use stonecast_log::{RECORD_START_SIZE, RecordHeader, check_read};

use super::read::control;
use super::{Client, Inner};
use crate::error::StoreError;
use crate::index::{BUCKET_WORDS, MOVED};
use crate::limits::READ_RETRIES_MAX;
use crate::word::Word;

/// A key with its value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The key.
    pub key: Vec<u8>,
    /// The value.
    pub value: Vec<u8>,
    /// The version.
    pub version: u64,
}

/// The keys found by [`Client::entries`], without their records: 24 bytes each.
pub struct Entries {
    /// The index in which the words were found.
    table: u32,
    found: Vec<(u64, Word, u64)>,
    next: usize,
}

/// Buckets read with one doorbell.
const BUCKETS_PER_READ: u64 = 256;
/// Records read with one doorbell.
const RECORDS_PER_READ: usize = 32;

impl Entries {
    /// Number of keys found.
    pub fn len(&self) -> usize {
        self.found.len()
    }

    /// Whether no key was found.
    pub fn is_empty(&self) -> bool {
        self.found.is_empty()
    }

    /// Reads the next records, in order, replacing what `into` holds. Empty at the end.
    pub async fn next(&mut self, client: &Client, into: &mut Vec<Entry>) -> Result<(), StoreError> {
        into.clear();
        let inner = &client.inner;
        while into.is_empty() && self.next < self.found.len() {
            let end = (self.next + RECORDS_PER_READ).min(self.found.len());
            let batch = &self.found[self.next..end];
            let mut buffers: Vec<Vec<u8>> = batch
                .iter()
                .map(|&(_, word, _)| vec![0; inner.first_read_size(word)])
                .collect();
            let mut reads: SmallVec<[ReadInto<'_>; 32]> = batch
                .iter()
                .zip(&mut buffers)
                .map(|(&(_, word, _), into)| ReadInto {
                    remote: inner.log_address(word.position()),
                    into,
                })
                .collect();
            inner.read(&mut reads).await?;
            drop(reads);
            for (&(_, word, slot), bytes) in batch.iter().zip(&mut buffers) {
                into.extend(inner.entry(word, (self.table, slot), bytes).await?);
            }
            // Only now: what could not be read is tried again by the next call.
            self.next = end;
        }
        Ok(())
    }
}

impl Client {
    /// Finds all keys.
    pub async fn entries(&self) -> Result<Entries, StoreError> {
        let inner = &*self.inner;
        inner.check_open()?;
        let (table, words) = self.words().await?;
        let mut found = Vec::with_capacity(words.len());
        let mut lines = vec![0; RECORDS_PER_READ * LINE_SIZE];
        for batch in words.chunks(RECORDS_PER_READ) {
            let mut reads: SmallVec<[ReadInto<'_>; 32]> = SmallVec::new();
            for (&(word, _), into) in batch.iter().zip(lines.chunks_exact_mut(LINE_SIZE)) {
                if inner.first_read_size(word) == 0 {
                    return Err(inner.damage(word, "a position outside the log".to_owned()));
                }
                reads.push(ReadInto {
                    remote: inner.log_address(word.position()),
                    into,
                });
            }
            inner.read(&mut reads).await?;
            drop(reads);
            for (&(word, slot), line) in batch.iter().zip(lines.as_chunks::<RECORD_START_SIZE>().0)
            {
                // A line that makes no sense is judged when its record is read.
                let version = RecordHeader::parse(line).map_or(0, |header| header.sequence());
                found.push((version, word, slot));
            }
        }
        found.sort_unstable_by_key(|&(version, _, _)| version);
        Ok(Entries {
            table,
            found,
            next: 0,
        })
    }

    /// All words of one index, each with its number in it.
    async fn words(&self) -> Result<(u32, Vec<(Word, u64)>), StoreError> {
        let inner = &*self.inner;
        for _ in 0..READ_RETRIES_MAX {
            let mut words = Vec::new();
            let table = inner.access.get().table;
            let whole = inner
                .for_each_word(|word, slot| {
                    words.push((word, slot));
                    true
                })
                .await?;
            if whole {
                return Ok((table, words));
            }
            self.inner.adopt_index(table).await?;
        }
        Err(StoreError::Protocol {
            what: "the index keeps moving while it is read",
        })
    }
}

impl Inner {
    /// Calls `visit` with each word of the index and its number, until it says false. False if the index has moved.
    async fn for_each_word(
        &self,
        mut visit: impl FnMut(Word, u64) -> bool,
    ) -> Result<bool, StoreError> {
        let access = self.access.get();
        let bucket_count = 1u64 << access.index_bits;
        let mut bytes = vec![0; BUCKETS_PER_READ.min(bucket_count) as usize * LINE_SIZE];
        for first in (0..bucket_count).step_by(BUCKETS_PER_READ as usize) {
            self.read(&mut [ReadInto {
                remote: self.index_address(first),
                into: &mut bytes,
            }])
            .await?;
            let moved = bytes
                .chunks_exact(LINE_SIZE)
                .any(|bucket| control(bucket) & MOVED != 0);
            if moved || self.access.get().table != access.table {
                return Ok(false);
            }
            for (slot, word) in bytes.as_chunks::<8>().0.iter().enumerate() {
                let word = Word(u64::from_le_bytes(*word));
                let is_word = slot as u64 % 8 < BUCKET_WORDS && word != Word::EMPTY;
                if is_word && !visit(word, first * 8 + slot as u64) {
                    return Ok(true);
                }
            }
        }
        Ok(true)
    }

    /// The entry behind `word`, which was at this number of this index; `bytes` holds its start. `None`: its key was
    /// written or deleted meanwhile.
    async fn entry(
        self: &Rc<Self>,
        mut word: Word,
        (table, slot): (u32, u64),
        bytes: &mut Vec<u8>,
    ) -> Result<Option<Entry>, StoreError> {
        // The word was found long ago: where generations have come round, it is read again first.
        let mut begun = None;
        for _ in 0..READ_RETRIES_MAX {
            let read = bytes.len();
            if let Some(whole) = self.longer(word, bytes) {
                bytes.resize(whole, 0);
                self.read_long(word.position() + read as u64, &mut bytes[read..])
                    .await?;
            }
            let fault =
                match check_read(&self.format, word.position(), word.generation_low(), bytes) {
                    Ok(record) => {
                        self.generations.note(record.header.generation());
                        if self.generations.believes(&*self.runtime, begun) {
                            let (key, value) = (record.key.to_vec(), record.value.to_vec());
                            return Ok(Some(Entry {
                                key,
                                value,
                                version: record.header.sequence(),
                            }));
                        }
                        None
                    }
                    Err(fault) => Some(fault),
                };
            begun = self.generations.begin(&*self.runtime);
            match (self.word_now(word, table, slot).await?, fault) {
                (Some(now), Some(fault)) if now == word => {
                    return Err(self.damage(word, fault.to_string()));
                }
                (Some(now), _) => word = now,
                (None, _) => return Ok(None),
            }
            bytes.clear();
            bytes.resize(self.first_read_size(word), 0);
            self.read_long(word.position(), bytes).await?;
        }
        Err(StoreError::Protocol {
            what: "a record keeps changing while it is read",
        })
    }

    /// What stands now where `word` stood; in a newer index, the same word if it is there. `None`: nothing.
    async fn word_now(
        self: &Rc<Self>,
        word: Word,
        table: u32,
        slot: u64,
    ) -> Result<Option<Word>, StoreError> {
        if self.access.get().table == table {
            let mut line = [0; LINE_SIZE];
            self.read(&mut [ReadInto {
                remote: self.index_address(slot / 8),
                into: &mut line,
            }])
            .await?;
            if control(&line) & MOVED == 0 {
                let now = Word(u64::from_le_bytes(
                    line.as_chunks::<8>().0[slot as usize % 8],
                ));
                return Ok((now != Word::EMPTY).then_some(now));
            }
            self.adopt_index(table).await?;
        }
        // Seldom: the index has moved and the record is damaged, or its place has been used again.
        for _ in 0..READ_RETRIES_MAX {
            let mut found = None;
            let seen = self.access.get().table;
            let whole = self
                .for_each_word(|other, _| {
                    found = (other == word).then_some(other);
                    found.is_none()
                })
                .await?;
            if whole {
                return Ok(found);
            }
            self.adopt_index(seen).await?;
        }
        Err(StoreError::Protocol {
            what: "the index keeps moving while it is read",
        })
    }
}
