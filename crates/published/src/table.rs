//! Hopscotch hashing in persistent memory, as in the paper (the artefact probes two neighbours instead).
//!
//! ```text
//!   entry: | key, padded with zeros 23 | head 1 | word 8 |     32 bytes
//!   a key is in one of the 8 entries from its bucket on, so one READ of 256 bytes fetches all of them
//! ```
//!
//! An entry is in use while its word is not 0. Fields are stored one after the other without order
//! between key and word, and entries move while clients read them (flaw E6), as published.

use std::rc::Rc;

use stonecast_base::{Span, hash};
use stonecast_media::PersistentRegion;

use crate::PublishedError;

/// Longest key.
pub(crate) const ENTRY_KEY_SIZE: usize = 23;
/// Bytes of an entry.
pub(crate) const ENTRY_SIZE: u64 = 32;
/// Entries that may hold a key.
pub(crate) const NEIGHBOURHOOD: u64 = 8;
const WORD_OFFSET: u64 = 24;
/// Entries that an insertion searches for a free one.
const REACH: u64 = 512;

/// An entry, as read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub key: [u8; ENTRY_KEY_SIZE],
    pub head: u8,
    pub word: u64,
}

impl Entry {
    pub fn new(key: &[u8], head: u8, word: u64) -> Self {
        let mut padded = [0; ENTRY_KEY_SIZE];
        padded[..key.len()].copy_from_slice(key);
        Self {
            key: padded,
            head,
            word,
        }
    }

    pub fn parse(bytes: &[u8; ENTRY_SIZE as usize]) -> Self {
        let mut key = [0; ENTRY_KEY_SIZE];
        key.copy_from_slice(&bytes[..ENTRY_KEY_SIZE]);
        let word = u64::from_le_bytes(bytes[WORD_OFFSET as usize..].try_into().expect("8 bytes"));
        Self {
            key,
            head: bytes[ENTRY_KEY_SIZE],
            word,
        }
    }

    pub fn is_of(&self, key: &[u8]) -> bool {
        self.word != 0
            && self.key[..key.len()] == *key
            && self.key[key.len()..].iter().all(|&byte| byte == 0)
    }
}

/// The bucket of a key.
pub(crate) fn bucket_of(key: &[u8], buckets: u64) -> u64 {
    hash::xxh3_64(0, key) % buckets
}

/// The entries in the bytes of a whole neighbourhood.
pub(crate) fn entries_of(bytes: &[u8]) -> impl Iterator<Item = Entry> {
    bytes
        .as_chunks::<{ ENTRY_SIZE as usize }>()
        .0
        .iter()
        .map(Entry::parse)
}

/// The server's view of the table.
pub(crate) struct Table {
    memory: Rc<dyn PersistentRegion>,
    span: Span,
    buckets: u64,
    key_size: usize,
}

/// The place of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place(u64);

impl Table {
    pub fn new(
        memory: Rc<dyn PersistentRegion>,
        span: Span,
        buckets: u64,
        key_size: usize,
    ) -> Self {
        Self {
            memory,
            span,
            buckets,
            key_size,
        }
    }

    fn slots(&self) -> u64 {
        self.buckets + NEIGHBOURHOOD - 1
    }

    fn offset(&self, place: Place) -> u64 {
        self.span.offset + place.0 * ENTRY_SIZE
    }

    /// The bytes of an entry, to make them durable.
    pub fn span_of(&self, place: Place) -> Span {
        Span::new(self.offset(place), ENTRY_SIZE)
    }

    pub fn entry(&self, place: Place) -> Entry {
        let mut bytes = [0; ENTRY_SIZE as usize];
        self.memory.read(self.offset(place), &mut bytes);
        Entry::parse(&bytes)
    }

    /// The place of `key`, and its word.
    pub fn find(&self, key: &[u8]) -> Option<(Place, u64)> {
        let bucket = bucket_of(key, self.buckets);
        let mut bytes = [0; (ENTRY_SIZE * NEIGHBOURHOOD) as usize];
        self.memory.read(self.offset(Place(bucket)), &mut bytes);
        let (index, entry) = (0..)
            .zip(entries_of(&bytes))
            .find(|(_, entry)| entry.is_of(key))?;
        Some((Place(bucket + index), entry.word))
    }

    /// Every entry in use.
    pub fn entries(&self) -> impl Iterator<Item = (Place, Entry)> {
        (0..self.slots())
            .map(Place)
            .map(|place| (place, self.entry(place)))
            .filter(|(_, entry)| entry.word != 0)
    }

    pub fn set_word(&self, place: Place, word: u64) {
        self.memory.store(self.offset(place) + WORD_OFFSET, word);
    }

    /// Adds an absent key.
    pub fn insert(&self, key: &[u8], head: u8, word: u64) -> Result<Place, PublishedError> {
        let bucket = bucket_of(key, self.buckets);
        let end = (bucket + REACH).min(self.slots());
        let mut free = (bucket..end)
            .find(|&slot| self.entry(Place(slot)).word == 0)
            .ok_or(PublishedError::Full)?;
        while free - bucket >= NEIGHBOURHOOD {
            free = self.hop(free).ok_or(PublishedError::Full)?;
        }
        let place = Place(free);
        let entry = Entry::new(key, head, word);
        self.memory
            .write(self.offset(place), &entry.key[..self.key_size]);
        self.memory
            .write(self.offset(place) + ENTRY_KEY_SIZE as u64, &[head]);
        self.set_word(place, word);
        Ok(place)
    }

    /// Moves an entry into the free slot and returns the slot that becomes free, nearer to the
    /// needed place.
    fn hop(&self, free: u64) -> Option<u64> {
        for slot in free.saturating_sub(NEIGHBOURHOOD - 1)..free {
            let entry = self.entry(Place(slot));
            let bucket = bucket_of(&entry.key[..self.key_size], self.buckets);
            if bucket + NEIGHBOURHOOD > free {
                let to = Place(free);
                self.memory.write(self.offset(to), &entry.key);
                self.memory
                    .write(self.offset(to) + ENTRY_KEY_SIZE as u64, &[entry.head]);
                self.set_word(to, entry.word);
                self.set_word(Place(slot), 0);
                return Some(slot);
            }
        }
        None
    }

    /// Removes an entry: sets its metadata to 0.
    pub fn remove(&self, place: Place) {
        self.set_word(place, 0);
        self.memory
            .write(self.offset(place), &[0; WORD_OFFSET as usize]);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use stonecast_fabric_sim::{MachineOptions, MachineProfile, SimBacking, Survivor, World};
    use stonecast_media::{Backing as _, DeclaredPlatform, Durability, LogOptions};

    use super::*;

    fn table(buckets: u64) -> (World, Table) {
        let world = World::new(1);
        let options = MachineOptions::new(MachineProfile::MODERN);
        let machine = world.machine(options);
        let module = world.module(machine, Survivor::default());
        let platform: DeclaredPlatform = options.platform;
        let log = LogOptions {
            capacity: 1 << 20,
            platform,
            durability: Durability::Power,
        };
        let memory = SimBacking::new(&module).open_log(log).unwrap();
        let span = Span::new(4096, (buckets + NEIGHBOURHOOD - 1) * ENTRY_SIZE);
        (world, Table::new(memory, span, buckets, 8))
    }

    #[test]
    fn keys_stay_within_their_neighbourhood_while_the_table_fills_and_empties() {
        let (_world, table) = table(256);
        let mut model: HashMap<[u8; 8], u64> = HashMap::new();
        let key = |number: u64| (number + 1).to_be_bytes().map(|byte| byte | 1);
        for number in 0u64..200 {
            let key = key(number.wrapping_mul(0x9e37_79b9_7f4a_7c15));
            let word = number + 1;
            if table.find(&key).is_none() && table.insert(&key, 0, word).is_ok() {
                model.insert(key, word);
            }
            if number % 5 == 4 {
                let gone = *model.keys().min().unwrap();
                let (place, _) = table.find(&gone).unwrap();
                table.remove(place);
                model.remove(&gone);
            }
            for (key, word) in &model {
                assert_eq!(
                    table.find(key).map(|(_, word)| word),
                    Some(*word),
                    "after {number}"
                );
            }
        }
        assert_eq!(table.entries().count(), model.len());
        assert!(model.len() > 130);
    }

    #[test]
    fn a_table_without_room_reports_it() {
        let (_world, table) = table(8);
        let refused = (0u64..64).find_map(|number| {
            let key = (number << 8 | 1).to_be_bytes();
            table.insert(&key, 0, number + 1).err()
        });
        assert!(matches!(refused, Some(PublishedError::Full)));
    }
}
