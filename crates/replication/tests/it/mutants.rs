//! Stories of one machine find the seeded bugs that the world of replication seldom shows. Without a seeded bug they
//! find nothing.

use stonecast_base::hunts::{objects, quietly};
use stonecast_base::mutants::{Mutant, plant};

use crate::{entries, stories};

const STORIES: [fn(); 5] = [
    entries::every_bit_of_an_entry_counts,
    stories::an_heir_looks_at_its_memory_after_the_leases_where_a_peer_may_still_append,
    stories::a_report_of_a_connection_that_has_ended_says_nothing,
    stories::a_history_without_something_that_was_on_all_copies_is_not_adopted,
    stories::an_heir_with_consent_awaits_nobody_and_consent_to_another_heir_says_nothing,
];

/// The number of stories that object to `mutant`.
fn objections(mutant: Option<Mutant>) -> usize {
    plant(mutant);
    let objecting = STORIES.iter().filter(|story| objects(story));
    let objecting = objecting.count();
    plant(None);
    objecting
}

#[test]
fn every_seeded_bug_of_one_machine_is_found() {
    let mutants = Mutant::ALL.iter().copied();
    let ours = mutants.filter(|mutant| mutant.place() == "replication/machines");
    let control = quietly(|| objections(None));
    let found = ours.map(|mutant| (mutant, objections(Some(mutant))));
    let found: Vec<_> = quietly(|| found.collect());
    assert_eq!(control, 0, "the unchanged rules break a promise");
    for (mutant, stories) in &found {
        println!("{:<28} {stories} stories", mutant.name());
    }
    assert!(found.iter().all(|(_, stories)| *stories > 0));
}
