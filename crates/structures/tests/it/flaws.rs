//! The flaws of AsymNVM as published, under the schedules that show them there
//! (`crates/published/tests/it/asymnvm_flaws.rs`): `structures` holds.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use stonecast_structures::shapes::{Structure, StructureKind};
use stonecast_structures::{BackEnd, FrontEndError, Key as _, StructureReader, Verb, Writer};

use crate::mirrors::pair::Pair;
use crate::sessions::{LEASE_NS, PLATFORMS, Scene, create, insert, keys, operation};

/// A domain with a tree, its writer, and its front-end.
async fn tree_of(scene: &Scene) -> (Rc<BackEnd>, u32, Writer, u32) {
    scene.create().await;
    scene.serve().await;
    let (_process, front_end) = scene.front_end().await;
    let domain = front_end.create_domain(3).await.expect("there is room");
    let mut writer = front_end.writer(domain).await.expect("the domain is free");
    let tree = create(&mut writer, StructureKind::BTree).await;
    writer.publish().await.expect("the tenure lasts");
    (front_end, domain, writer, tree)
}

fn tell(story: impl AsyncFnOnce(&mut Scene)) {
    let mut scene = Scene::new(3);
    let world = scene.world.clone();
    world.block_on(async move { story(&mut scene).await });
}

async fn store(writer: &mut Writer, tree: u32, key: u64, value: &[u8]) {
    let key = key.encoded();
    let change = operation(tree, Verb::Insert, &key, value);
    let (_, _ticket) = writer.stage(&change).await.expect("there is room");
}

/// The back-end is gone for good behind an acknowledgement.
#[test]
fn a1_what_was_acknowledged_is_in_the_mirror_when_the_back_end_is_gone() {
    for platform in PLATFORMS {
        let pair = Pair::new([platform; 2], 1);
        let world = pair.world.clone();
        world.block_on(async move {
            pair.begin().await;
            let (_process, front_end) = pair.front_end(&pair.first).await;
            let domain = front_end.create_domain(3).await.expect("there is room");
            let mut writer = front_end.writer(domain).await.expect("the domain is free");
            let tree = create(&mut writer, StructureKind::BTree).await;
            insert(&mut writer, tree, 7).await;
            writer.flush().await.expect("the tenure lasts");
            pair.cut_power(&pair.first);
            pair.promote(&pair.second).await;
            let (_process, second) = pair.front_end(&pair.second).await;
            assert_eq!(keys(&second, domain, tree, 10).await, [7], "{platform:?}");
        });
    }
}

/// DDIO is on. Records become durable by the processor of the back-end.
#[test]
fn a2_what_was_acknowledged_survives_the_power() {
    tell(async |scene| {
        let (_front_end, domain, mut writer, tree) = tree_of(scene).await;
        for key in 0..20 {
            insert(&mut writer, tree, key).await;
            writer.flush().await.expect("the tenure lasts");
        }
        scene.lose_power().await;
        let (_process, other) = scene.front_end().await;
        let found = keys(&other, domain, tree, 30).await;
        assert_eq!(found, (0..20).collect::<Vec<_>>());
    });
}

/// A front-end dies while it asks for the domain of another.
#[test]
fn a3_a_front_end_that_dies_while_it_asks_ends_the_tenure_of_nobody() {
    tell(async |scene| {
        let (_front_end, domain, mut writer, tree) = tree_of(scene).await;
        let (dying, other) = scene.front_end().await;
        let asking = other.clone();
        dying.runtime().spawn(Box::pin(async move {
            // It is refused, or dies before.
            let _ = asking.writer(domain).await;
        }));
        scene.rest(500).await;
        dying.kill();
        scene.rest(LEASE_NS / 4).await;
        let (_process, third) = scene.front_end().await;
        let refused = third.writer(domain).await.err().expect("one writer");
        assert!(matches!(refused, FrontEndError::Held { .. }), "{refused}");
        insert(&mut writer, tree, 7).await;
        writer.publish().await.expect("its tenure lasts");
        assert_eq!(keys(&third, domain, tree, 10).await, [7]);
    });
}

/// The first writer is silent for longer than its lease. Its later appends count nowhere, and its release releases
/// nothing.
#[test]
fn a4_and_a5_a_writer_that_wakes_up_neither_overwrites_nor_releases() {
    tell(async |scene| {
        let (_front_end, domain, mut writer, tree) = tree_of(scene).await;
        scene.rest(2 * LEASE_NS).await;
        let (_process, second) = scene.front_end().await;
        let mut successor = scene.writer(&second, domain).await;
        insert(&mut successor, tree, 2).await;
        successor.flush().await.expect("the tenure lasts");

        let late = operation(tree, Verb::Insert, &[0; 8], &[9; 8]);
        let over = match writer.stage(&late).await {
            Ok(_) => writer.flush().await.expect_err("the tenure is over"),
            Err(error) => error,
        };
        assert!(
            matches!(over, FrontEndError::Over { .. } | FrontEndError::Gone),
            "{over}"
        );
        writer.release().await.expect_err("nothing is released");
        let refused = second.writer(domain).await.err().expect("one writer");
        assert!(matches!(refused, FrontEndError::Held { .. }), "{refused}");
        insert(&mut successor, tree, 3).await;
        successor.publish().await.expect("the tenure lasts");
        assert_eq!(keys(&second, domain, tree, 5).await, [2, 3]);
    });
}

/// Each value is the same byte again and again, and as long as many lines.
#[test]
fn a6_a_reader_beside_changes_finds_whole_values() {
    tell(async |scene| {
        let (_front_end, domain, mut writer, tree) = tree_of(scene).await;
        store(&mut writer, tree, 7, &[0; 250]).await;
        writer.publish().await.expect("the tenure lasts");
        let (writing, _) = scene.front_end().await;
        writing.runtime().spawn(Box::pin(async move {
            for round in 1..200_u8 {
                store(&mut writer, tree, 7, &[round; 250]).await;
                writer.publish().await.expect("the tenure lasts");
            }
        }));
        let (_process, other) = scene.front_end().await;
        let mut reader = other.reader(domain).await.expect("there is the domain");
        let roots = reader.roots().await.expect("the table is whole");
        let (mut last, mut seen) = (0, 0);
        for _ in 0..400 {
            let found = reader.get(&roots, tree, &7_u64.encoded()).await;
            let value = found.expect("it is whole").expect("it was there before");
            assert!(value.iter().all(|byte| *byte == value[0]), "{value:?}");
            assert!(value[0] >= last, "never back");
            seen += u32::from(value[0] > last);
            last = value[0];
        }
        assert!(seen > 10, "the value changed meanwhile");
    });
}

/// A writer that changes the first and the last key of a tree in one transaction, with others in between.
async fn change_pairs(mut writer: Writer, tree: u32) {
    for round in 1..200_u64 {
        for key in (0..=300).step_by(10) {
            store(&mut writer, tree, key, &round.to_le_bytes()).await;
        }
        // Old versions take no more memory than a few.
        let reclaim = operation(0, Verb::Reclaim, &[], &[100, 0, 0, 0]);
        let (_, _ticket) = writer.stage(&reclaim).await.expect("there is room");
        writer.publish().await.expect("the tenure lasts");
    }
}

/// Two keys that one transaction changes are read again and again, from one table of structures or from one for each
/// read. Returns the pairs that were read, and those whose values differ.
fn pairs_that_differ(kind: StructureKind, is_one_table: bool) -> (u32, u32) {
    let (read, differ) = (Rc::new(Cell::new(0)), Rc::new(Cell::new(0)));
    let (told, found) = (read.clone(), differ.clone());
    tell(async move |scene| {
        scene.create().await;
        scene.serve().await;
        let (writing, front_end) = scene.front_end().await;
        let domain = front_end.create_domain(6).await.expect("there is room");
        let mut writer = front_end.writer(domain).await.expect("the domain is free");
        let tree = create(&mut writer, kind).await;
        for key in 0..=300 {
            store(&mut writer, tree, key, &0_u64.to_le_bytes()).await;
        }
        writer.publish().await.expect("the tenure lasts");
        writing
            .runtime()
            .spawn(Box::pin(change_pairs(writer, tree)));
        let (_process, other) = scene.front_end().await;
        let mut reader = other.reader(domain).await.expect("there is the domain");
        for _ in 0..400 {
            let mut roots = reader.roots().await.expect("the table is whole");
            let mut pair = Vec::new();
            for key in [0_u64, 300] {
                if !is_one_table {
                    roots = reader.roots().await.expect("the table is whole");
                }
                match reader.get(&roots, tree, &key.encoded()).await {
                    Ok(value) => pair.push(value.expect("it was there before")),
                    // The reader is told, and begins again.
                    Err(FrontEndError::TooOld) => break,
                    Err(error) => panic!("{error}"),
                }
            }
            if let [first, last] = &*pair {
                told.set(told.get() + 1);
                found.set(found.get() + u32::from(first != last));
            }
        }
    });
    (read.get(), differ.get())
}

/// The words lie apart, and the back-end changes them one after the other. Needs the table of structures, which changes
/// at the end of a transaction: readers that take it twice find halves.
#[test]
fn a6_two_words_of_one_transaction_are_of_one_moment_in_a_snapshot() {
    let (read, differ) = pairs_that_differ(StructureKind::MvBTree, true);
    assert!(read > 300 && differ == 0, "{differ} of {read} pairs");
    for kind in [StructureKind::MvBTree, StructureKind::BTree] {
        let (read, differ) = pairs_that_differ(kind, false);
        assert!(
            differ > 0,
            "{kind:?}: the schedule shows halves in {read} pairs"
        );
    }
}

#[test]
fn a7_a_reader_with_a_cache_finds_what_was_published() {
    tell(async |scene| {
        let (_front_end, domain, mut writer, tree) = tree_of(scene).await;
        for key in 0..300 {
            insert(&mut writer, tree, key).await;
        }
        writer.publish().await.expect("the tenure lasts");
        let (_process, other) = scene.front_end().await;
        let reader = other.reader(domain).await.expect("there is the domain");
        let mut reader = reader.remembering(1 << 20);
        let roots = reader.roots().await.expect("the table is whole");
        for round in 0..20_u64 {
            store(&mut writer, tree, 7, &round.to_le_bytes()).await;
            writer.publish().await.expect("the tenure lasts");
            let found = reader.get(&roots, tree, &7_u64.encoded()).await;
            assert_eq!(
                found.expect("it is whole"),
                Some(round.to_le_bytes().to_vec())
            );
        }
    });
}

/// The tree is dropped under a reader, and its blocks are used again by another structure.
#[test]
fn a8_a_reader_that_takes_its_time_never_takes_a_stranger_for_its_node() {
    tell(async |scene| {
        let (_front_end, domain, mut writer, tree) = tree_of(scene).await;
        for key in 0..300 {
            insert(&mut writer, tree, key).await;
        }
        writer.publish().await.expect("the tenure lasts");
        let (_process, other) = scene.front_end().await;
        let reader = other.reader(domain).await.expect("there is the domain");
        let mut reader = StructureReader::open(reader.remembering(1 << 20), "BTree")
            .await
            .expect("it was created");
        let key = 7_u64.encoded();
        let find = |structure: &Structure| structure.find(&key).expect("it has keys");
        let found = reader.end_of(find).await.expect("it is whole");
        assert_eq!(found, Some(21_u64.to_le_bytes().into()));
        let end = operation(0, Verb::Drop, b"BTree", &[]);
        let (_, _ticket) = writer.stage(&end).await.expect("there is room");
        let table = create(&mut writer, StructureKind::HashTable).await;
        for key in 0..300 {
            insert(&mut writer, table, key).await;
            writer.publish().await.expect("the tenure lasts");
        }
        let gone = reader.end_of(find).await.expect_err("it was dropped");
        assert!(matches!(gone, FrontEndError::NoStructure), "{gone}");
    });
}

/// The reader stands still between two READs of a look-up, and meanwhile the tree is dropped and its blocks are used
/// again. Returns the answer, and whether the reader has begun again.
async fn paused_within_a_look_up(
    scene: &Scene,
    pause_after_ns: u64,
) -> (Result<Option<Vec<u8>>, FrontEndError>, bool) {
    let (_front_end, domain, mut writer, tree) = tree_of(scene).await;
    for key in 0..300 {
        insert(&mut writer, tree, key).await;
    }
    writer.publish().await.expect("the tenure lasts");
    let (reading, other) = scene.front_end().await;
    let mut reader = other.reader(domain).await.expect("there is the domain");
    let roots = reader.roots().await.expect("the table is whole");
    let answer = Rc::new(RefCell::new(None));
    let told = answer.clone();
    reading.runtime().spawn(Box::pin(async move {
        let found = reader.get(&roots, tree, &7_u64.encoded()).await;
        told.replace(Some(found));
    }));
    scene.world.observer().sleep(pause_after_ns).await;
    let before = answer.borrow().is_some();
    reading.pause(LEASE_NS);
    let end = operation(0, Verb::Drop, b"BTree", &[]);
    let (_, _ticket) = writer.stage(&end).await.expect("there is room");
    writer.publish().await.expect("the tenure lasts");
    let table = create(&mut writer, StructureKind::HashTable).await;
    for key in 0..600 {
        store(&mut writer, table, key, b"stranger").await;
        if key % 50 == 0 {
            writer.publish().await.expect("the tenure lasts");
        }
    }
    writer.publish().await.expect("the tenure lasts");
    while answer.borrow().is_none() {
        scene.rest(LEASE_NS).await;
    }
    let found = answer.take().expect("the look-up has ended");
    (found, !before)
}

/// Needs the tags of blocks, and the look at the root word: without them the reader takes the stranger for its node.
#[test]
fn a8_a_reader_that_is_paused_between_two_reads_never_takes_a_stranger_for_its_node() {
    let (mut whole, mut gone) = (0, 0);
    for step in 0..40 {
        tell(async |scene| {
            let (found, was_paused) = paused_within_a_look_up(scene, step * 250).await;
            match found {
                Ok(value) => {
                    assert_eq!(value, Some(21_u64.to_le_bytes().into()), "step {step}");
                    whole += 1;
                }
                Err(FrontEndError::NoStructure) => {
                    assert!(was_paused);
                    gone += 1;
                }
                Err(error) => panic!("step {step}: {error}"),
            }
        });
    }
    assert!(whole > 0 && gone > 2, "{whole} whole, {gone} told");
}

/// The back-end stands still, and the writer goes on until the log has no room. What was told as durable is there when
/// the back-end wakes up, and when it dies in its sleep. Needs records that wait for room: the log would begin again
/// over those that are not applied.
#[test]
fn a9_a_log_that_begins_again_over_a_paused_back_end_keeps_what_is_not_applied() {
    for dies in [false, true] {
        // Records become durable without the processor of the back-end.
        let mut scene = Scene::on(PLATFORMS[2], 3);
        let world = scene.world.clone();
        world.block_on(async {
            let (front_end, domain, mut writer, tree) = tree_of(&scene).await;
            let stat = front_end.stat(domain).await.expect("there is the domain");
            let told = Rc::new(Cell::new(0_u64));
            let count = told.clone();
            scene.back_end.pause(LEASE_NS / 2);
            let writing = scene.world.observer();
            writing.spawn(Box::pin(async move {
                for round in 0..3_000_u64 {
                    let value = [round.to_le_bytes(); 20].concat();
                    let key = (round % 3).encoded();
                    let change = operation(tree, Verb::Insert, &key, &value);
                    let Ok((_, _ticket)) = writer.stage(&change).await else {
                        return;
                    };
                    if round % 64 == 63 && writer.start_publication().await.is_err() {
                        return;
                    }
                    if writer.flush().await.is_err() {
                        return;
                    }
                    count.set(round + 1);
                }
            }));
            scene.world.observer().sleep(LEASE_NS / 4).await;
            let asleep = told.get();
            assert!(
                asleep > 100 && asleep < 3_000,
                "{asleep} without the back-end"
            );
            assert!(asleep * 200 < stat.log_size, "none of them was overwritten");
            match dies {
                true => scene.restart().await,
                false => scene.world.observer().sleep(4 * LEASE_NS).await,
            }
            let last = told.get();
            assert!(
                dies || last * 200 > 2 * stat.log_size,
                "the log has begun again"
            );
            let (_process, other) = scene.front_end().await;
            let mut reader = other.reader(domain).await.expect("there is the domain");
            let roots = reader.roots().await.expect("the table is whole");
            let mut newest = 0;
            for key in 0..3_u64 {
                let found = reader.get(&roots, tree, &key.encoded()).await;
                let found = found.expect("it is whole").expect("it was told");
                let round = u64::from_le_bytes(*found.first_chunk().expect("a number"));
                assert_eq!(found, [round.to_le_bytes(); 20].concat());
                assert_eq!(round % 3, key);
                newest = newest.max(round);
            }
            assert!(!dies || newest + 1 >= last, "{newest} of {last}, {dies}");
        });
    }
}

/// The log begins again several times, and a back-end that starts again applies what is left of it.
#[test]
fn a9_and_a10_a_log_that_began_again_brings_nothing_back_and_nothing_else() {
    tell(async |scene| {
        let (front_end, domain, mut writer, tree) = tree_of(scene).await;
        for round in 0..600_u64 {
            let value = [round.to_le_bytes(); 20].concat();
            store(&mut writer, tree, round % 3, &value).await;
            match round % 2 {
                0 => writer.publish().await.expect("the tenure lasts"),
                _ => writer.flush().await.expect("the tenure lasts"),
            }
        }
        let stat = front_end.stat(domain).await.expect("there is the domain");
        assert!(600 * 200 > stat.log_size, "the log has begun again");
        for _ in 0..2 {
            scene.restart().await;
            let (_process, other) = scene.front_end().await;
            let mut reader = other.reader(domain).await.expect("there is the domain");
            let roots = reader.roots().await.expect("the table is whole");
            for key in 0..3_u64 {
                let found = reader.get(&roots, tree, &key.encoded()).await;
                let last = [(597 + key).to_le_bytes(); 20].concat();
                assert_eq!(found.expect("it is whole"), Some(last));
            }
        }
    });
}
