//! The hunt for the seeded bugs of one place: histories from seeds must find each, and nothing without one.

use std::panic::{AssertUnwindSafe, catch_unwind, set_hook, take_hook};

use stonecast_base::mutants::{Mutant, plant};

/// Seeds within which each of them must be found.
const SEEDS_MAX: u64 = 2_000;

/// Plants every bug of `place` in turn, and runs seeds until one of them panics. Returns the number of bugs.
///
/// # Panics
/// Where one of them is not found.
pub fn hunt(place: &str, run: impl Fn(u64)) -> usize {
    let hook = take_hook();
    set_hook(Box::new(|_| {}));
    let objects = |seed: &u64| catch_unwind(AssertUnwindSafe(|| run(*seed))).is_err();
    let mutants = Mutant::ALL.iter().copied();
    let ours = mutants.filter(|mutant| mutant.place() == place);
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
    assert!(found.iter().all(|(_, seed)| seed.is_some()));
    found.len()
}
