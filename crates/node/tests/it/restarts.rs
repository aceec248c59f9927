//! Nodes that come back with the content of their pools.

use crate::world::{MS, Scene, Shape};

#[test]
fn a_node_that_was_killed_comes_back_as_a_copy_with_everything() {
    for shape in [Shape::THREE, Shape::ANSWERED] {
        let scene = Scene::settled(shape.patient(), 21);
        (0..30).for_each(|turn| scene.write(turn % 3, turn as u8));
        for index in 0..3 {
            scene.places[index].kill();
            scene.run_for(30 * MS);
            scene.start(index);
            (0..30).for_each(|turn| scene.write(turn % 3, turn as u8));
        }
        scene.assert_agreement();
        let stored = scene.stored();
        assert!(stored.groups.iter().all(|group| group.in_sync.len() == 3));
    }
}

#[test]
fn after_a_power_cut_of_all_nodes_everything_that_was_answered_is_there() {
    for shape in [Shape::THREE, Shape::ANSWERED] {
        let scene = Scene::settled(shape.patient(), 22);
        (0..30).for_each(|turn| scene.write(turn % 3, turn as u8));
        for place in &scene.places {
            place.cut_power(&scene.world, 0);
        }
        (0..3).for_each(|index| scene.start(index));
        assert!(scene.run_until(400 * MS, || scene.all_served()));
        (0..30).for_each(|turn| scene.write(turn % 3, turn as u8));
        scene.assert_agreement();
    }
}
