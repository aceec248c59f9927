//! Pools left by killed or closed servers, opened by the next server.

use std::collections::BTreeMap;

use rand::RngExt as _;
use stonecast_base::Span;
use stonecast_kv::StoreError;
use stonecast_media::Durability;

use crate::fabric::on_every_provider;
use crate::world::{End, World, key, value};

#[test]
pub fn everything_acknowledged_is_there_after_one_kill_and_after_another() {
    on_every_provider(|| {
        for durability in [Durability::Process, Durability::Power] {
            let world = World {
                durability,
                ..World::default()
            };
            let mut model: BTreeMap<u64, Vec<u8>> = BTreeMap::new();
            let mut random = stonecast_base::random_from_seed(5);
            for round in 0..4 {
                world.run_until(End::Kill, async |world| {
                    let client = world.client().await;
                    check(&client, &model, 400).await;
                    for _ in 0..300 {
                        let n = random.random_range(0..400);
                        if random.random_bool(0.3) {
                            assert_eq!(
                                client.delete(&key(n)).await.unwrap(),
                                model.remove(&n).is_some()
                            );
                        } else {
                            let fresh = value(random.random(), random.random_range(0..3000));
                            client.put(&key(n), &fresh).await.unwrap();
                            model.insert(n, fresh);
                        }
                    }
                });
                assert_eq!(
                    world.report.borrow().torn_tails,
                    0,
                    "round {round}: a killed process tears nothing"
                );
            }
            world.run(async |world| check(&world.client().await, &model, 400).await);
        }
    });
}

#[test]
pub fn a_closed_pool_opens_from_its_checkpoint_and_a_damaged_checkpoint_only_costs_a_scan() {
    on_every_provider(|| {
        let world = World::default();
        let model: BTreeMap<u64, Vec<u8>> = (0..2000).map(|n| (n, value(n, 100))).collect();
        world.run(async |world| {
            let client = world.client().await;
            for (&n, v) in &model {
                client.put(&key(n), v).await.unwrap();
            }
        });
        world.run_until(End::Kill, async |world| {
            assert!(world.report.borrow().used_checkpoint);
            assert_eq!(
                world.report.borrow().records,
                0,
                "nothing was appended since the checkpoint"
            );
            check(&world.client().await, &model, 2100).await;
        });
        let path = world.pool_path().join("checkpoint");
        let mut bytes = std::fs::read(&path).unwrap();
        let middle = bytes.len() / 2;
        bytes[middle] ^= 1;
        std::fs::write(&path, bytes).unwrap();
        world.run(async |world| {
            assert_eq!(
                world.report.borrow().repairs.len(),
                1,
                "the damage is reported"
            );
            assert_eq!(world.report.borrow().records, 2000);
            check(&world.client().await, &model, 2100).await;
        });
    });
}

#[test]
pub fn a_checkpoint_stays_useful_after_a_crash_and_later_writes_win_over_it() {
    on_every_provider(|| {
        let world = World::default();
        world.run(async |world| {
            let client = world.client().await;
            for n in 0..500 {
                client.put(&key(n), b"old").await.unwrap();
            }
        });
        world.run_until(End::Kill, async |world| {
            let client = world.client().await;
            for n in 0..250 {
                client.put(&key(n), b"new").await.unwrap();
            }
            assert!(client.delete(&key(400)).await.unwrap());
        });
        world.run(async |world| {
            assert!(world.report.borrow().used_checkpoint);
            assert_eq!(
                world.report.borrow().records,
                251,
                "only the records after the checkpoint are scanned"
            );
            let client = world.client().await;
            let mut read = Vec::new();
            for n in 0..500 {
                let found = client.get(&key(n), &mut read).await.unwrap();
                match n {
                    400 => assert_eq!(found, None, "a delete after the checkpoint holds"),
                    _ => assert_eq!(read, if n < 250 { b"new" } else { b"old" }, "key {n}"),
                }
            }
            assert_eq!(client.stat().await.unwrap().keys, 499);
        });
    });
}

#[test]
pub fn a_full_pool_refuses_writes_serves_reads_and_still_deletes() {
    on_every_provider(|| {
        let world = World::small();
        let mut stored = 0;
        world.run_until(End::Kill, async |world| {
            let client = world.client().await;
            loop {
                match client.put(&key(stored), &value(stored, 2000)).await {
                    Ok(_) => stored += 1,
                    Err(StoreError::NoSpace { .. }) => break,
                    Err(error) => panic!("{error}"),
                }
            }
            assert!(
                stored > 400,
                "most of 2 MiB holds records of 2 KiB: {stored}"
            );
            assert!(
                matches!(
                    client.put(b"more", &value(1, 2000)).await,
                    Err(StoreError::NoSpace { .. })
                ),
                "full stays full"
            );
            let mut read = Vec::new();
            for n in 0..stored {
                assert!(client.get(&key(n), &mut read).await.unwrap().is_some());
                assert_eq!(read, value(n, 2000));
            }
            for n in 0..stored {
                assert!(client.delete(&key(n)).await.unwrap());
            }
        });
        world.run(async |world| assert_eq!(world.client().await.stat().await.unwrap().keys, 0));
    });
}

#[test]
fn clients_that_connect_and_leave_keep_no_segment() {
    on_every_provider(|| {
        let world = World::small();
        world.run(async |world| {
            for n in 0..100 {
                let client = world.client().await;
                client.put(&key(n), b"x").await.unwrap();
                if n % 2 == 0 {
                    client.close().await;
                }
            }
            let client = world.client().await;
            // The server notices the last departures after a while.
            for _ in 0..1000 {
                let stat = client.stat().await.unwrap();
                if stat.clients == 1 && stat.segments_taken == 0 {
                    return;
                }
                world.runtime().sleep(1_000_000).await;
            }
            panic!("leases leak: {:?}", client.stat().await.unwrap());
        });
    });
}

/// Checks that every key of `model` has its value, and that no other key below `limit` exists.
pub async fn check(client: &stonecast_kv::Client, model: &BTreeMap<u64, Vec<u8>>, limit: u64) {
    let mut read = Vec::new();
    for n in 0..limit {
        let found = client.get(&key(n), &mut read).await.unwrap().map(|_| &read);
        assert!(
            found == model.get(&n),
            "key {n}: found {:?} bytes, expected {:?}",
            found.map(Vec::len),
            model.get(&n).map(Vec::len)
        );
    }
}

/// Fails without the marks: if a sync failed and the server died before it learnt of the failure, the next server would
/// find the bytes in the page cache, show them, and never write them.
#[test]
fn bytes_that_a_sync_of_a_dead_server_may_have_lost_are_written_again_before_they_are_shown() {
    let world = World::default();
    let fill = async |world: &World| {
        let client = world.client().await;
        for n in 0..20 {
            client.put(&key(n), &value(n, 5000)).await.unwrap();
        }
    };
    world.run_until(End::Kill, fill);
    world.run_until(End::Kill, async |_| {});
    let marked = |at: u64| {
        let seen = world.seen.borrow();
        let is_in = |span: &Span| (span.offset..span.offset + span.size).contains(&at);
        seen.marked.iter().any(is_in)
    };
    let segment = (0..world.capacity)
        .step_by(world.segment_size as usize)
        .find(|&start| marked(start))
        .expect("the header of a segment");
    assert!(marked(segment + 192) && marked(segment + 256) && marked(segment + 19 * 5000));
    // Sealed records were synced before the seal was written; the seal was not synced.
    world.run_until(End::Close, async |_| {});
    assert!(marked(segment + 64) && !marked(segment + 256));
    world.run_until(End::Kill, async |_| {});
    assert!(!marked(segment), "a pool that was closed was synced");
}

/// Fails unless `mark_doubtful` checks which pages have space. A mark is a store. A copy of a pool may have a hole in
/// place of a long value of zeros, and a store to a hole on a full disk ends the server.
#[test]
fn a_hole_in_the_log_of_a_dead_server_is_not_touched_by_the_next_one() {
    const ZEROS: usize = 200_000;
    let world = World {
        durability: stonecast_media::Durability::Power,
        ..World::default()
    };
    world.run_until(End::Kill, async |world| {
        let client = world.client().await;
        client.put(&key(1), &value(1, 5000)).await.unwrap();
        client.put(&key(2), &vec![0; ZEROS]).await.unwrap();
        client.put(&key(3), &value(3, 5000)).await.unwrap();
    });
    let path = world.pool_path().join("log");
    let bytes = std::fs::read(&path).unwrap();
    let start = bytes
        .windows(key(2).len())
        .position(|window| window == key(2))
        .expect("the record is there");
    let (first, last) = (start.next_multiple_of(4096), (start + ZEROS) / 4096 * 4096);
    // The file as `cp --sparse=always` writes it, in the old place.
    let file = std::fs::OpenOptions::new().write(true).open(&path).unwrap();
    file.set_len(0).unwrap();
    file.set_len(world.capacity).unwrap();
    for (page, at) in bytes.chunks(4096).zip((0..).step_by(4096)) {
        if page.iter().any(|&byte| byte != 0) {
            std::os::unix::fs::FileExt::write_all_at(&file, page, at).unwrap();
        }
    }
    world.run_until(End::Kill, async |world| {
        let seen = world.seen.borrow();
        let hole = Span::new(first as u64, (last - first) as u64);
        let touches = |span: &&Span| span.overlap(hole).is_some();
        assert_eq!(seen.marked.iter().find(touches), None);
        let is_marked = |at: u64| {
            seen.marked
                .iter()
                .any(|span| span.overlap(Span::new(at, 1)).is_some())
        };
        assert!(is_marked(start as u64) && is_marked(last as u64 + 4096));
    });
    world.run(async |world| {
        let mut found = Vec::new();
        world.client().await.get(&key(2), &mut found).await.unwrap();
        assert_eq!(found, vec![0; ZEROS]);
    });
}
