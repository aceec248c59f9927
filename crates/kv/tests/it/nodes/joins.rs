//! Nodes that are filled while clients write.

use super::world::{Cluster, MS, Shape};
use super::{lead_all, put_all};
use crate::world::key;

/// Keys that are deleted while a node is filled.
const DELETED: u64 = 300;

/// A page with a value of a mebibyte is long on its way. The primary deletes keys of that page meanwhile: a joiner that
/// has digested their tombstones would take the keys from the page afterwards.
#[test]
pub fn a_key_that_is_deleted_while_its_page_is_on_its_way_stays_deleted() {
    let shape = Shape {
        shards: 1,
        segments: 24,
        segment_size: 2 << 20,
        ..Shape::THREE
    };
    Cluster::tell(shape, 33, async |cluster, client| {
        for n in 0..DELETED {
            client.put(&key(n), &[n as u8; 60]).await.unwrap();
        }
        for n in 1_000..1_006 {
            client.put(&key(n), &vec![n as u8; 1 << 20]).await.unwrap();
        }
        cluster.lose(2).await;
        cluster.start(2);
        // The deletes begin before the first page is read, and go on until the last one has come.
        let mut is_filled_meanwhile = false;
        for n in 0..DELETED {
            client.delete(&key(n)).await.unwrap();
            is_filled_meanwhile |= !cluster.stored().groups[0].joining.is_empty();
            cluster.process.runtime().sleep(MS / 10).await;
        }
        assert!(
            is_filled_meanwhile,
            "the node is filled while keys are deleted"
        );
        cluster
            .until("the node is back", || cluster.is_whole())
            .await;
        // The floor rises above the tombstones: entries above the floor are digested again by an heir.
        put_all(client, 2_000..2_100).await;
        cluster.process.runtime().sleep(50 * MS).await;
        lead_all(cluster, 2).await;
        let mut found = Vec::new();
        for n in 0..DELETED {
            assert_eq!(client.get(&key(n), &mut found).await.unwrap(), None, "{n}");
        }
        for n in 1_000..1_006 {
            client.get(&key(n), &mut found).await.unwrap().unwrap();
            assert_eq!(found, vec![n as u8; 1 << 20]);
        }
    });
}
