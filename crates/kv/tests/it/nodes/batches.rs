//! Batches of a cluster: on every copy as a whole or not at all, whatever dies.

use std::cell::{Cell, RefCell};
use std::ops::Range;

use futures_util::future::{join, join_all, join3};
use rand::RngExt as _;
use stonecast_base::{Random, random_from_seed};
use stonecast_cluster::Group;
use stonecast_fabric_sim::{Fate, Survivor};
use stonecast_kv::{
    Applied, Batch, CLIENT_COMPLETIONS, Client, ClientOptions, ClusterClient, ClusterError, Effect,
    Expectation, StoreError, Token,
};

use super::world::{Cluster, MS, Place, Shape};
use super::{lead_all, put_all};
use crate::world::key;

/// One shard with three copies.
const ONE: Shape = Shape {
    shards: 1,
    ..Shape::THREE
};
/// Keys of a batch.
const KEYS: u64 = 6;

/// The batch of a round: each key gets the number of the round, or is removed in odd rounds, and one record is longer
/// than a message.
fn batch_of(round: u64) -> Batch {
    let mut batch = Batch::new();
    for n in 0..KEYS {
        match n == 3 && round % 2 == 1 {
            true => batch.delete(&key(n)),
            false => batch.put(&key(n), &value(round, n)),
        };
    }
    batch
}

fn value(round: u64, n: u64) -> Vec<u8> {
    let size = [0, 40, 900, 200, 5_000, 100][n as usize % 6];
    let mut value = round.to_le_bytes().to_vec();
    value.resize(8 + size, n as u8);
    value
}

fn versions(applied: Applied) -> Range<u64> {
    match applied {
        Applied::Done(versions) => versions,
        Applied::Contradicted { key } => panic!("{} is as expected", key.escape_ascii()),
    }
}

/// The round of the batch that the keys are of, all of them; `None`: no batch is there.
async fn round(client: &ClusterClient, context: &str) -> Option<u64> {
    let mut rounds = Vec::new();
    for n in 0..KEYS {
        let mut found = Vec::new();
        let version = client.get(&key(n), &mut found).await.unwrap();
        rounds.push(version.map(|_| {
            let round = u64::from_le_bytes(*found.first_chunk().unwrap());
            assert_eq!(found, value(round, n), "{context}: key {n}");
            round
        }));
    }
    let first = rounds[0];
    for (n, &round) in rounds.iter().enumerate() {
        let is_removed = n == 3 && first.is_some_and(|first| first % 2 == 1);
        let expected = first.filter(|_| !is_removed);
        assert_eq!(round, expected, "{context}: key {n} of {rounds:?}");
    }
    first
}

/// A client that asks the primary of the first shard itself.
async fn direct(cluster: &Cluster) -> Client {
    let group = cluster.stored().groups.swap_remove(0);
    let place = cluster
        .places
        .iter()
        .find(|place| place.name == group.primary);
    let address = format!("sim:node-{}", place.expect("it is a node").name);
    let port = cluster.process.port(CLIENT_COMPLETIONS).unwrap();
    let (first, options) = ((0, group.term), ClientOptions::default());
    let runtime = cluster.process.runtime();
    let connected = Client::connect_to(first, options, port, runtime, &address);
    connected.await.unwrap()
}

#[test]
fn a_batch_is_done_as_one_and_an_expectation_that_does_not_hold_is_named() {
    Cluster::tell(ONE, 61, async |cluster, client| {
        put_all(client, 10..20).await;
        let done = versions(client.apply(&batch_of(2)).await.unwrap());
        assert_eq!(done.clone().count() as u64, KEYS);
        assert_eq!(round(client, "done").await, Some(2));
        let mut contradicted = batch_of(4);
        contradicted.expect(&key(1), Expectation::Version(done.start + 1));
        contradicted.expect(&key(11), Expectation::Absent);
        let answer = client.apply(&contradicted).await.unwrap();
        assert_eq!(answer, Applied::Contradicted { key: key(11) });
        assert_eq!(round(client, "contradicted").await, Some(2));
        let mut look = Batch::new();
        look.expect(&key(0), Expectation::Version(done.start));
        look.expect(&key(5), Expectation::Version(done.end - 1));
        assert_eq!(client.apply(&look).await.unwrap(), Applied::Done(0..0));
        let mut held = batch_of(5);
        held.expect(&key(0), Expectation::Version(done.start));
        let later = versions(client.apply(&held).await.unwrap());
        assert!(later.start >= done.end);
        let nothing = client.apply(&Batch::new()).await.unwrap();
        assert_eq!(nothing, Applied::Done(0..0));
        for lost in 0..2 {
            cluster.places[cluster.leader(0).unwrap()].kill();
            assert_eq!(round(client, &format!("{lost} lost")).await, Some(5));
        }
    });
}

#[test]
pub fn keys_of_several_shards_are_refused_by_name() {
    Cluster::tell(Shape::THREE, 62, async |cluster, client| {
        let first = key(0);
        let shard = client.shard_of(&first);
        let other = (1..).map(key).find(|other| client.shard_of(other) != shard);
        let other = other.expect("there are three shards");
        let mut batch = Batch::new();
        batch.put(&first, b"1").put(&other, b"1");
        let refused = client.apply(&batch).await.unwrap_err();
        assert_eq!(refused.effect(), Effect::None);
        let named = |error: &StoreError| match error {
            StoreError::BatchShards { keys } => **keys == [first.clone(), other.clone()],
            _ => false,
        };
        assert!(
            matches!(&refused, ClusterError::Store(error) if named(error)),
            "{refused}"
        );
        // The node refuses it as well, whatever a client believes.
        let own = (0..).map(key).find(|own| client.shard_of(own) == 0);
        let own = own.expect("the shard has keys");
        let foreign = (0..).map(key).find(|other| client.shard_of(other) != 0);
        let foreign = foreign.expect("there are three shards");
        let node = direct(cluster).await;
        let mut batch = Batch::new();
        batch.put(&own, b"1").put(&foreign, b"1");
        let refused = node.apply(&batch).await.unwrap_err();
        assert!(
            matches!(&refused, StoreError::BatchShards { keys }
                if **keys == [own.clone(), foreign.clone()]),
            "{refused}"
        );
        for key in [&own, &foreign, &first, &other] {
            assert_eq!(client.get(key, &mut Vec::new()).await.unwrap(), None);
        }
    });
}

/// A batch of the largest size takes hundreds of messages, and one of the most keys is longer in an entry than on its
/// way to the primary.
#[test]
fn batches_of_the_largest_sizes_are_taken() {
    let shape = Shape {
        segment_size: 2 << 20,
        ..ONE.patient()
    };
    Cluster::tell(shape, 63, async |cluster, client| {
        let mut long = Batch::new();
        for n in 0..16 {
            long.put(&key(n), &vec![n as u8; 65_400]);
        }
        let mut many = Batch::new();
        for n in 1_000..5_096 {
            many.put(&key(n), &[n as u8; 200]);
        }
        for batch in [&long, &many] {
            assert!(batch.size() > 900_000, "{}", batch.size());
            versions(client.apply(batch).await.unwrap());
        }
        cluster.places[cluster.leader(0).unwrap()].kill();
        let mut found = Vec::new();
        for n in (0..16).chain(1_000..5_096) {
            client.get(&key(n), &mut found).await.unwrap().unwrap();
            let size = if n < 16 { 65_400 } else { 200 };
            assert_eq!(found, vec![n as u8; size], "key {n}");
        }
    });
}

/// Any of the words that were not durable survives.
pub fn survivor(cluster: &Cluster, place: &Place, random: &RefCell<Random>) -> Survivor {
    let wreck = cluster.world.wreck(place.machine, &place.module);
    let mut random = random.borrow_mut();
    let kept = [0.0, 0.5, 0.9, 1.0][random.random_range(0..4)];
    let fate = |unit: usize| Fate {
        stores: match random.random_bool(kept) {
            true => wreck.stores(unit),
            false => 0,
        },
        torn: 0,
    };
    let fates: Vec<Fate> = (0..wreck.undecided()).map(fate).collect();
    wreck.survivor(&fates)
}

/// The power fails on all nodes at every part of a batch, and keeps any of the words that were not durable. Each node
/// leads afterwards.
#[test]
pub fn no_power_cut_of_all_nodes_tears_a_batch() {
    let (mut done, mut undone) = (0, 0);
    for part in 0..24_u64 {
        let shape = Shape {
            one_sided: part % 3 != 0,
            packs: part % 2 == 0,
            ..ONE.patient()
        };
        Cluster::tell(shape, 64 + part, async |cluster, client| {
            let random = RefCell::new(random_from_seed(part));
            versions(client.apply(&batch_of(0)).await.unwrap());
            let (mut last, mut next) = (0, 1);
            for cut in 0..3 {
                let hasty = cluster.client(8 * MS).await;
                hasty.put(&key(50), b"a session").await.unwrap();
                let batches = async {
                    // The second batch begins before the first one is on all copies.
                    let first = batch_of(next);
                    let second = batch_of(next + 1);
                    join(hasty.apply(&first), hasty.apply(&second)).await
                };
                let crash = async {
                    let runtime = cluster.process.runtime();
                    runtime.sleep(part * 700 + cut * 311).await;
                    for place in &cluster.places {
                        place.lose_power(&cluster.world, |place| survivor(cluster, place, &random));
                    }
                    (0..3).for_each(|index| cluster.start(index));
                    cluster.until_served().await;
                };
                let ((first, second), ()) = join(batches, crash).await;
                let acknowledged = [(first, next), (second, next + 1)];
                let acknowledged = acknowledged.iter().filter(|(applied, _)| applied.is_ok());
                let least = acknowledged.map(|&(_, round)| round).max();
                let context = format!("part {part}, cut {cut}");
                let found = round(client, &context)
                    .await
                    .expect("the first batch is old");
                assert!(least.is_none_or(|least| found >= least), "{context}");
                assert!((last..=next + 1).contains(&found), "{context}: {found}");
                done += u64::from(found > last);
                undone += u64::from(found == last);
                for _ in 0..2 {
                    let primary = cluster.leader(0).unwrap();
                    cluster.places[primary].kill();
                    cluster.start(primary);
                    cluster.until_served().await;
                    assert_eq!(round(client, &context).await, Some(found), "{context}");
                }
                // A client that gave up may still be heard: a later batch is above both.
                (last, next) = (next + 2, next + 3);
                let applied = client.apply(&batch_of(last)).await.unwrap();
                versions(applied);
            }
        });
    }
    assert!(done > 10 && undone > 10, "{done} done, {undone} undone");
}

/// Nodes die and come back at every part of batches whose clients repeat them until they are done.
#[test]
fn no_death_of_a_node_tears_a_batch_or_does_it_twice() {
    for seed in 0..10_u64 {
        let shape = Shape {
            packs: seed % 2 == 0,
            ..ONE.patient()
        };
        Cluster::tell(shape, 90 + seed, async |cluster, client| {
            let mut random = random_from_seed(seed);
            let mut last = 0;
            for number in 0..12 {
                let (victim, pause) = (
                    random.random_range(0..3),
                    random.random_range(0..40_u64) * 500,
                );
                let batch = batch_of(number);
                let mut token = None;
                let crash = async {
                    let runtime = cluster.process.runtime();
                    runtime.sleep(pause).await;
                    match number % 3 {
                        0 => cluster.places[victim].cut_power(&cluster.world),
                        _ => cluster.places[victim].kill(),
                    }
                    runtime.sleep(15 * MS).await;
                    cluster.start(victim);
                    cluster
                        .until("all copies are there", || cluster.is_whole())
                        .await;
                };
                let (applied, ()) = join(client.apply_with(&mut token, &batch), crash).await;
                let done = versions(applied.unwrap());
                assert!(done.start > last, "versions ascend");
                last = done.end - 1;
                let context = format!("seed {seed}, batch {number}");
                assert_eq!(round(client, &context).await, Some(number), "{context}");
                let again = client.apply_with(&mut token, &batch).await.unwrap();
                assert_eq!(versions(again), done, "{context}: done once");
            }
        });
    }
}

/// The answer of the first attempt is lost with the primary, and another client writes before the second one.
#[test]
pub fn a_batch_that_is_repeated_at_an_heir_takes_effect_once() {
    Cluster::tell(ONE, 65, async |cluster, other| {
        let writer = cluster.client(8 * MS).await;
        versions(writer.apply(&batch_of(0)).await.unwrap());
        let primary = cluster.leader(0).unwrap();
        let (from, to) = (cluster.places[primary].machine, cluster.machine);
        cluster.world.block(Some(from), Some(to), 0, 20_000 * MS);
        let (mut token, batch) = (None, batch_of(2));
        let unanswered = writer.apply_with(&mut token, &batch).await;
        let unanswered = unanswered.expect_err("no answer leaves the primary");
        assert_eq!(unanswered.effect(), Effect::Unknown);
        cluster.places[primary].kill();
        assert_eq!(round(other, "at the heir").await, Some(2));
        let later = versions(other.apply(&batch_of(4)).await.unwrap());
        let again = versions(writer.apply_with(&mut token, &batch).await.unwrap());
        assert!(again.end <= later.start, "{again:?} and {later:?}");
        assert_eq!(round(other, "done once").await, Some(4));
    });
}

/// Batches go on while a node is removed for its silence and filled anew. The node leads alone in the end.
#[test]
fn a_node_that_is_filled_beside_batches_has_whole_ones() {
    Cluster::tell(ONE, 66, async |cluster, client| {
        put_all(client, 10..300).await;
        cluster.places[2].cut_power(&cluster.world);
        let name = cluster.places[2].name.clone();
        let has_left = || {
            let groups = cluster.stored().groups;
            groups.iter().all(|group| !group.in_sync.contains(&name))
        };
        let last = RefCell::new(Some(0));
        let batches = async {
            let mut number = 0;
            while last.borrow().is_some() {
                versions(client.apply(&batch_of(number)).await.unwrap());
                last.replace_with(|last| last.map(|_| number));
                number += 1;
            }
            number - 1
        };
        let absence = async {
            cluster.until("the node is removed", has_left).await;
            cluster.start(2);
            cluster
                .until("the node is back", || cluster.is_whole())
                .await;
            last.take();
        };
        let (number, ()) = join(batches, absence).await;
        assert!(number > 100, "{number} batches");
        lead_all(cluster, 2).await;
        assert_eq!(round(client, "filled").await, Some(number));
    });
}

/// An operator drains the primary, and then each next one, while batches go on: the shard moves with whole batches.
#[test]
fn a_shard_that_moves_beside_batches_keeps_whole_ones() {
    let shape = Shape { nodes: 5, ..ONE };
    Cluster::tell(shape, 70, async |cluster, client| {
        put_all(client, 10..100).await;
        let is_over = Cell::new(false);
        let batches = async {
            let mut number = 0;
            while !is_over.get() {
                versions(client.apply(&batch_of(number)).await.unwrap());
                number += 1;
            }
            number - 1
        };
        let moves = async {
            for _ in 0..2 {
                let primary = cluster.leader(0).unwrap();
                let name = cluster.places[primary].name.clone();
                let by = (primary + 1) % shape.nodes;
                cluster.request(by, |present| present.drain(&name)).await;
                let has_moved = || {
                    let groups = cluster.stored().groups;
                    let has = |group: &Group| group.in_sync.contains(&name);
                    cluster.is_whole() && !groups.iter().any(has) && cluster.leader(0).is_some()
                };
                cluster.until("the shard has moved", has_moved).await;
            }
            is_over.set(true);
        };
        let (number, ()) = join(batches, moves).await;
        assert!(number > 100, "{number} batches");
        assert_eq!(round(client, "moved").await, Some(number));
        cluster.places[cluster.leader(0).unwrap()].cut_power(&cluster.world);
        assert_eq!(round(client, "at the heir").await, Some(number));
    });
}

/// A reader that has seen one change of a batch sees all of them afterwards, also at heirs. Needs the heir to open its
/// shard when all of the entry is in the index.
#[test]
fn a_reader_that_has_seen_a_part_of_a_batch_sees_the_rest_whoever_leads() {
    Cluster::tell(ONE.patient(), 71, async |cluster, client| {
        versions(client.apply(&batch_of(0)).await.unwrap());
        let is_over = Cell::new(false);
        let reader = cluster.client(4_000 * MS).await;
        let reads = async {
            let (mut count, mut random) = (0_u64, random_from_seed(71));
            while !is_over.get() {
                let mut least = 0;
                for _ in 0..3 {
                    let n = [0, 1, 2, 4, 5][random.random_range(0..5)];
                    let mut found = Vec::new();
                    reader.get(&key(n), &mut found).await.unwrap().unwrap();
                    let seen = u64::from_le_bytes(*found.first_chunk().unwrap());
                    assert!(seen >= least, "{seen} of key {n} after {least}");
                    least = seen;
                }
                count += 1;
            }
            count
        };
        let batches = async {
            let mut number = 0;
            while !is_over.get() {
                number += 1;
                versions(client.apply(&batch_of(number)).await.unwrap());
            }
        };
        let deaths = async {
            for _ in 0..6 {
                cluster.process.runtime().sleep(MS).await;
                cluster.survive_a_death().await;
            }
            is_over.set(true);
        };
        let (count, (), ()) = join3(reads, batches, deaths).await;
        assert!(count > 1_000, "{count} reads");
    });
}

/// Each node takes several times its capacity in batches, so their records are moved and freed.
#[test]
fn nodes_take_batches_many_times_their_capacity() {
    let shape = Shape {
        segments: 24,
        ..ONE
    };
    Cluster::tell(shape, 67, async |cluster, client| {
        for number in 0..2_400 {
            versions(client.apply(&batch_of(number)).await.unwrap());
            if number % 37 == 0 {
                client.put(&key(100 + number), &[7; 900]).await.unwrap();
            }
        }
        for place in &cluster.places {
            place.cut_power(&cluster.world);
        }
        (0..3).for_each(|index| cluster.start(index));
        cluster.until_served().await;
        assert_eq!(round(client, "recovered").await, Some(2_399));
        assert!(cluster.ends().iter().all(Option::is_none));
    });
}

/// A batch comes at every part of a put whose primary is cut off from its copies, and expects the key as the put leaves
/// it. The client waits until the lease of the primary is over, and asks the heir then. Needs the call that keeps the
/// answer: the heir lacks the put.
#[test]
pub fn an_answer_about_an_expectation_tells_of_what_all_copies_have() {
    for part in 0..12_u64 {
        Cluster::tell(ONE, 68, async |cluster, teller| {
            let writer = cluster.client(8 * MS).await;
            for client in [&writer, teller] {
                client.put(&key(50), b"a session").await.unwrap();
            }
            let primary = cluster.leader(0).unwrap();
            for backup in (0..3).filter(|&index| index != primary) {
                let places = [primary, backup].map(|index| cluster.places[index].machine);
                let [from, to] = places.map(Some);
                cluster.world.block(from, to, 0, 20_000 * MS);
            }
            let name = key(1);
            let put = writer.put(&name, b"first");
            let (mut absent, mut present) = (Batch::new(), Batch::new());
            absent.expect(&name, Expectation::Absent);
            absent.put(&key(2), b"because it is absent");
            present.expect(&name, Expectation::Present);
            let tell = async {
                cluster.process.runtime().sleep(part * 1_000).await;
                join(teller.apply(&absent), teller.apply(&present)).await
            };
            let (put, (was_absent, was_present)) = join(put, tell).await;
            put.expect_err("the copies are cut off");
            let found = teller.get(&name, &mut Vec::new()).await.unwrap();
            assert_ne!(cluster.leader(0), Some(primary), "an heir leads");
            let told = [
                matches!(was_absent.unwrap(), Applied::Contradicted { .. }),
                matches!(was_present.unwrap(), Applied::Done(_)),
            ];
            let expected = [found.is_some(); 2];
            assert_eq!(told, expected, "part {part}");
        });
    }
}

/// A node leads two shards, each with another copy. A batch of one shard reaches its copy no more, and the floor of the
/// other shard rises above the versions of the batch.
#[test]
fn a_batch_that_an_heir_lacks_is_gone_when_its_node_leads_again() {
    let shape = Shape {
        replicas: 2,
        shards: 6,
        ..Shape::THREE.patient()
    };
    Cluster::tell(shape, 72, async |cluster, client| {
        let groups = cluster.stored().groups;
        let other_copy = |shard: usize| {
            let group: &Group = &groups[shard];
            let mut copies = group.in_sync.iter();
            copies.find(|name| **name != group.primary).cloned()
        };
        let pairs = (0..6).flat_map(|one| (0..6).map(move |two| (one, two)));
        let mut pairs = pairs.filter(|&(one, two)| {
            groups[one].primary == groups[two].primary && other_copy(one) != other_copy(two)
        });
        let (cut, other) = pairs.next().expect("a node leads shards of two copies");
        let place = |name| cluster.places.iter().position(|place| place.name == name);
        let primary = place(groups[cut].primary.clone()).unwrap();
        let copy = place(other_copy(cut).unwrap()).unwrap();
        let of_shard = |shard: usize| {
            let keys = (0..).map(key);
            keys.filter(move |key| client.shard_of(key) == shard as u32)
        };
        let names: Vec<_> = of_shard(cut).take(4).collect();
        let hasty = cluster.client(6 * MS).await;
        hasty.put(&names[0], b"old").await.unwrap();
        let writes: Vec<_> = of_shard(other).take(40).collect();
        client.put(&writes[0], b"a session").await.unwrap();
        let [from, to] = [primary, copy].map(|index| Some(cluster.places[index].machine));
        cluster.world.block(from, to, 0, 30 * MS);
        let mut batch = Batch::new();
        names.iter().for_each(|name| _ = batch.put(name, b"lost"));
        let later = async {
            cluster.process.runtime().sleep(100_000).await;
            for name in &writes {
                client.put(name, b"later").await.unwrap();
            }
            // The floor of the other shard rises, and the ledger says what is settled.
            cluster.process.runtime().sleep(6 * MS).await;
            cluster.places[primary].kill();
        };
        let (lost, ()) = join(hasty.apply(&batch), later).await;
        lost.expect_err("the copy is cut off");
        cluster.start(primary);
        cluster.until_served().await;
        let heir = cluster.leader(cut as u32).unwrap();
        let found = async |client: &ClusterClient| {
            let mut found = Vec::new();
            for name in &names {
                let mut value = Vec::new();
                let version = client.get(name, &mut value).await.unwrap();
                found.push(version.map(|_| value));
            }
            found
        };
        let left = vec![Some(b"old".to_vec()), None, None, None];
        assert_eq!(found(client).await, left);
        assert_eq!(heir, copy, "the copy has taken over");
        cluster.places[heir].kill();
        cluster
            .until("the node leads again", || {
                cluster.leader(cut as u32) == Some(primary)
            })
            .await;
        assert_eq!(found(client).await, left);
    });
}

/// Two clients move amounts between accounts of one shard while primaries die, and lose nothing.
#[test]
fn transfers_keep_the_sum_while_primaries_die() {
    const ACCOUNTS: u64 = 4;
    Cluster::tell(ONE.patient(), 69, async |cluster, first| {
        for n in 0..ACCOUNTS {
            first.put(&key(n), &100_u64.to_le_bytes()).await.unwrap();
        }
        let read = async |client: &ClusterClient, n: u64| {
            let mut found = Vec::new();
            let version = client.get(&key(n), &mut found).await.unwrap().unwrap();
            (u64::from_le_bytes(found.try_into().unwrap()), version)
        };
        let transfers = async |seed: u64| {
            let client = cluster.client(4_000 * MS).await;
            let mut random = random_from_seed(seed);
            for _ in 0..60 {
                let from = random.random_range(0..ACCOUNTS);
                let to = (from + random.random_range(1..ACCOUNTS)) % ACCOUNTS;
                loop {
                    let mut batch = Batch::new();
                    for (n, change) in [(from, u64::MAX), (to, 1)] {
                        let (amount, version) = read(&client, n).await;
                        batch.put(&key(n), &amount.wrapping_add(change).to_le_bytes());
                        batch.expect(&key(n), Expectation::Version(version));
                    }
                    let mut token: Option<Token> = None;
                    match client.apply_with(&mut token, &batch).await.unwrap() {
                        Applied::Done(_) => break,
                        Applied::Contradicted { .. } => {}
                    }
                }
            }
        };
        let crashes = async {
            for _ in 0..4 {
                cluster.process.runtime().sleep(MS).await;
                cluster.survive_a_death().await;
            }
        };
        join(join_all((0..3).map(transfers)), crashes).await;
        let mut sum = 0_u64;
        for n in 0..ACCOUNTS {
            sum = sum.wrapping_add(read(first, n).await.0);
        }
        assert_eq!(sum, 100 * ACCOUNTS);
    });
}
