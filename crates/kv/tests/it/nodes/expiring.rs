//! Keys that expire in a cluster: the time of a shard goes from its primary to each heir.

use futures_util::future::join;
use stonecast_cluster::Timing;
use stonecast_kv::{ClusterClient, Condition, Expiry, PutRules, Written};

use super::lead_all;
use super::world::{Cluster, MS, Shape};
use crate::world::key;

const SECOND: u64 = 1000 * MS;
const DAY: u64 = 86_400 * SECOND;

/// Puts a key that expires after `ms`.
async fn put_for(client: &ClusterClient, key: &[u8], ms: u64) -> Expiry {
    let now_ms = client.time_ms(key).await.unwrap();
    let expires = Expiry::at_ms(now_ms + ms).unwrap();
    let rules = PutRules::from(expires);
    let put = client.put_with(&mut None, key, b"value", rules).await;
    put.unwrap();
    expires
}

/// Puts a key on condition of its absence.
async fn put_anew(client: &ClusterClient, key: &[u8]) {
    let mut token = None;
    let put = client.put_with(&mut token, key, b"anew", Condition::Absent);
    let written = put.await.unwrap();
    assert!(matches!(written, Written::Done(_)), "{written:?}");
}

async fn is_there(client: &ClusterClient, key: &[u8]) -> bool {
    client.get(key, &mut Vec::new()).await.unwrap().is_some()
}

async fn pass(cluster: &Cluster, time_ns: u64) {
    cluster.process.runtime().sleep(time_ns).await;
}

/// A key of shard 0.
fn key_of_first(client: &ClusterClient, from: u64) -> Vec<u8> {
    let mut keys = (from..).map(key);
    keys.find(|key| client.shard_of(key) == 0)
        .expect("keys without end")
}

/// A key in shard 0 that goes after a second, and one that stays.
async fn put_both(client: &ClusterClient) -> (Vec<u8>, Vec<u8>) {
    let goes = key_of_first(client, 0);
    let stays = key_of_first(client, 1000);
    put_for(client, &goes, 1000).await;
    put_for(client, &stays, 600_000).await;
    (goes, stays)
}

#[test]
fn an_expired_key_is_absent_on_every_path_of_a_cluster() {
    Cluster::tell(Shape::THREE.patient(), 50, async |cluster, client| {
        client.put(&key(1), b"1").await.unwrap();
        let expires = put_for(client, &key(2), 2000).await;
        let mut read = Vec::new();
        let found = client.find(&key(2), &mut read).await.unwrap().unwrap();
        assert_eq!((&*read, found.expires), (&b"value"[..], Some(expires)));
        pass(cluster, 2100 * MS).await;
        assert!(!is_there(client, &key(2)).await && is_there(client, &key(1)).await);
        assert_eq!(client.find(&key(2), &mut read).await.unwrap(), None);
        let (one, two) = (key(1), key(2));
        let keys: [&[u8]; 3] = [&two, &one, &two];
        let there = client.multi_get(&keys).await.into_iter();
        let there: Vec<_> = there.map(|found| found.unwrap().is_some()).collect();
        assert_eq!(there, [false, true, false]);
        let mut entries = client.entries().await.unwrap();
        let mut page = Vec::new();
        entries.next(client, &mut page).await.unwrap();
        let names: Vec<_> = page.iter().map(|entry| &*entry.key).collect();
        assert_eq!(names, [&one[..]]);
        assert!(!client.delete(&two).await.unwrap());
        let late = Condition::Version(found.version);
        let late = client.put_with(&mut None, &two, b"3", late).await;
        assert_eq!(late.unwrap(), Written::Conflict(None));
        let touched = client.touch(&two, None, None).await.unwrap();
        assert_eq!(touched, Written::Conflict(None));
        put_anew(client, &two).await;
        let hour = Expiry::at_ms(expires.ms() + 3_600_000);
        let touched = client.touch(&two, hour, None).await.unwrap();
        assert!(matches!(touched, Written::Done(_)));
        let found = client.find(&two, &mut read).await.unwrap().unwrap();
        assert_eq!((&*read, found.expires), (&b"anew"[..], hour));
    });
}

/// Clocks drift, and those of the other nodes are a day behind. The seeded bug `HeirForgetsMark`.
#[test]
pub fn a_key_stays_absent_when_the_clock_of_the_heir_is_behind() {
    Cluster::tell(
        Shape::THREE.patient().drifting(),
        51,
        async |cluster, client| {
            let first = cluster.leader(0).unwrap();
            for (index, place) in cluster.places.iter().enumerate() {
                if index != first {
                    place.set_back(DAY);
                }
            }
            let (goes, stays) = put_both(client).await;
            pass(cluster, 1100 * MS).await;
            assert!(!is_there(client, &goes).await && is_there(client, &stays).await);
            let before = client.time_ms(&goes).await.unwrap();
            cluster.places[first].kill();
            cluster.until_served().await;
            assert!(!is_there(client, &goes).await && is_there(client, &stays).await);
            let after = client.time_ms(&goes).await.unwrap();
            assert!(before < after && after < before + 5_000, "{before} {after}");
            put_anew(client, &goes).await;
            pass(cluster, 600 * SECOND).await;
            assert!(is_there(client, &goes).await && !is_there(client, &stays).await);
        },
    );
}

/// Needs the mark in the pool of each copy. The seeded bug `MarkOfCopyForgotten`.
#[test]
pub fn a_power_cut_of_all_nodes_resurrects_nothing_when_all_clocks_are_set_back() {
    Cluster::tell(Shape::THREE, 52, async |cluster, client| {
        let first = cluster.leader(0).unwrap();
        let (goes, stays) = put_both(client).await;
        pass(cluster, 1100 * MS).await;
        assert!(!is_there(client, &goes).await);
        // The records of the marks are below the floors, and in no log of appends any more.
        for n in 0..300 {
            client.put(&key(5000 + n), &[7; 500]).await.unwrap();
        }
        for place in &cluster.places {
            place.cut_power(&cluster.world);
            place.behind_ns.set(DAY);
        }
        let others = (0..3).filter(|&index| index != first);
        others.clone().for_each(|index| cluster.start(index));
        cluster.until_served().await;
        assert!(!is_there(client, &goes).await && is_there(client, &stays).await);
        cluster.start(first);
        cluster.until_served().await;
        assert!(!is_there(client, &goes).await && is_there(client, &stays).await);
    });
}

/// Clocks drift, and that of the primary is set back while it serves.
#[test]
fn a_clock_of_a_primary_that_is_set_back_resurrects_nothing() {
    Cluster::tell(
        Shape::THREE.patient().drifting(),
        53,
        async |cluster, client| {
            let first = cluster.leader(0).unwrap();
            let (goes, stays) = put_both(client).await;
            pass(cluster, 1100 * MS).await;
            assert!(!is_there(client, &goes).await);
            cluster.places[first].set_back(DAY);
            pass(cluster, SECOND).await;
            let other = cluster.client(4_000 * MS).await;
            assert!(!is_there(&other, &goes).await && is_there(&other, &stays).await);
        },
    );
}

/// The only mark of the story is stamped before the joiner is filled, and the clock of the joiner is behind. The seeded
/// bug `MarkNotInPages`.
#[test]
pub fn a_node_that_was_filled_by_pages_begins_at_the_mark_of_its_primary() {
    Cluster::tell(Shape::THREE, 54, async |cluster, client| {
        let joiner = (0..3)
            .find(|&index| Some(index) != cluster.leader(0))
            .unwrap();
        let place = &cluster.places[joiner];
        let has_left = || {
            let groups = cluster.stored().groups;
            groups
                .iter()
                .all(|group| !group.in_sync.contains(&place.name))
        };
        place.cut_power(&cluster.world);
        cluster.until("the node is removed", has_left).await;
        // Marks are multiples of half a second, and this one is as far ahead as a mark can be.
        let wall_ms = || cluster.process.runtime().wall_clock() / MS;
        while wall_ms() % 500 > 5 {
            pass(cluster, MS).await;
        }
        let (goes, stays) = (key_of_first(client, 0), key_of_first(client, 1000));
        let began_ms = wall_ms();
        put_for(client, &stays, 600_000).await;
        place.behind_ns.set(DAY);
        cluster.start(joiner);
        cluster
            .until("the node is back", || cluster.is_whole())
            .await;
        put_for(client, &goes, 10).await;
        assert!(is_there(client, &goes).await);
        while is_there(client, &goes).await {
            pass(cluster, MS).await;
        }
        assert!(wall_ms() < began_ms + 900, "no second mark was due");
        lead_all(cluster, joiner).await;
        assert!(!is_there(client, &goes).await && is_there(client, &stays).await);
    });
}

/// The node that takes the shards over has never been a copy, and its clock is behind.
#[test]
fn a_key_stays_absent_when_its_shard_moves_to_another_node() {
    let shape = Shape {
        nodes: 4,
        shards: 4,
        ..Shape::THREE.patient()
    };
    Cluster::tell(shape, 56, async |cluster, client| {
        let first = cluster.leader(0).unwrap();
        let (goes, stays) = put_both(client).await;
        for (index, place) in cluster.places.iter().enumerate() {
            if index != first {
                place.set_back(DAY);
            }
        }
        pass(cluster, 1100 * MS).await;
        assert!(!is_there(client, &goes).await);
        let name = cluster.places[first].name.clone();
        let by = (first + 1) % 4;
        cluster.request(by, |present| present.drain(&name)).await;
        let is_empty = || {
            let groups = cluster.stored().groups;
            let has_left = |group: &stonecast_cluster::Group| !group.in_sync.contains(&name);
            groups
                .iter()
                .all(|group| has_left(group) && group.joining.is_empty())
        };
        cluster.until("the node has nothing", is_empty).await;
        cluster.until_served().await;
        assert!(!is_there(client, &goes).await && is_there(client, &stays).await);
    });
}

/// Needs the look at the index before a mark gets its key: a mark is a delete.
#[test]
fn a_mark_removes_no_key_of_its_own_name() {
    let shape = Shape {
        shards: 1,
        ..Shape::THREE.patient()
    };
    Cluster::tell(shape, 57, async |cluster, client| {
        let wall_ms = cluster.process.runtime().wall_clock() / MS;
        let marks = (wall_ms / 500..).take(12).map(|number| number * 500);
        let names: Vec<[u8; 16]> = marks.map(|mark| u128::from(mark).to_le_bytes()).collect();
        for name in &names {
            client.put(name, b"of a client").await.unwrap();
        }
        for _ in 0..6 {
            client.time_ms(&names[0]).await.unwrap();
            put_for(client, &key(1), 300).await;
            pass(cluster, 700 * MS).await;
            assert!(!is_there(client, &key(1)).await);
        }
        for name in &names {
            assert!(is_there(client, name).await);
        }
    });
}

/// A put that names its moment asks nobody for the time, so no mark comes before its record. Needs the note in the pool
/// of each copy: a program that does not know expiry would open it.
#[test]
fn each_pool_with_a_key_that_expires_says_so() {
    let shape = Shape {
        shards: 1,
        ..Shape::THREE.patient()
    };
    Cluster::tell(shape, 58, async |cluster, client| {
        let rules = PutRules::from(Expiry::at_ms(u64::MAX).unwrap());
        for n in 0..20 {
            let put = client.put_with(&mut None, &key(n), b"value", rules).await;
            put.unwrap();
        }
        pass(cluster, 100 * MS).await;
        for place in &cluster.places {
            place.kill();
            assert!(place.may_expire(), "node {}", place.name);
        }
    });
}

/// Needs the marks of the primary: copies remove no key by clocks of their own.
#[test]
fn copies_remove_what_has_expired_at_the_primary() {
    Cluster::tell(Shape::THREE.patient(), 55, async |cluster, client| {
        for n in 0..300 {
            put_for(client, &key(n), 3000).await;
        }
        pass(cluster, 2 * SECOND).await;
        let expired = || {
            let servers = cluster.places.iter().filter_map(|place| place.server());
            servers
                .map(|server| server.stat().expired)
                .collect::<Vec<_>>()
        };
        assert_eq!(expired(), [0; 3]);
        pass(cluster, 3 * SECOND).await;
        assert_eq!(expired(), [300; 3]);
    });
}

/// The client stands still between the chunks of a value and the record that names them, for longer than chunks are
/// kept. Needs another upload: the call would end though the client has the whole value.
#[test]
fn a_value_whose_chunks_are_gone_is_put_again_by_the_same_call() {
    let shape = Shape {
        segments: 40,
        // Nodes without work take fewer turns.
        lease: Timing::SHARED_CORES,
        ..Shape::THREE.patient()
    };
    Cluster::tell(shape, 58, async |cluster, client| {
        let patient = cluster.client(2_000 * SECOND).await;
        let content = crate::world::value(1, 700_000);
        patient.put(b"key", b"a session").await.unwrap();
        let leader = &cluster.places[cluster.leader(patient.shard_of(b"key")).unwrap()];
        let process = cluster.process.clone();
        let pausing = async {
            let live_bytes = || leader.server().unwrap().stat().live_bytes;
            while live_bytes() < 200_000 {
                pass(cluster, 2_000).await;
            }
            process.pause(660 * SECOND);
        };
        let (put, ()) = join(patient.put(b"key", &content), pausing).await;
        put.unwrap();
        let mut found = Vec::new();
        client.get(b"key", &mut found).await.unwrap().unwrap();
        assert!(found == content);
    });
}
