//! The keys of one shard: their index with its tables, the outcomes of their latest writes, and the count of live
//! bytes. `shards.rs` finds the shard of a key.
//!
//! ```text
//!   mod.rs      versions, claims, room for more keys
//!   publish.rs  words: of writes, of moved records, of records that clients published
//!   tables.rs   growth of the index while clients read it
//!   peek.rs     reads in the server's own process
//!   expiry.rs   keys that expire
//!   chunks.rs   values in chunks
//! ```
//!
//! The records lie in the node's log, which all shards of a node share.

pub(super) mod chunks;
mod expiry;
pub(crate) mod keys;
pub(crate) mod outcomes;
mod peek;
mod publish;
mod tables;

use std::rc::Rc;

use stonecast_fabric::{DeviceError, Port, Runtime};
use stonecast_log::{Expiry, Found, LogFormat};
use stonecast_media::{PersistentRegion, Pool};

use super::journal::Journal;
use crate::index::Index;
use crate::wire::{KeyHash, KeyMap, Word};

use chunks::Chunks;
pub(super) use expiry::{has_expiry, note_expiries, remove_expired};
use keys::{Keys, resident};
use outcomes::Outcomes;
pub(super) use publish::{Change, Move};
pub(super) use tables::SharedTable;
use tables::Tables;

/// The keys of one shard.
pub(super) struct Shard {
    log: Rc<dyn PersistentRegion>,
    format: LogFormat,
    keys: KeyMap,
    index: Index,
    tables: Tables,
    pub outcomes: Outcomes,
    /// Bytes of the records that the index names.
    live_bytes: u64,
    pub chunks: Chunks,
    /// Buffer for the header and key of a record.
    scratch: Vec<u8>,
}

impl Shard {
    /// Shard `number`, with the keys that a recovery found. With `is_shared`, clients change words.
    pub fn new(
        pool: &Pool,
        world: (Rc<Port>, Rc<dyn Runtime>),
        is_shared: bool,
        (number, keys): (u32, Keys),
        (format, map): (LogFormat, KeyMap),
    ) -> Result<Self, DeviceError> {
        let Keys {
            mut index,
            outcomes,
            live_bytes,
        } = keys;
        if is_shared {
            index.share();
        }
        let memory = (pool.backing(), is_shared);
        let numbers = (number..).step_by(map.shards as usize);
        Ok(Self {
            log: pool.log(),
            format,
            keys: map,
            tables: Tables::new(world, memory, &index, numbers)?,
            index,
            outcomes,
            live_bytes,
            chunks: Chunks::default(),
            scratch: Vec::new(),
        })
    }

    /// The index, for reports and walks.
    pub fn index(&self) -> &Index {
        &self.index
    }

    /// Number of keys: chunks of values are none.
    pub fn keys(&self) -> u64 {
        self.index.len().saturating_sub(self.chunks.count())
    }

    /// Number of chunks of values that the index names.
    pub fn chunks(&self) -> u64 {
        self.chunks.count()
    }

    /// The table that clients are to read.
    pub fn table(&self) -> &SharedTable {
        self.tables.current()
    }

    /// Growths of the index.
    pub fn growths(&self) -> u64 {
        self.tables.growths()
    }

    /// Bytes of the records that the index names.
    pub fn live_bytes(&self) -> u64 {
        self.live_bytes
    }

    /// Whether the index has room for `more` keys, even if all of them are new.
    pub fn is_roomy(&self, more: u64) -> bool {
        self.index.len() + more < self.index.capacity()
    }

    /// Whether the index has room for one key beside `inserted` others.
    pub fn has_place(&self, inserted: i64) -> bool {
        self.index.len() as i64 + inserted < self.index.capacity() as i64
    }

    /// The version of the record that the index names for a key, and the moment from which on the key is absent
    /// nevertheless.
    pub fn version_of(&mut self, hash: KeyHash, key: &[u8]) -> Option<(u64, Option<Expiry>)> {
        let mut version = None;
        self.index.find(hash, |word| {
            let resident = resident(&*self.log, word.position(), key, &mut self.scratch)
                .filter(|resident| resident.same_key);
            version = resident.map(|found| (found.header.sequence(), found.header.expires()));
            version.is_some()
        });
        version
    }

    /// Whether clients publish in the shard.
    pub fn is_shared(&self) -> bool {
        self.tables.is_shared()
    }

    /// Claims the word of a key against publishing clients, if the key is present and no write has claimed the word
    /// yet. Returns the claimed word.
    pub fn claim(&mut self, hash: KeyHash, key: &[u8]) -> Option<Word> {
        if !self.tables.is_shared() {
            return None;
        }
        self.index.claim(hash, |word| {
            let resident = resident(&*self.log, word.position(), key, &mut self.scratch)
                .filter(|resident| resident.same_key);
            resident.map(|resident| word.natural(resident.header.size()))
        })
    }

    /// Ends the claim of a word whose key is not written after all.
    pub fn give_back(&self, hash: KeyHash, word: Word) {
        self.index.give_back(hash, word);
    }

    /// The word that names a record found in the log, if any.
    pub fn word_of_record(&self, hash: KeyHash, found: &Found<'_>) -> Option<Word> {
        let header = &found.header;
        let word = Word::new(found.position, header.generation(), hash, header.size());
        self.index
            .find(hash, |other| other.names(word))
            .map(|_| word)
    }

    /// The word of a key.
    pub fn word_of_key(&mut self, hash: KeyHash, key: &[u8]) -> Option<Word> {
        let same_key = |word: Word| {
            resident(&*self.log, word.position(), key, &mut self.scratch)
                .is_some_and(|resident| resident.same_key)
        };
        self.index.find(hash, same_key).map(|(_, word)| word)
    }

    /// Whether the index names a record of the key with a sequence above `sequence`.
    pub fn has_later(&mut self, hash: KeyHash, key: &[u8], sequence: u64) -> bool {
        let is_later = |word: Word| {
            resident(&*self.log, word.position(), key, &mut self.scratch)
                .is_some_and(|found| found.same_key && found.header.sequence() > sequence)
        };
        self.index.find(hash, is_later).is_some()
    }

    /// Makes room for `more` keys at once, if there is memory.
    pub fn make_room(&mut self, more: u64) {
        while !self.is_roomy(more) {
            if !self.tables.can_go_on(&mut self.index) {
                return;
            }
            self.step(u64::MAX);
        }
    }

    /// Begins, continues or ends a growth of the index, in proportion to the `operations` of the batch before.
    pub fn tend_index(&mut self, operations: usize) {
        self.tables.begin_if_wanted(&mut self.index);
        if self.index.is_growing() {
            self.step(tables::buckets_after(operations));
        }
    }

    fn step(&mut self, buckets: u64) {
        let step = self.index.step(buckets, &*self.log, self.keys);
        self.tables.note_step(&step);
    }

    /// Removes all keys and outcomes: the node drops its copy. The records are dead, and no longer count once the
    /// ledger says so.
    pub fn clear(&mut self, journal: &mut Journal) {
        let space = &mut journal.space;
        self.index.clear(&*self.log, self.keys, |position, size| {
            // The ledger outranks the records, and no tombstone has to.
            space.note_death(position, size, u64::MAX);
        });
        self.outcomes = Outcomes::forgotten_up_to(0, self.keys.shards);
        self.live_bytes = 0;
        self.chunks = Chunks::default();
    }

    /// Frees the tables that no client reads. The caller has checked that no right to read is being revoked: a right
    /// under revocation may still open one of these tables.
    pub fn free_tables(&mut self, is_read: impl Fn(u32) -> bool) {
        if !self.index.is_growing() {
            self.tables.free_unread(is_read);
        }
    }
}
