//! The removal of keys that have expired.

use smallvec::SmallVec;
use stonecast_base::mutant;
use stonecast_media::MediaError;

use super::shard::chunks::{drop_uploads, has_chunk_of_past};
use super::shard::{self, has_expiry};
use super::state::State;
use super::time::NoTime;

/// Keys that are looked at in one step between two batches.
const STEP: usize = 64;

/// Removes some keys whose moments have come.
///
/// # Errors
/// The mark of the time could not be raised.
pub(super) fn remove_expired(state: &mut State) -> Result<(), MediaError> {
    let due: SmallVec<[u32; 4]> = state.shards_with_expired_keys().collect();
    due.into_iter()
        .try_for_each(|shard| remove_expired_of(state, shard))?;
    let deferred: SmallVec<[u32; 4]> = state.expiries.shards_with_deferred().collect();
    deferred
        .into_iter()
        .for_each(|shard| drop_deferred(state, shard));
    Ok(())
}

fn remove_expired_of(state: &mut State, number: u32) -> Result<(), MediaError> {
    let State {
        time,
        expiries,
        shards,
        journal,
        ..
    } = state;
    let now_ms = match time.now_of(number) {
        Ok(now_ms) => now_ms,
        Err(NoTime::OnItsWay) => return Ok(()),
        Err(NoTime::NotKept(error)) => return Err(*error),
    };
    let shard = shards.of_mut(number);
    for _ in 0..STEP {
        let Some((moment, hash)) = expiries.take_due(number, now_ms) else {
            break;
        };
        if !mutant!(ExpiredStays) {
            expiries.note_removed(shard::remove_expired(shard, hash, now_ms, journal));
        }
        if has_chunk_of_past(shard, hash, now_ms) {
            expiries.defer(number, hash);
        }
        time.note_removed(number, moment.ms());
    }
    expiries.leave_out(number, |ms, hash| has_expiry(shard, hash, ms));
    Ok(())
}

/// Drops the chunks whose moments have come and which no record names, as far as the index of their shard has all
/// records that may name them: those that had come when the moment had, and all pages of a shard that pages fill.
fn drop_deferred(state: &mut State, number: u32) {
    let now_ms = state.time.now_ms(number);
    let State {
        expiries,
        shards,
        journal,
        node,
        ..
    } = state;
    let shard = shards.of_mut(number);
    let elsewhere = node.as_ref().map(|node| &node.elsewhere);
    if shard.chunks.is_filled_by_pages() || elsewhere.is_some_and(|it| it.waits()) {
        return;
    }
    let first = elsewhere.and_then(|it| it.first_written());
    while let Some(hash) = expiries.take_deferred(number, journal.arrived(), first) {
        drop_uploads(shard, hash, now_ms, journal);
    }
}
