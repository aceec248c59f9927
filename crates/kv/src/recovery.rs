//! From what a crash left to a state that can be served.
//!
//! 1. The checkpoint, if it is whole and no segment was freed since, gives the index and the ends of the segments as they were when it was taken.
//! 2. Each segment is scanned from there on; what is found goes into the index.
//! 3. What was found is persisted, then sealed, and the seals are persisted, before anybody may append.
//!
//! A crash inside changes nothing that matters: seals only say what a scan finds anyway.

use stonecast_base::{Corruption, Span, mutant};
use stonecast_log::{
    Heritage, LogFormat, ScanPolicy, Secret, SegmentState, SegmentVerdict, generation_of,
    scan_segment,
};
use stonecast_media::{Blob, Durability, MediaError, Pool, Region, persist};

use crate::checkpoint::{Checkpoint, Image};
use crate::error::StoreError;
use crate::index::Index;
use crate::outcomes::Outcomes;
use crate::rebuild::{Rebuild, Rebuilt, index_memory};
use crate::space::Space;

/// What recovery found and did, for messages.
#[derive(Clone, Debug, Default)]
pub struct RecoveryReport {
    /// Keys present.
    pub keys: u64,
    /// Records found by scanning.
    pub records: u64,
    /// Highest sequence number found, of records that were taken back too.
    pub(crate) sequence_max: u64,
    /// Bytes scanned.
    pub bytes_scanned: u64,
    /// Whether a checkpoint gave the index.
    pub used_checkpoint: bool,
    /// The pool was closed in order without a checkpoint: its medium had no room for one.
    pub lacks_checkpoint: bool,
    /// Damage that was repaired: a checkpoint that was not believed.
    pub repairs: Vec<Corruption>,
    /// Segments with a copy of the header gone, which is written again.
    pub headers_repaired: u64,
    /// Segments whose tail a crash had torn: writes that nobody was told of.
    pub torn_tails: u64,
    /// Records lost to a power cycle in a pool that promises to survive the death of processes only.
    pub lost: u64,
}

/// A pool ready to be served.
pub(crate) struct Recovered {
    pub format: LogFormat,
    pub index: Index,
    pub space: Space,
    pub outcomes: Outcomes,
    pub next_sequence: u64,
    pub live_bytes: u64,
}

/// The facts of `pool` that records depend on, with the secret.
pub(crate) fn format_of(pool: &Pool) -> LogFormat {
    LogFormat {
        uuid: pool.uuid().as_u128(),
        tag_key: pool.tag_key(),
        secret: Some(Secret::new(pool.secret())),
        segment_size: pool.segment_size(),
        segment_count: pool.segment_count(),
    }
}

/// See the module documentation. `is_shared`: clients will change words of the index.
pub(crate) async fn recover(
    pool: &Pool,
    is_shared: bool,
) -> Result<(Recovered, RecoveryReport), StoreError> {
    let format = format_of(pool);
    let log = pool.log();
    let (rebuilt, mut segments, mut report) = scan(pool, &format, is_shared)?;
    let Rebuilt {
        index,
        mut outcomes,
        sequence_max,
        live_bytes,
        occupancy,
    } = rebuilt;
    // What was taken back has used its sequence, too.
    let mut sequence_max = sequence_max.max(report.sequence_max);
    report.keys = index.len();
    // After the death of a process alone, what was found may never have been persisted; a seal must not cover that.
    let unsealed: Vec<Span> = segments
        .iter()
        .filter_map(|state| state.unsealed(&format))
        .collect();
    let _durable = persist(&*log, &unsealed).await.map_err(MediaError::from)?;
    let settled: Vec<Span> = segments
        .iter_mut()
        .flat_map(|state| state.settle(&*log, &format))
        .collect();
    let settled = if mutant!(SettledNotPersisted) {
        Vec::new()
    } else {
        settled
    };
    let _durable = persist(&*log, &settled).await.map_err(MediaError::from)?;
    let heritage = segments
        .iter()
        .fold(Heritage::default(), |all, state| all.and(state.heritage));
    sequence_max = sequence_max.max(heritage.sequence_floor);
    if !report.used_checkpoint {
        // A checkpoint that counts knows all tokens since its own horizon: no segment was freed after it.
        outcomes.forget_up_to(heritage.tokens_lost);
    }
    let space = Space::new(pool.backing(), &*log, format, segments, occupancy);
    // Versions that were told and lost with a power cycle are not given to other values.
    let lost_versions = if lacks_what_was_told(pool) {
        LOST_VERSIONS
    } else {
        0
    };
    Ok((
        Recovered {
            format,
            index,
            space,
            outcomes,
            next_sequence: sequence_max
                + lost_versions
                + u64::from(!mutant!(VersionGivenTwice) || sequence_max == 0),
            live_bytes,
        },
        report,
    ))
}

/// After a power cycle a pool that never synced may have lost anything that was written, also what a checkpoint knows.
fn was_unsynced(pool: &Pool) -> bool {
    pool.durability() == Durability::Process && !pool.same_power_cycle()
}

/// Whether the log may lack what was written, and the checkpoint is of another moment: also in a copy of a pool that was served.
fn lacks_what_was_told(pool: &Pool) -> bool {
    was_unsynced(pool) || pool.was_copied()
}

/// More versions than a run can have told before a power cut took them: a thousand million commits.
const LOST_VERSIONS: u64 = 1 << 30;

/// Bytes of the log that a key takes at least, as a guess from which the index starts: where keys take more, its table is
/// made anew afterwards.
const BYTES_PER_KEY: u64 = 256;

/// Whether any of `occupied` touches a segment.
pub(crate) fn is_occupied(occupied: &[Span], format: &LogFormat, number: u32) -> bool {
    let start = format.position(number, 0);
    occupied
        .iter()
        .any(|span| span.offset < start + format.segment_size && span.offset + span.size > start)
}

/// Whether no segment was freed since a checkpoint was taken that knows the segments `known`: otherwise its words may name
/// what is there no more. A header that is lost is judged by the scan.
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

fn scan(
    pool: &Pool,
    format: &LogFormat,
    is_shared: bool,
) -> Result<(Rebuilt, Vec<SegmentState>, RecoveryReport), StoreError> {
    let backing = pool.backing();
    let log = pool.log();
    let mut report = RecoveryReport::default();
    let lacks_some = lacks_what_was_told(pool);
    if lacks_some {
        // Nor may a later opening in this power cycle believe it.
        let _durable = backing.store(Blob::Checkpoint, &[])?;
    }
    let bytes = if lacks_some {
        None
    } else {
        backing
            .load(Blob::Checkpoint)?
            .filter(|bytes| !bytes.is_empty())
    };
    let has_checkpoint = bytes.is_some();
    let image = bytes
        .as_deref()
        .and_then(|bytes| match Image::parse(bytes, format) {
            Ok(image) => Some(image),
            Err(damage) => {
                report.repairs.push(damage);
                None
            }
        });
    let occupied = backing.occupied()?;
    let bits = match &image {
        Some(image) => image.index_bits(),
        None => Index::bits_for(occupied.iter().map(|span| span.size).sum::<u64>() / BYTES_PER_KEY),
    };
    let mut index = Index::new(index_memory(&*backing, bits, is_shared)?, bits);
    let image = image.filter(|image| fits(&*log, format, &image.segments()));
    report.used_checkpoint = image.is_some();
    let mut checkpoint = image.map_or_else(Checkpoint::default, |image| image.restore(&mut index));
    let known = std::mem::take(&mut checkpoint.segments);
    let mut rebuild = Rebuild::new(
        backing.clone(),
        log.clone(),
        format,
        (index, is_shared),
        checkpoint,
    );
    let policy = ScanPolicy {
        tolerate_missing: was_unsynced(pool),
    };
    let name = backing.name();
    let mut segments = Vec::new();
    for number in 0..format.segment_count {
        let from = known.iter().find(|state| state.number == number);
        if from.is_none() && !is_occupied(&occupied, format, number) {
            continue;
        }
        if mutant!(StaleCheckpointBelieved)
            && let Some(known) = from
        {
            segments.push(*known);
            continue;
        }
        match scan_segment(&*log, format, &name, number, from, policy, &mut rebuild)? {
            SegmentVerdict::Free { .. } => {}
            SegmentVerdict::Used(state, found) => {
                report.records += found.records;
                report.sequence_max = report.sequence_max.max(found.sequence_max);
                report.bytes_scanned += found.bytes_scanned;
                report.torn_tails += u64::from(found.torn_tail.is_some());
                report.lost += found.missing;
                report.headers_repaired += u64::from(found.header_damaged);
                segments.push(state);
            }
        }
    }
    // A pool that was just made is clean, too.
    report.lacks_checkpoint = pool.was_clean() && !has_checkpoint && report.records > 0;
    Ok((rebuild.finish()?, segments, report))
}
