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
use stonecast_log::Condition;

use super::get::Get;
use super::locations::DISTANCE_MAX;
use super::read_room::POSTED_READS_MAX;
use super::scratch::SCRATCH_SIZE;
use super::write::check_key;
use super::{Client, Inner};
use crate::error::StoreError;
use crate::index::{FoundRecord, LookUp, LookUpStep, Recall, Wanted, WholeRecord, first_read_size};
use crate::wire::limits::READ_RETRIES_MAX;
use crate::wire::{Accesses, KeyHash, Request, Word};

/// READs of one batch that are posted, so that others have room beside it.
const POSTED_TOGETHER_MAX: usize = POSTED_READS_MAX as usize / 4;

/// Buckets that a remembered location is checked by, at most.
const RECALLED_BUCKETS: usize = 1 + DISTANCE_MAX as usize;

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
        let wanted = inner.whole_record(key);
        let mut remembered = inner.locations.find(hash);
        let mut last_fault = None;
        for _ in 0..READ_RETRIES_MAX {
            let access = inner.access.get();
            let mut look_up = LookUp::new(wanted, hash, access.index_bits);
            let first = match remembered.take().and_then(|place| look_up.recall(place)) {
                Some(recall) => inner.recall(&access, &mut look_up, recall, value).await?,
                None => LookUpStep::Bucket(look_up.home()),
            };
            match inner.drive(&access, &mut look_up, first, value).await? {
                LookUpStep::Found(FoundRecord { version, value: at }) => {
                    value.truncate(at.end);
                    value.drain(..at.start);
                    inner.locations.count(look_up.is_recalled());
                    if !look_up.is_recalled() {
                        inner.locations.learn(hash, look_up.location());
                    }
                    return Ok(Some(version));
                }
                LookUpStep::Absent => {
                    inner.locations.count(false);
                    inner.locations.forget(hash);
                    return Ok(None);
                }
                LookUpStep::Fault(found) => {
                    let word = look_up.word();
                    inner.judge_fault(word, found, last_fault, key).await?;
                    last_fault = Some(word);
                }
                // This index is not the one that counts any more.
                _ => self.inner.adopt_index(access.table).await?,
            }
        }
        Err(StoreError::Protocol {
            what: "a record keeps changing while it is read",
        })
    }
}

impl Inner {
    /// What a reader of `key` looks for.
    #[inline(always)]
    pub(super) fn whole_record<'a>(&'a self, key: &'a [u8]) -> WholeRecord<'a> {
        WholeRecord {
            format: &self.format,
            key,
            generations: &self.generations,
        }
    }

    /// Reads what `look_up` asks for, until it ends. `record` holds the record that was found.
    pub(super) async fn drive<W: Wanted>(
        &self,
        access: &Accesses,
        look_up: &mut LookUp<W>,
        mut step: LookUpStep<W::Found>,
        record: &mut Vec<u8>,
    ) -> Result<LookUpStep<W::Found>, StoreError> {
        let mut line = [0; LINE_SIZE];
        loop {
            step = match step {
                LookUpStep::Bucket(bucket) => {
                    let remote = self.index_address(bucket);
                    let into = &mut line;
                    self.read(&mut [ReadInto { remote, into }]).await?;
                    // By now it may be a bucket of another index.
                    if self.access.get().table != access.table {
                        return Ok(LookUpStep::Moved);
                    }
                    look_up.bucket(&line)
                }
                LookUpStep::Record { position, size } => {
                    record.resize(size, 0);
                    self.read_long(position, record).await?;
                    look_up.record(record)
                }
                LookUpStep::Rest { position, size } => {
                    let read = record.len();
                    record.resize(size, 0);
                    let rest = &mut record[read..];
                    self.read_long(position + read as u64, rest).await?;
                    look_up.record(record)
                }
                end => return Ok(end),
            };
        }
    }

    /// Reads the record at a remembered location and, with the same doorbell, the buckets that say whether that counts.
    async fn recall<W: Wanted>(
        &self,
        access: &Accesses,
        look_up: &mut LookUp<W>,
        recall: Recall,
        record: &mut Vec<u8>,
    ) -> Result<LookUpStep<W::Found>, StoreError> {
        record.resize(recall.size, 0);
        let mut lines = [[0; LINE_SIZE]; RECALLED_BUCKETS];
        let lines = &mut lines[..recall.buckets];
        self.read(&mut [
            ReadInto {
                remote: self.log_address(recall.position),
                into: record,
            },
            ReadInto {
                remote: self.index_address(look_up.home()),
                into: lines.as_flattened_mut(),
            },
        ])
        .await?;
        if self.access.get().table != access.table {
            return Ok(LookUpStep::Moved);
        }
        Ok(look_up.recalled(lines, record))
    }

    /// Judges what was found behind `word` in place of a record: seen twice in a row behind an unchanged word, it is no race.
    async fn judge_fault(
        &self,
        word: Word,
        found: String,
        last_fault: Option<Word>,
        key: &[u8],
    ) -> Result<(), StoreError> {
        if mutant!(ReaderRepairs) {
            let (condition, token) = (Condition::None, 0);
            self.request(Request::Delete {
                condition,
                token,
                key,
            })
            .await?;
        } else if last_fault == Some(word) {
            // A server that came after this one may have used the place again: is this one's end known by now?
            self.runtime.sleep(0).await;
            self.check_open()?;
            return Err(self.damage(word, found));
        }
        Ok(())
    }

    /// Bytes to read at first of the record behind `word`; 0: it points outside the log.
    pub(super) fn first_read_size(&self, word: Word) -> usize {
        first_read_size(&self.format, word)
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
    #[inline(always)]
    pub(super) fn index_address(&self, bucket: u64) -> RemoteAddress {
        let access = self.access.get();
        let address = access.index_address + bucket * LINE_SIZE as u64;
        RemoteAddress {
            address,
            rkey: Rkey(access.index_rkey),
        }
    }

    /// The remote address of a byte of the log.
    #[inline(always)]
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
