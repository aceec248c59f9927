//! The records that count in a pool of a cluster: the ledger says which, together with the history of the records that
//! this node stamped.
//!
//! ```text
//!   settled version |  41   42   43   --   45
//!    counts, or is  |  wait for the scan        45 is after a missing version , and never counts
//!    void, at once  |  to end
//! ```
//!
//! A pool of one node alone has no ledger: each record that a scan finds counts at once.

use std::collections::BTreeMap;

use stonecast_base::Corruption;
use stonecast_base::Span;
use stonecast_log::{
    Form, Found, History, Ledger, LogFormat, OwnRecords, OwnVerdict, RecordHeader, ScanPolicy,
    SegmentState, SegmentVerdict, UNIT_SIZE, Visitor, first_unit, is_filled_by_appends,
    scan_segment,
};
use stonecast_media::Pool;

use super::rebuild::Rebuild;
use super::surveyor::Surveyor;
use crate::server::keeper::FIRST_HOME;

/// The facts that ledger and log have about the records that this node stamped.
pub(crate) struct OwnFacts {
    pub ledger: Ledger,
    pub history: History,
    /// Whether the scan left nothing out.
    pub is_whole: bool,
}

/// The newest ledger of `pool`, before its records are read. `None`: the pool belongs to no
/// cluster.
pub(super) fn read_ledger(
    pool: &Pool,
    surveyor: &mut dyn Surveyor,
) -> Result<Option<Ledger>, Corruption> {
    if pool.cluster_seed().is_none() {
        return Ok(None);
    }
    let (log, format, file) = (pool.log(), LogFormat::of(pool), pool.backing().name());
    let mut homes = Vec::new();
    for number in 0..format.segment_count {
        if !is_filled_by_appends(&*log, &format, number) {
            continue;
        }
        let policy = ScanPolicy::default();
        match scan_segment(&*log, &format, &file, number, None, policy, &mut Nothing) {
            Ok(SegmentVerdict::Appended { state, .. }) => homes.push(state),
            Ok(_) => {}
            // The survey of all segments meets the same damage, and reports it.
            Err(_) => {}
        }
    }
    match Ledger::read(&*log, &format, &file, &homes) {
        Ok(ledger) => Ok(Some(ledger)),
        Err(corruption) => {
            let (number, _) = format.locate(corruption.offset);
            surveyor.refuse(number as u32, corruption)?;
            Ok(Some(Ledger::default()))
        }
    }
}

/// The damage of a pool with records and without a segment for its ledger, which is durable before the first record.
/// With an empty ledger all of the records would be void.
pub(super) fn without_home(pool: &Pool) -> Corruption {
    Corruption {
        what: "ledger".into(),
        file: pool.backing().name().into(),
        offset: LogFormat::of(pool).position(FIRST_HOME, 0),
        found: "segments with records, and none with a ledger".to_owned(),
        expected: "a header of the segment of the ledger".to_owned(),
    }
}

/// The bytes in which the newest ledger and the one before it lie.
pub(super) fn slots(ledger: &Ledger, format: &LogFormat) -> Option<Span> {
    let home = ledger.home()?;
    let size = u64::from(first_unit(format)) * UNIT_SIZE;
    Some(Span::new(format.position(home, 0), size))
}

struct Nothing;

impl Visitor for Nothing {
    fn records(&mut self, _: &[Found<'_>]) {}
}

/// Passes the records of a scan on to a rebuild if they count, and keeps records that wait for the history.
pub(super) struct OwnVisitor<'a> {
    own: OwnRecords<'a>,
    rebuild: &'a mut Rebuild,
    /// The records that wait for the history, by position.
    waiting: BTreeMap<u64, Waiting>,
}

struct Waiting {
    header: RecordHeader,
    key: Vec<u8>,
}

impl<'a> OwnVisitor<'a> {
    /// `shard_of` gives the shard of a key.
    pub fn new(
        format: &'a LogFormat,
        ledger: &'a Ledger,
        shard_of: &'a dyn Fn(Form, &[u8]) -> u32,
        rebuild: &'a mut Rebuild,
    ) -> Self {
        Self {
            own: OwnRecords::new(format, ledger.versions(), shard_of),
            rebuild,
            waiting: BTreeMap::new(),
        }
    }

    /// Ends the scan, which found these `segments`. The records of the history above the floors of their shards count,
    /// too, if this server `is_alone`; otherwise its node has a say in that. Messages call the log `file`.
    ///
    /// # Errors
    /// No node with this ledger stamps such records, and no crash leaves them.
    pub fn finish<'s>(
        self,
        ledger: &Ledger,
        segments: impl Iterator<Item = &'s SegmentState>,
        file: &str,
        is_alone: bool,
    ) -> Result<History, Corruption> {
        let Self {
            mut own,
            rebuild,
            mut waiting,
        } = self;
        segments.for_each(|state| own.take_segment(state));
        let history = own.finish(ledger.lineages(), file)?;
        let links = history.chains.values().flatten();
        let links = links.map(|link| (link.position, is_alone));
        let settled = history.settled.iter().map(|&position| (position, true));
        for (position, counts) in links.chain(settled) {
            let found = waiting.remove(&position);
            let Waiting { header, key } = found.expect("the history has records that were taken");
            let found = Found {
                position,
                header,
                key: &key,
                // An index needs no value.
                value: &[],
                is_void: false,
            };
            match counts {
                true => rebuild.records(&[found]),
                false => rebuild.leave_out(&found),
            }
        }
        Ok(history)
    }
}

impl Visitor for OwnVisitor<'_> {
    fn records(&mut self, batch: &[Found<'_>]) {
        let mut counted = Vec::with_capacity(batch.len());
        for found in batch {
            match self.own.take(found) {
                OwnVerdict::Counts => counted.push(*found),
                OwnVerdict::Void => {}
                OwnVerdict::Open => {
                    let (header, key) = (found.header, found.key.to_vec());
                    self.waiting.insert(found.position, Waiting { header, key });
                }
            }
        }
        self.rebuild.records(&counted);
    }
}
