//! Iteration over the keys of all shards.

use std::collections::BTreeMap;

use stonecast_kv::{ClusterClient, ClusterEntries};

use super::world::{Cluster, MS, SHARDS};
use super::{key_of, read};
use crate::world::key;

/// The remaining keys, each with the number of its appearances.
async fn rest(entries: &mut ClusterEntries, client: &ClusterClient) -> BTreeMap<Vec<u8>, u32> {
    let (mut seen, mut batch) = (BTreeMap::new(), Vec::new());
    loop {
        entries.next(client, &mut batch).await.unwrap();
        if batch.is_empty() {
            return seen;
        }
        for entry in batch.drain(..) {
            assert_eq!(entry.key, entry.value);
            *seen.entry(entry.key).or_default() += 1;
        }
    }
}

async fn store(client: &ClusterClient, keys: &[Vec<u8>]) {
    let pairs: Vec<(&[u8], &[u8])> = keys.iter().map(|key| (&key[..], &key[..])).collect();
    let done = client.multi_put(&pairs).await;
    assert!(done.iter().all(Result::is_ok), "{done:?}");
}

#[test]
fn the_keys_of_all_shards_are_found_once_each() {
    Cluster::tell_story(async |_, client| {
        let keys: Vec<_> = (0..500).map(key).collect();
        store(client, &keys).await;
        assert!(client.delete(&keys[7]).await.unwrap());
        let mut entries = client.entries().await.unwrap();
        assert_eq!(entries.len(), 499);
        let seen = rest(&mut entries, client).await;
        assert_eq!(seen.len(), 499);
        assert!(seen.values().all(|&count| count == 1));
        assert!(!seen.contains_key(&keys[7]));
    });
}

/// Fails if the words of the former primary are read at the next one, or keys that were given are given again.
#[test]
fn an_iteration_goes_on_at_the_next_primary_and_gives_no_key_twice() {
    Cluster::tell_story(async |cluster, client| {
        let first = key_of(client, 0);
        let of_shard = (0..).map(key).filter(|key| client.shard_of(key) == 0);
        let keys: Vec<_> = of_shard.take(100).collect();
        store(client, &keys).await;
        let (mut entries, mut batch) = (client.entries().await.unwrap(), Vec::new());
        entries.next(client, &mut batch).await.unwrap();
        let given: Vec<_> = batch.into_iter().map(|entry| entry.key).collect();
        assert!((1..100).contains(&given.len()));
        cluster.hand_over(0, (cluster.leader(0) + 1) % 3).await;
        // An heir waits for the leases of its predecessor.
        cluster.process.runtime().sleep(20 * MS).await;
        assert_eq!(read(client, &first).await, None, "the next node is empty");
        store(client, &keys).await;
        let mut seen = rest(&mut entries, client).await;
        given
            .into_iter()
            .for_each(|key| *seen.entry(key).or_default() += 1);
        assert_eq!(seen.len(), 100);
        assert!(seen.values().all(|&count| count == 1), "{seen:?}");
    });
}

#[test]
fn each_node_that_leads_reports_what_it_counts() {
    Cluster::tell_story(async |_, client| {
        let keys: Vec<_> = (0..60).map(key).collect();
        store(client, &keys).await;
        let reports = client.metrics().await;
        let names: Vec<_> = reports.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names.len(), 3, "{names:?}");
        let counts = reports.iter().map(|(_, counted)| counted.as_ref().unwrap());
        assert_eq!(counts.map(|metrics| metrics.stat.keys).sum::<u64>(), 60);
        assert!(client.survives_power());
    });
}

/// Needs the count of each shard by its primary, and the names of those that answered. By an old map, the heir of a
/// shard answers for itself and for its predecessor.
#[test]
fn a_client_with_an_old_map_counts_each_key_and_each_node_once() {
    Cluster::tell_story(async |cluster, client| {
        let keys: Vec<_> = (0..60).map(key).collect();
        store(client, &keys).await;
        assert_eq!(client.keys().await.unwrap(), 60);
        let (gone, heir) = (cluster.leader(0), (cluster.leader(0) + 1) % 3);
        let moved: Vec<_> = (0..SHARDS)
            .filter(|&shard| cluster.leader(shard) == gone)
            .collect();
        for &shard in &moved {
            cluster.hand_over(shard, heir).await;
        }
        let is_moved = |key: &&Vec<u8>| moved.contains(&client.shard_of(key));
        let left = 60 - keys.iter().filter(is_moved).count() as u64;
        cluster.nodes[gone].process.kill();
        // An heir waits for the leases of its predecessor.
        cluster.process.runtime().sleep(20 * MS).await;
        let reports = client.metrics().await;
        let names: Vec<_> = reports.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names.len(), 2, "{names:?}");
        assert_eq!(client.keys().await.unwrap(), left, "the heir is empty");
        let sum = client.metrics_of_all().await.unwrap();
        assert_eq!(sum.stat.keys, left);
    });
}

/// Needs a read that begins after the call, and the copies of the shards that were written alone.
#[test]
fn a_client_learns_how_many_copies_a_write_has_now() {
    Cluster::tell_story(async |cluster, client| {
        let copies = client.copies(&[]).await.unwrap();
        assert!(copies.primary_survives_power);
        assert_eq!(copies.backups, copies.backups_that_survive_power);
        let all = copies.backups;
        assert!(all > 0, "{copies:?}");
        let fewer = cluster.with_fewer_copies(3);
        cluster.publish(&fewer).await;
        assert_eq!(client.copies(&[2]).await.unwrap().backups, all);
        for shards in [&[3][..], &[2, 3], &[]] {
            let copies = client.copies(shards).await.unwrap();
            assert_eq!(copies.backups, all - 1, "{shards:?}");
        }
    });
}
