//! The copies of a shard, as its primary tells of them.

use stonecast_node::{CopyStatus, Part, copies_of};

use crate::world::{MS, Place, Scene, Shape};

/// The copies of all shards, as the primaries of the configuration tell of them.
fn copies(scene: &Scene) -> Vec<CopyStatus> {
    let nodes = scene.places.iter().filter_map(Place::node);
    nodes.flat_map(|node| copies_of(&node)).collect()
}

/// Needs the entries and bytes of the copy itself, and the time at which a write was stamped.
#[test]
fn a_copy_with_a_slow_medium_is_behind_by_the_writes_that_wait_for_it() {
    let scene = Scene::settled(Shape::ANSWERED, 91);
    let told = copies(&scene);
    assert_eq!(told.len(), 9, "three shards have three copies: {told:?}");
    for copy in &told {
        assert_eq!((copy.behind_entries, copy.waits_ns), (0, 0), "{copy:?}");
        assert!(copy.silent_ns < 10 * MS, "{copy:?}");
    }
    let primary = scene.serving(0).expect("it is served").index;
    let slow = &scene.places[(primary + 1) % 3];
    slow.disk.slow_down(6 * MS);
    scene.call(primary, scene.new_write(0, 1));
    scene.run_for(MS);
    scene.call(primary, scene.new_write(0, 2));
    scene.run_for(2 * MS);
    for copy in copies(&scene) {
        let part = match copy.node == scene.places[primary].name {
            true => Part::Leads,
            false => Part::InSync,
        };
        if copy.shard != 0 {
            assert_eq!(copy.behind_entries, 0, "{copy:?}");
        } else if copy.node != slow.name {
            assert_eq!((copy.part, copy.behind_entries), (part, 0), "{copy:?}");
            assert_eq!((copy.behind_bytes, copy.waits_ns), (0, 0), "{copy:?}");
        } else {
            // The commit of the first write goes on, and the second write waits for it.
            assert_eq!((copy.part, copy.behind_entries), (Part::InSync, 1));
            assert!(copy.behind_bytes >= 64, "{copy:?}");
            assert!(copy.waits_ns.abs_diff(2 * MS) < MS / 100, "{copy:?}");
        }
    }
    slow.disk.slow_down(0);
    let caught_up = || copies(&scene).iter().all(|copy| copy.waits_ns == 0);
    assert!(scene.run_until(50 * MS, caught_up));
    scene.assert_agreement();
}

/// Needs the silence of the node: its primary has no lease any more, and so no write that waits.
#[test]
fn a_node_that_stands_still_is_silent_to_the_primaries_of_all_of_its_copies() {
    let scene = Scene::settled(Shape::THREE.patient(), 92);
    let still = &scene.places[1];
    still.pause(60 * MS);
    scene.run_for(50 * MS);
    // The node that stands still is asked nothing.
    let told = [0, 2].map(|index| copies_of(&scene.places[index].node().expect("it runs")));
    let told: Vec<_> = told.into_iter().flatten().collect();
    let (silent, heard): (Vec<_>, Vec<_>) = told.iter().partition(|copy| copy.node == still.name);
    let shards: Vec<_> = silent.iter().map(|copy| copy.shard).collect();
    assert!(shards.len() == 3, "{told:?}");
    assert!(
        silent.iter().all(|copy| copy.silent_ns > 20 * MS),
        "{told:?}"
    );
    assert!(
        heard.iter().all(|copy| copy.silent_ns < 10 * MS),
        "{told:?}"
    );
    assert!(
        heard.iter().all(|copy| copy.part != Part::Leads),
        "{told:?}"
    );
    assert!(scene.run_until(200 * MS, || scene.all_served()));
    let all_heard = || copies(&scene).iter().all(|copy| copy.silent_ns < 10 * MS);
    assert!(scene.run_until(50 * MS, all_heard));
    scene.assert_agreement();
}
