//! The history of a node's own records, made by a scan of its log.

use std::collections::BTreeMap;

use stonecast_base::{Corruption, mutant};
use stonecast_lineage::{Judgement, Term};

use super::proofs::Proofs;
use super::versions::{OwnVerdict, Versions};
use crate::appended::Lineages;
use crate::format::LogFormat;
use crate::record::Form;
use crate::state::SegmentState;
use crate::walk::Found;

/// A record of the history: one link of the chain of its shard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Link {
    /// Bytes from the start of the log.
    pub position: u64,
    /// The term in which the record was stamped.
    pub term: Term,
    /// The version of the record.
    pub version: u64,
    /// The version of the record before it in its shard.
    pub previous: u64,
}

/// The history of the shards that a node led, as the node's log has it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct History {
    /// The records of each shard above its floor, in order and without a gap.
    pub chains: BTreeMap<u32, Vec<Link>>,
    /// Positions of the other records that count: those at or below the floors of their shards.
    pub settled: Vec<u64>,
    /// The first version that is missing before a record.
    pub missing: Option<u64>,
    /// The number of records behind the missing version. None of them counts.
    pub behind_missing: u64,
    /// The highest version that a record has or a row of the ledger names. A caller that knows of a higher version that
    /// the counter gave raises this value.
    pub given: u64,
    /// For each segment with records that this node stamped there, the lowest and the highest of their versions,
    /// whether they count or not.
    pub reach: BTreeMap<u32, (u64, u64)>,
    /// The first version that no record of the history has.
    end: u64,
    /// Shards and versions of the records in the log that never count.
    void: Vec<(u32, u64)>,
}

/// Takes the records of a scan of the whole log, in any order, and makes the history from them.
pub struct OwnRecords<'a> {
    versions: &'a Versions,
    shard_of: &'a dyn Fn(Form, &[u8]) -> u32,
    /// The records above the settled version that are not skipped.
    open: Vec<Open>,
    void: Vec<(u32, u64)>,
    given: u64,
    reach: BTreeMap<u32, (u64, u64)>,
    format: &'a LogFormat,
    proofs: Proofs<'a>,
}

#[derive(Clone, Copy)]
struct Open {
    version: u64,
    shard: u32,
    position: u64,
}

impl Open {
    fn place(self) -> (u64, u64) {
        (self.version, self.position)
    }
}

impl<'a> OwnRecords<'a> {
    /// `shard_of` gives the shard of the key of a record of that form, which is the same on all nodes.
    pub fn new(
        format: &'a LogFormat,
        versions: &'a Versions,
        shard_of: &'a dyn Fn(Form, &[u8]) -> u32,
    ) -> Self {
        Self {
            versions,
            shard_of,
            open: Vec::new(),
            void: Vec::new(),
            given: versions.highest(),
            reach: BTreeMap::new(),
            format,
            proofs: Proofs::new(format),
        }
    }

    /// Takes the state of a segment, as the scan has found it.
    pub fn take_segment(&mut self, state: &SegmentState) {
        self.proofs.take_segment(state);
    }

    /// Takes a record, and returns the verdict on it. A record that is [open](OwnVerdict::Open) counts if the history
    /// has it.
    pub fn take(&mut self, found: &Found<'_>) -> OwnVerdict {
        let header = &found.header;
        self.proofs.take(found);
        let shard = match mutant!(ShardOfKeyIgnored) {
            true => 0,
            false => (self.shard_of)(found.header.form(), found.key),
        };
        if let Some(moved_at) = header.moved_at().filter(|_| !mutant!(MovedRecordInHistory)) {
            // Only settled records are moved, and a record from elsewhere is written like a moved one.
            let verdict = self.versions.judge_moved(shard, moved_at);
            if verdict == OwnVerdict::Void {
                self.void.push((shard, moved_at));
            }
            return verdict;
        }
        let version = header.sequence();
        self.given = self.given.max(version);
        let (segment, _) = self.format.locate(found.position);
        let reach = self.reach.entry(segment as u32);
        let (first, last) = reach.or_insert((version, version));
        (*first, *last) = (version.min(*first), version.max(*last));
        let verdict = self.versions.judge(shard, version);
        if verdict == OwnVerdict::Void {
            self.void.push((shard, version));
        }
        // The version of a void record of one shard is not missing in the others.
        if version > self.versions.settled() && self.versions.expected_from(version) == version {
            self.open.push(Open {
                version,
                shard,
                position: found.position,
            });
        }
        verdict
    }

    /// The history of the log, which errors call `file`.
    ///
    /// # Errors
    /// Two records have one version, a record belongs to a shard or a term that the node did not lead, or a version is
    /// missing that was durable. No crash leaves such a log.
    pub fn finish(self, lineages: &Lineages, file: &str) -> Result<History, Corruption> {
        let Self {
            versions,
            mut open,
            void,
            given,
            reach,
            proofs,
            ..
        } = self;
        open.sort_unstable_by_key(|record| record.version);
        let mut history = History {
            void,
            given,
            reach,
            ..History::default()
        };
        let mut expected = versions.expected_from(versions.settled() + 1);
        let mut records = open.into_iter().peekable();
        let is_next = |record: &Open, expected: u64| {
            record.version <= expected || mutant!(MissingVersionIgnored)
        };
        while let Some(record) = records.next_if(|record| is_next(record, expected)) {
            if record.version < expected {
                return Err(twice(file, &record));
            }
            expected = versions.expected_from(record.version + 1);
            if versions.judge(record.shard, record.version) != OwnVerdict::Void {
                history.count(record, (versions, lineages), file)?;
            }
        }
        history.end = expected;
        history.missing = records.peek().map(|_| expected);
        if let Some(missing) = history.missing
            && let Some(proof) = proofs.find(missing, records.clone().map(Open::place))
            && !mutant!(DamageTakenForCrash)
        {
            return Err(lost(file, records.next(), missing, proof));
        }
        history.behind_missing = records.len() as u64;
        let behind = records.map(|record| (record.shard, record.version));
        history.void.extend(behind);
        Ok(history)
    }
}

impl History {
    fn count(
        &mut self,
        record: Open,
        (versions, lineages): (&Versions, &Lineages),
        file: &str,
    ) -> Result<(), Corruption> {
        let Open {
            version,
            shard,
            position,
        } = record;
        let point = versions.point_of(shard, version);
        let (Some(point), Some(lineage)) = (point, lineages.of(shard)) else {
            return Err(without_term(file, &record));
        };
        match lineage.judge(point) {
            Judgement::Old => self.settled.push(position),
            Judgement::Void => self.void.push((shard, version)),
            Judgement::Later => return Err(without_term(file, &record)),
            Judgement::Counts => {
                let chain = self.chains.entry(shard).or_default();
                let last = chain.last().filter(|link| link.term == point.term);
                let before = last.map_or(lineage.before(point.term).version, |link| link.version);
                chain.push(Link {
                    position,
                    term: point.term,
                    version,
                    previous: before,
                });
            }
        }
        Ok(())
    }

    /// Notes in `versions`, by which this history was made, that no record behind its end counts, and drops the ranges
    /// whose records are gone. The caller makes the change durable before it stamps a record. Later records get
    /// versions above [`given`](Self::given).
    pub fn note_in(&self, versions: &mut Versions) {
        self.note_end_in(versions);
        versions.forget_gone(&self.void);
    }

    /// Notes the end as [`note_in`](Self::note_in) does, for a scan that left out records at or below the settled
    /// version because a checkpoint stands for them. No range is dropped, since its records may be among these.
    pub fn note_end_in(&self, versions: &mut Versions) {
        // Even if no version is missing before a record, the last versions that a row names may be lost.
        versions.skip(self.end, self.given);
    }
}

fn lost(file: &str, behind: Option<Open>, missing: u64, proof: String) -> Corruption {
    Corruption {
        what: "record history".into(),
        file: file.to_owned().into(),
        offset: behind.map_or(0, |record| record.position),
        found: format!("no record of version {missing}"),
        expected: format!("one: {proof}"),
    }
}

fn twice(file: &str, record: &Open) -> Corruption {
    damage(
        file,
        record,
        format!("version {} for the second time", record.version),
        "a version that no other record has".to_owned(),
    )
}

fn without_term(file: &str, record: &Open) -> Corruption {
    damage(
        file,
        record,
        format!("version {} of shard {}", record.version, record.shard),
        "a record of a shard that this node led: its term was durable before".to_owned(),
    )
}

fn damage(file: &str, record: &Open, found: String, expected: String) -> Corruption {
    Corruption {
        what: "record history".into(),
        file: file.to_owned().into(),
        offset: record.position,
        found,
        expected,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn format() -> LogFormat {
        LogFormat {
            uuid: 1,
            tag_key: 1,
            secret: None,
            segment_size: 64 * 1024,
            segment_count: 4,
        }
    }

    /// Needs the variant without the search for gone records: the records of the range lie where a checkpoint spares
    /// the scan.
    #[test]
    fn a_scan_that_leaves_settled_records_out_drops_no_range() {
        let mut versions = Versions::default();
        versions.skip(3, 5);
        versions.settle(9);
        let shard_of = |_: Form, _: &[u8]| 0;
        let format = format();
        let found = OwnRecords::new(&format, &versions, &shard_of);
        let history = found.finish(&Lineages::default(), "log").unwrap();
        let (mut whole, mut part) = (versions.clone(), versions.clone());
        history.note_in(&mut whole);
        history.note_end_in(&mut part);
        let verdicts = [&whole, &part].map(|versions| versions.judge(0, 4));
        assert_eq!(verdicts, [OwnVerdict::Counts, OwnVerdict::Void]);
    }

    /// Needs the raised end: the counter goes on behind a version that no record has, and all later records would be
    /// behind a missing one.
    #[test]
    fn a_version_that_the_counter_gave_without_a_record_is_not_missing_later() {
        let mut versions = Versions::default();
        versions.skip(3, 5);
        versions.settle(9);
        let shard_of = |_: Form, _: &[u8]| 0;
        let format = format();
        let found = OwnRecords::new(&format, &versions, &shard_of);
        let mut history = found.finish(&Lineages::default(), "log").unwrap();
        history.given = 12;
        history.note_in(&mut versions);
        assert_eq!(versions.expected_from(10), 13);
    }
}
