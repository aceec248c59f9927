//! Losses that leave the back-end what it is.

use std::rc::Rc;

use rand::RngExt as _;
use stonecast_base::random_from_seed;
use stonecast_structures::shapes::StructureKind;
use stonecast_structures::{AttachError, DetachError, MirrorLink, StructurePool, detach};

use super::pair::{MIRROR_LEASE_NS, Pair, ServeError};
use super::{Work, seeds};
use crate::sessions::{ANSWERED, GEOMETRY, PLATFORMS, create, insert, keys};

/// Needs the comparison with the mirror before the pool is opened. The front-end ends at the same moment as its
/// back-end, or outlives it.
#[test]
fn a_back_end_that_restarts_finds_its_mirror_again_and_loses_nothing() {
    for seed in seeds(12) {
        let platform = PLATFORMS[seed as usize % PLATFORMS.len()];
        let pair = Pair::new([platform; 2], seed);
        let world = pair.world.clone();
        world.block_on(async move {
            let mut random = random_from_seed(seed);
            pair.begin().await;
            let (mut process, front_end) = pair.front_end(&pair.first).await;
            let work = Work::begin(&process, &front_end, StructureKind::BTree).await;
            for round in 0..3 {
                pair.rest(random.random_range(0..600_000)).await;
                if random.random_range(0..2) == 0 {
                    process.kill();
                }
                // A writer of an open transaction, or of operations that are staged and not published, is in the middle
                // of its work.
                match random.random_range(0..4) {
                    0 => pair.kill(&pair.first),
                    1 => pair.cut_power(&pair.first),
                    2 => {
                        pair.kill(&pair.first);
                        pair.kill(&pair.second);
                        pair.serve_mirror(&pair.second);
                    }
                    _ => {
                        pair.cut_power(&pair.second);
                        pair.cut_power(&pair.first);
                        pair.serve_mirror(&pair.second);
                    }
                }
                let served = pair.serve(&pair.first, Some(&pair.second)).await;
                served.expect("the mirror is there");
                let told = work.told.get();
                let (next, front_end) = pair.front_end(&pair.first).await;
                process = next;
                let found = keys(&front_end, work.domain, work.structure, told).await;
                let case = format!("{platform:?}, seed {seed}, round {round}");
                assert_eq!(found, (0..told).collect::<Vec<_>>(), "{case}");
                let writer = pair.writer(&front_end, work.domain).await;
                work.go_on(&process, writer);
            }
            pair.rest(300_000).await;
            let told = work.told.get();
            pair.kill(&pair.first);
            pair.promote(&pair.second).await;
            let (_process, second) = pair.front_end(&pair.second).await;
            let found = keys(&second, work.domain, work.structure, told).await;
            assert_eq!(found, (0..told).collect::<Vec<_>>(), "seed {seed}");
        });
    }
}

/// Needs the back-end to end with its mirror, and its pool to say that it has one.
#[test]
fn nothing_is_acknowledged_without_the_mirror_until_an_operator_says_that_it_is_destroyed() {
    for platform in PLATFORMS {
        let pair = Pair::new([platform; 2], 1);
        let world = pair.world.clone();
        world.block_on(async move {
            pair.begin().await;
            let (_process, front_end) = pair.front_end(&pair.first).await;
            let domain = front_end.create_domain(2).await.expect("there is room");
            let mut writer = front_end.writer(domain).await.expect("the domain is free");
            let table = create(&mut writer, StructureKind::HashTable).await;
            insert(&mut writer, table, 1).await;
            writer.publish().await.expect("the tenure lasts");
            pair.world.cut_power(pair.second.machine());
            insert(&mut writer, table, 2).await;
            let process = pair.operator();
            let publishing = writer.publish();
            let published = process.runtime().within(50_000_000, publishing).await;
            assert!(!matches!(published, Ok(Ok(()))), "{platform:?}");
            let end = pair.first.take_end().expect("the back-end has ended");
            assert!(end.contains("the mirror is lost"), "{end}");

            pair.kill(&pair.first);
            let alone = pair.serve(&pair.first, None).await;
            alone.expect_err("the pool says that it has a mirror");
            let detached = detach(Rc::new(pair.first.medium()), true).await;
            assert_eq!(detached.expect("it has a mirror"), 2);
            pair.serve(&pair.first, None).await.expect("it is alone");
            let (_process, front_end) = pair.front_end(&pair.first).await;
            let found = keys(&front_end, domain, table, 3).await;
            assert!(found == [1] || found == [1, 2], "{found:?}");
        });
    }
}

/// Needs the generation of a detached pool: its former mirror lacks what was acknowledged since.
#[test]
fn a_former_mirror_is_filled_anew_before_it_counts() {
    let pair = Pair::new([ANSWERED; 2], 2);
    let world = pair.world.clone();
    world.block_on(async move {
        pair.begin().await;
        pair.kill(&pair.first);
        pair.kill(&pair.second);
        let detached = detach(Rc::new(pair.first.medium()), true).await;
        detached.expect("it has a mirror");
        let twice = detach(Rc::new(pair.first.medium()), true).await;
        assert!(matches!(twice, Err(DetachError::HasNone)));
        let mirror = detach(Rc::new(pair.second.medium()), true).await;
        assert!(matches!(mirror, Err(DetachError::IsMirror)));
        pair.serve_mirror(&pair.second);
        let served = pair.serve(&pair.first, Some(&pair.second)).await;
        served.expect("the mirror is of an earlier generation");
        let (_process, front_end) = pair.front_end(&pair.first).await;
        let mirror = front_end.counts().await.expect("it serves").mirror;
        assert!(mirror.bytes_to_copy > 0, "{mirror:?}");
        pair.await_whole(&pair.first).await;
        pair.kill(&pair.first);
        assert_eq!(pair.promote(&pair.second).await, 3);
    });
}

/// Needs the standing of a mirror to count as a pool: none of the bytes is there.
#[test]
fn a_mirror_that_is_to_be_filled_is_no_place_for_a_new_pool() {
    let pair = Pair::new([ANSWERED; 2], 4);
    let world = pair.world.clone();
    world.block_on(async move {
        pair.create().await;
        pair.serve_mirror(&pair.second);
        let empty = StructurePool::was_created(&pair.second.medium(), &GEOMETRY);
        assert!(!empty, "no back-end has joined");
        let ((port, runtime), medium) = (pair.first.port(), pair.first.medium());
        let of = (pair.second.name, MIRROR_LEASE_NS);
        let attached = MirrorLink::attach(&port, runtime, medium, of).await;
        let _link = attached.expect("the mirror is empty");
        let medium = pair.second.medium();
        assert_eq!(medium.bytes().load(0), 0, "nothing was copied");
        assert!(StructurePool::was_created(&medium, &GEOMETRY));
    });
}

/// Needs the durability of the source in the agreement with the mirror: a power cut of the mirror behind its promotion
/// would take what was acknowledged.
#[test]
fn a_mirror_that_survives_less_than_its_back_end_is_refused_by_name() {
    let pair = Pair::new([ANSWERED; 2], 5);
    let world = pair.world.clone();
    world.block_on(async move {
        pair.create().await;
        pair.second.weaken();
        pair.serve_mirror(&pair.second);
        let served = pair.serve(&pair.first, Some(&pair.second)).await;
        let refused = matches!(served, Err(ServeError::Attach(AttachError::Weaker)));
        assert!(refused, "{served:?}");
        let served = pair.serve(&pair.first, None).await;
        served.expect("nothing was bound");
    });
}

#[test]
fn a_mirror_that_survives_more_than_its_back_end_is_taken() {
    let pair = Pair::new([ANSWERED; 2], 6);
    let world = pair.world.clone();
    world.block_on(async move {
        pair.first.weaken();
        pair.begin().await;
    });
}

#[test]
fn a_mirror_takes_no_pool_but_its_own() {
    let pair = Pair::new([ANSWERED; 2], 3);
    let world = pair.world.clone();
    world.block_on(async move {
        pair.create().await;
        let other = StructurePool::create(Rc::new(pair.second.medium()), GEOMETRY).await;
        drop(other.expect("the medium is sound"));
        pair.serve_mirror(&pair.second);
        let served = pair.serve(&pair.first, Some(&pair.second)).await;
        let served = served.expect_err("the second pool has content of its own");
        assert!(
            served.to_string().contains("holds something else"),
            "{served}"
        );
        pair.serve(&pair.first, None)
            .await
            .expect("nothing was bound");
        pair.kill(&pair.first);
        let itself = pair.serve(&pair.first, Some(&pair.first)).await;
        itself.expect_err("nobody listens there");
    });
}
