//! The fate of leaders and copies when nodes die, stand still, or do not hear each other.

use stonecast_cluster::{ChangeError, Configuration, Epoch, NodeName, NodeState, Refusal, Subject};
use stonecast_member::MemberEvent;

use crate::scene::{MS, PolicyWords, Scene, Shape, THREE};

/// Two nodes with two copies of three shards.
const TWO: Shape = Shape {
    nodes: 2,
    policy: PolicyWords {
        replicas: 2,
        ..THREE.policy
    },
    ..THREE
};

/// The first group that node `index` leads.
fn led_by(scene: &Scene, index: usize) -> usize {
    let stored = scene.stored();
    let name = &scene.places[index].name;
    let led = stored
        .groups
        .iter()
        .position(|group| group.primary == *name);
    led.expect("each node leads a group")
}

fn is_copy(scene: &Scene, name: &NodeName) -> bool {
    let stored = scene.stored();
    stored
        .groups
        .iter()
        .all(|group| group.in_sync.contains(name))
}

#[test]
fn a_cluster_that_starts_leads_every_group_and_goes_on() {
    let scene = Scene::settled(THREE, 1);
    let epoch = scene.stored().epoch;
    let since = scene.world.now();
    let mut led_always = true;
    scene.run_until(500 * MS, || {
        led_always &= scene.all_led();
        false
    });
    assert!(led_always, "no lease is interrupted");
    assert_eq!(scene.stored().epoch, epoch, "nothing changes");
    for index in 0..3 {
        assert_eq!(scene.told(index, since), [""; 0]);
    }
}

#[test]
fn a_dead_node_is_succeeded_and_then_removed_from_all_groups() {
    let scene = Scene::settled(THREE, 2);
    let dead = scene.places[0].name.clone();
    scene.kill(0);
    let removed = |scene: &Scene| scene.stored().groups_of(&dead).next().is_none();
    assert!(scene.run_until(200 * MS, || removed(&scene) && scene.all_led()));
    let stored = scene.stored();
    assert!(stored.groups.iter().all(|group| group.in_sync.len() == 2));
}

/// Needs leases and removal to be different things.
#[test]
fn a_primary_that_stands_still_for_longer_than_a_lease_resigns_and_stays_a_copy() {
    let scene = Scene::settled(THREE, 3);
    let led = led_by(&scene, 0);
    let (subject, term) = {
        let group = &scene.stored().groups[led];
        (group.subject.clone(), group.term)
    };
    let since = scene.world.now();
    scene.pause(0, 30 * MS);
    scene.run_for(100 * MS);
    assert!(scene.all_led());
    assert!(is_copy(&scene, &scene.places[0].name));
    let diary = scene.places[0].diary.borrow();
    let resigned = MemberEvent::Resigned { subject, term };
    assert!(
        diary
            .iter()
            .any(|(at, event)| *at > since && *event == resigned),
        "{diary:?}"
    );
}

/// Needs the time in which a node stood still not to count as silence of its peers.
#[test]
pub fn nodes_that_all_stood_still_at_once_lose_no_copy() {
    let scene = Scene::settled(THREE, 4);
    // Node a wakes before the others, and hears no peer at first.
    (0..3).for_each(|index| scene.pause(index, if index == 0 { 300 } else { 304 } * MS));
    scene.run_for(600 * MS);
    assert!(scene.all_led());
    for place in &scene.places {
        assert!(is_copy(&scene, &place.name), "{} is a copy", place.name);
    }
}

/// Needs the wait for forgotten grants: the copy alone has granted the lease that still holds.
#[test]
pub fn a_copy_that_starts_again_and_is_left_alone_waits_for_the_lease_that_it_forgot() {
    let scene = Scene::settled(TWO, 10);
    scene.cut_off(0, 100 * MS);
    scene.kill(1);
    scene.start(1);
    assert!(scene.run_until(20 * MS, || scene.member(1).is_some()));
    let led = led_by(&scene, 0);
    let subject = scene.subjects()[led].clone();
    assert_eq!(scene.leaders(&subject)[0].0, 0, "its lease is not over");
    let member = scene.member(1).unwrap();
    let cut_off = scene.places[0].name.clone();
    let process = scene.places[1].process.borrow();
    let runtime = process.as_ref().unwrap().runtime();
    // An operator reports, rightly or wrongly, a loss that no node can detect yet.
    runtime.spawn(Box::pin(async move {
        let remove = |present: &Configuration| present.remove(&cut_off).map(Some);
        member.change(remove).await.unwrap();
    }));
    assert!(scene.run_until(100 * MS, || {
        scene
            .leaders(&subject)
            .first()
            .is_some_and(|(leader, _)| *leader == 1)
    }));
}

/// Needs the loss to be part of the registration: a primary that is registered before its loss leads with nothing.
#[test]
pub fn a_node_that_has_lost_its_copies_starts_without_them() {
    let scene = Scene::settled(THREE, 13);
    scene.kill(0);
    scene.places[0].lost.borrow_mut().extend(scene.subjects());
    scene.start(0);
    assert!(scene.run_until(20 * MS, || scene.member(0).is_some()));
    let stored = scene.stored();
    let name = &scene.places[0].name;
    assert_eq!(stored.groups_of(name).count(), 0);
    assert!(scene.run_until(100 * MS, || scene.all_led()));
}

#[test]
fn a_group_whose_only_copy_is_lost_is_led_again_after_an_operator_gives_it_up() {
    let scene = Scene::settled(THREE, 14);
    let subject = Subject::BackEnd("orders".to_owned());
    let [lost, heir] = [0, 1].map(|index| scene.places[index].name.clone());
    let change =
        |index: usize, change: &dyn Fn(&Configuration) -> Result<Configuration, Refusal>| {
            let member = scene.member(index).unwrap();
            scene
                .world
                .block_on(member.change(|present| change(present).map(Some)))
        };
    change(2, &|present| present.add_back_end("orders", &lost)).unwrap();
    assert!(scene.run_until(100 * MS, || scene.all_led()));
    scene.kill(0);
    scene.places[0].lost.borrow_mut().insert(subject.clone());
    scene.run_for(300 * MS);
    assert_eq!(scene.leaders(&subject), [], "nobody else has a copy");
    scene.start(0);
    scene.run_for(20 * MS);
    let end = format!("{:?}", scene.places[0].end.borrow());
    assert!(end.contains("SoleCopy"), "{end}");

    change(2, &|present| present.give_up(&subject, &lost, &heir)).unwrap();
    assert!(scene.run_until(100 * MS, || scene.all_led()));
    assert_eq!(scene.leaders(&subject)[0].0, 1);
    // The pool that lost the group has no part in it.
    scene.kill(0);
    scene.start(0);
    assert!(scene.run_until(50 * MS, || scene.member(0).is_some()));
    scene.run_for(100 * MS);
    assert_eq!(scene.leaders(&subject)[0].0, 1);
    assert!(!scene.stored().group(&subject).unwrap().has_copy(&lost));
}

/// Needs numbers of joins: the content that the joiner got before it left is gone.
#[test]
pub fn a_join_that_was_broken_off_does_not_finish_the_one_after_it() {
    let scene = Scene::settled(Shape { nodes: 4, ..THREE }, 12);
    let stored = scene.stored();
    let group = &stored.groups[0];
    let subject = &group.subject;
    let mut names = scene.places.iter().map(|place| &place.name);
    let joiner = names.find(|name| !group.has_copy(name)).unwrap();
    let (leader, _) = scene.leaders(subject)[0];
    let member = scene.member(leader).unwrap();
    let begin = || {
        let begin = |present: &Configuration| present.begin_join(subject, joiner).map(Some);
        let begun = scene.world.block_on(member.change(begin)).unwrap();
        begun.group(subject).unwrap().joining[joiner]
    };
    let finish = |join: Epoch| {
        let mut outcome = Ok(false);
        for _ in 0..30 {
            scene.run_for(MS);
            let finish = member.finish_join(subject, (joiner, join), group.term);
            outcome = scene.world.block_on(finish);
            if outcome != Ok(false) {
                break;
            }
        }
        outcome
    };
    let first = begin();
    let leave = |present: &Configuration| present.leave(subject, joiner).map(Some);
    scene.world.block_on(member.change(leave)).unwrap();
    let second = begin();
    let refusal = Refusal::EarlierJoin {
        node: joiner.clone(),
        subject: subject.clone(),
        found: first,
        known: second,
    };
    assert_eq!(finish(first), Err(ChangeError::Refused(refusal)));
    assert_eq!(finish(second), Ok(true));
}

#[test]
fn a_node_that_nobody_hears_is_removed_and_the_others_go_on() {
    for one_way in [false, true] {
        let scene = Scene::settled(THREE, 5);
        let cut_off = scene.places[1].name.clone();
        scene.isolate(1, 300 * MS, one_way);
        let removed = || scene.stored().groups_of(&cut_off).next().is_none() && scene.all_led();
        assert!(scene.run_until(250 * MS, removed), "one way: {one_way}");
        scene.run_for(200 * MS);
        let stored = scene.stored();
        for kept in [0, 2] {
            assert!(
                is_copy(&scene, &scene.places[kept].name),
                "{:?}",
                stored.groups
            );
        }
    }
}

#[test]
fn a_single_survivor_leads_after_a_while() {
    let scene = Scene::settled(THREE, 6);
    scene.kill(0);
    scene.kill(1);
    assert!(scene.run_until(500 * MS, || scene.all_led()));
    assert_eq!(scene.leaders(&scene.subjects()[0])[0].0, 2);
}

#[test]
fn an_outage_of_the_store_interrupts_no_lease() {
    let scene = Scene::settled(THREE, 7);
    scene.service.fail_over_for(400 * MS);
    let mut led_always = true;
    scene.run_until(500 * MS, || {
        led_always &= scene.all_led();
        false
    });
    assert!(led_always);
}

/// Needs peers to tell each other the configuration: a copy that stays behind grants nothing.
#[test]
fn a_copy_that_does_not_reach_the_store_hears_of_a_change_from_its_peers() {
    let scene = Scene::settled(THREE, 11);
    scene.cut_from_store(2, 300 * MS);
    let member = scene.member(0).unwrap();
    let process = scene.places[0].process.borrow();
    let runtime = process.as_ref().unwrap().runtime();
    let epoch = scene.stored().epoch;
    runtime.spawn(Box::pin(async move {
        let drain = |present: &Configuration| {
            let state = NodeState::Draining;
            present.set_state(member.name(), state).map(Some)
        };
        member.change(drain).await.unwrap();
    }));
    let mut led_always = true;
    scene.run_until(250 * MS, || {
        led_always &= scene.all_led();
        false
    });
    assert!(scene.stored().epoch > epoch);
    assert_eq!(
        scene.member(2).unwrap().configuration().epoch,
        scene.stored().epoch
    );
    assert!(led_always, "no lease is interrupted");
    assert!(is_copy(&scene, &scene.places[2].name));
}

/// Needs peers to hear a start that they do not know yet: no third node can tell the copy about the start.
#[test]
fn a_node_that_starts_again_tells_so_to_a_copy_that_does_not_reach_the_store() {
    let scene = Scene::settled(TWO, 14);
    scene.cut_from_store(1, 400 * MS);
    scene.kill(0);
    scene.start(0);
    let hears = || {
        let member = scene.member(1).unwrap();
        member.configuration().epoch == scene.stored().epoch
    };
    let incarnation = scene.stored().nodes[&scene.places[0].name].incarnation;
    assert!(scene.run_until(200 * MS, || hears() && scene.all_led()));
    let stored = scene.stored();
    assert!(stored.nodes[&scene.places[0].name].incarnation > incarnation);
    scene.run_for(100 * MS);
    assert!(scene.all_led());
    assert!(is_copy(&scene, &scene.places[1].name), "nobody is removed");
}

#[test]
fn a_node_that_dies_during_an_outage_of_the_store_is_succeeded_when_the_outage_is_over() {
    let scene = Scene::settled(THREE, 8);
    scene.service.fail_over_for(100 * MS);
    scene.kill(2);
    scene.run_for(95 * MS);
    assert!(!scene.all_led(), "nobody can take the lead");
    assert!(scene.run_until(1_000 * MS, || scene.all_led()));
}

#[test]
pub fn a_node_that_starts_again_leads_in_a_later_term_and_its_peers_come_back_to_it() {
    let scene = Scene::settled(THREE, 9);
    let led = led_by(&scene, 0);
    let term = scene.stored().groups[led].term;
    scene.kill(0);
    scene.run_for(MS);
    scene.start(0);
    assert!(scene.run_until(200 * MS, || scene.all_led()));
    scene.run_for(100 * MS);
    assert!(scene.all_led());
    assert!(scene.stored().groups[led].term > term);
    assert!(is_copy(&scene, &scene.places[0].name));
}
