//! Nodes come, lead, fail and go.

use std::collections::BTreeSet;

use rand::RngExt as _;
use rand::seq::IteratorRandom as _;
use stonecast_cluster::{Configuration, Epoch, NodeState, NotACopy, Policy, Refusal, Subject};
use stonecast_media::Durability;

use crate::cluster::{
    name, node_that_survives, placed, random, shard, start, start_of, three_nodes,
};

#[test]
fn shards_are_placed_when_there_are_as_many_nodes_as_copies() {
    let policy = Policy::new(3, 4);
    let two = Configuration::create(
        crate::cluster::NONCE,
        policy.clone(),
        crate::cluster::an_attempt(),
    );
    let two = two.register(&name("a"), &start(1)).unwrap();
    let refused = two.place_shards().unwrap_err();
    assert!(
        refused
            .to_string()
            .contains("3 copies need as many nodes, and there are 1"),
        "{refused}"
    );

    let placed = three_nodes(policy).place_shards().unwrap();
    let leaders: BTreeSet<_> = placed.groups.iter().map(|group| &group.primary).collect();
    assert_eq!((placed.groups.len(), leaders.len()), (4, 3));
    assert!(
        placed
            .groups
            .iter()
            .all(|group| group.in_sync.len() == 3 && group.term == placed.epoch)
    );
    assert!(matches!(
        placed.place_shards(),
        Err(Refusal::GroupExists { .. })
    ));
}

#[test]
fn every_hash_has_one_group() {
    let placed = placed();
    for hash in [
        0,
        1,
        u64::MAX / 4,
        u64::MAX / 4 + 1,
        u64::MAX / 2,
        u64::MAX - 1,
        u64::MAX,
    ] {
        let group = placed.group_of_hash(hash).unwrap();
        assert!(matches!(group.subject, Subject::Keys(range) if range.contains(hash)));
    }
    assert_eq!(three_nodes(Policy::new(3, 4)).group_of_hash(0), None);
}

#[test]
fn a_name_is_that_of_one_pool_and_a_pool_has_one_name() {
    let three = three_nodes(Policy::new(3, 4));
    let refused = three.register(&name("a"), &start(9)).unwrap_err();
    assert!(matches!(refused, Refusal::NameTaken { .. }), "{refused}");
    let refused = three.register(&name("d"), &start(1)).unwrap_err();
    assert!(refused.to_string().contains("registered as a"), "{refused}");
}

#[test]
fn a_primary_that_starts_again_leads_in_a_new_term_and_other_terms_stay() {
    let before = placed();
    let after = before.register(&name("a"), &start(1)).unwrap();
    assert_eq!(after.nodes[&name("a")].incarnation, 2);
    for (old, new) in before.groups.iter().zip(&after.groups) {
        let expected = if old.primary == name("a") {
            after.epoch
        } else {
            old.term
        };
        assert_eq!(new.term, expected);
    }
}

#[test]
fn an_heir_is_in_sync_and_its_predecessor_stays_a_copy() {
    let placed = placed();
    let subject = shard(&placed);
    let group = placed.group(&subject).unwrap();
    let heir = group.backups().next().unwrap().clone();
    let led = placed.take_lead(&subject, &heir).unwrap();
    let after = led.group(&subject).unwrap();
    assert_eq!(
        (&after.primary, after.term),
        (&heir, Epoch(placed.epoch.0 + 1))
    );
    assert!(after.in_sync.contains(&group.primary));

    let spare = led.register(&name("d"), &start(4)).unwrap();
    let joining = spare.begin_join(&subject, &name("d")).unwrap();
    let refused = joining.take_lead(&subject, &name("d")).unwrap_err();
    assert!(
        matches!(refused, Refusal::NotInSync { .. }),
        "a joiner is never promoted"
    );
}

/// Finishes a join as the primary of the first shard, which says that `who` has everything. `who` joins now or does not
/// join at all.
fn finish_join(present: &Configuration, who: &str) -> Result<Configuration, Refusal> {
    let group = &present.groups[0];
    let join = group.joining.get(&name(who)).copied();
    let joiner = (&name(who), join.unwrap_or(present.epoch));
    present.finish_join(&group.subject, joiner, (&group.primary, group.term))
}

#[test]
fn a_joiner_is_in_sync_when_it_has_finished_and_not_before() {
    let subject = shard(&placed());
    let spare = placed().register(&name("d"), &start(4)).unwrap();
    assert!(matches!(
        finish_join(&spare, "d"),
        Err(Refusal::NotJoining { .. })
    ));
    let joining = spare.begin_join(&subject, &name("d")).unwrap();
    assert!(
        !joining
            .group(&subject)
            .unwrap()
            .in_sync
            .contains(&name("d"))
    );
    assert!(matches!(
        joining.begin_join(&subject, &name("d")),
        Err(Refusal::HasCopy { .. })
    ));
    let by_itself = joining.finish_join(
        &subject,
        (&name("d"), joining.epoch),
        (&name("d"), joining.epoch),
    );
    assert!(matches!(by_itself, Err(Refusal::NotPrimary { .. })));
    let joined = finish_join(&joining, "d").unwrap();
    assert!(joined.group(&subject).unwrap().in_sync.contains(&name("d")));
    assert!(joined.group(&subject).unwrap().joining.is_empty());
}

/// Needs the comparison of terms. A primary that leads again fills the joiner again, under the same number, after the
/// joiner has dropped its copy.
#[test]
fn a_primary_that_led_before_does_not_finish_the_join_that_it_began_then() {
    let subject = shard(&placed());
    let spare = placed().register(&name("d"), &start(4)).unwrap();
    let joining = spare.begin_join(&subject, &name("d")).unwrap();
    let before = joining.group(&subject).unwrap();
    let anew = joining.take_lead(&subject, &before.primary).unwrap();
    let join = (&name("d"), before.joining[&name("d")]);
    let refused = anew.finish_join(&subject, join, (&before.primary, before.term));
    let expected = Refusal::EarlierTerm {
        node: before.primary.clone(),
        subject: subject.clone(),
        found: before.term,
        known: anew.epoch,
    };
    assert_eq!(refused, Err(expected));
    assert!(finish_join(&anew, "d").is_ok());
}

#[test]
fn a_join_that_is_over_does_not_finish_the_one_that_began_after_it() {
    let subject = shard(&placed());
    let spare = placed().register(&name("d"), &start(4)).unwrap();
    let first = spare.begin_join(&subject, &name("d")).unwrap();
    let removed = first.remove(&name("d")).unwrap();
    let second = removed.begin_join(&subject, &name("d")).unwrap();
    let primary = &second.group(&subject).unwrap().primary;
    let refused = second.finish_join(
        &subject,
        (&name("d"), first.epoch),
        (primary, second.group(&subject).unwrap().term),
    );
    let expected = Refusal::EarlierJoin {
        node: name("d"),
        subject: subject.clone(),
        found: first.epoch,
        known: second.epoch,
    };
    assert_eq!(refused, Err(expected));
    assert!(finish_join(&second, "d").is_ok());
}

#[test]
fn a_silent_node_leaves_all_groups_at_once_and_another_copy_leads_what_it_led() {
    let placed = placed();
    let removed = placed.remove(&name("a")).unwrap();
    assert_eq!(removed.groups_of(&name("a")).count(), 0);
    assert_eq!(removed.nodes[&name("a")].state, NodeState::Spare);
    for (old, new) in placed.groups.iter().zip(&removed.groups) {
        let changed = old.primary == name("a");
        assert_eq!(new.term, if changed { removed.epoch } else { old.term });
    }
}

#[test]
fn the_last_copy_is_never_removed() {
    let mut configuration = placed();
    for gone in ["a", "b", "c"] {
        configuration = configuration.remove(&name(gone)).unwrap();
    }
    assert!(
        configuration
            .groups
            .iter()
            .all(|group| group.in_sync.len() == 1)
    );
    assert!(
        configuration
            .groups
            .iter()
            .all(|group| group.primary == name("c"))
    );
}

#[test]
fn a_primary_leaves_a_group_after_another_node_has_taken_the_lead() {
    let placed = placed();
    let group = &placed.groups[0];
    let refused = placed.leave(&group.subject, &group.primary).unwrap_err();
    assert!(matches!(refused, Refusal::Leads { .. }));
    let heir = group.backups().next().unwrap();
    let left = placed
        .take_lead(&group.subject, heir)
        .unwrap()
        .leave(&group.subject, &group.primary)
        .unwrap();
    assert!(!left.groups[0].in_sync.contains(&group.primary));
}

#[test]
fn a_node_with_copies_is_not_forgotten() {
    let placed = placed();
    assert!(matches!(
        placed.forget(&name("a")),
        Err(Refusal::HasCopy { .. })
    ));
    let forgotten = placed
        .remove(&name("a"))
        .unwrap()
        .forget(&name("a"))
        .unwrap();
    assert!(!forgotten.nodes.contains_key(&name("a")));
}

#[test]
fn an_acknowledgement_survives_what_the_weakest_copy_promises() {
    let placed = placed();
    assert_eq!(placed.survives(&placed.groups[0]), Durability::Power);
    let weak = placed
        .register(
            &name("d"),
            &start_of(node_that_survives(4, Durability::Process)),
        )
        .unwrap();
    let subject = shard(&weak);
    let joining = weak.begin_join(&subject, &name("d")).unwrap();
    assert_eq!(
        joining.survives(joining.group(&subject).unwrap()),
        Durability::Power
    );
    let joined = finish_join(&joining, "d").unwrap();
    assert_eq!(
        joined.survives(joined.group(&subject).unwrap()),
        Durability::Process
    );
}

#[test]
fn back_ends_are_groups_beside_the_shards() {
    let placed = placed().add_back_end("orders", &name("b")).unwrap();
    let subject = Subject::BackEnd("orders".to_owned());
    assert_eq!(placed.group(&subject).unwrap().primary, name("b"));
    assert!(placed.group_of_hash(u64::MAX).unwrap().subject < subject);
    assert!(matches!(
        placed.add_back_end("orders", &name("a")),
        Err(Refusal::GroupExists { .. })
    ));
}

/// After any actions in any order, each change is consistent, gives the next epoch, never takes the last copy that has
/// everything, and never makes a node lead that did not have everything before.
#[test]
fn no_order_of_changes_loses_a_group() {
    for seed in 0..200 {
        let random = &mut random(seed);
        let mut present = placed();
        for (pool, text) in (4..).zip(["d", "e"]) {
            present = present.register(&name(text), &start(pool)).unwrap();
        }
        for _ in 0..100 {
            let subject = present
                .groups
                .iter()
                .choose(random)
                .unwrap()
                .subject
                .clone();
            let who = present.nodes.keys().choose(random).unwrap().clone();
            let next = match random.random_range(0..7) {
                0 => present.take_lead(&subject, &who),
                1 => present.begin_join(&subject, &who),
                2 => {
                    let group = present.group(&subject).unwrap();
                    let join = group.joining.get(&who).copied().unwrap_or(Epoch(1));
                    present.finish_join(&subject, (&who, join), (&group.primary, group.term))
                }
                3 => present.leave(&subject, &who),
                4 => present.remove(&who),
                5 => present.set_state(&who, NodeState::Draining),
                _ => present.register(&who, &start_of(present.nodes[&who].clone())),
            };
            let Ok(next) = next else { continue };
            assert_eq!(next.check(), Ok(()));
            assert_eq!(next.epoch.0, present.epoch.0 + 1);
            for (old, new) in present.groups.iter().zip(&next.groups) {
                assert!(!new.in_sync.is_empty(), "seed {seed}");
                assert!(old.in_sync.contains(&new.primary), "seed {seed}");
                assert!(
                    new.primary == old.primary || new.term == next.epoch,
                    "seed {seed}"
                );
                let came: Vec<_> = new.in_sync.difference(&old.in_sync).collect();
                assert!(
                    came.iter().all(|node| old.joining.contains_key(*node)),
                    "seed {seed}"
                );
            }
            present = next;
        }
    }
}

/// Needs the change of the lead: the group would be led by a node that is no copy.
#[test]
fn a_copy_that_has_lost_entries_leaves_its_group_and_leads_nothing_there() {
    let placed = placed();
    let group = &placed.groups[0];
    let reason = || NotACopy::Gap {
        first: 4,
        horizon: 9,
    };
    let mut present = placed.clone();
    for _ in 0..2 {
        let lost = present.groups[0].primary.clone();
        let next = present.lose_copy(&group.subject, &lost, reason()).unwrap();
        assert!(!next.groups[0].has_copy(&lost));
        assert_eq!(next.groups[0].term, next.epoch);
        assert!(next.groups[1].has_copy(&lost), "its other copies stay");
        present = next;
    }
    let last = present.groups[0].primary.clone();
    let refused = present.lose_copy(&group.subject, &last, reason());
    assert!(
        matches!(refused, Err(Refusal::SoleCopy { .. })),
        "{refused:?}"
    );
}
