//! Readers of structures that end, and of versions that are gone.

use stonecast_structures::shapes::{Answer, Structure, StructureKind};
use stonecast_structures::{
    FrontEndError, Key as _, Pointer, PoolGeometry, StructureReader, UNIT_SIZE, Verb,
};

use super::scene::{GEOMETRY, Scene, create, insert, keys, operation};

/// Needs the reclaiming that a publication brings along, and the root word among the reads of a reader that has found a
/// structure.
#[test]
fn a_structure_that_was_made_empty_gives_its_blocks_back_and_keeps_its_readers() {
    let scene = Scene::new(10);
    let world = scene.world.clone();
    world.block_on(async move {
        scene.create().await;
        scene.serve().await;
        let (_process, front_end) = scene.front_end().await;
        let domain = front_end.create_domain(2).await.expect("there is room");
        let mut writer = front_end.writer(domain).await.expect("the domain is free");
        let table = create(&mut writer, StructureKind::HashTable).await;
        for key in 0..300 {
            insert(&mut writer, table, key).await;
        }
        writer.publish().await.expect("the tenure lasts");
        let reader = front_end.reader(domain).await.expect("there is the domain");
        let reader = reader.remembering(1 << 20);
        let mut reader = StructureReader::open(reader, "HashTable")
            .await
            .expect("it was created");
        let length = |structure: &Structure| structure.walk();
        let contents = reader.end_of(length).await.expect("it is whole");
        assert_eq!(contents.length, 300);
        let clear = operation(0, Verb::Clear, b"HashTable", &[]);
        let (answer, _ticket) = writer.stage(&clear).await.expect("there is room");
        let Answer::Created(table) = answer else {
            panic!("{answer:?}")
        };
        writer.publish().await.expect("the tenure lasts");
        let key = 7_u64.encoded();
        let find = |structure: &Structure| structure.find(&key).expect("it has keys");
        assert_eq!(reader.end_of(find).await.expect("it is whole"), None);
        assert!(writer.roots().has_ended());
        for key in 0..100 {
            insert(&mut writer, table, key).await;
            writer.publish().await.expect("the tenure lasts");
        }
        assert!(!writer.roots().has_ended());
        let found = reader.end_of(find).await.expect("it is whole");
        assert_eq!(found, Some(21_u64.to_le_bytes().into()));
        let end = operation(0, Verb::Drop, b"HashTable", &[]);
        let (_, _ticket) = writer.stage(&end).await.expect("there is room");
        writer.publish().await.expect("the tenure lasts");
        let gone = reader.end_of(find).await.expect_err("it was dropped");
        assert!(matches!(gone, FrontEndError::NoStructure), "{gone}");
    });
}

/// Needs the check of each place before it is read: the back-end checks where the entries of a transaction lie, and not
/// which words they store. The last word of the domain is as its hostile writer has left it.
#[test]
pub fn a_pointer_out_of_the_pool_ends_the_reads_of_its_domain_and_no_connection() {
    let scene = Scene::new(12);
    let world = scene.world.clone();
    world.block_on(async move {
        scene.create().await;
        scene.serve().await;
        let (_process, front_end) = scene.front_end().await;
        let mut tables = Vec::new();
        for _ in 0..2 {
            let domain = front_end.create_domain(2).await.expect("there is room");
            let mut writer = front_end.writer(domain).await.expect("the domain is free");
            let table = create(&mut writer, StructureKind::HashTable).await;
            insert(&mut writer, table, 1).await;
            writer.publish().await.expect("the tenure lasts");
            tables.push((domain, table));
        }
        let [(sound, table), (hostile, _)] = tables[..] else {
            unreachable!("two domains were made")
        };
        let root = PoolGeometry::place(hostile).root_word();
        let (end, far) = (GEOMETRY.pool_size() / UNIT_SIZE, (1 << 40) - 1);
        let log = GEOMETRY.slabs().slab(0).offset / UNIT_SIZE;
        for unit in [end - 1, end, far, log] {
            let word = Pointer::new(unit, 7).word().to_le_bytes();
            scene.medium().bytes().write(root.offset, &word);
            let mut reader = front_end
                .reader(hostile)
                .await
                .expect("there is the domain");
            let stale = reader.roots().await.expect_err("no table lies there");
            assert!(
                matches!(stale, FrontEndError::Stale(_)),
                "unit {unit}: {stale}"
            );
            assert_eq!(keys(&front_end, sound, table, 3).await, [1], "unit {unit}");
        }
    });
}

/// Needs the look at the table of structures behind a stale read: trying again would find no node of the version for
/// ever.
#[test]
pub fn a_reader_is_told_at_once_that_its_version_is_too_old() {
    for kind in [StructureKind::MvBTree, StructureKind::MvBst] {
        let scene = Scene::new(11);
        let world = scene.world.clone();
        world.block_on(async move {
            scene.create().await;
            scene.serve().await;
            let (_process, front_end) = scene.front_end().await;
            let domain = front_end.create_domain(2).await.expect("there is room");
            let mut writer = front_end.writer(domain).await.expect("the domain is free");
            let tree = create(&mut writer, kind).await;
            for key in 0..40 {
                insert(&mut writer, tree, key).await;
            }
            writer.publish().await.expect("the tenure lasts");
            let reader = front_end.reader(domain).await.expect("there is the domain");
            let mut reader = reader.remembering(1 << 16);
            let roots = reader.roots().await.expect("the table is whole");
            let key = 7_u64.encoded();
            let found = reader.get(&roots, tree, &key).await.expect("it is whole");
            assert_eq!(found, Some(21_u64.to_le_bytes().into()));
            for _ in 0..200 {
                insert(&mut writer, tree, 7).await;
                let blocks = 100_u32.to_le_bytes();
                let reclaim = operation(0, Verb::Reclaim, &[], &blocks);
                let (_, _ticket) = writer.stage(&reclaim).await.expect("there is room");
                writer.publish().await.expect("the tenure lasts");
            }
            let mut forgetful = front_end.reader(domain).await.expect("there is the domain");
            let before = front_end.retries();
            let old = forgetful.get(&roots, tree, &key).await;
            let old = old.expect_err("its nodes are used again");
            assert!(matches!(old, FrontEndError::TooOld), "{kind:?}: {old}");
            assert_eq!(front_end.retries() - before, 2);
            let roots = reader.roots().await.expect("the table is whole");
            let found = reader.get(&roots, tree, &key).await.expect("it is whole");
            assert_eq!(found, Some(21_u64.to_le_bytes().into()));
        });
    }
}
