//! Digest threads, which enter the entries of other servers into the indexes of the backups. Failover and recovery read
//! logs in the same way.

use std::collections::BTreeMap;
use std::rc::Rc;

use stonecast_base::Nanoseconds;
use stonecast_fabric::Runtime;

use super::entry::entries;
use super::segments::{LogKind, State};
use super::store::Store;

/// The pause of a thread that finds nothing to do.
const PAUSE_NS: Nanoseconds = 20_000;

/// Digests segments as they become full.
pub(crate) async fn digest_forever(store: Rc<Store>, runtime: Rc<dyn Runtime>) {
    loop {
        match store.take_undigested() {
            Some(segment) => {
                let versions = digest(&store, segment);
                store.note_digested(segment, versions);
                // The work takes its time before the next segment begins.
                runtime.sleep(0).await;
            }
            None => runtime.sleep(PAUSE_NS).await,
        }
    }
}

/// Enters the entries of a segment into the indexes. Returns the latest version of each shard in it.
///
/// As published, an entry counts as soon as it is found, whether it has its other copies or not.
pub(crate) fn digest(store: &Store, segment: u32) -> BTreeMap<u16, u64> {
    let start = store.segments.start(segment);
    let mut bytes = vec![0; store.segments.size() as usize];
    store.memory.read(start, &mut bytes);
    let mut versions = BTreeMap::new();
    for (at, entry) in entries(&bytes) {
        if entry.shard >= store.placement.shards() {
            continue;
        }
        // An index without room loses the entry until its segment is read again.
        let _ = store.publish(&entry, start + at as u64);
        let latest: &mut u64 = versions.entry(entry.shard).or_default();
        *latest = entry.version.max(*latest);
    }
    versions
}

/// Digests the logs of all other servers up to this moment, full or not: for a backup that becomes the primary of a
/// shard. The versions of shards continue after those that were found.
///
/// As published, senders are not fenced: what they append afterwards stays unread until its segment is full.
pub(crate) fn digest_all(store: &Store) {
    let of_backup = |&segment: &u32| {
        let (state, kind) = store.segments.state(segment);
        kind == LogKind::Backup && matches!(state, State::Using | State::Used)
    };
    for segment in (0..store.segments.count()).filter(of_backup) {
        for (shard, version) in digest(store, segment) {
            store.raise(shard, version);
        }
    }
}

/// Rebuilds the indexes from all segments that are not free, before the server has taken any. Returns the number of
/// segments.
///
/// As published, an entry counts if its checksum does, and the latest version of a key wins.
pub(crate) fn recover(store: &Store) -> usize {
    let is_taken = |&segment: &u32| store.segments.state(segment).0 != State::Free;
    let taken: Vec<u32> = (0..store.segments.count()).filter(is_taken).collect();
    for &segment in &taken {
        for (shard, version) in digest(store, segment) {
            store.raise(shard, version);
        }
        store.segments.set(segment, State::Committed);
    }
    taken.len()
}
