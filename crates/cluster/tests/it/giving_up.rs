//! Groups whose only copy is lost for good.

use std::collections::BTreeSet;

use stonecast_cluster::{Configuration, Refusal, Subject};

use crate::cluster::{name, placed, shard, start};

/// Four shards on node a alone. Nodes b, c and d have nothing.
fn a_is_alone() -> Configuration {
    let mut alone = placed().register(&name("d"), &start(4)).unwrap();
    for gone in ["b", "c"] {
        alone = alone.remove(&name(gone)).unwrap();
    }
    alone
}

fn give_up(present: &Configuration, lost: &str, heir: &str) -> Result<Configuration, Refusal> {
    present.give_up(&shard(present), &name(lost), &name(heir))
}

#[test]
fn a_group_that_is_given_up_is_led_by_a_node_that_had_nothing_and_other_groups_stay() {
    let alone = a_is_alone();
    let after = give_up(&alone, "a", "d").unwrap();
    let group = &after.groups[0];
    assert_eq!((&group.primary, group.term), (&name("d"), after.epoch));
    assert_eq!(group.in_sync, BTreeSet::from([name("d")]));
    assert_eq!(after.groups[1..], alone.groups[1..]);
}

/// Needs the search for another node in sync.
#[test]
fn a_group_with_another_copy_in_sync_is_not_given_up() {
    let two = placed().register(&name("d"), &start(4)).unwrap();
    let two = two.remove(&name("c")).unwrap();
    let refused = give_up(&two, "a", "d");
    let expected = Refusal::CopyIsKnown {
        node: name("b"),
        subject: shard(&two),
    };
    assert_eq!(refused, Err(expected));
}

/// Needs the comparison with the node in sync: an operator who names the wrong node would give up an existing copy.
#[test]
fn a_group_is_given_up_by_the_name_of_the_node_that_had_it() {
    let refused = give_up(&a_is_alone(), "b", "d");
    assert!(
        matches!(refused, Err(Refusal::NotInSync { .. })),
        "{refused:?}"
    );
}

/// Needs the refusal of an heir with a copy: a joiner has a part of the lost copy, which makes no sense alone.
#[test]
fn an_heir_that_has_a_part_of_the_group_or_is_unknown_is_refused() {
    let alone = a_is_alone();
    let joining = alone.begin_join(&shard(&alone), &name("d")).unwrap();
    for heir in ["d", "a"] {
        let refused = give_up(&joining, "a", heir);
        assert!(
            matches!(refused, Err(Refusal::HasCopy { .. })),
            "{heir}: {refused:?}"
        );
    }
    let refused = give_up(&joining, "a", "e");
    assert!(
        matches!(refused, Err(Refusal::NoSuchNode { .. })),
        "{refused:?}"
    );
    let nothing = Subject::BackEnd("none".to_owned());
    let refused = joining.give_up(&nothing, &name("a"), &name("b"));
    assert!(
        matches!(refused, Err(Refusal::NoSuchGroup { .. })),
        "{refused:?}"
    );
    // No node can fill a joiner of a lost copy.
    let after = give_up(&joining, "a", "b").unwrap();
    assert!(after.groups[0].joining.is_empty());
}

#[test]
fn a_lost_node_whose_groups_are_given_up_may_be_forgotten_or_start_again_without_them() {
    let mut present = a_is_alone();
    for subject in present
        .groups
        .clone()
        .into_iter()
        .map(|group| group.subject)
    {
        present = present.give_up(&subject, &name("a"), &name("b")).unwrap();
    }
    let again = present.register(&name("a"), &start(1)).unwrap();
    assert_eq!(again.groups_of(&name("a")).count(), 0);
    assert!(present.forget(&name("a")).is_ok());
}
