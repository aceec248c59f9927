//! Cleaning threads, in two levels as in RAMCloud.
//!
//! ```text
//!   compaction   a segment that is mostly dead: its live entries go behind the others of the thread's log
//!   combination  little room: the segments with the best ratio of benefit to cost, several at a time
//! ```
//!
//! t-logs and b-logs are cleaned alike, and each server alone: an entry that moves keeps its version, so no other
//! server takes part. As published, a deletion goes with its segment.

use std::collections::BTreeMap;
use std::rc::Rc;

use stonecast_base::Nanoseconds;
use stonecast_fabric::Runtime;

use super::entry::{Entry, entries};
use super::log::Log;
use super::segments::{Cleanable, LogKind, State};
use super::store::Store;
use crate::PublishedError;

/// The pause of a thread that finds nothing to do.
const PAUSE_NS: Nanoseconds = 20_000;
/// The live part of a segment below which it is compacted.
const MOSTLY_DEAD: f64 = 0.25;
/// The part of free segments below which segments are combined, and that below which segments are compacted.
const LITTLE_ROOM: f64 = 0.25;
const SOME_ROOM: f64 = 0.5;
/// Segments that are combined at a time.
const COMBINED: usize = 4;

/// Cleans whenever room becomes scarce.
pub(crate) async fn clean_forever(store: Rc<Store>, runtime: Rc<dyn Runtime>) {
    let log = Log::new(store.clone(), runtime.clone(), LogKind::Applied);
    loop {
        let chosen = choose(&store);
        if chosen.is_empty() {
            runtime.sleep(PAUSE_NS).await;
            continue;
        }
        // Taken: no other thread chooses them.
        for &segment in &chosen {
            store.segments.set(segment, State::Using);
        }
        for segment in chosen {
            if clean(&store, &log, segment).await.is_err() {
                return;
            }
        }
    }
}

/// The segments to clean next.
fn choose(store: &Store) -> Vec<u32> {
    let free = store.segments.free() as f64 / f64::from(store.segments.count());
    if free >= SOME_ROOM {
        return Vec::new();
    }
    let mut cleanable = store.segments.cleanable();
    let is_scarce = free < LITTLE_ROOM;
    let least = if is_scarce { 1.0 } else { MOSTLY_DEAD };
    cleanable.retain(|segment| segment.live < least);
    let worth = |segment: &Cleanable| match is_scarce {
        true => (1.0 - segment.live) * segment.age as f64 / (1.0 + segment.live),
        false => 1.0 - segment.live,
    };
    cleanable.sort_by(|one, other| worth(other).total_cmp(&worth(one)));
    cleanable.truncate(if is_scarce { COMBINED } else { 1 });
    cleanable.iter().map(|segment| segment.number).collect()
}

/// Moves the live entries of a segment behind those of `log`, and frees the segment.
async fn clean(store: &Store, log: &Log, segment: u32) -> Result<(), PublishedError> {
    let start = store.segments.start(segment);
    let mut bytes = vec![0; store.segments.size() as usize];
    store.memory.read(start, &mut bytes);
    let mut live: BTreeMap<u64, Entry<'_>> = BTreeMap::new();
    for (at, entry) in entries(&bytes) {
        let place = start + at as u64;
        let named = (entry.shard < store.placement.shards())
            .then(|| store.find(entry.shard, entry.key))
            .flatten();
        if named.is_none_or(|located| located.place != place) {
            continue;
        }
        match entry.value {
            Some(_) => drop(live.insert(place, entry)),
            None => store.forget(&entry),
        }
    }
    for entry in live.values() {
        let moved = log.append(&entry.encode()).await?;
        // A later entry of the key may have come meanwhile.
        store.publish(entry, moved)?;
    }
    let word = store.segments.set(segment, State::Free);
    drop(store.commit.persist(&*store.memory, &[word]).await?);
    Ok(())
}
