//! The table of contents: each promise once, with its needs. Tests, [`cases`] and the page `docs/contract.md` are made
//! from this list. A story that is missing from the list causes a compiler warning, and a listed story that does not
//! exist fails to compile.

use std::rc::Rc;

use super::{Case, Scene, Story};

/// Calls `$then!` with its arguments and the list.
#[doc(hidden)]
#[macro_export]
macro_rules! __contract_list {
    ($then:ident $($arguments:tt)*) => {
        $crate::$then! {
            $($arguments)*
            ordering {
                a_write_is_visible_before_a_later_send_is_received: [],
                a_write_is_visible_before_a_later_write_with_immediate_arrives: [],
                sends_arrive_in_posting_order: [],
                completions_come_in_posting_order: [],
                a_read_sees_every_earlier_write_of_its_queue_pair: [],
                a_read_after_a_send_sees_the_placed_payload: [],
                a_fenced_write_does_not_overtake_an_earlier_read: [],
                an_unfenced_write_leaves_each_word_of_an_earlier_read_old_or_new: [],
                aligned_words_of_a_long_write_are_never_seen_torn: [],
                an_unsignalled_success_makes_no_completion: [],
            }
            transfer {
                a_write_of_any_size_and_alignment_changes_exactly_its_bytes: [],
                a_read_of_any_size_and_alignment_returns_exactly_its_bytes: [],
                a_megabyte_travels_whole_in_both_directions: [],
                an_empty_write_and_an_empty_read_at_the_end_of_a_region_succeed: [],
                one_sided_operations_need_no_help_of_the_responder: [],
                allocated_memory_is_zeroed: [],
            }
            atomics {
                a_compare_and_swap_that_matches_swaps_and_returns_the_word_found: [],
                a_compare_and_swap_that_does_not_match_changes_nothing_and_returns_the_word_found: [],
                a_fetch_and_add_returns_the_word_found_and_wraps: [],
                additions_from_two_queue_pairs_are_never_lost: [],
                a_misaligned_compare_and_swap_is_invalid_and_changes_nothing: [],
                a_misaligned_fetch_and_add_is_invalid_and_changes_nothing: [],
                an_atomic_sees_earlier_writes_of_its_queue_pair: [],
                exactly_one_of_two_queue_pairs_that_swap_the_same_word_succeeds: [],
                an_atomic_whose_result_is_not_eight_bytes_is_refused: [],
                an_atomic_write_takes_effect_whole_and_after_everything_before_it: [AtomicWrite],
                a_misaligned_atomic_write_is_invalid_and_changes_nothing: [AtomicWrite],
            }
            access {
                a_write_without_the_right_is_refused_and_changes_nothing: [],
                a_read_without_the_right_is_refused: [],
                a_compare_and_swap_without_the_right_is_refused_and_changes_nothing: [],
                a_fetch_and_add_without_the_right_is_refused_and_changes_nothing: [],
                an_atomic_write_without_the_right_to_write_is_refused_and_changes_nothing: [AtomicWrite],
                a_flush_without_the_right_is_refused: [FlushGlobal],
                a_region_for_local_use_is_closed_to_peers: [],
                a_write_that_ends_beyond_the_region_is_refused_whole: [],
                a_write_that_begins_before_the_region_is_refused_whole: [],
                a_read_that_ends_beyond_the_region_is_refused: [],
                an_atomic_beyond_the_region_is_refused: [],
                a_range_that_wraps_around_the_address_space_is_refused: [],
                an_unknown_key_is_refused: [],
                a_key_does_not_open_another_region: [],
            }
            revocation {
                a_window_opens_its_bytes_of_a_closed_region: [MemoryWindows],
                a_window_opens_nothing_before_itself: [MemoryWindows],
                a_window_opens_nothing_after_itself: [MemoryWindows],
                a_window_grants_only_its_own_rights: [MemoryWindows],
                a_window_opens_nothing_to_another_queue_pair: [MemoryWindows],
                a_window_that_leaves_its_region_is_refused: [MemoryWindows],
                an_invalidated_window_opens_nothing: [MemoryWindows],
                the_end_of_one_window_leaves_others_of_the_region_open: [MemoryWindows],
                an_old_window_key_stays_closed_when_the_bytes_are_bound_again: [MemoryWindows],
                nothing_is_written_after_the_end_of_a_window: [MemoryWindows],
                queue_pairs_with_windows_do_everything_else_too: [MemoryWindows],
                an_invalidated_region_key_opens_nothing: [],
                nothing_is_written_after_an_invalidation_returned: [],
                invalidating_a_key_twice_is_harmless: [],
                a_region_with_a_valid_key_is_not_deregistered: [],
                the_key_of_a_deregistered_region_opens_nothing: [],
                a_key_can_be_invalidated_after_its_peer_died: [Killing],
            }
            quiescing {
                nothing_of_a_peer_lands_after_quiescing: [],
                no_write_of_a_peer_lands_after_quiescing: [],
                every_completion_of_a_quiet_queue_pair_can_be_polled: [],
                quiescing_ends_the_connection_and_may_be_repeated: [],
                a_queue_pair_that_was_never_connected_is_not_quiesced: [],
                quiescing_one_queue_pair_leaves_others_alone: [],
                a_queue_pair_can_be_quiesced_after_its_peer_died: [Killing],
            }
            failure {
                requests_after_a_failed_one_are_flushed_in_posting_order: [],
                a_failed_request_completes_even_if_it_was_unsignalled: [],
                a_flushed_request_completes_even_if_it_was_unsignalled: [],
                requests_before_a_failed_one_complete_and_take_effect: [],
                a_write_after_a_failed_one_changes_nothing: [],
                a_failed_queue_pair_accepts_posts_and_flushes_them: [],
                own_receive_buffers_of_both_sides_are_flushed_in_order: [],
                shared_receive_buffers_survive_the_failure_of_a_queue_pair: [],
                another_queue_pair_of_the_same_devices_is_unharmed: [],
                a_failure_ends_the_connection_on_both_sides_once: [],
                a_source_outside_its_region_is_a_local_protection_error: [],
                a_message_outside_its_region_is_a_local_protection_error: [],
                a_destination_outside_its_region_is_a_local_protection_error: [],
                a_region_handle_with_a_forged_size_opens_nothing_more: [],
                a_send_longer_than_its_buffer_fails_on_both_sides: [],
                a_send_longer_than_the_device_sends_is_refused_and_harms_nothing: [],
                a_receive_buffer_outside_its_region_is_refused: [],
                an_operation_that_the_device_lacks_is_refused_and_harms_nothing: [SomethingMissing],
                an_unknown_queue_pair_is_refused: [],
            }
            receives {
                an_arrival_reports_opcode_place_and_length: [],
                completions_report_their_opcode: [],
                a_message_may_fill_its_buffer: [],
                an_empty_message_takes_a_buffer: [],
                the_longest_message_arrives_whole: [],
                buffers_are_used_in_the_order_in_which_they_were_posted: [],
                a_send_waits_until_a_buffer_is_posted: [],
                requests_behind_a_waiting_send_wait_with_it: [],
                a_send_gives_up_after_its_retries_and_not_before: [],
                a_send_without_retries_fails_when_there_is_no_buffer: [],
                a_write_with_immediate_takes_a_buffer_and_carries_its_number_and_length: [],
                an_empty_write_with_immediate_is_only_a_number: [],
                a_write_with_immediate_waits_until_a_buffer_is_posted: [],
                a_write_with_immediate_that_is_refused_takes_no_buffer: [],
            }
            shared {
                shared_buffers_are_used_in_posted_order_by_every_sender: [],
                an_empty_shared_queue_stops_every_sender_until_it_is_filled: [],
                a_write_with_immediate_takes_a_shared_buffer: [],
                a_full_shared_queue_refuses_buffers_whole: [],
                a_queue_pair_that_shares_a_queue_has_no_buffers_of_its_own: [],
                a_refused_request_does_not_change_the_order_of_a_queue_that_keeps_it: [],
            }
            multi_packet {
                messages_lie_side_by_side_at_multiples_of_the_stride: [MultiPacket],
                messages_of_one_sender_lie_in_the_order_of_their_arrival: [MultiPacket],
                an_empty_message_takes_one_stride: [MultiPacket],
                a_full_buffer_is_given_back_once_after_its_last_message: [MultiPacket],
                a_consumed_buffer_is_given_back_even_if_its_senders_are_gone: [MultiPacket],
                a_silent_multi_packet_queue_makes_no_completions: [MultiPacket],
                a_device_that_follows_messages_names_each_once_where_it_lies: [MultiPacket],
                a_message_that_does_not_fit_the_rest_goes_to_the_next_buffer: [MultiPacket],
                buffers_are_filled_in_posted_order_and_can_be_posted_again: [MultiPacket],
                an_exhausted_multi_packet_queue_stops_senders_until_it_is_filled: [MultiPacket],
                a_multi_packet_queue_that_stays_exhausted_is_receiver_not_ready: [MultiPacket],
                messages_of_two_senders_interleave_without_overlap: [MultiPacket],
                an_append_and_a_read_of_it_need_nothing_of_the_receiver: [MultiPacket],
                a_message_longer_than_a_multi_packet_buffer_is_invalid: [MultiPacket],
                a_write_with_immediate_to_a_multi_packet_queue_is_invalid: [MultiPacket],
            }
            appends {
                entries_of_one_sender_lie_in_order_whatever_their_sizes: [],
                entries_of_two_senders_lie_next_to_each_other_and_whole: [],
                an_entry_longer_than_a_message_lies_in_consecutive_messages: [],
                an_append_without_credit_is_refused_and_sends_nothing: [],
                a_sender_that_pays_always_finds_room_and_credits_end_with_the_room: [],
                a_full_buffer_of_appends_comes_back_and_can_be_posted_again: [],
                credits_that_a_quiet_sender_did_not_use_are_granted_to_others: [],
            }
            queues {
                a_batch_that_does_not_fit_the_send_queue_is_refused_whole: [],
                a_batch_may_fill_the_send_queue: [],
                unsignalled_requests_leave_the_send_queue_by_themselves: [],
                receive_buffers_that_do_not_fit_are_refused_whole: [],
                a_used_receive_buffer_makes_room_for_another: [],
                poll_takes_no_more_than_asked_and_keeps_the_rest: [],
                a_completion_queue_that_overruns_breaks_every_queue_pair_that_uses_it: [],
                a_destroyed_queue_pair_delivers_no_completion: [],
            }
            connections {
                private_data_reaches_the_other_side_both_ways: [],
                a_rejection_carries_its_reason_and_the_queue_pair_can_try_again: [],
                connecting_to_an_address_without_a_listener_is_rejected: [],
                a_disconnect_is_reported_to_both_sides_once: [],
                private_data_that_is_too_long_is_refused: [],
                an_address_in_use_is_refused: [],
                buffers_posted_before_the_connection_take_its_first_messages: [],
                a_send_before_the_connection_is_refused: [],
                connections_between_the_same_two_nodes_are_separate: [],
                both_sides_of_a_connection_can_post: [],
                a_disconnect_flushes_outstanding_requests_on_both_sides: [],
                destroying_a_queue_pair_disconnects_its_peer: [],
                nodes_can_connect_again_after_a_disconnect: [],
                the_death_of_a_peer_is_reported_once: [Killing],
                requests_outstanding_when_the_peer_dies_complete_with_an_error: [Killing],
                the_death_of_one_peer_leaves_others_connected: [Killing],
                connecting_to_a_dead_node_is_rejected: [Killing],
            }
            flush {
                earlier_writes_are_visible_when_a_flush_completes: [FlushGlobal],
                a_flush_beyond_the_region_is_refused: [FlushGlobal],
                a_flush_of_no_bytes_is_refused_and_harms_nothing: [FlushGlobal],
                a_persistent_flush_of_persistent_memory_succeeds: [FlushPersistent],
                a_persistent_flush_of_volatile_memory_is_refused_and_not_pretended: [FlushPersistent],
            }
            reads {
                reading_sees_every_earlier_write_of_its_queue_pair: [],
                reading_sees_the_payload_of_an_earlier_send: [],
                several_places_are_read_into_their_own_destinations: [],
                reading_without_the_right_is_refused: [],
                reading_beyond_the_region_is_refused: [],
                reading_before_the_region_is_refused: [],
                reading_a_range_that_wraps_around_is_refused: [],
                reading_through_an_unknown_key_is_refused: [],
                reading_through_a_revoked_key_is_refused: [],
                reading_fails_whole_when_one_place_is_refused: [],
                a_refused_reading_puts_the_queue_pair_into_the_error_state: [],
                reading_on_a_failed_queue_pair_is_flushed: [],
                reads_that_end_in_the_call_return_their_bytes_and_no_completion: [],
                reads_that_are_late_for_the_call_complete_like_posted_reads: [],
                reads_in_the_call_that_are_refused_complete_like_posted_reads: [],
                reads_in_the_call_see_the_effects_of_earlier_posts: [],
            }
            changes {
                changes_are_executed_in_order_and_return_the_words_found: [],
                changing_writes_exactly_its_bytes: [],
                changing_comes_after_every_earlier_write_of_its_queue_pair: [],
                changing_comes_after_the_payload_of_an_earlier_send: [],
                changes_of_two_queue_pairs_on_one_word_are_never_lost: [],
                an_abandoned_change_holds_its_memory_until_it_has_ended: [],
                changing_without_the_right_is_refused_and_changes_nothing: [],
                changing_beyond_the_region_is_refused_and_changes_nothing: [],
                a_misaligned_word_is_not_changed: [],
                changing_through_a_revoked_key_is_refused_and_changes_nothing: [],
                no_change_of_a_batch_that_fails_is_done_twice: [],
            }
            ports {
                a_submission_ends_with_the_status_of_its_first_failure: [],
                a_fenced_operation_of_a_submission_waits_for_an_earlier_read: [],
                submissions_of_many_tasks_end_with_their_own_results: [],
                dropping_an_outstanding_submission_is_harmless: [],
                a_submission_on_a_destroyed_queue_pair_ends: [],
            }
        }
    };
}

/// Makes the array of [`cases`].
#[doc(hidden)]
#[macro_export]
macro_rules! __contract_cases {
    ($($group:ident { $($name:ident: [$($need:ident),*],)* })*) => {
        &[$($(
            Case {
                group: stringify!($group),
                name: stringify!($name),
                needs: &[$(super::Need::$need),*],
                run: |scene: Rc<Scene>| -> Story { Box::pin(super::$group::$name(scene)) },
            },
        )*)*]
    };
}

/// Every promise, in the order of the page.
pub fn cases() -> &'static [Case] {
    __contract_list! { __contract_cases }
}
