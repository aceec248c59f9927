//! The meaning of a log's versions, beyond the records that have them.

use std::collections::BTreeMap;

use stonecast_base::mutant;
use stonecast_lineage::{Lineage, Point, Term};

/// The meaning of the versions that a node has stamped.
///
/// A range is kept by its first version, and includes its last version.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Versions {
    settled: u64,
    /// Versions without a record that counts, in any shard.
    skipped: BTreeMap<u64, u64>,
    /// For each shard, the terms in which the node led, by the last version that the counter had given before.
    led: BTreeMap<u32, BTreeMap<u64, Term>>,
    /// For each shard, the versions whose records an heir has cut off: those records are void.
    void: BTreeMap<u32, BTreeMap<u64, u64>>,
    /// For each dropped shard, the version that the counter gave to the last drop.
    dropped: BTreeMap<u32, u64>,
}

/// The verdict on a record that a node stamped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OwnVerdict {
    /// The record counts, with or without other records.
    Counts,
    /// The history decides.
    Open,
    /// The record never counts.
    Void,
}

/// One line of a ledger.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum VersionRow {
    Settled { version: u64 },
    Skipped { first: u64, last: u64 },
    Led { shard: u32, term: Term, given: u64 },
    Void { shard: u32, first: u64, last: u64 },
    Dropped { shard: u32, version: u64 },
}

impl Versions {
    /// The version up to which every own record is settled: at or below the floor of its shard, or void.
    pub fn settled(&self) -> u64 {
        self.settled
    }

    /// Notes that everything up to `version` is settled. A lower version than before changes nothing.
    pub fn settle(&mut self, version: u64) {
        self.settled = self.settled.max(version);
        let settled = self.settled;
        for terms in self.led.values_mut() {
            // The records above the settled version may be of the last term that began at or below it.
            let current = terms.range(..=settled).next_back().map(|(&given, _)| given);
            terms.retain(|&given, _| current.is_none_or(|current| given >= current));
        }
    }

    /// Notes that the node leads `shard` in `term`, and that the counter has given the versions up to `given`.
    ///
    /// # Panics
    /// If the node has led the shard in this term or a later one, or in a term that began behind this version.
    pub fn lead(&mut self, shard: u32, term: Term, given: u64) {
        let terms = self.led.entry(shard).or_default();
        let before = terms.last_key_value();
        assert!(
            before.is_none_or(|(&began, &led)| led < term && began <= given),
            "term {term} of shard {shard} behind version {given} does not follow {before:?}"
        );
        terms.insert(given, term);
    }

    /// Skips the versions from `first` to `last` in all shards. A record with one of these versions never counts.
    pub fn skip(&mut self, first: u64, last: u64) {
        add_range(&mut self.skipped, first, last);
    }

    /// Drops the versions from `first` to `last` from those that are skipped. The caller has skipped them, and the
    /// counter never gave any of them: no record can have one. A range above the settled version stays, since its
    /// versions would be missing.
    pub fn forget_skipped(&mut self, first: u64, last: u64) {
        let Some((start, end)) = self.skipped_at(first) else {
            return;
        };
        if last > self.settled || last > end {
            return;
        }
        self.skipped.remove(&start);
        if start < first {
            self.skipped.insert(start, first - 1);
        }
        if last < end {
            self.skipped.insert(last + 1, end);
        }
    }

    /// Makes own records of `shard` that lie above a cut of `lineage` void for good: if a later heir has one of them,
    /// the heir sends its entry. The node has stamped none of them with a version above `given`.
    pub(crate) fn cut_off(&mut self, shard: u32, lineage: &Lineage, given: u64) {
        let Some(led) = self.led.get(&shard) else {
            return;
        };
        let void = self.void.entry(shard).or_default();
        let ends = led.keys().skip(1).copied().chain([given]);
        for ((&began, &term), end) in led.iter().zip(ends) {
            // The cuts of terms before the floor's term were noted when the floor passed them.
            if (lineage.floor.term..lineage.term).contains(&term) {
                let last = lineage.last_of(term).max(began);
                add_range(void, last + 1, end.min(given));
            }
        }
        if void.is_empty() {
            self.void.remove(&shard);
        }
    }

    /// Drops all records of `shard` on this node. The counter gives `version` to the drop, and to no record.
    pub(crate) fn drop_shard(&mut self, shard: u32, version: u64) {
        self.skip(version, version);
        self.void.remove(&shard);
        self.dropped.insert(shard, version);
    }

    /// The verdict on a record of `shard` that was moved, or came from elsewhere, when the counter was about to give
    /// `moved_at`.
    pub fn judge_moved(&self, shard: u32, moved_at: u64) -> OwnVerdict {
        match self.is_dropped(shard, moved_at) {
            true => OwnVerdict::Void,
            false => OwnVerdict::Counts,
        }
    }

    fn is_dropped(&self, shard: u32, version: u64) -> bool {
        let dropped = self.dropped.get(&shard);
        dropped.is_some_and(|&dropped| version <= dropped) && !mutant!(DroppedShardCounts)
    }

    /// The verdict on a record of `shard` that this node stamped with `version`, and that was not moved.
    pub fn judge(&self, shard: u32, version: u64) -> OwnVerdict {
        let is_void = self.is_void(shard, version) || self.is_dropped(shard, version);
        if self.skipped_at(version).is_some() && !mutant!(SkippedVersionCounts) || is_void {
            return OwnVerdict::Void;
        }
        match version <= self.settled {
            true => OwnVerdict::Counts,
            false => OwnVerdict::Open,
        }
    }

    fn is_void(&self, shard: u32, version: u64) -> bool {
        let ranges = self.void.get(&shard);
        ranges.is_some_and(|ranges| range_of(ranges, version).is_some())
            && !mutant!(VoidOwnRecordCounts)
    }

    fn skipped_at(&self, version: u64) -> Option<(u64, u64)> {
        range_of(&self.skipped, version)
    }

    /// The first version at or above `version` that must have a record.
    pub(super) fn expected_from(&self, version: u64) -> u64 {
        let mut expected = version;
        while let Some((_, last)) = self.skipped_at(expected) {
            expected = last + 1;
        }
        expected
    }

    /// The place of a record in the history of its shard; `None`: the node did not lead the shard.
    pub(super) fn point_of(&self, shard: u32, version: u64) -> Option<Point> {
        let terms = self.led.get(&shard)?;
        let upto = match mutant!(LastTermForAll) {
            true => u64::MAX,
            false => version,
        };
        let (_, &term) = terms.range(..upto).next_back()?;
        Some(Point { term, version })
    }

    /// The highest version that is named here. The next record gets a higher version.
    pub(super) fn highest(&self) -> u64 {
        let began = self.led.values().flat_map(BTreeMap::keys);
        let voided = self.void.values().flat_map(BTreeMap::values);
        let dropped = self.dropped.values();
        let named = began
            .chain(voided)
            .chain(self.skipped.values())
            .chain(dropped)
            .copied();
        named.fold(self.settled, u64::max)
    }

    /// Drops the ranges at or below the settled version in which a scan of the whole log found no record. `found` has
    /// the shards and versions of the void records in the log. A moved record stands there with the version that the
    /// counter was about to give.
    pub(super) fn forget_gone(&mut self, found: &[(u32, u64)]) {
        self.retain_ranges(|shard, first, last| {
            let mut ours = found
                .iter()
                .filter(|(of, _)| shard.is_none_or(|shard| *of == shard));
            ours.any(|&(_, version)| (first..=last).contains(&version))
        });
        self.dropped.retain(|shard, dropped| {
            found
                .iter()
                .any(|(of, version)| of == shard && version <= dropped)
        });
    }

    /// Drops the ranges at or below the settled version that no record in the log can have. `reaches` says whether a
    /// segment may have a record that this node stamped with a version from the first to the last. A segment that was
    /// freed has none when its next generation is durable.
    pub fn forget_unreached(&mut self, reaches: impl Fn(u64, u64) -> bool) {
        self.retain_ranges(|_, first, last| {
            reaches(first, last) && !mutant!(ReachedRangeForgotten)
        });
    }

    /// Keeps the ranges above the settled version, and those for which `is_there` is true. A skipped range has no
    /// shard.
    fn retain_ranges(&mut self, is_there: impl Fn(Option<u32>, u64, u64) -> bool) {
        let settled = self.settled;
        self.skipped
            .retain(|&first, last| *last > settled || is_there(None, first, *last));
        for (&shard, ranges) in &mut self.void {
            ranges.retain(|&first, last| *last > settled || is_there(Some(shard), first, *last));
        }
        self.void.retain(|_, ranges| !ranges.is_empty());
    }

    /// The number of ranges of versions without a record that counts. Each takes a row of a ledger.
    pub fn ranges(&self) -> usize {
        let void = self.void.values().map(BTreeMap::len);
        self.skipped.len() + void.sum::<usize>()
    }

    pub(crate) fn rows(&self) -> impl Iterator<Item = VersionRow> {
        let settled = VersionRow::Settled {
            version: self.settled,
        };
        let settled = (self.settled > 0).then_some(settled);
        let skipped = self.skipped.iter();
        let skipped = skipped.map(|(&first, &last)| VersionRow::Skipped { first, last });
        let led = self.led.iter().flat_map(|(&shard, terms)| {
            let terms = terms.iter();
            terms.map(move |(&given, &term)| VersionRow::Led { shard, term, given })
        });
        let void = self.void.iter().flat_map(|(&shard, ranges)| {
            let ranges = ranges.iter();
            ranges.map(move |(&first, &last)| VersionRow::Void { shard, first, last })
        });
        let dropped = self.dropped.iter();
        let dropped = dropped.map(|(&shard, &version)| VersionRow::Dropped { shard, version });
        let rows = settled.into_iter().chain(skipped).chain(led);
        rows.chain(void).chain(dropped)
    }

    pub(crate) fn take_row(&mut self, row: VersionRow) {
        match row {
            VersionRow::Settled { version } => self.settled = version,
            VersionRow::Skipped { first, last } => {
                self.skipped.insert(first, last);
            }
            VersionRow::Led { shard, term, given } => {
                self.led.entry(shard).or_default().insert(given, term);
            }
            VersionRow::Void { shard, first, last } => {
                self.void.entry(shard).or_default().insert(first, last);
            }
            VersionRow::Dropped { shard, version } => {
                self.dropped.insert(shard, version);
            }
        }
    }
}

/// Adds a range, empty or not, and joins the ranges that it overlaps or adjoins: a node that drops a shard again and
/// again skips one version each time, and a ledger has a row for each range.
fn add_range(ranges: &mut BTreeMap<u64, u64>, first: u64, last: u64) {
    if first > last {
        return;
    }
    let (first, mut last) = match range_of(ranges, first.saturating_sub(1)) {
        Some((start, end)) => (start, last.max(end)),
        None => (first, last),
    };
    while let Some((&inner, &end)) = ranges.range(first..=last.saturating_add(1)).next_back() {
        ranges.remove(&inner);
        last = last.max(end);
    }
    ranges.insert(first, last);
}

/// The range of `ranges` that holds `version`.
fn range_of(ranges: &BTreeMap<u64, u64>, version: u64) -> Option<(u64, u64)> {
    let (&first, &last) = ranges.range(..=version).next_back()?;
    (version <= last).then_some((first, last))
}

#[cfg(test)]
mod tests {
    use super::*;
    use stonecast_lineage::Epoch;

    fn versions() -> Versions {
        let mut versions = Versions::default();
        versions.lead(3, Epoch(70_001), 0);
        versions.lead(4, Epoch(5), 2);
        versions.skip(11, 20);
        versions.lead(3, Epoch(70_009), 20);
        versions.cut_off(4, &lineage(9, &[(5, 7)]), 22);
        versions
    }

    /// A history with an open term and cuts.
    fn lineage(term: u64, cuts: &[(u64, u64)]) -> Lineage {
        let cuts = cuts.iter().map(|&(term, version)| (Epoch(term), version));
        Lineage {
            term: Epoch(term),
            cuts: cuts.collect(),
            ..Lineage::default()
        }
    }

    #[test]
    fn ranges_that_adjoin_are_one_range() {
        let mut ranges = BTreeMap::new();
        for (first, last) in [(5, 5), (6, 6), (9, 12), (8, 8), (7, 7), (20, 19), (14, 14)] {
            add_range(&mut ranges, first, last);
        }
        assert_eq!(ranges, BTreeMap::from([(5, 12), (14, 14)]));
    }

    /// Needs the end of each term: a record that the node stamped in a later term is not above an earlier cut.
    #[test]
    fn a_history_voids_entries_above_the_cut_of_its_own_term() {
        let mut versions = Versions::default();
        versions.lead(3, Epoch(2), 0);
        versions.lead(3, Epoch(5), 10);
        versions.lead(3, Epoch(7), 20);
        versions.cut_off(3, &lineage(7, &[(2, 6), (5, 18)]), 30);
        let void = (1..=30).filter(|&version| versions.judge(3, version) == OwnVerdict::Void);
        assert_eq!(void.collect::<Vec<_>>(), [7, 8, 9, 10, 19, 20]);
        versions.cut_off(3, &lineage(8, &[(2, 9), (5, 14)]), 30);
        let counts = (1..=30).filter(|&version| versions.judge(3, version) == OwnVerdict::Open);
        let expected: Vec<u64> = (1..=6).chain(11..=14).collect();
        assert_eq!(
            counts.collect::<Vec<_>>(),
            expected,
            "a void record stays void, and term 7 has none"
        );
    }

    #[test]
    fn a_record_is_of_the_last_term_that_began_before_it() {
        let versions = versions();
        let term = |shard, version| {
            let point = versions.point_of(shard, version);
            point.map(|point| point.term.0)
        };
        assert_eq!(
            [
                term(3, 1),
                term(3, 20),
                term(3, 21),
                term(4, 2),
                term(4, 3),
                term(9, 50)
            ],
            [
                Some(70_001),
                Some(70_001),
                Some(70_009),
                None,
                Some(5),
                None
            ]
        );
    }

    #[test]
    fn versions_that_are_skipped_or_above_a_cut_never_count_and_the_rest_count_once_they_are_settled()
     {
        let mut versions = versions();
        let judge = |versions: &Versions| {
            [(3, 7), (3, 8), (4, 8), (3, 15), (4, 25)]
                .map(|(shard, version)| versions.judge(shard, version))
        };
        use OwnVerdict::{Counts, Open, Void};
        assert_eq!(judge(&versions), [Open, Open, Void, Void, Open]);
        versions.settle(23);
        assert_eq!(judge(&versions), [Counts, Counts, Void, Void, Open]);
        versions.settle(7);
        assert_eq!(versions.settled(), 23, "nothing is unsettled again");
    }

    /// Needs the search for the records that are left: without it a range goes too early, so that its records count, or
    /// the range stays forever.
    #[test]
    fn a_range_goes_when_it_is_settled_and_no_record_of_it_is_left() {
        let mut versions = versions();
        versions.forget_gone(&[]);
        assert_eq!(versions, super::tests::versions(), "nothing is settled");
        versions.settle(23);
        versions.forget_gone(&[(4, 8)]);
        assert_eq!(versions.judge(4, 8), OwnVerdict::Void);
        assert_eq!(
            versions.expected_from(11),
            11,
            "nothing is skipped any more"
        );
        versions.forget_gone(&[]);
        assert_eq!(versions.judge(4, 8), OwnVerdict::Counts);
    }

    /// Needs the settled version, and the question for each range: a range that goes too early lets its records count.
    #[test]
    fn a_range_goes_when_it_is_settled_and_no_segment_reaches_it() {
        let mut versions = versions();
        versions.forget_unreached(|_, _| false);
        assert_eq!(versions, super::tests::versions(), "nothing is settled");
        versions.settle(23);
        assert_eq!(versions.ranges(), 2);
        versions.forget_unreached(|first, last| first <= 8 && 8 <= last);
        assert_eq!(versions.judge(4, 8), OwnVerdict::Void);
        assert_eq!((versions.ranges(), versions.expected_from(11)), (1, 11));
        versions.forget_unreached(|_, _| false);
        assert_eq!(versions.ranges(), 0);
    }

    /// Needs the rest of the range on both sides: the versions there may have records that never count.
    #[test]
    fn versions_that_the_counter_never_gave_are_forgotten_when_they_are_settled() {
        let mut versions = Versions::default();
        versions.skip(5, 8);
        versions.skip(9, 20);
        versions.skip(21, 22);
        versions.forget_skipped(9, 20);
        assert_eq!(versions.expected_from(5), 23, "nothing is settled");
        versions.settle(30);
        versions.forget_skipped(9, 20);
        let expected = [5, 9, 15, 21].map(|version| versions.expected_from(version));
        assert_eq!(expected, [9, 9, 15, 23]);
    }

    /// Needs the union of ranges: the end of a range would count again if a shorter range inside it hid that end.
    #[test]
    fn ranges_that_touch_are_one() {
        let mut ranges = BTreeMap::new();
        for (first, last) in [(10, 12), (20, 22), (30, 30), (9, 8), (11, 25), (24, 24)] {
            add_range(&mut ranges, first, last);
        }
        assert_eq!(ranges, BTreeMap::from([(10, 25), (30, 30)]));
    }

    #[test]
    fn the_rows_of_a_ledger_say_all_of_it() {
        let mut versions = versions();
        versions.settle(21);
        versions.drop_shard(9, 22);
        let mut read = Versions::default();
        versions.rows().for_each(|row| read.take_row(row));
        assert_eq!((read.highest(), &read), (22, &versions));
    }

    #[test]
    #[should_panic(expected = "does not follow")]
    fn a_term_is_not_led_twice() {
        versions().lead(3, Epoch(70_009), 30);
    }
}
