//! Stories of runs and of their falsified records.

use std::collections::BTreeSet;

use stonecast_replication_sim::{
    Claim, NODES, Outcome, Setup, Shown, Step, Told, Wish, Word, World,
};

use super::record::RunRecord;
use super::{judge, run, setup};
use crate::adjustment::Adjustment;
use crate::fault_names;
use crate::shrink::shrink;

/// Number of seeds in each story of many runs.
const SEEDS: u64 = 30;

/// Returns the broken promises of a sound run whose record `falsify` has changed.
fn judged(falsify: impl FnOnce(&mut Outcome)) -> Vec<&'static str> {
    let setup = Setup::new(1);
    let mut world = World::new(&setup);
    world.run();
    let mut outcome = world.into_outcome();
    falsify(&mut outcome);
    let record = RunRecord::of(&outcome, setup.keys.into());
    let violations = judge::judge(&outcome, &record, setup.clients, false);
    violations.iter().map(|found| found.oracle).collect()
}

/// Fails if a client takes the refusal of an earlier attempt for an answer, because a later attempt of that call may
/// write.
#[test]
fn whatever_befalls_the_nodes_no_promise_is_broken() {
    for seed in 0..SEEDS {
        let setup = setup(seed, &Adjustment::default());
        let report = run("replication", &setup, false);
        assert_eq!(report.violations, [], "seed {seed}");
    }
}

#[test]
fn a_second_leader_of_a_term_is_found() {
    let found = judged(|outcome| {
        let claim = outcome.claims[0];
        let node = (claim.node + 1) % NODES;
        outcome.claims.push(Claim { node, ..claim });
    });
    assert_eq!(found, ["a term has one primary"]);
}

#[test]
fn a_read_of_a_write_that_nobody_made_is_found() {
    let found = judged(|outcome| {
        let read = outcome.shown.iter_mut().rev().find_map(found_by_a_read);
        let word = read.expect("a client reads a key that is there");
        word.write.number += outcome.counts.calls;
    });
    assert_eq!(found, ["the history is linearizable"]);
}

/// Returns the word that a client read, if the key was present.
fn found_by_a_read(shown: &mut Shown) -> Option<&mut Word> {
    match &mut shown.step {
        Step::Answered(asked, Told::Saw(Some(word))) if asked.wish == Wish::Get => {
            word.write.present.then_some(word)
        }
        _ => None,
    }
}

#[test]
fn a_copy_without_the_last_write_is_found() {
    let found = judged(|outcome| {
        let (_, words) = outcome.copies[1].last_mut().expect("a copy is in sync");
        words.pop().expect("clients write to each shard");
    });
    assert_eq!(found, ["copies agree up to the commit horizon"]);
}

#[test]
fn a_shard_with_a_copy_too_few_is_found() {
    let found = judged(|outcome| _ = outcome.copies[0].pop());
    assert_eq!(found, ["redundancy is restored"]);
}

#[test]
fn clients_without_answers_after_healing_are_found() {
    let found = judged(|outcome| {
        let healed = |step: &Step| matches!(step, Step::Healed);
        let healed = outcome.shown.iter().position(|shown| healed(&shown.step));
        let healed = outcome.shown.remove(healed.expect("every run heals"));
        outcome.shown.push(healed);
    });
    assert_eq!(found, ["clients progress after healing"]);
}

/// A write demands four copies, and there are three nodes. No client is ever answered, so the world panics.
#[test]
fn a_panic_of_the_world_is_reported_with_the_run_that_led_to_it() {
    let setup = Setup {
        min_copies: NODES + 1,
        ..Setup::new(1)
    };
    let report = run("replication", &setup, false);
    let [violation] = &report.violations[..] else {
        panic!("{report:?}");
    };
    assert_eq!(violation.oracle, "the rules hold");
    let found = &violation.found;
    assert!(found.starts_with("nobody is answered any more"), "{found}");
    let healed = "nothing goes wrong from here on";
    let told = |what: &str| report.timeline.iter().any(|told| told.what == what);
    assert!(told(healed) && report.operations > 0, "{report:?}");
}

#[test]
fn a_fault_that_is_left_out_does_not_happen() {
    let hit = |adjustment: &Adjustment| {
        let reports = (0..SEEDS).map(|seed| run("replication", &setup(seed, adjustment), false));
        let hit = reports.flat_map(|report| report.faults_hit.into_keys());
        hit.collect::<BTreeSet<_>>()
    };
    let all = hit(&Adjustment::default());
    assert!(all.len() > 1, "{all:?}");
    for class in &all {
        assert!(fault_names().contains(class), "{class} cannot be typed");
        let without = Adjustment {
            without: [*class].into(),
            ..Adjustment::default()
        };
        assert!(!hit(&without).contains(class), "{class}");
    }
}

/// The canary demands one primary for the whole run.
#[test]
fn a_run_that_breaks_a_promise_is_made_small() {
    let canary = Adjustment {
        canary: true,
        ..Adjustment::default()
    };
    let again = |adjustment: &Adjustment| run("replication", &setup(1, adjustment), true);
    let report = again(&canary);
    assert_eq!(report.violations[0].oracle, "a term has one primary");
    let shrunk = shrink(&canary, &report, again);
    assert_eq!(shrunk.report, again(&shrunk.adjustment));
    let sizes = shrunk.report.sizes;
    assert_eq!((sizes.clients, sizes.keys), (1, 2), "{sizes:?}");
    assert!(sizes.operations < report.sizes.operations, "{sizes:?}");
    assert!(shrunk.report.faults_hit.is_empty(), "{shrunk:?}");
}
