//! Recovery turns the pool that a crash left into a state that can be served.
//!
//! 1. `survey.rs` reads checkpoint and log into the indexes, and changes nothing.
//! 2. The rest of each torn batch is made void (`batches.rs`). The records found, and the whole copies of damaged
//!    headers, are persisted. Then the records are sealed and the headers mended, and these changes are persisted,
//!    before there is any appender.
//! 3. The witness of each segment is stored in its neighbour (`space/witnesses.rs`) and persisted.
//!
//! A crash during recovery does no harm: seals only repeat the result of a scan, and a witness is true before it is
//! stored. If the log may lack records that witnesses vouch for, no witness is believed until [`Pool::recovered`].

mod batches;
pub(crate) mod checkpoint;
pub(crate) mod missing;
pub(crate) mod own;
pub(crate) mod rebuild;
mod report;
pub(crate) mod survey;
mod surveyor;
pub(crate) mod verify;

use std::collections::BTreeSet;
use std::rc::Rc;

use stonecast_backup::SharedLedger;
use stonecast_base::{Corruption, Span, mutant};
use stonecast_fabric::Runtime;
use stonecast_log::{Heritage, History, LogFormat, SegmentState, Witness, mend_header};
use stonecast_media::{Blob, MediaError, PersistentRegion, Pool, RecordFeature, Region};
use stonecast_persist::Persisted;
use stonecast_persist::execute::Commit;

use crate::error::StoreError;
use crate::server::keeper::{Keeper, make_home};
use crate::server::recovery::own::{OwnFacts, slots};
use crate::server::recovery::rebuild::Rebuilt;
use crate::server::recovery::survey::{
    Appended, Basis, SEGMENT_START_SIZE, Survey, keys_of, lacks_what_was_told, survey,
};
use crate::server::recovery::surveyor::Surveyor;
use crate::server::shard::keys::Keys;
use crate::server::space::{Space, Witnesses};

pub use report::RecoveryReport;

/// A pool ready to be served.
pub(crate) struct Recovered {
    pub format: LogFormat,
    /// The keys of each shard, by its number.
    pub keys: Vec<Keys>,
    pub space: Space,
    pub next_sequence: u64,
    /// The keeper of a pool of a cluster.
    pub keeper: Option<Keeper>,
    /// The records that this node has stamped, in a pool of a cluster.
    pub history: History,
    /// The segments that other nodes' appends fill.
    pub appended: Vec<SegmentState>,
    /// Proof that every recovered record and every seal is persisted, so that others may follow them.
    pub sealed: Persisted,
}

/// The role of a server for the copies of its shards.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// The server has the only copies.
    Alone,
    /// The server is a node, and other nodes have copies.
    Node,
}

/// The surveyor of an opening: damage that no crash explains ends the opening.
struct Opening;

impl Surveyor for Opening {
    fn refuse(&mut self, _: u32, corruption: Corruption) -> Result<(), Corruption> {
        Err(corruption)
    }
}

/// Recovers `pool`, and returns the state with which the server begins. `is_shared`: clients will
/// change words of the index.
pub(crate) async fn recover(
    pool: &Pool,
    (commit, runtime): (&Commit, &Rc<dyn Runtime>),
    is_shared: bool,
    role: Role,
) -> Result<(Recovered, RecoveryReport), StoreError> {
    let format = LogFormat::of(pool);
    let log = pool.log();
    let survey = survey_copy(pool, is_shared, role)?;
    let mut report = survey.report();
    // A new pool is clean, too.
    report.lacks_checkpoint = pool.was_clean() && !survey.has_checkpoint && report.records > 0;
    let unsettled = survey.unsettled(&format);
    let Survey {
        rebuilt,
        segments,
        appended,
        own,
        occupied,
        torn,
        ..
    } = survey;
    let mut segments: Vec<SegmentState> = segments.into_iter().map(|(state, _)| state).collect();
    let file = pool.backing().name();
    batches::make_void(&torn, &mut segments, (&*log, &format, &file))?;
    let Rebuilt {
        mut keys,
        sequence_max,
        occupancy,
    } = rebuilt;
    // Records that were taken back have used their sequences, too.
    let mut sequence_max = sequence_max.max(report.sequence_max);
    let has_chunks = pool.record_features().has(RecordFeature::Chunks);
    let count = |keys: &Keys| keys.count(&*log, keys_of(pool), has_chunks);
    report.keys = keys.iter().map(count).sum();
    if !pool.was_clean() {
        let ledger = own.as_ref().and_then(|own| slots(&own.ledger, &format));
        mark_doubtful(&*log, &format, (&segments, ledger), &occupied);
    }
    let found = commit.persist(&*log, &unsettled).await;
    let found = found.map_err(MediaError::from)?;
    let heritage = heritage_of(&segments, &appended);
    sequence_max = sequence_max.max(heritage.sequence_floor);
    if !report.used_checkpoint {
        // A valid checkpoint contains all tokens since its own horizon: no segment was freed after the checkpoint.
        for keys in &mut keys {
            keys.outcomes.forget_up_to(heritage.tokens_lost);
        }
    }
    let given = own.as_ref().map_or(0, |own| own.history.given);
    let next_sequence = next_sequence(pool, sequence_max.max(given));
    // The ledger says which records never count, and it is durable before a seal that has them: such a seal would prove
    // that they were durable.
    let (keeper, history, home) = keep(
        pool,
        (commit, runtime),
        own,
        &appended,
        (role, next_sequence),
    )
    .await?;
    let in_use = (&mut segments[..], &appended[..]);
    let (witnesses, sealed) = seal(pool, commit, in_use, &occupied, &found).await?;
    let mut appended: Vec<SegmentState> = appended.into_iter().map(|found| found.state).collect();
    appended.extend(home);
    let mut space = Space::new(pool.backing(), &*log, segments, occupancy, witnesses);
    space.hold_for_appends(&appended);
    if let Some(keeper) = &keeper {
        space.set_settled(keeper.settled());
    }
    if keeper.is_some() {
        note_reach(&mut space, &history, !report.used_checkpoint);
    }
    if role == Role::Node {
        note_unsettled(&mut space, &format, &history);
        forget_outcomes_of_copies(&mut keys, keeper.as_ref());
    }
    let recovered = Recovered {
        format,
        keys,
        space,
        next_sequence,
        keeper,
        history,
        appended,
        sealed,
    };
    Ok((recovered, report))
}

/// Surveys the pool, unless records that other nodes rely on may be gone. Changes nothing but a checkpoint that no
/// opening of this power cycle may believe.
fn survey_copy(pool: &Pool, is_shared: bool, role: Role) -> Result<Survey, StoreError> {
    refuse_lost_copy(pool)?;
    if lacks_what_was_told(pool) {
        // A later opening in this power cycle may not believe the checkpoint either.
        pool.backing().store(Blob::Checkpoint, &[])?;
    }
    let basis = match role {
        Role::Alone => Basis::Checkpoint,
        Role::Node => Basis::Settled,
    };
    survey(pool, is_shared, basis, &mut Opening)
}

/// The facts that all segments in use have inherited.
fn heritage_of(segments: &[SegmentState], appended: &[Appended]) -> Heritage {
    let told = appended.iter().map(|found| &found.state);
    let used = segments.iter().chain(told);
    used.fold(Heritage::default(), |all, state| all.and(state.heritage))
}

/// Notes which versions of this node each segment has. Without a scan of the whole log, each segment may have any.
fn note_reach(space: &mut Space, history: &History, is_whole: bool) {
    let reach: Vec<_> = match is_whole {
        true => history
            .reach
            .iter()
            .map(|(&number, &reach)| (number, Some(reach)))
            .collect(),
        false => space
            .states()
            .map(|(state, _)| (state.number, None))
            .collect(),
    };
    for (number, reach) in reach {
        space.note_reach(number, reach);
    }
}

/// Notes the records that the node has stamped and that are not settled: their segments are not cleaned.
fn note_unsettled(space: &mut Space, format: &LogFormat, history: &History) {
    for link in history.chains.values().flatten() {
        let (number, _) = format.locate(link.position);
        space.note_unsettled(number as u32, link.version);
    }
}

/// Forgets outcomes up to the floor of each copy: outcomes that came to a copy in pages are in no record, so they may
/// be missing.
fn forget_outcomes_of_copies(keys: &mut [Keys], keeper: Option<&Keeper>) {
    let Some(keeper) = keeper else {
        return;
    };
    keeper.ledger().read(|ledger| {
        for (shard, lineage) in ledger.lineages().iter() {
            if let Some(keys) = keys.get_mut(shard as usize)
                && !lineage.is_dropped()
            {
                keys.outcomes.forget_up_to(lineage.floor.version);
            }
        }
    });
}

/// The sequence of the next record, after `highest`.
fn next_sequence(pool: &Pool, highest: u64) -> u64 {
    // Versions that were acknowledged and lost by a power cycle are not given to other values.
    let lost_versions = match lacks_what_was_told(pool) {
        true => LOST_VERSIONS,
        false => 0,
    };
    highest + lost_versions + u64::from(!mutant!(VersionGivenTwice) || highest == 0)
}

/// If records may be gone, recovery does not complete a pool of a cluster from the remaining
/// records: other nodes rely on the reports of this node.
fn refuse_lost_copy(pool: &Pool) -> Result<(), StoreError> {
    let reason = match pool.cluster_seed() {
        Some(_) if pool.was_copied() => "is a copy that was made while the pool was served",
        Some(_) if lacks_what_was_told(pool) => {
            "does not survive the power loss since its last run"
        }
        _ => return Ok(()),
    };
    Err(StoreError::CopyLost { reason })
}

/// In a pool of a cluster, makes the next ledger durable: a server that is alone settles the records found, which are
/// durable, and begins to lead all shards; a node notes where the history ends. Returns the segment of the ledger if
/// the pool is new.
async fn keep(
    pool: &Pool,
    (commit, runtime): (&Commit, &Rc<dyn Runtime>),
    own: Option<OwnFacts>,
    appended: &[Appended],
    (role, next_sequence): (Role, u64),
) -> Result<(Option<Keeper>, History, Option<SegmentState>), StoreError> {
    let Some(OwnFacts {
        mut ledger,
        history,
        is_whole,
    }) = own
    else {
        return Ok((None, History::default(), None));
    };
    let number = ledger.home();
    let mut appended = appended.iter().map(|found| found.state);
    let home = appended.find(|state| Some(state.number) == number);
    let (home, new) = match home {
        Some(home) => (home, None),
        None => {
            let home = make_home(pool, commit, runtime, &mut ledger).await?;
            (home, Some(home))
        }
    };
    let (log, format) = (pool.log(), LogFormat::of(pool));
    let led = (pool.shards(), next_sequence - 1);
    let ledger = SharedLedger::new(ledger, Some(home), (log, format), commit.clone());
    let keeper = match role {
        Role::Alone => Keeper::lead_all(ledger, (history.clone(), is_whole), led),
        Role::Node => Keeper::of_node(ledger, &history, led),
    };
    keeper.ledger().persist().await?;
    Ok((Some(keeper), history, new))
}

/// Seals the records found, which are durable, and mends headers, then stores the witnesses. Each step begins when the
/// step before is persisted. Returns the proof that everything is durable.
async fn seal(
    pool: &Pool,
    commit: &Commit,
    (segments, appended): (&mut [SegmentState], &[Appended]),
    occupied: &[Span],
    found: &Persisted,
) -> Result<(Witnesses, Persisted), MediaError> {
    let (log, format) = (pool.log(), LogFormat::of(pool));
    let mut settled = settle(segments, &*log, &format, found);
    for found in appended.iter().filter(|found| found.header_damaged) {
        settled.extend(mend_header(&*log, &format, &found.state));
    }
    let mut sealed = commit.persist(&*log, &settled).await?;
    let mut witnesses = Witnesses::new(pool.backing(), &*log, format);
    let appended = appended.iter().map(|found| found.state);
    let told: Vec<SegmentState> = segments.iter().copied().chain(appended).collect();
    let renewed = witnesses.renew(&*log, &told, occupied, &sealed);
    if !renewed.is_empty() {
        sealed = commit.persist(&*log, &renewed).await?;
    }
    Ok((witnesses, sealed))
}

/// Marks bytes as changed that look durable although their sync may have failed after the death of the server that
/// requested the sync. Bytes below a seal were synced before. Holes were never written, and are not touched: a store to
/// a hole would end the server on a full disk.
fn mark_doubtful(
    log: &dyn PersistentRegion,
    format: &LogFormat,
    (segments, ledger): (&[SegmentState], Option<Span>),
    occupied: &[Span],
) {
    let starts = segments
        .iter()
        .map(|state| Span::new(format.position(state.number, 0), SEGMENT_START_SIZE));
    let unsealed = segments.iter().filter_map(|state| state.unsealed(format));
    let doubtful = starts.chain(unsealed).chain(ledger).flat_map(|span| {
        let data = occupied.iter();
        data.filter_map(move |data| data.overlap(span))
    });
    log.mark_changed(&doubtful.collect::<Vec<_>>());
}

/// Seals the records found, which are durable: a seal must not cover records that a later crash may take. Returns the
/// spans to persist.
fn settle(
    segments: &mut [SegmentState],
    log: &dyn Region,
    format: &LogFormat,
    _: &Persisted,
) -> Vec<Span> {
    if mutant!(SettledNotPersisted) {
        segments.iter_mut().for_each(|state| {
            state.settle(log, format);
        });
        return Vec::new();
    }
    let used: BTreeSet<u32> = segments.iter().map(|state| state.number).collect();
    // The witnesses that an earlier run kept in segments in use are persisted with the headers; the others are not yet.
    let told = used
        .iter()
        .map(|&number| (number, Witness::keeper(format, number)));
    let elsewhere = told.filter(|(_, keeper)| !used.contains(keeper));
    let lines = elsewhere.map(|(number, _)| Witness::line(format, number));
    let settled = segments
        .iter_mut()
        .flat_map(|state| state.settle(log, format));
    settled.chain(lines).collect()
}

/// More versions than a run can have given out before a power cut lost them: a thousand million commits.
const LOST_VERSIONS: u64 = 1 << 30;
