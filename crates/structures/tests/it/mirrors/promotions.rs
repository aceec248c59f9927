//! The back-end is gone for good, and its mirror takes its place.

use rand::RngExt as _;
use stonecast_base::random_from_seed;
use stonecast_fabric_sim::LocalClock;
use stonecast_media::DeclaredPlatform;
use stonecast_structures::shapes::StructureKind;
use stonecast_structures::{
    BackEnd, FRONT_END_COMPLETIONS, FrontEndError, Key as _, StandingError, promote,
};

use super::pair::{MIRROR_LEASE_NS, Pair};
use super::{Work, seeds};
use crate::sessions::{ANSWERED, PLATFORMS, create, insert, keys};

/// Needs everything that is durable to be durable in the mirror first.
#[test]
pub fn a_back_end_that_is_gone_for_good_leaves_every_acknowledged_operation_to_its_mirror() {
    for platform in PLATFORMS {
        let told: u64 = seeds(12).map(|seed| lose(platform, seed)).sum();
        assert!(told > 100, "{platform:?}: {told} keys were told");
    }
}

/// Ends the back-end at a random moment, for good. Returns the number of keys that were told.
fn lose(platform: DeclaredPlatform, seed: u64) -> u64 {
    let platforms = match seed % 3 {
        0 => [platform, platform],
        1 => [ANSWERED, platform],
        _ => [platform, ANSWERED],
    };
    let pair = Pair::new(platforms, seed);
    let world = pair.world.clone();
    world.block_on(async move {
        let mut random = random_from_seed(seed);
        pair.begin().await;
        let (process, front_end) = pair.front_end(&pair.first).await;
        let kind = match seed % 2 {
            0 => StructureKind::HashTable,
            _ => StructureKind::BTree,
        };
        let work = Work::begin(&process, &front_end, kind).await;
        let before = pair.first.take_end();
        assert_eq!(before, None, "{platform:?}, seed {seed}");
        pair.rest(random.random_range(0..2_000_000)).await;
        let told = work.told.get();
        pair.kill(&pair.first);
        if seed.is_multiple_of(4) {
            pair.cut_power(&pair.second);
            pair.serve_mirror(&pair.second);
        }
        assert_eq!(pair.promote(&pair.second).await, 2);
        let (_process, second) = pair.front_end(&pair.second).await;
        let found = keys(&second, work.domain, work.structure, told + 50).await;
        let count = found.len() as u64;
        let case = format!("{platforms:?}, seed {seed}");
        assert_eq!(found, (0..count).collect::<Vec<_>>(), "{case}");
        assert!(count >= told, "{case}: {count} of {told} keys are there");
        told
    })
}

/// Needs the changes of front-ends to go to a mirror that is being filled, wherever they lie.
#[test]
pub fn a_mirror_that_was_filled_while_a_writer_worked_has_everything() {
    for seed in 0..6 {
        let pair = Pair::new([ANSWERED; 2], seed);
        let world = pair.world.clone();
        world.block_on(async move {
            pair.create().await;
            pair.serve(&pair.first, None).await.expect("it is sound");
            let (process, front_end) = pair.front_end(&pair.first).await;
            let work = Work::begin(&process, &front_end, StructureKind::BTree).await;
            pair.rest(500_000).await;
            pair.kill(&pair.first);
            pair.serve_mirror(&pair.second);
            let served = pair.serve(&pair.first, Some(&pair.second)).await;
            served.expect("the mirror is empty");
            let (process, front_end) = pair.front_end(&pair.first).await;
            let made = front_end.create_domain(1).await.expect("there is room");
            let mirror = front_end.counts().await.expect("it serves").mirror;
            assert!(mirror.bytes_to_copy > 0, "{mirror:?}");
            let writer = pair.writer(&front_end, work.domain).await;
            work.go_on(&process, writer);
            pair.await_whole(&pair.first).await;
            pair.rest(300_000).await;
            let told = work.told.get();
            pair.kill(&pair.first);
            pair.promote(&pair.second).await;
            let (_process, second) = pair.front_end(&pair.second).await;
            second.stat(made).await.expect("there is the domain");
            let found = keys(&second, work.domain, work.structure, told).await;
            assert_eq!(found, (0..told).collect::<Vec<_>>(), "seed {seed}");
        });
    }
}

/// Needs the comparison of everything before a copy of an earlier generation counts.
#[test]
pub fn an_old_back_end_returns_as_the_mirror_of_its_successor_and_may_succeed_it() {
    for seed in 0..6 {
        let pair = Pair::new([ANSWERED; 2], seed);
        let world = pair.world.clone();
        world.block_on(async move {
            pair.begin().await;
            let (process, front_end) = pair.front_end(&pair.first).await;
            let work = Work::begin(&process, &front_end, StructureKind::HashTable).await;
            pair.rest(400_000).await;
            pair.kill(&pair.first);
            pair.promote(&pair.second).await;
            pair.kill(&pair.second);
            pair.serve_mirror(&pair.first);
            let served = pair.serve(&pair.second, Some(&pair.first)).await;
            served.expect("the first pool is of an earlier generation");
            if seed.is_multiple_of(2) {
                let (_process, second) = pair.front_end(&pair.second).await;
                let mirror = second.counts().await.expect("it serves").mirror;
                assert!(mirror.bytes_to_copy > 0, "{mirror:?}");
                let operator = pair.operator();
                let port = operator.port(FRONT_END_COMPLETIONS).expect("a port");
                pair.kill(&pair.second);
                let refused = promote(&port, &operator.runtime(), pair.first.name).await;
                let refused = refused.expect_err("the mirror lacks something");
                assert!(refused.to_string().contains("does not have everything"));
                let served = pair.serve(&pair.second, Some(&pair.first)).await;
                served.expect("the mirror goes on");
            }
            pair.await_whole(&pair.second).await;
            let (process, second) = pair.front_end(&pair.second).await;
            let writer = pair.writer(&second, work.domain).await;
            work.go_on(&process, writer);
            pair.rest(400_000).await;
            let told = work.told.get();
            pair.kill(&pair.second);
            assert_eq!(pair.promote(&pair.first).await, 3);
            let (_process, first) = pair.front_end(&pair.first).await;
            let found = keys(&first, work.domain, work.structure, told).await;
            assert_eq!(found, (0..told).collect::<Vec<_>>(), "seed {seed}");
        });
    }
}

/// Needs the generation, and the word of the first pool that it has a mirror.
#[test]
fn a_forgotten_back_end_serves_nobody_after_its_mirror_was_promoted() {
    let pair = Pair::new([ANSWERED; 2], 1);
    let world = pair.world.clone();
    world.block_on(async move {
        pair.begin().await;
        pair.kill(&pair.first);
        pair.promote(&pair.second).await;
        let alone = pair.serve(&pair.first, None).await;
        let alone = alone.expect_err("it is bound to its mirror");
        assert!(
            alone.to_string().contains("may be the back-end now"),
            "{alone}"
        );
        let with = pair.serve(&pair.first, Some(&pair.second)).await;
        let with = with.expect_err("the mirror was promoted");
        let words = "promoted and is the back-end of generation 2; this pool is of generation 1";
        assert!(with.to_string().contains(words), "{with}");
    });
}

/// Needs the lease of the source: until it is over, a reader of the old back-end may still take what it reads for the
/// latest.
#[test]
pub fn a_mirror_becomes_no_back_end_while_its_back_end_lives_or_its_lease_lasts() {
    let pair = Pair::new([ANSWERED; 2], 2);
    let world = pair.world.clone();
    world.block_on(async move {
        pair.begin().await;
        let operator = pair.operator();
        let (runtime, port) = (operator.runtime(), operator.port(FRONT_END_COMPLETIONS));
        let port = port.expect("a port");
        let promoting = promote(&port, &runtime, pair.second.name);
        let waited = runtime.within(10 * MIRROR_LEASE_NS, promoting).await;
        assert!(waited.is_err(), "the back-end lives: {:?}", waited.unwrap());
        pair.kill(&pair.first);
        let killed_at = runtime.now();
        assert_eq!(pair.ask_to_promote(&pair.second).await, 2);
        let waited_ns = runtime.now() - killed_at;
        assert!(waited_ns > MIRROR_LEASE_NS / 2, "{waited_ns}");
    });
}

/// Needs the window of the source to be closed: a back-end whose clock is far too slow believes in its lease for ever.
#[test]
pub fn a_back_end_that_does_not_notice_its_end_acknowledges_nothing_more() {
    for platform in PLATFORMS {
        let pair = Pair::new([platform; 2], 3);
        let world = pair.world.clone();
        world.block_on(async move {
            pair.begin().await;
            let (_process, front_end) = pair.front_end(&pair.first).await;
            let domain = front_end.create_domain(2).await.expect("there is room");
            let mut writer = front_end.writer(domain).await.expect("the domain is free");
            let table = create(&mut writer, StructureKind::HashTable).await;
            writer.publish().await.expect("the tenure lasts");
            pair.first.set_clock(LocalClock {
                ahead_ns: 0,
                drift_ppm: -999_000,
            });
            assert_eq!(pair.ask_to_promote(&pair.second).await, 2);
            insert(&mut writer, table, 7).await;
            let process = pair.operator();
            let publishing = writer.publish();
            let published = process.runtime().within(100_000_000, publishing).await;
            assert!(!matches!(published, Ok(Ok(()))), "{platform:?}");
        });
    }
}

/// Needs readers to ask the back-end again when its word is over: the processor of the old back-end stands still, its
/// NIC serves READs, and its memory stays as it was.
#[test]
pub fn a_reader_of_a_back_end_that_stands_still_takes_no_old_value_for_the_latest() {
    for seed in 0..3 {
        let pair = Pair::new([ANSWERED; 2], seed);
        let world = pair.world.clone();
        world.block_on(async move {
            pair.begin().await;
            let (process, front_end) = pair.front_end(&pair.first).await;
            front_end.keep_time(process.runtime());
            let work = Work::begin(&process, &front_end, StructureKind::BTree).await;
            pair.rest(300_000).await;
            let told = work.told.get();
            assert!(told > 0, "seed {seed}");
            let reader = front_end.reader(work.domain).await;
            let mut reader = reader.expect("there is the domain");
            let roots = reader.roots().await.expect("the table is whole");
            pair.first.process.borrow().pause(50 * MIRROR_LEASE_NS);
            pair.promote(&pair.second).await;
            let (process, second) = pair.front_end(&pair.second).await;
            let writer = pair.writer(&second, work.domain).await;
            work.go_on(&process, writer);
            pair.rest(300_000).await;
            let key = 0_u64.encoded();
            let looking = reader.get(&roots, work.structure, &key);
            let runtime = process.runtime();
            let looked = runtime.within(100 * MIRROR_LEASE_NS, looking).await;
            assert!(!matches!(looked, Ok(Ok(_))), "seed {seed}: {looked:?}");
        });
    }
}

#[test]
fn a_mirror_tells_front_ends_what_it_is() {
    let pair = Pair::new([ANSWERED; 2], 4);
    let world = pair.world.clone();
    world.block_on(async move {
        pair.begin().await;
        let operator = pair.operator();
        let port = operator.port(FRONT_END_COMPLETIONS).expect("a port");
        let refused = BackEnd::connect(&port, pair.second.name).await;
        let Err(FrontEndError::IsMirror {
            generation: 1,
            is_whole: true,
        }) = refused
        else {
            panic!("{:?}", refused.map(|_| ()));
        };
        pair.kill(&pair.second);
        let served = pair.serve(&pair.second, None).await;
        let served = served.expect_err("the pool is a mirror").to_string();
        let words = StandingError::IsMirror { generation: 1 }.to_string();
        assert_eq!(served, words);
    });
}
