//! Nodes that an operator dismisses.

use crate::world::{MS, Scene, Shape};

/// Needs the fence of a node that the configuration does not name: READs make its appends durable without a word of
/// this node, and its lease holds for a while.
pub fn an_heir_has_what_a_dismissed_primary_answers() {
    // A search that is slower than the writes leaves some of them to the heir's fence.
    let shape = Shape {
        look_units: 1,
        ..Shape::THREE
    };
    let scene = Scene::settled(shape, 41);
    (0..9).for_each(|turn| scene.write(turn % 3, 1));
    let dismissed = scene.serving(0).expect("it is served").index;
    scene.cut_off_from_store(dismissed, 20 * MS);
    let others = scene.places.iter().filter(|place| place.index != dismissed);
    others.for_each(|place| place.disk.slow_down(MS));
    scene.dismiss(dismissed);
    for turn in 0..300 {
        scene.call(dismissed, scene.new_write(0, turn as u8));
        scene.run_for(MS / 50);
    }
    scene
        .places
        .iter()
        .for_each(|place| place.disk.slow_down(0));
    (0..9).for_each(|turn| scene.write(turn % 3, 1));
    assert_ne!(scene.serving(0).expect("it is served").index, dismissed);
    scene.assert_agreement();
}

#[test]
fn a_primary_that_was_dismissed_answers_nothing_that_its_heir_lacks() {
    an_heir_has_what_a_dismissed_primary_answers();
}

/// Needs numbers of connections that no predecessor has had: the primary keeps its term, and knows those of the second
/// run of the node that is replaced.
pub fn a_replaced_node_is_another_one() {
    for shape in [Shape::THREE, Shape::ANSWERED] {
        let shape = Shape {
            spares_none: false,
            ..shape.patient()
        };
        let scene = Scene::settled(shape, 42);
        (0..9).for_each(|turn| scene.write(turn % 3, 1));
        let replaced = scene.serving(1).expect("it is served").index;
        let place = &scene.places[replaced];
        place.kill();
        scene.start(replaced);
        (0..9).for_each(|turn| scene.write(turn % 3, 2));
        assert!(scene.run_until(100 * MS, || scene.all_served()));
        let serving = |shard| scene.serving(shard).map(|place| place.index);
        let shard = (0..3).find(|&shard| serving(shard) != Some(replaced));
        let shard = shard.expect("each node leads one shard at first");
        let primary = serving(shard);
        place.kill();
        scene.dismiss(replaced);
        let is_named = || scene.stored().nodes.contains_key(&place.name);
        assert!(scene.run_until(100 * MS, || !is_named()), "it is dismissed");
        place.replace(&scene.world);
        scene.start(replaced);
        let is_whole = scene.run_until(400 * MS, || is_named() && scene.is_whole());
        assert!(
            is_whole,
            "the node has copies of all shards: {:?}",
            scene.ends()
        );
        (0..9).for_each(|turn| scene.write(turn % 3, 3));
        assert_eq!(serving(shard), primary);
        scene.assert_agreement();
    }
}

#[test]
fn a_node_that_replaces_one_of_its_name_gets_everything() {
    a_replaced_node_is_another_one();
}
