//! The story of each seeded bug of nodes finds the bug, and finds nothing without it.

use stonecast_base::hunts::by_stories;
use stonecast_base::mutants::Mutant;

use crate::{dismissals, failures, heirs, joins, restarts, writes};

/// The story that finds each.
const STORIES: [(Mutant, fn()); 7] = [
    (
        Mutant::LeaseNotAsked,
        heirs::a_primary_that_is_cut_off_answers_nothing,
    ),
    (
        Mutant::OwnCommitNotAwaited,
        writes::a_primary_answers_behind_its_own_commit,
    ),
    (
        Mutant::SentUnfollowed,
        restarts::nodes_that_were_killed_come_back,
    ),
    (
        Mutant::DismissedNotFenced,
        dismissals::an_heir_has_what_a_dismissed_primary_answers,
    ),
    (
        Mutant::FailedNodeGrants,
        failures::others_lead_what_a_node_with_a_broken_medium_led,
    ),
    (Mutant::OldCopyKept, joins::a_removed_node_comes_back),
    (
        Mutant::PulledUnpersisted,
        joins::a_joiner_loses_power_when_it_is_named,
    ),
];

#[test]
fn every_seeded_bug_of_nodes_is_found() {
    by_stories("node", &STORIES);
}
