//! Batches: several keys that are changed together or not at all.

use std::collections::BTreeMap;
use std::os::unix::fs::FileExt as _;

use futures_util::future::{join, join_all};
use rand::RngExt as _;
use stonecast_base::random_from_seed;
use stonecast_kv::limits::{BATCH_KEYS_MAX, BATCH_NAMES_MAX, BATCH_SIZE_MAX};
use stonecast_kv::{
    Applied, Batch, Client, ClientPolicy, Condition, Effect, Expectation, ServerOptions,
    StoreError, Written,
};
use stonecast_log::{Finding, LogFormat, RecordHeader, walk_segment};
use stonecast_media::{Durability, OpenMode, RecordFeature};
use tempfile::TempDir;

use crate::damage::copy_pool;
use crate::expiry::world::Stage;
use crate::fabric::on_every_provider;
use crate::world::{End, World, key, value};

const POLICIES: [ClientPolicy; 3] = [
    ClientPolicy::Trusted,
    ClientPolicy::Publishing,
    ClientPolicy::Copying,
];

fn world(clients: ClientPolicy) -> World {
    World {
        options: ServerOptions {
            clients,
            ..ServerOptions::default()
        },
        ..World::small()
    }
}

async fn read(client: &Client, key: &[u8]) -> Option<(Vec<u8>, u64)> {
    let mut found = Vec::new();
    let version = client.get(key, &mut found).await.expect("it can be read")?;
    Some((found, version))
}

async fn value_of(client: &Client, key: &[u8]) -> Option<Vec<u8>> {
    read(client, key).await.map(|(value, _)| value)
}

fn versions(applied: Applied) -> std::ops::Range<u64> {
    match applied {
        Applied::Done(versions) => versions,
        Applied::Contradicted { key } => panic!("contradicted by {}", key.escape_ascii()),
    }
}

fn contradicted(key: &[u8]) -> Applied {
    Applied::Contradicted { key: key.to_vec() }
}

#[test]
fn all_changes_of_a_batch_are_done_and_stay_after_a_kill() {
    on_every_provider(|| {
        for clients in POLICIES {
            let world = world(clients);
            let mut expected = Vec::new();
            world.run_until(End::Kill, async |world| {
                let (client, reader) = (world.client().await, world.client().await);
                client.put(b"old", b"1").await.unwrap();
                let before = client.put(b"gone", b"1").await.unwrap();
                let mut batch = Batch::new();
                batch.put(b"new", b"2").put(b"old", b"2");
                batch.delete(b"gone").delete(b"never there");
                batch.put(b"long", &value(1, 9000));
                let done = versions(client.apply(&batch).await.unwrap());
                assert!(done.start > before && done.clone().count() == 5);
                for (key, version) in batch.changed().zip(done) {
                    let found = read(&reader, key).await;
                    assert!(found.is_none_or(|(_, found)| found == version));
                    expected.push((key.to_vec(), value_of(&reader, key).await));
                }
            });
            world.run(async |world| {
                let reader = world.client().await;
                let present = expected.iter().filter(|(_, value)| value.is_some());
                assert_eq!(present.count(), 3);
                for (key, value) in &expected {
                    assert_eq!(&value_of(&reader, key).await, value);
                }
                assert_eq!(reader.stat().await.unwrap().keys, 3);
            });
        }
    });
}

#[test]
pub fn a_batch_whose_expectation_does_not_hold_names_the_key_and_does_nothing() {
    on_every_provider(|| {
        for clients in POLICIES {
            world(clients).run(async |world| {
                let client = world.client().await;
                let version = client.put(b"a", b"1").await.unwrap();
                let with = |key: &[u8], expectation| {
                    let mut batch = Batch::new();
                    batch.put(b"new", b"2").expect(key, expectation);
                    batch.delete(b"a");
                    batch
                };
                for (key, expectation) in [
                    (&b"a"[..], Expectation::Absent),
                    (b"a", Expectation::Version(version + 1)),
                    (b"b", Expectation::Present),
                    (b"b", Expectation::Version(version)),
                    (b"new", Expectation::Present),
                ] {
                    let applied = client.apply(&with(key, expectation)).await.unwrap();
                    assert_eq!(applied, contradicted(key));
                    assert_eq!(value_of(&client, b"a").await, Some(b"1".to_vec()));
                    assert_eq!(value_of(&client, b"new").await, None);
                }
                // A client that publishes its overwrites can go on: the batch holds no claim.
                let version = client.put(b"a", b"3").await.unwrap();
                let held = with(b"a", Expectation::Version(version));
                let done = versions(client.apply(&held).await.unwrap());
                assert_eq!(done.count(), 2);
                assert_eq!(value_of(&client, b"a").await, None);
                // A batch may change nothing.
                let mut batch = Batch::new();
                batch.expect(b"new", Expectation::Present);
                batch.expect(b"a", Expectation::Absent);
                let nothing = client.apply(&batch).await.unwrap();
                assert_eq!(versions(nothing).count(), 0);
                client.put(b"new", b"4").await.unwrap();
                assert_eq!(
                    client.apply(&Batch::new()).await.unwrap(),
                    Applied::Done(0..0)
                );
            });
        }
    });
}

#[test]
fn a_later_change_of_a_key_replaces_the_earlier_one_in_its_place() {
    World::small().run(async |world| {
        let client = world.client().await;
        let mut batch = Batch::new();
        batch.put(b"a", b"1").put(b"b", b"1");
        batch.delete(b"a").put(b"a", b"2").delete(b"b");
        assert_eq!(batch.len(), 2);
        let done = versions(client.apply(&batch).await.unwrap());
        let found = read(&client, b"a").await;
        assert_eq!(found, Some((b"2".to_vec(), done.start)));
        assert_eq!(value_of(&client, b"b").await, None);
    });
}

/// Needs the token in the first record, and its outcome remembered and recovered.
#[test]
pub fn a_batch_that_is_retried_is_done_once_also_after_a_restart() {
    on_every_provider(|| {
        let world = World::small();
        let (token, batch) = world.run_until(End::Kill, async |world| {
            let client = world.client().await;
            let mut batch = Batch::new();
            batch.put(b"a", b"1").put(b"b", b"1").delete(b"c");
            let mut token = client.token();
            let first = client.apply_with(&mut token, &batch).await.unwrap();
            let other = world.client().await;
            other.put(b"a", b"theirs").await.unwrap();
            let again = other.apply_with(&mut token, &batch).await.unwrap();
            assert_eq!(first, again);
            assert_eq!(value_of(&other, b"a").await, Some(b"theirs".to_vec()));
            (token, (batch, first))
        });
        world.run(async |world| {
            let client = world.client().await;
            let (mut token, (batch, first)) = (token.clone(), &batch);
            let again = client.apply_with(&mut token, batch).await.unwrap();
            assert_eq!(&again, first);
            assert_eq!(value_of(&client, b"a").await, Some(b"theirs".to_vec()));
        });
    });
}

#[test]
fn a_batch_beyond_the_limits_is_refused_with_them_and_does_nothing() {
    let pool = World {
        segment_size: 2 << 20,
        capacity: 16 << 20,
        ..World::default()
    };
    pool.run(async |world| {
        let client = world.client().await;
        let mut batch = Batch::new();
        for n in 0..BATCH_KEYS_MAX as u64 {
            batch.put(&key(n), b"v");
        }
        let done = versions(client.apply(&batch).await.unwrap());
        assert_eq!(done.count(), BATCH_KEYS_MAX);
        batch.delete(b"one more");
        let refused = client.apply(&batch).await.unwrap_err();
        assert!(matches!(
            refused,
            StoreError::BatchKeys {
                count: 4097,
                max: 4096
            }
        ));
        assert_eq!(refused.effect(), Effect::None);
        let mut batch = Batch::new();
        for n in 0..BATCH_NAMES_MAX as u64 {
            let is_there = n < BATCH_KEYS_MAX as u64;
            batch.expect(
                &key(n),
                [Expectation::Absent, Expectation::Present][usize::from(is_there)],
            );
        }
        (0..BATCH_KEYS_MAX as u64).for_each(|n| _ = batch.delete(&key(n)));
        let mut one_wrong = batch.clone();
        let last = key(BATCH_NAMES_MAX as u64 - 1);
        one_wrong.expect(&last, Expectation::Present);
        assert_eq!(client.apply(&one_wrong).await.unwrap(), contradicted(&last));
        let done = versions(client.apply(&batch).await.unwrap());
        assert_eq!(done.count(), BATCH_KEYS_MAX);
        batch.expect(b"one more", Expectation::Absent);
        let refused = client.apply(&batch).await.unwrap_err();
        let StoreError::BatchNames { count, max } = refused else {
            panic!("{refused}")
        };
        assert_eq!((count, max), (16_385, 16_384));
        assert_eq!(refused.effect(), Effect::None);
        let mut batch = Batch::new();
        batch.put(b"a", &vec![7; BATCH_SIZE_MAX - 25]);
        versions(client.apply(&batch).await.unwrap());
        batch.put(b"b", b"");
        let refused = client.apply(&batch).await;
        assert!(matches!(refused, Err(StoreError::BatchSize { .. })));
        let mut batch = Batch::new();
        batch.put(b"", b"");
        let refused = client.apply(&batch).await;
        assert!(matches!(refused, Err(StoreError::KeySize { .. })));
    });
    World::small().run(async |world| {
        let client = world.client().await;
        let mut batch = Batch::new();
        for n in 0..BATCH_KEYS_MAX as u64 {
            batch.put(&key(n), b"v");
        }
        let refused = client.apply(&batch).await;
        let Err(StoreError::BatchSize { max, .. }) = refused else {
            panic!("no segment has room: {refused:?}")
        };
        assert_eq!(max, (256 << 10) - 256);
    });
}

#[test]
fn a_server_of_a_cluster_refuses_a_batch_and_does_nothing() {
    crate::world::in_cluster(|| {
        World::default().run(async |world| {
            let client = world.client().await;
            let mut batch = Batch::new();
            batch.put(b"a", b"1");
            let refused = client.apply(&batch).await.unwrap_err();
            assert!(matches!(refused, StoreError::NoBatch), "{refused}");
            assert_eq!(refused.effect(), Effect::None);
            assert_eq!(value_of(&client, b"a").await, None);
        });
    });
}

#[test]
fn keys_of_all_shards_go_into_one_batch() {
    crate::world::in_shards(5, || {
        let world = World::small();
        let keys = 0..40;
        world.run_until(End::Kill, async |world| {
            let client = world.client().await;
            let mut batch = Batch::new();
            keys.clone().for_each(|n| _ = batch.put(&key(n), &key(n)));
            let mut token = client.token();
            let done = client.apply_with(&mut token, &batch).await.unwrap();
            let again = client.apply_with(&mut token, &batch).await.unwrap();
            assert_eq!(done, again);
        });
        world.run(async |world| {
            let client = world.client().await;
            for n in keys {
                assert_eq!(value_of(&client, &key(n)).await, Some(key(n)));
            }
        });
    });
}

#[test]
fn a_pool_with_batches_says_so_to_programs_that_do_not_know_them() {
    let world = World::small();
    let has_batches = |world: &World| {
        let pool = world.open_pool_for(OpenMode::Inspect);
        pool.record_features().has(RecordFeature::Batches)
    };
    world.run(async |world| {
        let client = world.client().await;
        client.put(b"key", b"value").await.unwrap();
        let mut nothing = Batch::new();
        nothing.expect(b"key", Expectation::Absent).delete(b"key");
        client.apply(&nothing).await.unwrap();
    });
    assert!(!has_batches(&world));
    world.run(async |world| {
        let client = world.client().await;
        client.apply(Batch::new().delete(b"key")).await.unwrap();
    });
    assert!(has_batches(&world));
}

/// An overwrite that its client publishes comes before the batch, which expects another version then, or behind it. The
/// seeded bug `BatchUnclaimed`.
#[test]
pub fn batches_and_overwrites_that_clients_publish_are_one_order() {
    for seed in 0..4 {
        Stage::tell_of(seed, ClientPolicy::Publishing, async |stage| {
            let mut random = random_from_seed(seed);
            let modest = stage.client_with(0, false).await;
            let publishing = stage.client_with(0, true).await;
            let (mut before, mut behind) = (0, 0);
            for _ in 0..20 {
                publishing.put(b"key", b"put").await.unwrap();
            }
            for round in 0..200_u32 {
                let (_, version) = read(&modest, b"key").await.unwrap();
                let mut batch = Batch::new();
                batch.expect(b"key", Expectation::Version(version));
                batch.put(b"other", b"batch");
                let changes_key = round % 2 == 0;
                if changes_key {
                    batch.put(b"key", b"batch");
                }
                let [first, second] = [(); 2].map(|()| random.random_range(0..12_000));
                let apply = async {
                    stage.pass(first).await;
                    modest.apply(&batch).await.unwrap()
                };
                let put = async {
                    stage.pass(second).await;
                    publishing.put(b"key", b"put").await.unwrap()
                };
                let (applied, put) = join(apply, put).await;
                match applied {
                    Applied::Done(versions) => {
                        let is_behind = put >= versions.end || !changes_key;
                        assert!(is_behind, "seed {seed}, round {round}");
                        behind += 1;
                    }
                    Applied::Contradicted { .. } => before += 1,
                }
                let found = read(&modest, b"key").await;
                assert_eq!(found, Some((b"put".to_vec(), put)));
            }
            assert!(before > 10 && behind > 10, "{before} {behind}");
        });
    }
}

/// Transfers between accounts, by clients of which some publish their overwrites, keep the sum.
#[test]
pub fn batches_of_many_clients_that_expect_what_they_read_lose_no_update() {
    on_every_provider(|| {
        for clients in POLICIES {
            world(clients).run(async |world| {
                const ACCOUNTS: u64 = 4;
                let first = world.client().await;
                for n in 0..ACCOUNTS {
                    first.put(&key(n), &100_u64.to_le_bytes()).await.unwrap();
                }
                let transfer = async |client: Client, seed: u64| {
                    let mut random = random_from_seed(seed);
                    for _ in 0..25 {
                        let from = random.random_range(0..ACCOUNTS);
                        let to = (from + random.random_range(1..ACCOUNTS)) % ACCOUNTS;
                        loop {
                            let mut batch = Batch::new();
                            for (n, change) in [(from, u64::MAX), (to, 1)] {
                                let (bytes, version) = read(&client, &key(n)).await.unwrap();
                                let sum = u64::from_le_bytes(bytes.try_into().unwrap());
                                let sum = sum.wrapping_add(change).to_le_bytes();
                                batch.put(&key(n), &sum);
                                batch.expect(&key(n), Expectation::Version(version));
                            }
                            match client.apply(&batch).await.unwrap() {
                                Applied::Done(_) => break,
                                Applied::Contradicted { .. } => {}
                            }
                        }
                    }
                };
                let all = [world.client().await, world.client().await, first.clone()];
                let [a, b, c] = all;
                join_all([transfer(a, 1), transfer(b, 2), transfer(c, 3)]).await;
                let mut sum: u64 = 0;
                for n in 0..ACCOUNTS {
                    let bytes = value_of(&first, &key(n)).await.unwrap();
                    sum = sum.wrapping_add(u64::from_le_bytes(bytes.try_into().unwrap()));
                }
                assert_eq!(sum, 100 * ACCOUNTS);
            });
        }
    });
}

/// The records of the log of a pool that is not served, by their keys: position and header of the latest.
fn records(world: &World) -> BTreeMap<Vec<u8>, (u64, RecordHeader)> {
    let pool = world.open_pool_for(OpenMode::Inspect);
    let format = LogFormat::of(&pool);
    let mut found = BTreeMap::new();
    for number in 0..format.segment_count {
        walk_segment(&*pool.log(), &format, "log", number, &mut |finding| {
            if let Finding::Record(record) = finding {
                found.insert(record.key.to_vec(), (record.position, record.header));
            }
        });
    }
    found
}

/// The log of a pool that is served.
fn log_of(world: &World) -> Vec<u8> {
    std::fs::read(world.pool_path().join("log")).unwrap()
}

/// Takes everything back that was stored outside records since the log was `before`: the persist of the latest records
/// has not ended, so nothing says that they are durable.
fn cut_power_before_the_persist_ends(world: &World, before: &[u8]) -> Vec<u8> {
    let mut log = log_of(world);
    for start in (0..log.len()).step_by(world.segment_size as usize) {
        let header = start..start + 256;
        log[header.clone()].copy_from_slice(&before[header]);
    }
    std::fs::write(world.pool_path().join("log"), &log).unwrap();
    log
}

/// Takes the stamp of the latest record of `key`, as a power cut may do that comes before its persist ends.
fn tear(world: &World, key: &[u8]) {
    let (position, _) = records(world)[key];
    let path = world.pool_path().join("log");
    let file = std::fs::OpenOptions::new().write(true).open(path).unwrap();
    file.write_all_at(&[0; 8], position + 8).unwrap();
}

/// Needs the places in the records, and the look of recovery at them.
#[test]
pub fn a_batch_that_lost_any_of_its_records_counts_not_at_all() {
    const KEYS: [&[u8]; 3] = [b"batch-0", b"batch-1", b"batch-2"];
    for lost in KEYS {
        let world = world(ClientPolicy::Copying);
        let mut before = Vec::new();
        world.run_until(End::Kill, async |world| {
            let client = world.client().await;
            client.put(KEYS[1], b"before").await.unwrap();
            before = log_of(world);
            let mut batch = Batch::new();
            batch.put(KEYS[0], b"new").delete(KEYS[1]);
            batch.put(KEYS[2], b"new");
            versions(client.apply(&batch).await.unwrap());
        });
        cut_power_before_the_persist_ends(&world, &before);
        tear(&world, lost);
        let check = async |world: &World| {
            let client = world.client().await;
            assert_eq!(value_of(&client, KEYS[0]).await, None);
            let before = value_of(&client, KEYS[1]).await;
            assert_eq!(before, Some(b"before".to_vec()));
            assert_eq!(value_of(&client, KEYS[2]).await, None);
        };
        world.run_until(End::Kill, async |world| {
            assert_eq!(world.report.borrow().torn_of_batches, 2);
            check(world).await;
            // The next records lie behind what was left.
            let client = world.client().await;
            client.put(b"later", b"1").await.unwrap();
        });
        world.run(async |world| {
            assert_eq!(world.report.borrow().torn_of_batches, 0);
            check(world).await;
        });
        world.run(check);
    }
}

/// Every crash leaves any of the words, or any of the lines, that a batch has changed: it is there as a whole or not at
/// all.
#[test]
pub fn no_power_cut_tears_a_batch() {
    let world = world(ClientPolicy::Copying);
    let count = 6;
    let mut before = Vec::new();
    world.run_until(End::Kill, async |world| {
        let client = world.client().await;
        for n in 0..count {
            client.put(&key(n), b"before").await.unwrap();
        }
        before = log_of(world);
        let mut batch = Batch::new();
        for n in 0..count {
            match n % 3 {
                0 => batch.delete(&key(n)),
                _ => batch.put(&key(n), &value(n, 10 + 40 * n as usize)),
            };
        }
        versions(client.apply(&batch).await.unwrap());
    });
    let after = cut_power_before_the_persist_ends(&world, &before);
    let saved = TempDir::new().unwrap();
    copy_pool(&world.pool_path(), saved.path());
    let (mut done, mut undone) = (0, 0);
    for seed in 0..120 {
        let mut random = random_from_seed(seed);
        let unit = [8, 64][random.random_range(0..2)];
        let kept = [0.5, 0.9, 0.97, 0.995][random.random_range(0..4)];
        let mut log = before.clone();
        for start in (0..log.len()).step_by(unit) {
            let part = start..start + unit;
            if log[part.clone()] != after[part.clone()] && random.random_bool(kept) {
                log[part.clone()].copy_from_slice(&after[part]);
            }
        }
        copy_pool(saved.path(), &world.pool_path());
        std::fs::write(world.pool_path().join("log"), &log).unwrap();
        world.run_until(End::Kill, async |world| {
            let client = world.client().await;
            let mut old = 0;
            for n in 0..count {
                let found = value_of(&client, &key(n)).await;
                old += u64::from(found == Some(b"before".to_vec()));
            }
            assert!(
                old == 0 || old == count,
                "seed {seed}: {old} of {count} keys are as before"
            );
            done += u64::from(old == 0);
            undone += u64::from(old == count);
        });
    }
    assert!(
        done > 5 && undone > 50,
        "{done} whole and {undone} torn batches"
    );
}

/// Needs the void records: the cleaner would copy the tombstone of the torn batch, and the copy would count. Needs
/// copies without places: the other records of their batch may be gone.
#[test]
pub fn the_cleaner_brings_nothing_of_a_torn_batch_back_and_loses_nothing_of_a_whole_one() {
    let world = world(ClientPolicy::Copying);
    let mut before = Vec::new();
    world.run_until(End::Kill, async |world| {
        let client = world.client().await;
        // This segment has dead records but is not worth cleaning, so tombstones are still needed.
        for n in 0..440 {
            client.put(&key(n), &value(n, 500)).await.unwrap();
        }
        client.put(&key(0), b"again").await.unwrap();
        // The next segment, which becomes worth cleaning.
        client.put(b"two", &value(1, 20_000)).await.unwrap();
        client.put(b"kept", b"before").await.unwrap();
        let mut whole = Batch::new();
        whole
            .put(b"one", b"1")
            .put(b"two", b"2")
            .put(b"three", b"3");
        versions(client.apply(&whole).await.unwrap());
        client.put(b"two", b"later").await.unwrap();
        before = log_of(world);
        let mut torn = Batch::new();
        torn.delete(b"kept").put(b"torn", b"1");
        versions(client.apply(&torn).await.unwrap());
    });
    cut_power_before_the_persist_ends(&world, &before);
    tear(&world, b"torn");
    let check = async |world: &World| {
        let client = world.client().await;
        for (key, value) in [
            (&b"kept"[..], Some(&b"before"[..])),
            (b"torn", None),
            (b"one", Some(b"1")),
            (b"two", Some(b"later")),
            (b"three", Some(b"3")),
        ] {
            let found = value_of(&client, key).await;
            assert_eq!(found.as_deref(), value, "{}", key.escape_ascii());
        }
        client
    };
    world.run_until(End::Kill, async |world| {
        let client = check(world).await;
        let (mut cleaned, mut random) = (0, random_from_seed(3));
        for round in 0..6000 {
            // Each segment of these keys keeps more than the segment of the batches.
            let hot = key(10_000 + random.random_range(0..600));
            client.put(&hot, &value(round, 900)).await.unwrap();
            if round % 100 == 0 {
                cleaned = client.metrics().await.unwrap().cleaning.segments;
            }
            if cleaned >= 12 {
                break;
            }
        }
        assert!(cleaned >= 12, "segments are cleaned");
        check(world).await;
    });
    world.run(async |world| drop(check(world).await));
}

/// Needs the persist before a batch that expects a record of the same round: a crash that keeps the batch without that
/// record would leave what no order of the two explains.
#[test]
pub fn a_batch_is_stamped_after_what_it_expects_is_durable() {
    for others in [0, 100] {
        stamped_after_its_cause(others);
    }
}

/// A batch that expects its cause, and `others` that are absent: the server finds the cause among few expectations and
/// among many.
fn stamped_after_its_cause(others: u64) {
    let world = world(ClientPolicy::Copying);
    let mut before = Vec::new();
    world.run_until(End::Kill, async |world| {
        let client = world.client().await;
        client.put(b"first", b"1").await.unwrap();
        before = log_of(world);
        let mut batch = Batch::new();
        batch.put(b"effect", b"1");
        (0..others).for_each(|n| _ = batch.expect(&key(n), Expectation::Absent));
        batch.expect(b"cause", Expectation::Present);
        let mut put = std::pin::pin!(client.put(b"cause", b"1"));
        let mut apply = std::pin::pin!(client.apply(&batch));
        let (mut is_put, mut applied) = (false, None);
        std::future::poll_fn(|context| {
            is_put = is_put || put.as_mut().poll(context).is_ready();
            if applied.is_none()
                && let std::task::Poll::Ready(outcome) = apply.as_mut().poll(context)
            {
                applied = Some(outcome);
            }
            match is_put && applied.is_some() {
                true => std::task::Poll::Ready(()),
                false => std::task::Poll::Pending,
            }
        })
        .await;
        versions(applied.unwrap().unwrap());
    });
    cut_power_before_the_persist_ends(&world, &before);
    tear(&world, b"cause");
    let opened = world.try_run(End::Kill, async |world| {
        value_of(&world.client().await, b"effect").await
    });
    match opened {
        Err(StoreError::Corrupt(_)) => {}
        other => panic!("the cause was durable before its effect was stamped: {other:?}"),
    }
}

#[test]
fn a_batch_of_deletes_alone_is_done_in_a_full_pool() {
    world(ClientPolicy::Copying).run(async |world| {
        let client = world.client().await;
        let mut stored = 0;
        while client.put(&key(stored), &value(stored, 2000)).await.is_ok() {
            stored += 1;
        }
        let mut batch = Batch::new();
        batch.put(b"one more", &value(1, 2000));
        let refused = client.apply(&batch).await;
        assert!(matches!(refused, Err(StoreError::NoSpace { .. })));
        let mut batch = Batch::new();
        for n in 0..stored {
            batch.delete(&key(n));
        }
        versions(client.apply(&batch).await.unwrap());
        assert_eq!(client.stat().await.unwrap().keys, 0);
    });
}

/// Needs the look at the whole moment: a client that names a version with the bit of a batch gets a conflict, as for
/// any version that the key does not have, and no record of it is ever stamped.
#[test]
fn no_client_can_make_its_record_one_of_a_batch() {
    on_every_provider(|| {
        World::small().run(async |world| {
            let client = world.client().await;
            let version = client.put(b"a", b"1").await.unwrap();
            for forged in [1 << 63, u64::MAX, 1 << 63 | version] {
                let outcome = client.put_if(b"a", b"2", Condition::Version(forged)).await;
                assert_eq!(outcome.unwrap(), Written::Conflict(Some(version)));
            }
        });
    });
}

#[test]
fn a_durable_pool_keeps_batches_beside_other_writes() {
    let world = World {
        durability: Durability::Power,
        ..World::small()
    };
    world.run_until(End::Kill, async |world| {
        let client = world.client().await;
        for round in 0..20_u64 {
            let mut batch = Batch::new();
            (0..5).for_each(|n| _ = batch.put(&key(n), &round.to_le_bytes()));
            let (single, number) = (key(100 + round), round.to_le_bytes());
            let mut put = std::pin::pin!(client.put(&single, &number));
            let begun = std::future::poll_fn(|context| {
                std::task::Poll::Ready(put.as_mut().poll(context).is_ready())
            });
            let is_done = begun.await;
            versions(client.apply(&batch).await.unwrap());
            if !is_done {
                put.await.unwrap();
            }
        }
    });
    world.run(async |world| {
        let client = world.client().await;
        for n in (0..5).chain(100..120) {
            let round = if n < 100 { 19 } else { n - 100 };
            let found = value_of(&client, &key(n)).await;
            assert_eq!(found, Some(u64::to_le_bytes(round).to_vec()));
        }
    });
}
