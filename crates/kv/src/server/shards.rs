//! All shards of a node: even ranges of key hashes, each with a [`Shard`] of its own. The node's log holds the records
//! of all.
//!
//! A server without a cluster leads each of its shards alone: no other copy exists. [`Leads`] says which shards a node
//! of a cluster leads, and in which terms. [`Shards::refusal`] asks [`Leads`] before the node serves a client's request
//! for a shard.

use std::rc::Rc;

use stonecast_fabric::{DeviceError, Port, Runtime};
use stonecast_lineage::{Epoch, Term};
use stonecast_log::{Form, LogFormat, RECORD_START_SIZE};
use stonecast_media::{PersistentRegion, Pool};
use stonecast_persist::Persisted;

use super::expiries::Expiries;
use super::journal::Journal;
use super::leads::Leads;
use super::recovery::survey::keys_of;
use super::shard::chunks;
use super::shard::keys::Keys;
use super::shard::{Change, Move, Shard, note_expiries};
use crate::error::StoreError;
use crate::index::Table;
use crate::wire::{Answer, ChunkName, KeyMap, Route, Verdict, Word};

pub(super) struct Shards {
    log: Rc<dyn PersistentRegion>,
    keys: KeyMap,
    leads: Leads,
    all: Vec<Shard>,
}

impl Shards {
    /// The shards of `pool`, with the keys that a recovery found in each. With `is_shared`, clients change words.
    pub fn new(
        pool: &Pool,
        world: &(Rc<Port>, Rc<dyn Runtime>),
        is_shared: bool,
        found: Vec<Keys>,
        format: LogFormat,
    ) -> Result<Self, DeviceError> {
        let keys = keys_of(pool);
        let shard = |keys_of_shard| {
            Shard::new(
                pool,
                world.clone(),
                is_shared,
                keys_of_shard,
                (format, keys),
            )
        };
        Ok(Self {
            log: pool.log(),
            keys,
            leads: Leads::alone(keys.shards),
            all: (0..).zip(found).map(shard).collect::<Result<_, _>>()?,
        })
    }

    /// The way to a key.
    pub fn route(&self, key: &[u8]) -> Route {
        self.keys.route(key)
    }

    /// The way to the key of a record of this form.
    pub fn route_of(&self, form: Form, key: &[u8]) -> Route {
        self.keys.route_of(form, key)
    }

    /// The way to the key whose value the chunk is a part of.
    pub fn whole_of(&self, name: ChunkName) -> Route {
        self.keys.whole_of(name)
    }

    /// A shard, by the number that [`Shards::route`] gave.
    pub fn of(&self, number: u32) -> &Shard {
        &self.all[number as usize]
    }

    /// Like [`Shards::of`], to change the shard.
    pub fn of_mut(&mut self, number: u32) -> &mut Shard {
        &mut self.all[number as usize]
    }

    /// The reason why this node refuses a request for the shard `number` that a client sent in the
    /// term `named`; `None` if the node leads the
    /// shard in that term.
    #[inline]
    pub fn refusal(&self, number: u32, named: Term) -> Option<Answer> {
        self.leads.refusal(number, named)
    }

    /// The leads of this node, for the leases of readers.
    pub fn leads(&mut self) -> &mut Leads {
        &mut self.leads
    }

    /// Notes that this node leads the shard `number` in `term`, or no longer leads it, in the configuration of `epoch`.
    pub fn lead(&mut self, epoch: Epoch, number: u32, term: Option<Term>) {
        self.leads.change(epoch, number, term);
    }

    /// The shard in which clients publish overwrites. Clients publish only in a pool of one shard.
    pub fn published(&self) -> &Shard {
        &self.all[0]
    }

    /// Like [`Shards::published`], to change the shard.
    pub fn published_mut(&mut self) -> &mut Shard {
        &mut self.all[0]
    }

    /// All shards, by number.
    pub fn iter(&self) -> std::slice::Iter<'_, Shard> {
        self.all.iter()
    }

    /// Number of keys of the shards that this node leads. Other nodes count the keys of which this node has copies.
    pub fn keys_led(&self) -> u64 {
        self.led().map(Shard::keys).sum()
    }

    /// Numbers of the keys and of the chunks of values in the shards that this node leads.
    pub fn counts_led(&self) -> (u64, u64) {
        let chunks = self.led().map(Shard::chunks).sum();
        (self.keys_led(), chunks)
    }

    fn led(&self) -> impl Iterator<Item = &Shard> {
        let led = (0..).zip(&self.all);
        let led = led.filter(|&(number, _)| self.leads.leads(number));
        led.map(|(_, shard)| shard)
    }

    /// Number of keys that the indexes take without growing further.
    pub fn capacity(&self) -> u64 {
        self.iter().map(|shard| shard.index().capacity()).sum()
    }

    /// Bytes of the current tables.
    pub fn index_bytes(&self) -> u64 {
        let bits = self.iter().map(|shard| shard.index().table().bits());
        bits.map(Table::size).sum()
    }

    /// Growths of all indexes.
    pub fn growths(&self) -> u64 {
        self.iter().map(Shard::growths).sum()
    }

    /// Bytes of the records that the indexes name.
    pub fn live_bytes(&self) -> u64 {
        self.iter().map(Shard::live_bytes).sum()
    }

    /// Whether an index grows.
    pub fn is_growing(&self) -> bool {
        self.iter().any(|shard| shard.index().is_growing())
    }

    /// The number that accompanies the verdict on a refused write: the live bytes, if the pool is full.
    pub fn number_with(&self, verdict: Verdict) -> u64 {
        match verdict {
            Verdict::NoSpace => self.live_bytes(),
            _ => 0,
        }
    }

    /// Prefetches the memory that decisions on keys read: first all buckets, then the records that their words name.
    pub fn prefetch(&self, keys: impl Iterator<Item = (Route, usize)> + Clone) {
        for (Route { shard, hash }, _) in keys.clone() {
            self.of(shard).index().prefetch(hash);
        }
        for (Route { shard, hash }, key_size) in keys {
            let size = (RECORD_START_SIZE + key_size) as u64;
            let prefetch = |word: Word| self.log.prefetch(word.position(), size);
            self.of(shard).index().each_candidate(hash, prefetch);
        }
    }

    /// Stores the index word of a write that is done. Takes the proof that the record is durable.
    pub fn publish(
        &mut self,
        change: &Change,
        key: &[u8],
        journal: &mut Journal,
        persisted: &Persisted,
    ) {
        let shard = self.of_mut(change.route.shard);
        shard.publish(change, key, journal, persisted);
    }

    /// Stores the index word of a moved record. Takes the proof that the copy is durable.
    pub fn publish_move(&mut self, moved: &Move, journal: &mut Journal, persisted: &Persisted) {
        let shard = self.of_mut(moved.route.shard);
        shard.publish_move(moved, journal, persisted);
    }

    /// Begins, continues or ends the growth of each index, in proportion to the `operations` of the batch before.
    pub fn tend_indexes(&mut self, operations: usize) {
        for shard in &mut self.all {
            shard.tend_index(operations);
        }
    }

    /// Frees the tables that no client reads; see [`Shard::free_tables`].
    pub fn free_tables(&mut self, is_read: impl Fn(u32) -> bool) {
        for shard in &mut self.all {
            shard.free_tables(&is_read);
        }
    }

    /// Reads the value of `key` in its shard; see [`Shard::peek`].
    pub fn peek(
        &self,
        key: &[u8],
        value: &mut Vec<u8>,
        at: (&str, u64),
    ) -> Result<Option<u64>, StoreError> {
        self.of(self.route(key).shard).peek(key, value, at)
    }

    /// Counts the chunks of values, as a recovery found them. Without `keeps_uploads`, drops the chunks that no record
    /// names: the connections of their clients have ended, so no upload continues.
    pub fn take_over_chunks(&mut self, journal: &mut Journal, keeps_uploads: bool) {
        for shard in &mut self.all {
            chunks::take_over_chunks(shard, journal, keeps_uploads);
        }
    }

    /// Notes the moments of all keys that expire, as a recovery found them.
    pub fn note_expiries(&self, expiries: &mut Expiries) {
        for (number, shard) in (0..).zip(&self.all) {
            note_expiries(shard, number, expiries);
        }
    }
}
