//! The keys that have an expiry, in the order of their moments: the server removes them from the index when their
//! moments come.
//!
//! Each shard has a time of its own, and its own order. A copy of a shard removes the
//! keys whose moments have passed by the marks of the primary.
//!
//! Readers judge by the record alone, so nothing depends on when a key is removed. The removal gives back memory of the
//! index, and makes room: the cleaner takes an expired record for a tombstone of its version (`clean/copy.rs`).
//!
//! A chunk of a value goes only if no record names it. The record may be on its way to the index of a copy, so such a
//! chunk waits until the index has everything that came before (`removal.rs`).
//!
//! A key that is written again leaves its earlier entry in the order. Such entries are left out once they are more than
//! half of all.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};

use stonecast_log::{Expiry, Kind};

use super::shard::Change;
use crate::wire::{KeyHash, Route};

/// Entries up to which nothing is left out.
const KEPT: usize = 1024;

/// The moments of the keys of a server.
#[derive(Default)]
pub(super) struct Expiries {
    /// The keys of each shard that has had a key that expires.
    of_shards: BTreeMap<u32, OfShard>,
    /// Keys removed so far.
    removed: u64,
}

/// The moments of the keys of one shard.
#[derive(Default)]
struct OfShard {
    /// Moment and hash of each key.
    due: BinaryHeap<Reverse<(u64, u64)>>,
    /// The number of entries after entries were last left out.
    kept: usize,
    /// Chunks whose moments have come.
    deferred: VecDeque<Deferred>,
}

/// Chunks whose moment has come, and which wait for records that may name them.
struct Deferred {
    hash: KeyHash,
    /// The record of another node from which on none can name the chunks. `None`: the records before are not counted
    /// yet.
    behind: Option<u64>,
}

impl Expiries {
    /// Notes that the key of `route` expires.
    pub fn note(&mut self, Route { shard, hash }: Route, expires: Expiry) {
        let of_shard = self.of_shards.entry(shard).or_default();
        of_shard.due.push(Reverse((expires.ms(), hash.0)));
    }

    /// Notes the moment of a put that was published, if it has one.
    pub fn note_change(&mut self, change: &Change) {
        if let Some(expires) = change.expires.filter(|_| change.kind == Kind::Put) {
            self.note(change.route, expires);
        }
    }

    /// Forgets the keys of `shard`, which the node drops.
    pub fn forget(&mut self, shard: u32) {
        self.of_shards.remove(&shard);
    }

    /// The first moment of each shard.
    pub fn first_moments(&self) -> impl Iterator<Item = (u32, Expiry)> {
        let of_shards = self.of_shards.iter();
        of_shards.filter_map(|(&shard, of_shard)| Some((shard, of_shard.first()?)))
    }

    /// Takes the key of `shard` with the first moment, if that has come.
    pub fn take_due(&mut self, shard: u32, now_ms: u64) -> Option<(Expiry, KeyHash)> {
        self.of_shards.get_mut(&shard)?.take_due(now_ms)
    }

    /// Notes that the index has lost so many keys.
    pub fn note_removed(&mut self, count: u64) {
        self.removed += count;
    }

    /// Lets the chunks of `shard` with `hash`, whose moment has come, wait for the records that may name them.
    pub fn defer(&mut self, shard: u32, hash: KeyHash) {
        let of_shard = self.of_shards.entry(shard).or_default();
        let behind = None;
        of_shard.deferred.push_back(Deferred { hash, behind });
    }

    /// The shards with chunks that wait.
    pub fn shards_with_deferred(&self) -> impl Iterator<Item = u32> {
        let of_shards = self.of_shards.iter();
        let deferred = of_shards.filter(|(_, of_shard)| !of_shard.deferred.is_empty());
        deferred.map(|(&shard, _)| shard)
    }

    /// Takes the chunks of `shard` that have waited long enough: `arrived` records of other nodes have come, and
    /// `first` is the number of the first one without a word.
    pub fn take_deferred(
        &mut self,
        shard: u32,
        arrived: u64,
        first: Option<u64>,
    ) -> Option<KeyHash> {
        let deferred = &mut self.of_shards.get_mut(&shard)?.deferred;
        let behind = *deferred.front_mut()?.behind.get_or_insert(arrived);
        let is_due = first.is_none_or(|first| first >= behind);
        let taken = is_due.then(|| deferred.pop_front())?;
        taken.map(|taken| taken.hash)
    }

    /// Leaves out the entries of `shard` of which `stays` says no, if these can be more than half of all.
    pub fn leave_out(&mut self, shard: u32, stays: impl Fn(u64, KeyHash) -> bool) {
        if let Some(of_shard) = self.of_shards.get_mut(&shard) {
            of_shard.leave_out(stays);
        }
    }

    /// Keys removed since the opening.
    pub fn removed(&self) -> u64 {
        self.removed
    }
}

impl OfShard {
    fn first(&self) -> Option<Expiry> {
        let first = self.due.peek();
        first.and_then(|&Reverse((ms, _))| Expiry::at_ms(ms))
    }

    /// Takes the key with the first moment, if that has come.
    fn take_due(&mut self, now_ms: u64) -> Option<(Expiry, KeyHash)> {
        let moment = self.first().filter(|first| first.has_come(now_ms))?;
        let Reverse((_, hash)) = self.due.pop()?;
        Some((moment, KeyHash(hash)))
    }

    fn leave_out(&mut self, stays: impl Fn(u64, KeyHash) -> bool) {
        if self.due.len() > 2 * self.kept.max(KEPT) {
            self.due
                .retain(|&Reverse((ms, hash))| stays(ms, KeyHash(hash)));
            self.kept = self.due.len();
        }
    }
}
