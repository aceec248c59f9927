//! The stories find every seeded bug of membership, and find nothing without a bug.

use stonecast_base::hunts::{objects, quietly};
use stonecast_base::mutants::{Mutant, plant};

use crate::{deaths, mishaps, refusals, staying, suspension};

/// Number of seeds. Each mutant must be found within them, and the unchanged member must pass all of them.
const SEEDS_MAX: u64 = 300;

/// The crates whose mutants are hunted here, and the clocks on which leases count.
const PLACES: [&str; 3] = ["clocks", "cluster", "member"];

/// Stories of events that chance seldom brings about.
const STORIES: [(&str, fn()); 11] = [
    (
        "a copy that was lost",
        staying::a_node_that_has_lost_its_copies_starts_without_them,
    ),
    (
        "a primary that starts again",
        staying::a_node_that_starts_again_leads_in_a_later_term_and_its_peers_come_back_to_it,
    ),
    (
        "a store that went back",
        refusals::a_node_that_starts_writes_nothing_into_a_store_that_went_back,
    ),
    (
        "a store that repeats an epoch",
        refusals::a_node_that_starts_writes_nothing_into_a_store_that_repeats_its_epoch,
    ),
    (
        "a start that nobody registered",
        refusals::a_start_that_the_configuration_does_not_name_is_heard_and_granted_nothing,
    ),
    (
        "a join that was broken off",
        staying::a_join_that_was_broken_off_does_not_finish_the_one_after_it,
    ),
    (
        "nodes that stood still",
        staying::nodes_that_all_stood_still_at_once_lose_no_copy,
    ),
    (
        "a start after a death",
        deaths::a_node_that_runs_again_is_not_removed_for_its_predecessor,
    ),
    (
        "two deaths",
        deaths::a_node_that_is_gone_stays_a_copy_where_writes_need_it,
    ),
    (
        "a suspended host",
        suspension::a_primary_whose_host_was_suspended_until_others_had_removed_it_leads_no_longer,
    ),
    (
        "a copy that starts again",
        staying::a_copy_that_starts_again_and_is_left_alone_waits_for_the_lease_that_it_forgot,
    ),
];

/// Returns the way in which `mutant` is found; `None` if it is not found.
fn hunt(mutant: Mutant) -> Option<String> {
    plant(Some(mutant));
    let story = STORIES.iter().find(|(_, story)| objects(story));
    let story = story.map(|(name, _)| format!("the story of {name}"));
    let found = story.or_else(|| {
        let seed = (0..SEEDS_MAX).find(|&seed| objects(|| _ = mishaps::run(seed)))?;
        Some(format!("mishaps, after {} seeds", seed + 1))
    });
    plant(None);
    found
}

#[test]
fn every_seeded_bug_of_membership_is_found() {
    let mutants = Mutant::ALL.iter().copied();
    let ours = mutants.filter(|mutant| PLACES.contains(&mutant.place()));
    let found: Vec<_> = quietly(|| ours.map(|mutant| (mutant, hunt(mutant))).collect());
    let objection = quietly(|| (0..SEEDS_MAX).find(|&seed| objects(|| _ = mishaps::run(seed))));
    for (mutant, how) in &found {
        let how = how.as_deref().unwrap_or("NOT FOUND");
        println!("{:<28} {how}", mutant.name());
    }
    assert!(found.iter().all(|(_, how)| how.is_some()));
    assert_eq!(objection, None, "a seed of the unchanged member");
}
