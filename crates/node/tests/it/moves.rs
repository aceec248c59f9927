//! Shards that move, and nodes that drain, at the request of an operator.

use crate::world::{MS, Place, Scene, Shape};

fn shapes() -> [Shape; 2] {
    let two_copies = |shape| Shape {
        replicas: 2,
        ..shape
    };
    [Shape::THREE, Shape::ANSWERED].map(two_copies)
}

/// Needs the consent: an heir without it waits for the lease of its predecessor.
#[test]
fn a_shard_with_a_hundred_megabytes_moves_away_from_its_primary_with_a_short_pause() {
    for shape in shapes() {
        let shape = Shape {
            shards: 1,
            ballast: 100 << 20,
            ..shape
        };
        let scene = Scene::settled(shape, 51);
        (0..30).for_each(|key| scene.write(0, key));
        let stored = scene.stored();
        let group = stored.groups[0].clone();
        let mut places = scene.places.iter();
        let to = places.find(|place| !group.has_copy(&place.name)).unwrap();
        let (from, heir) = (group.primary.clone(), to.name.clone());
        scene.request(to.index, move |present| {
            present.move_copy(&group.subject, Some(&from), &heir)
        });
        scene.run_for(2 * MS);
        let (mut longest, begun) = (0, scene.world.now());
        while !(scene.is_whole() && scene.all_served()) {
            let before = scene.world.now();
            scene.write(0, (before % 31) as u8);
            longest = longest.max(scene.world.now() - before);
            assert!(before < begun + 2_000 * MS, "the shard moves");
        }
        println!("the longest write took {longest} ns");
        assert!(longest < 9 * MS, "{longest} ns");
        let moved = &scene.stored().groups[0];
        assert_eq!(moved.in_sync.len(), 2);
        assert!(moved.in_sync.contains(&to.name) && !moved.has_copy(&stored.groups[0].primary));
        scene.assert_agreement();
    }
}

#[test]
fn a_node_that_drains_has_nothing_in_the_end_and_no_copy_is_missing_meanwhile() {
    for shape in shapes() {
        let scene = Scene::settled(shape, 52);
        (0..30).for_each(|turn| scene.write(turn % 3, turn as u8));
        let drained = scene.places[0].name.clone();
        let name = drained.clone();
        scene.request(1, move |present| present.drain(&name));
        let keeps = || scene.stored().groups_of(&drained).count();
        for turn in 0.. {
            scene.write(turn % 3, turn as u8);
            let stored = scene.stored();
            assert!(stored.groups.iter().all(|group| group.in_sync.len() >= 2));
            if keeps() == 0 {
                break;
            }
            assert!(turn < 3_000, "the node drains");
        }
        let node = Place::node(&scene.places[0]).expect("it runs");
        assert!((0..3).all(|shard| node.serves(shard).is_none()));
        (0..30).for_each(|turn| scene.write(turn % 3, turn as u8));
        scene.assert_agreement();
    }
}

/// Needs the point in the consent: READs make the last entries durable at the heir, whose search finds them later than the letter of the primary comes.
pub fn an_heir_with_a_consent_has_what_was_answered_before() {
    let shape = Shape {
        shards: 1,
        replicas: 2,
        look_units: 2,
        packs: true,
        ..Shape::THREE
    };
    for seed in 53..58 {
        let scene = Scene::settled(shape, seed);
        (0..9).for_each(|key| scene.write(0, key));
        let stored = scene.stored();
        let group = stored.groups[0].clone();
        let from = scene.serving(0).expect("it is served").index;
        let others = || scene.places.iter().filter(|place| place.index != from);
        let to = others().find(|place| !group.has_copy(&place.name)).unwrap();
        let (primary, joiner) = (group.primary.clone(), to.name.clone());
        scene.request(to.index, move |present| {
            present.move_copy(&group.subject, Some(&primary), &joiner)
        });
        let is_named = || scene.stored().groups[0].in_sync.contains(&to.name);
        // Both others wait for their media most of the time, and look at their memory between two waits.
        others().for_each(|place| place.disk.slow_down(3 * MS));
        let mut written_at = 0;
        while !is_named() {
            if scene.world.now() > written_at + MS {
                written_at = scene.world.now();
                scene.call(from, scene.new_write(0, 1));
            }
            assert!(scene.world.step(), "the node joins");
        }
        (0..8).for_each(|key| scene.call(from, scene.new_write(0, key)));
        let moves = || scene.is_whole() && scene.all_served();
        assert!(scene.run_until(200 * MS, moves), "the shard moves");
        others().for_each(|place| place.disk.slow_down(0));
        assert_ne!(scene.serving(0).expect("it is served").index, from);
        scene.write(0, 1);
        scene.assert_agreement();
    }
}

#[test]
fn a_consent_voids_nothing_that_was_answered() {
    an_heir_with_a_consent_has_what_was_answered_before();
}
