//! The indexes of a server in DRAM: a hash table for each shard.
//!
//! ```text
//!   bucket, 64 bytes: 4 slots of | key 8 | version 32 bits | invalid 1 bit | units 5 bits | place in units 26 bits |
//! ```
//!
//! A key whose bucket is full goes to the next bucket. The version in a slot is the low half of the entry's version. A
//! slot of 0 units remembers the version of a key whose deletion was cleaned.

use std::rc::Rc;

use stonecast_base::hash::xxh3_64;
use stonecast_media::Region;

use super::entry::UNIT;

const BUCKET: u64 = 64;
const SLOTS: u64 = 4;
const PLACE_BITS: u32 = 26;
const UNITS_BITS: u32 = 5;
const INVALID: u64 = 1 << (PLACE_BITS + UNITS_BITS);

/// The indexes of all shards.
pub(crate) struct Index {
    memory: Rc<dyn Region>,
    /// Buckets of each shard, a power of two.
    buckets: u64,
}

/// An entry that a slot names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Located {
    pub version: u32,
    pub units: u32,
    pub place: u64,
    /// Whether readers must wait: another copy may not have the entry.
    pub is_invalid: bool,
}

impl Located {
    fn to_word(self) -> u64 {
        let place = self.place / UNIT as u64;
        assert!(
            place < 1 << PLACE_BITS,
            "a server's memory has 4 GiB at most"
        );
        let invalid = if self.is_invalid { INVALID } else { 0 };
        u64::from(self.version) << 32 | invalid | u64::from(self.units) << PLACE_BITS | place
    }

    fn from_word(word: u64) -> Self {
        Self {
            version: (word >> 32) as u32,
            units: (word >> PLACE_BITS) as u32 & ((1 << UNITS_BITS) - 1),
            place: (word & ((1 << PLACE_BITS) - 1)) * UNIT as u64,
            is_invalid: word & INVALID != 0,
        }
    }
}

/// The outcome of the search for a key.
enum Slot {
    Found { offset: u64, located: Located },
    Empty { offset: u64 },
}

impl Index {
    /// Buckets of each of `shards` shards for `keys` keys of all together: twice the room.
    pub fn buckets(keys: u64, shards: u16) -> u64 {
        let each = (2 * keys).div_ceil(u64::from(shards) * SLOTS);
        each.next_power_of_two().max(4)
    }

    /// Bytes of the indexes of `shards` shards.
    pub fn size(buckets: u64, shards: u16) -> u64 {
        buckets * BUCKET * u64::from(shards)
    }

    /// Empty indexes in `memory`.
    pub fn new(memory: Rc<dyn Region>, buckets: u64) -> Self {
        Self { memory, buckets }
    }

    /// The entry of a key.
    pub fn find(&self, shard: u16, key: u64) -> Option<Located> {
        match self.search(shard, key) {
            Some(Slot::Found { located, .. }) if located.units > 0 => Some(located),
            Some(Slot::Found { .. } | Slot::Empty { .. }) | None => None,
        }
    }

    /// Lets the slot of `key` name `new`, unless it names an entry of a later version. Returns the entry that the slot
    /// named before, or the later entry as an error; `None` without room.
    pub fn replace(
        &self,
        shard: u16,
        key: u64,
        new: Located,
    ) -> Option<Result<Option<Located>, Located>> {
        Some(match self.search(shard, key)? {
            Slot::Found { located, .. } if located.version > new.version => Err(located),
            Slot::Found { offset, located } => {
                self.memory.store(offset + 8, new.to_word());
                Ok((located.units > 0).then_some(located))
            }
            Slot::Empty { offset } => {
                self.memory.store(offset, key);
                self.memory.store(offset + 8, new.to_word());
                Ok(None)
            }
        })
    }

    /// Lets readers have the entry of `key`, if the slot names one of this version.
    pub fn validate(&self, shard: u16, key: u64, version: u32) {
        if let Some(Slot::Found { offset, located }) = self.search(shard, key)
            && located.version == version
        {
            let valid = Located {
                is_invalid: false,
                ..located
            };
            self.memory.store(offset + 8, valid.to_word());
        }
    }

    /// Lets the slot of `key` name no entry, if it names one of this version.
    pub fn forget(&self, shard: u16, key: u64, version: u32) {
        if let Some(Slot::Found { offset, located }) = self.search(shard, key)
            && located.version == version
        {
            let gone = Located {
                units: 0,
                place: 0,
                ..located
            };
            self.memory.store(offset + 8, gone.to_word());
        }
    }

    fn search(&self, shard: u16, key: u64) -> Option<Slot> {
        let start = u64::from(shard) * self.buckets;
        let first = xxh3_64(1, &key.to_le_bytes()) % self.buckets;
        for bucket in (0..self.buckets).map(|step| (first + step) % self.buckets) {
            let bucket_at = (start + bucket) * BUCKET;
            let mut bytes = [0; BUCKET as usize];
            self.memory.read(bucket_at, &mut bytes);
            let (words, _) = bytes.as_chunks::<8>();
            for slot in 0..SLOTS as usize {
                let word = |at: usize| u64::from_le_bytes(words[at]);
                let offset = bucket_at + slot as u64 * 16;
                if word(2 * slot + 1) == 0 {
                    return Some(Slot::Empty { offset });
                }
                if word(2 * slot) == key {
                    let located = Located::from_word(word(2 * slot + 1));
                    return Some(Slot::Found { offset, located });
                }
            }
        }
        None
    }
}
