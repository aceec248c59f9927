//! Nodes that were removed, and come back with nothing that counts.

use rand::RngExt as _;

use crate::world::{Ballast, Call, MS, Place, Scene, Shape};

fn shapes() -> [Shape; 2] {
    [Shape::THREE, Shape::ANSWERED]
}

/// Ends the node at `index`, and waits until the others have removed it.
fn remove(scene: &Scene, index: usize) {
    scene.places[index].kill();
    let name = &scene.places[index].name;
    let is_removed = || {
        let stored = scene.stored();
        stored.groups.iter().all(|group| !group.has_copy(name))
    };
    assert!(scene.run_until(200 * MS, is_removed), "{name} is removed");
}

/// Writes keys, and deletes some of them.
fn write_some(scene: &Scene, turns: u32) {
    for turn in 0..turns {
        let call = scene.new_write(turn % 3, (turn / 3) as u8 % 11);
        let deletes = turn % 2 == 0;
        scene.finish(Call { deletes, ..call });
    }
}

/// Needs the drop: keys that the others deleted meanwhile would come back.
pub fn a_removed_node_comes_back() {
    for shape in shapes() {
        let scene = Scene::settled(shape, 31);
        (0..33).for_each(|turn| scene.write(turn % 3, (turn / 3) as u8));
        for index in 0..3 {
            remove(&scene, index);
            write_some(&scene, 60);
            scene.start(index);
            let is_whole = scene.run_until(300 * MS, || scene.is_whole());
            assert!(is_whole, "it is a copy again");
            scene.assert_agreement();
            write_some(&scene, 30);
        }
        scene.assert_agreement();
    }
}

#[test]
fn a_removed_node_comes_back_as_a_copy_with_everything() {
    a_removed_node_comes_back();
}

fn keys_are_deleted(seed: u64) {
    let shape = Shape {
        shards: 1,
        ballast: Ballast::of(1 << 16),
        ..Shape::THREE
    };
    let scene = Scene::settled(shape, seed);
    (0..=250).for_each(|key| scene.write(0, key));
    remove(&scene, 2);
    scene.start(2);
    let mut calls = Vec::new();
    while !scene.is_whole() {
        // A key of the next page; and a later write, which tells the copies that the delete is done.
        let next = 4 * (1 + page_of(&scene, 0));
        for (key, deletes) in [(next + calls.len() as u64 / 2 % 4, true), (250, false)] {
            let call = scene.new_write(0, key.min(250) as u8);
            let call = Call { deletes, ..call };
            if let Some(place) = scene.serving(0) {
                scene.call(place.index, call);
            }
            calls.push(call);
            let pause = scene.random.borrow_mut().random_range(15_000..45_000);
            scene.run_for(pause);
        }
        assert!(calls.len() < 5_000, "it is a copy again");
    }
    calls.iter().for_each(|&call| scene.finish(call));
    scene.assert_agreement();
}

/// The page of a shard with ballast that a joiner gets at this moment.
fn page_of(scene: &Scene, shard: u32) -> u64 {
    let node = scene.serving(shard).and_then(Place::node);
    let fillings = node.map_or_else(Vec::new, |node| node.fillings());
    let mut fillings = fillings.iter();
    let filling = fillings.find(|filling| filling.shard == shard);
    filling.map_or(0, |filling| filling.copied / 65_000)
}

#[test]
fn a_key_that_is_deleted_while_a_node_is_filled_stays_deleted_there() {
    (40..44).for_each(keys_are_deleted);
}

/// Needs the commit before the letter that says that everything was pulled.
pub fn a_joiner_loses_power_when_it_is_named() {
    let scene = Scene::settled(Shape::THREE, 33);
    (0..33).for_each(|turn| scene.write(turn % 3, (turn / 3) as u8));
    remove(&scene, 2);
    scene.places[2].disk.slow_down(2 * MS);
    scene.start(2);
    let name = &scene.places[2].name;
    for shard in 0..3 {
        let is_named = || scene.stored().groups[shard].in_sync.contains(name);
        let named = scene.run_until(900 * MS, is_named);
        assert!(named, "it is a copy of shard {shard} again");
        if shard == 0 {
            scene.places[2].cut_power(&scene.world, 0);
            scene.start(2);
        }
    }
    scene.places[2].disk.slow_down(0);
    write_some(&scene, 30);
    scene.assert_agreement();
}

#[test]
fn a_node_that_is_named_has_everything_durably() {
    a_joiner_loses_power_when_it_is_named();
}

/// The time for which no write of a shard is answered while a node is filled with a hundred megabytes.
#[test]
fn a_shard_goes_on_while_a_node_is_filled_with_a_hundred_megabytes() {
    let shape = Shape {
        shards: 1,
        ballast: Ballast::of(100 << 20),
        ..Shape::THREE
    };
    let scene = Scene::settled(shape, 34);
    (0..30).for_each(|key| scene.write(0, key));
    remove(&scene, 2);
    scene.start(2);
    let begun = scene.world.now();
    let (mut longest, mut seen) = (0, Vec::new());
    while !scene.is_whole() {
        let before = scene.world.now();
        scene.write(0, (before % 31) as u8);
        longest = longest.max(scene.world.now() - before);
        let place = scene.serving(0).expect("it is served");
        seen.extend(place.node().expect("it runs").fillings());
        assert!(before < begun + 2_000 * MS, "it is a copy again");
    }
    let duration = scene.world.now() - begun;
    println!("filled in {duration} ns; the longest write took {longest} ns");
    assert!(longest < 5 * MS, "{longest} ns");
    let ascends = seen.windows(2).all(|two| two[0].copied <= two[1].copied);
    let last = seen.last().expect("it was filled");
    assert!(ascends && last.copied >= shape.ballast.size, "{last:?}");
    scene.assert_agreement();
}

/// Needs an ask behind each answer: a value of a page may be longer than the letters that a session takes at a time.
pub fn long_pages_bring_a_copy_without_pauses() {
    let ballast = Ballast {
        size: 16 << 20,
        stretch: 16,
    };
    let shape = Shape {
        shards: 1,
        ballast,
        ..Shape::THREE
    };
    let scene = Scene::settled(shape, 35);
    (0..30).for_each(|key| scene.write(0, key));
    remove(&scene, 2);
    scene.start(2);
    let begun = scene.world.now();
    let joined = scene.run_until(400 * MS, || scene.is_whole());
    let duration = scene.world.now() - begun;
    println!("filled in {duration} ns");
    // An answer has 64 KiB: 256 of them would take 128 ms with pauses.
    assert!(joined && duration < 60 * MS, "{duration} ns");
    (0..30).for_each(|key| scene.write(0, key));
    scene.assert_agreement();
}

#[test]
fn a_page_that_is_longer_than_an_answer_comes_without_pauses() {
    long_pages_bring_a_copy_without_pauses();
}
