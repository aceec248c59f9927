//! Iteration over all keys, in the order in which their present versions were committed.
//!
//! A scan reads the index some buckets at a time, and the first line of each record for its version; then the records.
//! A scan is not a snapshot: a key that is present and unchanged all the time appears once; a key written or deleted
//! meanwhile may appear or not.

use std::collections::BinaryHeap;
use std::ops::Range;

use smallvec::SmallVec;
use stonecast_base::LINE_SIZE;
use stonecast_fabric::{Boxed, ReadInto};
use stonecast_log::{Expiry, Form, RECORD_START_SIZE, Record, RecordHeader, check_read};

use super::memory::{OpenIndex, ServerMemory};
use super::reader::{FoundKey, Reader};
use crate::error::StoreError;
use crate::index::whole_size;
use crate::wire::limits::READ_RETRIES_MAX;
use crate::wire::{Bucket, Word};

/// A key with its value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The key.
    pub key: Vec<u8>,
    /// The value.
    pub value: Vec<u8>,
    /// The version.
    pub version: u64,
    /// The moment from which on the key is absent; `None`: the key does not expire.
    pub expires: Option<Expiry>,
}

/// The version of a record, its word, and the place of the word.
pub(super) type PlacedWord = (u64, Word, WordPlace);

/// The place of a word: the shard from bit 48 on, and below the number of the word in the index.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct WordPlace(u64);

impl WordPlace {
    pub fn new(shard: u32, bucket: u64, slot: u64) -> Self {
        Self(u64::from(shard) << 48 | (bucket * 8 + slot))
    }

    fn shard(self) -> u32 {
        (self.0 >> 48) as u32
    }

    fn bucket(self) -> u64 {
        (self.0 & ((1 << 48) - 1)) / 8
    }

    fn slot(self) -> usize {
        (self.0 % 8) as usize
    }
}

/// The keys found by [`Client::entries`](crate::Client::entries), without their records: 24 bytes each.
pub struct Entries {
    /// The indexes in which the words were found, one for each shard that was read.
    indexes: Vec<OpenIndex>,
    found: Vec<PlacedWord>,
    /// Whether there are no further keys.
    is_whole: bool,
    next: usize,
}

/// Buckets read with one doorbell.
pub(super) const BUCKETS_PER_READ: u64 = 256;
/// Records read with one doorbell.
pub(super) const RECORDS_PER_READ: usize = 32;
/// Bytes of values after which no further ones are gathered: long values come a few at a time.
pub(super) const VALUES_PER_READ: usize = 2 << 20;

impl Entries {
    /// Number of keys found.
    pub fn len(&self) -> usize {
        self.found.len()
    }

    /// Whether no key was found.
    pub fn is_empty(&self) -> bool {
        self.found.is_empty()
    }

    /// The version from which [`Client::entries_from`](crate::Client::entries_from) continues; `None` if there are no
    /// further keys.
    pub fn next_version(&self) -> Option<u64> {
        let (last, _, _) = self.found.last().filter(|_| !self.is_whole)?;
        Some(last + 1)
    }
}

/// A walk over the index and its records.
pub(super) struct Scan<'a> {
    memory: &'a ServerMemory,
    reader: &'a Reader,
}

/// A record that was found behind a word.
pub(super) struct ScannedRecord {
    /// The key, with the value of the record.
    pub entry: Entry,
    /// The part of a value that the record holds.
    pub form: Form,
}

impl ScannedRecord {
    /// The record that was read and checked.
    pub fn of(record: &Record<'_>) -> Self {
        Self {
            entry: Entry {
                key: record.key.to_vec(),
                value: record.value.to_vec(),
                version: record.header.sequence(),
                expires: record.header.expires(),
            },
            form: record.header.form(),
        }
    }
}

/// The records of the lowest versions among those that were offered.
struct Lowest {
    count: usize,
    found: BinaryHeap<PlacedWord>,
    has_dropped: bool,
}

impl Lowest {
    fn new(count: usize) -> Self {
        Self {
            count,
            found: BinaryHeap::new(),
            has_dropped: false,
        }
    }

    fn offer(&mut self, record: PlacedWord) {
        self.found.push(record);
        if self.found.len() > self.count {
            self.found.pop();
            self.has_dropped = true;
        }
    }

    /// Takes over the records that were offered to `other`.
    fn take(&mut self, other: Self) {
        match self.found.is_empty() {
            true => self.found = other.found,
            false => other
                .found
                .into_iter()
                .for_each(|record| self.offer(record)),
        }
        self.has_dropped |= other.has_dropped;
    }
}

fn bucket_count(index: &OpenIndex) -> u64 {
    1 << index.bits
}

/// The first bucket of each READ of the index.
fn bucket_ranges(index: &OpenIndex) -> impl Iterator<Item = u64> {
    (0..bucket_count(index)).step_by(BUCKETS_PER_READ as usize)
}

impl<'s> Scan<'s> {
    pub fn new(memory: &'s ServerMemory, reader: &'s Reader) -> Self {
        Self { memory, reader }
    }

    /// The keys of version `from` and higher, at most `count` of the lowest versions.
    pub async fn entries(&self, from: u64, count: usize) -> Result<Entries, StoreError> {
        let shards = 0..self.memory.connection.welcome.keys().shards;
        self.entries_in(shards, from, count).await
    }

    /// The keys of `shards` of version `from` and higher, at most `count` of the lowest versions.
    pub fn entries_in<'a>(
        &'a self,
        shards: Range<u32>,
        from: u64,
        count: usize,
    ) -> Boxed<'a, Result<Entries, StoreError>> {
        Box::pin(async move {
            self.memory.connection.check_open()?;
            let mut lowest = Lowest::new(count);
            let mut indexes = Vec::new();
            for shard in shards {
                let (index, of_shard) = self.entries_of(shard, from, count).await?;
                indexes.push(index);
                lowest.take(of_shard);
            }
            Ok(Entries {
                indexes,
                is_whole: !lowest.has_dropped,
                found: lowest.found.into_sorted_vec(),
                next: 0,
            })
        })
    }

    /// The keys of one shard of version `from` and higher, at most `count` of the lowest versions,
    /// with the index in which they were found.
    async fn entries_of(
        &self,
        shard: u32,
        from: u64,
        count: usize,
    ) -> Result<(OpenIndex, Lowest), StoreError> {
        for _ in 0..READ_RETRIES_MAX {
            let index = self.memory.open_index(shard).await?;
            let mut lowest = Lowest::new(count);
            if self.offer_records(&index, from, &mut lowest).await? {
                return Ok((index, lowest));
            }
            self.memory.adopt_index(index).await?;
        }
        Err(StoreError::Protocol {
            what: "the index keeps moving while it is read",
        })
    }

    /// Replaces the content of `into` by the next records of `entries`, in order. `into` is empty at the end.
    pub fn next<'a>(
        &'a self,
        entries: &'a mut Entries,
        into: &'a mut Vec<Entry>,
    ) -> Boxed<'a, Result<(), StoreError>> {
        Box::pin(async move {
            into.clear();
            while into.is_empty() && entries.next < entries.found.len() {
                let end = (entries.next + RECORDS_PER_READ).min(entries.found.len());
                let batch = &entries.found[entries.next..end];
                let (mut read, mut size) = (0, 0);
                for record in self.records(batch, &entries.indexes).await? {
                    if size > VALUES_PER_READ {
                        break;
                    }
                    read += 1;
                    let Some(record) = record else { continue };
                    let entry = self.whole_entry(record).await?;
                    size += entry.as_ref().map_or(0, |entry| entry.value.len());
                    into.extend(entry);
                }
                // After the reads: a call after a failed one reads the same records again.
                entries.next += read;
            }
            Ok(())
        })
    }

    /// The entry of a record, with the whole of its value; `None` for a chunk, and for a key that is absent by now.
    async fn whole_entry(&self, record: ScannedRecord) -> Result<Option<Entry>, StoreError> {
        let ScannedRecord { mut entry, form } = record;
        match form {
            Form::Whole => {
                let connection = &self.memory.connection;
                let shard = connection.welcome.keys().route(&entry.key).shard;
                let is_present = connection.is_present(shard, entry.expires).await?;
                Ok(is_present.then_some(entry))
            }
            Form::Head => {
                let found = self.reader.find(&entry.key, &mut entry.value).await?;
                Ok(found.map(|FoundKey { version, expires }| Entry {
                    version,
                    expires,
                    ..entry
                }))
            }
            Form::Chunk => Ok(None),
        }
    }

    /// The records behind some words that were found in `indexes`, read with one doorbell, whether they have expired
    /// or not. A key that was written meanwhile may have its later record, or none.
    pub async fn records(
        &self,
        found: &[PlacedWord],
        indexes: &[OpenIndex],
    ) -> Result<Vec<Option<ScannedRecord>>, StoreError> {
        let memory = self.memory;
        let mut buffers: Vec<Vec<u8>> = found
            .iter()
            .map(|&(_, word, _)| vec![0; memory.first_read_size(word)])
            .collect();
        let mut reads: SmallVec<[ReadInto<'_>; 32]> = found
            .iter()
            .zip(&mut buffers)
            .map(|(&(_, word, _), into)| ReadInto {
                remote: memory.log_address(word.position()),
                into,
            })
            .collect();
        memory.read(&mut reads).await?;
        drop(reads);
        let mut entries = Vec::with_capacity(found.len());
        for (&(_, word, place), bytes) in found.iter().zip(&mut buffers) {
            entries.push(self.entry(word, (indexes, place), bytes).await?);
        }
        Ok(entries)
    }

    /// Offers each record of version `from` and higher to `lowest`. Returns false if the index has moved.
    async fn offer_records(
        &self,
        index: &OpenIndex,
        from: u64,
        lowest: &mut Lowest,
    ) -> Result<bool, StoreError> {
        let (mut words, mut lines) = (Vec::new(), vec![0; RECORDS_PER_READ * LINE_SIZE]);
        for first in bucket_ranges(index) {
            if !self.words(index, first, &mut words).await? {
                return Ok(false);
            }
            for batch in words.chunks(RECORDS_PER_READ) {
                self.read_starts(batch, &mut lines).await?;
                let starts = lines.as_chunks::<RECORD_START_SIZE>().0;
                for (&(word, place), line) in batch.iter().zip(starts) {
                    // A line that is no header, or belongs to another record, is judged when its record is read.
                    let header = RecordHeader::parse(line).ok();
                    let header = header.filter(|header| word.is_of_generation(header.generation()));
                    let version = header.map_or(from, |header| header.sequence());
                    let is_chunk = header.is_some_and(|header| header.form() == Form::Chunk);
                    if version >= from && !is_chunk {
                        lowest.offer((version, word, place));
                    }
                }
            }
        }
        Ok(true)
    }

    /// Reads the first line of the record behind each word.
    pub async fn read_starts(
        &self,
        words: &[(Word, WordPlace)],
        lines: &mut [u8],
    ) -> Result<(), StoreError> {
        let mut reads: SmallVec<[ReadInto<'_>; 32]> = SmallVec::new();
        for (&(word, _), into) in words.iter().zip(lines.chunks_exact_mut(LINE_SIZE)) {
            if self.memory.first_read_size(word) == 0 {
                return Err(self
                    .memory
                    .damage(word, "a position outside the log".to_owned()));
            }
            reads.push(ReadInto {
                remote: self.memory.log_address(word.position()),
                into,
            });
        }
        self.memory.read(&mut reads).await?;
        Ok(())
    }

    /// The words of some buckets from `first` on, each with its place. Returns false if the index has moved.
    pub async fn words(
        &self,
        index: &OpenIndex,
        first: u64,
        words: &mut Vec<(Word, WordPlace)>,
    ) -> Result<bool, StoreError> {
        words.clear();
        if !self.memory.reads(index) {
            return Ok(false);
        }
        let count = BUCKETS_PER_READ.min(bucket_count(index)) as usize;
        let mut bytes = vec![0; count * LINE_SIZE];
        self.memory
            .read(&mut [ReadInto {
                remote: index.address(first),
                into: &mut bytes,
            }])
            .await?;
        for (bucket, line) in (first..).zip(bytes.as_chunks().0) {
            let line = Bucket::parse(line);
            if line.is_moved() {
                return Ok(false);
            }
            let used = (0..)
                .zip(line.words())
                .filter(|&(_, word)| word != Word::EMPTY);
            let placed = used.map(|(slot, word)| (word, WordPlace::new(index.shard, bucket, slot)));
            words.extend(placed);
        }
        Ok(self.memory.reads(index))
    }

    /// Whether `index` contains `word`; `None` if the index has moved.
    async fn has_word(&self, index: &OpenIndex, word: Word) -> Result<Option<bool>, StoreError> {
        let mut words = Vec::new();
        for first in bucket_ranges(index) {
            if !self.words(index, first, &mut words).await? {
                return Ok(None);
            }
            if words.iter().any(|&(other, _)| other == word) {
                return Ok(Some(true));
            }
        }
        Ok(Some(false))
    }

    /// The entry behind `word`, which was found at `place` of one of `indexes`; `bytes` holds its start. `None` if its
    /// key was written or deleted meanwhile.
    async fn entry(
        &self,
        mut word: Word,
        (indexes, place): (&[OpenIndex], WordPlace),
        bytes: &mut Vec<u8>,
    ) -> Result<Option<ScannedRecord>, StoreError> {
        // The word may be old. If generations have wrapped around, the word is read again first.
        let mut begun = None;
        for _ in 0..READ_RETRIES_MAX {
            let read = bytes.len();
            if let Some(whole) = whole_size(&self.memory.connection.format, word, bytes) {
                bytes.resize(whole, 0);
                self.memory
                    .read_long(word.position() + read as u64, &mut bytes[read..])
                    .await?;
            }
            let fault = match check_read(
                &self.memory.connection.format,
                word.position(),
                word.generation_low(),
                bytes,
            ) {
                Ok(record) => {
                    let generations = &self.reader.generations;
                    generations.note(record.header.generation());
                    if generations.believes(&*self.memory.connection.runtime, begun) {
                        return Ok(Some(ScannedRecord::of(&record)));
                    }
                    None
                }
                Err(fault) => Some(fault),
            };
            begun = self
                .reader
                .generations
                .begin(&*self.memory.connection.runtime);
            let mut indexes = indexes.iter();
            let index = indexes.find(|index| index.shard == place.shard());
            let index = index.expect("a word was found in an index of its shard");
            match (self.word_now(word, index, place).await?, fault) {
                (Some(now), Some(fault)) if now == word => {
                    return Err(self.memory.damage(word, fault.to_string()));
                }
                (Some(now), _) => word = now,
                (None, _) => return Ok(None),
            }
            bytes.clear();
            bytes.resize(self.memory.first_read_size(word), 0);
            self.memory.read_long(word.position(), bytes).await?;
        }
        Err(StoreError::Protocol {
            what: "a record keeps changing while it is read",
        })
    }

    /// The present word at the place of `word`; in a newer index, the same word if that index contains the word.
    /// Otherwise `None`.
    async fn word_now(
        &self,
        word: Word,
        index: &OpenIndex,
        place: WordPlace,
    ) -> Result<Option<Word>, StoreError> {
        if self.memory.reads(index) {
            let mut line = [0; LINE_SIZE];
            self.memory
                .read(&mut [ReadInto {
                    remote: index.address(place.bucket()),
                    into: &mut line,
                }])
                .await?;
            let line = Bucket::parse(&line);
            if !line.is_moved() {
                let now = line.words()[place.slot()];
                return Ok((now != Word::EMPTY).then_some(now));
            }
            self.memory.adopt_index(*index).await?;
        }
        // Rare: the index has moved, and the record is damaged or its place has been used again.
        for _ in 0..READ_RETRIES_MAX {
            let seen = self.memory.open_index(index.shard).await?;
            if let Some(is_there) = self.has_word(&seen, word).await? {
                return Ok(is_there.then_some(word));
            }
            self.memory.adopt_index(seen).await?;
        }
        Err(StoreError::Protocol {
            what: "the index keeps moving while it is read",
        })
    }
}
