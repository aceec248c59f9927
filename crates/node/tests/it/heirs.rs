//! Heirs: shards go on without the node that led them.

use crate::world::{Call, MS, Scene, Shape};

#[test]
fn the_shards_of_a_dead_node_are_led_by_others_with_all_that_was_answered() {
    for shape in [Shape::THREE, Shape::ANSWERED] {
        let scene = Scene::settled(shape, 11);
        (0..30).for_each(|turn| scene.write(turn % 3, turn as u8));
        let dead = scene.serving(0).expect("it is served").index;
        scene.places[dead].kill();
        (0..30).for_each(|turn| scene.write(turn % 3, turn as u8));
        let led_by = scene.serving(0).expect("it is served").index;
        assert_ne!(led_by, dead);
        scene.assert_agreement();
        let stored = scene.stored();
        assert!(stored.groups.iter().all(|group| group.in_sync.len() == 2));
    }
}

/// Needs the lease: the node believes that it leads until it hears of its heir, and would answer a read with an
/// overwritten value.
pub fn a_primary_that_is_cut_off_answers_nothing() {
    let scene = Scene::settled(Shape::THREE, 12);
    (0..9).for_each(|turn| scene.write(turn % 3, 1));
    let alone = scene.serving(0).expect("it is served").index;
    scene.cut_off(alone, 150 * MS, true);
    let call = scene.new_write(0, 2);
    scene.call(alone, call);
    let number = call.number.expect("it is a write");
    scene.run_for(10 * MS);
    assert!(!scene.oracle.borrow().is_done(number), "no copy has it");
    let heir = scene.run_until(130 * MS, || {
        scene.serving(0).is_some_and(|place| place.index != alone)
    });
    assert!(heir, "another node leads");
    scene.finish(call);
    scene.write(0, 1);
    let answers = scene.oracle.borrow().answers;
    // The write without copies is of another key: a read of the same key would wait for that write.
    let read = Call {
        number: None,
        key: 1,
        ..call
    };
    scene.call(alone, read);
    scene.run_for(5 * MS);
    assert_eq!(scene.oracle.borrow().answers, answers, "nobody is told");
    scene.run_for(200 * MS);
    (0..9).for_each(|turn| scene.write(turn % 3, 1));
    scene.assert_agreement();
}

#[test]
fn nobody_is_told_anything_by_a_primary_without_lease() {
    a_primary_that_is_cut_off_answers_nothing();
}

/// Needs a copy that follows in spite of a doubt: the primary died inside a write, as far as both others know.
pub fn a_shard_is_led_while_its_last_primary_is_in_doubt() {
    for shape in [Shape::THREE, Shape::ANSWERED] {
        let scene = Scene::settled(shape, 14);
        (0..9).for_each(|turn| scene.write(turn % 3, 1));
        let dead = scene.serving(0).expect("it is served").index;
        let others = || scene.places.iter().filter(|place| place.index != dead);
        others().for_each(|place| place.doubt.begin());
        scene.places[dead].kill();
        scene.run_for(2 * MS);
        assert!(others().all(|place| place.doubt.is_there()));
        (0..30).for_each(|turn| scene.write(turn % 3, turn as u8));
        others().for_each(|place| place.doubt.end());
        (0..30).for_each(|turn| scene.write(turn % 3, turn as u8));
        scene.assert_agreement();
    }
}

#[test]
fn a_doubt_about_a_dead_primary_stops_nobody() {
    a_shard_is_led_while_its_last_primary_is_in_doubt();
}

#[test]
fn a_primary_that_stands_still_longer_than_its_lease_stays_a_copy() {
    let scene = Scene::settled(Shape::THREE, 13);
    (0..9).for_each(|turn| scene.write(turn % 3, 1));
    let paused = scene.serving(0).expect("it is served").index;
    scene.places[paused].pause(30 * MS);
    scene.run_for(25 * MS);
    (0..9).for_each(|turn| scene.write(turn % 3, 2));
    assert_ne!(scene.serving(0).expect("it is served").index, paused);
    let stored = scene.stored();
    assert!(stored.groups.iter().all(|group| group.in_sync.len() == 3));
    scene.assert_agreement();
}

/// Needs copies that end the session of a primary when they follow it anew: they give up the first pieces of a record,
/// and the rest would take the credits that these pieces need.
#[test]
fn a_primary_that_leads_again_by_the_same_connections_sends_the_record_that_it_had_begun() {
    let two_copies = Shape {
        replicas: 2,
        ..Shape::THREE
    };
    for (shape, slower_ns) in [(Shape::ANSWERED, MS), (two_copies, MS / 3)] {
        let scene = Scene::settled(shape.patient(), 20);
        (0..9).for_each(|turn| scene.write(turn % 3, 1));
        let primary = scene.serving(0).expect("it is served");
        let before = scene.stored().groups.swap_remove(0);
        for copy in before.in_sync.iter().filter(|&copy| *copy != primary.name) {
            let copy = scene.place(copy);
            // A copy that waits for a commit finds entries and follows in one turn.
            copy.disk.slow_down(slower_ns);
            copy.pause(30 * MS);
        }
        // A copy gives credits for four messages. The records of key 3 have four.
        for key in [1, 3, 1, 3, 3] {
            scene.call(primary.index, scene.new_write(0, key));
        }
        scene.run_for(40 * MS);
        (0..18).for_each(|turn| scene.write(turn % 3, turn as u8));
        let after = scene.stored().groups.swap_remove(0);
        assert!(after.term > before.term && after.primary == before.primary);
        scene.assert_agreement();
    }
}
