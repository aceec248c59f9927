//! The ledger of a pool of a cluster while the pool is served. The ledger says up to which version the records of this
//! node are settled.
//!
//! ```text
//!   opening    what recovery found is settled; lead all shards in the next term     durable before the first record is stamped
//!   stamp      note the record
//!   settle     raise the floors of all shards to the last version                   durable before the cleaner touches these records
//! ```
//!
//! The server of a node notes the decisions of the node: which history counts, which shards are dropped, and in which
//! terms the node leads.
//!
//! A server that serves such a pool alone has the only copy: everything that it has published is settled. Such a
//! server counts its openings as terms, in histories of no cluster, so a cluster never takes these terms for its
//! own. A server of one node without a cluster has no keeper.
//!
//! Invariants:
//! - A ledger that names a term is durable before a record of that term is stamped.
//! - A ledger that names a version without a record is durable before a persist of a record with a later version
//!   begins: a durable record proves that all versions before its own were durable.
//! - No segment with a record above [`Keeper::settled`] is cleaned: a missing version above the
//!   settled one ends the history.
//!
//! A crash leaves the ledger or the one before it. Records above the settled version are found again in either case.

use std::rc::Rc;

use stonecast_backup::{Change, SharedLedger};
use stonecast_base::{Nanoseconds, Span};
use stonecast_fabric::Runtime;
use stonecast_lineage::{Epoch, Lineage, Point, Term};
use stonecast_log::{
    EntryFacts, EntryFormat, Heritage, History, Ledger, LogFormat, OwnVerdict, RecordHeader,
    SegmentState, Turn, Turned, UNIT_SIZE, Unsettled,
};
use stonecast_media::{MediaError, Pool, Prepared};
use stonecast_persist::Persisted;
use stonecast_persist::execute::Commit;

use super::space::Space;
use crate::error::StoreError;

/// Records after which the floors rise, however much room there is: a start has to keep the keys of
/// that many records in memory.
const SETTLED_TOGETHER: u64 = 4096;
/// Ranges of void versions that come to be before the keeper looks again which of them have a record left.
const RANGES_TOGETHER: usize = 8;
/// The segment in which a new pool gets its first ledger.
pub(super) const FIRST_HOME: u32 = 0;
/// Interval at which a new pool looks whether that segment has its space.
const SPACE_LOOK_NS: Nanoseconds = 20_000;

pub(crate) struct Keeper {
    ledger: SharedLedger,
    unsettled: Unsettled,
    shards: u32,
    /// Records stamped since the floors rose.
    stamped: u64,
    /// Whether this server has the only copies. Otherwise the node settles records.
    is_alone: bool,
    /// Versions that the counter gave to no record, since other nodes may have given them, or since it gave them to the
    /// drop of a shard. A settled version is forgotten.
    left_out: Vec<(u64, u64)>,
    /// The last change that named a version without a record.
    skipped_at: Change,
    /// The number of ranges of void versions at which the keeper looks which of them have a record left.
    ranges_max: usize,
}

impl Keeper {
    /// Begins to lead all `shards` with the records that recovery found, which are durable.
    /// `is_whole` says that the scan left nothing out. The counter has given the versions up to
    /// `given`. The caller [persists](Self::ledger) the ledger before a record is stamped.
    pub fn lead_all(
        ledger: SharedLedger,
        (mut history, is_whole): (History, bool),
        (shards, given): (u32, u64),
    ) -> Self {
        // A segment may name a version that no record and no row has: the history of later records
        // does not end at that version.
        history.given = history.given.max(given);
        ledger.change(|ledger| history.note_end_in(ledger.versions_mut()));
        let mut keeper = Self {
            unsettled: Unsettled::of(&history),
            ledger,
            shards,
            stamped: 0,
            is_alone: true,
            left_out: Vec::new(),
            skipped_at: Change::default(),
            ranges_max: 0,
        };
        keeper.raise_floors(given);
        if is_whole {
            // Only ranges that are settled are forgotten: a ledger without room for this opening could not be written.
            let forget = |ledger: &mut Ledger| history.note_in(ledger.versions_mut());
            keeper.ledger.change(forget);
        }
        keeper.ledger.change(|ledger| {
            for shard in 0..shards {
                let mut lineage = lineage_of(ledger, shard);
                lineage.term = Epoch(lineage.term.0 + 1);
                let term = lineage.term;
                ledger.keep(shard, lineage, given);
                ledger.versions_mut().lead(shard, term, given);
            }
        });
        keeper
    }

    /// Begins with the records that recovery found, for a node, which decides whether they count. The caller
    /// [persists](Self::ledger) the ledger before a record is stamped, and before a record that never counts is sealed.
    pub fn of_node(ledger: SharedLedger, history: &History, (shards, given): (u32, u64)) -> Self {
        let mut noted = history.clone();
        noted.given = noted.given.max(given);
        ledger.change(|ledger| noted.note_in(ledger.versions_mut()));
        Self {
            unsettled: Unsettled::of(&noted),
            ledger,
            shards,
            stamped: 0,
            is_alone: false,
            left_out: Vec::new(),
            skipped_at: Change::default(),
            ranges_max: 0,
        }
    }

    /// Keeps `lineage` as the history of `shard`.
    pub fn keep(&mut self, shard: u32, lineage: Lineage) {
        let Self {
            ledger,
            unsettled,
            left_out,
            ..
        } = self;
        ledger.change(|ledger| {
            // The history cuts off no record of the shard above the last one that is stamped and not settled.
            ledger.keep(shard, lineage, unsettled.newest_of(shard));
            let settled = unsettled.settled(ledger.lineages(), ledger.versions());
            let versions = ledger.versions_mut();
            versions.settle(settled);
            left_out.retain(|&(first, last)| {
                let stays = last > settled;
                if !stays {
                    versions.forget_skipped(first, last);
                }
                stays
            });
        });
    }

    /// Notes that the node drops its copy of `shard`, and the counter has given `version` to the
    /// drop.
    pub fn drop_shard(&mut self, shard: u32, version: u64) {
        self.ledger.change(|ledger| {
            let dropped = lineage_of(ledger, shard).dropped();
            ledger.drop_shard(shard, dropped, version);
        });
        self.left_out.push((version, version));
        self.skipped_at = self.ledger.changed();
    }

    /// Forgets the ranges of void versions without a record in the log, if there are more ranges than before. `space`
    /// knows the versions that its segments have.
    pub fn forget_unreached(&mut self, space: &Space) {
        if self.ledger.read(|ledger| ledger.versions().ranges()) <= self.ranges_max {
            return;
        }
        let ranges = self.ledger.change(|ledger| {
            let versions = ledger.versions_mut();
            versions.forget_unreached(|first, last| space.reaches(first, last));
            versions.ranges()
        });
        self.ranges_max = ranges + RANGES_TOGETHER;
    }

    /// Notes that the node leads `shard` in `term`. The counter would have given the version `next`, and continues
    /// above `last`, the end of the history.
    pub fn lead(&mut self, shard: u32, term: Term, (next, last): (u64, u64)) {
        self.ledger.change(|ledger| {
            let versions = ledger.versions_mut();
            if last >= next {
                versions.skip(next, last);
            }
            versions.lead(shard, term, last.max(next - 1));
        });
        if last >= next {
            self.left_out.push((next, last));
            self.skipped_at = self.ledger.changed();
        }
    }

    /// The ledger, if it names a version without a record and is not durable.
    pub(super) fn with_new_skips(&self) -> Option<SharedLedger> {
        (self.ledger.durable() < self.skipped_at).then(|| self.ledger.clone())
    }

    /// The ledger. Its changes in memory are durable after [`SharedLedger::persist`].
    pub fn ledger(&self) -> &SharedLedger {
        &self.ledger
    }

    /// Every record up to this version is settled, durably once the ledger is.
    pub fn settled(&self) -> u64 {
        self.ledger.read(|ledger| ledger.versions().settled())
    }

    /// Whether the record of `shard` with this `header` never counts, and so is not moved.
    pub fn is_void(&self, shard: u32, header: &RecordHeader) -> bool {
        let verdict = |ledger: &Ledger| {
            let versions = ledger.versions();
            match header.moved_at() {
                Some(moved_at) => versions.judge_moved(shard, moved_at),
                None => versions.judge(shard, header.sequence()),
            }
        };
        self.ledger.read(verdict) == OwnVerdict::Void
    }

    /// Notes a record that was stamped.
    pub fn note_stamped(&mut self, version: u64, shard: u32) {
        self.unsettled.note(version, shard);
        self.stamped += 1;
    }

    /// Settles everything in memory: all versions up to `given` are published.
    pub fn settle(&mut self, given: u64) {
        if self.stamped > 0 {
            self.stamped = 0;
            self.raise_floors(given);
        }
    }

    fn raise_floors(&mut self, given: u64) {
        let Self {
            ledger,
            unsettled,
            shards,
            ..
        } = self;
        ledger.change(|ledger| {
            for shard in 0..*shards {
                let mut lineage = lineage_of(ledger, shard);
                lineage.floor = Point {
                    term: lineage.term,
                    version: given,
                };
                ledger.keep(shard, lineage, given);
            }
            let settled = unsettled.settled(ledger.lineages(), ledger.versions());
            ledger.versions_mut().settle(settled);
        });
    }

    /// Raises the floors of all shards to the version `last` if that is due: after many records, and before the cleaner
    /// `chooses` a segment. Returns the settled version, with the ledger, which the caller persists.
    pub fn settle_if_due(&mut self, last: u64, chooses: bool) -> Option<(u64, SharedLedger)> {
        let is_due = self.stamped >= SETTLED_TOGETHER || self.stamped > 0 && chooses;
        if !self.is_alone || !is_due {
            return None;
        }
        self.settle(last);
        Some((self.settled(), self.ledger.clone()))
    }
}

fn lineage_of(ledger: &Ledger, shard: u32) -> Lineage {
    let known = ledger.lineages().of(shard);
    known.cloned().unwrap_or_default()
}

/// Gives a new pool of a cluster the segment of its ledger. Nothing was ever stamped in the pool. A crash leaves a free
/// segment, a blank one without a header, or the segment with an empty ledger.
pub(super) async fn make_home(
    pool: &Pool,
    commit: &Commit,
    runtime: &Rc<dyn Runtime>,
    ledger: &mut Ledger,
) -> Result<SegmentState, StoreError> {
    let (log, format) = (pool.log(), LogFormat::of(pool));
    let whole = Span::new(format.position(FIRST_HOME, 0), format.segment_size);
    while pool.backing().prepare(whole)? == Prepared::Pending {
        runtime.sleep(SPACE_LOOK_NS).await;
    }
    let mut turn = Turn::to_appends(FIRST_HOME, None, Heritage::default());
    loop {
        match turn.step(&*log, &format, &NoEntries, ledger)? {
            Turned::Persist(spans) => {
                let persisted = commit.persist(&*log, &spans).await;
                let _durable: Persisted = persisted.map_err(MediaError::from)?;
            }
            Turned::Done(state) => return Ok(state),
        }
    }
}

/// No appender has written to a new pool.
struct NoEntries;

impl EntryFormat for NoEntries {
    fn header(&self, _: &[u8; UNIT_SIZE as usize]) -> Option<EntryFacts> {
        None
    }

    fn is_whole(&self, _: &[u8]) -> bool {
        false
    }
}
