//! The story of each seeded bug of backups finds the bug, and finds nothing without it.

use stonecast_base::hunts::by_stories;
use stonecast_base::mutants::Mutant;

use crate::{closings, credits, ends, pipeline, restarts, segments};

/// Each seeded bug with the story that finds it.
const STORIES: [(Mutant, fn()); 18] = [
    (
        Mutant::FencedBeforeSearch,
        ends::a_silent_peer_has_nothing_left_that_was_reported_and_not_found,
    ),
    (
        Mutant::DoubtAskedOnce,
        ends::a_peer_in_doubt_is_asked_again_and_silent_when_it_has_left,
    ),
    (
        Mutant::DoubtNotRecounted,
        ends::no_session_outlives_a_doubt_about_another_peer,
    ),
    (
        Mutant::RefilledAtHalfAlone,
        credits::a_window_of_one_longest_entry_takes_short_and_long_ones_for_ever,
    ),
    (
        Mutant::OverdraftUnnoticed,
        credits::a_session_that_uses_more_than_it_was_given_is_ended_with_the_numbers_and_others_go_on,
    ),
    (
        Mutant::EndedCreditsKept,
        credits::after_any_number_of_sessions_the_next_one_finds_the_room_that_there_is,
    ),
    (
        Mutant::StagingNeverWraps,
        credits::memory_of_two_long_entries_sends_any_number_of_them,
    ),
    (
        Mutant::EarlierJoinAnswers,
        pipeline::an_answer_about_an_earlier_join_persists_nothing_of_a_later_one,
    ),
    (
        Mutant::GapAnswered,
        pipeline::an_entry_behind_a_gap_is_neither_handed_on_nor_reported,
    ),
    (
        Mutant::AnsweredByFirstPiece,
        pipeline::a_record_in_pieces_is_reported_when_all_of_them_are_durable,
    ),
    (
        Mutant::DroppedPersistForgotten,
        segments::a_settle_that_is_dropped_half_way_is_done_again,
    ),
    (
        Mutant::CloseNotTold,
        closings::a_stream_that_its_backup_closes_holds_up_no_other,
    ),
    (
        Mutant::StraysNotCharged,
        closings::entries_of_a_closed_stream_are_paid_for_and_their_session_goes_on,
    ),
    (
        Mutant::InterruptedGoesOn,
        closings::a_record_goes_on_when_its_stream_opens_again_between_two_pieces,
    ),
    (
        Mutant::SettledNotCharged,
        credits::entries_that_the_floors_settle_are_paid_for_and_their_session_goes_on,
    ),
    (
        Mutant::DeadPlacesForgotten,
        credits::an_entry_behind_more_empty_slots_than_a_window_has_is_found,
    ),
    (
        Mutant::EarlierWritersTrusted,
        restarts::a_writer_that_may_have_outlived_the_run_is_in_doubt_and_its_last_write_is_found,
    ),
    (
        Mutant::ReturnedBeforeFloors,
        segments::a_segment_goes_back_to_records_behind_the_floors_that_settle_its_entries,
    ),
];

#[test]
fn every_seeded_bug_of_backups_is_found() {
    by_stories("backup", &STORIES);
}
