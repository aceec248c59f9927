//! The story of each seeded bug of expiry, and of the store in a cluster, finds the bug, and finds nothing without it.

use stonecast_base::hunts::{Promise, by_promises, by_stories};
use stonecast_base::mutants::Mutant;

use crate::nodes::{flaws, forgeries};
use crate::{chunks, cluster, expiry, holds, nodes, pools_of_clusters, several_keys, terms};

/// The story that finds each bug.
const STORIES: [(Mutant, fn()); 7] = [
    (
        Mutant::ReadUnchecked,
        cluster::a_get_whose_lease_ends_during_its_reads_is_repeated_at_the_next_primary,
    ),
    (
        Mutant::ErrorUnchecked,
        cluster::trouble::an_error_of_a_read_whose_lease_has_ended_is_not_believed,
    ),
    (
        Mutant::LeaseOfAllShards,
        cluster::trouble::a_shard_without_a_lease_is_not_read_and_takes_no_lease_of_the_others,
    ),
    (
        Mutant::EffectOfLastError,
        cluster::a_write_whose_node_dies_is_done_at_the_next_node_or_is_unknown_with_its_token,
    ),
    (
        Mutant::StaysUntilEntered,
        terms::a_client_is_in_no_term_of_a_shard_while_it_asks_for_a_later_one,
    ),
    (
        Mutant::RequestOutlivesTerm,
        terms::a_put_that_waits_at_its_node_is_refused_once_the_term_is_over_and_the_node_leads_again,
    ),
    (
        Mutant::SinceOfConnection,
        terms::a_retry_asks_with_a_version_of_the_node_that_got_the_attempt,
    ),
];

/// The story that finds each bug of a server that is a node.
const STORIES_OF_NODES: [(Mutant, fn()); 9] = [
    (
        Mutant::OutcomesNotPulled,
        nodes::a_write_that_is_repeated_at_a_node_that_was_filled_is_done_once,
    ),
    (
        Mutant::DroppedKeysStay,
        nodes::a_node_that_was_removed_for_its_silence_is_filled_when_it_is_back,
    ),
    (
        Mutant::FailureMeansNotDone,
        nodes::resigned::a_put_of_an_absent_key_that_an_heir_settles_has_no_conflict_with_itself,
    ),
    (
        Mutant::OutcomeAfterLead,
        nodes::repeated::a_question_that_outlives_the_lead_of_its_node_is_answered_by_the_heir,
    ),
    (
        Mutant::BackupReadable,
        nodes::resigned::a_reader_of_a_node_that_has_resigned_sees_what_its_heir_has_answered,
    ),
    (
        Mutant::InFlightUnseen,
        nodes::in_flight::a_write_that_waits_for_copies_is_seen_by_the_next_condition,
    ),
    (
        Mutant::PublishedPastCopies,
        pools_of_clusters::clients_do_not_publish_in_a_pool_of_a_cluster,
    ),
    (
        Mutant::TombstonesForgotten,
        nodes::joins::a_key_that_is_deleted_while_its_page_is_on_its_way_stays_deleted,
    ),
    (
        Mutant::SkipsNotPersisted,
        nodes::leaving::a_node_that_has_left_a_shard_starts_again_after_a_power_cut,
    ),
];

/// The story that finds each bug of keys that expire.
const STORIES_OF_EXPIRY: [(Mutant, fn()); 11] = [
    (
        Mutant::ExpiryIgnoredByReader,
        expiry::an_expired_key_is_absent_on_every_path,
    ),
    (
        Mutant::DriftIgnored,
        expiry::a_client_with_a_slow_clock_reads_no_expired_key,
    ),
    (
        Mutant::TimeMarkForgotten,
        expiry::a_clock_that_is_set_back_between_two_runs_resurrects_nothing,
    ),
    (
        Mutant::TimeBeyondMark,
        expiry::what_was_absent_long_after_the_last_mark_is_absent_after_a_restart,
    ),
    (
        Mutant::WallClockBelieved,
        expiry::a_clock_that_is_set_back_in_a_run_resurrects_nothing,
    ),
    (
        Mutant::ExpiredIsPresent,
        expiry::a_write_on_condition_of_absence_is_done_from_the_moment_on,
    ),
    (
        Mutant::ExpiredStays,
        expiry::a_server_that_starts_again_removes_what_has_expired,
    ),
    (
        Mutant::ExpiredLeavesNoTombstone,
        expiry::an_expired_key_whose_record_is_cleaned_away_does_not_get_its_older_value_back,
    ),
    (
        Mutant::HeirForgetsMark,
        nodes::expiring::a_key_stays_absent_when_the_clock_of_the_heir_is_behind,
    ),
    (
        Mutant::MarkOfCopyForgotten,
        nodes::expiring::a_power_cut_of_all_nodes_resurrects_nothing_when_all_clocks_are_set_back,
    ),
    (
        Mutant::MarkNotInPages,
        nodes::expiring::a_node_that_was_filled_by_pages_begins_at_the_mark_of_its_primary,
    ),
];

/// The story that finds each bug of batches.
const STORIES_OF_BATCHES: [(Mutant, fn()); 12] = [
    (
        Mutant::TornBatchCounts,
        several_keys::a_batch_that_lost_any_of_its_records_counts_not_at_all,
    ),
    (
        Mutant::BatchUnmarked,
        several_keys::no_power_cut_tears_a_batch,
    ),
    (
        Mutant::TornBatchStays,
        several_keys::the_cleaner_brings_nothing_of_a_torn_batch_back_and_loses_nothing_of_a_whole_one,
    ),
    (
        Mutant::MovedKeepsPlace,
        several_keys::the_cleaner_brings_nothing_of_a_torn_batch_back_and_loses_nothing_of_a_whole_one,
    ),
    (
        Mutant::ExpectationIgnored,
        several_keys::a_batch_whose_expectation_does_not_hold_names_the_key_and_does_nothing,
    ),
    (
        Mutant::BatchBesideItsCause,
        several_keys::a_batch_is_stamped_after_what_it_expects_is_durable,
    ),
    (
        Mutant::BatchOutcomeForgotten,
        several_keys::a_batch_that_is_retried_is_done_once_also_after_a_restart,
    ),
    (
        Mutant::BatchOnSeveralShards,
        nodes::batches::keys_of_several_shards_are_refused_by_name,
    ),
    (
        Mutant::TornOwnBatchCounts,
        nodes::batches::no_power_cut_of_all_nodes_tears_a_batch,
    ),
    (
        Mutant::BatchLeftInParts,
        nodes::batches::no_power_cut_of_all_nodes_tears_a_batch,
    ),
    (
        Mutant::BatchUnclaimed,
        several_keys::batches_and_overwrites_that_clients_publish_are_one_order,
    ),
    (
        Mutant::BatchAnswerUnawaited,
        nodes::batches::an_answer_about_an_expectation_tells_of_what_all_copies_have,
    ),
];

/// The story that finds each bug of values in chunks.
const STORIES_OF_CHUNKS: [(Mutant, fn()); 4] = [
    (
        Mutant::HeadWithoutChunks,
        chunks::a_put_whose_chunks_are_gone_is_refused_and_leaves_the_earlier_value,
    ),
    (
        Mutant::ChunksOutliveHead,
        chunks::the_room_of_chunks_comes_back_with_the_end_of_their_value,
    ),
    (
        Mutant::HeadReplacesItself,
        nodes::chunks::a_value_that_comes_to_a_joiner_by_page_and_as_an_entry_keeps_its_chunks,
    ),
    (
        Mutant::NamedChunkExpires,
        chunks::chunks_that_a_record_names_outlive_their_time,
    ),
];

/// The story that finds each bug of holds.
const STORIES_OF_HOLDS: [(Mutant, fn()); 3] = [
    (
        Mutant::ReplacedNotKept,
        holds::a_hold_is_the_state_at_its_version_while_others_write_and_the_cleaner_works,
    ),
    (
        Mutant::LaterInHold,
        holds::a_hold_is_the_state_at_its_version_while_others_write_and_the_cleaner_works,
    ),
    (
        Mutant::ExpiredNotKept,
        holds::a_hold_has_the_keys_that_expire_while_it_is_read,
    ),
];

/// The controls of the flaws of Rowan-KV as published: without its guard, `kv` breaks the promise, too. R6 has a policy
/// as its control, beside its test.
const CONTROLS_OF_FLAWS: [(Mutant, Promise); 12] = [
    (Mutant::AppendsNotWrittenBack, flaws::r1),
    (Mutant::AppendsNotFlushed, flaws::r1_one_sided),
    (Mutant::PublishedEarly, flaws::r2),
    (Mutant::SuffixKept, flaws::r3),
    (Mutant::PlaceDecides, flaws::r4),
    (Mutant::AppendTagIgnored, forgeries::r5_forged),
    (Mutant::PlaceDecides, forgeries::r5_copied),
    (Mutant::LeaseNotAsked, flaws::r7),
    (Mutant::LeaseUnchecked, flaws::r7),
    (Mutant::LeaseEndIgnored, flaws::r7),
    (Mutant::OutcomesOfCopiesNotNoted, flaws::r8),
    (Mutant::TombstoneDroppedEarly, flaws::r9),
];

#[test]
fn every_seeded_bug_of_the_published_flaws_is_found() {
    by_promises(&CONTROLS_OF_FLAWS);
}

#[test]
fn every_seeded_bug_of_values_in_chunks_is_found() {
    by_stories("kv/chunks", &STORIES_OF_CHUNKS);
}

#[test]
fn every_seeded_bug_of_holds_is_found() {
    by_stories("kv/backup", &STORIES_OF_HOLDS);
}

#[test]
fn every_seeded_bug_of_held_places_is_found() {
    let cleaned = holds::the_cleaner_leaves_records_alone_that_a_hold_has_to_read as fn();
    let begun = holds::a_hold_that_begins_among_many_writes_misses_no_key as fn();
    let stories = [
        (Mutant::KeptNotWaitedFor, cleaned),
        (Mutant::HoldInsideBatch, begun),
    ];
    by_stories("kv/hold", &stories);
}

#[test]
fn every_seeded_bug_of_batches_is_found() {
    by_stories("kv/batches", &STORIES_OF_BATCHES);
}

#[test]
fn every_seeded_bug_of_expiry_is_found() {
    by_stories("kv/expiry", &STORIES_OF_EXPIRY);
}

#[test]
fn every_seeded_bug_of_the_store_in_a_cluster_is_found() {
    by_stories("kv/cluster", &STORIES);
}

#[test]
fn every_seeded_bug_of_the_store_of_a_node_is_found() {
    by_stories("kv/node", &STORIES_OF_NODES);
}

#[test]
fn every_seeded_bug_of_a_resigned_primary_is_found() {
    let story = nodes::unsettled::a_key_whose_put_an_heir_has_settled_stays_deleted as fn();
    by_stories("kv/resigned", &[(Mutant::UnsettledPutUncounted, story)]);
}
