//! Hosts that are suspended: their software stands still, and their leases end meanwhile.

use crate::scene::{MS, Scene, THREE};

/// Needs a clock that goes on. By a clock that stands still, the suspended primary would lead beside its heir, after
/// its host has gone on, for the rest of a lease.
#[test]
pub fn a_primary_whose_host_was_suspended_until_others_had_removed_it_leads_no_longer() {
    let scene = Scene::settled(THREE, 12);
    let suspended = &scene.places[0];
    scene.world.suspend(suspended.machine, 150 * MS);
    scene.run_for(140 * MS);
    assert!(scene.all_led(), "its heirs lead");
    assert_eq!(scene.stored().groups_of(&suspended.name).count(), 0);
    scene.run_for(100 * MS);
    assert!(scene.all_led());
    let subjects = scene.subjects();
    let mut leaders = subjects.iter().flat_map(|subject| scene.leaders(subject));
    assert!(leaders.all(|(leader, _)| leader != 0));
}

/// Needs leases and removal to be different things, and the time in which a host was suspended not to count as silence
/// of its peers.
#[test]
fn a_host_that_was_suspended_for_longer_than_a_lease_stays_a_copy() {
    let scene = Scene::settled(THREE, 13);
    let suspended = &scene.places[0];
    scene.world.suspend(suspended.machine, 30 * MS);
    scene.run_for(130 * MS);
    assert!(scene.all_led());
    let groups = scene.stored().groups;
    let is_copy = |in_sync: &std::collections::BTreeSet<_>| in_sync.contains(&suspended.name);
    assert!(
        groups.iter().all(|group| is_copy(&group.in_sync)),
        "{groups:?}"
    );
}
