//! The history of a shard: floor and cuts say which entries count.

use std::collections::BTreeMap;

use stonecast_base::mutant;

use crate::point::Point;
use crate::term::{Nonce, Term};

/// The history of a shard, as a copy keeps it durably. The copy judges every entry in its memory by this history.
///
/// ```text
///   term 1     1  2  3  4  5 | 6  7           cut at 5: 6 and 7 are void everywhere
///   term 2                   | 6  8  9 | 10   cut at 9
///   term 4                             | 12  13   open
///              `-floor-'                       nothing at or below the floor is news
/// ```
///
/// A closed term without a cut here has no entry that counts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lineage {
    /// The cluster that the shard belongs to. Terms of another cluster mean nothing here.
    pub nonce: Nonce,
    /// The open term: all entries that the primary of this term stamps count.
    pub term: Term,
    /// Everything up to this point has been digested and is durable elsewhere.
    pub floor: Point,
    /// The last version that counts, for each closed term above the floor.
    pub cuts: BTreeMap<Term, u64>,
}

/// Whether an entry counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Judgement {
    /// The entry counts.
    Counts,
    /// The entry lies at or below the floor: it is old, or its bytes lie inside a value.
    Old,
    /// The entry lies above the cut of its term, and counts on no copy.
    Void,
    /// The entry belongs to a term that this node has not entered.
    Later,
}

impl Lineage {
    /// The history of a shard of the cluster `nonce` in which nothing was ever written.
    pub fn new(nonce: Nonce) -> Self {
        Self {
            nonce,
            ..Self::default()
        }
    }

    /// Judges the entry at `point`.
    pub fn judge(&self, point: Point) -> Judgement {
        if point <= self.floor {
            return Judgement::Old;
        }
        if point.term >= self.term {
            return match point.term == self.term {
                true => Judgement::Counts,
                false => Judgement::Later,
            };
        }
        let kept = self.cuts.get(&point.term);
        if kept.is_some_and(|&last| point.version <= last) || mutant!(SuffixKept) {
            return Judgement::Counts;
        }
        Judgement::Void
    }

    /// Whether no entry of the term of `newest`, up to its version, is needed: each of them is old or void, and no
    /// entry of that term above the floor counts.
    ///
    /// A later history may make a void entry count. The heir of that history sends the entry again, so the void one is
    /// not needed.
    pub fn settles(&self, newest: Point) -> bool {
        match self.judge(newest) {
            Judgement::Old => true,
            Judgement::Counts | Judgement::Later => false,
            Judgement::Void => self.cuts.get(&newest.term).is_none_or(|&version| {
                let term = newest.term;
                Point { term, version } <= self.floor
            }),
        }
    }

    /// The last version of `term` that counts or is old; 0: none. `term` is closed, and not below the floor's term.
    pub fn last_of(&self, term: Term) -> u64 {
        let cut = self.cuts.get(&term).copied().unwrap_or(0);
        match term == self.floor.term {
            true => cut.max(self.floor.version),
            false => cut,
        }
    }

    /// The last point that counts in the terms before `term`, or the floor, if the floor is later. The first entry of
    /// `term` was stamped behind this point.
    pub fn before(&self, term: Term) -> Point {
        let last = self.cuts.range(..term).next_back();
        let last = last.map(|(&term, &version)| Point { term, version });
        last.unwrap_or_default().max(self.floor)
    }

    /// The history of a shard that the node has dropped: no entry up to the open term counts or is needed.
    pub fn dropped(&self) -> Self {
        let (term, version) = (self.term, u64::MAX);
        Self {
            floor: Point { term, version },
            cuts: BTreeMap::new(),
            ..*self
        }
    }

    /// Whether this is the history of a shard that the node [has dropped](Self::dropped).
    pub fn is_dropped(&self) -> bool {
        self.floor.version == u64::MAX
    }

    /// The last point that counts before the open term.
    pub fn end(&self) -> Point {
        let last = self.cuts.last_key_value();
        let end = last.map(|(&term, &version)| Point { term, version });
        end.unwrap_or_default().max(self.floor)
    }

    /// The history of an heir in its new term, as this copy keeps it. The heir knows nothing of the entries below its
    /// own floor. Those entries have been on all copies, so each copy's own cuts of their terms are right.
    pub fn adopted(&self, heir: &Self) -> Self {
        let below = self.cuts.range(..heir.floor.term);
        let mut cuts: BTreeMap<_, _> = below.map(|(&term, &last)| (term, last)).collect();
        if heir.floor > self.floor {
            cuts.insert(heir.floor.term, heir.floor.version);
        }
        cuts.extend(&heir.cuts);
        Self {
            term: heir.term,
            cuts,
            ..*self
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::term::Epoch;

    fn at(term: u64, version: u64) -> Point {
        let term = Epoch(term);
        Point { term, version }
    }

    /// Term 1 is cut at 12, term 2 has no entry that counts, term 3 is cut at 15, and term 6 is open.
    fn lineage(floor: Point) -> Lineage {
        Lineage {
            term: Epoch(6),
            floor,
            cuts: BTreeMap::from([(Epoch(1), 12), (Epoch(3), 15)]),
            ..Lineage::default()
        }
    }

    #[test]
    fn an_entry_counts_above_the_floor_up_to_the_cut_of_its_own_term_and_in_the_open_one() {
        let lineage = lineage(at(1, 10));
        let last = |term| {
            (0..40)
                .filter(|&v| lineage.judge(at(term, v)) == Judgement::Counts)
                .max()
        };
        assert_eq!(
            [1, 2, 3, 4, 6, 7].map(last),
            [Some(12), None, Some(15), None, Some(39), None]
        );
        assert_eq!(lineage.judge(at(1, 10)), Judgement::Old);
        assert_eq!(lineage.judge(at(7, 11)), Judgement::Later);
    }

    /// Needs the comparison with the cut: a void entry would hold its segment until a later term has an entry.
    #[test]
    fn an_entry_above_a_cut_is_settled_with_the_last_one_that_counts() {
        let before = lineage(at(1, 11));
        assert!(before.settles(at(1, 11)) && !before.settles(at(1, 12)));
        assert!(!before.settles(at(1, 20)), "12 counts");
        assert!(before.settles(at(2, 30)), "nothing of the term counts");
        assert!(!before.settles(at(6, 1)) && !before.settles(at(7, 1)));
        let after = lineage(at(1, 12));
        assert!(after.settles(at(1, 20)) && !after.settles(at(3, 13)));
    }

    #[test]
    fn a_term_begins_behind_the_last_term_before_it_that_has_an_entry_or_behind_the_floor() {
        let lineage = lineage(at(1, 10));
        let begins = [1, 2, 3, 4, 6].map(|term| lineage.before(Epoch(term)));
        assert_eq!(
            begins,
            [at(1, 10), at(1, 12), at(1, 12), at(3, 15), at(3, 15)]
        );
        assert_eq!(super::tests::lineage(at(4, 3)).before(Epoch(6)), at(4, 3));
    }

    #[test]
    fn a_shard_that_is_gone_needs_nothing_up_to_its_open_term() {
        let dropped = lineage(at(1, 10)).dropped();
        assert!(
            [at(1, 11), at(3, 15), at(6, 90)]
                .into_iter()
                .all(|point| dropped.settles(point))
        );
        assert_eq!(dropped.judge(at(7, 1)), Judgement::Later);
    }
}
