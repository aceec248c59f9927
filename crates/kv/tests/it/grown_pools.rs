//! Pools that grow between two runs of a server.

use std::fs;

use stonecast_kv::StoreError;
use stonecast_media::{DirectoryBacking, Durability, OpenMode, Pool};

use crate::agreement;
use crate::damage::copy_pool;
use crate::fabric::{Provider, on};
use crate::world::{End, World, in_shards, key, value};

const SEGMENT: u64 = 256 << 10;
const BEFORE: u64 = 8 * SEGMENT;
const AFTER: u64 = 24 * SEGMENT;
const SIZE: usize = 4_000;

fn world(durability: Durability) -> World {
    World {
        capacity: BEFORE,
        segment_size: SEGMENT,
        durability,
        ..World::default()
    }
}

fn grow(world: &World) {
    let backing = DirectoryBacking::open(&world.pool_path()).unwrap();
    let growth = Pool::grow(&backing, AFTER).unwrap();
    assert_eq!((growth.from, growth.to), (BEFORE, AFTER));
}

/// Stores keys from `next` on until the pool is full, and returns the first key that has no place.
fn fill(world: &World, end: End, next: u64) -> u64 {
    world.run_until(end, async |world| {
        let client = world.client().await;
        for n in next.. {
            match client.put(&key(n), &value(n, SIZE)).await {
                Ok(_) => {}
                Err(StoreError::NoSpace { .. }) => return n,
                Err(error) => panic!("put {n}: {error}"),
            }
        }
        unreachable!("the pool is finite")
    })
}

fn assert_present(world: &World, keys: u64) {
    world.run(async |world| {
        let client = world.client().await;
        assert_eq!(client.stat().await.unwrap().keys, keys);
        for n in 0..keys {
            let mut found = Vec::new();
            client.get(&key(n), &mut found).await.unwrap();
            assert_eq!(found, value(n, SIZE), "key {n}");
        }
    });
}

fn assert_flawless(world: &World) {
    let pool = world.open_pool_for(OpenMode::Inspect);
    let found = stonecast_kv::verify(&pool, &mut |_, _| {}).unwrap();
    assert!(found.damage.is_empty(), "{:?}", found.damage);
    assert!(found.latent.is_empty(), "{:?}", found.latent);
    assert!(found.harmless.is_empty(), "{:?}", found.harmless);
}

fn assert_takes_more(durability: Durability, end: End) {
    let world = world(durability);
    let full = fill(&world, End::Close, 0);
    grow(&world);
    assert_flawless(&world);
    let more = fill(&world, end, full);
    assert!(
        more > 5 * full / 2,
        "{full} keys were in a third of the pool, {more} in all of it"
    );
    {
        let report = world.report.borrow();
        assert!(report.used_checkpoint && report.repairs.is_empty());
        assert_eq!((report.keys, report.headers_repaired), (full, 0));
    }
    assert_flawless(&world);
    assert_present(&world, more);
    assert_eq!(world.report.borrow().headers_repaired, 0);
    assert!(world.report.borrow().used_checkpoint);
}

/// Needs the header that may keep the witness of the first segment: without it `verify` and the opening report a
/// damaged header.
#[test]
fn a_full_pool_that_has_grown_takes_more_and_keeps_every_key() {
    for durability in [Durability::Process, Durability::Power] {
        for end in [End::Close, End::Kill] {
            assert_takes_more(durability, end);
        }
    }
    in_shards(4, || assert_takes_more(Durability::Process, End::Kill));
    on(Provider::SharedMemory, || {
        assert_takes_more(Durability::Process, End::Close);
    });
}

/// The witness of the first segment lies in the last one, which is another one now. Needs the witness to move there
/// before the grown pool is killed.
#[test]
fn the_loss_of_any_whole_segment_is_reported_after_a_grown_pool_was_killed() {
    let world = world(Durability::Process);
    let full = fill(&world, End::Close, 0);
    grow(&world);
    let more = fill(&world, End::Kill, full);
    let (original, saved) = (world.pool_path(), world.directory.path().join("saved"));
    copy_pool(&original, &saved);
    let log = fs::read(saved.join("log")).unwrap();
    for (number, bytes) in log.chunks_exact(SEGMENT as usize).enumerate() {
        if bytes.iter().all(|&byte| byte == 0) {
            continue;
        }
        copy_pool(&saved, &original);
        let mut damaged = log.clone();
        damaged[number * SEGMENT as usize..][..SEGMENT as usize].fill(0);
        fs::write(original.join("log"), damaged).unwrap();
        let said = agreement::check(&original);
        let served = agreement::serve(&world, more);
        agreement::compare(&world, &said, &served, &format!("segment {number}"));
        let is_lost = |(n, read): (u64, &Result<Option<Vec<u8>>, ()>)| matches!(read, Ok(read) if read.as_deref() != Some(&value(n, SIZE)[..]));
        let lost = (0..).zip(&served.read).filter(|&found| is_lost(found));
        assert_eq!(lost.count(), 0, "segment {number} is lost silently");
    }
}
