//! The histories that say which entries in the log of appends count.

use std::collections::BTreeMap;

use stonecast_base::mutant;
use stonecast_lineage::{Judgement, Lineage, Point};

use super::entry::EntryFacts;

/// The histories of the shards of which this node keeps a copy.
///
/// A later history may make an entry count that was void: the heir that cut the entry off never served. That heir's
/// successor sends the entry again. A void entry is therefore not needed, and its bytes must not stay where they could
/// take the place of an arriving entry.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lineages {
    shards: BTreeMap<u32, Lineage>,
}

impl Lineages {
    /// The history of `shard`; `None`: the node keeps no copy of it.
    pub fn of(&self, shard: u32) -> Option<&Lineage> {
        self.shards.get(&shard)
    }

    /// Keeps `lineage` as the history of `shard`, in place of the earlier one. Floors rise and histories are adopted by
    /// the rules of replication, or the node drops its copy and begins again.
    pub fn keep(&mut self, shard: u32, lineage: Lineage) {
        let before = self.shards.insert(shard, lineage);
        if let Some(before) = before
            && mutant!(CutOfUnservedHeirStays)
        {
            let kept = self.shards.get_mut(&shard).expect("it was just inserted");
            for (term, version) in before.cuts {
                kept.cuts
                    .entry(term)
                    .and_modify(|cut| *cut = version.min(*cut));
            }
        }
    }

    /// All shards with their histories.
    pub fn iter(&self) -> impl Iterator<Item = (u32, &Lineage)> {
        self.shards.iter().map(|(&shard, lineage)| (shard, lineage))
    }

    /// Whether no entry of `shard` in the term of `newest`, up to that version, is needed. `newest` is the highest
    /// version of that term in a segment.
    pub fn settles(&self, shard: u32, newest: Point) -> bool {
        let lineage = self.of(shard);
        lineage.is_some_and(|lineage| lineage.settles(newest))
    }

    /// Whether an entry is news. The reader of the entries refuses those of a term or a shard that the node has not
    /// entered.
    pub(super) fn counts(&self, entry: &EntryFacts) -> bool {
        let judgement = self.judge(entry);
        matches!(judgement, Judgement::Counts | Judgement::Later) || mutant!(OldEntryCounts)
    }

    /// Whether an entry is news, or may be in a later history.
    pub(super) fn may_count(&self, entry: &EntryFacts) -> bool {
        self.judge(entry) != Judgement::Old
    }

    fn judge(&self, entry: &EntryFacts) -> Judgement {
        let Some(lineage) = self.of(entry.shard) else {
            return Judgement::Later;
        };
        match lineage.judge(entry.point()) {
            // A mark repeats the point before it, which may be the floor.
            Judgement::Old if entry.is_mark && entry.point() == lineage.floor => Judgement::Counts,
            judgement => judgement,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use stonecast_lineage::Epoch;

    fn entry(term: u64, version: u64) -> EntryFacts {
        EntryFacts {
            shard: 3,
            term: Epoch(term),
            version,
            is_mark: false,
            size: 64,
        }
    }

    fn lineages(cut: u64) -> Lineages {
        let mut lineages = Lineages::default();
        let lineage = Lineage {
            term: Epoch(4),
            floor: entry(2, 10).point(),
            cuts: BTreeMap::from([(Epoch(2), cut)]),
            ..Lineage::default()
        };
        lineages.keep(3, lineage);
        lineages
    }

    #[test]
    fn an_entry_is_news_above_the_floor_and_up_to_the_cut_and_the_reader_judges_those_of_later_terms()
     {
        let lineages = lineages(12);
        let is_news = [(2, 10), (2, 11), (2, 13), (3, 11), (4, 11), (5, 11)];
        let is_news = is_news.map(|(term, version)| lineages.counts(&entry(term, version)));
        assert_eq!(is_news, [false, true, false, false, true, true]);
        let unknown = EntryFacts {
            shard: 4,
            ..entry(1, 1)
        };
        assert!(lineages.counts(&unknown) && !lineages.settles(4, unknown.point()));
    }

    #[test]
    fn a_mark_counts_at_the_floor_whose_version_it_repeats_and_a_record_does_not() {
        let lineages = lineages(12);
        let mark = |term, version| EntryFacts {
            is_mark: true,
            ..entry(term, version)
        };
        assert!(lineages.counts(&mark(2, 10)) && !lineages.counts(&entry(2, 10)));
        assert!(!lineages.counts(&mark(2, 9)) && !lineages.counts(&mark(1, 10)));
    }

    #[test]
    fn an_entry_that_an_heir_cut_off_counts_in_the_history_of_the_next_heir_that_has_it() {
        let mut lineages = lineages(11);
        let revived = entry(2, 12);
        assert!(!lineages.counts(&revived) && lineages.may_count(&revived));
        lineages.keep(3, super::tests::lineages(12).of(3).unwrap().clone());
        assert!(lineages.counts(&revived));
    }
}
