//! A back-end and its mirror share a standing record in a store: promotion by itself, and detachment, by
//! compare-and-swap.

use std::rc::Rc;

use rand::RngExt as _;
use stonecast_base::random_from_seed;
use stonecast_cluster::ConfigStore as _;
use stonecast_config_sim::{ConfigService, ServiceFaults};
use stonecast_structures::shapes::StructureKind;
use stonecast_structures::{
    AttachError, DetachError, FRONT_END_COMPLETIONS, PromoteError, ServiceError, StandingError,
    StandingFault, StandingRecord, detach, generation_of_mirror, promote,
};

use super::Work;
use super::pair::{MIRROR_LEASE_NS, Node, Pair, ServeError};
use crate::sessions::{ANSWERED, PLATFORMS, keys};

/// Waits until the mirror of a node has become the back-end, by itself.
async fn await_promotion(pair: &Pair, node: &Rc<Node>, generation: u64) {
    let words = format!("promoted to generation {generation}");
    for _ in 0..1_000 {
        match node.take_end() {
            Some(end) => return assert_eq!(end, words),
            None => pair.rest(MIRROR_LEASE_NS / 10).await,
        }
    }
    panic!("the mirror does not become the back-end");
}

/// Expects everything that was told at a node that has become the back-end.
async fn expect_told(pair: &Pair, node: &Rc<Node>, work: &Work, case: &str) {
    pair.kill(node);
    let served = pair.serve(node, None).await;
    served.unwrap_or_else(|error| panic!("{case}: {error}"));
    let told = work.told.get();
    let (_process, front_end) = pair.front_end(node).await;
    let found = keys(&front_end, work.domain, work.structure, told + 50).await;
    let count = found.len() as u64;
    assert_eq!(found, (0..count).collect::<Vec<_>>(), "{case}");
    assert!(count >= told, "{case}: {count} of {told} keys are there");
}

fn record_in(service: &ConfigService) -> StandingRecord {
    let stored = service.value().expect("it was founded");
    StandingRecord::decode(&stored.bytes).expect("it is whole")
}

/// A pair that shares a record, with a writer at work.
async fn working(pair: &Pair, kind: StructureKind) -> Work {
    pair.begin().await;
    let (process, front_end) = pair.front_end(&pair.first).await;
    Work::begin(&process, &front_end, kind).await
}

/// Needs the lease at the mirror, whether or not the back-end is there to be told.
#[test]
fn a_mirror_takes_the_place_of_a_back_end_that_was_killed_without_a_word() {
    for platform in PLATFORMS {
        for seed in 0..4 {
            let pair = Pair::new([platform; 2], seed);
            let world = pair.world.clone();
            let service = pair.share_record("record", seed);
            world.block_on(async move {
                let mut random = random_from_seed(seed);
                let work = working(&pair, StructureKind::HashTable).await;
                let record = record_in(&service);
                assert_eq!(
                    (record.generation, record.back_end, record.mirror),
                    (1, 9, 10)
                );
                pair.rest(random.random_range(0..2_000_000)).await;
                pair.kill(&pair.first);
                await_promotion(&pair, &pair.second, 2).await;
                let record = record_in(&service);
                assert_eq!(
                    (record.generation, record.back_end, record.mirror),
                    (2, 10, 0)
                );
                expect_told(&pair, &pair.second, &work, "killed").await;
            });
        }
    }
}

/// Needs the window of the source to be closed, and the end of a back-end without its mirror: the back-end lives.
#[test]
fn a_back_end_that_is_cut_off_or_paused_past_its_lease_acknowledges_nothing_that_its_successor_lacks()
 {
    for seed in 0..6 {
        let pair = Pair::new([PLATFORMS[seed as usize % PLATFORMS.len()]; 2], seed);
        let world = pair.world.clone();
        pair.share_record("record", seed);
        world.block_on(async move {
            let work = working(&pair, StructureKind::BTree).await;
            pair.rest(400_000).await;
            let long = 20 * MIRROR_LEASE_NS;
            let (first, second) = (pair.first.machine(), pair.second.machine());
            match seed % 3 {
                0 => pair.first.process.borrow().pause(long),
                1 => pair.world.suspend(first, long),
                _ => {
                    pair.world.block(Some(first), Some(second), 0, long);
                    pair.world.block(Some(second), Some(first), 0, long);
                }
            }
            await_promotion(&pair, &pair.second, 2).await;
            pair.rest(2 * long).await;
            let end = pair.first.take_end().expect("the back-end has ended");
            let is_told = end.contains("the mirror is lost") || end.contains("it was succeeded");
            assert!(is_told, "{end}");
            expect_told(&pair, &pair.second, &work, &format!("seed {seed}")).await;
        });
    }
}

/// Needs the record: the successor is away, and could not tell.
#[test]
fn an_old_back_end_learns_from_the_record_that_it_was_succeeded_and_returns_as_the_mirror() {
    let pair = Pair::new([ANSWERED; 2], 1);
    let world = pair.world.clone();
    let service = pair.share_record("record", 1);
    world.block_on(async move {
        let work = working(&pair, StructureKind::BTree).await;
        pair.rest(400_000).await;
        pair.kill(&pair.first);
        await_promotion(&pair, &pair.second, 2).await;
        pair.kill(&pair.second);
        let served = pair.serve(&pair.first, Some(&pair.second)).await;
        let Err(ServeError::Attach(AttachError::Record(refused))) = served else {
            panic!("{served:?}");
        };
        let succeeded = StandingFault::Succeeded {
            back_end: 10,
            generation: 2,
            ours: 1,
        };
        assert_eq!(refused.fault, succeeded);
        assert!(refused.to_string().contains("Serve it as the mirror"));

        pair.serve_mirror(&pair.first);
        let served = pair.serve(&pair.second, Some(&pair.first)).await;
        served.expect("the first pool is of an earlier generation");
        pair.await_whole(&pair.second).await;
        assert_eq!(record_in(&service).mirror, 9);
        let (process, second) = pair.front_end(&pair.second).await;
        let writer = pair.writer(&second, work.domain).await;
        work.go_on(&process, writer);
        pair.rest(400_000).await;
        pair.kill(&pair.second);
        await_promotion(&pair, &pair.first, 3).await;
        expect_told(&pair, &pair.first, &work, "returned").await;
    });
}

/// Needs the mirror to ask the record before it counts as whole: without the store it is never promoted, and says so.
#[test]
pub fn without_the_store_a_back_end_serves_and_its_mirror_is_neither_bound_nor_promoted() {
    let pair = Pair::new([ANSWERED; 2], 2);
    let world = pair.world.clone();
    let service = pair.share_record("record", 2);
    world.block_on(async move {
        pair.create().await;
        service.kill(0);
        pair.serve_mirror(&pair.second);
        let served = pair.serve(&pair.first, Some(&pair.second)).await;
        served.expect("the store is not needed");
        let (process, front_end) = pair.front_end(&pair.first).await;
        let work = Work::begin(&process, &front_end, StructureKind::BTree).await;
        pair.rest(4 * MIRROR_LEASE_NS).await;
        let told = work.told.get();
        pair.rest(4 * MIRROR_LEASE_NS).await;
        assert!(work.told.get() > told, "{told}");
        let mirror = front_end.counts().await.expect("it serves").mirror;
        assert_eq!((mirror.bytes_to_copy, mirror.is_bound), (0, false));
        assert_eq!(mirror.store, stonecast_structures::StoreStat::Waiting);
        let operator = pair.operator();
        let port = operator.port(FRONT_END_COMPLETIONS).expect("a port");
        let refused = promote(&port, &operator.runtime(), pair.second.name).await;
        assert!(
            matches!(refused, Err(PromoteError::NotWhole)),
            "{refused:?}"
        );

        restart(&pair, &service);
        for _ in 0..100 {
            pair.rest(100_000_000).await;
            if front_end.counts().await.expect("it serves").mirror.is_bound {
                break;
            }
        }
        assert_eq!(record_in(&service).mirror, 10);
        service.kill(0);
        pair.kill(&pair.first);
        pair.rest(1_000 * MIRROR_LEASE_NS).await;
        assert_eq!(pair.second.take_end(), None, "nothing can be decided");
        restart(&pair, &service);
        await_promotion(&pair, &pair.second, 2).await;
        expect_told(&pair, &pair.second, &work, "the store is back").await;
    });
}

/// Needs the note in the pool, also of a record that is founded while the back-end serves.
#[test]
fn a_back_end_that_starts_without_the_store_founds_its_record_when_the_store_is_there() {
    let pair = Pair::new([ANSWERED; 2], 3);
    let world = pair.world.clone();
    let service = pair.share_record("record", 3);
    world.block_on(async move {
        pair.create().await;
        service.kill(0);
        let served = pair.serve(&pair.first, None).await;
        served.expect("the store is not needed");
        restart(&pair, &service);
        pair.rest(5_000_000_000).await;
        let record = record_in(&service);
        assert_eq!(
            (record.generation, record.back_end, record.mirror),
            (1, 9, 0)
        );
        pair.kill(&pair.first);
        pair.first.name_store(None);
        let served = pair.serve(&pair.first, None).await;
        let Err(ServeError::Service(ServiceError::Standing(refused))) = served else {
            panic!("{served:?}");
        };
        assert_eq!(refused, StandingError::Recorded);
    });
}

fn restart(pair: &Pair, service: &Rc<ConfigService>) {
    let machine = pair.operator_machine();
    let restarted = service.restart(&pair.world, 0, machine);
    restarted.expect("queues for the service");
}

/// Needs both to swap the same record, each before it acts: one of them wins, and the other is told by name.
#[test]
pub fn of_a_detachment_and_a_promotion_at_once_one_happens_and_the_other_is_refused() {
    let mut detached = 0;
    for seed in 0..16 {
        detached += u64::from(race(seed));
    }
    assert!((2..15).contains(&detached), "{detached} of 16");
}

/// Returns whether the detachment has won.
fn race(seed: u64) -> bool {
    let pair = Pair::new([ANSWERED; 2], seed);
    let world = pair.world.clone();
    let service = pair.share_record("record", seed);
    world.block_on(async move {
        let mut random = random_from_seed(seed);
        let work = working(&pair, StructureKind::HashTable).await;
        pair.rest(300_000).await;
        if seed.is_multiple_of(2) {
            service.set_faults(ServiceFaults {
                late_ns_max: 2_000_000,
                swap_late_per_million: 300_000,
                answer_lost_per_million: 200_000,
                ..ServiceFaults::default()
            });
        }
        pair.kill(&pair.first);
        let begin = MIRROR_LEASE_NS + random.random_range(0..8_000_000);
        pair.rest(begin).await;
        let detached = loop {
            match detach(Rc::new(pair.first.medium()), false).await {
                Err(DetachError::Record(unknown))
                    if matches!(unknown.fault, StandingFault::Store(_)) => {}
                decided => break decided,
            }
        };
        service.set_faults(ServiceFaults::default());
        match detached {
            Ok(generation) => {
                assert_eq!(generation, 2, "seed {seed}");
                pair.rest(100 * MIRROR_LEASE_NS).await;
                assert_eq!(pair.second.take_end(), None, "seed {seed}");
                let operator = pair.operator();
                let port = operator.port(FRONT_END_COMPLETIONS).expect("a port");
                let runtime = operator.runtime();
                let asking = promote(&port, &runtime, pair.second.name);
                let refused = runtime.within(1_000 * MIRROR_LEASE_NS, asking).await;
                let refused = refused.expect("the record says it");
                let is_named = matches!(refused, Err(PromoteError::NotNamed { generation: 2 }));
                assert!(is_named, "{refused:?}");
                expect_told(&pair, &pair.first, &work, &format!("seed {seed}")).await;
                true
            }
            Err(DetachError::Promoted {
                back_end: 10,
                generation: 2,
                ..
            }) => {
                await_promotion(&pair, &pair.second, 2).await;
                expect_told(&pair, &pair.second, &work, &format!("seed {seed}")).await;
                false
            }
            Err(other) => panic!("seed {seed}: {other}"),
        }
    })
}

/// Needs the record to be read again: the mirror has won, and its pool does not say so.
#[test]
fn a_mirror_that_ends_in_the_middle_of_its_promotion_completes_it() {
    let interrupted: u64 = (0..24).map(|seed| u64::from(interrupt(seed))).sum();
    assert!(interrupted > 8, "{interrupted} of 24");
}

/// Ends a mirror when the record is swapped, or at another moment. Returns whether the mirror has won by then, and its
/// pool does not say so.
fn interrupt(seed: u64) -> bool {
    let pair = Pair::new([ANSWERED; 2], seed);
    let world = pair.world.clone();
    let service = pair.share_record("record", seed);
    world.block_on(async move {
        let mut random = random_from_seed(seed);
        let work = working(&pair, StructureKind::BTree).await;
        pair.rest(300_000).await;
        pair.kill(&pair.first);
        match seed % 4 {
            0 => pair.rest(random.random_range(0..20_000_000)).await,
            _ => {
                while record_in(&service).generation == 1 {
                    pair.rest(10_000).await;
                }
            }
        }
        match seed % 2 {
            0 => pair.kill(&pair.second),
            _ => pair.cut_power(&pair.second),
        }
        let case = format!("seed {seed}: {:?}", record_in(&service));
        let has_won = record_in(&service).generation == 2;
        if generation_of_mirror(pair.second.medium().bytes()).is_none() {
            assert!(has_won, "{case}");
            expect_told(&pair, &pair.second, &work, &case).await;
            return false;
        }
        pair.serve_mirror(&pair.second);
        // The old back-end is back in time.
        let served = pair.serve(&pair.first, Some(&pair.second)).await;
        assert_eq!(served.is_err(), has_won, "{case}, {served:?}");
        if !has_won {
            pair.rest(MIRROR_LEASE_NS).await;
            assert_eq!(pair.first.take_end(), None, "{case}");
            pair.kill(&pair.first);
        }
        await_promotion(&pair, &pair.second, 2).await;
        let detached = detach(Rc::new(pair.first.medium()), false).await;
        let is_told = matches!(detached, Err(DetachError::Promoted { .. }));
        assert!(is_told, "{case}: {detached:?}");
        expect_told(&pair, &pair.second, &work, &case).await;
        has_won
    })
}

/// Needs the swap of each opening: a detachment that is still under way would leave the mirror behind, and everything
/// that was acknowledged since.
#[test]
pub fn a_detachment_that_was_given_up_does_not_take_effect_after_the_back_end_has_started() {
    let pair = Pair::new([ANSWERED; 2], 5);
    let world = pair.world.clone();
    let service = pair.share_record("record", 5);
    world.block_on(async move {
        let work = working(&pair, StructureKind::BTree).await;
        pair.rest(300_000).await;
        pair.kill(&pair.first);
        service.set_faults(ServiceFaults {
            swap_late_per_million: 1_000_000,
            late_ns_max: 40_000_000,
            ..ServiceFaults::default()
        });
        let medium = Rc::new(pair.first.medium());
        let runtime = pair.first.process.borrow().runtime();
        let given_up = runtime.within(3_000_000, detach(medium, false)).await;
        assert!(given_up.is_err(), "its swap is under way");
        service.set_faults(ServiceFaults::default());
        let served = pair.serve(&pair.first, Some(&pair.second)).await;
        served.expect("the mirror is there");
        pair.rest(60_000_000).await;
        let (process, front_end) = pair.front_end(&pair.first).await;
        let writer = pair.writer(&front_end, work.domain).await;
        work.go_on(&process, writer);
        pair.rest(300_000).await;
        assert_eq!(record_in(&service).generation, 1);
        pair.kill(&pair.first);
        await_promotion(&pair, &pair.second, 2).await;
        expect_told(&pair, &pair.second, &work, "given up").await;
    });
}

/// Needs the record at the start: a crash came between the record and the pool.
#[test]
fn a_detachment_that_the_record_knows_and_the_pool_does_not_is_noted_at_the_next_start() {
    let pair = Pair::new([ANSWERED; 2], 6);
    let world = pair.world.clone();
    let service = pair.share_record("record", 6);
    world.block_on(async move {
        let work = working(&pair, StructureKind::BTree).await;
        pair.rest(300_000).await;
        pair.kill(&pair.first);
        pair.kill(&pair.second);
        let detached = StandingRecord {
            generation: 2,
            mirror: 0,
            ..record_in(&service)
        };
        write(&pair, &service, &detached.encode()).await;
        pair.serve_mirror(&pair.second);
        pair.rest(20 * MIRROR_LEASE_NS).await;
        assert_eq!(pair.second.take_end(), None, "it was detached");
        expect_told(&pair, &pair.first, &work, "detached").await;
        let twice = detach(Rc::new(pair.first.medium()), false).await;
        assert!(matches!(twice, Err(DetachError::HasNone)), "{twice:?}");
    });
}

async fn write(pair: &Pair, service: &Rc<ConfigService>, bytes: &[u8]) {
    let operator = pair.operator();
    let port = operator.port(16).expect("a port");
    let store = service.store(&port, &operator.runtime());
    let stored = store.read().await.expect("the service is there");
    let revision = stored.map(|stored| stored.revision);
    let swapped = store.compare_and_set(revision, bytes).await;
    swapped.expect("the service is there");
}

/// Needs the record to be judged before the pool is served.
#[test]
fn a_record_that_is_damaged_or_of_other_structures_or_lost_is_refused_by_name() {
    let pair = Pair::new([ANSWERED; 2], 7);
    let world = pair.world.clone();
    let service = pair.share_record("record", 7);
    world.block_on(async move {
        pair.begin().await;
        pair.kill(&pair.first);
        pair.kill(&pair.second);
        let record = record_in(&service);
        let mut damaged = record.encode();
        *damaged.last_mut().expect("it has bytes") ^= 1;
        let foreign = StandingRecord {
            content: 77,
            ..record
        };
        let (content, ours) = (77, 9);
        for (bytes, expected) in [
            (damaged, StandingFault::Damaged),
            (b"another".to_vec(), StandingFault::NotOne),
            (foreign.encode(), StandingFault::Foreign { content, ours }),
        ] {
            write(&pair, &service, &bytes).await;
            for served in [
                pair.serve(&pair.first, Some(&pair.second)).await,
                pair.serve(&pair.first, None).await,
            ] {
                let (Err(ServeError::Attach(AttachError::Record(refused)))
                | Err(ServeError::Service(ServiceError::Record(refused)))) = served
                else {
                    panic!("{served:?}");
                };
                assert_eq!(refused.fault, expected);
                assert_eq!(refused.store, "record");
            }
            let detached = detach(Rc::new(pair.first.medium()), true).await;
            assert!(
                matches!(detached, Err(DetachError::Record(_))),
                "{detached:?}"
            );
        }

        let empty = pair.share_record("empty", 8);
        let served = pair.serve(&pair.first, Some(&pair.second)).await;
        let refused = served.expect_err("the record is elsewhere").to_string();
        assert!(refused.contains("name that store"), "{refused}");
        let refused = detach(Rc::new(pair.first.medium()), false).await;
        assert!(
            matches!(refused, Err(DetachError::Record(_))),
            "{refused:?}"
        );
        let detached = detach(Rc::new(pair.first.medium()), true).await;
        assert_eq!(detached.expect("the mirror is destroyed, too"), 2);
        assert_eq!(record_in(&empty).generation, 2);
        pair.serve(&pair.first, None).await.expect("it is alone");
    });
}

/// Needs both sides to share the record, or none of them: either could go on by a word that the other does not hear.
#[test]
fn a_record_of_one_side_alone_is_refused_and_a_pool_keeps_its_record() {
    let pair = Pair::new([ANSWERED; 2], 8);
    let world = pair.world.clone();
    let service = pair.share_record("record", 8);
    world.block_on(async move {
        pair.create().await;
        for (first, second) in [(Some(&service), None), (None, Some(&service))] {
            pair.first.name_store(first);
            pair.second.name_store(second);
            pair.kill(&pair.second);
            pair.serve_mirror(&pair.second);
            let served = pair.serve(&pair.first, Some(&pair.second)).await;
            let Err(ServeError::Attach(AttachError::RecordOfOne { is_recorded })) = served else {
                panic!("{served:?}");
            };
            assert_eq!(is_recorded, first.is_some());
            pair.kill(&pair.first);
            // The first one has a record from now on.
            if first.is_some() {
                let served = pair.serve(&pair.first, None).await;
                served.expect("the store is there");
                pair.first.name_store(None);
                pair.kill(&pair.first);
                let served = pair.serve(&pair.first, None).await;
                let Err(ServeError::Service(ServiceError::Standing(refused))) = served else {
                    panic!("{served:?}");
                };
                assert_eq!(refused, StandingError::Recorded);
                let refused = detach(Rc::new(pair.first.medium()), true).await;
                let is_told = matches!(refused, Err(DetachError::Standing(_)));
                assert!(is_told, "{refused:?}");
                return;
            }
        }
    });
}

/// Needs the mirror to be asked before the record is founded: it may have been promoted without one.
#[test]
fn a_pool_that_was_bound_without_a_record_gets_one_with_its_mirror() {
    for promoted in [false, true] {
        let pair = Pair::new([ANSWERED; 2], 9);
        let world = pair.world.clone();
        world.block_on(async move {
            let work = working(&pair, StructureKind::BTree).await;
            pair.rest(300_000).await;
            pair.kill(&pair.first);
            if promoted {
                pair.ask_to_promote(&pair.second).await;
            }
            pair.kill(&pair.second);
            let service = pair.share_record("record", 9);
            let refused = detach(Rc::new(pair.first.medium()), false).await;
            assert!(
                matches!(refused, Err(DetachError::NotStated)),
                "{refused:?}"
            );
            match promoted {
                false => pair.serve_mirror(&pair.second),
                true => pair.serve(&pair.second, None).await.expect("it is sound"),
            }
            let served = pair.serve(&pair.first, Some(&pair.second)).await;
            if promoted {
                let is_told = matches!(
                    served,
                    Err(ServeError::Attach(AttachError::Superseded {
                        theirs: 2,
                        ..
                    }))
                );
                assert!(is_told, "{served:?}");
                return;
            }
            served.expect("both share the record from now on");
            assert_eq!(record_in(&service).mirror, 10);
            pair.rest(1_000_000).await;
            pair.kill(&pair.first);
            await_promotion(&pair, &pair.second, 2).await;
            expect_told(&pair, &pair.second, &work, "bound before").await;
        });
    }
}
