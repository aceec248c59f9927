//! Every seeded bug of membership is found by the stories, which find nothing without one.

use std::panic::{AssertUnwindSafe, catch_unwind, set_hook, take_hook};

use stonecast_base::mutants::{Mutant, plant};

use crate::{mishaps, staying};

/// Seeds within which each mutant must be found.
const SEEDS_MAX: u64 = 300;

/// The crates whose mutants are hunted here.
const PLACES: [&str; 2] = ["cluster", "member"];

/// Stories of what chance seldom brings about.
const STORIES: [(&str, fn()); 2] = [
    (
        "nodes that stood still",
        staying::nodes_that_all_stood_still_at_once_lose_no_copy,
    ),
    (
        "a copy that starts again",
        staying::a_copy_that_starts_again_and_is_left_alone_waits_for_the_lease_that_it_forgot,
    ),
];

/// How `mutant` is found; `None`: it is not.
fn hunt(mutant: Mutant) -> Option<String> {
    plant(Some(mutant));
    let objects = |run: &dyn Fn()| catch_unwind(AssertUnwindSafe(run)).is_err();
    let story = STORIES.iter().find(|(_, story)| objects(story));
    let story = story.map(|(name, _)| format!("the story of {name}"));
    let found = story.or_else(|| {
        let seed = (0..SEEDS_MAX).find(|&seed| objects(&|| _ = mishaps::run(seed)))?;
        plant(None);
        // The bug is what was found, and not the seed.
        let sound = !objects(&|| _ = mishaps::run(seed));
        sound.then(|| format!("mishaps, after {} seeds", seed + 1))
    });
    plant(None);
    found
}

#[test]
fn every_seeded_bug_of_membership_is_found() {
    let mutants = Mutant::ALL.iter().copied();
    let ours = mutants.filter(|mutant| PLACES.contains(&mutant.place()));
    let hook = take_hook();
    set_hook(Box::new(|_| {}));
    let found: Vec<_> = ours.map(|mutant| (mutant, hunt(mutant))).collect();
    set_hook(hook);
    for (mutant, how) in &found {
        let how = how.as_deref().unwrap_or("NOT FOUND");
        println!("{:<28} {how}", mutant.name());
    }
    assert!(found.iter().all(|(_, how)| how.is_some()));
}
