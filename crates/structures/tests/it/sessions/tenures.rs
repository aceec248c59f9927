//! Writers, their tenures, and the ends of both.

use futures_util::FutureExt as _;
use stonecast_fabric_sim::MachineOptions;
use stonecast_media::{Ddio, PersistenceDomain};
use stonecast_structures::shapes::StructureKind;
use stonecast_structures::{FrontEndError, Key as _, Verb};

use super::scene::{LEASE_NS, Scene, create, insert, keys, operation, platform};

/// Needs the hand-over at the end of a connection: the operations that were flushed and not published are executed.
#[test]
fn a_writer_is_seen_by_readers_and_its_successor_has_every_acknowledged_operation() {
    for seed in 0..3 {
        let scene = Scene::new(seed);
        let world = scene.world.clone();
        world.block_on(async move {
            scene.create().await;
            scene.serve().await;
            let (process, first) = scene.front_end().await;
            let domain = first.create_domain(3).await.expect("there is room");
            let mut writer = first.writer(domain).await.expect("the domain is free");
            let table = create(&mut writer, StructureKind::HashTable).await;
            let tree = create(&mut writer, StructureKind::BTree).await;
            for key in 0..40 {
                insert(&mut writer, table, key).await;
                insert(&mut writer, tree, key).await;
            }
            writer.publish().await.expect("the tenure lasts");
            let (_second_process, second) = scene.front_end().await;
            for structure in [table, tree] {
                let found = keys(&second, domain, structure, 60).await;
                assert_eq!(found, (0..40).collect::<Vec<_>>());
            }
            let held = second.writer(domain).await.err().expect("it has a writer");
            let expected = format!("domain {domain} has a writer: tenure 1");
            assert_eq!(held.to_string(), expected);

            for key in 40..50 {
                insert(&mut writer, tree, key).await;
            }
            writer.flush().await.expect("the tenure lasts");
            assert_eq!(keys(&second, domain, tree, 60).await.len(), 40);
            process.kill();
            let successor = scene.writer(&second, domain).await;
            assert_eq!(successor.tenure(), 2);
            drop(successor);
            assert_eq!(keys(&second, domain, tree, 60).await.len(), 50);
            drop((first, writer));
        });
    }
}

/// Needs the end of silent leases, and the closed window.
#[test]
fn a_silent_writer_loses_its_tenure_and_writes_nothing_more() {
    let scene = Scene::new(7);
    let world = scene.world.clone();
    world.block_on(async move {
        scene.create().await;
        scene.serve().await;
        let (_first_process, first) = scene.front_end().await;
        let domain = first.create_domain(2).await.expect("there is room");
        let mut writer = first.writer(domain).await.expect("the domain is free");
        let table = create(&mut writer, StructureKind::HashTable).await;
        insert(&mut writer, table, 1).await;
        writer.publish().await.expect("the tenure lasts");
        scene.rest(2 * LEASE_NS).await;
        let (_second_process, second) = scene.front_end().await;
        let mut successor = scene.writer(&second, domain).await;
        insert(&mut successor, table, 2).await;
        successor.publish().await.expect("the tenure lasts");

        let late = operation(table, Verb::Insert, &[0; 8], &[9; 8]);
        let staged = writer.stage(&late).await;
        let over = match staged {
            Ok(_) => writer.publish().await.expect_err("the tenure is over"),
            Err(error) => error,
        };
        println!("{over}");
        assert_eq!(keys(&second, domain, table, 5).await, [1, 2]);
    });
}

/// Needs the end of silent leases, and the closed window: what the writer has sent meanwhile arrives when the link has
/// healed.
#[test]
fn a_writer_whose_link_is_cut_past_its_lease_is_succeeded_and_writes_nothing_when_the_link_heals() {
    for seed in 0..4 {
        let scene = Scene::new(seed);
        let world = scene.world.clone();
        world.clone().block_on(async move {
            scene.create().await;
            scene.serve().await;
            let machine = world.machine(MachineOptions::new(scene.profile));
            let (process, first) = scene.front_end_on(machine).await;
            let (_second_process, second) = scene.front_end().await;
            let domain = first.create_domain(2).await.expect("there is room");
            let mut writer = first.writer(domain).await.expect("the domain is free");
            let table = create(&mut writer, StructureKind::HashTable).await;
            insert(&mut writer, table, 1).await;
            writer.publish().await.expect("the tenure lasts");
            let cut_ns = 3 * LEASE_NS;
            world.block(Some(machine), Some(scene.machine), 0, cut_ns);
            world.block(Some(scene.machine), Some(machine), 0, cut_ns);
            let healed_at = process.runtime().now() + cut_ns;
            let late = async {
                insert(&mut writer, table, 9).await;
                writer.publish().await
            };
            let successor = async {
                let mut successor = scene.writer(&second, domain).await;
                insert(&mut successor, table, 2).await;
                successor.publish().await.expect("the tenure lasts");
                assert!(process.runtime().now() < healed_at, "the lease ends first");
                successor
            };
            let (late, successor) = futures_util::future::join(late, successor).await;
            let late = late.expect_err("the tenure is over");
            assert!(process.runtime().now() >= healed_at, "{late}");
            assert_eq!(keys(&second, domain, table, 20).await, [1, 2]);
            // The healed front-end goes on when the lease of its successor is over, too.
            drop(successor);
            let (_process, first) = scene.front_end_on(machine).await;
            let mut writer = scene.writer(&first, domain).await;
            insert(&mut writer, table, 3).await;
            writer.publish().await.expect("the tenure lasts");
            assert_eq!(keys(&second, domain, table, 20).await, [1, 2, 3]);
        });
    }
}

/// Needs the look at the tenure word behind an answer: everything else is known to the writer.
#[test]
pub fn a_writer_whose_tenure_is_over_answers_nothing_from_its_memory() {
    let scene = Scene::new(9);
    let world = scene.world.clone();
    world.block_on(async move {
        scene.create().await;
        scene.serve().await;
        let (_first_process, first) = scene.front_end().await;
        let domain = first.create_domain(2).await.expect("there is room");
        let mut writer = first.writer(domain).await.expect("the domain is free");
        let tree = create(&mut writer, StructureKind::BTree).await;
        insert(&mut writer, tree, 1).await;
        writer.publish().await.expect("the tenure lasts");
        let structure = writer.roots().structure(tree).expect("it was created");
        let key = 1_u64.encoded();
        let known = writer.get(&structure, &key).await;
        assert_eq!(
            known.expect("it is whole"),
            Some(3_u64.to_le_bytes().into())
        );
        scene.rest(2 * LEASE_NS).await;
        let (_second_process, second) = scene.front_end().await;
        let mut successor = scene.writer(&second, domain).await;
        let change = operation(tree, Verb::Update, &key, &[9; 8]);
        let (_, _ticket) = successor.stage(&change).await.expect("there is room");
        successor.publish().await.expect("the tenure lasts");
        // The reads of a transaction are provisional, and these are never confirmed.
        let read = writer.read_staged(&[(tree, &key)]).await;
        assert_eq!(
            read.expect("it is known"),
            [Some(3_u64.to_le_bytes().into())]
        );
        let over = writer.confirm().await.expect_err("the tenure is over");
        assert!(matches!(over, FrontEndError::Over { .. }), "{over}");
        let over = writer.get(&structure, &key).await;
        let over = over.expect_err("the tenure is over");
        assert!(matches!(over, FrontEndError::Over { .. }), "{over}");
    });
}

/// Needs the look at the log before a lease ends: tickets of a one-sided plan ask nobody.
#[test]
fn a_writer_that_appends_and_asks_nothing_keeps_its_tenure() {
    let scene = Scene::on(platform(PersistenceDomain::Mhp, Ddio::On), 8);
    let world = scene.world.clone();
    world.block_on(async move {
        scene.create().await;
        scene.serve().await;
        let (_process, front_end) = scene.front_end().await;
        let domain = front_end.create_domain(2).await.expect("there is room");
        let mut writer = front_end.writer(domain).await.expect("the domain is free");
        let table = create(&mut writer, StructureKind::HashTable).await;
        for key in 0..12 {
            insert(&mut writer, table, key).await;
            writer.flush().await.expect("the tenure lasts");
            scene.rest(LEASE_NS / 2).await;
        }
        writer.publish().await.expect("the tenure lasts");
        assert_eq!(keys(&front_end, domain, table, 20).await.len(), 12);
        scene.rest(3 * LEASE_NS).await;
        let over = writer.renew().await.expect_err("it was silent");
        assert!(matches!(over, FrontEndError::Over { .. }), "{over}");
    });
}

/// Needs room in the send queue for a READ behind each record: tickets that are asked one by one go out one by one.
#[test]
fn a_writer_reads_while_hundreds_of_its_tickets_were_asked_one_by_one() {
    let scene = Scene::on(platform(PersistenceDomain::Mhp, Ddio::On), 8);
    let world = scene.world.clone();
    world.block_on(async move {
        scene.create().await;
        scene.serve().await;
        let (_process, front_end) = scene.front_end().await;
        let domain = front_end.create_domain(2).await.expect("there is room");
        let mut writer = front_end.writer(domain).await.expect("the domain is free");
        let table = create(&mut writer, StructureKind::HashTable).await;
        let (key, value) = (7_u64.encoded(), 21_u64.to_le_bytes());
        insert(&mut writer, table, 7).await;
        writer.publish().await.expect("the tenure lasts");
        let mut reader = front_end.reader(domain).await.expect("there is the domain");
        let roots = reader.roots().await.expect("the table is whole");
        let mut tickets = Vec::new();
        for _ in 0..400 {
            let change = operation(table, Verb::Update, &key, &value);
            let (_, ticket) = writer.stage(&change).await.expect("there is room");
            let mut ticket = ticket.into_future().boxed_local();
            let asked = (&mut ticket).now_or_never();
            assert!(asked.is_none(), "it takes a round trip");
            tickets.push(ticket);
        }
        let found = reader.get(&roots, table, &key).await.expect("it is whole");
        assert_eq!(found, Some(value.to_vec()));
        for ticket in tickets {
            ticket.await.expect("the tenure lasts");
        }
    });
}

/// Needs the end of all tenures at a restart, and the replay.
#[test]
fn a_back_end_that_was_killed_serves_every_acknowledged_operation() {
    for seed in 0..3 {
        let mut scene = Scene::new(seed);
        let world = scene.world.clone();
        world.block_on(async move {
            scene.create().await;
            scene.serve().await;
            let (_process, first) = scene.front_end().await;
            let domain = first.create_domain(3).await.expect("there is room");
            let mut writer = first.writer(domain).await.expect("the domain is free");
            let tree = create(&mut writer, StructureKind::BTree).await;
            for key in 0..30 {
                insert(&mut writer, tree, key).await;
            }
            writer.publish().await.expect("the tenure lasts");
            for key in 30..35 {
                insert(&mut writer, tree, key).await;
            }
            writer.flush().await.expect("the tenure lasts");
            scene.restart().await;
            let (_second_process, second) = scene.front_end().await;
            assert_eq!(keys(&second, domain, tree, 60).await.len(), 35);
            writer.flush().await.expect("it was told before");
            let late = operation(tree, Verb::Insert, &[0; 8], &[9; 8]);
            let gone = match writer.stage(&late).await {
                Ok((_, ticket)) => ticket.await.expect_err("the back-end is another one"),
                Err(error) => error,
            };
            assert!(matches!(gone, FrontEndError::Gone), "{gone}");
            let mut writer = scene.writer(&second, domain).await;
            assert_eq!(writer.tenure(), 2);
            insert(&mut writer, tree, 35).await;
            writer.publish().await.expect("the tenure lasts");
            assert_eq!(keys(&second, domain, tree, 60).await.len(), 36);
        });
    }
}
