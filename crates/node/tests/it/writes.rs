//! Writes on all copies, while nothing happens to the nodes.

use stonecast_node::NotServed;

use crate::world::{MS, RECORD_SIZE_MAX, Scene, Shape};

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

/// Needs the floors: each node gets appends of many times its memory.
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

/// Needs floors that rise by time: each segment has an entry of a shard that is seldom written.
pub fn a_shard_with_few_writes_holds_no_segment() {
    let scene = Scene::settled(Shape::THREE, 6);
    let busy = scene.serving(1).expect("it is served").index;
    for round in 0..7 {
        scene.write(0, round);
        scene.write(2, round);
        for burst in 0..12 {
            (0..10).for_each(|key| scene.call(busy, scene.new_write(1, key)));
            scene.run_for(MS);
            assert!(scene.serving(1).is_some(), "burst {burst}");
        }
    }
    let blank = scene
        .places
        .iter()
        .map(|place| place.store().expect("it runs").blank());
    let blank: Vec<_> = blank.collect();
    assert!(blank.iter().all(|&blank| blank >= 11), "{blank:?}");
    scene.assert_agreement();
}

#[test]
fn a_floor_rises_behind_a_few_writes() {
    a_shard_with_few_writes_holds_no_segment();
}

/// Needs the look at the body: all copies would wait for a record that none of them takes.
#[test]
fn a_record_that_no_copy_takes_is_refused_before_it_is_stamped() {
    let scene = Scene::settled(Shape::THREE, 4);
    let primary = scene.serving(0).expect("it is served");
    let node = primary.node().expect("it runs");
    let store = primary.store().expect("it runs");
    let longest = RECORD_SIZE_MAX;
    let stamp = |size: usize| node.stamp(0, u64::MAX, &vec![7; size], store.nobody());
    let too_long = NotServed::TooLong {
        size: u64::from(longest) + 1,
        longest,
    };
    assert_eq!(stamp(longest as usize + 1), Err(too_long));
    assert_eq!(stamp(0), Err(NotServed::Empty { shard: 0 }));
    scene.write(0, 1);
    scene.assert_agreement();
}

/// Needs the reasons of links and letters.
#[test]
fn a_node_says_why_it_does_not_reach_a_peer() {
    let scene = Scene::settled(Shape::THREE.patient(), 5);
    let primary = scene.serving(0).expect("it is served");
    let node = primary.node().expect("it runs");
    let peer = &scene.places[(primary.index + 1) % 3];
    let status = || node.peers()[&peer.name].clone();
    assert!(status().is_linked && status().link_trouble.is_none());
    peer.kill();
    scene.run_for(5 * MS);
    assert!(!status().is_linked);
    let trouble = status().link_trouble.expect("it is told");
    assert!(trouble.contains("sim:node-"), "{trouble}");
    scene.start(peer.index);
    assert!(scene.run_until(100 * MS, || status().is_linked));
    assert_eq!(status().link_trouble, None);
}

/// Needs the bound of what is stamped: a copy digests nothing before a later entry comes, and has no room for that one.
pub fn a_shard_that_is_offered_too_much_goes_on() {
    let scene = Scene::settled(Shape::THREE, 7);
    let busy = scene.serving(1).expect("it is served").index;
    for _ in 0..600 {
        scene.call(busy, scene.new_write(1, 1));
    }
    let all = || scene.oracle.borrow().answers == 600;
    assert!(
        scene.run_until(100 * MS, all),
        "{} of 600 writes are answered",
        scene.oracle.borrow().answers
    );
    scene.assert_agreement();
}

#[test]
fn six_hundred_writes_at_once_wait_for_room() {
    a_shard_that_is_offered_too_much_goes_on();
}

/// Needs the wait for the node's own commit: both backups have the write long before.
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

/// Needs the change of the first node that sees enough of them.
#[test]
fn a_new_cluster_places_its_shards_when_its_nodes_have_started() {
    let shape = Shape {
        is_new: true,
        ..Shape::THREE
    };
    let scene = Scene::settled(shape, 8);
    (0..9).for_each(|turn| scene.write(turn % 3, 1));
    assert!(scene.is_whole());
    scene.assert_agreement();
}
