//! Nodes whose medium fails, or does not answer.

use stonecast_node::PeerStatus;
use stonecast_replication::Lineage;

use crate::world::{Change, MS, Place, Scene, Shape};

/// Breaks the medium of the primary of shard 0, and has the others write until the node notices.
fn break_medium(seed: u64, how: impl FnOnce(&Place)) -> (Scene, usize) {
    let scene = Scene::settled(Shape::THREE, seed);
    (0..30).for_each(|turn| scene.write(turn % 3, 1));
    let broken = scene.serving(0).expect("it is served").index;
    how(&scene.places[broken]);
    let led = (0..3).find(|&shard| {
        scene
            .serving(shard)
            .is_some_and(|place| place.index != broken)
    });
    let (shard, led_by) = led
        .and_then(|shard| Some((shard, scene.serving(shard)?.index)))
        .expect("each node leads a shard");
    for key in 0..20 {
        scene.call(led_by, scene.new_write(shard, key));
        scene.run_for(MS / 4);
    }
    (scene, broken)
}

fn others_lead(scene: &Scene, broken: usize) {
    let led = scene.run_until(250 * MS, || {
        (0..3).all(|shard| {
            scene
                .serving(shard)
                .is_some_and(|place| place.index != broken)
        })
    });
    assert!(led, "other nodes lead all shards: {:?}", scene.ends());
    let node = scene.places[broken].node().expect("it runs");
    assert!((0..3).all(|shard| node.serves(shard).is_none()));
}

/// Needs the end of the membership: peers grant the lease of a process that runs and asks.
pub fn others_lead_what_a_node_with_a_broken_medium_led() {
    let (scene, broken) = break_medium(51, |place| place.disk.is_to_break(true));
    others_lead(&scene, broken);
    let end = scene.places[broken].end();
    assert!(end.is_some_and(|end| end.contains("the disk says no")));
    (0..30).for_each(|turn| scene.write(turn % 3, 1));
    scene.assert_agreement();
}

#[test]
fn a_node_whose_medium_fails_gives_its_shards_up() {
    others_lead_what_a_node_with_a_broken_medium_led();
}

/// Needs the bound of a turn.
#[test]
fn a_node_whose_medium_does_not_answer_gives_its_shards_up() {
    let (scene, broken) = break_medium(52, |place| place.disk.slow_down(10_000 * MS));
    others_lead(&scene, broken);
    let end = scene.places[broken].end();
    assert!(end.is_some_and(|end| end.contains("has not ended its work")));
}

/// Breaks the medium of the primary of shard 0, which keeps no history meanwhile, and has it write.
fn break_own_log(seed: u64, how: impl FnOnce(&Place)) -> (Scene, usize) {
    let scene = Scene::settled(Shape::THREE, seed);
    (0..9).for_each(|turn| scene.write(turn % 3, 1));
    scene.run_for(30 * MS);
    let broken = scene.serving(0).expect("it is served").index;
    how(&scene.places[broken]);
    scene.call(broken, scene.new_write(0, 2));
    (scene, broken)
}

/// Needs the bound of the store's own commits: no turn of the node waits for the medium.
pub fn others_lead_what_a_node_led_whose_own_log_hangs() {
    let (scene, broken) = break_own_log(54, |place| place.disk.slow_down(10_000 * MS));
    others_lead(&scene, broken);
    let end = scene.places[broken].end();
    assert!(end.is_some_and(|end| end.contains("has not ended its work")));
    scene.write(0, 3);
}

#[test]
fn a_node_whose_own_log_hangs_gives_its_shards_up() {
    others_lead_what_a_node_led_whose_own_log_hangs();
}

/// Needs the word of the store.
#[test]
fn a_node_whose_own_log_fails_gives_its_shards_up() {
    let (scene, broken) = break_own_log(55, |place| place.disk.is_to_break(true));
    others_lead(&scene, broken);
    let end = scene.places[broken].end();
    assert!(end.is_some_and(|end| end.contains("the disk says no")));
}

/// Needs the look at the lease: nothing but the clock has told the node that it leads no more.
#[test]
fn a_node_serves_no_longer_than_its_lease_whatever_its_turns_wait_for() {
    let (scene, slow) = break_medium(53, |place| place.disk.slow_down(30 * MS));
    let node = scene.places[slow].node().expect("it runs");
    assert!(node.serves(0).is_some(), "its membership goes on");
    scene.cut_off(slow, 100 * MS, true);
    scene.run_for(12 * MS);
    assert_eq!(node.serves(0), None);
}

/// Needs the look at the cluster of each history: a store that serves its pool alone counts its openings as terms, and
/// a cluster would take them for its own.
#[test]
fn a_node_refuses_the_history_of_a_store_that_served_its_pool_alone() {
    let scene = Scene::settled(Shape::THREE, 53);
    let place = &scene.places[0];
    place.kill();
    place.disk.note(Change::History(0, Lineage::default()));
    let _told = place.disk.commit(place.disk.mark());
    scene.start(0);
    scene.run_for(MS);
    let end = place.end();
    assert!(
        end.as_ref()
            .is_some_and(|end| end.contains("a history of the cluster 00000000-")),
        "{end:?}"
    );
}

/// The paths to a node that stands still for 40 ms, of the other two. Heirs of its shard tell it their histories
/// meanwhile.
fn paths_to_a_still_node(unready_ns: u64) -> Vec<PeerStatus> {
    let shape = Shape {
        unready_ns,
        ..Shape::THREE.patient()
    };
    let scene = Scene::settled(shape, 72);
    scene.places[1].pause(40 * MS);
    scene.run_for(35 * MS);
    let still = &scene.places[1].name;
    let nodes = [0, 2].map(|index| scene.places[index].node().expect("it runs"));
    let paths = nodes.iter().map(|node| node.peers().remove(still));
    paths.flatten().collect()
}

/// Needs the time that the options give a peer without a buffer: a process that waits for its processor takes no
/// letter.
#[test]
fn letters_to_a_node_that_stands_still_wait_for_as_long_as_the_options_say() {
    let is_troubled = |path: &PeerStatus| {
        let trouble = path.letter_trouble.as_deref();
        trouble.is_some_and(|trouble| trouble.contains("no receive buffer"))
    };
    assert!(paths_to_a_still_node(0).iter().any(is_troubled));
    assert!(!paths_to_a_still_node(60 * MS).iter().any(is_troubled));
}

/// Needs a letter that waits to go out once, however often it is repeated.
#[test]
fn repeated_letters_to_a_node_that_stands_still_do_not_pile_up() {
    let waiting = |path: &PeerStatus| path.letters_waiting;
    let paths = paths_to_a_still_node(60 * MS);
    let most = paths.iter().map(waiting).max();
    assert!((1..=6).contains(&most.expect("a path")), "{paths:?}");
}
