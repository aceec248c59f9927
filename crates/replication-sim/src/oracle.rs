//! The promises to clients, judged at each answer.

use std::collections::BTreeMap;

use stonecast_cluster::Term;
use stonecast_replication::Point;

use crate::clients::{Call, Told};
use crate::state::{Key, State, Word, Write};

/// Linearizability key by key, and each write at most once.
///
/// The history of a shard is the order of its points. Three checks therefore suffice: no call is answered with an
/// earlier point than any answer given before the call began, each point is one write, and each write has one point.
#[derive(Default)]
pub struct Oracle {
    told: BTreeMap<(u32, Key), Word>,
    points: BTreeMap<(u32, Point), Write>,
    places: BTreeMap<u64, Point>,
    /// The last term in which a primary answered, by shard.
    terms: BTreeMap<u32, Term>,
}

impl Oracle {
    /// The latest point of a key in any answer.
    pub fn told(&self, shard: u32, key: Key) -> Point {
        let told = self.told.get(&(shard, key));
        told.map(|word| word.point).unwrap_or_default()
    }

    /// Notes that a primary of `term` answers. No primary of a later term may have answered before.
    pub fn tells(&mut self, shard: u32, term: Term) {
        let last = self.terms.entry(shard).or_insert(term);
        assert!(
            term >= *last,
            "shard {shard}: term {term} tells something behind term {last}"
        );
        *last = term;
    }

    /// Notes that a write is done, whether its client still waits or not.
    pub fn written(&mut self, word: Word) {
        let place = *self.places.entry(word.write.number).or_insert(word.point);
        let number = word.write.number;
        assert_eq!(place, word.point, "write {number} was done twice");
    }

    /// Judges the answer to a client.
    pub fn answered(&mut self, call: &Call, told: Told) {
        let before = call.told_before;
        match told {
            Told::Done(word) => {
                let point = word.point;
                assert!(point > before, "{word:?} is acknowledged behind {before}");
                self.written(word);
                self.tell(call.shard, word);
            }
            Told::Saw(word) => {
                let saw = word.map(|word| word.point).unwrap_or_default();
                let key = call.key;
                assert!(
                    saw >= before,
                    "an answer of {saw} to key {key} comes behind {before}"
                );
                if let Some(word) = word {
                    self.tell(call.shard, word);
                }
            }
        }
    }

    fn tell(&mut self, shard: u32, word: Word) {
        let known = self.points.entry((shard, word.point));
        let known = *known.or_insert(word.write);
        assert_eq!(known, word.write, "two writes at {}", word.point);
        let told = self.told.entry((shard, word.write.key)).or_insert(word);
        if word.point > told.point {
            *told = word;
        }
    }

    /// Judges a primary that begins to serve with `state`: everything in the answers to clients is in `state`, or was
    /// overwritten.
    pub fn served(&self, shard: u32, state: &State) {
        let of_shard = self.told.iter().filter(|((told, _), _)| *told == shard);
        for ((_, key), told) in of_shard {
            let found = state.words.get(key);
            let same = found.is_some_and(|found| found.point > told.point || found == told);
            assert!(same, "{told:?} was told, and the heir has {found:?}");
        }
    }
}
