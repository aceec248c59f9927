//! Copies whose log has no free segment.

use crate::world::{MS, Scene, Shape};

/// Needs the patience of the primary: the copy grants leases, and has nothing to commit. Needs the rest of its node: a
/// joiner without a segment is named after every word was pulled, and the next write would wait again.
pub fn a_copy_whose_log_lends_no_segment_is_dropped() {
    let scene = Scene::settled(Shape::THREE, 92);
    let full = 2;
    for place in &scene.places[..full] {
        place.kill();
        place.copy_patience_ns.set(80 * MS);
        scene.start(place.index);
        assert!(scene.run_until(400 * MS, || scene.all_served()));
    }
    scene.places[full].replace_without_segments(&scene.world);
    let name = &scene.places[full].name;
    let has_left = || {
        let groups = scene.stored().groups;
        groups.iter().all(|group| !group.in_sync.contains(name))
    };
    assert!(scene.run_until(400 * MS, has_left), "{:?}", scene.ends());
    scene.start(full);
    assert!(
        scene.run_until(1_000 * MS, || scene.is_whole()),
        "the node joins, which takes no segment: {:?}",
        scene.ends()
    );
    for shard in 0..3 {
        scene.write(shard, 1);
    }
    let has_left = || {
        let groups = scene.stored().groups;
        groups.iter().all(|group| !group.has_copy(name))
    };
    assert!(
        has_left(),
        "the copies are dropped: {:?}",
        scene.stored().groups
    );
    for turn in 0..30 {
        scene.write(turn % 3, 2);
        assert!(has_left(), "the node asks for no copy");
    }
    assert_eq!(scene.ends(), [None, None, None]);
    let dropped = scene.places.iter().filter_map(|place| place.node());
    assert!(dropped.map(|node| node.counts().full).sum::<u64>() > 0);
    scene.assert_agreement();
}

#[test]
fn writes_go_on_without_a_copy_that_takes_no_entry() {
    a_copy_whose_log_lends_no_segment_is_dropped();
}
