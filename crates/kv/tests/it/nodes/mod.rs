//! Servers that are nodes of a cluster: stories of writes that survive the loss of nodes.

pub mod batches;
pub mod chunks;
pub mod expiring;
pub mod flaws;
pub mod forgeries;
pub mod in_flight;
pub mod joins;
pub mod leaving;
mod memory;
pub mod repeated;
pub mod resigned;
pub mod room;
pub mod unsettled;
mod world;

use stonecast_cluster::Configuration;
use stonecast_kv::{ClusterClient, Condition, Written};

use crate::world::key;
use world::{Cluster, MS, Shape};

async fn put_all(client: &ClusterClient, numbers: std::ops::Range<u64>) {
    for n in numbers {
        client.put(&key(n), &value(n)).await.unwrap();
    }
}

fn value(n: u64) -> Vec<u8> {
    vec![n as u8; 20 + (n % 7) as usize * 60]
}

async fn has_all(client: &ClusterClient, numbers: std::ops::Range<u64>) {
    let mut found = Vec::new();
    for n in numbers {
        let version = client.get(&key(n), &mut found).await.unwrap();
        assert!(version.is_some(), "key {n}");
        assert_eq!(found, value(n), "key {n}");
    }
}

async fn put_if(client: &ClusterClient, value: &[u8], condition: Condition) -> Written {
    let (mut token, key) = (None, key(1));
    let put = client.put_with(&mut token, &key, value, condition);
    put.await.unwrap()
}

#[test]
fn values_are_read_back_and_deleted_keys_are_gone() {
    Cluster::tell(Shape::THREE, 1, async |_, client| {
        put_all(client, 0..60).await;
        has_all(client, 0..60).await;
        for n in 0..20 {
            client.delete(&key(n)).await.unwrap();
        }
        let mut found = Vec::new();
        for n in 0..20 {
            assert_eq!(client.get(&key(n), &mut found).await.unwrap(), None);
        }
        has_all(client, 20..60).await;
    });
}

#[test]
fn values_survive_a_power_cut_of_any_one_node() {
    for lost in 0..3 {
        Cluster::tell(Shape::THREE, 2 + lost as u64, async |cluster, client| {
            put_all(client, 0..40).await;
            cluster.places[lost].cut_power(&cluster.world);
            has_all(client, 0..40).await;
            put_all(client, 40..60).await;
            has_all(client, 0..60).await;
        });
    }
}

#[test]
fn values_survive_a_power_cut_of_all_nodes() {
    for one_sided in [true, false] {
        let shape = Shape {
            one_sided,
            ..Shape::THREE.patient()
        };
        Cluster::tell(shape, 11, async |cluster, client| {
            put_all(client, 0..50).await;
            for round in 0..3 {
                let runtime = cluster.process.runtime();
                runtime.sleep(round * 7 * MS).await;
                for place in &cluster.places {
                    place.cut_power(&cluster.world);
                }
                (0..3).for_each(|index| cluster.start(index));
                cluster.until_served().await;
                has_all(client, 0..50 + round * 10).await;
                put_all(client, 50 + round * 10..60 + round * 10).await;
            }
        });
    }
}

#[test]
fn a_node_that_starts_again_is_a_copy_of_what_was_written_meanwhile() {
    Cluster::tell(Shape::THREE.patient(), 12, async |cluster, client| {
        put_all(client, 0..30).await;
        cluster.places[0].kill();
        cluster.start(0);
        put_all(client, 30..60).await;
        cluster.until_served().await;
        for lost in [1, 2] {
            cluster.places[lost].kill();
            cluster
                .until("the node that is left alone leads nothing new", || true)
                .await;
        }
        cluster.start(1);
        cluster.start(2);
        cluster.until_served().await;
        has_all(client, 0..60).await;
    });
}

#[test]
pub fn a_node_that_was_removed_for_its_silence_is_filled_when_it_is_back() {
    Cluster::tell(Shape::THREE, 13, async |cluster, client| {
        put_all(client, 0..200).await;
        for n in 0..50 {
            client.delete(&key(n)).await.unwrap();
        }
        cluster.places[2].cut_power(&cluster.world);
        let has_left = |configuration: Configuration| {
            let name = &cluster.places[2].name;
            let groups = configuration.groups.iter();
            groups.clone().all(|group| !group.in_sync.contains(name))
        };
        cluster
            .until("the node is removed", || has_left(cluster.stored()))
            .await;
        put_all(client, 200..230).await;
        for n in 50..100 {
            client.delete(&key(n)).await.unwrap();
        }
        cluster.start(2);
        cluster
            .until("the node is back", || cluster.is_whole())
            .await;
        lead_all(cluster, 2).await;
        has_all(client, 100..230).await;
        let mut found = Vec::new();
        for n in 0..100 {
            assert_eq!(client.get(&key(n), &mut found).await.unwrap(), None, "{n}");
        }
    });
}

/// Kills the other nodes until the node at `heir` leads all shards, and starts them again.
async fn lead_all(cluster: &Cluster, heir: usize) {
    let shards = 0..cluster.shape.shards;
    let leads_all = || {
        let mut shards = shards.clone();
        shards.all(|shard| cluster.leader(shard) == Some(heir))
    };
    let others = || (0..cluster.places.len()).filter(|&other| other != heir);
    others().for_each(|other| cluster.places[other].kill());
    cluster.until("the last node leads", leads_all).await;
    others().for_each(|other| cluster.start(other));
    cluster
        .until("all copies are there", || cluster.is_whole())
        .await;
    assert!(leads_all(), "nobody has taken the lead away");
}

#[test]
pub fn a_write_that_is_repeated_at_a_node_that_was_filled_is_done_once() {
    Cluster::tell(Shape::THREE, 17, async |cluster, client| {
        let mut token = None;
        let (name, none) = (key(3), Condition::None);
        let first = client.put_with(&mut token, &name, b"once", none).await;
        let Written::Done(version) = first.unwrap() else {
            panic!("nothing is conditional");
        };
        put_all(client, 10..40).await;
        client.put(&name, b"later").await.unwrap();
        cluster.places[2].cut_power(&cluster.world);
        let has_left = |configuration: Configuration| {
            let name = &cluster.places[2].name;
            let groups = configuration.groups.iter();
            groups.clone().all(|group| !group.in_sync.contains(name))
        };
        cluster
            .until("the node is removed", || has_left(cluster.stored()))
            .await;
        cluster.start(2);
        cluster
            .until("the node is back", || cluster.is_whole())
            .await;
        lead_all(cluster, 2).await;
        let again = client.put_with(&mut token, &name, b"once", none).await;
        let again = again.unwrap();
        assert!(
            matches!(again, Written::Done(found) if found == version),
            "{again:?}"
        );
        let mut value = Vec::new();
        client.get(&name, &mut value).await.unwrap();
        assert_eq!(value, b"later");
    });
}

#[test]
fn a_node_that_drains_hands_all_its_shards_over() {
    let shape = Shape {
        nodes: 4,
        shards: 4,
        ..Shape::THREE
    };
    Cluster::tell(shape, 14, async |cluster, client| {
        put_all(client, 0..100).await;
        let name = cluster.places[0].name.clone();
        cluster.request(1, |present| present.drain(&name)).await;
        let is_empty = || {
            let groups = cluster.stored().groups;
            groups
                .iter()
                .all(|group| !group.in_sync.contains(&name) && group.joining.is_empty())
        };
        for n in 100..200 {
            client.put(&key(n), &value(n)).await.unwrap();
        }
        cluster.until("the node has nothing", is_empty).await;
        has_all(client, 0..200).await;
    });
}

/// The shards of the largest cluster. Each of the 64 nodes reads each configuration, whose size and number grow with
/// the shards: a campaign has 64 of them.
const SHARDS_WANTED: &str = "STONECAST_CLUSTER_SHARDS";
const SHARDS_USUAL: u32 = 8;

/// The most nodes that a cluster has.
#[test]
fn a_cluster_of_sixty_four_nodes_outlives_a_node_and_drains_another() {
    let wanted = std::env::var(SHARDS_WANTED).ok();
    let shape = Shape {
        nodes: 64,
        shards: wanted.map_or(SHARDS_USUAL, |shards| shards.parse().expect(SHARDS_WANTED)),
        ..Shape::THREE
    };
    Cluster::tell(shape, 16, async |cluster, client| {
        put_all(client, 0..300).await;
        cluster.places[5].kill();
        put_all(client, 300..400).await;
        has_all(client, 0..400).await;
        let name = cluster.places[0].name.clone();
        cluster.request(1, |present| present.drain(&name)).await;
        let is_empty = || {
            let groups = cluster.stored().groups;
            groups.iter().all(|group| !group.in_sync.contains(&name))
        };
        cluster.until("the node has nothing", is_empty).await;
        put_all(client, 400..450).await;
        has_all(client, 0..450).await;
    });
}

/// The most shards that a cluster has. A segment keeps what a node notes about them all.
#[test]
fn a_cluster_of_sixty_four_shards_outlives_a_node() {
    let shape = Shape {
        shards: 64,
        segment_size: 1 << 20,
        ..Shape::THREE
    };
    Cluster::tell(shape, 17, async |cluster, client| {
        put_all(client, 0..300).await;
        cluster.places[1].kill();
        put_all(client, 300..400).await;
        has_all(client, 0..400).await;
    });
}

/// Needs the check at the start: both other nodes would end when one node dies.
#[test]
fn a_node_is_refused_whose_segments_have_no_room_for_what_it_notes_about_all_shards() {
    let shape = Shape {
        shards: 64,
        ..Shape::THREE
    };
    let cluster = Cluster::begun(shape, 17);
    let runtime = cluster.process.runtime();
    cluster.world.block_on(runtime.sleep(MS));
    let ends = cluster.ends();
    assert!(
        ends.iter().flatten().count() == shape.nodes
            && ends
                .iter()
                .flatten()
                .all(|end| end.contains("use larger segments")),
        "{ends:?}"
    );
}

#[test]
fn a_condition_holds_for_one_writer_however_often_the_primary_changes() {
    Cluster::tell(Shape::THREE, 15, async |cluster, client| {
        let version = client.put(&key(1), b"first").await.unwrap();
        for lost in 0..3 {
            cluster.places[lost].kill();
            let refused = put_if(client, b"no", Condition::Absent).await;
            assert!(matches!(refused, Written::Conflict(_)), "{refused:?}");
            cluster.start(lost);
            cluster
                .until("all copies are there", || cluster.is_whole())
                .await;
        }
        let condition = Condition::Version(version);
        let second = put_if(client, b"second", condition).await;
        assert!(matches!(second, Written::Done(_)), "{second:?}");
        let third = put_if(client, b"third", condition).await;
        assert!(matches!(third, Written::Conflict(_)), "{third:?}");
    });
}

/// Needs the pieces of records: no message is longer than 4 KiB, on devices that pack messages and on those that do
/// not.
#[test]
fn values_of_a_mebibyte_survive_the_loss_of_a_node_in_the_middle_of_their_pieces() {
    for (packs, one_sided) in [(true, true), (false, true), (false, false)] {
        let shape = Shape {
            packs,
            one_sided,
            segment_size: 2 << 20,
            ..Shape::THREE.patient()
        };
        let value = |n: u64| {
            let size = [4_000, 4_200, 70_000, 1 << 20][n as usize % 4];
            (0..size)
                .map(|at: usize| (at as u64 * 7 + n) as u8)
                .collect::<Vec<u8>>()
        };
        Cluster::tell(shape, 18, async |cluster, client| {
            for n in 0..8 {
                client.put(&key(n), &value(n)).await.unwrap();
            }
            for (lost, pause) in [(0, 100_000), (1, 700_000), (2, 1_500_000)] {
                let n = 8 + lost as u64 * 4 + 3;
                let (key, value) = (key(n), value(n));
                let crash = async {
                    let runtime = cluster.process.runtime();
                    runtime.sleep(pause).await;
                    cluster.places[lost].kill();
                    runtime.sleep(15 * MS).await;
                    cluster.start(lost);
                };
                let (put, ()) = futures_util::future::join(client.put(&key, &value), crash).await;
                put.unwrap();
            }
            cluster.places[1].cut_power(&cluster.world);
            cluster.start(1);
            let mut found = Vec::new();
            for n in (0..8).chain([11, 15, 19]) {
                let version = client.get(&key(n), &mut found).await.unwrap();
                assert!(version.is_some() && found == value(n), "key {n}");
            }
        });
    }
}

#[test]
fn a_value_that_is_too_long_is_refused_by_name_and_nothing_is_done() {
    Cluster::tell(Shape::THREE, 19, async |_, client| {
        let long = vec![1; (16 << 20) + 1];
        let refused = client.put(&key(1), &long).await.unwrap_err();
        assert!(!refused.to_string().is_empty(), "{refused}");
        assert_eq!(client.get(&key(1), &mut Vec::new()).await.unwrap(), None);
    });
}

/// Each node takes several times its capacity as a primary and as a copy.
#[test]
fn nodes_take_overwrites_many_times_their_capacity() {
    let shape = Shape {
        segments: 24,
        segment_size: 256 << 10,
        ..Shape::THREE
    };
    Cluster::tell(shape, 16, async |cluster, client| {
        for round in 0..400_u64 {
            for n in 0..40 {
                let value = vec![(round + n) as u8; 900];
                client.put(&key(n), &value).await.unwrap();
            }
        }
        let mut found = Vec::new();
        for n in 0..40 {
            client.get(&key(n), &mut found).await.unwrap().unwrap();
            assert_eq!(found, vec![(399 + n) as u8; 900]);
        }
        assert!(
            cluster.ends().iter().all(Option::is_none),
            "{:?}",
            cluster.ends()
        );
    });
}

/// A primary that stands still for longer than its lease answers nothing by what it knew before.
#[test]
fn a_primary_that_stands_still_longer_than_its_lease_loses_nothing() {
    for paused in 0..3 {
        let shape = Shape {
            packs: false,
            ..Shape::THREE.patient()
        };
        Cluster::tell(shape, 20 + paused as u64, async |cluster, client| {
            put_all(client, 0..30).await;
            for round in 0..4 {
                cluster.places[paused].pause(25 * MS);
                put_all(client, 30 + round * 10..40 + round * 10).await;
                has_all(client, 0..40 + round * 10).await;
            }
        });
    }
}
