//! Marks of the time that the server stamps itself: writes without a client.
//!
//! A mark is a delete of a key that is absent ([`RecordHeader::time_mark`](stonecast_log::RecordHeader::time_mark)), so
//! all code that handles deletes handles it, too. A client may put a key of the same name meanwhile. The mark
//! is then refused, and the next one has another key.

use stonecast_log::{Condition, Expiry, Kind};
use stonecast_media::MediaError;

use super::batch::{RequestBatch, Source, Write};
use crate::server::state::State;
use crate::wire::Route;

/// Adds the marks that are due to the batch, one for each shard.
///
/// # Errors
/// The medium did not keep a mark: the server ends, as after a failed persist.
pub(super) fn add(state: &mut State, batch: &mut RequestBatch) -> Result<(), MediaError> {
    for (shard, mark) in state.time.take_due()? {
        let Some(term) = state.shards.leads().term_of(shard) else {
            continue;
        };
        let start = batch.bytes.len();
        let (route, key) = free_key(state, shard, mark);
        batch.bytes.extend_from_slice(&key);
        let end = batch.bytes.len();
        let rules = (Kind::Delete, Condition::None, 0);
        let mut write = Write::new(Source::Parts, rules, route, (start, end), (end, end));
        write.content.expires = Some(mark);
        write.on_node.term = term;
        batch.writes.push(write);
    }
    Ok(())
}

/// A key of `shard` that the index does not have.
fn free_key(state: &mut State, shard: u32, mark: Expiry) -> (Route, [u8; 16]) {
    let mut key = [0; 16];
    key[..8].copy_from_slice(&mark.ms().to_le_bytes());
    for number in 0_u64.. {
        key[8..].copy_from_slice(&number.to_le_bytes());
        let route = state.shards.route(&key);
        let index = state.shards.of_mut(shard);
        if route.shard == shard && index.version_of(route.hash, &key).is_none() {
            return (route, key);
        }
    }
    unreachable!("a pool has fewer keys than there are numbers")
}
