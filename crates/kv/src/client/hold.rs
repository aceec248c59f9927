//! All keys as they are at one version, read while others write.
//!
//! ```text
//!   hold       the server names the version, and from now on keeps the records that later writes replace
//!   survey     the words of all keys, and the versions of their records      READs of 256 buckets, and of 32 records
//!   retained   the versions that the base has
//!   records    those above the base, in ascending order
//!   kept       beside all of that: records whose keys have later ones, before their places are used again
//! ```
//!
//! A record of the held version is found by its word, or is kept by the server, or both. Equal versions identify the
//! same record. The server reports how many keys the version has, so a survey that misses a key is noticed, and
//! repeated.
//!
//! Invariant: each version comes out once, with the record that has it.

use std::collections::{BTreeMap, BTreeSet};

use smallvec::SmallVec;
use stonecast_base::{LINE_SIZE, mutant};
use stonecast_fabric::{Boxed, ReadInto};
use stonecast_log::{Form, RECORD_START_SIZE, RecordHeader, check_read};

use super::Client;
use super::connection::{BUSY_PAUSE_NS, BUSY_RETRIES_MAX};
use super::memory::{OpenIndex, ServerMemory};
use super::reader::take_chunks;
use super::scan::{
    BUCKETS_PER_READ, Entry, PlacedWord, RECORDS_PER_READ, ScannedRecord, VALUES_PER_READ,
    WordPlace,
};
use crate::error::StoreError;
use crate::index::whole_size;
use crate::wire::{Answer, Head, KeptPage, KeyMap, Request, Verdict, Word};

/// A part of the state at the held version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HeldPart {
    /// A record that the caller keeps until [`HeldPart::Kept`] asks for its version. These come at any time, in any
    /// order.
    Keep(Entry),
    /// Versions of records that the base has, ascending. These come before all records.
    Retained(Vec<u64>),
    /// A record above the base. Records come in ascending order of their versions.
    Record(Entry),
    /// The record of this version, in the place of a [`HeldPart::Record`]: the caller has kept it.
    Kept(u64),
}

/// A version of the store that a server holds for this client: all of its keys can be read as they were, while others
/// write.
///
/// The server keeps 8 bytes for each record that was replaced and that the client has not read. The hold is lost
/// ([`StoreError::HoldLost`]) when these are too many, when the cleaner of the log has waited for the client for a
/// second, or when another client begins a hold. The hold ends with [`Hold::end`], or with the connection.
pub struct Hold {
    client: Client,
    version: u64,
    keys: u64,
    /// Chunks of values at that version.
    chunks: u64,
    base: u64,
    /// Kept records that were read.
    read: u64,
    /// Versions of kept records, and versions of kept chunks.
    kept: BTreeSet<u64>,
    kept_chunks: BTreeSet<u64>,
    survey: Survey,
    phase: Phase,
    /// Every version up to this one has been returned.
    done: u64,
    /// Bytes read since the client asked for kept records.
    unasked: usize,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    Survey,
    /// The records from this number on come next.
    Found(usize),
}

/// The records that the index names.
#[derive(Default)]
struct Survey {
    /// The shard and the bucket at which the survey continues.
    shard: u32,
    bucket: u64,
    index: Option<OpenIndex>,
    /// The indexes of the shards before.
    indexes: Vec<OpenIndex>,
    /// Records found in those.
    whole: usize,
    found: Vec<PlacedWord>,
    /// Versions of the chunks of values that were found.
    chunks: BTreeSet<u64>,
    /// Attempts that missed a key.
    attempts: u32,
}

/// Attempts to find all keys. Each needs another growth of the index to fail.
const ATTEMPTS_MAX: u32 = 20;
/// Versions in one part.
const RETAINED_MAX: usize = 8192;
/// Bytes that are read before the client asks for kept records again.
const UNASKED_MAX: usize = 256 << 10;

impl Hold {
    /// Asks the server of `client` to hold its present version, for a backup on `base`.
    pub(super) async fn begin(client: Client, base: u64) -> Result<Self, StoreError> {
        let connection = client.inner.connection.clone();
        for _ in 0..BUSY_RETRIES_MAX {
            let KeptPage {
                version,
                keys,
                chunks,
                ..
            } = match connection.request(Request::Hold).await? {
                Answer::Kept(page) => *page,
                Answer::Verdict {
                    verdict: Verdict::Busy,
                    ..
                } => {
                    connection.runtime.sleep(BUSY_PAUSE_NS).await;
                    continue;
                }
                other => return Err(refusal(&other)),
            };
            let hold = Self {
                client,
                version,
                keys,
                chunks,
                base,
                read: 0,
                kept: BTreeSet::new(),
                kept_chunks: BTreeSet::new(),
                survey: Survey::default(),
                phase: Phase::Survey,
                done: 0,
                unasked: 0,
            };
            if base > version {
                hold.end().await?;
                return Err(StoreError::BaseBeyond { base, version });
            }
            return Ok(hold);
        }
        Err(StoreError::Busy)
    }

    /// The version: the state has every write up to it, and no later one.
    pub fn version(&self) -> u64 {
        self.version
    }

    /// Keys at that version, those included that have expired and are not removed yet.
    pub fn keys(&self) -> u64 {
        self.keys
    }

    /// Replaces the content of `parts` by the next parts of the state. `parts` is empty at the end. Call again soon:
    /// the server waits for this client with some of its cleaning.
    pub fn next<'a>(
        &'a mut self,
        parts: &'a mut Vec<HeldPart>,
    ) -> Boxed<'a, Result<(), StoreError>> {
        Box::pin(async move {
            parts.clear();
            while parts.is_empty() {
                if self.unasked >= UNASKED_MAX {
                    self.take_kept(parts).await?;
                }
                match self.phase {
                    Phase::Survey => {
                        if self.survey_some().await? {
                            self.take_kept(parts).await?;
                            self.conclude_survey()?;
                        }
                    }
                    Phase::Found(next) if next == self.survey.found.len() => return Ok(()),
                    Phase::Found(next) if self.survey.found[next].0 <= self.base => {
                        self.give_retained(next, parts);
                    }
                    Phase::Found(next) => self.give_records(next, parts).await?,
                }
            }
            Ok(())
        })
    }

    /// Ends the hold: the server no longer keeps records for this client.
    pub async fn end(self) -> Result<(), StoreError> {
        let request = Request::Kept {
            read: self.read,
            ends: true,
        };
        // Another backup may have taken the hold over.
        let _ = self.client.inner.connection.request(request).await?;
        Ok(())
    }

    fn memory(&self) -> &ServerMemory {
        &self.client.inner.memory
    }

    /// Reads some more words, with the versions of their records. Returns whether all shards are read.
    async fn survey_some(&mut self) -> Result<bool, StoreError> {
        let client = self.client.clone();
        let memory = &client.inner.memory;
        let survey = &mut self.survey;
        if survey.shard == client.shards() {
            return Ok(true);
        }
        let index = match survey.index {
            Some(index) => index,
            None => memory.open_index(survey.shard).await?,
        };
        survey.index = Some(index);
        let (scan, mut words) = (client.scan(), Vec::new());
        if !scan.words(&index, survey.bucket, &mut words).await? {
            // The index has grown: its shard is surveyed again.
            memory.adopt_index(index).await?;
            survey.found.truncate(survey.whole);
            (survey.index, survey.bucket) = (None, 0);
            return Ok(false);
        }
        let mut lines = vec![0; RECORDS_PER_READ * LINE_SIZE];
        for batch in words.chunks(RECORDS_PER_READ) {
            scan.read_starts(batch, &mut lines).await?;
            self.unasked += (1 + batch.len()) * LINE_SIZE;
            let starts = lines.as_chunks::<RECORD_START_SIZE>().0;
            for (&(word, place), line) in batch.iter().zip(starts) {
                let header = RecordHeader::parse(line);
                let header = header
                    .ok()
                    .filter(|it| word.is_of_generation(it.generation()));
                let found = match header {
                    Some(header) => Some((header.sequence(), header.form())),
                    // The place was used again: the record was moved or replaced meanwhile.
                    None => {
                        let moved = [(0, word, place)];
                        let entries = scan.records(&moved, &[index]).await?;
                        let entry = entries.into_iter().flatten().next();
                        entry.map(|it| (it.entry.version, it.form))
                    }
                };
                let is_held =
                    |&(version, _): &(u64, Form)| version <= self.version || mutant!(LaterInHold);
                match found.filter(is_held) {
                    None => {}
                    Some((version, Form::Chunk)) => {
                        survey.chunks.insert(version);
                    }
                    Some((version, _)) => survey.found.push((version, word, place)),
                }
            }
        }
        survey.bucket += BUCKETS_PER_READ;
        if survey.bucket >= 1 << index.bits {
            survey.indexes.push(index);
            survey.whole = survey.found.len();
            (survey.shard, survey.index, survey.bucket) = (survey.shard + 1, None, 0);
        }
        Ok(false)
    }

    /// Puts the records that were found and the records that were kept in order. If a record is missing, the survey
    /// begins again.
    fn conclude_survey(&mut self) -> Result<(), StoreError> {
        let survey = &mut self.survey;
        // An empty word sorts first: kept records need no second look.
        let kept = self.kept.iter();
        let kept = kept.map(|&version| (version, Word::EMPTY, WordPlace::new(0, 0, 0)));
        survey.found.extend(kept);
        survey.found.sort_unstable();
        survey.found.dedup_by_key(|&mut (version, ..)| version);
        let chunks = survey.chunks.union(&self.kept_chunks).count() as u64;
        if (survey.found.len() as u64, chunks) == (self.keys, self.chunks) {
            let next = survey.found.partition_point(|found| found.0 <= self.done);
            self.phase = Phase::Found(next);
            return Ok(());
        }
        self.begin_survey_again()
    }

    fn begin_survey_again(&mut self) -> Result<(), StoreError> {
        let attempts = self.survey.attempts + 1;
        if attempts > ATTEMPTS_MAX {
            return Err(StoreError::Protocol {
                what: "the server counts other keys than its index and its kept records have",
            });
        }
        self.survey = Survey {
            attempts,
            ..Survey::default()
        };
        self.phase = Phase::Survey;
        Ok(())
    }

    /// Gives the next versions that the base has.
    fn give_retained(&mut self, next: usize, parts: &mut Vec<HeldPart>) {
        let found = self.survey.found[next..].iter();
        let versions = found.map(|found| found.0);
        let retained: Vec<u64> = versions
            .take_while(|&version| version <= self.base)
            .take(RETAINED_MAX)
            .collect();
        self.phase = Phase::Found(next + retained.len());
        self.done = *retained.last().expect("the base has the next version");
        parts.push(HeldPart::Retained(retained));
    }

    /// Gives the next records.
    async fn give_records(
        &mut self,
        next: usize,
        parts: &mut Vec<HeldPart>,
    ) -> Result<(), StoreError> {
        let end = (next + RECORDS_PER_READ).min(self.survey.found.len());
        let mut wanted = self.survey.found[next..end].to_vec();
        let present = |found: &&PlacedWord| found.1 != Word::EMPTY && !self.kept.contains(&found.0);
        let present: Vec<PlacedWord> = wanted.iter().filter(present).copied().collect();
        let scan = self.client.scan();
        let records = scan.records(&present, &self.survey.indexes).await?;
        let mut entries = Vec::with_capacity(present.len());
        let (mut seen, mut size) = (0, 0);
        for (&(version, ..), record) in present.iter().zip(records) {
            if size > VALUES_PER_READ {
                wanted.retain(|found| found.0 < version);
                break;
            }
            seen += 1;
            let record = record.filter(|it| it.entry.version == version);
            let Some(ScannedRecord { mut entry, form }) = record else {
                continue;
            };
            let reader = &self.client.inner.reader;
            // If the chunks are missing, the key has a later record, and the server has kept this one.
            if form == Form::Whole || take_chunks(reader, &entry.key, &mut entry.value).await? {
                size += entry.value.len();
                entries.push(entry);
            }
        }
        if entries.len() < seen {
            // Their keys have later records: the server has kept these.
            self.take_kept(parts).await?;
        }
        let mut entries = entries.into_iter().peekable();
        for (number, (version, ..)) in (next..).zip(wanted) {
            if let Some(entry) = entries.next_if(|entry| entry.version == version) {
                self.unasked += entry.key.len() + entry.value.len() + LINE_SIZE;
                parts.push(HeldPart::Record(entry));
            } else if self.kept.contains(&version) {
                parts.push(HeldPart::Kept(version));
            } else {
                // The record was moved while the index grew.
                return self.begin_survey_again();
            }
            self.done = version;
            self.phase = Phase::Found(number + 1);
        }
        Ok(())
    }

    /// Reads all records that the server keeps at the moment.
    async fn take_kept(&mut self, parts: &mut Vec<HeldPart>) -> Result<(), StoreError> {
        self.unasked = 0;
        let mut cut = CutValues::of(self.client.keys());
        let mut page = self.ask_kept().await?;
        let all = self.read + page.waiting;
        while self.read < all {
            let words = page.words.iter().copied();
            let words: Vec<Word> = words.take_while(|&word| word != Word::EMPTY).collect();
            if words.is_empty() {
                return Err(StoreError::Protocol {
                    what: "the server keeps records and names none",
                });
            }
            self.read_kept(&words, &mut cut).await?;
            self.read += words.len() as u64;
            page = self.ask_kept().await?;
        }
        cut.whole_entries()?
            .into_iter()
            .for_each(|entry| self.keep(entry, parts));
        Ok(())
    }

    fn keep(&mut self, entry: Entry, parts: &mut Vec<HeldPart>) {
        if self.kept.insert(entry.version) && entry.version > self.base {
            parts.push(HeldPart::Keep(entry));
        }
    }

    async fn ask_kept(&self) -> Result<KeptPage, StoreError> {
        let request = Request::Kept {
            read: self.read,
            ends: false,
        };
        match self.client.inner.connection.request(request).await? {
            Answer::Kept(page) => Ok(*page),
            other => Err(refusal(&other)),
        }
    }

    /// Reads the kept records behind `words`, whose places stay as they are until the server hears that they were read.
    async fn read_kept(&mut self, words: &[Word], cut: &mut CutValues) -> Result<(), StoreError> {
        let memory = self.memory();
        let sizes = words.iter().map(|&word| memory.first_read_size(word));
        let mut buffers: Vec<Vec<u8>> = sizes.map(|size| vec![0; size]).collect();
        let mut reads: SmallVec<[ReadInto<'_>; 32]> = SmallVec::new();
        for (&word, into) in words.iter().zip(&mut buffers) {
            if into.is_empty() {
                return Err(memory.damage(word, "a position outside the log".to_owned()));
            }
            let remote = memory.log_address(word.position());
            reads.push(ReadInto { remote, into });
        }
        memory.read(&mut reads).await?;
        drop(reads);
        let mut entries = Vec::new();
        for (&word, bytes) in words.iter().zip(&mut buffers) {
            match kept_entry(memory, word, bytes).await? {
                Ok(entry) => entries.push(entry),
                Err(found) => {
                    // Without the hold, the place may have been used again.
                    self.ask_kept().await?;
                    return Err(memory.damage(word, found));
                }
            }
        }
        for record in entries {
            if record.form == Form::Chunk {
                self.kept_chunks.insert(record.entry.version);
            }
            cut.take(record);
        }
        Ok(())
    }
}

/// Kept records, whose values may be in chunks. The server keeps a record and the chunks that it names in one step, so
/// all chunks are among the records that were read with it.
struct CutValues {
    keys: KeyMap,
    whole: Vec<Entry>,
    heads: Vec<Entry>,
    chunks: BTreeMap<Vec<u8>, Vec<u8>>,
}

impl CutValues {
    fn of(keys: KeyMap) -> Self {
        Self {
            keys,
            whole: Vec::new(),
            heads: Vec::new(),
            chunks: BTreeMap::new(),
        }
    }

    fn take(&mut self, ScannedRecord { entry, form }: ScannedRecord) {
        match form {
            Form::Whole => self.whole.push(entry),
            Form::Head => self.heads.push(entry),
            Form::Chunk => {
                self.chunks.insert(entry.key, entry.value);
            }
        }
    }

    /// The entries with their whole values.
    fn whole_entries(mut self) -> Result<Vec<Entry>, StoreError> {
        for mut entry in self.heads {
            let whole = self.keys.whole_hash(&entry.key);
            let head = Head::read(&entry.value);
            let names = head.into_iter().flat_map(|head| head.names(whole));
            let chunks = names.map(|name| self.chunks.remove(&name.key()[..]));
            let value: Option<Vec<_>> = chunks.collect();
            let value = value.filter(|chunks| !chunks.is_empty());
            entry.value = value
                .ok_or(StoreError::Protocol {
                    what: "the server keeps a record and not the chunks that it names",
                })?
                .concat();
            self.whole.push(entry);
        }
        Ok(self.whole)
    }
}

/// The record behind `word`, whose first bytes are `bytes`, or a description of what is there.
async fn kept_entry(
    memory: &ServerMemory,
    word: Word,
    bytes: &mut Vec<u8>,
) -> Result<Result<ScannedRecord, String>, StoreError> {
    let format = &memory.connection.format;
    let read = bytes.len();
    if let Some(whole) = whole_size(format, word, bytes) {
        bytes.resize(whole, 0);
        let position = word.position() + read as u64;
        memory.read_long(position, &mut bytes[read..]).await?;
    }
    let checked = check_read(format, word.position(), word.generation_low(), bytes);
    Ok(match checked {
        Ok(record) => Ok(ScannedRecord::of(&record)),
        Err(fault) => Err(fault.to_string()),
    })
}

/// The error for an answer that brings no kept records.
fn refusal(answer: &Answer) -> StoreError {
    match answer {
        Answer::Verdict {
            verdict: Verdict::NoHold,
            version: 1,
        } => StoreError::NoHold {
            reason: "it is of a cluster, whose keys are written at several nodes; `stonecast export` writes its keys, which is no single version",
        },
        Answer::Verdict {
            verdict: Verdict::NoHold,
            ..
        } => StoreError::NoHold {
            reason: "its clients publish overwrites themselves, unseen by the server; start it with --clients trusted, or export the keys",
        },
        Answer::Verdict {
            verdict: Verdict::HoldLost,
            ..
        } => StoreError::HoldLost,
        Answer::Verdict {
            verdict: Verdict::Invalid,
            ..
        } => StoreError::Invalid,
        _ => StoreError::Protocol {
            what: "the answer to a request of a backup has no kept records",
        },
    }
}
