//! The story of each seeded bug of nodes finds the bug, and finds nothing without it.

use stonecast_base::hunts::by_stories;
use stonecast_base::mutants::Mutant;

use crate::{campaign, dismissals, failures, full, heirs, joins, losses, moves, rests, writes};

/// The story that finds each bug.
const STORIES: [(Mutant, fn()); 21] = [
    (
        Mutant::LeaseNotAsked,
        heirs::a_primary_that_is_cut_off_answers_nothing,
    ),
    (
        Mutant::OwnCommitNotAwaited,
        writes::a_primary_answers_behind_its_own_commit,
    ),
    (Mutant::SentUnfollowed, campaign::a_few_seeds),
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
    (
        Mutant::DoubtStopsCopies,
        heirs::a_shard_is_led_while_its_last_primary_is_in_doubt,
    ),
    (
        Mutant::ConsentBeforeSearch,
        moves::an_heir_with_a_consent_has_what_was_answered_before,
    ),
    (
        Mutant::FloorByCountAlone,
        writes::a_shard_with_few_writes_holds_no_segment,
    ),
    (
        Mutant::StampedWithoutRoom,
        writes::a_shard_that_is_offered_too_much_goes_on,
    ),
    (
        Mutant::OwnCommitUnbounded,
        failures::others_lead_what_a_node_led_whose_own_log_hangs,
    ),
    (
        Mutant::FullCopyAwaited,
        full::a_copy_whose_log_lends_no_segment_is_dropped,
    ),
    (
        Mutant::NumbersOfPredecessor,
        dismissals::a_replaced_node_is_another_one,
    ),
    (Mutant::ReportsWakeNobody, rests::a_write_waits_for_no_pause),
    (
        Mutant::RestingPeerNotWoken,
        rests::a_write_waits_for_no_pause,
    ),
    (Mutant::ShortCopyCounts, losses::a_copy_loses_entries),
    (Mutant::ShortHeirStays, losses::an_heir_loses_entries),
    (
        Mutant::LongPagesPause,
        joins::long_pages_bring_a_copy_without_pauses,
    ),
    (
        Mutant::DrainsAtOnce,
        moves::a_primary_whose_store_is_silent_takes_writes,
    ),
    (
        Mutant::ReadersNotAwaited,
        moves::an_heir_serves_when_no_reader_has_a_lease,
    ),
];

#[test]
fn every_seeded_bug_of_nodes_is_found() {
    by_stories("node", &STORIES);
}
