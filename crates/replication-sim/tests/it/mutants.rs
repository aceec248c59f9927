//! Every seeded bug of replication is found by the world, which finds nothing without one.

use std::panic::{AssertUnwindSafe, catch_unwind, set_hook, take_hook};

use stonecast_base::mutants::{Mutant, plant};

use crate::promises::run;

/// Seeds within which each mutant must be found.
const SEEDS_MAX: u64 = 10_000;
/// Seeds of the unchanged rules, in which nothing may be found.
const CONTROL_SEEDS: u64 = 300;

/// The seeds after which `mutant` is found; `None`: it is not.
fn hunt(mutant: Option<Mutant>, seeds: u64) -> Option<u64> {
    plant(mutant);
    let objects = |seed: &u64| catch_unwind(AssertUnwindSafe(|| _ = run(*seed))).is_err();
    let found = (0..seeds).find(objects);
    plant(None);
    // The bug is what was found, and not the seed.
    let sound = |seed: &u64| mutant.is_none() || !objects(seed);
    found.filter(sound).map(|seed| seed + 1)
}

#[test]
fn every_seeded_bug_of_replication_is_found() {
    let mutants = Mutant::ALL.iter().copied();
    let ours = mutants.filter(|mutant| mutant.place() == "replication");
    let hook = take_hook();
    set_hook(Box::new(|_| {}));
    let control = hunt(None, CONTROL_SEEDS);
    let mut all = true;
    for mutant in ours {
        let found = hunt(Some(mutant), SEEDS_MAX);
        let seeds = found.map_or("NOT FOUND".to_owned(), |seeds| format!("{seeds} seeds"));
        println!("{:<28} {seeds}", mutant.name());
        all &= found.is_some();
    }
    set_hook(hook);
    assert_eq!(control, None, "the unchanged rules break a promise");
    assert!(all, "a seeded bug was not found");
}
