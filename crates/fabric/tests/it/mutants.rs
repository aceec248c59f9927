//! The suite can fail: for each broken promise some story fails, by its own check and not because the broken provider
//! stumbles.

use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Once;

use stonecast_fabric::contract::{cases, check};

use crate::loopback::Fault::{self, *};
use crate::loopback::{Flavour, LIBERAL, LoopbackWorld, PLAIN};

/// The broken promise, and one story that must fail.
const NOTICED_BY: &[(Fault, &str)] = &[
    (SendsReordered, "sends_arrive_in_posting_order"),
    (
        FenceIgnored,
        "a_fenced_write_does_not_overtake_an_earlier_read",
    ),
    (
        FenceIgnored,
        "a_fenced_operation_of_a_submission_waits_for_an_earlier_read",
    ),
    (
        ReadsOvertakeWrites,
        "a_read_sees_every_earlier_write_of_its_queue_pair",
    ),
    (CompletionsBackwards, "completions_come_in_posting_order"),
    (
        WordsTorn,
        "aligned_words_of_a_long_write_are_never_seen_torn",
    ),
    (
        UnsignalledSuccessReported,
        "an_unsignalled_success_makes_no_completion",
    ),
    (
        WriteNotExecuted,
        "a_write_of_any_size_and_alignment_changes_exactly_its_bytes",
    ),
    (
        ResponderMustPoll,
        "one_sided_operations_need_no_help_of_the_responder",
    ),
    (
        ResponderMustPoll,
        "an_append_and_a_read_of_it_need_nothing_of_the_receiver",
    ),
    (MemoryNotZeroed, "allocated_memory_is_zeroed"),
    (
        SwapAlways,
        "a_compare_and_swap_that_does_not_match_changes_nothing_and_returns_the_word_found",
    ),
    (
        AtomicsReturnTheNewWord,
        "a_fetch_and_add_returns_the_word_found_and_wraps",
    ),
    (
        MisalignmentIgnored,
        "a_misaligned_compare_and_swap_is_invalid_and_changes_nothing",
    ),
    (
        RightsIgnored,
        "a_write_without_the_right_is_refused_and_changes_nothing",
    ),
    (
        BoundsIgnored,
        "a_range_that_wraps_around_the_address_space_is_refused",
    ),
    (BoundsIgnored, "a_key_does_not_open_another_region"),
    (
        WritesUpToTheBound,
        "a_write_that_ends_beyond_the_region_is_refused_whole",
    ),
    (KeyNumberIgnored, "an_unknown_key_is_refused"),
    (RevocationIgnored, "an_invalidated_region_key_opens_nothing"),
    (
        RevocationDoesNotWait,
        "nothing_is_written_after_an_invalidation_returned",
    ),
    (
        RevocationDoesNotWait,
        "nothing_is_written_after_the_end_of_a_window",
    ),
    (
        KeysReused,
        "an_old_window_key_stays_closed_when_the_bytes_are_bound_again",
    ),
    (
        WindowForEverybody,
        "a_window_opens_nothing_to_another_queue_pair",
    ),
    (WindowOpensItsRegion, "a_window_opens_nothing_after_itself"),
    (
        DeregistrationUnchecked,
        "a_region_with_a_valid_key_is_not_deregistered",
    ),
    (
        FlushedRequestsForgotten,
        "requests_after_a_failed_one_are_flushed_in_posting_order",
    ),
    (
        FlushedReceivesForgotten,
        "own_receive_buffers_of_both_sides_are_flushed_in_order",
    ),
    (
        SharedBuffersFlushed,
        "shared_receive_buffers_survive_the_failure_of_a_queue_pair",
    ),
    (
        UnsignalledFailureSwallowed,
        "a_failed_request_completes_even_if_it_was_unsignalled",
    ),
    (
        FailureSpreads,
        "another_queue_pair_of_the_same_devices_is_unharmed",
    ),
    (
        LocalBoundsIgnored,
        "a_source_outside_its_region_is_a_local_protection_error",
    ),
    (
        LongMessagesCut,
        "a_send_longer_than_its_buffer_fails_on_both_sides",
    ),
    (
        LongSendsAccepted,
        "a_send_longer_than_the_device_sends_is_refused_and_harms_nothing",
    ),
    (
        MessageLengthLost,
        "an_arrival_reports_opcode_place_and_length",
    ),
    (NoReceiverNotReady, "a_send_waits_until_a_buffer_is_posted"),
    (
        ReceiverNotReadyForEver,
        "a_send_gives_up_after_its_retries_and_not_before",
    ),
    (
        ImmediateTakesNoReceive,
        "a_write_with_immediate_waits_until_a_buffer_is_posted",
    ),
    (
        ImmediateLost,
        "an_empty_write_with_immediate_is_only_a_number",
    ),
    (
        SharedBuffersBackwards,
        "shared_buffers_are_used_in_posted_order_by_every_sender",
    ),
    (
        RefusedBufferPostedAgain,
        "a_refused_request_does_not_change_the_order_of_a_queue_that_keeps_it",
    ),
    (
        StrideIgnored,
        "messages_lie_side_by_side_at_multiples_of_the_stride",
    ),
    (
        BufferConsumedTwice,
        "a_full_buffer_is_given_back_once_after_its_last_message",
    ),
    (
        ConsumedTellsTheSender,
        "a_consumed_buffer_is_given_back_even_if_its_senders_are_gone",
    ),
    (
        SilentQueueTells,
        "a_silent_multi_packet_queue_makes_no_completions",
    ),
    (QuiesceIgnored, "nothing_of_a_peer_lands_after_quiescing"),
    (
        QuiesceIgnored,
        "quiescing_ends_the_connection_and_may_be_repeated",
    ),
    (
        ArrivalsCompleteLate,
        "every_completion_of_a_quiet_queue_pair_can_be_polled",
    ),
    (
        QuiesceSpreads,
        "quiescing_one_queue_pair_leaves_others_alone",
    ),
    (
        QueueNeverFull,
        "receive_buffers_that_do_not_fit_are_refused_whole",
    ),
    (
        HalfABatchAccepted,
        "a_batch_that_does_not_fit_the_send_queue_is_refused_whole",
    ),
    (
        UnsignalledStaysInTheQueue,
        "unsignalled_requests_leave_the_send_queue_by_themselves",
    ),
    (
        PollLimitIgnored,
        "poll_takes_no_more_than_asked_and_keeps_the_rest",
    ),
    (
        OverrunSilent,
        "a_completion_queue_that_overruns_breaks_every_queue_pair_that_uses_it",
    ),
    (
        CompletesAfterDestruction,
        "a_destroyed_queue_pair_delivers_no_completion",
    ),
    (
        PrivateDataLost,
        "private_data_reaches_the_other_side_both_ways",
    ),
    (
        RejectionLost,
        "connecting_to_an_address_without_a_listener_is_rejected",
    ),
    (AnyoneMayListen, "an_address_in_use_is_refused"),
    (
        SendsBeforeTheConnection,
        "a_send_before_the_connection_is_refused",
    ),
    (
        DisconnectToldTwice,
        "a_disconnect_is_reported_to_both_sides_once",
    ),
    (
        DeathUnnoticed,
        "requests_outstanding_when_the_peer_dies_complete_with_an_error",
    ),
    (
        EmptyFlushAccepted,
        "a_flush_of_no_bytes_is_refused_and_harms_nothing",
    ),
    (
        PersistentFlushOfVolatileMemory,
        "a_persistent_flush_of_volatile_memory_is_refused_and_not_pretended",
    ),
    (
        ReadsAtOnceIgnoreRights,
        "reading_without_the_right_is_refused",
    ),
    (
        ReadsAtOnceOvertake,
        "reading_sees_the_payload_of_an_earlier_send",
    ),
    (
        ChangesAtOnceIgnoreRights,
        "changing_without_the_right_is_refused_and_changes_nothing",
    ),
    (
        ChangesAtOnceOvertake,
        "changing_comes_after_the_payload_of_an_earlier_send",
    ),
    (
        ChangesAtOnceHalfDone,
        "no_change_of_a_batch_that_fails_is_done_twice",
    ),
    (
        ReadsInTheCallAlwaysSucceed,
        "reads_in_the_call_that_are_refused_complete_like_posted_reads",
    ),
    (
        ReadsInTheCallToldTwice,
        "reads_that_end_in_the_call_return_their_bytes_and_no_completion",
    ),
];

#[test]
fn every_broken_promise_is_noticed_by_its_story() {
    for &(fault, name) in NOTICED_BY {
        let blamed: Vec<String> = [PLAIN, LIBERAL]
            .into_iter()
            .filter_map(|flavour| failure(flavour, fault, name))
            .collect();
        assert!(!blamed.is_empty(), "{fault:?} passes {name}");
        let by_the_story = |place: &String| place.contains("fabric/src/contract/");
        assert!(
            blamed.iter().all(by_the_story),
            "{fault:?} is found by {blamed:?}, not by {name}"
        );
    }
}

#[test]
fn the_stories_that_must_notice_pass_when_nothing_is_broken() {
    for &(_, name) in NOTICED_BY {
        assert!(
            cases().iter().any(|case| case.name == name),
            "{name} is a promise"
        );
        assert_eq!(
            (
                failure(PLAIN, Fault::Nothing, name),
                failure(LIBERAL, Fault::Nothing, name)
            ),
            (None, None)
        );
    }
}

thread_local! {
    static LAST_PANIC: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// The place at which the story panicked, if it did.
fn failure(flavour: Flavour, fault: Fault, name: &str) -> Option<String> {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let report = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            let place = panic.location().map(|location| location.file().to_owned());
            LAST_PANIC.with(|last| *last.borrow_mut() = place);
            report(panic);
        }));
    });
    let told = catch_unwind(AssertUnwindSafe(|| {
        drop(check(name, LoopbackWorld::new(flavour, fault)))
    }));
    told.is_err().then(|| {
        LAST_PANIC
            .with(|last| last.borrow_mut().take())
            .expect("the hook saw the panic")
    })
}
