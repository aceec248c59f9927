//! The survey of a pool, which an opening makes before it changes anything: reads checkpoint and log into an index for
//! each shard.
//!
//! 1. The checkpoint, if it is whole and no segment was freed since, gives the indexes and the ends of the segments as
//!    they were when it was taken.
//! 2. Each segment is scanned from there on; the records found go into the indexes.
//! 3. The records found in a segment are compared with the word that its neighbour has of it: a segment can be lost
//!    whole.
//!
//! Recovery continues from here, and a check of a pool that is not served ends here, so both read a pool by the same
//! rules.

use stonecast_base::{Corruption, Span, mutant};
use stonecast_log::{
    History, Ledger, LogFormat, SEGMENT_HEADER_UNITS, ScanPolicy, SegmentReport, SegmentState,
    SegmentVerdict, UNIT_SIZE, Visitor, Witness, check_witness, generation_of, scan_segment,
};
use stonecast_media::{Blob, Durability, Pool, Region};

use crate::error::StoreError;
use crate::index::Index;
use crate::server::keeper::FIRST_HOME;
use crate::server::recovery::batches::{Batches, Torn};
use crate::server::recovery::checkpoint::{Checkpoint, Image};
use crate::server::recovery::own::{OwnFacts, OwnVisitor, read_ledger, slots, without_home};
use crate::server::recovery::rebuild::{Rebuild, Rebuilt};
use crate::server::recovery::report::RecoveryReport;
use crate::server::recovery::surveyor::Surveyor;
use crate::server::shard::keys::Keys;
use crate::wire::KeyMap;

/// The source of the indexes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Basis {
    /// The checkpoint, if it counts, and the records appended since.
    Checkpoint,
    /// Every record of the log, without a checkpoint.
    LogAlone,
    /// Every record of the log at or below the floor of its shard. A node has a say in the others.
    Settled,
}

/// Bytes of a segment that hold its header and seals.
pub(super) const SEGMENT_START_SIZE: u64 = SEGMENT_HEADER_UNITS as u64 * UNIT_SIZE;

/// The findings of a survey.
pub(crate) struct Survey {
    pub rebuilt: Rebuilt,
    /// The segments in use that are not refused.
    pub segments: Vec<(SegmentState, SegmentReport)>,
    /// The segments that other nodes' appends fill.
    pub appended: Vec<Appended>,
    /// The content of the ledger; `None`: the pool belongs to no cluster.
    pub own: Option<OwnFacts>,
    /// Whether there is a checkpoint, believed or not.
    pub has_checkpoint: bool,
    /// Whether a checkpoint gave the indexes.
    pub used_checkpoint: bool,
    /// The reason why the checkpoint is not believed, if the checkpoint is damaged.
    pub checkpoint_damage: Option<Corruption>,
    /// The parts of the log that are not holes.
    pub occupied: Vec<Span>,
    /// The records of batches that are not whole, and do not count.
    pub torn: Vec<Torn>,
}

/// A segment that other nodes' appends fill.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Appended {
    pub state: SegmentState,
    /// Whether a copy of its header is missing.
    pub header_damaged: bool,
}

/// The findings of a scan of all segments.
#[derive(Default)]
struct Scanned {
    segments: Vec<(SegmentState, SegmentReport)>,
    appended: Vec<Appended>,
    torn: Vec<Torn>,
}

impl Scanned {
    fn note(&mut self, verdict: SegmentVerdict) {
        match verdict {
            SegmentVerdict::Free { .. } => {}
            SegmentVerdict::Used(state, report) => self.segments.push((state, report)),
            SegmentVerdict::Appended {
                state,
                header_damaged,
            } => self.appended.push(Appended {
                state,
                header_damaged,
            }),
        }
    }
}

/// The witness that is true of a segment, if any.
fn witness_of(verdict: &SegmentVerdict) -> Option<Witness> {
    let (generation, unit) = match verdict {
        SegmentVerdict::Free { .. } => return None,
        SegmentVerdict::Used(state, report) => (state.generation, report.whole_end),
        SegmentVerdict::Appended { state, .. } => (state.generation, SEGMENT_HEADER_UNITS),
    };
    Some(Witness { generation, unit })
}

impl Survey {
    /// The report of an opening that made this survey.
    pub fn report(&self) -> RecoveryReport {
        let mut report = RecoveryReport {
            used_checkpoint: self.used_checkpoint,
            repairs: self.checkpoint_damage.clone().into_iter().collect(),
            ..RecoveryReport::default()
        };
        for (_, found) in &self.segments {
            report.records += found.records;
            report.sequence_max = report.sequence_max.max(found.sequence_max);
            report.bytes_scanned += found.bytes_scanned;
            report.torn_tails += u64::from(found.torn_tail.is_some());
            report.lost += found.missing;
        }
        report.torn_of_batches = self.torn.len() as u64;
        report.headers_repaired = self.damaged_headers().count() as u64;
        report
    }

    /// The segments of every purpose that lack a copy of the header.
    pub fn damaged_headers(&self) -> impl Iterator<Item = &SegmentState> {
        let of_records = self.segments.iter();
        let of_records = of_records.map(|(state, found)| (state, found.header_damaged));
        let of_appends = self.appended.iter();
        let of_appends = of_appends.map(|found| (&found.state, found.header_damaged));
        let all = of_records.chain(of_appends);
        all.filter_map(|(state, is_damaged)| is_damaged.then_some(state))
    }

    /// The spans that an opening persists before it changes anything. If only a process has died, records that no seal
    /// covers may never have been persisted, nor the whole copy of a damaged header. A power cut during the repair
    /// would then destroy this copy together with the copy that is being written.
    pub fn unsettled(&self, format: &LogFormat) -> Vec<Span> {
        let headers = self
            .damaged_headers()
            .map(|state| Span::new(format.position(state.number, 0), SEGMENT_START_SIZE));
        let of_records = self.segments.iter();
        let records = of_records.filter_map(|(state, _)| state.unsealed(format));
        let ledger = self.own.as_ref().and_then(|own| slots(&own.ledger, format));
        records.chain(headers).chain(ledger).collect()
    }
}

/// The division of the keys of `pool` among its shards.
pub(crate) fn keys_of(pool: &Pool) -> KeyMap {
    KeyMap {
        seed: pool.cluster_seed().unwrap_or(pool.tag_key()),
        shards: pool.shards(),
    }
}

/// After a power cycle a pool that never synced may have lost any written record, even those that a checkpoint knows.
fn was_unsynced(pool: &Pool) -> bool {
    pool.durability() == Durability::Process && !pool.same_power_cycle()
}

/// Whether the log may lack records that were acknowledged, with a checkpoint of another moment: after a power cycle of
/// a pool that need only survive processes, or in a copy of a pool that was served meanwhile.
pub(crate) fn lacks_what_was_told(pool: &Pool) -> bool {
    was_unsynced(pool) || pool.was_copied()
}

/// Bytes of the log that a key takes at least, as a guess from which the index starts: if keys take more, its table is
/// made again afterwards.
const BYTES_PER_KEY: u64 = 256;

/// log2 of the buckets from which the index of each of `shards` shards starts.
fn bits_for(occupied: &[Span], shards: u32) -> u32 {
    let bytes: u64 = occupied.iter().map(|span| span.size).sum();
    Index::bits_for(bytes / BYTES_PER_KEY / u64::from(shards))
}

/// Whether any of `occupied` touches `part`.
fn is_occupied(occupied: &[Span], part: Span) -> bool {
    occupied.iter().any(|span| span.overlap(part).is_some())
}

/// Whether no segment was freed since a checkpoint was taken that knows the segments `known`: otherwise its words may
/// name records that are gone. The scan judges a header that is lost.
fn fits(log: &dyn Region, format: &LogFormat, known: &[SegmentState]) -> bool {
    let mut expected = vec![1; format.segment_count as usize];
    known
        .iter()
        .for_each(|state| expected[state.number as usize] = state.generation);
    let is_as_known = |(number, expected): (u32, u32)| {
        generation_of(log, format, number).is_none_or(|generation| generation <= expected)
    };
    (0..).zip(expected).all(is_as_known) || mutant!(StaleCheckpointBelieved)
}

/// Surveys `pool` and changes nothing. `is_shared`: clients will change words of the index.
pub(crate) fn survey(
    pool: &Pool,
    is_shared: bool,
    basis: Basis,
    surveyor: &mut dyn Surveyor,
) -> Result<Survey, StoreError> {
    let (format, keys) = (LogFormat::of(pool), keys_of(pool));
    let (backing, log) = (pool.backing(), pool.log());
    let bytes = match basis {
        Basis::Checkpoint if !lacks_what_was_told(pool) => backing.load(Blob::Checkpoint)?,
        Basis::Checkpoint | Basis::LogAlone | Basis::Settled => None,
    };
    let bytes = bytes.filter(|bytes| !bytes.is_empty());
    let (image, checkpoint_damage) = match bytes
        .as_deref()
        .map(|bytes| Image::parse(bytes, &format, keys.shards))
    {
        Some(Ok(image)) => (Some(image), None),
        Some(Err(damage)) => (None, Some(damage)),
        None => (None, None),
    };
    let ledger = read_ledger(pool, surveyor)?;
    let occupied = backing.occupied()?;
    let bits = match &image {
        Some(image) => image.index_bits(),
        None => vec![bits_for(&occupied, keys.shards); keys.shards as usize],
    };
    let empty = |bits| Keys::empty(&*backing, (bits, is_shared), keys.shards);
    let shards: Result<Vec<_>, _> = bits.into_iter().map(empty).collect();
    let mut shards = shards?;
    // The history has to be complete above the settled version, so a checkpoint may stand for settled records alone.
    let is_settled = |image: &Image<'_>| {
        let settled = ledger.as_ref().map(|ledger| ledger.versions().settled());
        settled.is_none_or(|settled| image.sequence() <= settled)
    };
    let image = image
        .filter(|image| fits(&*log, &format, &image.segments()))
        .filter(is_settled);
    let used_checkpoint = image.is_some();
    let mut checkpoint = image.map_or_else(Checkpoint::default, |image| image.restore(&mut shards));
    let known = std::mem::take(&mut checkpoint.segments);
    let mut rebuild = Rebuild::new(
        backing.clone(),
        log.clone(),
        (&format, keys),
        (shards, is_shared),
        checkpoint,
    );
    let left = (&known[..], &occupied[..]);
    let judge = ledger.map(|ledger| Judge {
        ledger,
        is_whole: !used_checkpoint,
        is_alone: basis != Basis::Settled,
    });
    let (scanned, own) = scan_own(pool, left, judge, &mut rebuild, surveyor)?;
    let Scanned {
        segments,
        appended,
        torn,
    } = scanned;
    Ok(Survey {
        rebuilt: rebuild.finish()?,
        segments,
        appended,
        own,
        has_checkpoint: bytes.is_some(),
        used_checkpoint,
        checkpoint_damage,
        occupied,
        torn,
    })
}

/// The rule by which records of a pool of a cluster count.
struct Judge {
    ledger: Ledger,
    /// Whether no checkpoint stands for a part of the log.
    is_whole: bool,
    /// Whether the records above the floors of their shards count, too.
    is_alone: bool,
}

/// Scans all segments.
fn scan_own(
    pool: &Pool,
    left: (&[SegmentState], &[Span]),
    judge: Option<Judge>,
    rebuild: &mut Rebuild,
    surveyor: &mut dyn Surveyor,
) -> Result<(Scanned, Option<OwnFacts>), StoreError> {
    let Some(Judge {
        ledger,
        is_whole,
        is_alone,
    }) = judge
    else {
        let scanned = scan_whole_batches(pool, left, rebuild, surveyor)?;
        return Ok((scanned, None));
    };
    let keys = keys_of(pool);
    let shard_of = |form, key: &[u8]| keys.route_of(form, key).shard;
    let format = LogFormat::of(pool);
    let mut judged = OwnVisitor::new(&format, &ledger, &shard_of, rebuild);
    // The versions of a torn batch are missing, so the history ends before it.
    let mut scanned = match mutant!(TornOwnBatchCounts) {
        true => scan_all(pool, left, &mut judged, surveyor)?,
        false => scan_whole_batches(pool, left, &mut judged, surveyor)?,
    };
    if ledger.home().is_none() && scanned.appended.is_empty() {
        // The first opening makes the home of the ledger before anything is stamped. A crash in between leaves a blank
        // segment, which that opening had begun to turn, and the next opening begins again.
        scanned.segments.retain(|(state, _)| !state.is_blank());
        if !scanned.segments.is_empty() {
            surveyor.refuse(FIRST_HOME, without_home(pool))?;
        }
    }
    let used = scanned.segments.iter().map(|(state, _)| state);
    let states = used.chain(scanned.appended.iter().map(|found| &found.state));
    let history = match judged.finish(&ledger, states, &pool.backing().name(), is_alone) {
        Ok(history) => history,
        Err(corruption) => {
            let (number, _) = format.locate(corruption.offset);
            surveyor.refuse(number as u32, corruption)?;
            History::default()
        }
    };
    let own = OwnFacts {
        ledger,
        history,
        is_whole,
    };
    Ok((scanned, Some(own)))
}

/// Scans as [`scan_all`] does, and passes on only the records of whole batches.
fn scan_whole_batches<V: Visitor>(
    pool: &Pool,
    left: (&[SegmentState], &[Span]),
    visitor: &mut V,
    surveyor: &mut dyn Surveyor,
) -> Result<Scanned, StoreError> {
    let mut batches = Batches::new(pool.log(), visitor);
    let mut scanned = scan_all(pool, left, &mut batches, surveyor)?;
    scanned.torn = batches.finish();
    Ok(scanned)
}

/// Scans all segments into `visitor`, from where a checkpoint has them in `known`. Returns the
/// segments in use that are not refused.
/// `occupied` are the parts of the log that are not holes.
fn scan_all(
    pool: &Pool,
    (known, occupied): (&[SegmentState], &[Span]),
    visitor: &mut dyn Visitor,
    surveyor: &mut dyn Surveyor,
) -> Result<Scanned, StoreError> {
    let (log, format) = (pool.log(), LogFormat::of(pool));
    let policy = ScanPolicy {
        tolerate_missing: was_unsynced(pool),
    };
    let believes_witnesses = !lacks_what_was_told(pool);
    let name = pool.backing().name();
    let mut all = Scanned::default();
    for number in 0..format.segment_count {
        surveyor.progress(format.position(number, 0));
        let from = known.iter().find(|state| state.number == number);
        let whole = Span::new(format.position(number, 0), format.segment_size);
        let is_hole = from.is_none() && !is_occupied(occupied, whole);
        if mutant!(StaleCheckpointBelieved)
            && let Some(known) = from
        {
            all.segments.push((*known, SegmentReport::default()));
            continue;
        }
        let scanned = match is_hole {
            true => Ok(SegmentVerdict::Free { torn_header: false }),
            false => scan_segment(&*log, &format, &name, number, from, policy, visitor),
        };
        let vouched = scanned.and_then(|verdict| {
            let found = witness_of(&verdict);
            if believes_witnesses && is_occupied(occupied, Witness::line(&format, number)) {
                check_witness(&*log, &format, &name, number, found)?;
            }
            Ok(verdict)
        });
        match vouched {
            Ok(verdict) => all.note(verdict),
            Err(corruption) => surveyor.refuse(number, corruption)?,
        }
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use std::rc::Rc;

    use stonecast_log::{EntryFacts, EntryFormat, Heritage, Ledger, SegmentState, Turn, Turned};
    use stonecast_media::{
        Ddio, DeclaredPlatform, DirectoryBacking, PersistenceDomain, PoolOptions, ReceiveBuffers,
    };

    use super::*;
    use crate::server::space::{Purpose, Space, Taken, Witnesses};

    struct NoEntries;

    impl EntryFormat for NoEntries {
        fn header(&self, _: &[u8; UNIT_SIZE as usize]) -> Option<EntryFacts> {
            None
        }
        fn is_whole(&self, _: &[u8]) -> bool {
            false
        }
    }

    struct Strict;

    impl Surveyor for Strict {
        fn refuse(&mut self, _: u32, corruption: Corruption) -> Result<(), Corruption> {
            Err(corruption)
        }
    }

    fn pool(directory: &std::path::Path) -> Pool {
        let backing = DirectoryBacking::create(directory).unwrap();
        let options = PoolOptions {
            capacity: 2 << 20,
            segment_size: 256 << 10,
            shards: 1,
            cluster_seed: None,
            platform: DeclaredPlatform {
                persistence_domain: PersistenceDomain::Volatile,
                ddio: Ddio::On,
                receive_buffers: ReceiveBuffers::Dram,
            },
            durability: Durability::Process,
            entropy: [3; 64],
        };
        Pool::create(Rc::new(backing), options).unwrap()
    }

    fn turn_to_appends(pool: &Pool, number: u32) -> SegmentState {
        let mut turn = Turn::to_appends(number, None, Heritage::default());
        let mut ledger = Ledger::default();
        loop {
            let step = turn.step(&*pool.log(), &LogFormat::of(pool), &NoEntries, &mut ledger);
            match step.unwrap() {
                Turned::Persist(_) => {}
                Turned::Done(state) => return state,
            }
        }
    }

    /// Needs the hold: a segment of this kind has no record, like a free one.
    #[test]
    fn a_segment_that_appends_fill_is_found_and_never_given_to_a_writer() {
        let directory = tempfile::TempDir::new().unwrap();
        let pool = pool(&directory.path().join("pool"));
        let state = turn_to_appends(&pool, 2);
        let found = survey(&pool, false, Basis::LogAlone, &mut Strict).unwrap();
        assert!(found.segments.is_empty());
        let [appended] = found.appended[..] else {
            panic!("one segment: {:?}", found.appended);
        };
        assert_eq!((appended.state, appended.header_damaged), (state, false));
        let (log, format) = (pool.log(), LogFormat::of(&pool));
        let witnesses = Witnesses::new(pool.backing(), &*log, format);
        let mut space = Space::new(pool.backing(), &*log, Vec::new(), Vec::new(), witnesses);
        space.hold_for_appends(&[state]);
        let mut given = Vec::new();
        loop {
            match space.take(1, Purpose::Clean).unwrap() {
                Taken::Segment { number, .. } => given.push(number),
                Taken::Pending => std::thread::yield_now(),
                Taken::NoSpace => break,
            }
        }
        given.sort_unstable();
        assert_eq!(given, [0, 1, 3, 4, 5, 6, 7]);
    }

    #[test]
    fn a_lost_copy_of_the_header_of_a_segment_that_appends_fill_is_reported_and_mended() {
        let directory = tempfile::TempDir::new().unwrap();
        let pool = pool(&directory.path().join("pool"));
        let state = turn_to_appends(&pool, 2);
        let (log, format) = (pool.log(), LogFormat::of(&pool));
        log.store(format.position(2, 0), 0);
        let found = survey(&pool, false, Basis::LogAlone, &mut Strict).unwrap();
        assert_eq!(found.report().headers_repaired, 1);
        let header = Span::new(format.position(2, 0), SEGMENT_START_SIZE);
        assert_eq!(found.unsettled(&format), [header]);
        stonecast_log::mend_header(&*log, &format, &state);
        let found = survey(&pool, false, Basis::LogAlone, &mut Strict).unwrap();
        assert_eq!(found.report().headers_repaired, 0);
        assert_eq!(found.appended.len(), 1);
        assert_eq!(found.unsettled(&format), []);
    }

    /// Needs the persist of the whole copy, which may be visible and not durable while recovery writes the other
    /// one.
    #[test]
    fn the_whole_copy_of_a_damaged_header_of_records_is_persisted_before_the_other_is_written() {
        let directory = tempfile::TempDir::new().unwrap();
        let pool = pool(&directory.path().join("pool"));
        let (log, format) = (pool.log(), LogFormat::of(&pool));
        SegmentState::fresh(2, 1).write_header(&*log, &format);
        log.store(format.position(2, 3), 0);
        let found = survey(&pool, false, Basis::LogAlone, &mut Strict).unwrap();
        let header = Span::new(format.position(2, 0), SEGMENT_START_SIZE);
        assert_eq!(found.unsettled(&format), [header]);
    }
}
