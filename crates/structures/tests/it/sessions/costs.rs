//! The plan of both sides, and the round trips of each call.

use std::rc::Rc;

use stonecast_fabric::decorate::{Meter, Observed};
use stonecast_fabric_sim::{MachineOptions, MachineProfile};
use stonecast_media::{Ddio, DeclaredPlatform, PersistenceDomain};
use stonecast_structures::shapes::{Structure, StructureKind};
use stonecast_structures::{BackEnd, FRONT_END_COMPLETIONS, Key as _, Verb, Writer};

use super::scene::{ADDRESS, ANSWERED, PLATFORMS, Scene, create, insert, operation, platform};

/// Needs the comparison of plans at connect: a front-end believes the platform that the back-end declares.
#[test]
fn both_sides_agree_on_the_plan_of_the_declared_platform() {
    for platform in PLATFORMS {
        let scene = Scene::on(platform, 6);
        let world = scene.world.clone();
        world.block_on(async move {
            scene.create().await;
            scene.serve().await;
            let (_process, front_end) = scene.front_end().await;
            let plan = front_end.agreement().plan().program().to_string();
            let expected = match (platform.persistence_domain, platform.ddio) {
                (PersistenceDomain::Wsp, _) => "rq.write(a) rq.await(write(a))",
                (PersistenceDomain::Mhp, _) | (PersistenceDomain::Dmp, Ddio::Off) => {
                    "rq.write(a) rq.flush rq.await(flush)"
                }
                _ => {
                    "rq.write(a) rq.send(&a) rsp.receive(&a) rsp.write_back(a) rsp.send(ack) rq.receive(ack)"
                }
            };
            assert_eq!(plan, expected);
        });
    }
}

/// The costs of calls as facts: of a writer that knows its way and of one that does not, of a reader with a cache and
/// of one without.
#[test]
fn each_call_takes_as_many_round_trips_as_its_walk_has_levels() {
    for platform in [ANSWERED, platform(PersistenceDomain::Mhp, Ddio::On)] {
        costs_on(MachineProfile::MODERN, platform);
    }
}

/// On the machines of AsymNVM, which have the message plan alone: a warm insert is one append, as is a staged one, and
/// an unknown leaf costs one round trip more.
#[test]
fn on_the_machines_of_the_paper_each_call_takes_as_many_round_trips() {
    let machines = MachineProfile::by_name("connectx3-asymnvm").expect("the profile is shipped");
    let platform = platform(PersistenceDomain::Dmp, Ddio::On);
    costs_on(machines, platform);
}

/// Costs of calls: READs, WRITEs, sends and doorbells.
type Cost = (u64, u64, u64, u64);

/// An insert of a key that is new is one append, too: the writer knows the way and the free units.
async fn insert_new_key(
    writer: &mut Writer,
    structures: [u32; 2],
    cost: &mut impl FnMut() -> Cost,
) {
    for structure in structures {
        let (key, value) = (100_u64.encoded(), 300_u64.to_le_bytes());
        let change = operation(structure, Verb::Insert, &key, &value);
        let (_, _ticket) = writer.stage(&change).await.expect("there is room");
        assert_eq!(cost(), (0, 0, 0, 0));
        writer.publish().await.expect("the tenure lasts");
        assert_eq!(cost(), (0, 1, 1, 1));
    }
}

fn costs_on(profile: MachineProfile, platform: DeclaredPlatform) {
    let scene = Scene::of_machines(profile, platform, 1);
    let world = scene.world.clone();
    world.block_on(async move {
        scene.create().await;
        scene.serve().await;
        let machine = scene.world.machine(MachineOptions::new(scene.profile));
        let process = scene.world.process(machine);
        let meter = Rc::<Meter>::default();
        let device = Rc::new(Observed::new(process.open_device(), meter.clone()));
        let port = process
            .port_on(device, FRONT_END_COMPLETIONS)
            .expect("a port");
        let back_end = BackEnd::connect(&port, ADDRESS).await.expect("accepted");
        let domain = back_end.create_domain(3).await.expect("there is room");
        let mut writer = back_end.writer(domain).await.expect("the domain is free");
        let table = create(&mut writer, StructureKind::HashTable).await;
        let tree = create(&mut writer, StructureKind::BTree).await;
        for key in 0..100 {
            insert(&mut writer, table, key).await;
        }
        writer.flush().await.expect("the tenure lasts");
        // A writer knows all of a node that it has made, so leaves that are split are not read.
        let before = meter.counts().reads;
        for key in 0..50 {
            insert(&mut writer, tree, key).await;
        }
        assert_eq!(meter.counts().reads, before);
        for key in 50..100 {
            insert(&mut writer, tree, key).await;
        }
        writer.publish().await.expect("the tenure lasts");
        let mut before = meter.counts();
        let mut cost = || {
            let now = meter.counts();
            let cost = now - before;
            before = now;
            (cost.reads, cost.writes, cost.sends, cost.doorbells)
        };
        let (key, value) = (7_u64.encoded(), 21_u64.to_le_bytes());
        // A writer knows the words that it has read or written. A wait sends the record.
        let change = operation(table, Verb::Update, &key, &value);
        let (_, ticket) = writer.stage(&change).await.expect("there is room");
        assert_eq!(cost(), (0, 0, 0, 0));
        // One append: the record, with the flush or the notice behind it.
        ticket.await.expect("the tenure lasts");
        match back_end.agreement().plan().is_one_sided() {
            true => assert_eq!(cost(), (1, 1, 0, 1)),
            false => assert_eq!(cost(), (0, 1, 1, 1)),
        }
        let change = operation(tree, Verb::Update, &key, &value);
        let (_, _ticket) = writer.stage(&change).await.expect("there is room");
        let (_, ticket) = writer.stage(&change).await.expect("there is room");
        assert_eq!(cost(), (0, 0, 0, 0));
        // Two records and the transaction, which lie side by side, and the notice, whatever the number of operations:
        // one doorbell and one round trip.
        writer.publish().await.expect("the tenure lasts");
        assert_eq!(cost(), (0, 1, 1, 1));
        ticket.await.expect("what is visible is durable");
        assert_eq!(cost(), (0, 0, 0, 0));
        insert_new_key(&mut writer, [table, tree], &mut cost).await;
        // A publication that begins: the records are an append as any other, with the notice behind them, and nobody
        // waits. The next ticket is one append.
        let change = operation(tree, Verb::Update, &key, &value);
        let (_, _ticket) = writer.stage(&change).await.expect("there is room");
        let publication = writer.start_publication().await.expect("the tenure lasts");
        let is_one_sided = back_end.agreement().plan().is_one_sided();
        match is_one_sided {
            true => assert_eq!(cost(), (1, 1, 1, 2)),
            false => assert_eq!(cost(), (0, 1, 1, 1)),
        }
        let (_, ticket) = writer.stage(&change).await.expect("there is room");
        ticket.await.expect("the tenure lasts");
        match is_one_sided {
            true => assert_eq!(cost(), (1, 1, 0, 1)),
            false => assert_eq!(cost(), (0, 1, 1, 1)),
        }
        publication.await.expect("the tenure lasts");
        assert_eq!(cost(), (0, 0, 0, 0));
        writer.publish().await.expect("the tenure lasts");
        cost();
        // An answer rests on the tenure word behind it, however much the writer knows.
        let structure = writer.roots().structure(tree).expect("it was created");
        let found = writer.get(&structure, &key).await.expect("it is whole");
        assert_eq!((found, cost()), (Some(value.to_vec()), (1, 0, 0, 1)));

        // A transaction reads what is staged without a message, in several structures, and is confirmed by one look.
        let newer = 22_u64.to_le_bytes();
        let change = operation(table, Verb::Update, &key, &newer);
        let (_, _ticket) = writer.stage(&change).await.expect("there is room");
        let rows = writer.read_staged(&[(table, &key), (tree, &key)]).await;
        let expected = [Some(newer.to_vec()), Some(value.to_vec())];
        assert_eq!(
            (rows.expect("they are whole"), cost()),
            (expected.into(), (0, 0, 0, 0))
        );
        writer.flush().await.expect("the tenure lasts");
        cost();
        writer.confirm().await.expect("the tenure lasts");
        assert_eq!(cost(), (1, 0, 0, 1));
        let (_, _ticket) = writer
            .stage(&operation(table, Verb::Update, &key, &value))
            .await
            .expect("there is room");
        writer.publish().await.expect("the tenure lasts");
        cost();

        // A new tenure knows nothing: root line, word of the directory, bucket and item; root line, inner node and
        // leaf. Then a new key in a leaf that it does not know.
        writer.release().await.expect("the tenure lasts");
        let mut writer = scene.writer(&back_end, domain).await;
        let (other, fresh) = (90_u64.encoded(), 101_u64.encoded());
        cost();
        for (structure, verb, key, reads) in [
            (table, Verb::Update, &key, 4),
            (tree, Verb::Update, &key, 3),
            (tree, Verb::Insert, &fresh, 1),
            (tree, Verb::Update, &other, 0),
        ] {
            let change = operation(structure, verb, key, &value);
            let (_, _ticket) = writer.stage(&change).await.expect("there is room");
            assert_eq!(cost(), (reads, 0, 0, reads));
        }
        // Behind the READs everything is one append.
        writer.publish().await.expect("the tenure lasts");
        assert_eq!(cost(), (0, 1, 1, 1));
        // Many keys that it does not know: root line, inner node and leaves, each level at once, and each node once.
        writer.release().await.expect("the tenure lasts");
        let mut writer = scene.writer(&back_end, domain).await;
        let structure = writer.roots().structure(tree).expect("it was created");
        let some: Vec<Vec<u8>> = (0..8_u64).map(|key| (key * 12).encoded()).collect();
        cost();
        let looked = writer.look_ahead(&structure, &some).await;
        looked.expect("the tenure lasts");
        let (reads, .., rounds) = cost();
        assert_eq!(rounds, 3);
        assert!((3..3 + some.len() as u64).contains(&reads), "{reads} READs");
        for key in &some {
            let change = operation(tree, Verb::Update, key, &value);
            let (_, _ticket) = writer.stage(&change).await.expect("there is room");
            assert_eq!(cost(), (0, 0, 0, 0));
        }
        writer.publish().await.expect("the tenure lasts");
        let mut reader = back_end.reader(domain).await.expect("there is the domain");
        let roots = reader.roots().await.expect("the table is whole");
        cost();
        for (number, reads) in [(table, 4), (tree, 3)] {
            let found = reader.get(&roots, number, &key).await.expect("it is whole");
            assert_eq!(found, Some(value.to_vec()));
            assert_eq!(cost(), (reads, 0, 0, reads));
        }
        // A structure counts its items.
        for (number, items) in [(table, 101), (tree, 102)] {
            let length = reader.end_in(&roots, number, Structure::length).await;
            assert_eq!(length.expect("it is whole"), items);
            assert_eq!(cost(), (1, 0, 0, 1));
        }
        // A reader that remembers inner places reads the bucket and the item, or the leaf.
        let mut reader = reader.remembering(1 << 20);
        for (number, reads) in [(table, 2), (tree, 1)] {
            reader.get(&roots, number, &key).await.expect("it is whole");
            cost();
            let found = reader.get(&roots, number, &key).await.expect("it is whole");
            assert_eq!(found, Some(value.to_vec()));
            assert_eq!(cost(), (reads, 0, 0, reads));
        }
    });
}
