//! Trouble of a client of several nodes: nodes that are silent or damaged, shards without a lease, many calls that fail
//! at once.

use std::rc::Weak;

use futures_util::future::{join, join_all};
use stonecast_fabric_sim::Module;
use stonecast_kv::{ClusterError, Condition, Effect, StoreError};

use super::world::{Cluster, MS, SHARDS};
use super::{key_of, read};
use crate::world::key;

/// Longer than any story.
const FOREVER_NS: u64 = 1_000_000 * MS;

/// Damages each copy of `bytes` in the log of a node.
fn damage(module: &Module, bytes: &[u8]) {
    for span in module.touched() {
        let mut content = vec![0; span.size as usize];
        module.look(span.offset, &mut content);
        let places = content.windows(bytes.len()).enumerate();
        let places: Vec<usize> = places
            .filter_map(|(at, window)| (window == bytes).then_some(at))
            .collect();
        for at in places {
            module.corrupt(span.offset + at as u64, &vec![0; bytes.len()]);
        }
    }
}

/// The memory of a node that leads no longer may hold anything. The seeded bug `ErrorUnchecked`.
#[test]
pub fn an_error_of_a_read_whose_lease_has_ended_is_not_believed() {
    const VALUE: &[u8] = b"a value that occurs nowhere else";
    Cluster::tell_story(async |cluster, client| {
        let shard = 3;
        let name = key_of(client, shard);
        client.put(&name, VALUE).await.unwrap();
        read(client, &name).await;
        let former = &cluster.nodes[cluster.leader(shard)];
        let heir = (cluster.leader(shard) + 1) % 3;
        damage(&former.module, VALUE);
        let covered = client.get(&name, &mut Vec::new()).await.unwrap_err();
        assert!(
            matches!(covered, ClusterError::Store(StoreError::Corrupt(_))),
            "{covered}"
        );
        cluster.world.slow_nic(former.machine, 40_000, 30 * MS);
        let runtime = cluster.process.runtime();
        let change = async {
            runtime.sleep(1_000).await;
            cluster.hand_over(shard, heir).await;
        };
        let mut value = Vec::new();
        let (found, ()) = join(client.get(&name, &mut value), change).await;
        assert_eq!(found.unwrap(), None, "the next node has no such key");
    });
}

/// The seeded bug `LeaseOfAllShards`.
#[test]
pub fn a_shard_without_a_lease_is_not_read_and_takes_no_lease_of_the_others() {
    Cluster::tell_story(async |cluster, client| {
        let first = 0;
        let leader = cluster.leader(first);
        let second = (1..SHARDS).find(|&shard| cluster.leader(shard) == leader);
        let second = second.expect("a node leads two shards");
        let (name, other) = (key_of(client, first), key_of(client, second));
        client.put(&name, b"value").await.unwrap();
        client.put(&other, b"value").await.unwrap();
        read(client, &name).await;
        read(client, &other).await;
        cluster.nodes[leader].unleased.set(Some(first));
        cluster.process.runtime().sleep(50 * MS).await;
        assert_eq!(read(client, &other).await, Some(b"value".to_vec()));
        let failed = client.get(&name, &mut Vec::new()).await.unwrap_err();
        assert!(
            matches!(failed, ClusterError::NotServed { shard: 0, .. }),
            "{failed}"
        );
    });
}

/// Fails with one lock for the sessions with all nodes.
#[test]
fn a_node_that_accepts_no_session_delays_no_call_to_the_others() {
    Cluster::tell_story(async |cluster, _| {
        let client = cluster.connect(400 * MS).await.unwrap();
        let silent = cluster.leader(SHARDS - 1);
        assert_ne!(silent, cluster.leader(0), "the client knows another node");
        let third = (0..SHARDS)
            .find(|&shard| ![silent, cluster.leader(0)].contains(&cluster.leader(shard)));
        let (name, other) = (key_of(&client, SHARDS - 1), key_of(&client, third.unwrap()));
        let machine = cluster.nodes[silent].machine;
        cluster.world.suspend(machine, FOREVER_NS);
        let runtime = cluster.process.runtime();
        let begun = runtime.now();
        let quick = async {
            runtime.sleep(MS).await;
            client.put(&other, b"value").await.unwrap();
            runtime.now() - begun
        };
        let (failed, took) = join(client.put(&name, b"value"), quick).await;
        assert!(took < 2 * MS, "{took}");
        let failed = failed.unwrap_err();
        assert_eq!(failed.effect(), Effect::None, "nothing was sent: {failed}");
        let took = runtime.now() - begun;
        assert!(took < 500 * MS, "{took}");
    });
}

/// The server stands still during the connect, and its NIC does not. Fails without a bound on the connect.
#[test]
fn a_client_connects_to_the_next_primary_if_the_first_one_falls_silent() {
    for delay_ns in [0, 20_000, 40_000] {
        Cluster::tell_story(async |cluster, _| {
            let first = cluster.leader(0);
            let runtime = cluster.process.runtime();
            let silence = async {
                runtime.sleep(delay_ns).await;
                cluster.nodes[first].process.pause(FOREVER_NS);
            };
            let begun = runtime.now();
            let (client, ()) = join(cluster.connect(400 * MS), silence).await;
            let (client, took) = (client.unwrap(), runtime.now() - begun);
            assert!(took < 200 * MS, "{took}");
            let shard = (0..SHARDS).find(|&shard| cluster.leader(shard) != first);
            let name = key_of(&client, shard.unwrap());
            client.put(&name, b"value").await.unwrap();
        });
    }
}

#[test]
fn a_client_of_silent_nodes_gives_up_within_its_patience() {
    Cluster::tell_story(async |cluster, _| {
        for node in &cluster.nodes {
            cluster.world.suspend(node.machine, FOREVER_NS);
        }
        let runtime = cluster.process.runtime();
        let begun = runtime.now();
        let failed = cluster.connect(400 * MS).await.err();
        assert!(matches!(failed, Some(ClusterError::NotServed { .. })));
        let took = runtime.now() - begun;
        assert!(took < 500 * MS, "{took}");
    });
}

/// Fails if each call reads the configuration for itself.
#[test]
fn calls_that_fail_at_the_same_time_read_the_configuration_together() {
    Cluster::tell_story(async |cluster, client| {
        let shard = 1;
        let names: Vec<_> = (0..2_000).map(key).collect();
        let of_shard = names.iter().filter(|name| client.shard_of(name) == shard);
        let names: Vec<_> = of_shard.take(50).collect();
        client.put(names[0], b"old").await.unwrap();
        let next = cluster.with_heir(shard, (cluster.leader(shard) + 1) % 3);
        cluster.tell(&next);
        let runtime = cluster.process.runtime();
        let before = client.configuration_reads();
        let late = async {
            runtime.sleep(20 * MS).await;
            cluster.publish(&next).await;
        };
        let puts = join_all(names.iter().map(|name| client.put(name, b"new")));
        let (done, ()) = join(puts, late).await;
        assert!(done.iter().all(Result::is_ok), "{done:?}");
        let reads = client.configuration_reads() - before;
        // One for each pause of two milliseconds, and some before and after them.
        assert!(reads <= 14, "{reads}");
    });
}

/// Fails if the keys that a batch has left over have a patience of their own.
#[test]
fn a_batch_of_keys_ends_within_the_patience_of_one_call() {
    Cluster::tell_story(async |cluster, client| {
        let keys: Vec<_> = (0..60).map(key).collect();
        let names: Vec<&[u8]> = keys.iter().map(|key| &key[..]).collect();
        client.multi_get(&names).await;
        let machine = cluster.nodes[1].machine;
        cluster.world.suspend(machine, FOREVER_NS);
        let runtime = cluster.process.runtime();
        let begun = runtime.now();
        let found = client.multi_get(&names).await;
        let failed = found.iter().filter(|found| found.is_err()).count();
        assert!((1..60).contains(&failed), "{failed}");
        let took = runtime.now() - begun;
        assert!(took < 450 * MS, "{took}");
    });
}

/// Fails if the task that renews leases waits for the node without a bound.
#[test]
fn a_session_that_is_left_ends_though_its_node_is_silent() {
    Cluster::tell_story(async |cluster, _| {
        let (dial, ports) = cluster.noted_dial();
        let client = cluster.connect_by(dial, 400 * MS).await.unwrap();
        let shard = 0;
        let name = key_of(&client, shard);
        client.put(&name, b"old").await.unwrap();
        read(&client, &name).await;
        let silent = cluster.leader(shard);
        let next = cluster.with_heir(shard, (silent + 1) % 3);
        let machine = cluster.nodes[silent].machine;
        cluster.world.suspend(machine, FOREVER_NS);
        cluster.tell(&next);
        cluster.publish(&next).await;
        client.put(&name, b"new").await.unwrap();
        cluster.process.runtime().sleep(50 * MS).await;
        let alive = |port: &&Weak<_>| port.strong_count() > 0;
        let alive = ports.borrow().iter().filter(alive).count();
        assert_eq!(alive, 1, "of the next node alone");
        client.put(&name, b"newer").await.unwrap();
    });
}

#[test]
fn a_write_that_all_nodes_have_refused_has_done_nothing_and_its_token_says_so() {
    Cluster::tell_story(async |cluster, client| {
        let shard = 0;
        let name = key_of(client, shard);
        client.put(&name, b"value").await.unwrap();
        let server = cluster.nodes[cluster.leader(shard)].server.borrow().clone();
        server.unwrap().lead(Default::default(), shard, None);
        let mut token = None;
        let put = client.put_with(&mut token, &name, b"new", Condition::None);
        let failed = put.await.unwrap_err();
        assert_eq!(failed.effect(), Effect::None, "{failed}");
        assert!(!token.expect("an attempt was made").may_be_done());
    });
}
