//! Nodes at rest: they do little, and a write wakes them.

use crate::world::{MS, Place, Scene, Shape, is_long};

/// The time from the call of a write to its answer, at nodes that rest.
fn time_of_a_write(scene: &Scene, key: u8) -> u64 {
    scene.run_for(20 * MS);
    let primary = scene.serving(0).expect("it is served").index;
    let (call, begun) = (scene.new_write(0, key), scene.world.now());
    scene.call(primary, call);
    let number = call.number.expect("it is a write");
    while !scene.oracle.borrow().is_done(number) {
        assert!(scene.world.step(), "the write is answered");
    }
    scene.world.now() - begun
}

/// Needs the call of a report, and the letter that wakes a backup: a node that rests takes its next turn after
/// milliseconds.
pub fn a_write_waits_for_no_pause() {
    // The store takes calls every 5 us, and a commit takes 3 us. A backup that answers searches its memory before.
    // Where the device reports no arrivals, a letter wakes the backup.
    let packs = |shape| Shape {
        packs: true,
        ..shape
    };
    for (shape, limit_ns) in [
        (Shape::THREE, 8_000),
        (packs(Shape::THREE), 8_000),
        (Shape::ANSWERED, 60_000),
        (packs(Shape::ANSWERED), 20_000),
    ] {
        let scene = Scene::settled(shape, 61);
        let keys = (0..20).filter(|&key| !is_long(key));
        let times = keys.map(|key| time_of_a_write(&scene, key));
        let times: Vec<_> = times.collect();
        assert!(times.iter().all(|&time| time < limit_ns), "{times:?}");
        scene.assert_agreement();
    }
}

#[test]
fn a_write_at_nodes_at_rest_takes_as_long_as_its_network_and_its_media() {
    a_write_waits_for_no_pause();
}

/// Needs the rest: a turn at each pause would be 10000 in this time, and a look at each pause of looks 2000.
#[test]
fn an_idle_node_takes_few_turns_whatever_it_keeps() {
    for (shards, packs) in [(3, false), (64, false), (64, true)] {
        let shape = Shape {
            shards,
            packs,
            ..Shape::THREE
        };
        let scene = Scene::settled(shape, 62);
        (0..3).for_each(|shard| scene.write(shard, 1));
        scene.run_for(50 * MS);
        let node = |place: &Place| place.node().expect("it runs").counts();
        let before: Vec<_> = scene.places.iter().map(node).collect();
        scene.run_for(200 * MS);
        let after: Vec<_> = scene.places.iter().map(node).collect();
        for (before, after) in before.iter().zip(&after) {
            let (turns, looks) = (after.turns - before.turns, after.looks - before.looks);
            assert!(turns <= 5, "{shards} shards: {turns} turns");
            assert!(looks <= 10, "{shards} shards: {looks} looks");
        }
    }
}
