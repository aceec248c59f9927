//! Reading many keys at once: with one doorbell their buckets and the records whose places are remembered, with a second
//! one the other records. What is out of the ordinary is looked up alone.

use std::ops::Range;

use smallvec::SmallVec;
use stonecast_base::LINE_SIZE;
use stonecast_fabric::ReadInto;
use stonecast_log::read_of_key;

use super::locations::Location;
use super::meter::Call;
use super::read::{candidate_in, control, has_word};
use super::write::check_key;
use super::{Client, Inner};
use crate::error::StoreError;
use crate::index::MOVED;
use crate::wire::limits::VALUE_SIZE_MAX;
use crate::wire::{KeyHash, Word};

/// Values of [`Client::multi_get`]. Reuse one to save allocations.
#[derive(Default)]
pub struct Values {
    bytes: Vec<u8>,
    buckets: Vec<u8>,
    found: Vec<Option<(Range<usize>, u64)>>,
}

impl Values {
    /// Number of keys asked for.
    pub fn len(&self) -> usize {
        self.found.len()
    }

    /// Whether nothing was asked for.
    pub fn is_empty(&self) -> bool {
        self.found.is_empty()
    }

    /// Bytes of memory that it holds.
    pub fn capacity(&self) -> usize {
        self.bytes.capacity() + self.buckets.capacity()
    }

    /// Value and version of the `index`-th key; `None` if it is absent.
    pub fn get(&self, index: usize) -> Option<(&[u8], u64)> {
        self.found[index]
            .as_ref()
            .map(|(range, version)| (&self.bytes[range.clone()], *version))
    }
}

/// A key on its way.
struct Asked {
    hash: KeyHash,
    /// The word whose record is fetched next; `None`: nothing to fetch.
    word: Option<Word>,
    /// Where the record lies in the bytes.
    record: Range<usize>,
}

type Many<T> = SmallVec<[T; 32]>;

/// Bytes of the longest record that is read together with others.
const SHORT_SIZE_MAX: usize = 4 << 10;

impl Client {
    /// Reads the values of `keys`, all with two doorbells; with one where all their places are remembered. Each key is read
    /// as by [`Client::get`]; together they are no snapshot.
    pub async fn multi_get(&self, keys: &[&[u8]], values: &mut Values) -> Result<(), StoreError> {
        let found = self.multi_get_within(keys, usize::MAX, values).await?;
        assert_eq!(found, keys.len(), "nothing bounds them");
        Ok(())
    }

    /// As [`Client::multi_get`], for as many of the keys, from the first one on, as `size_max` bytes of values have room for.
    /// Returns how many; `values` has those of no other key.
    ///
    /// Records of up to 4 KiB need no room. A longer one is read as long as there is room for the longest value, so with
    /// `size_max` of [`VALUE_SIZE_MAX`] beside the short ones at least one key is read, and with 0 only short records are.
    pub async fn multi_get_within(
        &self,
        keys: &[&[u8]],
        size_max: usize,
        values: &mut Values,
    ) -> Result<usize, StoreError> {
        let start = self.inner.begin_call();
        let begun = self.inner.generations.begin(&*self.inner.runtime);
        let mut result = self.find_all(keys, size_max, values).await;
        if result.is_ok() && !self.inner.generations.believes(&*self.inner.runtime, begun) {
            result = self.find_each(keys, size_max, values).await;
        }
        let found = *result.as_ref().unwrap_or(&keys.len());
        self.inner.end_call(Call::Read(found), start);
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
        values.bytes.clear();
        values.found.clear();
        let mut value = Vec::new();
        for (index, key) in keys.iter().enumerate() {
            let version = self.find(key, &mut value).await?;
            if version.is_some() && !has_room(values, value.len(), size_max) {
                return Ok(index);
            }
            let start = values.bytes.len();
            values
                .found
                .push(version.map(|version| (start..start + value.len(), version)));
            if version.is_some() {
                values.bytes.extend_from_slice(&value);
            }
        }
        Ok(keys.len())
    }

    async fn find_all(
        &self,
        keys: &[&[u8]],
        size_max: usize,
        values: &mut Values,
    ) -> Result<usize, StoreError> {
        let inner = &*self.inner;
        inner.check_open()?;
        keys.iter().try_for_each(|key| check_key(key))?;
        values.found.clear();
        values.found.resize(keys.len(), None);
        let mut asked: Many<Asked> = keys.iter().map(|key| inner.ask(key)).collect();
        // Each with whether its record is known to be long.
        let mut alone: SmallVec<[(usize, bool); 4]> = SmallVec::new();

        let access = inner.access.get();
        values.buckets.resize(keys.len() * LINE_SIZE, 0);
        values.bytes.clear();
        let mut reads = inner.reads_of_records(&mut asked, &mut values.bytes);
        // A bucket comes behind the record that it judges.
        reads.extend(
            asked
                .iter()
                .zip(values.buckets.chunks_exact_mut(LINE_SIZE))
                .map(|(asked, into)| ReadInto {
                    remote: inner.index_address(asked.hash.bucket(access.index_bits)),
                    into,
                }),
        );
        inner.read(&mut reads).await?;
        drop(reads);
        for (index, (key, bucket)) in keys
            .iter()
            .zip(values.buckets.chunks_exact(LINE_SIZE))
            .enumerate()
        {
            let Asked { hash, word, record } = &mut asked[index];
            if control(bucket) & MOVED != 0 {
                *word = None;
                alone.push((index, false));
                continue;
            }
            if let Some(word) = word.take().filter(|word| has_word(bucket, *word))
                && let Some((value, version)) =
                    inner.value_in(word, &values.bytes[record.clone()], key)
            {
                values.found[index] = Some((
                    record.start + value.start..record.start + value.end,
                    version,
                ));
                inner.locations.count(true);
                continue;
            }
            // The first word that may be the key's; a key that is not behind it is looked up alone.
            *word = candidate_in(bucket, *hash).map(|(_, word)| word);
            match word {
                // Its reads depend on each other, or it points nowhere.
                Some(found) if found.is_long() || inner.first_read_size(*found) == 0 => {
                    alone.push((index, found.is_long()));
                    *word = None;
                }
                Some(_) => {}
                None if control(bucket) == 0 => {
                    inner.locations.count(false);
                    inner.locations.forget(*hash);
                }
                None => alone.push((index, false)),
            }
        }

        let mut reads = inner.reads_of_records(&mut asked, &mut values.bytes);
        if !reads.is_empty() {
            inner.read(&mut reads).await?;
        }
        drop(reads);
        for (index, Asked { hash, word, record }) in asked.iter().enumerate() {
            let Some(word) = *word else { continue };
            match inner.value_in(word, &values.bytes[record.clone()], keys[index]) {
                Some((value, version)) => {
                    values.found[index] = Some((
                        record.start + value.start..record.start + value.end,
                        version,
                    ));
                    inner.locations.count(false);
                    inner.locations.learn(*hash, Location { word, distance: 0 });
                }
                None => alone.push((index, false)),
            }
        }
        alone.sort_unstable();
        for (index, is_long) in alone {
            let mut value = Vec::new();
            if is_long && !has_room(values, VALUE_SIZE_MAX, size_max) {
                return Ok(index);
            }
            if let Some(version) = self.find(keys[index], &mut value).await? {
                if !has_room(values, value.len(), size_max) {
                    return Ok(index);
                }
                let start = values.bytes.len();
                values.bytes.extend_from_slice(&value);
                values.found[index] = Some((start..values.bytes.len(), version));
            }
        }
        Ok(keys.len())
    }
}

/// Whether a value of `size` bytes may be added to those that were read.
fn has_room(values: &Values, size: usize, size_max: usize) -> bool {
    size <= SHORT_SIZE_MAX || values.bytes.len().saturating_add(size) <= size_max
}

impl Inner {
    /// A key with the word that is remembered of it, if its record can be fetched together with the home bucket.
    fn ask(&self, key: &[u8]) -> Asked {
        let hash = KeyHash::of(self.format.tag_key, key);
        let location = self
            .locations
            .find(hash)
            .filter(|location| location.distance == 0);
        let word = location
            .map(|location| location.word)
            .filter(|word| self.first_read_size(*word) > 0 && !word.is_long());
        Asked {
            hash,
            word,
            record: 0..0,
        }
    }

    /// READs of the records behind the words of `asked`, to the end of `bytes`, which grow by as much.
    fn reads_of_records<'a>(
        &self,
        asked: &mut [Asked],
        bytes: &'a mut Vec<u8>,
    ) -> Many<ReadInto<'a>> {
        let start = bytes.len();
        let mut end = start;
        for Asked { word, record, .. } in asked.iter_mut() {
            let size = word.map_or(0, |word| self.first_read_size(word));
            *record = end..end + size;
            end += size;
        }
        bytes.resize(end, 0);
        let mut rest = &mut bytes[start..];
        let mut reads = Many::new();
        for Asked { word, record, .. } in asked.iter() {
            if let Some(word) = word {
                let (into, tail) = std::mem::take(&mut rest).split_at_mut(record.len());
                rest = tail;
                reads.push(ReadInto {
                    remote: self.log_address(word.position()),
                    into,
                });
            }
        }
        reads
    }

    /// Where the value lies in `bytes`, the start of the record behind `word`, and its version. `None`: it is not the
    /// key's whole record.
    #[inline]
    pub(super) fn value_in(
        &self,
        word: Word,
        bytes: &[u8],
        key: &[u8],
    ) -> Option<(Range<usize>, u64)> {
        // A word never points to a record that is not published.
        let reading = read_of_key(
            &self.format,
            word.position(),
            word.generation_low(),
            key,
            bytes,
        )?;
        self.generations.note(reading.generation);
        Some((
            reading.start..reading.start + reading.value.len(),
            reading.sequence,
        ))
    }
}
