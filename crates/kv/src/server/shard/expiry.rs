//! The keys of a shard that expire.

use stonecast_base::mutant;
use stonecast_log::{Form, RecordHeader, record_size};

use super::Shard;
use super::chunks::drop_chunks;
use super::keys::header_behind;
use crate::server::expiries::Expiries;
use crate::server::journal::Journal;
use crate::wire::{KeyHash, Route};

/// Notes the moments of all keys that expire.
pub(in crate::server) fn note_expiries(shard: &Shard, number: u32, expiries: &mut Expiries) {
    shard
        .index
        .each(&*shard.log, shard.keys, |(hash, _), header| {
            if let Some(moment) = header.expires() {
                let route = Route {
                    shard: number,
                    hash,
                };
                expiries.note(route, moment);
            }
        });
}

/// Removes the keys with `hash` that have expired at `now_ms` from the index, and returns their number. Their records
/// count as tombstones from now on. Chunks stay.
pub(in crate::server) fn remove_expired(
    shard: &mut Shard,
    hash: KeyHash,
    now_ms: u64,
    journal: &mut Journal,
) -> u64 {
    let mut removed = 0;
    loop {
        let mut expired = None;
        let found = shard.index.find(hash, |word| {
            let has_come = |header: &RecordHeader| {
                let expires = header.expires().filter(|_| header.form() != Form::Chunk);
                expires.is_some_and(|expires| expires.has_come(now_ms))
            };
            expired = header_behind(&*shard.log, word).filter(has_come);
            expired.is_some()
        });
        let (Some(found), Some(header)) = (found, expired) else {
            return removed;
        };
        // If a publishing client was faster, the key has a record that does not expire.
        if shard.index.remove(hash, found) {
            if header.form() == Form::Head {
                drop_chunks(shard, (found.1, &header), u64::MAX, journal);
            }
            shard.live_bytes = shard.live_bytes.saturating_sub(header.size());
            if !mutant!(ExpiredNotKept) {
                journal.note_replaced(found.1, header.sequence(), u64::MAX);
            }
            let as_tombstone = record_size(header.key_size(), 0);
            let space = &mut journal.space;
            space.note_expired(found.1.position(), &header, as_tombstone);
            removed += 1;
        }
    }
}

/// Whether a key with `hash` expires at `ms`.
pub(in crate::server) fn has_expiry(shard: &Shard, hash: KeyHash, ms: u64) -> bool {
    let found = shard.index.find(hash, |word| {
        let expires = header_behind(&*shard.log, word).and_then(|header| header.expires());
        expires.is_some_and(|expires| expires.ms() == ms)
    });
    found.is_some()
}
