//! Nodes that an operator dismisses.

use crate::world::{MS, Scene, Shape};

/// Needs the fence of a node that the configuration does not name: READs make its appends durable without a word of this node, and its lease holds for a
/// while.
pub fn an_heir_has_what_a_dismissed_primary_answers() {
    let scene = Scene::settled(Shape::THREE, 41);
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
