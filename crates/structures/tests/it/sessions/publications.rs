//! Publications that have begun, and writers that are ahead of them.

use std::rc::Rc;

use stonecast_media::DeclaredPlatform;
use stonecast_structures::shapes::StructureKind;
use stonecast_structures::{BackEnd, Key as _, Ticket, Verb, Writer};

use super::scene::{PLATFORMS, Scene, create, insert, keys, operation};

/// Less than a lease.
const PAUSE_NS: u64 = 20_000_000;
/// Much longer than an append takes.
const APPEND_NS: u64 = 1_000_000;

async fn begin(back_end: &Rc<BackEnd>, kind: StructureKind) -> (Writer, u32, u32) {
    let domain = back_end.create_domain(3).await.expect("there is room");
    let mut writer = back_end.writer(domain).await.expect("the domain is free");
    let structure = create(&mut writer, kind).await;
    insert(&mut writer, structure, 0).await;
    writer.publish().await.expect("the tenure lasts");
    (writer, domain, structure)
}

async fn stage(writer: &mut Writer, structure: u32, key: u64) -> Ticket {
    let (encoded, value) = (key.encoded(), (key * 3).to_le_bytes());
    let insert = operation(structure, Verb::Insert, &encoded, &value);
    let (_, ticket) = writer.stage(&insert).await.expect("there is room");
    ticket
}

fn is_one_sided(back_end: &BackEnd) -> bool {
    back_end.agreement().plan().is_one_sided()
}

/// Needs the record of a publication to be an append as any other, and the wait of the publication for the answer.
#[test]
pub fn tickets_behind_a_publication_end_while_the_back_end_stands_still_and_the_publication_does_not()
 {
    for platform in PLATFORMS {
        for kind in [StructureKind::HashTable, StructureKind::BTree] {
            ahead_of_a_back_end_that_stands_still(platform, kind);
        }
    }
}

fn ahead_of_a_back_end_that_stands_still(platform: DeclaredPlatform, kind: StructureKind) {
    let scene = Scene::on(platform, 3);
    let world = scene.world.clone();
    world.block_on(async move {
        scene.create().await;
        scene.serve().await;
        let (process, front_end) = scene.front_end().await;
        let (_process, other) = scene.front_end().await;
        let (mut writer, domain, structure) = begin(&front_end, kind).await;
        insert(&mut writer, structure, 1).await;
        scene.back_end.pause(PAUSE_NS);
        let publication = writer.start_publication().await;
        let publication = publication.expect("the tenure lasts");
        let mut ticket = stage(&mut writer, structure, 2).await;
        let ended = process.runtime().within(APPEND_NS, &mut ticket).await;
        let case = format!("{platform:?}, {kind:?}");
        match is_one_sided(&front_end) {
            true => ended.expect(&case).expect("the tenure lasts"),
            // The processor of the back-end makes the record durable.
            false => assert!(ended.is_err(), "{case}"),
        }
        assert!(!publication.is_visible(), "{case}");
        publication.await.expect("the tenure lasts");
        assert_eq!(keys(&other, domain, structure, 9).await, [0, 1], "{case}");
        ticket.await.expect("the tenure lasts");
        assert_eq!(keys(&other, domain, structure, 9).await, [0, 1], "{case}");
        writer.publish().await.expect("the tenure lasts");
        assert_eq!(
            keys(&other, domain, structure, 9).await,
            [0, 1, 2],
            "{case}"
        );
    });
}

/// Needs the next notice behind the answer to the one before, which the waits of the writer send.
#[test]
fn publications_become_visible_in_their_order_while_the_writer_waits_for_its_tickets_alone() {
    for platform in PLATFORMS {
        let scene = Scene::on(platform, 4);
        let world = scene.world.clone();
        world.block_on(async move {
            scene.create().await;
            scene.serve().await;
            let (_process, front_end) = scene.front_end().await;
            let (mut writer, domain, tree) = begin(&front_end, StructureKind::BTree).await;
            let mut publications = Vec::new();
            for key in 1..40 {
                let ticket = stage(&mut writer, tree, key).await;
                ticket.await.expect("the tenure lasts");
                let publication = writer.start_publication().await;
                publications.push(publication.expect("the tenure lasts"));
                let visible = publications.iter().map(|one| one.is_visible());
                assert!(visible.is_sorted_by(|earlier, later| earlier >= later));
            }
            let last = publications.pop().expect("some were begun");
            last.await.expect("the tenure lasts");
            assert!(publications.iter().all(|one| one.is_visible()));
            let expected: Vec<u64> = (0..40).collect();
            assert_eq!(keys(&front_end, domain, tree, 60).await, expected);
        });
    }
}

/// Needs the bound: what is not applied stays in the memory of the writer.
#[test]
fn a_writer_is_four_publications_ahead_of_its_back_end_at_most() {
    for platform in PLATFORMS {
        let scene = Scene::on(platform, 5);
        let world = scene.world.clone();
        world.block_on(async move {
            scene.create().await;
            scene.serve().await;
            let (process, front_end) = scene.front_end().await;
            let (mut writer, domain, table) = begin(&front_end, StructureKind::HashTable).await;
            scene.back_end.pause(PAUSE_NS);
            let paused_at = process.runtime().now();
            for key in 1..5 {
                insert(&mut writer, table, key).await;
                let _publication = writer.start_publication().await.expect("the tenure lasts");
            }
            assert!(process.runtime().now() - paused_at < PAUSE_NS);
            insert(&mut writer, table, 5).await;
            let fifth = writer.start_publication().await.expect("the tenure lasts");
            assert!(process.runtime().now() - paused_at >= PAUSE_NS);
            fifth.await.expect("the tenure lasts");
            let expected: Vec<u64> = (0..6).collect();
            assert_eq!(keys(&front_end, domain, table, 9).await, expected);
        });
    }
}

/// Needs the scan of the log at the hand-over: the front-end ends between the record of a publication and its notice,
/// or behind the notice, while the back-end stands still.
#[test]
fn what_tickets_have_told_behind_a_publication_is_there_after_the_end_of_the_writer_and_of_the_back_end()
 {
    for platform in PLATFORMS {
        for publications in 1..4 {
            let mut scene = Scene::on(platform, publications);
            let world = scene.world.clone();
            world.block_on(async move {
                scene.create().await;
                scene.serve().await;
                let (process, front_end) = scene.front_end().await;
                let (mut writer, domain, tree) = begin(&front_end, StructureKind::BTree).await;
                scene.back_end.pause(PAUSE_NS);
                for key in 1..=publications {
                    insert(&mut writer, tree, key).await;
                    // Of several, the first alone has its notice.
                    let _publication = writer.start_publication().await.expect("the tenure lasts");
                }
                let ticket = stage(&mut writer, tree, publications + 1).await;
                ticket.await.expect("the tenure lasts");
                process.kill();
                scene.lose_power().await;
                let (_process, second) = scene.front_end().await;
                let expected: Vec<u64> = (0..publications + 2).collect();
                assert_eq!(keys(&second, domain, tree, 9).await, expected);
            });
        }
    }
}
