//! Values in chunks on several nodes: whole at every primary, whatever dies.

use std::cell::RefCell;

use futures_util::future::join;
use stonecast_base::random_from_seed;
use stonecast_kv::{ClusterError, Expiry, PutRules};

use super::lead_all;
use super::world::{Cluster, MS, Shape};
use crate::world::{key, value};

const LONG: usize = 700_000;

/// A pool with room for a few such values.
const ROOMY: Shape = Shape {
    segments: 40,
    ..Shape::THREE
};

async fn is_whole(client: &stonecast_kv::ClusterClient, n: u64, content: &[u8]) -> bool {
    let mut found = Vec::new();
    let version = client.get(&key(n), &mut found).await.unwrap();
    version.is_some() && found == content
}

#[test]
fn each_heir_has_the_chunks_of_each_value() {
    Cluster::tell(ROOMY.patient(), 71, async |cluster, client| {
        for round in 0..3 {
            let content = value(round, LONG);
            client.put(&key(1), &content).await.unwrap();
            client.put(&key(2), &content).await.unwrap();
            let leader = cluster.leader(client.shard_of(&key(1))).unwrap();
            cluster.places[leader].kill();
            cluster.until_served().await;
            assert!(is_whole(client, 1, &content).await && is_whole(client, 2, &content).await);
            cluster.start(leader);
            cluster
                .until("the node is back", || cluster.is_whole())
                .await;
            let mut entries = client.entries().await.unwrap();
            let (mut page, mut names) = (Vec::new(), Vec::new());
            loop {
                entries.next(client, &mut page).await.unwrap();
                if page.is_empty() {
                    break;
                }
                names.extend(page.drain(..).map(|entry| {
                    assert!(entry.value == content);
                    entry.key
                }));
            }
            names.sort();
            assert_eq!(names, [key(1), key(2)]);
        }
    });
}

/// The room of replaced values comes back on every copy: the pools have room for three values beside the entries.
#[test]
fn chunks_of_replaced_values_leave_the_logs_of_all_copies() {
    Cluster::tell(ROOMY, 72, async |cluster, client| {
        for round in 0..40 {
            let content = value(round, LONG);
            client.put(&key(1), &content).await.unwrap();
            assert!(is_whole(client, 1, &content).await, "{round}");
        }
        lead_all(cluster, 2).await;
        assert!(is_whole(client, 1, &value(39, LONG)).await);
    });
}

/// A primary dies while a value is being written. The client writes the value again at the heir, and nobody sees a
/// part.
#[test]
fn a_value_whose_primary_dies_between_its_chunks_is_written_whole_at_the_heir() {
    Cluster::tell(ROOMY.patient(), 73, async |cluster, client| {
        let (first, second) = (value(1, LONG), value(2, LONG));
        client.put(&key(1), &first).await.unwrap();
        for after in [20_000, 60_000, 120_000, 200_000] {
            let leader = cluster.leader(client.shard_of(&key(1))).unwrap();
            let putting = async { client.put(&key(1), &second).await };
            let killing = async {
                cluster.process.runtime().sleep(after).await;
                cluster.places[leader].kill();
            };
            let (put, ()) = join(putting, killing).await;
            put.unwrap();
            cluster.until_served().await;
            assert!(is_whole(client, 1, &second).await, "{after}");
            cluster.start(leader);
            cluster
                .until("the node is back", || cluster.is_whole())
                .await;
            client.put(&key(1), &first).await.unwrap();
        }
    });
}

/// The primary stands still for longer than its lease while it has a chunk that is stamped, and the client reaches no
/// heir. Nobody knows what became of the chunk, and no record names it. Needs the look at the part of the put that
/// failed: the outcome of the put would be unknown.
#[test]
fn a_put_whose_primary_loses_its_lease_between_two_chunks_is_not_done() {
    for part in 0..6 {
        Cluster::tell(ROOMY.patient(), 100 + part, async |cluster, other| {
            let (first, second) = (value(1, LONG), value(2, LONG));
            let client = cluster.client_that_waits(120 * MS, 30 * MS).await;
            client.put(&key(1), &first).await.unwrap();
            let leader = cluster.leader(client.shard_of(&key(1))).unwrap();
            let places = cluster.places.iter().enumerate();
            for (_, place) in places.filter(|(index, _)| *index != leader) {
                let (from, to) = (Some(cluster.machine), Some(place.machine));
                cluster.world.block(from, to, 0, 300 * MS);
            }
            // An heir leads, and the client still waits for the answer.
            let pausing = async {
                let runtime = cluster.process.runtime();
                runtime.sleep(10_000 + part * 3_000).await;
                cluster.places[leader].pause(15 * MS);
                runtime.sleep(400 * MS).await;
            };
            let (put, ()) = join(client.put(&key(1), &second), pausing).await;
            let error = put.expect_err("no heir is reached");
            assert!(
                matches!(error, ClusterError::NotServed { .. }),
                "part {part}: {error}"
            );
            assert!(is_whole(other, 1, &first).await, "part {part}");
        });
    }
}

#[test]
fn a_node_that_is_filled_and_nodes_that_start_after_a_power_cut_have_whole_values() {
    Cluster::tell(ROOMY, 74, async |cluster, client| {
        let content = value(1, LONG);
        client.put(&key(1), &content).await.unwrap();
        cluster.lose(2).await;
        client.put(&key(2), &content).await.unwrap();
        cluster.start(2);
        cluster
            .until("the node is back", || cluster.is_whole())
            .await;
        lead_all(cluster, 2).await;
        assert!(is_whole(client, 1, &content).await && is_whole(client, 2, &content).await);
        for place in &cluster.places {
            place.cut_power(&cluster.world);
        }
        (0..3).for_each(|index| cluster.start(index));
        cluster.until_served().await;
        cluster.process.runtime().sleep(100 * MS).await;
        assert!(is_whole(client, 1, &content).await && is_whole(client, 2, &content).await);
    });
}

/// The time of the chunks has passed for long, and some come in pages before the record that names them.
#[test]
fn a_node_that_is_filled_long_after_a_value_was_written_has_all_of_its_chunks() {
    let shape = Shape {
        shards: 1,
        segments: 64,
        ..ROOMY
    };
    Cluster::tell(shape, 75, async |cluster, client| {
        let content = value(1, LONG);
        for n in 0..8 {
            client.put(&key(n), &content).await.unwrap();
        }
        let pass = async |ns| cluster.process.runtime().sleep(ns).await;
        let ask = async |n: u64| {
            let soon = client.time_ms(&key(90)).await.unwrap() + 500;
            let rules = PutRules::from(Expiry::at_ms(soon).unwrap());
            let (mut token, name) = (None, key(100 + n % 7));
            let put = client.put_with(&mut token, &name, b"goes", rules);
            put.await.unwrap();
        };
        pass(700_000 * MS).await;
        for before in [2, 8] {
            cluster.lose(2).await;
            // The primary stamps a mark each half second in which somebody asks, and one while the node is filled.
            ask(0).await;
            while client.time_ms(&key(90)).await.unwrap() % 500 < 500 - before {
                pass(MS / 2).await;
            }
            cluster.start(2);
            for n in 0..40 {
                ask(n).await;
                pass(MS / 2).await;
            }
            cluster
                .until("the node is back", || cluster.is_whole())
                .await;
        }
        pass(3_000 * MS).await;
        lead_all(cluster, 2).await;
        for n in 0..8 {
            assert!(is_whole(client, n, &content).await, "{n}");
        }
    });
}

/// The seeded bug `HeadReplacesItself`: pages have the newest records, and those that were written since the join began
/// come as entries, too.
#[test]
pub fn a_value_that_comes_to_a_joiner_by_page_and_as_an_entry_keeps_its_chunks() {
    const BEFORE: u64 = 8;
    const KEYS: u64 = 24;
    let shape = Shape {
        shards: 1,
        segments: 112,
        ..ROOMY
    };
    Cluster::tell(shape, 78, async |cluster, client| {
        for n in 0..BEFORE {
            client.put(&key(n), &value(n, LONG)).await.unwrap();
        }
        cluster.lose(2).await;
        cluster.start(2);
        let is_filled = || !cluster.stored().groups[0].joining.is_empty();
        cluster.until("the node is filled", is_filled).await;
        for n in BEFORE..KEYS {
            client.put(&key(n), &value(n, LONG)).await.unwrap();
        }
        cluster
            .until("the node is back", || cluster.is_whole())
            .await;
        lead_all(cluster, 2).await;
        for n in 0..KEYS {
            assert!(is_whole(client, n, &value(n, LONG)).await, "{n}");
        }
    });
}

/// The power fails on all nodes at every part of a put, and keeps any of the words that were not durable.
#[test]
fn no_power_cut_of_all_nodes_tears_a_value() {
    let (mut done, mut undone) = (0, 0);
    for part in 0..12_u64 {
        let shape = Shape {
            shards: 1,
            one_sided: part % 3 != 0,
            packs: part % 2 == 0,
            ..ROOMY.patient()
        };
        Cluster::tell(shape, 80 + part, async |cluster, client| {
            let random = RefCell::new(random_from_seed(part));
            let mut last = 0;
            client.put(&key(1), &value(0, LONG)).await.unwrap();
            for cut in 0..3 {
                let next = last + 1;
                let hasty = cluster.client(8 * MS).await;
                hasty.put(&key(50), b"a session").await.unwrap();
                let content = value(next, LONG);
                let crash = async {
                    let runtime = cluster.process.runtime();
                    runtime.sleep(part * 250_000 + cut * 70_000).await;
                    for place in &cluster.places {
                        place.lose_power(&cluster.world, |place| {
                            super::batches::survivor(cluster, place, &random)
                        });
                    }
                    (0..3).for_each(|index| cluster.start(index));
                    cluster.until_served().await;
                };
                let (put, ()) = join(hasty.put(&key(1), &content), crash).await;
                let is_new = is_whole(client, 1, &content).await;
                let context = format!("part {part}, cut {cut}: {put:?}");
                assert!(
                    is_new || is_whole(client, 1, &value(last, LONG)).await,
                    "{context}"
                );
                assert!(is_new || put.is_err(), "{context}");
                done += u64::from(is_new);
                undone += u64::from(!is_new);
                last = next + 1;
                client.put(&key(1), &value(last, LONG)).await.unwrap();
            }
        });
    }
    assert!(done > 3 && undone > 3, "{done} done, {undone} undone");
}
