//! An operator adds, drains and removes nodes, and moves copies.

use std::collections::BTreeSet;

use rand::RngExt as _;
use rand::seq::IteratorRandom as _;
use stonecast_base::Random;
use stonecast_cluster::{Configuration, NodeName, NodeState, Policy, Refusal};

use crate::cluster::{name, node, placed, random, shard, start, start_of, three_nodes};

/// Three copies of each of `shards` shards on a, b and c, and a spare, d.
fn with_spare(shards: u32) -> Configuration {
    let placed = three_nodes(Policy::new(3, shards)).place_shards().unwrap();
    placed.register(&name("d"), &start(4)).unwrap()
}

/// Takes one step of one request in `present`, as nodes do. `None`: nothing is left to do.
fn step(present: &Configuration, random: &mut Random) -> Option<Configuration> {
    let joins = present.groups.iter().flat_map(|group| {
        let joins = group.joining.iter();
        joins.map(move |(node, &join)| {
            present.finish_join(&group.subject, (node, join), (&group.primary, group.term))
        })
    });
    let leaves = present.nodes.keys().flat_map(|node| {
        present.relieved(node).map(move |group| {
            if group.primary != *node {
                return present.leave(&group.subject, node);
            }
            let mut heirs = group.in_sync.difference(&group.leaving);
            present.take_lead(&group.subject, heirs.next().unwrap())
        })
    });
    joins.chain(leaves).choose(random).map(Result::unwrap)
}

/// The configuration after all requests are carried out.
fn settled(mut present: Configuration, random: &mut Random) -> Configuration {
    let mut steps = 0;
    while let Some(next) = step(&present, random) {
        present = next;
        steps += 1;
        assert!(steps < 10_000, "the steps end");
    }
    present
}

fn copies_of(present: &Configuration, node: &NodeName) -> usize {
    present.groups_of(node).count()
}

#[test]
fn a_spare_that_is_added_gets_its_share_and_no_copy_is_missing_meanwhile() {
    let random = &mut random(1);
    let mut present = with_spare(64).add(&name("d")).unwrap();
    assert_eq!(present.nodes[&name("d")].state, NodeState::Member);
    assert_eq!(copies_of(&present, &name("d")), 48, "a quarter of 192");
    while let Some(next) = step(&present, random) {
        assert!(next.groups.iter().all(|group| group.in_sync.len() >= 3));
        present = next;
    }
    for node in ["a", "b", "c", "d"] {
        assert_eq!(copies_of(&present, &name(node)), 48);
    }
    let refused = present.add(&name("d")).unwrap_err();
    assert_eq!(refused.to_string(), "d is a member");
}

#[test]
fn a_node_that_was_removed_and_is_there_again_takes_what_is_missing_and_nothing_else() {
    let random = &mut random(1);
    let whole = with_spare(4);
    assert_eq!(
        whole.take_missing(&name("d")),
        Ok(None),
        "nothing is missing"
    );
    let removed = whole.remove(&name("c")).unwrap();
    assert!(removed.lacks_copy_of(&name("c")) && !removed.lacks_copy_of(&name("a")));
    let taken = take_all(removed.forget(&name("d")).unwrap(), &["c"]);
    assert_eq!(taken.nodes[&name("c")].state, NodeState::Member);
    let settled = settled(taken, random);
    assert!(
        settled
            .groups
            .iter()
            .all(|group| group.in_sync.contains(&name("c")))
    );
    let drained = removed.set_state(&name("c"), NodeState::Draining).unwrap();
    assert_eq!(drained.take_missing(&name("c")), Ok(None), "its copies go");
}

/// Lets the nodes of `names` take the missing copies, one after the other.
fn take_all(mut present: Configuration, names: &[&str]) -> Configuration {
    for turn in 0..16 {
        let taker = name(names[turn % names.len()]);
        present = match present.take_missing(&taker).unwrap() {
            Some(next) => next,
            None => return present,
        };
    }
    panic!("some copies are still missing");
}

#[test]
fn nodes_that_are_there_share_the_copies_that_are_missing() {
    let removed = with_spare(16).remove(&name("c")).unwrap();
    let shared = take_all(removed.clone(), &["c", "d"]);
    let joins = |node: &str| {
        let node = name(node);
        let groups = shared.groups.iter();
        groups
            .filter(|group| group.joining.contains_key(&node))
            .count()
    };
    assert_eq!((joins("c"), joins("d")), (8, 8));
    let alone = take_all(removed, &["c"]);
    assert_eq!(copies_of(&alone, &name("c")), 16, "d is not there");
}

#[test]
fn a_spare_that_is_added_gets_what_is_missing_first() {
    let removed = with_spare(4).remove(&name("c")).unwrap();
    let added = removed.add(&name("d")).unwrap();
    assert!(
        added
            .groups
            .iter()
            .all(|group| { group.joining.contains_key(&name("d")) && group.leaving.is_empty() })
    );
}

#[test]
fn a_drained_node_keeps_nothing_and_can_be_removed() {
    let random = &mut random(2);
    let four = settled(with_spare(16).add(&name("d")).unwrap(), random);
    let draining = four.drain(&name("a")).unwrap();
    assert_eq!(draining.nodes[&name("a")].state, NodeState::Draining);
    let refused = draining.drain(&name("a")).unwrap_err();
    assert_eq!(refused.to_string(), "a is draining");
    let drained = settled(draining, random);
    assert_eq!(copies_of(&drained, &name("a")), 0);
    assert!(drained.groups.iter().all(|group| group.in_sync.len() == 3));
    let gone = drained.dismiss(&name("a")).unwrap();
    assert!(!gone.nodes.contains_key(&name("a")));
}

#[test]
fn a_drain_that_is_taken_back_leaves_the_copies_in_place() {
    let random = &mut random(3);
    let four = settled(with_spare(16).add(&name("d")).unwrap(), random);
    let back = four.drain(&name("a")).unwrap().add(&name("a")).unwrap();
    assert!(
        back.groups
            .iter()
            .all(|group| !group.leaving.contains(&name("a")))
    );
    let kept = copies_of(&settled(back, random), &name("a"));
    assert_eq!(kept, copies_of(&four, &name("a")));
}

#[test]
fn a_drain_is_refused_without_members_for_the_copies_and_names_are_checked() {
    let refused = placed().drain(&name("a")).unwrap_err();
    assert!(
        refused
            .to_string()
            .contains("3 copies need as many nodes, and there are 2"),
        "{refused}"
    );
    let refused = placed().drain(&name("z")).unwrap_err();
    assert_eq!(
        refused.to_string(),
        "there is no node z: the nodes are a, b, c"
    );
}

#[test]
fn no_node_is_removed_whose_copies_writes_need() {
    let two = placed().dismiss(&name("a")).unwrap();
    assert!(!two.nodes.contains_key(&name("a")));
    let refused = two.dismiss(&name("b")).unwrap_err();
    let expected = Refusal::TooFewCopies {
        node: name("b"),
        subject: shard(&two),
        left: 1,
        min_copies: 2,
    };
    assert_eq!(refused, expected);
    let sole = three_nodes(Policy::new(1, 4)).place_shards().unwrap();
    assert!(matches!(
        sole.dismiss(&name("a")),
        Err(Refusal::TooFewCopies { left: 0, .. })
    ));
}

#[test]
fn other_members_are_filled_in_the_place_of_a_removed_node() {
    let random = &mut random(4);
    let four = settled(with_spare(16).add(&name("d")).unwrap(), random);
    let three = four.dismiss(&name("a")).unwrap();
    let three = settled(three, random);
    assert!(three.groups.iter().all(|group| group.in_sync.len() == 3));
}

#[test]
fn a_copy_moves_and_the_one_that_goes_stays_until_the_other_has_everything() {
    let random = &mut random(5);
    let mut four = with_spare(4);
    four.nodes.get_mut(&name("d")).unwrap().state = NodeState::Member;
    let subject = shard(&four);
    let from = four.groups[0].primary.clone();
    let moving = four.move_copy(&subject, Some(&from), &name("d")).unwrap();
    assert!(moving.groups[0].in_sync.contains(&from));
    assert_eq!(moving.relieved(&from).count(), 0, "d has nothing yet");
    let refused = moving.move_copy(&subject, None, &name("d"));
    assert!(matches!(refused, Err(Refusal::HasCopy { .. })));
    let moved = settled(moving, random);
    let group = &moved.groups[0];
    assert!(group.in_sync.contains(&name("d")) && !group.has_copy(&from));
    assert_ne!(group.primary, from);
    let refused = four.move_copy(&subject, Some(&name("d")), &name("d"));
    assert!(matches!(refused, Err(Refusal::NotInSync { .. })));
    let spare = with_spare(4)
        .move_copy(&subject, None, &name("d"))
        .unwrap_err();
    assert_eq!(spare.to_string(), "d is a spare");
}

#[test]
fn a_copy_that_comes_and_one_that_goes_lie_in_as_many_power_zones() {
    let zones = [("a", "east"), ("b", "west"), ("c", "north"), ("d", "west")];
    let mut four = with_spare(8);
    for (text, zone) in zones {
        four.nodes.get_mut(&name(text)).unwrap().zone = Some(zone.to_owned());
    }
    let added = four.add(&name("d")).unwrap();
    for group in &added.groups {
        let leaving: Vec<_> = group.leaving.iter().collect();
        assert!(leaving.is_empty() || leaving == [&name("b")], "{leaving:?}");
    }
    assert!(copies_of(&added, &name("d")) > 0);
}

#[test]
fn no_copy_leaves_that_writes_need() {
    let placed = placed();
    let group = &placed.groups[0];
    let backup = group.backups().next().unwrap();
    let two = placed.leave(&group.subject, backup).unwrap();
    let backup = two.groups[0].backups().next().unwrap();
    let refused = two.leave(&group.subject, backup);
    assert!(matches!(
        refused,
        Err(Refusal::TooFewCopies { left: 1, .. })
    ));
}

fn draw(present: &Configuration, random: &mut Random) -> Result<Configuration, Refusal> {
    let nodes = || present.nodes.keys();
    let group = present.groups.iter().choose(random).unwrap();
    let who = nodes().choose(random).unwrap();
    let from = nodes()
        .choose(random)
        .filter(|from| group.in_sync.contains(*from));
    match random.random_range(0..7) {
        0 => present.add(who),
        1 => present.drain(who),
        2 => present.dismiss(who),
        3 => present.move_copy(&group.subject, from, who),
        4 => present.register(who, &start_of(present.nodes[who].clone())),
        5 => {
            let number = u128::from(present.epoch.0);
            let text = format!("node-{number}");
            let start = start_of(node(1_000 + number));
            present.register(&name(&text), &start)
        }
        _ => Ok(step(present, random).unwrap_or_else(|| present.clone())),
    }
}

/// In any order of requests, no request takes a group below the copies that writes need, only a removal takes a copy
/// away at once, and all requests are carried out in the end.
#[test]
fn no_order_of_requests_takes_copies_that_are_needed() {
    for seed in 0..150 {
        let random = &mut random(seed);
        let mut present = with_spare(6);
        for _ in 0..60 {
            let Ok(next) = draw(&present, random) else {
                continue;
            };
            assert_eq!(next.check(), Ok(()));
            for (old, new) in present.groups.iter().zip(&next.groups) {
                let (before, after) = (old.in_sync.len(), new.in_sync.len());
                assert!(after >= 2.min(before), "seed {seed}: {old:?} {new:?}");
                assert!(old.in_sync.contains(&new.primary), "seed {seed}");
            }
            present = next;
        }
        let settled = settled(present, random);
        let members: BTreeSet<_> = settled
            .nodes
            .iter()
            .filter(|(_, node)| node.state == NodeState::Member)
            .map(|(name, _)| name)
            .collect();
        for group in &settled.groups {
            assert!(group.joining.is_empty(), "seed {seed}");
            let stay = group.in_sync.difference(&group.leaving).count();
            assert!(
                group.leaving.is_empty() || stay < 3,
                "seed {seed}: {group:?}"
            );
            if members.len() >= 4 {
                assert!(group.in_sync.len() >= 2, "seed {seed}: {group:?}");
            }
        }
    }
}
