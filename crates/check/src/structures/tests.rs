//! Stories of data structures.

use super::ledger::Entry;
use super::model::{Answer, Call};
use super::subject::Structures;
use super::{Setup, run};
use crate::adjustment::Adjustment;
use crate::linearizability::STATES_MAX;
use crate::values::ValueId;

/// Seeds of the story.
const SEEDS: u64 = 24;

#[test]
fn structures_survive_every_mishap_that_a_seed_draws_and_a_seed_means_the_same_run() {
    let (mut states, mut cuts, mut delays) = (0, 0, 0);
    for seed in 0..SEEDS {
        let report = run("structures", &Setup::drawn(seed));
        assert_eq!(report.violations, [], "seed {seed}");
        if seed < 4 {
            assert_eq!(
                report,
                run("structures", &Setup::drawn(seed)),
                "seed {seed}"
            );
        }
        states += report.crash_states;
        cuts += report.course.get("partitions").copied().unwrap_or(0);
        delays += report.faults_hit.get("partition").copied().unwrap_or(0);
    }
    assert!(states > 500, "{states} states");
    assert!(
        cuts > 3 && delays > 3,
        "{cuts} partitions, {delays} messages met one"
    );
}

/// Needs the crash states: the back-end takes visible words for durable.
#[test]
fn updates_that_were_only_visible_are_lost_in_power_cuts() {
    let mistaken = |seed| {
        let mut setup = Setup::drawn(seed);
        setup.adjust(&Adjustment {
            canary: true,
            ..Adjustment::default()
        });
        run("structures", &setup)
    };
    let found = (0..SEEDS).any(|seed| !mistaken(seed).violations.is_empty());
    assert!(found);
}

/// Needs the verdict of a search that has met its bound.
#[test]
fn a_history_whose_order_is_not_found_breaks_a_promise() {
    let subject = Structures::new(Setup::drawn(0));
    let id = subject.testimony.call(0, None, 0, Call::Insert(ValueId(1)));
    subject.testimony.answer(id, Some(Answer::Existed(false)));
    assert!(subject.judge_history(STATES_MAX).is_ok());
    let violation = subject.judge_history(0).unwrap_err();
    assert_eq!(violation.found, "part 0: undecided after 0 states");
}

/// Needs the ledger: an update whose answer was lost may take effect at any time, for the history alone.
#[test]
fn a_reader_sees_what_counts_of_a_tenure_that_is_over_and_nothing_else() {
    for (counted, seen, is_sound) in [
        (0, ValueId::ABSENT, true),
        (0, ValueId(1), false),
        (1, ValueId(1), true),
    ] {
        let subject = Structures::new(Setup::drawn(0));
        let testimony = &subject.testimony;
        let call = Call::Insert(ValueId(1));
        let id = testimony.call(0, None, 0, call.clone());
        let entry = Entry {
            token: 0,
            effects: vec![(0, call, Answer::Existed(false))],
            ids: vec![id],
        };
        subject.judge(|ledger| ledger.begin(1, 0));
        subject.judge(|ledger| ledger.stage(1, 1, entry));
        subject.judge(|ledger| ledger.begin(2, counted));
        // The next tenure has removed the value, if it was there.
        let id = testimony.call(1, None, 0, Call::Look);
        testimony.answer(id, Some(Answer::Value(seen)));
        let call = Call::Remove;
        let removed = Answer::Existed(counted == 1);
        let id = testimony.call(1, None, 0, call.clone());
        let entry = Entry {
            token: 0,
            effects: vec![(0, call, removed.clone())],
            ids: vec![id],
        };
        subject.judge(|ledger| ledger.stage(2, counted + 1, entry));
        testimony.answer(id, Some(removed));
        let judged = subject.judge_history(STATES_MAX);
        assert_eq!(judged.is_ok(), is_sound, "{counted} {seen:?}: {judged:?}");
    }
}
