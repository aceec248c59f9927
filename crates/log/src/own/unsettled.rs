//! The version up to which the history is settled, while the node stamps records.

use std::collections::VecDeque;

use stonecast_base::mutant;

use super::records::History;
use super::versions::{OwnVerdict, Versions};
use crate::appended::Lineages;

/// The records of this node that no floor has settled, in the order of their versions.
#[derive(Clone, Debug, Default)]
pub struct Unsettled {
    /// The records, by version and shard.
    records: VecDeque<(u64, u32)>,
    last: u64,
}

impl Unsettled {
    /// Begins with the records that recovery has found.
    pub fn of(history: &History) -> Self {
        let chains = history.chains.iter();
        let links =
            chains.flat_map(|(&shard, chain)| chain.iter().map(move |link| (link.version, shard)));
        let mut records: Vec<_> = links.collect();
        records.sort_unstable();
        Self {
            records: records.into(),
            last: history.given,
        }
    }

    /// Notes a stamped record.
    ///
    /// # Panics
    /// If a later record was noted before.
    pub fn note(&mut self, version: u64, shard: u32) {
        assert!(
            version > self.last,
            "version {version} behind {}",
            self.last
        );
        self.records.push_back((version, shard));
        self.last = version;
    }

    /// The last version that was stamped in `shard` and that no floor has settled; 0 without one. The records above it
    /// that a history cuts off do not exist: a history cuts off no settled record.
    pub fn newest_of(&self, shard: u32) -> u64 {
        let mut newest = self.records.iter().rev();
        newest
            .find(|(_, of)| *of == shard)
            .map_or(0, |&(version, _)| version)
    }

    /// The version up to which everything is settled by `lineages` and `versions`. The caller passes the version to
    /// [`Versions::settle`], and frees segments with versions above the earlier one when the new one is durable.
    pub fn settled(&mut self, lineages: &Lineages, versions: &Versions) -> u64 {
        let is_settled = |&(version, shard): &(u64, u32)| {
            let point = versions.point_of(shard, version);
            let floor = lineages.of(shard).map(|lineage| lineage.floor);
            point.is_some_and(|point| Some(point) <= floor)
                || versions.judge(shard, version) == OwnVerdict::Void
        };
        if mutant!(SettledPastAShard) {
            let last = self.records.iter().rposition(is_settled);
            drop(self.records.drain(..last.map_or(0, |last| last + 1)));
        }
        while self.records.front().is_some_and(is_settled) {
            self.records.pop_front();
        }
        match self.records.front() {
            Some((version, _)) => version - 1,
            None => self.last.max(versions.settled()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use stonecast_lineage::{Epoch, Lineage, Point};

    /// Needs the wait for the shard that lags: a segment with its record would be freed, and the missing version would
    /// hide all later ones.
    #[test]
    fn a_shard_whose_floor_lags_holds_the_versions_of_all() {
        let lineage = |term, version| Lineage {
            term: Epoch(term),
            floor: Point {
                term: Epoch(1),
                version,
            },
            ..Lineage::default()
        };
        let (mut unsettled, mut lineages, mut versions) = (
            Unsettled::default(),
            Lineages::default(),
            Versions::default(),
        );
        (0..2).for_each(|shard| versions.lead(shard, Epoch(1), 0));
        (1..=6).for_each(|version| unsettled.note(version, (version % 2) as u32));
        lineages.keep(1, lineage(1, 5));
        assert_eq!(unsettled.settled(&lineages, &versions), 1);
        lineages.keep(0, lineage(1, 2));
        assert_eq!(unsettled.settled(&lineages, &versions), 3);
        versions.cut_off(0, &lineage(2, 2), 6);
        assert_eq!(
            unsettled.settled(&lineages, &versions),
            6,
            "a void record waits for nobody"
        );
    }
}
