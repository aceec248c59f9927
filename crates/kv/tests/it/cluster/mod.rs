//! A client of several nodes: it finds the node of a key, learns that a shard has moved, and reads only what a lease
//! covers.

mod connects;
mod entries;
pub mod trouble;
mod world;

use futures_util::future::join;
use stonecast_cluster::Subject;
use stonecast_fabric::decorate::Counts;
use stonecast_kv::{ClusterClient, ClusterError, Condition, Effect, StoreError, Written};
use uuid::Uuid;

use crate::world::key;
use world::{Cluster, MS, SHARDS};

/// The first key of `shard`.
fn key_of(client: &ClusterClient, shard: u32) -> Vec<u8> {
    let mut keys = (0..).map(key);
    let of_shard = keys.find(|key| client.shard_of(key) == shard);
    of_shard.expect("every shard has keys")
}

async fn read(client: &ClusterClient, key: &[u8]) -> Option<Vec<u8>> {
    let mut value = Vec::new();
    let found = client.get(key, &mut value).await.unwrap();
    found.map(|_| value)
}

#[test]
fn keys_of_all_nodes_are_written_and_read_through_one_map() {
    Cluster::tell_story(async |cluster, client| {
        let keys: Vec<_> = (0..40).map(key).collect();
        let pairs: Vec<(&[u8], &[u8])> = keys.iter().map(|key| (&key[..], &key[..])).collect();
        for done in client.multi_put(&pairs).await {
            done.unwrap();
        }
        let names: Vec<&[u8]> = keys.iter().map(|key| &key[..]).collect();
        for (key, found) in keys.iter().zip(client.multi_get(&names).await) {
            assert_eq!(found.unwrap().unwrap().0, *key);
        }
        assert!(client.delete(&keys[3]).await.unwrap());
        assert!(!client.delete(&keys[3]).await.unwrap());
        assert_eq!(read(client, &keys[3]).await, None);
        let mut token = None;
        let absent = client.put_with(&mut token, &keys[4], b"new", Condition::Absent);
        assert!(matches!(absent.await.unwrap(), Written::Conflict(Some(_))));
        let stored = (0..SHARDS).map(|shard| cluster.leader(shard)).max();
        assert_eq!(stored, Some(2), "all nodes lead");
        assert_eq!(client.configuration_reads(), 1);
    });
}

/// Fails if a GET asks for a lease, or for the map, each time.
#[test]
fn a_get_through_the_map_has_the_reads_of_a_get_at_one_server() {
    Cluster::tell_story(async |cluster, client| {
        let name = key_of(client, 2);
        client.put(&name, b"value").await.unwrap();
        read(client, &name).await;
        let other = key_of(client, 3);
        client.put(&other, b"value").await.unwrap();
        read(client, &other).await;
        let before = cluster.meter.counts();
        for _ in 0..10 {
            assert_eq!(read(client, &name).await, Some(b"value".to_vec()));
        }
        let Counts {
            reads,
            sends,
            doorbells,
            ..
        } = cluster.meter.counts() - before;
        // The place of the key is remembered: record and bucket with one doorbell.
        assert_eq!((reads, doorbells, sends), (20, 10, 0));
        assert_eq!(client.configuration_reads(), 1);
    });
}

/// Fails if the keys of a batch are read one by one, or the nodes one after the other.
#[test]
fn a_batch_of_keys_takes_two_doorbells_for_each_node() {
    Cluster::tell_story(async |cluster, client| {
        let keys: Vec<_> = (0..60).map(key).collect();
        let names: Vec<&[u8]> = keys.iter().map(|key| &key[..]).collect();
        let pairs: Vec<(&[u8], &[u8])> = names.iter().map(|&key| (key, key)).collect();
        client.multi_put(&pairs).await;
        client.multi_get(&names).await;
        let before = cluster.meter.counts();
        let found = client.multi_get(&names).await;
        assert_eq!(found.len(), names.len());
        let doorbells = (cluster.meter.counts() - before).doorbells;
        assert!((3..=6).contains(&doorbells), "{doorbells}");
    });
}

#[test]
fn a_shard_that_has_moved_is_found_with_one_more_request_for_the_map() {
    Cluster::tell_story(async |cluster, client| {
        let shard = 1;
        let name = key_of(client, shard);
        client.put(&name, b"old").await.unwrap();
        let heir = (cluster.leader(shard) + 1) % 3;
        cluster.hand_over(shard, heir).await;
        client.put(&name, b"new").await.unwrap();
        assert_eq!(read(client, &name).await, Some(b"new".to_vec()));
        assert_eq!(client.configuration_reads(), 2);
    });
}

#[test]
fn a_client_waits_for_a_map_that_comes_later_than_the_refusal() {
    Cluster::tell_story(async |cluster, client| {
        let shard = 4;
        let name = key_of(client, shard);
        client.put(&name, b"old").await.unwrap();
        let heir = (cluster.leader(shard) + 1) % 3;
        let next = cluster.with_heir(shard, heir);
        cluster.tell(&next);
        let runtime = cluster.process.runtime();
        let late = async {
            runtime.sleep(30 * MS).await;
            cluster.publish(&next).await;
        };
        let put = client.put(&name, b"new");
        let (done, ()) = join(put, late).await;
        done.unwrap();
        assert_eq!(read(client, &name).await, Some(b"new".to_vec()));
    });
}

/// Fails, with a panic, if a client believes such a configuration.
#[test]
fn a_configuration_with_another_number_of_shards_is_not_believed() {
    Cluster::tell_story(async |cluster, client| {
        let name = key_of(client, SHARDS - 1);
        client.put(&name, b"old").await.unwrap();
        let proper = cluster.with_heir(SHARDS - 1, 0);
        let mut fewer = proper.clone();
        let last = fewer.groups.pop().unwrap();
        let before = fewer.groups.last_mut().unwrap();
        let (Subject::Keys(range), Subject::Keys(other)) = (&mut before.subject, last.subject)
        else {
            panic!("both are shards");
        };
        range.last = other.last;
        fewer.policy.shards -= 1;
        cluster.tell(&proper);
        cluster.publish(&fewer).await;
        let failed = client.put(&name, b"new").await.unwrap_err();
        assert!(matches!(failed, ClusterError::NotServed { .. }), "{failed}");
        cluster.publish(&proper).await;
        client.put(&name, b"new").await.unwrap();
    });
}

#[test]
fn a_node_that_does_not_serve_a_shard_costs_no_call_for_the_others() {
    Cluster::tell_story(async |cluster, client| {
        let shard = 0;
        let (name, other) = (key_of(client, shard), key_of(client, 1));
        client.put(&name, b"value").await.unwrap();
        let server = cluster.nodes[cluster.leader(shard)].server.borrow().clone();
        server.unwrap().lead(Default::default(), shard, None);
        let failed = client.put(&name, b"new").await.unwrap_err();
        assert!(
            matches!(failed, ClusterError::NotServed { shard: 0, .. }),
            "{failed}"
        );
        assert_eq!(failed.effect(), Effect::None);
        client.put(&other, b"value").await.unwrap();
    });
}

/// The last error is that of a connect, which has done nothing. The seeded bug `EffectOfLastError`.
#[test]
pub fn a_write_whose_node_dies_is_done_at_the_next_node_or_is_unknown_with_its_token() {
    Cluster::tell_story(async |cluster, client| {
        let shard = 5;
        let name = key_of(client, shard);
        client.put(&name, b"old").await.unwrap();
        let dead = cluster.leader(shard);
        let mut token = None;
        let put = client.put_with(&mut token, &name, b"new", Condition::None);
        let runtime = cluster.process.runtime();
        let death = async {
            runtime.sleep(1_000).await;
            cluster.nodes[dead].process.kill();
            *cluster.nodes[dead].server.borrow_mut() = None;
        };
        let (put, ()) = join(put, death).await;
        let failed = put.unwrap_err();
        let ClusterError::Unknown { token: named, .. } = &failed else {
            panic!("{failed}");
        };
        assert_eq!(
            (Some(&**named), failed.effect()),
            (token.as_ref(), Effect::Unknown)
        );
        cluster.hand_over(shard, (dead + 1) % 3).await;
        let again = client
            .put_with(&mut token, &name, b"new", Condition::None)
            .await;
        assert!(matches!(again.unwrap(), Written::Done(_)));
        assert_eq!(read(client, &name).await, Some(b"new".to_vec()));
    });
}

/// Fails if an attempt may use the whole patience of its call.
#[test]
fn a_silent_node_is_left_once_an_heir_leads() {
    Cluster::tell_story(async |cluster, client| {
        let shard = 3;
        let name = key_of(client, shard);
        client.put(&name, b"old").await.unwrap();
        let silent = cluster.leader(shard);
        let next = cluster.with_heir(shard, (silent + 1) % 3);
        cluster
            .world
            .suspend(cluster.nodes[silent].machine, 10_000 * MS);
        let runtime = cluster.process.runtime();
        let change = async {
            runtime.sleep(20 * MS).await;
            cluster.tell(&next);
            cluster.publish(&next).await;
        };
        let (done, ()) = join(client.put(&name, b"new"), change).await;
        done.unwrap();
        assert_eq!(read(client, &name).await, Some(b"new".to_vec()));
    });
}

/// Fails if a client takes the server at a node's address for the node.
#[test]
fn a_server_with_another_pool_than_the_configuration_names_is_refused() {
    Cluster::tell_story(async |cluster, client| {
        let shard = 2;
        let name = key_of(client, shard);
        let heir = (cluster.leader(shard) + 1) % 3;
        let mut other = cluster.with_heir(shard, heir);
        let node = other.nodes.get_mut(&cluster.nodes[heir].name);
        node.unwrap().pool = Uuid::from_u128(99);
        cluster.tell(&other);
        cluster.publish(&other).await;
        let connected = cluster.connect(40 * MS).await.unwrap();
        let failed = connected.put(&name, b"value").await.unwrap_err();
        assert!(failed.to_string().contains("another pool"), "{failed}");
        assert_eq!(failed.effect(), Effect::None);
    });
}

/// The node loses the lead during the GET. The seeded bug `ReadUnchecked`.
#[test]
pub fn a_get_whose_lease_ends_during_its_reads_is_repeated_at_the_next_primary() {
    Cluster::tell_story(async |cluster, client| {
        let shard = 3;
        let name = key_of(client, shard);
        client.put(&name, b"old").await.unwrap();
        read(client, &name).await;
        let former = cluster.leader(shard);
        let heir = (former + 1) % 3;
        // The READs of a slow NIC take longer than the lease.
        let mut value = Vec::new();
        let get = async {
            let slow = cluster.nodes[former].machine;
            cluster.world.slow_nic(slow, 40_000, 30 * MS);
            client.get(&name, &mut value).await
        };
        let runtime = cluster.process.runtime();
        let change = async {
            runtime.sleep(1_000).await;
            cluster.hand_over(shard, heir).await;
        };
        let (found, ()) = join(get, change).await;
        assert_eq!(found.unwrap(), None, "the next node has no such key");
    });
}

#[test]
fn a_node_without_a_lease_of_its_own_is_not_read() {
    Cluster::tell_story(async |cluster, client| {
        let name = key_of(client, 2);
        client.put(&name, b"value").await.unwrap();
        read(client, &name).await;
        cluster.nodes[cluster.leader(2)].held_ns.set(0);
        cluster.process.runtime().sleep(50 * MS).await;
        let failed = client.get(&name, &mut Vec::new()).await.unwrap_err();
        let ClusterError::NotServed { shard: 2, source } = failed else {
            panic!("{failed}");
        };
        assert!(matches!(*source, StoreError::NotPrimary { .. }));
    });
}
