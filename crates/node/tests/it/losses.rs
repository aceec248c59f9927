//! Nodes whose pools have lost entries, and look whole.

use crate::world::{MS, Scene, Shape};

/// A scene in which each node has entries that it has not digested: the last writes are on all copies, and no later
/// entry says so.
fn with_fresh_writes(shape: Shape, seed: u64) -> Scene {
    let scene = Scene::settled(shape.patient(), seed);
    for turn in 0..30 {
        scene.write(turn % 3, turn as u8);
    }
    scene
}

fn comes_back(scene: &Scene, index: usize) {
    scene.start(index);
    let whole = || scene.is_whole() && scene.all_served();
    assert!(scene.run_until(400 * MS, whole), "{:?}", scene.ends());
    for turn in 0..30 {
        scene.write(turn % 3, turn as u8);
    }
    assert!(scene.run_until(400 * MS, whole), "{:?}", scene.ends());
    scene.assert_agreement();
}

/// Needs the look of the primary at the end of a copy that connects again.
pub fn a_copy_loses_entries() {
    for (seed, shape) in (91..).zip([Shape::THREE, Shape::ANSWERED]) {
        let scene = with_fresh_writes(shape, seed);
        let lost = &scene.places[(scene.serving(0).expect("it is served").index + 1) % 3];
        lost.lose_entries();
        comes_back(&scene, lost.index);
    }
}

#[test]
fn a_copy_that_has_lost_entries_is_filled_anew() {
    a_copy_loses_entries();
}

/// Needs the word of the copies that refuse the history of the heir: they grant the lease of a node that can never
/// serve.
pub fn an_heir_loses_entries() {
    for (seed, shape) in (93..).zip([Shape::THREE, Shape::ANSWERED]) {
        let scene = with_fresh_writes(shape, seed);
        let primary = scene.serving(0).expect("it is served").index;
        let lost = &scene.places[(primary + 1) % 3];
        lost.lose_entries();
        let heir = lost.name.clone();
        scene.request(primary, move |present| {
            present.take_lead(&present.groups[0].subject, &heir)
        });
        scene.run_for(2 * MS);
        assert_eq!(scene.stored().groups[0].primary, lost.name);
        comes_back(&scene, lost.index);
    }
}

#[test]
fn an_heir_that_has_lost_entries_leads_nothing_and_is_filled_anew() {
    an_heir_loses_entries();
}
