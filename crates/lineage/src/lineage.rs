//! The history of a shard: floor and cuts say which entries count.

use std::collections::BTreeMap;

use stonecast_base::mutant;

use crate::point::Point;
use crate::term::{Nonce, Term};

/// The history of a shard, as a copy keeps it durably: by it the copy judges every entry that it ever finds in its memory.
///
/// ```text
///   term 1     1  2  3  4  5 | 6  7           cut at 5: 6 and 7 are void everywhere
///   term 2                   | 6  8  9 | 10   cut at 9
///   term 4                             | 12  13   open
///              `-floor-'                       nothing at or below the floor is news
/// ```
///
/// A closed term that is not named has no entry that counts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lineage {
    /// The cluster whose shard it is. Terms of another cluster mean nothing here.
    pub nonce: Nonce,
    /// The open term: what a primary of this term stamps counts.
    pub term: Term,
    /// All up to here has been digested and is durable elsewhere.
    pub floor: Point,
    /// Of each closed term above the floor: the last version that counts.
    pub cuts: BTreeMap<Term, u64>,
}

/// Whether an entry counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Judgement {
    /// It counts.
    Counts,
    /// It lies at or below the floor: an old entry, or its bytes inside a value.
    Old,
    /// It lies above the cut of its term: no copy counts it.
    Void,
    /// It is of a term that this node has not entered.
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

    /// The last point that counts before the open term.
    pub fn end(&self) -> Point {
        let last = self.cuts.last_key_value();
        let end = last.map(|(&term, &version)| Point { term, version });
        end.unwrap_or_default().max(self.floor)
    }

    /// The history of an heir in its new term, as this copy keeps it. The heir knows nothing of what lies below its own floor. All that
    /// lies there has been on all copies, so their own cuts of those terms are right.
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
