//! The answers that clients heard, and the check that they stay true.

use std::collections::BTreeMap;

use stonecast_cluster::Term;
use stonecast_replication::Point;

use super::store::{Call, Map, Word};

/// An answer to a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The write has this place.
    Done(Point),
    /// The key has this word.
    Saw(Option<Word>),
}

/// The answers that clients heard, and the calls that wait for one.
#[derive(Default)]
pub struct Oracle {
    /// The last attempt of each call that waits for an answer, with the newest word of its key that was told before the
    /// call.
    open: BTreeMap<u64, (Call, Option<Point>)>,
    /// The place of each write that was answered: shard, key, point.
    done: BTreeMap<u64, (u32, u8, Point)>,
    /// The newest point that was told of each key.
    told: BTreeMap<(u32, u8), Point>,
    /// Points at which keys were deleted, or may have been.
    deletes: BTreeMap<(u32, u8), Point>,
    /// The node that served each term.
    served: BTreeMap<(u32, Term), usize>,
    pub answers: u64,
    pub terms: u64,
}

impl Oracle {
    /// Notes that a client makes a call, or repeats one.
    pub fn calls(&mut self, call: Call) {
        let told = self.told.get(&(call.shard, call.key)).copied();
        self.open.insert(call.attempt, (call, told));
    }

    pub fn is_done(&self, number: u64) -> bool {
        self.done.contains_key(&number)
    }

    pub fn serves(&mut self, node: usize, shard: u32, term: Term) {
        self.terms += 1;
        let before = self.served.insert((shard, term), node);
        assert_eq!(before, None, "shard {shard} is served twice in term {term}");
    }

    pub fn stamped(&mut self, node: usize, call: Call, point: Point) {
        let served = self.served.get(&(call.shard, point.term));
        assert_eq!(served, Some(&node), "{point} is stamped by its primary");
        if call.deletes {
            self.deletes.insert((call.shard, call.key), point);
        }
    }

    pub fn answered(&mut self, call: &Call, answer: &Answer) {
        let Some((_, before)) = self.open.remove(&call.attempt) else {
            return;
        };
        self.answers += 1;
        let saw = match (*answer, call.number) {
            (Answer::Done(point), Some(number)) => {
                let place = (call.shard, call.key, point);
                let known = *self.done.entry(number).or_insert(place);
                assert_eq!(known, place, "write {number} has one place");
                Some(point)
            }
            (Answer::Saw(Some(word)), None) => Some(word.point),
            (Answer::Saw(None), None) => {
                let deleted = self.deletes.get(&(call.shard, call.key)).copied();
                // The read saw one of the deletes, and perhaps an earlier one.
                deleted
                    .and(before)
                    .filter(|before| deleted >= Some(*before))
            }
            other => unreachable!("{other:?}"),
        };
        if call.number.is_none() {
            assert!(
                saw >= before,
                "{call:?} saw {saw:?}, and {before:?} was told before"
            );
        }
        if let Some(saw) = saw {
            let told = self.told.entry((call.shard, call.key)).or_insert(saw);
            *told = saw.max(*told);
        }
    }

    /// Checks that every write that was answered is in the map of its shard, in its place.
    pub fn judge(&self, shard: u32, map: &Map, whose: &str) {
        for (number, (of, _, point)) in &self.done {
            if *of == shard {
                let found = map.done.get(number);
                assert_eq!(
                    found,
                    Some(point),
                    "{whose} has write {number} of shard {shard}"
                );
            }
        }
    }
}
