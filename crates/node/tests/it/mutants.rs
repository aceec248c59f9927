//! Every seeded bug of nodes is found by its story, which finds nothing without the bug.

use std::panic::{AssertUnwindSafe, catch_unwind, set_hook, take_hook};

use stonecast_base::mutants::{Mutant, plant};

use crate::{heirs, restarts, writes};

/// The story that finds each.
const STORIES: [(Mutant, fn()); 3] = [
    (
        Mutant::LeaseNotAsked,
        heirs::a_primary_that_is_cut_off_answers_nothing,
    ),
    (
        Mutant::OwnCommitNotAwaited,
        writes::a_primary_answers_behind_its_own_commit,
    ),
    (
        Mutant::SentUnfollowed,
        restarts::nodes_that_were_killed_come_back,
    ),
];

#[test]
fn every_seeded_bug_of_nodes_is_found() {
    let objects = |story: fn()| catch_unwind(AssertUnwindSafe(story)).is_err();
    let ours = Mutant::ALL.iter().copied();
    let ours = ours.filter(|mutant| mutant.place() == "node");
    let hook = take_hook();
    set_hook(Box::new(|_| {}));
    let found: Vec<_> = ours
        .map(|mutant| {
            let story = STORIES.iter().find(|(found, _)| *found == mutant);
            let is_found = story.is_some_and(|&(_, story)| {
                plant(Some(mutant));
                let is_found = objects(story);
                plant(None);
                is_found && !objects(story)
            });
            (mutant, is_found)
        })
        .collect();
    set_hook(hook);
    for (mutant, is_found) in &found {
        let how = if *is_found {
            "found by its story"
        } else {
            "NOT FOUND"
        };
        println!("{:<28} {how}", mutant.name());
    }
    assert!(found.len() == STORIES.len() && found.iter().all(|(_, is_found)| *is_found));
}
