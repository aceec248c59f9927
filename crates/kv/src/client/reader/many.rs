//! Reading many keys at once. A first doorbell fetches all buckets, and the records whose places are remembered; a
//! second doorbell fetches the other records. All other keys are looked up one by one.

use std::ops::Range;

use smallvec::SmallVec;
use stonecast_base::LINE_SIZE;
use stonecast_fabric::ReadInto;
use stonecast_log::{Expiry, Form};

use super::found::Sought;
use super::{FoundKey, Reader};
use crate::client::memory::OpenIndex;
use crate::client::time::Presence;
use crate::error::StoreError;
use crate::index::{FoundRecord, Location, LookUp, LookUpStep, Wanted as _};
use crate::wire::limits::{WHOLE_VALUE_SIZE_MAX, check_key};
use crate::wire::{KeyHash, Route, Word};

/// Values of [`Client::multi_get`](crate::Client::multi_get). Reuse one to save allocations.
#[derive(Default)]
pub struct Values {
    /// Memory that records are read to. The memory stays initialized from call to call, so no call fills it with zeros
    /// before the READs.
    bytes: Vec<u8>,
    /// The number of `bytes` in use.
    end: usize,
    buckets: Vec<u8>,
    found: Vec<Option<Place>>,
}

/// A value in [`Values`].
#[derive(Clone)]
struct Place {
    at: Range<usize>,
    found: FoundKey,
}

impl Values {
    /// Number of requested keys.
    pub fn len(&self) -> usize {
        self.found.len()
    }

    /// Whether no key was requested.
    pub fn is_empty(&self) -> bool {
        self.found.is_empty()
    }

    /// Bytes of memory that the values hold.
    pub fn capacity(&self) -> usize {
        self.bytes.capacity() + self.buckets.capacity()
    }

    /// Replaces the values by those of `found`, in their order.
    pub fn fill<'a>(&mut self, found: impl IntoIterator<Item = Option<(&'a [u8], FoundKey)>>) {
        self.clear();
        for found in found {
            let placed = found.map(|(value, found)| Place {
                at: self.add(value),
                found,
            });
            self.found.push(placed);
        }
    }

    fn clear(&mut self) {
        self.end = 0;
        self.found.clear();
    }

    /// Copies `value` after the bytes in use, and returns its place.
    fn add(&mut self, value: &[u8]) -> Range<usize> {
        let place = self.end..self.end + value.len();
        grow(&mut self.bytes, place.end);
        self.bytes[place.clone()].copy_from_slice(value);
        self.end = place.end;
        place
    }

    /// Value and version of the `index`-th key; `None` if the key is absent.
    #[inline]
    pub fn get(&self, index: usize) -> Option<(&[u8], u64)> {
        self.found[index]
            .as_ref()
            .map(|place| (&self.bytes[place.at.clone()], place.found.version))
    }

    /// Value, version and expiry of the `index`-th key; `None` if the key is absent.
    pub(crate) fn found(&self, index: usize) -> Option<(&[u8], FoundKey)> {
        let place = self.found[index].as_ref();
        place.map(|place| (&self.bytes[place.at.clone()], place.found))
    }

    /// The moment from which on the `index`-th key is absent; `None` if the key does not expire, or is absent.
    pub fn expires(&self, index: usize) -> Option<Expiry> {
        self.found[index].as_ref()?.found.expires
    }
}

/// Makes `bytes` at least `size` long.
fn grow(bytes: &mut Vec<u8>, size: usize) {
    if bytes.len() < size {
        bytes.resize(size, 0);
    }
}

/// A key whose look-up is in progress. The look-up is rebuilt for each batch of READs: keeping the look-up of every key
/// in memory would cost more than keeping these few facts.
struct Asked {
    hash: KeyHash,
    /// The index of the key's shard when the look-up began.
    index: OpenIndex,
    /// The word whose record is fetched next, if any.
    next: Option<Word>,
    /// Range of the record in `Values::bytes`.
    record: Range<usize>,
}

type Many<T> = SmallVec<[T; 32]>;

/// Keys whose look-ups go on one by one, each with the answer to whether its record is known to be long.
type Alone = SmallVec<[(usize, bool); 4]>;

/// Bytes of the longest record that is read together with others.
const SHORT_SIZE_MAX: usize = 4 << 10;

impl Reader {
    /// The values of as many of the first `keys` as `size_max` bytes have room for; see `Client::multi_get_within`.
    pub async fn find_many(
        &self,
        keys: &[&[u8]],
        size_max: usize,
        values: &mut Values,
    ) -> Result<usize, StoreError> {
        let runtime = &*self.connection.runtime;
        let begun = self.generations.begin(runtime);
        let mut result = self.find_all(keys, size_max, values).await;
        if result.is_ok() && !self.generations.believes(runtime, begun) {
            result = self.find_each(keys, size_max, values).await;
        }
        let found = *result.as_ref().unwrap_or(&keys.len());
        values.found.truncate(found);
        result
    }

    /// One key after the other.
    async fn find_each(
        &self,
        keys: &[&[u8]],
        size_max: usize,
        values: &mut Values,
    ) -> Result<usize, StoreError> {
        values.clear();
        let mut value = Vec::new();
        for (index, key) in keys.iter().enumerate() {
            let most = size_max.saturating_sub(values.end) as u64;
            let found = match self.find_within(key, most, &mut value).await? {
                Sought::Absent => None,
                Sought::Found(found) => Some(found),
                Sought::TooLong => return Ok(index),
            };
            if found.is_some() && !has_room(values, value.len(), size_max) {
                return Ok(index);
            }
            let placed = found.map(|found| Place {
                at: values.add(&value),
                found,
            });
            values.found.push(placed);
        }
        Ok(keys.len())
    }

    async fn find_all(
        &self,
        keys: &[&[u8]],
        size_max: usize,
        values: &mut Values,
    ) -> Result<usize, StoreError> {
        let memory = &*self.memory;
        self.connection.check_open()?;
        keys.iter().try_for_each(|key| check_key(key))?;
        values.clear();
        values.found.resize(keys.len(), None);
        let mut asked = Many::new();
        // Nothing waits between the last look at the indexes and the READs, so the READs are of the present indexes.
        self.ask_all(keys, &mut asked).await?;
        let mut alone = Alone::new();
        values.buckets.resize(keys.len() * LINE_SIZE, 0);
        {
            let mut reads = Many::new();
            self.reads_of_records(&mut asked, &mut values.bytes, &mut values.end, &mut reads);
            // A bucket is read after the record whose word the bucket confirms.
            let buckets = values.buckets.chunks_exact_mut(LINE_SIZE);
            reads.extend(asked.iter().zip(buckets).map(|(asked, into)| ReadInto {
                remote: asked.index.address(asked.hash.bucket(asked.index.bits)),
                into,
            }));
            memory.read(&mut reads).await?;
        }
        self.take_buckets(keys, &mut asked, values, &mut alone);
        {
            let mut reads = Many::new();
            self.reads_of_records(&mut asked, &mut values.bytes, &mut values.end, &mut reads);
            if !reads.is_empty() {
                memory.read(&mut reads).await?;
            }
        }
        self.take_records(keys, &asked, values, &mut alone);
        alone.sort_unstable();
        for (index, is_long) in alone {
            let mut value = Vec::new();
            if is_long && !has_room(values, WHOLE_VALUE_SIZE_MAX, size_max) {
                return Ok(index);
            }
            let most = size_max.saturating_sub(values.end) as u64;
            match self.find_within(keys[index], most, &mut value).await? {
                Sought::Absent => {}
                Sought::TooLong => return Ok(index),
                Sought::Found(_) if !has_room(values, value.len(), size_max) => return Ok(index),
                Sought::Found(found) => {
                    let at = values.add(&value);
                    values.found[index] = Some(Place { at, found });
                }
            }
        }
        Ok(keys.len())
    }
}

/// Whether a value of `size` bytes may be added to `values`.
fn has_room(values: &Values, size: usize, size_max: usize) -> bool {
    size <= SHORT_SIZE_MAX || values.end.saturating_add(size) <= size_max
}

impl Reader {
    /// The value of a found record; `Some(None)`: its key has expired. `None`: the server has to be asked for its time,
    /// or the record names chunks.
    #[inline(always)]
    fn place(&self, key: &[u8], asked: &Asked, found: FoundRecord) -> Option<Option<Place>> {
        if found.form != Form::Whole {
            return None;
        }
        let presence = |expires| {
            let shard = self.connection.welcome.keys().route(key).shard;
            self.connection.presence(shard, expires)
        };
        match found.expires.map_or(Presence::Present, presence) {
            Presence::Unsure => None,
            Presence::Absent => Some(None),
            Presence::Present => Some(Some(asked.found(found))),
        }
    }

    /// The value of `key`, whose record, behind `word`, may have an expiry; `Some(None)`: it has expired. `None`: the
    /// key has to be looked up alone.
    #[cold]
    fn expiring(
        &self,
        key: &[u8],
        asked: &Asked,
        word: Word,
        record: &[u8],
    ) -> Option<Option<Place>> {
        self.place(key, asked, self.whole_record(key).whole(word, record)?)
    }

    /// Looks at the buckets that were read, and at the records of remembered places. A record whose word a bucket has
    /// shown is the next one of its key.
    fn take_buckets(
        &self,
        keys: &[&[u8]],
        asked: &mut [Asked],
        values: &mut Values,
        alone: &mut Alone,
    ) {
        let (buckets, _) = values.buckets.as_chunks::<LINE_SIZE>();
        for (index, (asked, bucket)) in asked.iter_mut().zip(buckets).enumerate() {
            let mut look_up =
                LookUp::new(self.whole_record(keys[index]), asked.hash, asked.index.bits);
            let step = match asked.next.take() {
                Some(word) => {
                    look_up.recall(Location { word, distance: 0 });
                    let record = &values.bytes[asked.record.clone()];
                    look_up.recalled(std::slice::from_ref(bucket), record)
                }
                None => look_up.bucket(bucket),
            };
            match step {
                LookUpStep::Record { .. } if !look_up.word().is_long() => {
                    asked.next = Some(look_up.word());
                }
                LookUpStep::Absent => {
                    self.connection.meter.note_location(false);
                    self.locations.forget(asked.hash);
                }
                LookUpStep::Found(found) => match self.place(keys[index], asked, found) {
                    None => alone.push((index, false)),
                    Some(place) => {
                        values.found[index] = place;
                        self.connection.meter.note_location(true);
                    }
                },
                // The remaining reads of this key depend on each other.
                step => alone.push((index, matches!(step, LookUpStep::Record { .. }))),
            }
        }
    }

    /// Looks at the records that the buckets have named.
    fn take_records(
        &self,
        keys: &[&[u8]],
        asked: &[Asked],
        values: &mut Values,
        alone: &mut Alone,
    ) {
        for (index, asked) in asked.iter().enumerate() {
            let Some(word) = asked.next else {
                continue;
            };
            let record = &values.bytes[asked.record.clone()];
            let place = match self.whole_record(keys[index]).found(word, record) {
                Some(found) => Some(Some(asked.found(found))),
                None => self.expiring(keys[index], asked, word, record),
            };
            let Some(place) = place else {
                alone.push((index, false));
                continue;
            };
            values.found[index] = place;
            self.connection.meter.note_location(false);
            self.locations
                .learn(asked.hash, Location { word, distance: 0 });
        }
    }

    /// All keys, asked of the indexes of one moment. Opens the indexes that are not open yet.
    async fn ask_all(&self, keys: &[&[u8]], asked: &mut Many<Asked>) -> Result<(), StoreError> {
        while let Some(shard) = self.ask_open(keys, asked) {
            self.memory.open_index(shard).await?;
        }
        Ok(())
    }

    /// All keys; or a shard of one of these keys, if the index of the shard is not open.
    fn ask_open(&self, keys: &[&[u8]], asked: &mut Many<Asked>) -> Option<u32> {
        let map = self.connection.welcome.keys();
        asked.clear();
        for key in keys {
            let Route { shard, hash } = map.route(key);
            match self.memory.index(shard) {
                Some(index) => asked.push(self.ask(key, hash, index)),
                None => return Some(shard),
            }
        }
        None
    }

    /// A key, with its remembered record if the record can be fetched together with the home bucket.
    fn ask(&self, key: &[u8], hash: KeyHash, index: OpenIndex) -> Asked {
        let recalled = self
            .locations
            .find(hash)
            .filter(|location| location.distance == 0 && !location.word.is_long())
            .filter(|location| {
                let mut look_up = LookUp::new(self.whole_record(key), hash, index.bits);
                look_up.recall(*location).is_some()
            });
        Asked {
            hash,
            index,
            next: recalled.map(|location| location.word),
            record: 0..0,
        }
    }

    /// Adds to `reads` the READs of the records that `asked` need next. The READs go after the `end` of the `bytes` in
    /// use.
    fn reads_of_records<'a>(
        &self,
        asked: &mut [Asked],
        bytes: &'a mut Vec<u8>,
        end: &mut usize,
        reads: &mut Many<ReadInto<'a>>,
    ) {
        let start = *end;
        for asked in asked.iter_mut() {
            if let Some(word) = asked.next {
                let size = self.memory.first_read_size(word);
                asked.record = *end..*end + size;
                *end += size;
            }
        }
        grow(bytes, *end);
        let mut rest = &mut bytes[start..];
        for asked in asked.iter() {
            if let Some(word) = asked.next {
                let (into, tail) = std::mem::take(&mut rest).split_at_mut(asked.record.len());
                rest = tail;
                let remote = self.memory.log_address(word.position());
                reads.push(ReadInto { remote, into });
            }
        }
    }
}

impl Asked {
    /// The found record's value in `Values::bytes`.
    fn found(&self, found: FoundRecord) -> Place {
        let FoundRecord {
            version,
            value,
            expires,
            form: _,
        } = found;
        let start = self.record.start;
        Place {
            at: start + value.start..start + value.end,
            found: FoundKey { version, expires },
        }
    }
}
