//! The state of a cluster for people.

use rand::RngExt as _;
use rand::seq::IteratorRandom as _;
use stonecast_cluster::{Configuration, Held, Need, NodeState, Overview, Policy, Subject};
use stonecast_media::Durability;

use crate::cluster::{
    NONCE, an_attempt, name, node_that_survives, placed, random, start, start_of, three_nodes,
};

fn empty() -> Configuration {
    Configuration::create(NONCE, Policy::new(3, 4), an_attempt())
}

#[test]
fn a_cluster_without_nodes_needs_as_many_as_copies() {
    let empty = empty();
    let overview = empty.overview();
    assert_eq!(overview.needs, [Need::Nodes { missing: 3 }]);
    assert_eq!(
        (overview.survives, overview.placements.len()),
        (None, 0),
        "nothing is acknowledged"
    );
    let one = empty.register(&name("a"), &start(1)).unwrap();
    assert_eq!(one.overview().needs, [Need::Nodes { missing: 2 }]);
    let three = three_nodes(Policy::new(3, 4));
    assert_eq!(three.overview().needs, [Need::Placing]);
    let draining = three.set_state(&name("a"), NodeState::Draining).unwrap();
    let nodes = vec![name("a")];
    assert_eq!(
        draining.overview().needs,
        [Need::Nodes { missing: 1 }, Need::Drained { nodes }]
    );
    let no_keys = Configuration::create(NONCE, Policy::new(3, 0), an_attempt());
    assert_eq!(no_keys.overview().needs, [], "there is nothing to place");
}

#[test]
fn a_cluster_with_all_copies_needs_nothing() {
    let placed = placed();
    let overview = placed.overview();
    assert_eq!(overview.needs, []);
    assert_eq!(overview.survives, Some(Durability::Power));
    let held = overview.held[&name("a")];
    assert_eq!((held.in_sync, held.joins), (4, 0));
    let leads: usize = overview.held.values().map(|held| held.leads).sum();
    assert_eq!(leads, 4);
}

#[test]
fn shards_with_the_same_copies_stand_together_and_those_that_lack_copies_come_first() {
    let placed = placed();
    let lacking = placed.groups[2].clone();
    let backup = lacking.backups().next().unwrap();
    let left = placed.leave(&lacking.subject, backup).unwrap();
    let left = left.add_back_end("orders", &name("b")).unwrap();
    let overview = left.overview();
    let first = &overview.placements[0];
    assert_eq!((&*first.back_ends, first.missing), (&["orders"][..], 2));
    let second = &overview.placements[1];
    assert_eq!((&*second.shards, second.missing), (&[2..=2][..], 1));
    assert_eq!(
        overview.needs,
        [
            Need::WritesRefused {
                groups: 1,
                fewest: 1
            },
            Need::Copies {
                groups: 2,
                spares: vec![]
            }
        ]
    );
    let removed = placed.remove(&name("a")).unwrap();
    let removed = removed.remove(&name("b")).unwrap();
    let overview = removed.overview();
    assert_eq!(overview.placements[0].shards, [0..=3], "one range");
}

#[test]
fn a_joiner_is_no_missing_copy_and_counts_when_it_is_in_sync() {
    let removed = placed().remove(&name("c")).unwrap();
    let spares = vec![name("c")];
    assert_eq!(
        removed.overview().needs,
        [Need::Copies { groups: 4, spares }]
    );
    let joining = removed.groups.iter().fold(removed.clone(), |next, group| {
        next.begin_join(&group.subject, &name("c")).unwrap()
    });
    assert_eq!(joining.overview().needs, [Need::Filling { copies: 4 }]);
    let held = joining.overview().held[&name("c")];
    let expected = Held {
        leads: 0,
        in_sync: 0,
        joins: 4,
        leaves: 0,
    };
    assert_eq!(held, expected);
}

#[test]
fn the_nodes_that_promise_least_are_named_unless_all_promise_the_same() {
    let process = |pool| start_of(node_that_survives(pool, Durability::Process));
    let mut mixed = empty();
    let starts = [start(1), process(2), start(3)];
    for (start, text) in starts.iter().zip(["a", "b", "c"]) {
        mixed = mixed.register(&name(text), start).unwrap();
    }
    let mixed = mixed.place_shards().unwrap();
    let overview = mixed.overview();
    assert_eq!(overview.survives, Some(Durability::Process));
    assert!(overview.weakest.iter().copied().eq([&name("b")]));
    let mut weak = empty();
    for (pool, text) in (1..).zip(["a", "b", "c"]) {
        weak = weak.register(&name(text), &process(pool)).unwrap();
    }
    let weak = weak.place_shards().unwrap();
    let overview = weak.overview();
    assert_eq!(overview.survives, Some(Durability::Process));
    assert!(overview.weakest.is_empty(), "all promise the same");
}

/// Checks that every group stands in one placement, and that every copy is counted once.
fn assert_complete(configuration: &Configuration, overview: &Overview<'_>) {
    let placements = &overview.placements;
    let shards: usize = placements.iter().map(|one| one.shard_count()).sum();
    let back_ends: usize = placements.iter().map(|one| one.back_ends.len()).sum();
    assert_eq!(shards + back_ends, configuration.groups.len());
    for placement in placements {
        for shard in placement.shards.iter().cloned().flatten() {
            let group = &configuration.groups[shard as usize];
            assert!(matches!(group.subject, Subject::Keys(_)));
            assert_eq!(group.primary, placement.group.primary);
            assert_eq!(group.in_sync, placement.group.in_sync);
            assert!(group.joining.keys().eq(placement.group.joining.keys()));
            assert_eq!(group.leaving, placement.group.leaving);
        }
    }
    let in_sync: usize = overview.held.values().map(|held| held.in_sync).sum();
    let groups = configuration.groups.iter();
    let copies: usize = groups.map(|group| group.in_sync.len()).sum();
    assert_eq!(in_sync, copies);
}

#[test]
fn whatever_is_done_every_group_is_shown_once() {
    for seed in 0..100 {
        let random = &mut random(seed);
        let mut present = placed();
        for (pool, text) in (4..).zip(["d", "e"]) {
            present = present.register(&name(text), &start(pool)).unwrap();
        }
        for _ in 0..40 {
            let groups = present.groups.iter();
            let subject = groups.choose(random).unwrap().subject.clone();
            let who = present.nodes.keys().choose(random).unwrap().clone();
            let next = match random.random_range(0..4) {
                0 => present.take_lead(&subject, &who),
                1 => present.begin_join(&subject, &who),
                2 => present.leave(&subject, &who),
                _ => present.remove(&who),
            };
            present = next.unwrap_or(present);
            assert_complete(&present, &present.overview());
        }
    }
}
