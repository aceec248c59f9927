//! Reading: bucket and record, both by one-sided READ. The server's CPU takes no part.
//!
//! ```text
//!   place remembered    record, bucket -> the bucket has the word?  done          one round trip
//!                                      -> it has another one:       record        two
//!   place not known     bucket -> record                                          two
//! ```
//!
//! What a READ brings may be old or in the middle of a change, so nothing is believed before it is checked: a record must
//! carry the tag of its position, the generation that the word names, and the key. A word is stored after what it points
//! to is durable, and a record does not change while a word points to it, so a record that does not check means that the
//! word is old (read it again) or the record is damaged (the word has not changed). A remembered place says which record
//! to fetch together with the bucket; that it is the key's is said by the bucket alone, which is read in the same batch.
//! Why this is linearizable in whatever order the two are read: `docs/design/0017`.

use std::rc::Rc;

use stonecast_base::{Corruption, LINE_SIZE, mutant};
use stonecast_fabric::{ReadInto, RemoteAddress, Rkey, Status};
use stonecast_log::{Condition, RecordHeader, check_read};

use super::get::Get;
use super::locations::{DISTANCE_MAX, Location};
use super::read_room::POSTED_READS_MAX;
use super::scratch::SCRATCH_SIZE;
use super::write::check_key;
use super::{Client, Inner};
use crate::error::StoreError;
use crate::index::{BUCKET_WORDS, CONTROL_OFFSET, MOVED};
use crate::wire::Request;
use crate::wire::limits::READ_RETRIES_MAX;
use crate::wire::{KeyHash, Word};

/// READs of one batch that are posted, so that others have room beside it.
const POSTED_TOGETHER_MAX: usize = POSTED_READS_MAX as usize / 4;

/// Bytes of the buckets that a remembered place is checked by, at most.
const CHECKED_SIZE: usize = (1 + DISTANCE_MAX as usize) * LINE_SIZE;

/// The home bucket of a key, read in this call from the index with this number.
type Home = (u32, [u8; LINE_SIZE]);

/// What a remembered place led to.
enum Recalled {
    /// The key's version; its value is in the buffer.
    Found(u64),
    /// It is not the key's place any more, or the record has to be judged anew. Here is the bucket, if it counts.
    Stale(Option<Home>),
}

/// What a word led to.
enum Fetched {
    /// The key's record; its value is in the buffer.
    Found(u64),
    /// The record of another key with the same fingerprint.
    OtherKey,
    /// Nothing that checks.
    Fault(String),
}

/// What a look-up led to.
enum Looked {
    /// The key's version; its value is in the buffer.
    Found(u64),
    Absent,
    /// Something changed meanwhile: look again.
    Changed,
    /// This index is not the one that counts any more.
    Moved(u32),
}

impl Client {
    /// Reads the value of `key` into `value` and returns its version; `None` if the key is absent (then `value` holds
    /// nothing of meaning). What is returned is durable, and was the key's value at some moment during the call.
    #[inline]
    pub fn get<'a>(
        &'a self,
        key: &'a [u8],
        value: &'a mut Vec<u8>,
    ) -> impl Future<Output = Result<Option<u64>, StoreError>> + use<'a> {
        Get::new(self, key, value)
    }

    pub(super) async fn find(
        &self,
        key: &[u8],
        value: &mut Vec<u8>,
    ) -> Result<Option<u64>, StoreError> {
        check_key(key)?;
        let inner = &*self.inner;
        for _ in 0..READ_RETRIES_MAX {
            let begun = inner.generations.begin(&*inner.runtime);
            let found = self.find_once(key, value).await?;
            if inner.generations.believes(&*inner.runtime, begun) {
                return Ok(found);
            }
        }
        Err(StoreError::Protocol {
            what: "a record cannot be read in the time that its word is good for",
        })
    }

    async fn find_once(&self, key: &[u8], value: &mut Vec<u8>) -> Result<Option<u64>, StoreError> {
        let inner = &*self.inner;
        inner.check_open()?;
        let hash = KeyHash::of(inner.format.tag_key, key);
        let mut home = None;
        if let Some(location) = inner.locations.find(hash) {
            match inner.recall(location, hash, key, value).await? {
                Recalled::Found(version) => {
                    inner.locations.count(true);
                    return Ok(Some(version));
                }
                Recalled::Stale(read) => home = read,
            }
        }
        inner.locations.count(false);
        self.find_from(home, hash, key, value).await
    }

    /// Looks a key up in the index; `home`: its home bucket, if that was read in this call.
    pub(super) async fn find_from(
        &self,
        mut home: Option<Home>,
        hash: KeyHash,
        key: &[u8],
        value: &mut Vec<u8>,
    ) -> Result<Option<u64>, StoreError> {
        let inner = &*self.inner;
        let mut last_fault = None;
        for _ in 0..READ_RETRIES_MAX {
            match inner
                .look_up(home.take(), hash, key, value, &mut last_fault)
                .await?
            {
                Looked::Found(version) => return Ok(Some(version)),
                Looked::Absent => {
                    inner.locations.forget(hash);
                    return Ok(None);
                }
                Looked::Changed => {}
                Looked::Moved(table) => self.inner.adopt_index(table).await?,
            }
        }
        Err(StoreError::Protocol {
            what: "a record keeps changing while it is read",
        })
    }
}

/// The words of a bucket, without the control word.
pub(super) fn words_of(bucket: &[u8]) -> impl Iterator<Item = Word> {
    line_of(bucket).into_iter()
}

/// The first word of a bucket that may be that of the key with `hash`, and its place there. Found without a jump for each word: which one it is no
/// processor can foresee.
#[inline(always)]
pub(super) fn candidate_in(bucket: &[u8], hash: KeyHash) -> Option<(usize, Word)> {
    let all = line_of(bucket);
    let first = hash.first_in(&all);
    match all.get(first) {
        // A free place has the fingerprint of some hashes.
        Some(&Word::EMPTY) => all
            .into_iter()
            .enumerate()
            .find(|(_, word)| word.matches(hash)),
        found => found.map(|&word| (first, word)),
    }
}

/// Whether a bucket has this very word.
#[inline]
pub(super) fn has_word(bucket: &[u8], word: Word) -> bool {
    line_of(bucket)
        .iter()
        .fold(false, |is_there, now| is_there | (*now == word))
}

/// The words of a bucket, without the control word.
#[inline]
fn line_of(bucket: &[u8]) -> [Word; BUCKET_WORDS as usize] {
    let bytes: &[u8; LINE_SIZE] = bucket.first_chunk().expect("a bucket is a whole line");
    let (words, _) = bytes.as_chunks::<8>();
    std::array::from_fn(|index| Word(u64::from_le_bytes(words[index])))
}

/// The control word of a bucket.
#[inline]
pub(super) fn control(bucket: &[u8]) -> u64 {
    let bytes = &bucket[CONTROL_OFFSET as usize..];
    u64::from_le_bytes(*bytes.first_chunk().expect("a bucket is a whole line"))
}

impl Inner {
    /// Reads the record at a remembered place and, with the same doorbell, the bucket that says whether that counts.
    async fn recall(
        &self,
        location: Location,
        hash: KeyHash,
        key: &[u8],
        value: &mut Vec<u8>,
    ) -> Result<Recalled, StoreError> {
        let access = self.access.get();
        let Location { word, distance } = location;
        let home = hash.bucket(access.index_bits);
        let size = self.first_read_size(word);
        // At the end of the index the next bucket is the first: seldom enough to look it up.
        if size == 0 || home + distance >= 1 << access.index_bits {
            return Ok(Recalled::Stale(None));
        }
        value.resize(size, 0);
        let mut buckets = [0; CHECKED_SIZE];
        let buckets = &mut buckets[..(1 + distance as usize) * LINE_SIZE];
        self.read(&mut [
            ReadInto {
                remote: self.log_address(word.position()),
                into: value,
            },
            ReadInto {
                remote: self.index_address(home),
                into: buckets,
            },
        ])
        .await?;
        let (lines, _) = buckets.as_chunks::<LINE_SIZE>();
        if self.access.get().table != access.table
            || lines.iter().any(|line| control(line) & MOVED != 0)
        {
            return Ok(Recalled::Stale(None));
        }
        let is_there = has_word(&lines[distance as usize], word);
        if (is_there || mutant!(LocationTrusted))
            && let Fetched::Found(version) = self.judge(word, key, value).await?
        {
            return Ok(Recalled::Found(version));
        }
        Ok(Recalled::Stale(Some((access.table, lines[0]))))
    }

    /// One look-up.
    async fn look_up(
        &self,
        first: Option<Home>,
        hash: KeyHash,
        key: &[u8],
        value: &mut Vec<u8>,
        last_fault: &mut Option<Word>,
    ) -> Result<Looked, StoreError> {
        let access = self.access.get();
        let home = hash.bucket(access.index_bits);
        let mut first = first
            .filter(|(table, _)| *table == access.table)
            .map(|(_, line)| line);
        let mut bucket = home;
        loop {
            let line = match first.take() {
                Some(line) => line,
                None => {
                    let mut line = [0; LINE_SIZE];
                    self.read(&mut [ReadInto {
                        remote: self.index_address(bucket),
                        into: &mut line,
                    }])
                    .await?;
                    line
                }
            };
            let control = control(&line);
            if control & MOVED != 0 || self.access.get().table != access.table {
                return Ok(Looked::Moved(access.table));
            }
            for word in words_of(&line).filter(|word| word.matches(hash)) {
                match self.fetch(word, key, value).await? {
                    Fetched::Found(version) => {
                        self.locations.learn(
                            hash,
                            Location {
                                word,
                                distance: bucket.wrapping_sub(home),
                            },
                        );
                        return Ok(Looked::Found(version));
                    }
                    Fetched::OtherKey => {}
                    // Seen twice in a row behind an unchanged word, it is no race.
                    Fetched::Fault(_) if mutant!(ReaderRepairs) => {
                        self.request(Request::Delete {
                            condition: Condition::None,
                            token: 0,
                            key,
                        })
                        .await?;
                        return Ok(Looked::Changed);
                    }
                    Fetched::Fault(found) if *last_fault == Some(word) => {
                        // A server that came after this one may have used the place again: is this one's end known by now?
                        self.runtime.sleep(0).await;
                        self.check_open()?;
                        return Err(self.damage(word, found));
                    }
                    Fetched::Fault(_) => {
                        *last_fault = Some(word);
                        return Ok(Looked::Changed);
                    }
                }
            }
            bucket = (bucket + 1) & ((1 << access.index_bits) - 1);
            if control == 0 || bucket == home {
                return Ok(Looked::Absent);
            }
        }
    }

    /// Reads the record behind `word` and, if it is the key's, leaves its value in `value`.
    async fn fetch(
        &self,
        word: Word,
        key: &[u8],
        value: &mut Vec<u8>,
    ) -> Result<Fetched, StoreError> {
        let size = self.first_read_size(word);
        if size == 0 {
            return Ok(Fetched::Fault("a position outside the log".to_owned()));
        }
        value.resize(size, 0);
        self.read(&mut [ReadInto {
            remote: self.log_address(word.position()),
            into: value,
        }])
        .await?;
        self.judge(word, key, value).await
    }

    /// What the bytes of the first READ behind `word` are, which lie in `value`. The rest of a long record is read; if it is
    /// the key's, its value is left in `value`.
    #[inline]
    async fn judge(
        &self,
        word: Word,
        key: &[u8],
        value: &mut Vec<u8>,
    ) -> Result<Fetched, StoreError> {
        let size = value.len();
        // Of any other class the first READ brings the whole record.
        if word.is_long()
            && let Some(whole) = self.longer(word, value)
        {
            value.resize(whole, 0);
            let (position, rest) = (word.position() + size as u64, &mut value[size..]);
            self.read_long(position, rest).await?;
        }
        Ok(
            match check_read(&self.format, word.position(), word.generation_low(), value) {
                Err(fault) => Fetched::Fault(fault.to_string()),
                // A word never points to a record that is not published.
                Ok(record) if record.header.sequence() == 0 => {
                    Fetched::Fault("a record without a stamp".to_owned())
                }
                Ok(record) if record.key != key => {
                    // Where it is of a later generation than the word means, the key's own record was here before.
                    self.generations.note(record.header.generation());
                    Fetched::OtherKey
                }
                Ok(record) => {
                    self.generations.note(record.header.generation());
                    let version = record.header.sequence();
                    let start = record.header.key_start() + key.len();
                    let end = start + record.value.len();
                    value.copy_within(start..end, 0);
                    value.truncate(end - start);
                    Fetched::Found(version)
                }
            },
        )
    }

    /// Bytes to read at first: what the word says, cut at the end of the segment. 0: the word points outside.
    pub(super) fn first_read_size(&self, word: Word) -> usize {
        let segment_size = self.format.segment_size;
        if word.position() >= segment_size * u64::from(self.format.segment_count) {
            return 0;
        }
        // Segments are of a power of two bytes. A division would stand between the loads of bucket and record.
        word.read_size()
            .min(segment_size - (word.position() & (segment_size - 1))) as usize
    }

    /// The whole size of a record of which only the start was read.
    pub(super) fn longer(&self, word: Word, bytes: &[u8]) -> Option<usize> {
        let header = RecordHeader::parse(bytes.first_chunk()?).ok()?;
        let size = header.size();
        let fits = word.position() % self.format.segment_size + size <= self.format.segment_size;
        (fits && size > bytes.len() as u64).then_some(size as usize)
    }

    pub(super) fn damage(&self, word: Word, found: String) -> StoreError {
        StoreError::from(Corruption {
            what: "record".into(),
            file: "log".into(),
            offset: word.position(),
            found,
            expected: "a record that carries the tag of its place".to_owned(),
        })
    }

    /// The remote address of a bucket.
    pub(super) fn index_address(&self, bucket: u64) -> RemoteAddress {
        let access = self.access.get();
        let address = access.index_address + bucket * LINE_SIZE as u64;
        RemoteAddress {
            address,
            rkey: Rkey(access.index_rkey),
        }
    }

    /// The remote address of a byte of the log.
    pub(super) fn log_address(&self, position: u64) -> RemoteAddress {
        let access = self.access.get();
        RemoteAddress {
            address: access.log_address + position,
            rkey: Rkey(access.log_rkey),
        }
    }

    /// Reads a long piece of the log.
    pub(super) async fn read_long(
        &self,
        mut position: u64,
        into: &mut [u8],
    ) -> Result<(), StoreError> {
        for piece in into.chunks_mut(SCRATCH_SIZE as usize) {
            let remote = self.log_address(position);
            position += piece.len() as u64;
            self.read(&mut [ReadInto {
                remote,
                into: piece,
            }])
            .await?;
        }
        Ok(())
    }

    /// Executes READs with one doorbell. Each is at most `SCRATCH_SIZE` long.
    #[inline]
    pub(super) async fn read(&self, reads: &mut [ReadInto<'_>]) -> Result<(), StoreError> {
        self.meter
            .note_reads(reads.iter().map(|read| read.into.len()).sum());
        let status = match self.port.device().read_now(self.qp, reads) {
            Some(status) => {
                self.port.take_turn().await;
                status
            }
            None => self.read_through_scratch(reads).await?,
        };
        if status == Status::Success {
            return Ok(());
        }
        self.end();
        Err(StoreError::Disconnected { unknown: false })
    }

    async fn read_through_scratch(&self, reads: &mut [ReadInto<'_>]) -> Result<Status, StoreError> {
        let index_in_use = Rc::clone(&self.index_in_use.borrow());
        let mut start = 0;
        while start < reads.len() {
            let mut size = 0;
            let mut fits = |read: &ReadInto<'_>| {
                size += (read.into.len() as u64).next_multiple_of(8);
                size <= SCRATCH_SIZE
            };
            let count = reads[start..]
                .iter()
                .take(POSTED_TOGETHER_MAX)
                .take_while(|read| fits(read))
                .count();
            assert!(count > 0, "each READ fits the scratch memory");
            let lent = self.scratch.lend(
                &**self.port.device(),
                &self.made.regions,
                index_in_use.clone(),
            )?;
            let posted = self.read_room.take(&self.runtime, count).await;
            let reads = &mut reads[start..start + count];
            let status = self
                .port
                .read(self.qp, reads, lent.span(), Some(lent.clone()))
                .await;
            self.read_room.completed(posted);
            self.note_late();
            let status = status?;
            if status != Status::Success {
                return Ok(status);
            }
            start += count;
        }
        Ok(Status::Success)
    }
}
