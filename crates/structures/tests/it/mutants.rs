//! Each seeded bug of this crate is found.

use stonecast_base::hunts::by_stories;
use stonecast_base::mutants::Mutant;
use stonecast_structures::shapes::StructureKind;

use crate::domain::{histories, pools, rules, structures};
use crate::mirrors::{logs, promotions, records};
use crate::sessions;
use crate::shapes::{domains as several, maps};
use crate::staleness;

fn domains() {
    (0..500).for_each(histories::run);
}

fn structures() {
    for seed in 0..60 {
        structures::run(seed);
    }
}

fn readers() {
    for kind in maps::usual_kinds() {
        (0..30).for_each(|seed| maps::run_beside(kind, seed));
    }
}

#[test]
fn every_seeded_bug_of_structures_is_found() {
    by_stories(
        "structures",
        &[
            (
                Mutant::LogTagNotChecked,
                rules::a_log_ends_before_a_torn_record,
            ),
            (
                Mutant::TenureNotInTag,
                rules::a_log_ends_before_a_record_of_another_tenure,
            ),
            (
                Mutant::PredecessorNotInTag,
                rules::a_log_ends_before_a_record_whose_predecessor_was_replaced,
            ),
            (
                Mutant::CoverageNotContiguous,
                rules::a_transaction_that_leaves_an_operation_out_ends_the_log,
            ),
            (
                Mutant::GapNotReported,
                rules::damage_below_the_durable_horizon_is_reported_with_its_place,
            ),
            (
                Mutant::MirrorNotAwaited,
                promotions::a_back_end_that_is_gone_for_good_leaves_every_acknowledged_operation_to_its_mirror,
            ),
            (
                Mutant::TicketWithoutMirror,
                promotions::a_back_end_that_is_gone_for_good_leaves_every_acknowledged_operation_to_its_mirror,
            ),
            (
                Mutant::MirrorLogNotAwaited,
                logs::a_ticket_waits_for_the_mirror_and_goes_by_the_back_end_when_the_mirror_is_out_of_reach,
            ),
            (
                Mutant::MirrorLogsLeftOpen,
                logs::after_a_promotion_no_ticket_ends_with_an_append_to_both_logs,
            ),
            (
                Mutant::HandedOverUnexpelled,
                logs::an_owner_whose_tenure_was_ended_writes_nothing_into_the_next_log_at_the_mirror,
            ),
            (
                Mutant::LinesCopied,
                logs::a_record_that_a_copy_of_the_one_before_meets_stays_in_the_mirror,
            ),
            (
                Mutant::PromotedUnfenced,
                promotions::a_back_end_that_does_not_notice_its_end_acknowledges_nothing_more,
            ),
            (
                Mutant::PromotedEarly,
                promotions::a_mirror_becomes_no_back_end_while_its_back_end_lives_or_its_lease_lasts,
            ),
            (
                Mutant::ReaderLeaseIgnored,
                promotions::a_reader_of_a_back_end_that_stands_still_takes_no_old_value_for_the_latest,
            ),
            (
                Mutant::CopyWithoutLog,
                promotions::a_mirror_that_was_filled_while_a_writer_worked_has_everything,
            ),
            (
                Mutant::ReturningTaken,
                promotions::an_old_back_end_returns_as_the_mirror_of_its_successor_and_may_succeed_it,
            ),
            (
                Mutant::PromotedUnrecorded,
                records::of_a_detachment_and_a_promotion_at_once_one_happens_and_the_other_is_refused,
            ),
            (
                Mutant::DetachedUnrecorded,
                records::of_a_detachment_and_a_promotion_at_once_one_happens_and_the_other_is_refused,
            ),
            (
                Mutant::WholeBeforeRecord,
                records::without_the_store_a_back_end_serves_and_its_mirror_is_neither_bound_nor_promoted,
            ),
            (
                Mutant::OpeningNotSwapped,
                records::a_detachment_that_was_given_up_does_not_take_effect_after_the_back_end_has_started,
            ),
            (Mutant::WordNotRaised, domains),
            (Mutant::ScannedNotSettled, domains),
            (Mutant::EndNotSealed, domains),
            (Mutant::LeftoverNotExecuted, domains),
            (Mutant::ExecutedUnlogged, domains),
            (Mutant::AppliedBeforeDurable, domains),
            (Mutant::TrimmedBeforeData, domains),
            (
                Mutant::EntryTrusted,
                rules::a_writer_that_names_foreign_memory_is_refused_and_its_tenure_ends_before_that_record,
            ),
            (
                Mutant::RecordReadAgain,
                rules::a_record_that_changes_after_it_was_checked_counts_as_it_was,
            ),
            (Mutant::BitsNotInTransaction, structures),
            (
                Mutant::GenerationNotRaised,
                maps::a_reader_with_an_old_word_sees_no_value_before_it_is_published,
            ),
            (
                Mutant::SlabGivenDirty,
                pools::a_slab_that_is_given_is_free_whatever_it_held_before,
            ),
            (
                Mutant::SlabTakenEarly,
                pools::a_slab_changes_hands_only_without_a_tenure,
            ),
            (
                Mutant::OldLogGiven,
                pools::a_log_of_an_earlier_run_is_given_to_nobody_until_its_owner_is_gone,
            ),
            (
                Mutant::RootBeforeTable,
                pools::a_reader_finds_the_structures_of_one_moment_at_every_moment,
            ),
            (
                Mutant::DamageStopsAll,
                pools::a_domain_that_its_owner_has_damaged_concerns_no_other,
            ),
            (
                Mutant::ServingWordIgnored,
                pools::a_reader_across_a_restart_never_goes_back,
            ),
            (
                Mutant::ServingLeftEven,
                pools::a_reader_across_a_restart_never_goes_back,
            ),
            (
                Mutant::RoomNotReserved,
                pools::everything_staged_finds_room_for_its_transaction,
            ),
            (
                Mutant::LentNotFlushed,
                sessions::crashes::a_power_cut_at_any_moment_loses_no_acknowledged_operation,
            ),
            (
                Mutant::WordNotReadAgain,
                sessions::crashes::a_ticket_is_not_told_once_the_tenure_word_was_raised_though_the_window_is_open,
            ),
            (
                Mutant::KnownBeyondTenure,
                sessions::tenures::a_writer_whose_tenure_is_over_answers_nothing_from_its_memory,
            ),
            (
                Mutant::PageReleasedEarly,
                pools::a_writer_keeps_what_it_has_written_until_the_publication_that_wrote_it_is_applied,
            ),
            (
                Mutant::PublicationAnswered,
                sessions::publications::tickets_behind_a_publication_end_while_the_back_end_stands_still_and_the_publication_does_not,
            ),
            (
                Mutant::PublishedWhenDurable,
                sessions::publications::tickets_behind_a_publication_end_while_the_back_end_stands_still_and_the_publication_does_not,
            ),
            (Mutant::BlockTagNotChecked, readers),
            (Mutant::SlotTagNotChecked, readers),
            (Mutant::FenceIgnored, readers),
            (Mutant::DeadNotMarked, readers),
            (
                Mutant::NodeRotatedInPlace,
                maps::a_transaction_that_is_applied_a_word_at_a_time_hides_no_other_key_of_a_binary_tree,
            ),
            (
                Mutant::LinksMerged,
                maps::a_transaction_that_is_applied_a_word_at_a_time_takes_no_change_of_a_skip_list_back,
            ),
            (Mutant::LoadedAmongOthers, || {
                maps::run_loads(StructureKind::BTree, 0);
            }),
            (
                Mutant::RetiredAtOnce,
                several::a_snapshot_holds_one_state_of_all_trees_until_it_is_too_old,
            ),
            (
                Mutant::BirthNotChecked,
                several::a_snapshot_takes_no_younger_node_for_its_own,
            ),
            (
                Mutant::AgeIgnored,
                sessions::readers::a_reader_is_told_at_once_that_its_version_is_too_old,
            ),
            (
                Mutant::PlaceTrusted,
                sessions::readers::a_pointer_out_of_the_pool_ends_the_reads_of_its_domain_and_no_connection,
            ),
            (
                Mutant::AnswerKeptForever,
                staleness::no_answer_is_older_than_the_reader_accepts,
            ),
            (
                Mutant::RootWordIgnored,
                several::a_reader_notices_that_a_structure_was_made_empty,
            ),
            (Mutant::TokenForgotten, structures),
            (
                Mutant::ForgottenRetried,
                several::a_retry_is_refused_once_its_result_may_be_forgotten,
            ),
            (
                Mutant::AnnulledBehindOthers,
                several::a_push_and_its_pop_leave_an_empty_transaction_unless_something_stands_before_them,
            ),
            (
                Mutant::TakenForgotten,
                several::a_queue_goes_from_its_producer_to_its_consumer_through_the_deaths_of_both,
            ),
            (
                Mutant::TakenIsDone,
                several::a_queue_goes_from_its_producer_to_its_consumer_through_the_deaths_of_both,
            ),
        ],
    );
}
