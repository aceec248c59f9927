//! Primaries that stand still for longer than their lease: their writes, and their readers.

use std::cell::Cell;

use futures_util::future::{join, join_all};
use stonecast_kv::{Condition, Written};

use super::world::{Cluster, MS, Shape};
use crate::world::key;

/// One shard with three copies.
const ONE: Shape = Shape {
    shards: 1,
    ..Shape::THREE
};

/// The writes are stamped, and an heir settles them. An attempt that is called *not done* would be made again as a
/// first one, and would find its own key.
#[test]
pub fn a_put_of_an_absent_key_that_an_heir_settles_has_no_conflict_with_itself() {
    Cluster::tell(ONE, 31, async |cluster, client| {
        client
            .put(&key(0), b"the client has a session")
            .await
            .unwrap();
        let primary = cluster.leader(0).expect("the shard is served");
        let keys: Vec<_> = (1..5).map(key).collect();
        let puts = join_all(keys.iter().map(async |key| {
            client
                .put_with(&mut None, key, &[7; 500], Condition::Absent)
                .await
        }));
        let pause = async {
            cluster.process.runtime().sleep(3_000).await;
            // The heir leads, and the client still waits for the answer.
            cluster.places[primary].pause(15 * MS);
        };
        let (put, ()) = join(puts, pause).await;
        for written in put {
            let written = written.unwrap();
            assert!(matches!(written, Written::Done(_)), "{written:?}");
        }
    });
}

/// A copy lags behind its primary. Needs the end of the service to readers when the node resigns.
#[test]
pub fn a_reader_of_a_node_that_has_resigned_sees_what_its_heir_has_answered() {
    Cluster::tell(ONE, 32, async |cluster, reader| {
        let writer = cluster.client(4_000 * MS).await;
        let primary = cluster.leader(0).expect("the shard is served");
        reader.put(&key(0), &0_u64.to_be_bytes()).await.unwrap();
        let mut found = Vec::new();
        reader.get(&key(0), &mut found).await.unwrap();
        // The reader still waits for its node when the node goes on.
        cluster.places[primary].pause(15 * MS);
        let answered = Cell::new(Some(0));
        let writes = async {
            for n in 1..2_000_u64 {
                writer.put(&key(0), &n.to_be_bytes()).await.unwrap();
                answered.set(Some(n));
            }
            answered.set(None);
        };
        let reads = async {
            while let Some(least) = answered.get() {
                reader.get(&key(0), &mut found).await.unwrap().unwrap();
                let n = u64::from_be_bytes(found[..].try_into().unwrap());
                assert!(n >= least, "{n} was read after {least} was answered");
            }
        };
        join(writes, reads).await;
        assert_ne!(cluster.leader(0), Some(primary), "an heir leads");
    });
}
