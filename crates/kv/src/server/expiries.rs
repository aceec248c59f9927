//! The keys that have an expiry, in the order of their moments: the server removes them from the index when their
//! moments come.
//!
//! Readers judge by the record alone, so nothing depends on when a key is removed. The removal gives back memory of the
//! index, and makes room: the cleaner takes an expired record for a tombstone of its version (`clean/copy.rs`).
//!
//! A key that is written again leaves its earlier entry behind. Such entries are left out once they are more than half
//! of all.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use stonecast_log::Expiry;
use stonecast_media::MediaError;

use super::State;
use super::shard::{self, has_expiry};
use crate::wire::{KeyHash, Route};

/// Entries that are looked at in one step between two batches.
const STEP: usize = 64;
/// Entries up to which nothing is left out.
const KEPT: usize = 1024;

/// The moments of the keys of a server.
#[derive(Default)]
pub(super) struct Expiries {
    /// Moment, shard and hash of each key.
    due: BinaryHeap<Reverse<(u64, u32, u64)>>,
    /// The number of entries after entries were last left out.
    kept: usize,
    /// Keys removed so far.
    removed: u64,
}

impl Expiries {
    /// Notes that the key of `route` expires.
    pub fn note(&mut self, Route { shard, hash }: Route, expires: Expiry) {
        self.due.push(Reverse((expires.ms(), shard, hash.0)));
    }

    /// Whether a moment has come.
    pub fn are_due(&self, now_ms: u64) -> bool {
        let first = self.due.peek();
        first.is_some_and(|&Reverse((ms, ..))| ms <= now_ms)
    }

    /// Keys removed since the opening.
    pub fn removed(&self) -> u64 {
        self.removed
    }

    fn take_due(&mut self, now_ms: u64) -> Option<Route> {
        if !self.are_due(now_ms) {
            return None;
        }
        let Reverse((_, shard, hash)) = self.due.pop()?;
        let hash = KeyHash(hash);
        Some(Route { shard, hash })
    }
}

/// Removes some keys whose moments have come.
///
/// # Errors
/// The mark of the time could not be raised.
pub(super) fn remove_expired(state: &mut State) -> Result<(), MediaError> {
    if !state.has_expired_keys() {
        return Ok(());
    }
    let (now_ms, _) = state.time.ask()?;
    let State {
        expiries,
        shards,
        journal,
        ..
    } = state;
    for _ in 0..STEP {
        let Some(Route { shard, hash }) = expiries.take_due(now_ms) else {
            break;
        };
        let shard = shards.of_mut(shard);
        expiries.removed += shard::remove_expired(shard, hash, now_ms, journal);
    }
    if expiries.due.len() > 2 * expiries.kept.max(KEPT) {
        let shards = &*shards;
        expiries
            .due
            .retain(|&Reverse((ms, shard, hash))| has_expiry(shards.of(shard), KeyHash(hash), ms));
        expiries.kept = expiries.due.len();
    }
    Ok(())
}
