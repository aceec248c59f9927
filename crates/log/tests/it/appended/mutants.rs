//! Every seeded bug of the log of appends is found by the histories, which find nothing without one.

use std::panic::{AssertUnwindSafe, catch_unwind, set_hook, take_hook};

use stonecast_base::mutants::{Mutant, plant};

use super::crash;

/// Seeds within which each of them must be found.
const SEEDS_MAX: u64 = 2_000;

#[test]
fn every_seeded_bug_of_the_log_of_appends_is_found() {
    let hook = take_hook();
    set_hook(Box::new(|_| {}));
    let objects = |seed: &u64| catch_unwind(AssertUnwindSafe(|| crash::run(*seed))).is_err();
    let mutants = Mutant::ALL.iter().copied();
    let ours = mutants.filter(|mutant| mutant.place() == "append-log");
    let found: Vec<_> = ours
        .map(|mutant| {
            plant(Some(mutant));
            let seed = (0..SEEDS_MAX).find(objects);
            plant(None);
            // The bug is what was found, and not the seed.
            (mutant, seed.filter(|seed| !objects(seed)))
        })
        .collect();
    set_hook(hook);
    for (mutant, seed) in &found {
        let how = seed.map_or("NOT FOUND".to_owned(), |seed| {
            format!("found by seed {seed}")
        });
        println!("{:<28} {how}", mutant.name());
    }
    assert!(found.len() >= 3 && found.iter().all(|(_, seed)| seed.is_some()));
}
