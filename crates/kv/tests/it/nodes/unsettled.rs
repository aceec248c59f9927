//! Records that their primary has stamped, and that an heir settles.

use std::ops::Range;

use futures_util::future::{join, join_all};
use rand::RngExt as _;
use stonecast_base::random_from_seed;
use stonecast_kv::ClusterClient;

use super::lead_all;
use super::world::{Cluster, MS, Shape};
use crate::world::key;

/// Keys that are put before the primary pauses, and fill most of a segment.
const COLD: Range<u64> = 0..228;
/// Keys whose put an heir settles.
const DOOMED: Range<u64> = 1_000..1_004;
/// Long keys that are put and deleted.
const LONG: Range<u64> = 300..560;
/// Keys that are put until the cleaner has used every other segment again.
const HOT: Range<u64> = 2_000..2_250;

/// Puts the doomed keys, and lets the primary stand still for longer than its lease when their records are stamped.
async fn put_while_the_primary_pauses(cluster: &Cluster, client: &ClusterClient) {
    let primary = cluster.leader(0).expect("the shard is served");
    let keys: Vec<_> = DOOMED.map(key).collect();
    let puts = join_all(keys.iter().map(|key| client.put(key, &[7; 500])));
    let pause = async {
        cluster.process.runtime().sleep(3_000).await;
        cluster.places[primary].pause(25 * MS);
    };
    let (put, ()) = join(puts, pause).await;
    put.into_iter().for_each(|put| _ = put.unwrap());
    cluster.until_served().await;
    assert_ne!(cluster.leader(0), Some(primary), "an heir leads");
}

/// The record of the first attempt stays in the log of the old primary, and has no word there. Needs its version among
/// the deaths of its segment: the cleaner would drop the tombstone, and a restart would find the key again.
#[test]
pub fn a_key_whose_put_an_heir_has_settled_stays_deleted() {
    let shape = Shape {
        shards: 1,
        segments: 24,
        ..Shape::THREE
    };
    Cluster::tell(shape, 30, async |cluster, client| {
        let first = cluster.leader(0).expect("the shard is served");
        for n in COLD {
            client.put(&key(n), &[n as u8; 1_000]).await.unwrap();
        }
        put_while_the_primary_pauses(cluster, client).await;
        for n in DOOMED {
            client.delete(&key(n)).await.unwrap();
        }
        // Tombstones of long keys fill the segment of those of the doomed keys.
        for n in LONG {
            let mut long = key(n);
            long.resize(1_000, b'k');
            client.put(&long, b"").await.unwrap();
            client.delete(&long).await.unwrap();
        }
        // Each segment of these has live records for long.
        let mut random = random_from_seed(30);
        for _ in 0..1_500 {
            let n = random.random_range(HOT);
            client.put(&key(n), &[n as u8; 8_000]).await.unwrap();
        }
        // A killed node would be removed at once, and filled anew: its old records would not count.
        cluster.places[first].cut_power(&cluster.world);
        cluster.start(first);
        cluster
            .until("all copies are there", || cluster.is_whole())
            .await;
        lead_all(cluster, first).await;
        let mut found = Vec::new();
        for n in DOOMED {
            let version = client.get(&key(n), &mut found).await.unwrap();
            assert_eq!(version, None, "key {n} was deleted");
        }
        for n in COLD {
            client.get(&key(n), &mut found).await.unwrap().unwrap();
            assert_eq!(found, [n as u8; 1_000]);
        }
    });
}
