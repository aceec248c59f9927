//! Front-ends that append to the logs of back-end and mirror at once.

use std::rc::Rc;

use futures_util::future::join;
use rand::RngExt as _;
use stonecast_base::random_from_seed;
use stonecast_fabric::decorate::{Meter, Observed};
use stonecast_fabric_sim::{LocalClock, Process};
use stonecast_media::{Ddio, DeclaredPlatform, PersistenceDomain};
use stonecast_structures::shapes::StructureKind;
use stonecast_structures::{
    BackEnd, FRONT_END_COMPLETIONS, FrontEndError, Key as _, NoMirrorLog, Ticket, Verb, Writer,
};

use super::pair::Pair;
use super::{Work, seeds};
use crate::sessions::{ANSWERED, LEASE_NS, PLATFORMS, create, insert, keys, operation, platform};

/// The platforms on which a record needs no processor.
const ONE_SIDED: [DeclaredPlatform; 3] = [
    platform(PersistenceDomain::Dmp, Ddio::Off),
    platform(PersistenceDomain::Mhp, Ddio::On),
    platform(PersistenceDomain::Wsp, Ddio::On),
];

/// Stages the insertion of a key.
async fn stage(writer: &mut Writer, structure: u32, key: u64) -> Ticket {
    let (encoded, value) = (key.encoded(), (key * 3).to_le_bytes());
    let insert = operation(structure, Verb::Insert, &encoded, &value);
    let (_, ticket) = writer.stage(&insert).await.expect("there is room");
    ticket
}

/// A writer with a hash table, which appends to both logs.
async fn begin(front_end: &Rc<BackEnd>) -> (Writer, u32, u32) {
    let domain = front_end.create_domain(2).await.expect("there is room");
    let mut writer = front_end.writer(domain).await.expect("the domain is free");
    let table = create(&mut writer, StructureKind::HashTable).await;
    writer.publish().await.expect("the tenure lasts");
    writer.mirror_log().expect("the mirror is whole");
    (writer, domain, table)
}

/// Loses the back-end for good, and expects every key below `told` at the mirror, and no gap.
async fn expect_at_the_mirror(pair: &Pair, (domain, structure): (u32, u32), told: u64, case: &str) {
    pair.kill(&pair.first);
    pair.promote(&pair.second).await;
    let (_process, second) = pair.front_end(&pair.second).await;
    let found = keys(&second, domain, structure, told + 50).await;
    let count = found.len() as u64;
    assert_eq!(found, (0..count).collect::<Vec<_>>(), "{case}");
    assert!(count >= told, "{case}: {count} of {told} keys are there");
}

/// A front-end on a machine of its own, and the meter of its device.
async fn metered(pair: &Pair) -> (Process, Rc<BackEnd>, Rc<Meter>) {
    let process = pair.operator();
    let meter = Rc::<Meter>::default();
    let device = Rc::new(Observed::new(process.open_device(), meter.clone()));
    let port = process.port_on(device, FRONT_END_COMPLETIONS);
    let back_end = BackEnd::connect(&port.expect("a port"), pair.first.name).await;
    (process, back_end.expect("the back-end accepts"), meter)
}

/// The cost of a ticket as a fact: one append to each log at the same time, and no message.
#[test]
fn a_ticket_takes_the_time_of_one_append_whether_the_pool_has_a_mirror_or_not() {
    for platform in ONE_SIDED {
        let mut times = Vec::new();
        for is_mirrored in [false, true] {
            let pair = Pair::new([platform; 2], 1);
            let world = pair.world.clone();
            times.push(world.block_on(async move {
                match is_mirrored {
                    true => pair.begin().await,
                    false => {
                        pair.create().await;
                        pair.serve(&pair.first, None).await.expect("it is sound");
                    }
                }
                let (process, front_end, meter) = metered(&pair).await;
                let domain = front_end.create_domain(2).await.expect("there is room");
                let mut writer = front_end.writer(domain).await.expect("the domain is free");
                assert_eq!(writer.mirror_log().is_ok(), is_mirrored);
                let table = create(&mut writer, StructureKind::HashTable).await;
                insert(&mut writer, table, 0).await;
                writer.publish().await.expect("the tenure lasts");
                let before = meter.counts();
                let began_at = process.runtime().now();
                let ticket = stage(&mut writer, table, 0).await;
                ticket.await.expect("the tenure lasts");
                let time_ns = process.runtime().now() - began_at;
                let cost = meter.counts() - before;
                let copies = 1 + u64::from(is_mirrored);
                let found = (cost.reads, cost.writes, cost.sends, cost.doorbells);
                assert_eq!(found, (copies, copies, 0, copies), "{platform:?}");

                // A publication sends nothing to the mirror: the back-end copies the records.
                let before = meter.counts();
                insert(&mut writer, table, 0).await;
                writer.publish().await.expect("the tenure lasts");
                let cost = meter.counts() - before;
                let found = (cost.reads, cost.writes, cost.sends, cost.doorbells);
                assert_eq!(found, (0, 1, 1, 1), "{platform:?}");

                // A publication that begins is an append to both, and a notice.
                let before = meter.counts();
                insert(&mut writer, table, 0).await;
                let publication = writer.start_publication().await.expect("the tenure lasts");
                let cost = meter.counts() - before;
                let found = (cost.reads, cost.writes, cost.sends, cost.doorbells);
                assert_eq!(found, (copies, copies, 1, copies + 1), "{platform:?}");
                publication.await.expect("the tenure lasts");
                time_ns
            }));
        }
        let [alone, mirrored] = times[..] else {
            unreachable!("both were measured");
        };
        assert!(
            mirrored * 100 <= alone * 115,
            "{platform:?}: {alone} ns alone, {mirrored} ns with a mirror"
        );
    }
}

/// Needs the record of a publication in both logs, and nothing of its notice: the back-end stands still behind it, and
/// is lost for good.
#[test]
fn tickets_behind_a_publication_are_at_the_mirror_whatever_becomes_of_the_notice() {
    for platform in ONE_SIDED {
        for publications in 1..4 {
            let pair = Pair::new([platform; 2], 8);
            let world = pair.world.clone();
            world.block_on(async move {
                pair.begin().await;
                let (process, front_end) = pair.front_end(&pair.first).await;
                let (mut writer, domain, table) = begin(&front_end).await;
                pair.first.process.borrow().pause(10_000_000_000);
                for key in 0..publications {
                    insert(&mut writer, table, key).await;
                    let _publication = writer.start_publication().await.expect("the tenure lasts");
                }
                let ticket = stage(&mut writer, table, publications).await;
                let ended = process.runtime().within(1_000_000, ticket).await;
                ended.expect("it asks nobody").expect("the tenure lasts");
                let case = format!("{platform:?}, {publications} publications");
                expect_at_the_mirror(&pair, (domain, table), publications + 1, &case).await;
            });
        }
    }
}

/// Needs the wait for the append to the mirror, and the answer of the back-end in its place when the connection ends.
#[test]
pub fn a_ticket_waits_for_the_mirror_and_goes_by_the_back_end_when_the_mirror_is_out_of_reach() {
    for platform in ONE_SIDED {
        let pair = Pair::new([platform; 2], 2);
        let world = pair.world.clone();
        world.block_on(async move {
            pair.begin().await;
            let here = pair.operator_machine();
            let (process, front_end) = pair.front_end_at(here, &pair.first).await;
            let (mut writer, domain, table) = begin(&front_end).await;
            let there = pair.second.machine();
            pair.world.block(Some(here), Some(there), 0, 1_000_000_000);
            let mut ticket = stage(&mut writer, table, 0).await;
            let runtime = process.runtime();
            for _ in 0..100 {
                match runtime.within(10_000_000, &mut ticket).await {
                    // The owner of the tenure shows that it lives.
                    Err(_) => writer.renew().await.expect("the tenure lasts"),
                    Ok(ended) => {
                        ended.expect("an answer of the back-end speaks for both copies");
                        break;
                    }
                }
            }
            assert!(ticket.is_durable(), "{platform:?}");
            let lost = writer.mirror_log().expect_err("it is out of reach");
            assert!(matches!(*lost, NoMirrorLog::Lost { .. }), "{lost}");
            let later = stage(&mut writer, table, 1).await;
            later.await.expect("the tenure lasts");
            let case = format!("{platform:?}");
            expect_at_the_mirror(&pair, (domain, table), 2, &case).await;
        });
    }
}

/// Needs the copy of the words of a record without the rest of the line: the back-end takes a record while the next one
/// lands, which nobody tells the back-end of.
#[test]
pub fn a_record_that_a_copy_of_the_one_before_meets_stays_in_the_mirror() {
    for step in 0..50 {
        let pair = Pair::new([ONE_SIDED[1]; 2], 7);
        let world = pair.world.clone();
        world.block_on(async move {
            pair.begin().await;
            let (process, front_end) = pair.front_end(&pair.first).await;
            let (mut writer, domain, table) = begin(&front_end).await;
            let first = stage(&mut writer, table, 0).await;
            first.await.expect("the tenure lasts");
            let second = stage(&mut writer, table, 1).await;
            let later = async {
                process.runtime().sleep(step * 100).await;
                second.await
            };
            let (renewed, ended) = join(writer.renew(), later).await;
            renewed.expect("the tenure lasts");
            ended.expect("the tenure lasts");
            let case = format!("{} ns behind the notice", step * 100);
            expect_at_the_mirror(&pair, (domain, table), 2, &case).await;
        });
    }
}

/// Needs the windows of front-ends to be closed with that of their source: the memory of the old back-end still says
/// that the tenure lasts.
#[test]
pub fn after_a_promotion_no_ticket_ends_with_an_append_to_both_logs() {
    for platform in ONE_SIDED {
        let pair = Pair::new([platform; 2], 3);
        let world = pair.world.clone();
        world.block_on(async move {
            pair.begin().await;
            let (process, front_end) = pair.front_end(&pair.first).await;
            let (mut writer, _, table) = begin(&front_end).await;
            pair.first.set_clock(LocalClock {
                ahead_ns: 0,
                drift_ppm: -999_000,
            });
            assert_eq!(pair.ask_to_promote(&pair.second).await, 2);
            let ticket = stage(&mut writer, table, 7).await;
            let ended = process.runtime().within(100_000_000, ticket).await;
            assert!(!matches!(ended, Ok(Ok(()))), "{platform:?}");
        });
    }
}

/// Needs the window at the mirror to be closed before the log is given to another tenure: the owner of the old one does
/// not know that it is over.
#[test]
pub fn an_owner_whose_tenure_was_ended_writes_nothing_into_the_next_log_at_the_mirror() {
    for platform in ONE_SIDED {
        let pair = Pair::new([platform; 2], 4);
        let world = pair.world.clone();
        world.block_on(async move {
            pair.begin().await;
            let (_first, front_end) = pair.front_end(&pair.first).await;
            let (mut old, domain, table) = begin(&front_end).await;
            let (_second, other) = pair.front_end(&pair.first).await;
            // The owner is silent for a lease.
            pair.rest(2 * LEASE_NS + 10_000_000).await;
            let mut writer = pair.writer(&other, domain).await;
            writer.mirror_log().expect("the mirror is whole");
            // The records of so many operations reach beyond the place of the late record.
            const TOLD: u64 = 200;
            for key in 0..TOLD {
                let ticket = stage(&mut writer, table, key).await;
                ticket.await.expect("the tenure lasts");
            }
            let late = stage(&mut old, table, 99).await;
            let over = late.await.expect_err("the tenure is over");
            assert!(
                matches!(over, FrontEndError::Over { .. } | FrontEndError::Gone),
                "{over}"
            );
            let case = format!("{platform:?}");
            expect_at_the_mirror(&pair, (domain, table), TOLD, &case).await;
        });
    }
}

/// Ends the work of a front-end in each way, with a successor, before the back-end is lost for good.
#[test]
fn a_ticket_that_ended_is_at_the_mirror_however_its_tenure_ended() {
    let mut told = 0;
    for seed in seeds(36) {
        told += end_in_some_way(ONE_SIDED[seed as usize % ONE_SIDED.len()], seed);
    }
    assert!(told > 500, "{told} keys were told");
}

fn end_in_some_way(platform: DeclaredPlatform, seed: u64) -> u64 {
    let pair = Pair::new([platform; 2], seed);
    let world = pair.world.clone();
    world.block_on(async move {
        let mut random = random_from_seed(seed);
        pair.begin().await;
        let here = pair.operator_machine();
        let (process, front_end) = pair.front_end_at(here, &pair.first).await;
        let work = Work::begin(&process, &front_end, StructureKind::HashTable).await;
        pair.rest(random.random_range(0..400_000)).await;
        let [first, second] = [&pair.first, &pair.second].map(|node| node.machine());
        let block = |from, to| pair.world.block(Some(from), Some(to), 0, 2_000_000_000);
        match seed / 3 % 6 {
            0 => process.kill(),
            1 => block(here, first),
            2 => block(here, second),
            3 => block(first, here),
            4 => process.pause(3 * LEASE_NS),
            _ => {
                pair.kill(&pair.first);
                let served = pair.serve(&pair.first, Some(&pair.second)).await;
                served.expect("the mirror is there");
            }
        }
        pair.rest(random.random_range(0..400_000)).await;
        let case = format!("{platform:?}, seed {seed}");
        let (successor, other) = pair.front_end(&pair.first).await;
        let writer = pair.writer(&other, work.domain).await;
        writer.mirror_log().expect("the mirror is whole");
        let told = work.told.get();
        let found = keys(&other, work.domain, work.structure, told).await;
        assert_eq!(found, (0..told).collect::<Vec<_>>(), "{case}");
        work.go_on(&successor, writer);
        pair.rest(random.random_range(0..400_000)).await;
        let told = work.told.get();
        let end = pair.first.take_end();
        assert_eq!(end, None, "{case}");
        expect_at_the_mirror(&pair, (work.domain, work.structure), told, &case).await;
        told
    })
}

/// Needs the wait for the mirror to end with the back-end: the mirror stands still at some moment of the way to its
/// log.
#[test]
fn a_front_end_waits_for_a_mirror_that_stands_still_no_longer_than_its_back_end() {
    for moment in 0..24 {
        let pair = Pair::new([ONE_SIDED[0]; 2], moment);
        let world = pair.world.clone();
        world.block_on(async move {
            pair.begin().await;
            let (process, front_end) = pair.front_end(&pair.first).await;
            let domain = front_end.create_domain(2).await.expect("there is room");
            let stopping = async {
                pair.rest(moment * 1_000).await;
                pair.second.process.borrow().pause(10_000_000_000);
                while pair.first.take_end().is_none() {
                    pair.rest(1_000_000).await;
                }
                // A back-end that has lost its mirror ends its process.
                pair.kill(&pair.first);
            };
            let runtime = process.runtime();
            let asking = runtime.within(1_000_000_000, front_end.writer(domain));
            let (asked, ()) = join(asking, stopping).await;
            assert!(
                asked.is_ok(),
                "at {moment} us the call waits for the mirror"
            );
        });
    }
}

/// Needs each reason at its place.
#[test]
fn a_tenure_without_a_log_at_the_mirror_says_why_and_its_tickets_hold() {
    let [one_sided, ..] = ONE_SIDED;
    let reason = |writer: &Writer| writer.mirror_log().expect_err("there is no log");
    for platforms in [
        [ANSWERED, one_sided],
        [one_sided, ANSWERED],
        [PLATFORMS[1]; 2],
    ] {
        let pair = Pair::new(platforms, 5);
        let world = pair.world.clone();
        world.block_on(async move {
            pair.begin().await;
            let (_process, front_end) = pair.front_end(&pair.first).await;
            let domain = front_end.create_domain(2).await.expect("there is room");
            let writer = front_end.writer(domain).await.expect("the domain is free");
            let why = reason(&writer);
            assert!(matches!(*why, NoMirrorLog::NeedsProcessor), "{why}");
        });
    }
    let pair = Pair::new([one_sided; 2], 6);
    let world = pair.world.clone();
    world.block_on(async move {
        pair.create().await;
        pair.serve_mirror(&pair.second);
        let served = pair.serve(&pair.first, Some(&pair.second)).await;
        served.expect("the mirror is empty");
        let here = pair.operator_machine();
        let (_process, front_end) = pair.front_end_at(here, &pair.first).await;
        let domain = front_end.create_domain(2).await.expect("there is room");
        let mut writer = front_end.writer(domain).await.expect("the domain is free");
        let why = reason(&writer);
        assert!(matches!(*why, NoMirrorLog::NotWhole), "{why}");
        let table = create(&mut writer, StructureKind::HashTable).await;
        let ticket = stage(&mut writer, table, 0).await;
        ticket.await.expect("the tenure lasts");
        pair.await_whole(&pair.first).await;
        let why = reason(&writer);
        assert!(matches!(*why, NoMirrorLog::NotWhole), "{why}");
        writer.release().await.expect("the tenure lasts");

        let there = pair.second.machine();
        pair.world.block(Some(here), Some(there), 0, 10_000_000_000);
        let mut writer = pair.writer(&front_end, domain).await;
        let why = reason(&writer);
        assert!(matches!(*why, NoMirrorLog::Unreachable { .. }), "{why}");
        let ticket = stage(&mut writer, table, 1).await;
        ticket.await.expect("the tenure lasts");
        expect_at_the_mirror(&pair, (domain, table), 2, "out of reach").await;
    });
}
