//! The keys that have an expiry, in the order of their moments: the server removes them from the index when their
//! moments come.
//!
//! Each shard has a time of its own, and its own order. A copy of a shard removes what a mark of the primary says has
//! passed.
//!
//! Readers judge by the record alone, so nothing depends on when a key is removed. The removal gives back memory of the
//! index, and makes room: the cleaner takes an expired record for a tombstone of its version (`clean/copy.rs`).
//!
//! A key that is written again leaves its earlier entry behind. Such entries are left out once they are more than half
//! of all.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use smallvec::SmallVec;
use stonecast_log::{Expiry, Kind};
use stonecast_media::MediaError;

use super::State;
use super::shard::{self, Change, has_expiry};
use super::time::NoTime;
use crate::wire::{KeyHash, Route};

/// Entries that are looked at in one step between two batches.
const STEP: usize = 64;
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
}

/// Removes some keys whose moments have come.
///
/// # Errors
/// The mark of the time could not be raised.
pub(super) fn remove_expired(state: &mut State) -> Result<(), MediaError> {
    let due: SmallVec<[u32; 4]> = state.shards_with_expired_keys().collect();
    due.into_iter()
        .try_for_each(|shard| remove_expired_of(state, shard))
}

fn remove_expired_of(state: &mut State, number: u32) -> Result<(), MediaError> {
    let State {
        time,
        expiries: Expiries { of_shards, removed },
        shards,
        journal,
        ..
    } = state;
    let now_ms = match time.now_of(number) {
        Ok(now_ms) => now_ms,
        Err(NoTime::OnItsWay) => return Ok(()),
        Err(NoTime::NotKept(error)) => return Err(*error),
    };
    let Some(of_shard) = of_shards.get_mut(&number) else {
        return Ok(());
    };
    let shard = shards.of_mut(number);
    for _ in 0..STEP {
        let Some((moment, hash)) = of_shard.take_due(now_ms) else {
            break;
        };
        *removed += shard::remove_expired(shard, hash, now_ms, journal);
        time.note_removed(number, moment.ms());
    }
    if of_shard.due.len() > 2 * of_shard.kept.max(KEPT) {
        let stays = |ms, hash| has_expiry(shard, KeyHash(hash), ms);
        of_shard.due.retain(|&Reverse((ms, hash))| stays(ms, hash));
        of_shard.kept = of_shard.due.len();
    }
    Ok(())
}
