//! Stories of the register: right and wrong histories, and the search against a trial of every order.

use rand::RngExt as _;

use super::*;
use crate::history::{Moment, NEVER};
use crate::linearizability::STATES_MAX;

/// An operation: (call, called, answer, answered).
type Told = (Call, Moment, Option<Answer>, Moment);

fn judged(told: &[Told], finally: Option<u32>) -> bool {
    let operations: Vec<Operation> = told
        .iter()
        .map(|&(call, called, answer, answered)| Operation {
            client: 0,
            node: Some(0),
            part: 0,
            call,
            called,
            answer,
            answered,
        })
        .collect();
    let verdict = check(operations.iter(), finally.map(ValueId), STATES_MAX);
    assert_ne!(verdict, Verdict::Undecided);
    verdict == Verdict::Linearizable
}

fn put(value: u32) -> Call {
    Call::Put(ValueId(value))
}

fn stored(version: u64) -> Option<Answer> {
    Some(Answer::Stored(version))
}

fn conflict(present: Option<u64>) -> Option<Answer> {
    Some(Answer::Conflict(present))
}

fn removed(was_there: bool) -> Option<Answer> {
    Some(Answer::Removed(was_there))
}

fn got(value: u32, version: u64) -> Option<Answer> {
    Some(Answer::Got(
        (value != 0).then_some((ValueId(value), version)),
    ))
}

#[test]
fn a_read_sees_the_latest_write_or_one_under_way() {
    let first = (put(1), 1, stored(1), 2);
    assert!(judged(&[first, (Call::Get, 3, got(1, 1), 4)], None));
    assert!(
        !judged(&[first, (Call::Get, 3, got(0, 0), 4)], None),
        "the write is forgotten"
    );
    let second = (put(2), 3, stored(2), 6);
    assert!(judged(
        &[
            first,
            second,
            (Call::Get, 4, got(1, 1), 5),
            (Call::Get, 7, got(2, 2), 8)
        ],
        None
    ));
    let read_new = (Call::Get, 4, got(2, 2), 5);
    assert!(judged(&[first, second, read_new], None));
    assert!(
        !judged(
            &[first, second, read_new, (Call::Get, 6, got(1, 1), 7)],
            None
        ),
        "time runs backwards"
    );
}

#[test]
fn an_operation_without_an_answer_may_be_done_or_not_but_not_undone() {
    let (first, lost) = ((put(1), 1, stored(1), 2), (put(2), 3, None, NEVER));
    assert!(judged(&[first, lost], Some(1)) && judged(&[first, lost], Some(2)));
    let seen = (Call::Get, 4, got(2, 2), 5);
    assert!(judged(&[first, lost, seen], Some(2)));
    assert!(
        !judged(&[first, lost, seen], Some(1)),
        "a value that was read is gone"
    );
}

/// Fails without `latest`: a write that a crash cut off can still be done after the crash.
#[test]
fn an_operation_that_a_crash_cut_off_is_not_done_after_the_crash() {
    let (first, cut_off) = ((put(1), 1, stored(1), 2), (put(2), 3, None, 4));
    let after = (Call::Get, 5, got(1, 1), 6);
    assert!(judged(&[first, cut_off, after], Some(1)));
    assert!(
        !judged(&[first, cut_off, after], Some(2)),
        "it comes back from the dead"
    );
}

/// Fails without the count of the versions of a value: a write that is repeated with its token is one write.
#[test]
fn a_write_that_took_effect_twice_is_found_by_its_versions() {
    let once = (put(1), 1, stored(5), 4);
    assert!(judged(&[once, (Call::Get, 5, got(1, 5), 6)], None));
    assert!(!judged(&[once, (Call::Get, 5, got(1, 7), 6)], None));
    assert!(judged(
        &[
            (put(1), 1, None, NEVER),
            (put(1), 2, stored(7), 4),
            (Call::Get, 3, got(1, 5), 6)
        ],
        None
    ));
}

/// Fails without the mention of a value by an answer that tells no version: the write has no value that could be read.
#[test]
fn answers_without_versions_are_judged_by_their_values() {
    let saw = |value| Some(Answer::Saw(ValueId(value)));
    let (first, second) = (
        (put(1), 1, Some(Answer::Wrote), 2),
        (put(2), 3, Some(Answer::Wrote), 4),
    );
    assert!(judged(&[first, second, (Call::Get, 5, saw(2), 6)], Some(2)));
    let third = (put(3), 7, Some(Answer::Wrote), 8);
    let read = (Call::Get, 5, saw(2), 6);
    assert!(judged(&[first, second, read, third], Some(3)));
    for stale in [0, 1] {
        let read = (Call::Get, 5, saw(stale), 6);
        assert!(!judged(&[first, second, read], Some(2)), "{stale} is stale");
    }
    assert!(!judged(&[first, second], Some(1)), "the write is lost");
    let unknown = (put(4), 5, None, NEVER);
    assert!(judged(
        &[first, unknown, (Call::Get, 6, saw(4), 7)],
        Some(4)
    ));
    let as_if_absent = |called| {
        let call = Call::PutIf(ValueId(4), Expected::Absent);
        (call, called, Some(Answer::Wrote), called + 1)
    };
    assert!(
        !judged(&[first, as_if_absent(3)], Some(4)),
        "the key is there"
    );
    let delete = (Call::Delete, 3, removed(true), 4);
    assert!(judged(&[first, delete, as_if_absent(5)], Some(4)));
}

/// Fails without the comparison of the values of a version: each value looks right in its place.
#[test]
fn a_version_of_two_values_is_found() {
    assert!(judged(
        &[(put(1), 1, stored(5), 2), (put(2), 3, stored(6), 4)],
        None
    ));
    assert!(!judged(
        &[(put(1), 1, stored(5), 2), (put(2), 3, stored(5), 4)],
        None
    ));
}

#[test]
fn conditions_are_judged_by_the_value_at_their_moment() {
    let first = (put(1), 1, stored(5), 2);
    let swap = |expected, answer, called| {
        (
            Call::PutIf(ValueId(2), expected),
            called,
            answer,
            called + 1,
        )
    };
    assert!(judged(
        &[first, swap(Expected::Version(5), stored(6), 3)],
        Some(2)
    ));
    assert!(judged(
        &[first, swap(Expected::Absent, conflict(Some(5)), 3)],
        Some(1)
    ));
    assert!(!judged(
        &[first, swap(Expected::Absent, stored(6), 3)],
        Some(2)
    ));
    assert!(!judged(
        &[first, swap(Expected::Version(5), conflict(Some(5)), 3)],
        Some(1)
    ));
    let gone = (Call::Delete, 3, removed(true), 4);
    assert!(judged(
        &[first, gone, swap(Expected::Absent, stored(7), 5)],
        Some(2)
    ));
    assert!(!judged(
        &[first, (Call::Delete, 3, removed(false), 4)],
        None
    ));
    assert!(judged(
        &[first, (Call::Delete, 3, Some(Answer::Refused), 4)],
        Some(1)
    ));
}

/// Compares the search with a trial of every order of a few operations.
#[test]
fn the_search_agrees_with_trying_all_orders() {
    let mut random = stonecast_base::random_from_seed(11);
    let mut yes = 0;
    for _ in 0..20_000 {
        let count = random.random_range(1..7);
        let mut moments: Vec<Moment> = (1..=2 * count as u64).collect();
        use stonecast_base::SliceExt as _;
        moments.shuffle(&mut random);
        let mut told: Vec<Told> = (0..count)
            .map(|index| {
                let (one, other) = (moments[2 * index], moments[2 * index + 1]);
                let (called, answered) = (one.min(other), one.max(other));
                let value = index as u32 + 1;
                match random.random_range(0..8) {
                    5 => (
                        Call::PutIf(ValueId(9), Expected::Absent),
                        called,
                        conflict(None),
                        answered,
                    ),
                    0 => (Call::Delete, called, removed(random.random()), answered),
                    1 | 2 => (
                        put(value),
                        called,
                        stored(random.random_range(0..3) * 10 + u64::from(value)),
                        answered,
                    ),
                    3 => (
                        put(value),
                        called,
                        None,
                        if random.random() { NEVER } else { answered },
                    ),
                    6 => (
                        Call::Delete,
                        called,
                        None,
                        if random.random() { NEVER } else { answered },
                    ),
                    _ => (Call::Get, called, got(0, 0), answered),
                }
            })
            .collect();
        told.sort_by_key(|told| told.1);
        // Reads return the value of some write, with its version.
        let written: Vec<Option<Answer>> = told
            .iter()
            .filter_map(|told| match told.0 {
                Call::Put(value) => Some((value, told.2)),
                _ => None,
            })
            .map(|(value, answer)| match answer {
                Some(Answer::Stored(version)) => got(value.0, version),
                _ => got(value.0, 100 + u64::from(value.0)),
            })
            .collect();
        for told in told.iter_mut().filter(|told| told.2 == got(0, 0)) {
            if !written.is_empty() && random.random_bool(0.8) {
                told.2 = written[random.random_range(0..written.len())];
            }
        }
        let finally = random
            .random_bool(0.5)
            .then(|| random.random_range(0..count as u32 + 1));
        let expected = naive(&told, finally, &mut vec![false; count], (0, 0), 0);
        yes += u32::from(expected);
        assert_eq!(
            judged(&told, finally),
            expected,
            "{told:?}, finally {finally:?}"
        );
    }
    assert!(
        (2000..18_000).contains(&yes),
        "both answers are tried: {yes} of 20000"
    );
}

/// Tries every order.
fn naive(
    told: &[Told],
    finally: Option<u32>,
    done: &mut Vec<bool>,
    (value, version): (u32, u64),
    latest: Moment,
) -> bool {
    let open = |index: usize, done: &[bool]| !done[index] && told[index].2.is_some();
    if (0..told.len()).all(|index| !open(index, done))
        && finally.is_none_or(|finally| finally == value)
    {
        return true;
    }
    (0..told.len()).any(|index| {
        let (call, called, answer, answered) = told[index];
        let overtakes = (0..told.len()).any(|other| open(other, done) && told[other].3 < called);
        if done[index] || overtakes || answer.is_none() && answered < latest {
            return false;
        }
        let next = match (call, answer) {
            (Call::Get, Some(Answer::Got(found))) => {
                (found.map_or(0, |(value, _)| value.0) == value).then_some(value)
            }
            (Call::Put(new), _) => Some(new.0),
            (Call::PutIf(..), _) => (value != 0).then_some(value),
            (Call::Delete, Some(Answer::Removed(there))) => (there == (value != 0)).then_some(0),
            (Call::Delete, None) => Some(0),
            _ => None,
        };
        let read = |told: &Told| match (call, told.2) {
            (Call::Put(value), Some(Answer::Got(Some((read, version))))) if read == value => {
                Some(version)
            }
            _ => None,
        };
        let made = match answer {
            Some(Answer::Stored(made)) => made,
            None => told.iter().find_map(read).unwrap_or(version),
            _ => version,
        };
        let Some(next) = next.filter(|_| made >= version) else {
            return false;
        };
        done[index] = true;
        let found = naive(told, finally, done, (next, made), latest.max(called));
        done[index] = false;
        found
    })
}

/// Fails without any one of the three rules that merge equivalent cases: the search does not end.
#[test]
fn many_operations_without_an_answer_are_judged() {
    let mut told: Vec<Told> = Vec::new();
    for round in 0..8u64 {
        let at = round * 1000;
        for index in 0..40 {
            let call = if index % 2 == 0 {
                Call::Delete
            } else {
                put((round * 100 + index) as u32 + 1000)
            };
            told.push((call, at + index, None, at + 999));
        }
        for index in 0..12 {
            told.push((
                put(index + 1),
                at + 100,
                stored(round * 100 + u64::from(index) + 1),
                at + 900,
            ));
        }
        told.push((Call::Delete, at + 950, removed(round % 2 == 0), at + 960));
    }
    told.iter_mut()
        .filter(|told| matches!(told.2, Some(Answer::Stored(_))))
        .zip(1..)
        .for_each(|(told, value)| told.0 = put(value));
    assert!(judged(&told, None));
    // The one stale read at the end must be found, however many operations might explain that read.
    told.push((Call::Get, 9000, got(3, 3), 9001));
    assert!(!judged(&told, None));
}

#[test]
fn ten_thousand_operations_of_one_key_are_judged() {
    let mut random = stonecast_base::random_from_seed(5);
    let mut told: Vec<Told> = Vec::new();
    let mut value = 0;
    for index in 0..10_000u64 {
        // Each operation takes effect at its own moment; calls and answers reach up to eight operations to either side.
        let at = index * 100;
        let (called, answered) = (
            at.saturating_sub(random.random_range(0..800)),
            at + random.random_range(1..800),
        );
        if random.random_bool(0.5) {
            value = index as u32 + 1;
            let unknown = index % 500 == 0;
            told.push((
                put(value),
                called,
                if unknown { None } else { stored(index + 1) },
                answered,
            ));
        } else {
            told.push((Call::Get, called, got(value, u64::from(value)), answered));
        }
    }
    told.sort_by_key(|told| told.1);
    assert!(judged(&told, None));
    let early = told
        .iter()
        .find(|told| matches!(told.2, Some(Answer::Got(Some(_)))))
        .unwrap()
        .2;
    let late = told
        .iter()
        .rposition(|told| matches!(told.2, Some(Answer::Got(Some(_)))))
        .unwrap();
    told[late].2 = early;
    assert!(
        !judged(&told, None),
        "one stale read among ten thousand is found"
    );
}
