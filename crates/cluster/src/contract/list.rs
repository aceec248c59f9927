//! The table of contents: each promise once. Tests and [`cases`] are made from it.

use super::{Case, Scene, Story};

/// Calls `$then!` with its arguments and the list.
#[doc(hidden)]
#[macro_export]
macro_rules! __store_contract_list {
    ($then:ident $($arguments:tt)*) => {
        $crate::$then! {
            $($arguments)*
            values {
                a_store_to_which_nobody_wrote_is_empty,
                the_first_value_needs_an_empty_store,
                each_value_has_a_higher_revision_and_every_handle_reads_it,
                any_bytes_come_back_as_they_were_stored,
                the_longest_value_is_stored_and_a_longer_one_is_refused,
                a_document_of_a_newer_program_is_refused_and_stays,
            }
            writers {
                of_two_first_values_one_is_stored,
                of_two_writers_that_expect_the_same_revision_one_wins_each_time,
                a_revision_that_was_overtaken_stores_nothing,
                an_attempt_that_was_dropped_is_found_by_its_number,
                two_changes_of_a_configuration_both_come_about,
            }
            watching {
                a_watch_of_an_empty_store_sees_the_first_value,
                a_watch_sees_the_next_value_or_a_later_one,
                a_watch_of_an_old_revision_brings_the_newest_value_at_once,
                a_watch_that_was_dropped_is_harmless,
                a_watched_value_is_not_older_than_a_value_that_this_handle_stored,
            }
        }
    };
}

/// Makes the array of [`cases`].
#[doc(hidden)]
#[macro_export]
macro_rules! __store_contract_cases {
    ($($group:ident { $($name:ident,)* })*) => {
        &[$($(
            Case {
                name: stringify!($name),
                run: |scene: Scene| -> Story { Box::pin(super::$group::$name(scene)) },
            },
        )*)*]
    };
}

/// Every promise.
pub fn cases() -> &'static [Case] {
    __store_contract_list! { __store_contract_cases }
}
