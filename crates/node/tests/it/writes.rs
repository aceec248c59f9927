//! Writes on all copies, while nothing happens to the nodes.

use crate::world::{MS, Scene, Shape};

fn shapes() -> [Shape; 2] {
    [Shape::THREE, Shape::ANSWERED]
}

#[test]
fn a_write_is_on_all_three_nodes_before_it_is_answered_and_copies_digest_it() {
    for shape in shapes() {
        let scene = Scene::settled(shape, 1);
        for shard in 0..shape.shards {
            (0..40).for_each(|key| scene.write(shard, key % 7));
        }
        assert_eq!(scene.oracle.borrow().answers, 40 * u64::from(shape.shards));
        scene.assert_agreement();
    }
}

/// Needs the floors: each node has appends of many times its memory.
#[test]
fn segments_are_used_again_when_what_they_have_was_digested() {
    let scene = Scene::settled(Shape::THREE, 2);
    for turn in 0..150 {
        for shard in 0..3 {
            let place = scene.serving(shard).expect("it is served").index;
            for key in 0..10 {
                scene.call(place, scene.new_write(shard, key));
            }
        }
        let answers = (turn + 1) * 30;
        let all = || scene.oracle.borrow().answers == answers;
        assert!(scene.run_until(20 * MS, all), "turn {turn}");
    }
    scene.assert_agreement();
}

/// Needs the wait for the own commit: both backups have the write long before.
pub fn a_primary_answers_behind_its_own_commit() {
    let scene = Scene::settled(Shape::THREE, 3);
    let primary = scene.serving(0).expect("it is served");
    primary.disk.slow_down(3 * MS);
    let call = scene.new_write(0, 1);
    scene.call(primary.index, call);
    let number = call.number.expect("it is a write");
    scene.run_for(2 * MS);
    assert!(
        !scene.oracle.borrow().is_done(number),
        "nothing is durable here"
    );
    scene.run_for(2 * MS);
    assert!(scene.oracle.borrow().is_done(number));
}

#[test]
fn the_own_log_of_a_primary_is_one_of_the_copies() {
    a_primary_answers_behind_its_own_commit();
}
