//! Processes that are gone, and nodes that only seem to be.

use stonecast_cluster::{NodeName, Timing};

use crate::scene::{MS, PolicyWords, Scene, Shape, THREE};

/// Three nodes with the default policy of a cluster, and leases of 10 ms.
const BY_DEFAULT: Shape = Shape {
    policy: PolicyWords {
        remove_after_ns: 500 * MS,
        ..THREE.policy
    },
    ..THREE
};

fn copies_at(scene: &Scene, name: &NodeName) -> usize {
    scene.stored().groups_of(name).count()
}

/// Needs the proof of a broken connection and an address at which nobody listens: silence alone takes half a second.
#[test]
fn a_node_whose_process_is_gone_is_removed_within_a_lease() {
    for (seed, dead) in [(31, 0), (32, 1), (33, 2)] {
        let scene = Scene::settled(BY_DEFAULT, seed);
        let name = scene.places[dead].name.clone();
        scene.kill(dead);
        let is_over = || copies_at(&scene, &name) == 0 && scene.all_led();
        assert!(scene.run_until(25 * MS, is_over), "node {dead}");
        assert!(scene.world.now() > Timing::DEDICATED_CORES.duration_ns);
    }
}

/// Needs the look at the copies that are left, after each removal of one change: the second node is as surely gone as
/// the first one.
#[test]
pub fn a_node_that_is_gone_stays_a_copy_where_writes_need_it() {
    (50..60).for_each(two_die_at_once);
}

fn two_die_at_once(seed: u64) {
    let scene = Scene::settled(BY_DEFAULT, seed);
    let [first, second] = [0, 1].map(|index| scene.places[index].name.clone());
    // The change that removes them is decided when both are known to be gone.
    scene.cut_from_store(2, 9 * MS);
    scene.kill(0);
    scene.kill(1);
    scene.run_for(200 * MS);
    let left = [&first, &second].map(|name| copies_at(&scene, name));
    let groups = scene.stored().groups.len();
    assert!(left == [groups, 0] || left == [0, groups], "{left:?}");
    // Its data are as good as before when it comes back in time.
    let back = usize::from(left[0] == 0);
    scene.start(back);
    assert!(scene.run_until(100 * MS, || scene.all_led()));
    assert_eq!(copies_at(&scene, &scene.places[back].name), groups);
}

/// Needs the number of the start in the proof. The others cannot remove the node before it runs again, and lead what it
/// leads later.
#[test]
pub fn a_node_that_runs_again_is_not_removed_for_its_predecessor() {
    let scene = Scene::settled(BY_DEFAULT, 35);
    scene.cut_from_store(1, 60 * MS);
    scene.cut_from_store(2, 60 * MS);
    scene.kill(0);
    scene.run_for(20 * MS);
    scene.start(0);
    scene.run_for(150 * MS);
    scene.pause(0, 30 * MS);
    scene.run_for(100 * MS);
    assert!(scene.all_led());
    let groups = scene.stored().groups.len();
    assert_eq!(copies_at(&scene, &scene.places[0].name), groups);
}

#[test]
fn a_node_that_nobody_reaches_is_not_taken_for_a_dead_one() {
    let scene = Scene::settled(BY_DEFAULT, 36);
    scene.cut_off(0, 150 * MS);
    scene.run_for(300 * MS);
    assert!(scene.all_led());
    let groups = scene.stored().groups.len();
    assert_eq!(copies_at(&scene, &scene.places[0].name), groups);
}

/// A node that dies again and again is removed once for each death, and never for a death that is over.
#[test]
fn a_node_that_dies_again_and_again_holds_nobody_up() {
    let scene = Scene::settled(BY_DEFAULT, 37);
    let name = scene.places[0].name.clone();
    for _ in 0..5 {
        scene.kill(0);
        let is_over = || copies_at(&scene, &name) == 0 && scene.all_led();
        assert!(scene.run_until(25 * MS, is_over));
        scene.start(0);
        scene.run_for(7 * MS);
    }
    assert!(scene.run_until(20 * MS, || scene.all_led()));
}
