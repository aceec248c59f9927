//! Hunts for seeded bugs. A hunt plants each bug in turn: a story or a seed must object to the bug, and must not object
//! without it.

use std::panic::{AssertUnwindSafe, catch_unwind, set_hook, take_hook};
use std::sync::{Mutex, PoisonError};

use crate::mutants::{Mutant, plant};

/// A process has one panic hook: one hunt at a time replaces it.
static HOOK: Mutex<()> = Mutex::new(());

/// Runs `hunt`, in which panics are findings and print nothing.
pub fn quietly<T>(hunt: impl FnOnce() -> T) -> T {
    let _one_at_a_time = HOOK.lock().unwrap_or_else(PoisonError::into_inner);
    let hook = take_hook();
    set_hook(Box::new(|_| {}));
    let found = hunt();
    set_hook(hook);
    found
}

/// Returns whether `run` panics.
pub fn objects(run: impl FnOnce()) -> bool {
    catch_unwind(AssertUnwindSafe(run)).is_err()
}

/// Plants each bug of `place`, and runs the story that `stories` names for the bug.
///
/// # Panics
/// If a story does not object to its bug or objects without the bug, or if `stories` does not name each bug of `place`
/// once.
pub fn by_stories(place: &str, stories: &[(Mutant, fn())]) {
    let found = hunt(place, |mutant| {
        let (_, story) = stories.iter().find(|(of, _)| *of == mutant)?;
        plant(Some(mutant));
        let is_found = objects(story);
        plant(None);
        (is_found && !objects(story)).then(|| "found by its story".to_owned())
    });
    assert_eq!(found, stories.len(), "bugs of {place} and stories");
}

/// A story that says whether a promise is kept.
pub type Promise = fn() -> bool;

/// Plants each bug, whatever its place, and asks its story whether a promise is kept: a control of the story. A story
/// that panics has no answer, so an internal check or a failed step of the story is no finding.
///
/// # Panics
/// If a story keeps its promise with its bug, or does not without the bug.
pub fn by_promises(stories: &[(Mutant, Promise)]) {
    let kept = |mutant: Option<Mutant>, story: Promise| {
        plant(mutant);
        let kept = catch_unwind(story);
        plant(None);
        kept.ok()
    };
    let answers = quietly(|| {
        let stories = stories.iter();
        let answers =
            stories.map(|&(mutant, story)| [kept(Some(mutant), story), kept(None, story)]);
        answers.collect::<Vec<_>>()
    });
    let mut missed = Vec::new();
    for ((mutant, _), [with, without]) in stories.iter().zip(answers) {
        let name = mutant.name();
        println!("{name:<28} kept {with:?}, without the bug {without:?}");
        if (with, without) != (Some(false), Some(true)) {
            missed.push(name);
        }
    }
    assert!(missed.is_empty(), "controls that show nothing: {missed:?}");
}

/// Plants each bug of `place`, and runs seeds below `seeds_max` until one of them objects. Returns the number of bugs.
///
/// # Panics
/// If a bug is not found, or if the seed that objects to a bug also objects without the bug.
pub fn by_seeds(place: &str, seeds_max: u64, run: impl Fn(u64)) -> usize {
    hunt(place, |mutant| {
        plant(Some(mutant));
        let seed = (0..seeds_max).find(|&seed| objects(|| run(seed)));
        plant(None);
        // A seed that fails without the bug has found something else.
        let seed = seed.filter(|&seed| !objects(|| run(seed)))?;
        Some(format!("found after {} seeds", seed + 1))
    })
}

/// Hunts each bug of `place` and prints the way in which the bug was found. Returns the number of bugs.
fn hunt(place: &str, find: impl Fn(Mutant) -> Option<String>) -> usize {
    let ours = Mutant::ALL.iter().copied();
    let ours = ours.filter(|mutant| mutant.place() == place);
    let found: Vec<_> = quietly(|| ours.map(|mutant| (mutant, find(mutant))).collect());
    for (mutant, how) in &found {
        println!(
            "{:<28} {}",
            mutant.name(),
            how.as_deref().unwrap_or("NOT FOUND")
        );
    }
    let missed = found.iter().filter(|(_, how)| how.is_none()).count();
    assert_eq!(missed, 0, "bugs of {place} that were not found");
    found.len()
}
