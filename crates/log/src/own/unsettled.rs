//! How far the history is settled while records are stamped.

use std::collections::VecDeque;

use stonecast_base::mutant;

use super::records::History;
use super::versions::{OwnVerdict, Versions};
use crate::appended::Floors;

/// The records of this node that no floor has settled, in the order of their versions.
#[derive(Clone, Debug, Default)]
pub struct Unsettled {
    /// Version and shard.
    records: VecDeque<(u64, u32)>,
    last: u64,
}

impl Unsettled {
    /// The records that recovery has found.
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

    /// Notes a record that was stamped.
    ///
    /// # Panics
    /// Where a later one was noted.
    pub fn note(&mut self, version: u64, shard: u32) {
        assert!(
            version > self.last,
            "version {version} behind {}",
            self.last
        );
        self.records.push_back((version, shard));
        self.last = version;
    }

    /// The version up to which everything is settled by the floors and `versions`. The caller raises [`Versions::settle`] to it, and
    /// frees segments above the earlier version when that is durable.
    pub fn settled(&mut self, floors: &Floors, versions: &Versions) -> u64 {
        let is_settled = |&(version, shard): &(u64, u32)| {
            floors.settled_up_to(shard) >= version
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

    /// Needs the wait for the shard that lags: a segment with its record would be freed, and the missing version would hide all later ones.
    #[test]
    fn a_shard_whose_floor_lags_holds_the_versions_of_all() {
        let (mut unsettled, mut floors, mut versions) =
            (Unsettled::default(), Floors::default(), Versions::default());
        (1..=6).for_each(|version| unsettled.note(version, (version % 2) as u32));
        floors.raise(1, 5);
        assert_eq!(unsettled.settled(&floors, &versions), 1);
        floors.raise(0, 2);
        assert_eq!(unsettled.settled(&floors, &versions), 3);
        versions.cut(0, 2, 6);
        assert_eq!(
            unsettled.settled(&floors, &versions),
            6,
            "a void record waits for nobody"
        );
    }
}
