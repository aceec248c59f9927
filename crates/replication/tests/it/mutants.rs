//! Every seeded bug of replication is found by the stories, which find nothing without one.

use std::panic::{AssertUnwindSafe, catch_unwind, set_hook, take_hook};

use stonecast_base::mutants::{Mutant, plant};

use crate::{entries, world};

/// Seeds within which each mutant must be found.
const SEEDS_MAX: u64 = 10_000;

/// Stories of entries.
const STORIES: [(&str, fn()); 2] = [
    (
        "another pool",
        entries::an_entry_for_another_pool_is_no_entry_here,
    ),
    (
        "a torn body",
        entries::an_entry_whose_body_a_crash_has_torn_names_both_digests,
    ),
];

/// How `mutant` is found; `None`: it is not.
fn hunt(mutant: Mutant) -> Option<String> {
    plant(Some(mutant));
    let objects = |run: &dyn Fn()| catch_unwind(AssertUnwindSafe(run)).is_err();
    let story = STORIES.iter().find(|(_, story)| objects(story));
    let story = story.map(|(name, _)| format!("the story of {name}"));
    let found = story.or_else(|| {
        let seed = (0..SEEDS_MAX).find(|&seed| objects(&|| _ = world::run(seed)))?;
        plant(None);
        // The bug is what was found, and not the seed.
        let sound = !objects(&|| _ = world::run(seed));
        sound.then(|| format!("the world, after {} seeds", seed + 1))
    });
    plant(None);
    found
}

#[test]
fn every_seeded_bug_of_replication_is_found() {
    let mutants = Mutant::ALL.iter().copied();
    let ours = mutants.filter(|mutant| mutant.place() == "replication");
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
