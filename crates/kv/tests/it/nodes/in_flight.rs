//! Batches that are decided while the batches before wait for copies.

use futures_util::future::{join, join3};
use stonecast_kv::{Condition, Written};

use super::world::{Cluster, MS, Shape};
use crate::world::key;

/// One shard with three copies.
const ONE: Shape = Shape {
    shards: 1,
    ..Shape::THREE
};
/// Times between two writes, longer in all than a write takes.
const PAUSES_NS: std::ops::Range<u64> = 0..60;
const PAUSE_NS: u64 = 200;

/// The second of two puts of an absent key comes at every part of the first one. Needs the look at batches in flight:
/// the index has the key only when all copies do.
#[test]
pub fn a_write_that_waits_for_copies_is_seen_by_the_next_condition() {
    Cluster::tell(ONE, 33, async |cluster, first| {
        let (second, runtime) = (cluster.client(4_000 * MS).await, cluster.process.runtime());
        for client in [first, &second] {
            client.put(&key(0), b"a session").await.unwrap();
        }
        for part in PAUSES_NS {
            let key = key(1 + part);
            let pause = || runtime.sleep(part * PAUSE_NS);
            let absent = Condition::Absent;
            let (mut one, mut two) = (None, None);
            let earlier = first.put_with(&mut one, &key, b"first", absent);
            let later = async {
                pause().await;
                second.put_with(&mut two, &key, b"second", absent).await
            };
            let (earlier, later) = join(earlier, later).await;
            let (earlier, later) = (earlier.unwrap(), later.unwrap());
            let is_one_done = match (earlier, later) {
                (Written::Done(done), Written::Conflict(found))
                | (Written::Conflict(found), Written::Done(done)) => found == Some(done),
                _ => false,
            };
            assert!(is_one_done, "{earlier:?} and {later:?}, part {part}");
        }
    });
}

/// A delete comes at every part of a put, and a put of the absent key behind both. A key that a delete in flight
/// removes is absent.
#[test]
fn a_delete_of_a_write_that_waits_for_copies_removes_it() {
    Cluster::tell(ONE, 34, async |cluster, first| {
        let (second, runtime) = (cluster.client(4_000 * MS).await, cluster.process.runtime());
        let third = cluster.client(4_000 * MS).await;
        for client in [first, &second, &third] {
            client.put(&key(0), b"a session").await.unwrap();
        }
        let mut removed_at_once = 0;
        for part in PAUSES_NS {
            let key = key(1 + part);
            let delete = async {
                runtime.sleep(part * PAUSE_NS).await;
                second.delete(&key).await.unwrap()
            };
            let again = async {
                runtime.sleep(2 * part * PAUSE_NS).await;
                let mut token = None;
                let put = third.put_with(&mut token, &key, b"again", Condition::Absent);
                put.await.unwrap()
            };
            let (put, removed, again) = join3(first.put(&key, b"first"), delete, again).await;
            let (put, mut found) = (put.unwrap(), Vec::new());
            let present = first.get(&key, &mut found).await.unwrap();
            let (expected, left) = match (removed, again) {
                (true, Written::Done(version)) if version > put => (Some(version), &b"again"[..]),
                (true, _) => (None, &b""[..]),
                (false, _) => (Some(put), &b"first"[..]),
            };
            assert_eq!(present, expected, "{removed} and {again:?}, part {part}");
            assert!(present.is_none() || found == left, "part {part}");
            removed_at_once += u32::from(removed);
        }
        assert!(removed_at_once > 20, "{removed_at_once}");
    });
}
