//! Pools that are copies when their nodes start, and pools that are no copies.

use std::collections::BTreeMap;

use stonecast_cluster::{
    Configuration, Found, FoundCopy, NodeName, NotACopy, Policy, Refusal, Start, Survived,
};
use stonecast_media::Durability;
use uuid::Uuid;

use crate::cluster::{name, node, node_that_survives, placed, shard, start, start_of, three_nodes};

/// A copy from which nothing is missing.
const WHOLE: FoundCopy = FoundCopy {
    contiguous: 90,
    horizon: 90,
};
/// A copy without some versions that were on all copies.
const GAP: FoundCopy = FoundCopy {
    contiguous: 88,
    horizon: 90,
};

/// A start of node a, which finds `copy` of every group.
fn finds(configuration: &Configuration, copy: FoundCopy) -> Start {
    let groups = configuration.groups.iter();
    let copies = groups.map(|group| (group.subject.clone(), copy)).collect();
    let survived = Survived::ProcessDeath;
    Start {
        found: Found { survived, copies },
        ..start(1)
    }
}

/// The groups with which `node` is in sync.
fn copies_of(configuration: &Configuration, node: &NodeName) -> usize {
    let groups = configuration.groups.iter();
    groups.filter(|group| group.in_sync.contains(node)).count()
}

#[test]
fn a_pool_is_a_copy_as_long_as_it_survived_what_it_promises_to() {
    let placed = placed();
    let copies =
        |start: &Start| copies_of(&placed.register(&name("a"), start).unwrap(), &name("a"));
    let promising = |promise: Durability, survived: Survived| {
        let mut start = finds(&placed, WHOLE);
        start.node = node_that_survives(1, promise);
        start.found.survived = survived;
        start
    };
    for (promise, survived, expected) in [
        (Durability::Process, Survived::Close, 4),
        (Durability::Process, Survived::ProcessDeath, 4),
        (Durability::Process, Survived::PowerLoss, 0),
        (Durability::Power, Survived::PowerLoss, 4),
    ] {
        let found = copies(&promising(promise, survived));
        assert_eq!(found, expected, "{promise:?} {survived:?}");
    }
    assert_eq!(copies(&finds(&placed, GAP)), 0);
    let wiped = Start::first(node(1));
    assert_eq!(copies(&wiped), 0, "a pool that is of no cluster");
    let cluster = Some(Uuid::from_u128(9));
    assert_eq!(
        copies(&Start {
            cluster,
            ..start(1)
        }),
        0
    );
}

#[test]
fn a_group_of_which_a_pool_has_no_record_is_empty_and_whole() {
    let placed = placed();
    let registered = placed.register(&name("a"), &start(1)).unwrap();
    assert_eq!(copies_of(&registered, &name("a")), 4);
}

/// Needs the loss and the start to be one change: between two changes, the node would lead with nothing.
#[test]
fn a_lost_copy_leaves_its_group_in_the_change_that_registers_the_start() {
    let placed = placed();
    let mut lost = placed.groups.iter();
    let lost = lost.find(|group| group.primary == name("a")).unwrap();
    let mut start = finds(&placed, WHOLE);
    start.found.copies.insert(lost.subject.clone(), GAP);
    let registered = placed.register(&name("a"), &start).unwrap();
    assert_eq!(registered.epoch.0, placed.epoch.0 + 1);
    assert_eq!(registered.nodes[&name("a")].incarnation, 2);
    for (before, after) in placed.groups.iter().zip(&registered.groups) {
        let is_lost = before.subject == lost.subject;
        assert_eq!(after.in_sync.contains(&name("a")), !is_lost);
        assert_eq!(after.term == registered.epoch, before.primary == name("a"));
        assert_eq!(
            after.primary == before.primary,
            !is_lost,
            "another copy leads what was lost"
        );
    }
}

#[test]
fn the_only_copy_in_sync_is_not_given_up_and_a_mended_pool_starts_with_it() {
    let mut alone = placed();
    for gone in ["b", "c"] {
        alone = alone.remove(&name(gone)).unwrap();
    }
    let refused = alone.register(&name("a"), &finds(&alone, GAP));
    let expected = Refusal::SoleCopy {
        node: name("a"),
        subject: shard(&alone),
        reason: NotACopy::Gap {
            first: 89,
            horizon: 90,
        },
    };
    assert_eq!(refused, Err(expected));
    let mended = alone.register(&name("a"), &finds(&alone, WHOLE)).unwrap();
    assert_eq!(copies_of(&mended, &name("a")), 4);
}

#[test]
fn a_join_ends_with_the_start_of_its_node() {
    let spare = placed().register(&name("d"), &start(4)).unwrap();
    let joining = spare.begin_join(&shard(&spare), &name("d")).unwrap();
    let again = joining.register(&name("d"), &start(4)).unwrap();
    assert_eq!(again.groups[0].joining, BTreeMap::new());
}

#[test]
fn a_node_that_is_new_needs_no_copy() {
    let three = three_nodes(Policy::new(3, 4));
    let first = Start::first(node(4));
    let registered = three.register(&name("d"), &first).unwrap();
    assert_eq!(registered.nodes[&name("d")].incarnation, 1);
    let again = registered.register(&name("d"), &start_of(node(4))).unwrap();
    assert_eq!(again.nodes[&name("d")].incarnation, 2);
}
