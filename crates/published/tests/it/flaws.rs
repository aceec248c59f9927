//! The flaws of Erda as published, each with a schedule that shows it: lost acknowledged writes, values that go back in
//! time, memory that is never freed. The numbers are those of the review of the paper on which the decisions rest
//! (`docs/design/0015-published-designs.md`). The scenarios of `kv` check that store for the same flaws.
//! If a schedule needs a race, the test tries all moments of a range and prints the moment at which the race happened.

use stonecast_media::Ddio;
use stonecast_published::{ErdaOptions, Geometry};

use crate::world::{NEVER_CLEAN, Scene, key, value};

/// Bytes before the regions: head array and table.
fn metadata(scene: &Scene) -> u64 {
    scene.geometry.size() - u64::from(scene.geometry.regions) * scene.geometry.region_size
}

fn scene() -> Scene {
    Scene::new(Geometry::for_keys(20, 64, 100, 1000))
}

/// Segments of four objects, so that a log has many.
fn small_segments() -> Geometry {
    Geometry {
        segment_size: 512,
        region_size: 64 * 512,
        ..Geometry::for_keys(20, 64, 100, 0)
    }
}

#[test]
fn e1_an_acknowledged_write_is_lost_with_the_power() {
    let scene = scene();
    scene.serve_erda(NEVER_CLEAN);
    scene.put(b"the key of this test", 1);
    scene.settle();
    scene.put(b"the key of this test", 2);
    scene.cut_power(|_| false);
    scene.serve_erda(NEVER_CLEAN);
    assert_eq!(
        scene.get(b"the key of this test"),
        Some(1),
        "2 was acknowledged"
    );
}

#[test]
fn e2_two_writers_that_die_make_an_older_acknowledged_value_unreachable() {
    let scene = scene();
    scene.serve_erda(NEVER_CLEAN);
    scene.put(&key(1), 1);
    scene.put_and_die(&key(1), 2);
    assert_eq!(
        scene.get(&key(1)),
        Some(1),
        "the older offset covers one broken write"
    );
    // The reader's repair rolled the word back, so both writers have to die here.
    scene.put_and_die(&key(1), 3);
    scene.put_and_die(&key(1), 4);
    assert_eq!(
        scene.get(&key(1)),
        None,
        "1 was acknowledged, and no server has failed"
    );
}

/// There is one writer, one reader and no failure.
#[test]
fn e3_a_readers_repair_takes_an_acknowledged_write_back() {
    let lost_at = (0..20_000).step_by(100).find(|&delay| {
        let scene = scene();
        scene.serve_erda(NEVER_CLEAN);
        scene.put(&key(1), 1);
        let (writing, reading) = (scene.client_process(), scene.client_process());
        let mut writer = scene.world.block_on(scene.erda(&writing));
        let mut reader = scene.world.block_on(scene.erda(&reading));
        let runtime = reading.runtime();
        reading.runtime().spawn(Box::pin(async move {
            runtime.sleep(delay).await;
            reader.get(&key(1), &mut Vec::new()).await.unwrap();
        }));
        scene
            .world
            .block_on(async { writer.put(&key(1), &value(2, 64)).await.unwrap() });
        scene.pass(200_000);
        scene.get(&key(1)) == Some(1)
    });
    let delay = lost_at.expect("some reader reads between the word and the object");
    println!("the reader reads {delay} ns after the writer begins: 2 was acknowledged, 1 is read");
}

#[test]
fn e4_what_a_reader_saw_is_gone_after_a_power_cut() {
    let scene = scene();
    scene.serve_erda(NEVER_CLEAN);
    scene.put(&key(1), 1);
    scene.settle();
    scene.put(&key(1), 2);
    assert_eq!(scene.get(&key(1)), Some(2));
    scene.cut_power(|_| false);
    scene.serve_erda(NEVER_CLEAN);
    assert_eq!(scene.get(&key(1)), Some(1), "a reader had seen 2");
}

/// The flaw shows even if every write of a NIC is durable at once.
#[test]
fn e5_the_object_survives_and_its_word_does_not() {
    let scene = Scene::on(Geometry::for_keys(20, 64, 100, 1000), Ddio::Off);
    scene.serve_erda(NEVER_CLEAN);
    scene.put(&key(1), 1);
    scene.pass(1_000_000);
    scene.cut_power(|_| false);
    let mut object = [0; 89];
    let mut region = [0; 4096];
    scene.memory().read(metadata(&scene), &mut region);
    object.copy_from_slice(&region[64..64 + 89]);
    assert_eq!(object[5..25], key(1), "the object survived");
    scene.serve_erda(NEVER_CLEAN);
    assert_eq!(scene.get(&key(1)), None, "1 was acknowledged");
}

/// An insertion moves another key's entry: the clearing of the old place survives, the new place does not.
#[test]
fn e6_an_entry_that_moves_is_lost_although_its_key_was_durable_long_ago() {
    let lost = (10..60u64).find(|&count| {
        let scene = Scene::new(Geometry {
            buckets: 64,
            ..Geometry::for_keys(20, 64, 30, 1000)
        });
        scene.serve_erda(NEVER_CLEAN);
        (0..count).for_each(|number| scene.put(&key(number), number));
        scene.settle();
        scene.put(&key(count), count);
        // Keeps every line of the table whose first entry is not empty: the cleared entry survives,
        // the filled one does not.
        let wreck = scene.world.wreck(scene.machine, &scene.module);
        let table: Vec<u64> = (0..wreck.undecided())
            .map(|unit| wreck.offset(unit))
            .filter(|&at| at < metadata(&scene))
            .collect();
        table.len() > 1
            && table.iter().any(|&cleared| {
                let scene = Scene::new(scene.geometry);
                scene.serve_erda(NEVER_CLEAN);
                (0..count).for_each(|number| scene.put(&key(number), number));
                scene.settle();
                scene.put(&key(count), count);
                scene.cut_power(|offset| offset == cleared || offset >= metadata(&scene));
                scene.serve_erda(NEVER_CLEAN);
                (0..count).any(|number| scene.get(&key(number)) != Some(number))
            })
    });
    println!(
        "the insertion of key {} moves an entry and loses it",
        lost.expect("some insertion moves an entry over a line")
    );
}

/// Runs the same schedule twice. With the hole in the last segment, recovery repairs the word. With the hole further
/// back, recovery does not examine it, and one more dying writer makes the key unreachable.
#[test]
fn e7_a_hole_in_an_earlier_segment_is_not_examined() {
    let after = |others: u64| {
        let scene = Scene::new(small_segments());
        scene.serve_erda(NEVER_CLEAN);
        scene.put(&key(1), 1);
        scene.put_and_die(&key(1), 2);
        (0..others).for_each(|number| scene.put(&key(10 + number), number));
        scene.settle();
        scene.put_and_die(&key(1), 3);
        scene.get(&key(1))
    };
    assert_eq!(after(0), Some(1));
    assert_eq!(
        after(10),
        None,
        "1 was acknowledged, and its object is whole"
    );
}

/// The cleaner waits only for its notice; a grant may be older than that.
#[test]
fn e8_a_write_that_was_granted_before_the_notice_lands_behind_the_cleaner() {
    let hurried = ErdaOptions {
        round_trip_max_ns: 0,
        clean_step: 1000,
        ..NEVER_CLEAN
    };
    let lost_at = (0..20_000).step_by(100).find(|&delay| {
        let scene = scene();
        let (_, server) = scene.serve_erda(hurried);
        scene.put(&key(1), 1);
        let writing = scene.client_process();
        let mut writer = scene.world.block_on(scene.erda(&writing));
        scene.world.observer().spawn(Box::pin({
            let (runtime, server) = (scene.world.observer(), server.clone());
            async move {
                runtime.sleep(delay).await;
                server.ask_to_clean(0);
            }
        }));
        scene
            .world
            .block_on(async { writer.put(&key(1), &value(2, 64)).await.unwrap() });
        scene.put(&key(2), 0);
        scene.pass(1_000_000);
        server.cleaning().finished == 1 && scene.get(&key(1)) != Some(2)
    });
    println!(
        "asked to clean {} ns after the write began: 2 was acknowledged and is lost",
        lost_at.expect("some moment is too late")
    );
}

#[test]
fn e9_an_old_object_at_a_reused_place_passes_for_a_new_one() {
    let scene = scene();
    let (_, server) = scene.serve_erda(NEVER_CLEAN);
    (1..=8).for_each(|number| scene.put(&key(1), number));
    let clean = |times| {
        server.ask_to_clean(0);
        // Any arrival makes the server check for requests.
        assert_eq!(scene.get(&key(1)), Some(8));
        scene.put(&key(2), 0);
        scene.pass(1_000_000);
        assert_eq!(server.cleaning().finished, times);
    };
    clean(1);
    clean(2);
    // The first region is in use again, with its old content: the next place holds an older object
    // of the same key.
    scene.put_and_die(&key(1), 9);
    let read = scene.get(&key(1));
    assert!(
        read.is_some_and(|number| number < 8),
        "{read:?} is read, 8 was acknowledged last and 9 never written"
    );
}

/// The test `a_third_region_of_a_head_is_out_of_reach` of the word covers offsets beyond.
#[test]
fn e10_a_head_reaches_two_gigabytes_and_no_more() {
    let largest = Geometry {
        region_size: 255 * (8 << 20),
        ..Geometry::for_keys(20, 64, 100, 0)
    };
    assert!(largest.check().is_ok());
    assert!(
        Geometry {
            region_size: 256 * (8 << 20),
            ..largest
        }
        .check()
        .is_err()
    );
}

#[test]
fn e11_a_torn_deletion_brings_the_key_back_and_dead_writers_leave_holes() {
    let scene = scene();
    scene.serve_erda(NEVER_CLEAN);
    scene.put(&key(1), 1);
    scene.settle();
    let process = scene.client_process();
    scene
        .world
        .block_on(async { assert!(scene.erda(&process).await.delete(&key(1)).await.unwrap()) });
    scene.cut_power(|offset| offset < metadata(&scene));
    scene.serve_erda(NEVER_CLEAN);
    assert_eq!(scene.get(&key(1)), Some(1), "the deletion was acknowledged");

    let full = Scene::new(Geometry {
        region_size: 8 * 512,
        ..small_segments()
    });
    full.serve_erda(NEVER_CLEAN);
    // Five objects fit a segment.
    (0..40).for_each(|number| full.put_and_die(&key(number), number));
    let process = full.client_process();
    let refused = full
        .world
        .block_on(async { full.erda(&process).await.put(&key(99), &value(1, 64)).await });
    assert!(
        refused.is_err(),
        "not one object is stored, and the log is full"
    );
}

/// The head points to the new region, and no word has been flipped.
#[test]
fn e12_a_power_cut_at_the_switch_leaves_words_that_refer_to_the_other_region() {
    let scene = scene();
    scene.serve_erda(NEVER_CLEAN);
    for number in 0..40 {
        scene.put(&key(number % 20), number);
    }
    let server = scene.settle();
    server.ask_to_clean(0);
    scene.put(&key(30), 30);
    scene.pass(1_000_000);
    assert_eq!(server.cleaning().finished, 1);
    let table = 4096..metadata(&scene);
    scene.cut_power(|offset| !table.contains(&offset));
    scene.serve_erda(NEVER_CLEAN);
    let lost = (0..20)
        .filter(|&number| scene.get(&key(number)) != Some(number + 20))
        .count();
    assert!(lost > 0, "{lost} of 20 acknowledged values are lost or old");
}
