//! Reading: bucket and record, both by one-sided READ. The server's CPU takes no part.
//!
//! ```text
//!   place remembered    record, bucket -> the bucket has the word?  done          one round trip
//!                                      -> it has another one:       record        two
//!   place not known     bucket -> record                                          two
//! ```
//!
//! The bytes of a READ may be old or in the middle of a change, so nothing is believed before it is checked: a record
//! must carry the tag of its position, the generation that the word names, and the key. A word is stored after its
//! record is durable, and a record does not change while a word points to it. A record that fails the check therefore
//! means that the word is old (the reader reads the word again) or that the record is damaged (the word has not
//! changed). A remembered place only says which record to fetch together with the bucket; the bucket, which is read in
//! the same batch, decides whether the record is the key's. `docs/design/0017` explains why this is linearizable in
//! either order of the two reads.

mod chunks;
mod found;
mod get;
mod in_call;
mod many;

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use stonecast_base::{LINE_SIZE, mutant};
use stonecast_fabric::ReadInto;
use stonecast_log::{Condition, Expiry, Form};

use super::connection::Connection;
use super::locations::{DISTANCE_MAX, Locations};
use super::memory::{OpenIndex, ServerMemory};
use crate::error::StoreError;
use crate::index::{
    FoundRecord, Generations, Location, LookUp, LookUpStep, Recall, Wanted, WholeRecord,
};
use crate::wire::limits::{READ_RETRIES_MAX, check_key};
use crate::wire::{Head, KeyHash, Request, Route, Word};

pub(super) use chunks::take_chunks;
pub use found::FoundKey;
use found::Sought;
pub(super) use get::Get;
use in_call::Buffers;
pub use many::Values;

/// Buckets that are read to check a remembered location, at most.
const RECALLED_BUCKETS: usize = 1 + DISTANCE_MAX as usize;

/// Reads keys by one-sided READs.
pub(super) struct Reader {
    connection: Rc<Connection>,
    memory: Rc<ServerMemory>,
    locations: Rc<Locations>,
    pub generations: Generations,
    /// The memory that a GET without a future reads to.
    buffers: RefCell<Buffers>,
    /// The expiry of the key that was found last in a call: [`Get`] has no room for one.
    expires_in_call: Cell<Option<Expiry>>,
}

impl Reader {
    pub fn new(memory: Rc<ServerMemory>, locations: Rc<Locations>) -> Self {
        Self {
            connection: memory.connection.clone(),
            memory,
            locations,
            generations: Generations::default(),
            buffers: RefCell::default(),
            expires_in_call: Cell::default(),
        }
    }

    /// The version and the expiry of `key`, whose value is left in `value`; `None` if the key is absent.
    pub async fn find(
        &self,
        key: &[u8],
        value: &mut Vec<u8>,
    ) -> Result<Option<FoundKey>, StoreError> {
        match self.find_within(key, u64::MAX, value).await? {
            Sought::Absent => Ok(None),
            Sought::Found(found) => Ok(Some(found)),
            Sought::TooLong => Err(StoreError::Protocol {
                what: "no value is that long",
            }),
        }
    }

    /// Like [`Reader::find`], but reads no chunks of a value of more than `most` bytes.
    async fn find_within(
        &self,
        key: &[u8],
        most: u64,
        value: &mut Vec<u8>,
    ) -> Result<Sought, StoreError> {
        check_key(key)?;
        self.believed(async || self.find_once(key, most, value).await)
            .await
    }

    /// The version of `key`; `None` if the key is absent. The chunks of its value are not read.
    pub async fn version_of(&self, key: &[u8]) -> Result<Option<u64>, StoreError> {
        check_key(key)?;
        let mut record = Vec::new();
        self.believed(async || self.version_once(key, &mut record).await)
            .await
    }

    async fn version_once(
        &self,
        key: &[u8],
        record: &mut Vec<u8>,
    ) -> Result<Option<u64>, StoreError> {
        self.connection.check_open()?;
        let route = self.connection.welcome.keys().route(key);
        let wanted = (self.whole_record(key), key);
        let Some((found, _)) = self.find_record(wanted, route, None, record).await? else {
            return Ok(None);
        };
        let is_present = self.connection.is_present(route.shard, found.expires);
        Ok(is_present.await?.then_some(found.version))
    }

    /// The result of `read`, which is repeated until no lease has lapsed during it.
    async fn believed<T>(
        &self,
        mut read: impl AsyncFnMut() -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let runtime = &*self.connection.runtime;
        for _ in 0..READ_RETRIES_MAX {
            let begun = self.generations.begin(runtime);
            let found = read().await?;
            if self.generations.believes(runtime, begun) {
                return Ok(found);
            }
        }
        Err(StoreError::Protocol {
            what: "a record cannot be read while its word is valid",
        })
    }

    async fn find_once(
        &self,
        key: &[u8],
        most: u64,
        value: &mut Vec<u8>,
    ) -> Result<Sought, StoreError> {
        self.connection.check_open()?;
        let route = self.connection.welcome.keys().route(key);
        let mut incomplete = None;
        for _ in 0..READ_RETRIES_MAX {
            let remembered = self.locations.find(route.hash);
            let wanted = self.whole_record(key);
            let found = self.find_record((wanted, key), route, remembered, value);
            let Some((found, place)) = found.await? else {
                self.connection.meter.note_location(false);
                self.locations.forget(route.hash);
                return Ok(Sought::Absent);
            };
            self.connection.meter.note_location(place.is_none());
            if let Some(place) = place {
                self.locations.learn(route.hash, place);
            }
            let FoundRecord {
                version,
                expires,
                form,
                ..
            } = found;
            if !self.connection.is_present(route.shard, expires).await? {
                return Ok(Sought::Absent);
            }
            if form == Form::Head && Head::read(value).is_some_and(|head| head.size > most) {
                return Ok(Sought::TooLong);
            }
            if form != Form::Head || take_chunks(self, key, value).await? {
                return Ok(Sought::Found(FoundKey { version, expires }));
            }
            // A later write of the key has taken the chunks away: its record is found next.
            if incomplete == Some(version) {
                return Err(StoreError::Protocol {
                    what: "chunks of a value are missing while a record names them",
                });
            }
            incomplete = Some(version);
        }
        Err(StoreError::Protocol {
            what: "the chunks of a value keep changing while they are read",
        })
    }

    /// The record that is `wanted`, and to whose key `route` leads, with its place unless that is the remembered one.
    /// The value of the record is left in `value`.
    async fn find_record<W: Wanted<Found = FoundRecord> + Copy>(
        &self,
        (wanted, key): (W, &[u8]),
        Route { shard, hash }: Route,
        mut remembered: Option<Location>,
        value: &mut Vec<u8>,
    ) -> Result<Option<(FoundRecord, Option<Location>)>, StoreError> {
        let mut last_fault = None;
        for _ in 0..READ_RETRIES_MAX {
            let index = self.memory.open_index(shard).await?;
            let mut look_up = LookUp::new(wanted, hash, index.bits);
            let first = match remembered.take().and_then(|place| look_up.recall(place)) {
                Some(recall) => self.recall(&index, &mut look_up, recall, value).await?,
                None => LookUpStep::Bucket(look_up.home()),
            };
            let end = self.memory.drive(&index, &mut look_up, first, value);
            match end.await? {
                LookUpStep::Found(found) => {
                    value.truncate(found.value.end);
                    value.drain(..found.value.start);
                    let place = (!look_up.is_recalled()).then(|| look_up.location());
                    return Ok(Some((found, place)));
                }
                LookUpStep::Absent => return Ok(None),
                LookUpStep::Fault(found) => {
                    let word = look_up.word();
                    self.judge_fault(word, found, last_fault, key).await?;
                    last_fault = Some(word);
                }
                // The server has moved to a newer index.
                _ => self.memory.adopt_index(index).await?,
            }
        }
        Err(StoreError::Protocol {
            what: "a record keeps changing while it is read",
        })
    }

    /// The record that a reader of `key` looks for.
    #[inline(always)]
    fn whole_record<'a>(&'a self, key: &'a [u8]) -> WholeRecord<'a> {
        WholeRecord {
            format: &self.connection.format,
            key,
            generations: &self.generations,
        }
    }

    /// Counts a key that was found, and remembers a place that was not known before.
    #[inline(always)]
    fn learn(&self, hash: KeyHash, look_up: &LookUp<WholeRecord<'_>>) {
        self.connection.meter.note_location(look_up.is_recalled());
        if !look_up.is_recalled() {
            self.locations.learn(hash, look_up.location());
        }
    }

    /// Reads the record at a remembered location and, with the same doorbell, the buckets that confirm the record.
    async fn recall<W: Wanted>(
        &self,
        index: &OpenIndex,
        look_up: &mut LookUp<W>,
        recall: Recall,
        record: &mut Vec<u8>,
    ) -> Result<LookUpStep<W::Found>, StoreError> {
        let memory = &*self.memory;
        record.resize(recall.size, 0);
        let mut lines = [[0; LINE_SIZE]; RECALLED_BUCKETS];
        let lines = &mut lines[..recall.buckets];
        let mut reads = [
            ReadInto {
                remote: memory.log_address(recall.position),
                into: record,
            },
            ReadInto {
                remote: index.address(look_up.home()),
                into: lines.as_flattened_mut(),
            },
        ];
        memory.read(&mut reads).await?;
        if !memory.reads(index) {
            return Ok(LookUpStep::Moved);
        }
        Ok(look_up.recalled(lines, record))
    }

    /// Judges bytes that were found at the place of `word` instead of a record. Such bytes found twice under an
    /// unchanged word are damage and not a race.
    async fn judge_fault(
        &self,
        word: Word,
        found: String,
        last_fault: Option<Word>,
        key: &[u8],
    ) -> Result<(), StoreError> {
        if mutant!(ReaderRepairs) {
            let (condition, token) = (Condition::None, 0);
            self.connection
                .request(Request::Delete {
                    condition,
                    token,
                    key,
                })
                .await?;
        } else if last_fault == Some(word) {
            // A later server may have used the place again. The pause lets this client learn of the end of its own
            // server.
            self.connection.runtime.sleep(0).await;
            self.connection.check_open()?;
            return Err(self.memory.damage(word, found));
        }
        Ok(())
    }
}
