//! What of the entries in the log of appends still counts.

use std::collections::BTreeMap;

use stonecast_base::mutant;

use super::entry::EntryFacts;

/// For each shard: up to which version everything is settled, which terms are closed, and where older terms were cut.
///
/// An entry counts if its version is above the shard's floor, its term is not closed, and no cut of its term or a later one lies
/// below its version. Nothing that was once said is taken back: each change makes fewer entries count. So old floors beside new
/// segments, or new floors beside old ones, let stale entries count at worst that the old floors let count.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Floors {
    shards: BTreeMap<u32, Floor>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Floor {
    /// Everything up to this version is settled.
    version: u64,
    /// Nothing of this term or an earlier one counts.
    closed: u64,
    /// Last version that counts of this term and those before it, by term.
    cuts: BTreeMap<u64, u64>,
}

/// One line of a ledger.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Row {
    Floor { version: u64, closed: u64 },
    Cut { term: u64, version: u64 },
}

impl Floors {
    /// Everything of `shard` up to `version` is settled: no entry at or below it is needed any more, because what is needed of it
    /// is durable outside this log. A lower version than before changes nothing.
    pub fn raise(&mut self, shard: u32, version: u64) {
        let floor = self.shards.entry(shard).or_default();
        floor.version = floor.version.max(version);
        floor.close_settled_terms();
    }

    /// Entries of `shard` in `term` and earlier terms count up to `version`, and those above it are void. For a takeover, with the
    /// last contiguous version.
    pub fn cut(&mut self, shard: u32, term: u64, version: u64) {
        let floor = self.shards.entry(shard).or_default();
        let known = floor.cuts.get(&term).copied().unwrap_or(u64::MAX);
        floor.cuts.insert(term, known.min(version));
        floor.close_settled_terms();
    }

    /// No entry of `shard` in `term` or an earlier one counts. For a shard that this node drops, durably, before it joins again.
    pub fn close(&mut self, shard: u32, term: u64) {
        let floor = self.shards.entry(shard).or_default();
        floor.closed = floor.closed.max(term);
        floor.close_settled_terms();
    }

    /// Whether an entry is news that still counts.
    pub fn counts(&self, entry: &EntryFacts) -> bool {
        if mutant!(OldEntryCounts) {
            return true;
        }
        let Some(floor) = self.shards.get(&entry.shard) else {
            return true;
        };
        // A mark repeats the version before it, which may be the floor.
        let is_new =
            entry.version > floor.version || entry.is_mark && entry.version == floor.version;
        is_new && entry.term > floor.closed && entry.version <= floor.last_of(entry.term)
    }

    /// Whether no record of `shard` in `term`, up to `version`, counts. For a segment whose highest version of that term it is. A
    /// record above a cut is settled with its term, once the floor has reached the cut.
    pub fn settles(&self, shard: u32, term: u64, version: u64) -> bool {
        let floor = self.shards.get(&shard);
        floor.is_some_and(|floor| term <= floor.closed || version <= floor.version)
    }

    /// Everything of `shard` up to this version is settled.
    pub fn settled_up_to(&self, shard: u32) -> u64 {
        self.shards.get(&shard).map_or(0, |floor| floor.version)
    }

    /// The last version of `shard` that counts of the terms before `term`, as far as it is above the floor; else the floor.
    pub(crate) fn end_before(&self, shard: u32, term: u64) -> u64 {
        let Some(floor) = self.shards.get(&shard) else {
            return 0;
        };
        let cuts = floor.cuts.range(..term);
        cuts.map(|(_, &version)| version)
            .fold(floor.version, u64::max)
    }

    pub(super) fn rows(&self) -> impl Iterator<Item = (u32, Row)> {
        self.shards.iter().flat_map(|(&shard, floor)| {
            let (version, closed) = (floor.version, floor.closed);
            let cuts = floor
                .cuts
                .iter()
                .map(|(&term, &version)| Row::Cut { term, version });
            std::iter::once(Row::Floor { version, closed })
                .chain(cuts)
                .map(move |row| (shard, row))
        })
    }

    pub(super) fn take_row(&mut self, shard: u32, row: Row) {
        match row {
            Row::Floor { version, closed } => {
                self.raise(shard, version);
                self.close(shard, closed);
            }
            Row::Cut { term, version } => self.cut(shard, term, version),
        }
    }
}

impl Floor {
    /// Last version that counts of a term.
    fn last_of(&self, term: u64) -> u64 {
        let cuts = self.cuts.range(term..);
        cuts.map(|(_, &version)| version).min().unwrap_or(u64::MAX)
    }

    /// A cut at or below the floor leaves nothing of its term: the term is closed, and the cut need not be kept. So the number of
    /// cuts stays that of the takeovers whose entries are not settled yet.
    fn close_settled_terms(&mut self) {
        let settled = self
            .cuts
            .iter()
            .filter(|(_, version)| **version <= self.version);
        let closed = settled.map(|(&term, _)| term).max().unwrap_or(0);
        self.closed = self.closed.max(closed);
        self.cuts.retain(|&term, _| term > self.closed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(term: u64, version: u64) -> EntryFacts {
        EntryFacts {
            shard: 3,
            term,
            version,
            is_mark: false,
            size: 64,
        }
    }

    #[test]
    fn an_entry_counts_above_the_floor_below_the_cuts_and_in_open_terms() {
        let mut floors = Floors::default();
        assert!(floors.counts(&entry(1, 1)), "nothing is known of the shard");
        floors.raise(3, 10);
        assert!(!floors.counts(&entry(1, 10)) && floors.counts(&entry(1, 11)));
        floors.cut(3, 2, 12);
        floors.cut(3, 4, 15);
        let last =
            [1, 2, 3, 4, 5].map(|term| (11..40).filter(|&v| floors.counts(&entry(term, v))).max());
        assert_eq!(last, [Some(12), Some(12), Some(15), Some(15), Some(39)]);
        floors.raise(3, 12);
        assert!(
            !floors.counts(&entry(2, 13)),
            "the cut of a closed term still holds"
        );
        assert!(floors.counts(&entry(3, 13)));
        floors.raise(3, 9);
        assert!(!floors.counts(&entry(5, 12)), "no floor falls");
        floors.close(3, 7);
        assert!(!floors.counts(&entry(7, 30)) && floors.counts(&entry(8, 30)));
    }

    #[test]
    fn a_mark_counts_at_the_floor_whose_version_it_repeats_and_a_record_does_not() {
        let mut floors = Floors::default();
        floors.raise(3, 10);
        let mark = EntryFacts {
            is_mark: true,
            ..entry(1, 10)
        };
        assert!(floors.counts(&mark) && !floors.counts(&entry(1, 10)));
        assert!(!floors.counts(&EntryFacts { version: 9, ..mark }));
    }

    /// Needs the closing of settled terms: what lies above a cut is void, and would hold its segment for ever.
    #[test]
    fn what_is_below_the_floor_or_above_the_cut_holds_no_segment() {
        let mut floors = Floors::default();
        assert!(!floors.settles(3, 1, 1), "nothing is known of the shard");
        floors.raise(3, 10);
        assert!(floors.settles(3, 1, 10) && !floors.settles(3, 1, 11));
        floors.cut(3, 1, 12);
        assert!(!floors.settles(3, 1, 20), "11 and 12 count");
        floors.raise(3, 12);
        assert!(floors.settles(3, 1, 20) && !floors.settles(3, 2, 13));
    }

    #[test]
    fn a_term_begins_behind_the_last_cut_before_it_or_behind_the_floor() {
        let mut floors = Floors::default();
        assert_eq!(floors.end_before(3, 9), 0);
        floors.raise(3, 10);
        floors.cut(3, 2, 12);
        floors.cut(3, 4, 15);
        let ends = [2, 3, 4, 5].map(|term| floors.end_before(3, term));
        assert_eq!(ends, [10, 12, 12, 15]);
        floors.raise(3, 20);
        assert_eq!((floors.end_before(3, 5), floors.settled_up_to(3)), (20, 20));
    }

    #[test]
    fn the_rows_of_a_ledger_say_all_of_it() {
        let mut floors = Floors::default();
        floors.raise(3, 10);
        floors.cut(3, 2, 12);
        floors.cut(9, 4, 15);
        floors.close(11, 6);
        let mut read = Floors::default();
        floors
            .rows()
            .for_each(|(shard, row)| read.take_row(shard, row));
        assert_eq!(read, floors);
    }
}
