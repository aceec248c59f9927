//! The keys of a device, in memory that only the device can write and every peer can read.
//!
//! ```text
//!   key, 64 bytes      0  rkey (bits 0-31), rights (32-39), valid (bit 40)
//!                      8  remote address of the first byte
//!                     16  size in bytes
//!                     24  region handle (bits 0-31), queue pair of the owner that may use it, 0: any (bits 32-63)
//!                     32  offset of the first byte in its region
//! ```
//!
//! An rkey is the index of its key (bits 0-15) and a generation (bits 16-31). Invariants:
//! - The first word is stored last when a key is made and first when it is revoked, and a valid key never changes. So a
//!   reader that finds the same first word before and after has read one key, which was valid in between.
//! - An index is reused only after its key was revoked and no peer can be inside, as late as possible, and with the
//!   next generation.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;

use stonecast_fabric::{Access, Rkey};
use stonecast_media::{MappedRegion, Region, Sealing};

use crate::layout::{KEY_CAPACITY, KEY_SIZE, KEY_TABLE_SIZE, KEYS, PROTOCOL_VERSION};

/// "stncastK", read as a little-endian number.
const MAGIC: u64 = u64::from_le_bytes(*b"stncastK");
/// Number of free indexes that wait before one is reused.
const FREE_MIN: usize = 1024;
const VALID: u64 = 1 << 40;

/// The bytes that a key opens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Key {
    pub(crate) access: Access,
    /// Remote address of the first byte.
    pub(crate) address: u64,
    /// Size in bytes.
    pub(crate) size: u64,
    /// Region handle.
    pub(crate) region: u32,
    /// Queue pair handle; 0 is any.
    pub(crate) queue_pair: u32,
    /// Bytes from the start of the region.
    pub(crate) offset: u64,
}

impl Key {
    /// Whether the key grants any change of memory.
    pub(crate) fn writes(&self) -> bool {
        changes_memory(self.access)
    }
}

/// Whether `access` has any right to change memory.
pub(crate) fn changes_memory(access: Access) -> bool {
    access.bits() & Access::REMOTE_WRITE.and(Access::REMOTE_ATOMIC).bits() != 0
}

/// The owner's side.
#[derive(Debug)]
pub(crate) struct KeyTable {
    memory: Arc<MappedRegion>,
    /// The rkey last made at each index, and its key while it is in use.
    slots: Vec<(u32, Option<Key>)>,
    free: VecDeque<u16>,
}

/// First word of a valid key.
pub(crate) fn valid_word(rkey: Rkey, access: Access) -> u64 {
    u64::from(rkey.0) | u64::from(access.bits()) << 32 | VALID
}

/// Offset of the key that `rkey` names, in any key table.
#[inline]
pub(crate) fn key_offset(rkey: Rkey) -> u64 {
    KEYS + u64::from(rkey.0 & 0xffff) * KEY_SIZE
}

/// The rights in the first word of a key, if the word belongs to `rkey` and is valid.
#[inline]
pub(crate) fn rights(word: u64, rkey: Rkey) -> Option<Access> {
    let is_valid = word as u32 == rkey.0 && word & VALID != 0;
    if is_valid {
        Access::from_bits((word >> 32) as u32 & 0xff)
    } else {
        None
    }
}

/// Reads the rest of a key whose first word was valid. The caller checks the first word again afterwards.
pub(crate) fn read_key(memory: &MappedRegion, rkey: Rkey, access: Access) -> Key {
    let at = key_offset(rkey);
    let names = memory.load(at + 24);
    Key {
        access,
        address: memory.load(at + 8),
        size: memory.load(at + 16),
        region: names as u32,
        queue_pair: (names >> 32) as u32,
        offset: memory.load(at + 32),
    }
}

/// Whether memory that a peer offers as its key table can be one.
pub(crate) fn is_key_table(memory: &MappedRegion) -> bool {
    memory.size() == KEY_TABLE_SIZE
        && memory.load(0) == MAGIC
        && memory.load(8) == u64::from(PROTOCOL_VERSION)
}

impl KeyTable {
    pub(crate) fn new() -> io::Result<Self> {
        let memory =
            MappedRegion::create_memory("stonecast-keys", KEY_TABLE_SIZE, Sealing::FutureWrite)?;
        memory.store(0, MAGIC);
        memory.store(8, u64::from(PROTOCOL_VERSION));
        Ok(Self {
            memory: Arc::new(memory),
            slots: Vec::new(),
            free: VecDeque::new(),
        })
    }

    /// The shared memory.
    pub(crate) fn memory(&self) -> &Arc<MappedRegion> {
        &self.memory
    }

    /// Makes a key. `None` when there are too many.
    pub(crate) fn insert(&mut self, key: Key) -> Option<Rkey> {
        let is_full = self.slots.len() as u64 == KEY_CAPACITY;
        let (index, generation) = if self.free.len() > FREE_MIN || is_full {
            let index = self.free.pop_front()?;
            (
                index,
                ((self.slots[usize::from(index)].0 >> 16) + 1) & 0xffff,
            )
        } else {
            self.slots.push((0, None));
            ((self.slots.len() - 1) as u16, 1)
        };
        let rkey = Rkey(generation.max(1) << 16 | u32::from(index));
        let at = key_offset(rkey);
        self.memory.store(at + 8, key.address);
        self.memory.store(at + 16, key.size);
        self.memory.store(
            at + 24,
            u64::from(key.queue_pair) << 32 | u64::from(key.region),
        );
        self.memory.store(at + 32, key.offset);
        self.memory.store(at, valid_word(rkey, key.access));
        self.slots[usize::from(index)] = (rkey.0, Some(key));
        Some(rkey)
    }

    /// The key while it is in use: from its making to [`KeyTable::release`].
    pub(crate) fn get(&self, rkey: Rkey) -> Option<&Key> {
        let (last, key) = self.slots.get((rkey.0 & 0xffff) as usize)?;
        if *last == rkey.0 { key.as_ref() } else { None }
    }

    /// Whether `rkey` was made here and is no longer in use.
    pub(crate) fn was_released(&self, rkey: Rkey) -> bool {
        let Some((last, key)) = self.slots.get((rkey.0 & 0xffff) as usize) else {
            return false;
        };
        let is_older = rkey.0 >> 16 != 0 && rkey.0 >> 16 < last >> 16;
        is_older || (*last == rkey.0 && key.is_none())
    }

    /// Revokes the key. Peers may still be inside.
    pub(crate) fn revoke(&self, rkey: Rkey) {
        assert!(self.get(rkey).is_some(), "only a key in use is revoked");
        self.memory.store(key_offset(rkey), u64::from(rkey.0));
    }

    /// Whether the key is in use and not revoked.
    pub(crate) fn is_valid(&self, rkey: Rkey) -> bool {
        self.get(rkey).is_some() && rights(self.memory.load(key_offset(rkey)), rkey).is_some()
    }

    /// Forgets a revoked key that no peer can be inside of.
    pub(crate) fn release(&mut self, rkey: Rkey) {
        assert!(
            self.get(rkey).is_some() && !self.is_valid(rkey),
            "a key is revoked before it is released"
        );
        let index = (rkey.0 & 0xffff) as u16;
        self.slots[usize::from(index)].1 = None;
        self.free.push_back(index);
    }

    /// The keys in use that satisfy `is_wanted`.
    pub(crate) fn select(&self, is_wanted: impl Fn(&Key) -> bool) -> Vec<Rkey> {
        let wanted = |(rkey, key): &(u32, Option<Key>)| {
            key.as_ref()
                .filter(|key| is_wanted(key))
                .map(|_| Rkey(*rkey))
        };
        self.slots.iter().filter_map(wanted).collect()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn key() -> Key {
        Key {
            access: Access::REMOTE_READ,
            address: 1 << 32,
            size: 64,
            region: 3,
            queue_pair: 0,
            offset: 128,
        }
    }

    #[test]
    fn a_key_reads_back_as_it_was_made_until_it_is_revoked() {
        let mut table = KeyTable::new().unwrap();
        let rkey = table.insert(key()).unwrap();
        let word = table.memory().load(key_offset(rkey));
        let access = rights(word, rkey).unwrap();
        assert_eq!(read_key(table.memory(), rkey, access), key());
        assert!(is_key_table(table.memory()));
        table.revoke(rkey);
        assert_eq!(rights(table.memory().load(key_offset(rkey)), rkey), None);
        assert!(
            table.get(rkey).is_some() && !table.was_released(rkey),
            "in use until no peer is inside"
        );
        table.release(rkey);
        assert!(table.get(rkey).is_none() && table.was_released(rkey));
    }

    /// Needs `FREE_MIN` and the generation.
    #[test]
    fn a_key_number_does_not_come_back_soon() {
        let mut table = KeyTable::new().unwrap();
        let mut seen = std::collections::BTreeSet::new();
        for _ in 0..200_000 {
            let rkey = table.insert(key()).unwrap();
            assert!(seen.insert(rkey.0), "{rkey:?} came back");
            table.revoke(rkey);
            table.release(rkey);
        }
        assert!(table.slots.len() < 2 * FREE_MIN, "indexes are reused");
    }

    #[test]
    fn a_full_table_reports_so() {
        let mut table = KeyTable::new().unwrap();
        let keys: Vec<_> = (0..KEY_CAPACITY)
            .map(|_| table.insert(key()).unwrap())
            .collect();
        assert_eq!(table.insert(key()), None);
        table.revoke(keys[77]);
        table.release(keys[77]);
        let again = table.insert(key()).unwrap();
        assert_eq!((again.0 & 0xffff, again.0 >> 16), (77, 2));
    }
}
