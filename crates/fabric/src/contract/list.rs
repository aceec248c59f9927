//! The table of contents: each promise once, with what it needs. Tests, [`cases`] and the page `docs/contract.md` are
//! made from it, so a story that is missing here does not compile without a warning, and one that is missing there does
//! not compile at all.

use std::rc::Rc;

use super::{Case, Need, Scene, Story};

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
            }
            atomics {
                a_compare_and_swap_that_matches_swaps_and_returns_the_word_found: [],
                a_compare_and_swap_that_does_not_match_changes_nothing_and_returns_the_word_found: [],
                a_fetch_and_add_returns_the_word_found_and_wraps: [],
                additions_from_two_queue_pairs_are_never_lost: [],
                a_misaligned_compare_and_swap_is_invalid_and_changes_nothing: [],
                a_misaligned_fetch_and_add_is_invalid_and_changes_nothing: [],
            }
            access {
                a_write_without_the_right_is_refused_and_changes_nothing: [],
                a_read_without_the_right_is_refused: [],
                an_atomic_without_the_right_is_refused_and_changes_nothing: [],
                a_write_that_ends_beyond_the_region_is_refused_whole: [],
                a_write_that_begins_before_the_region_is_refused_whole: [],
                an_address_that_wraps_around_is_refused: [],
                an_unknown_key_is_refused: [],
            }
            connections {
                private_data_reaches_the_other_side_both_ways: [],
                a_rejection_carries_its_reason_and_the_queue_pair_can_try_again: [],
                connecting_to_nobody_is_rejected: [],
                a_disconnect_is_told_to_both_sides_once: [],
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
                needs: &[$(Need::$need),*],
                run: |scene: Rc<Scene>| -> Story { Box::pin(super::$group::$name(scene)) },
            },
        )*)*]
    };
}

/// Every promise, in the order of the page.
pub fn cases() -> &'static [Case] {
    __contract_list! { __contract_cases }
}
