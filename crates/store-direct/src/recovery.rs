//! From what a crash left to a state that can be served.
//!
//! 1. The checkpoint, if it is whole, gives the index and the ends of the segments as they were when it was taken.
//! 2. Each segment is scanned from there on; what is found goes into the index.
//! 3. What was found is persisted, then sealed, and the seals are persisted, before anybody may append.
//!
//! A crash inside changes nothing that matters: seals only say what a scan finds anyway.

use stonecast_base::{Corruption, Span, mutant};
use stonecast_log::{LogFormat, ScanPolicy, Secret, SegmentState, SegmentVerdict, scan_segment};
use stonecast_media::{Blob, Durability, MediaError, Pool, persist};

use crate::checkpoint::{self, Checkpoint};
use crate::error::StoreError;
use crate::index::Index;
use crate::rebuild::{Rebuild, Rebuilt};
use crate::space::Space;

/// What recovery found and did, for messages.
#[derive(Clone, Debug, Default)]
pub struct RecoveryReport {
    /// Keys present.
    pub keys: u64,
    /// Records found by scanning.
    pub records: u64,
    /// Bytes scanned.
    pub bytes_scanned: u64,
    /// Whether a checkpoint gave the index.
    pub used_checkpoint: bool,
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

/// See the module documentation.
pub(crate) async fn recover(pool: &Pool) -> Result<(Recovered, RecoveryReport), StoreError> {
    let format = format_of(pool);
    let log = pool.log();
    let mut bits = Index::bits_for(pool.capacity());
    let (rebuilt, segments, mut report) = loop {
        let attempt = scan(pool, &format, bits)?;
        // Deleted keys take room until the scan is complete, so more may be needed than while serving.
        if attempt.0.overflow == 0 {
            break attempt;
        }
        bits += 1;
    };
    let Rebuilt { index, sequence_max, live_bytes, .. } = rebuilt;
    report.keys = index.len();
    let mut segments = segments;
    // After the death of a process alone, what was found may never have been persisted; a seal must not cover that.
    let unsealed: Vec<Span> = segments.iter().filter_map(|state| state.unsealed(&format)).collect();
    let unsealed = if mutant!(FoundNotPersisted) { Vec::new() } else { unsealed };
    let _durable = persist(&*log, &unsealed).await.map_err(MediaError::from)?;
    let settled: Vec<Span> = segments.iter_mut().flat_map(|state| state.settle(&*log, &format)).collect();
    let settled = if mutant!(SettledNotPersisted) { Vec::new() } else { settled };
    let _durable = persist(&*log, &settled).await.map_err(MediaError::from)?;
    let space = Space::new(pool.backing(), format, segments);
    // Versions that were told and lost with a power cycle are not given to other values.
    let lost_versions = if was_unsynced(pool) { LOST_VERSIONS } else { 0 };
    Ok((
        Recovered {
            format,
            index,
            space,
            next_sequence: sequence_max + lost_versions + u64::from(!mutant!(VersionGivenTwice)),
            live_bytes,
        },
        report,
    ))
}

/// After a power cycle a pool that never synced may have lost anything that was written, also what a checkpoint knows.
fn was_unsynced(pool: &Pool) -> bool {
    pool.durability() == Durability::Process && !pool.same_power_cycle()
}

/// More versions than a run can have told before a power cut took them: a thousand million commits.
const LOST_VERSIONS: u64 = 1 << 30;

fn scan(pool: &Pool, format: &LogFormat, bits: u32) -> Result<(Rebuilt, Vec<SegmentState>, RecoveryReport), StoreError> {
    let backing = pool.backing();
    let log = pool.log();
    let mut report = RecoveryReport::default();
    let mut index = Index::new(backing.volatile("index", Index::size(bits))?, bits);
    let unsynced = was_unsynced(pool);
    let mut checkpoint = None;
    if unsynced {
        // Nor may a later opening in this power cycle believe it.
        let _durable = backing.store(Blob::Checkpoint, &[])?;
    }
    if !unsynced && let Some(bytes) = backing.load(Blob::Checkpoint)?.filter(|bytes| !bytes.is_empty()) {
        match checkpoint::decode(&bytes, format, &mut index) {
            Ok(found) => checkpoint = Some(found),
            Err(damage) => report.repairs.push(damage),
        }
    }
    report.used_checkpoint = checkpoint.is_some();
    let Checkpoint { segments: known, sequence, live_bytes } =
        checkpoint.unwrap_or(Checkpoint { segments: Vec::new(), sequence: 0, live_bytes: 0 });
    let mut rebuild = Rebuild::new(log.clone(), format, index, sequence, live_bytes);
    let policy = ScanPolicy { tolerate_missing: unsynced };
    let occupied = backing.occupied()?;
    let name = backing.name();
    let mut segments = Vec::new();
    for number in 0..format.segment_count {
        let from = known.iter().find(|state| state.number == number);
        let start = u64::from(number) * format.segment_size;
        let empty = !occupied.iter().any(|span| span.offset < start + format.segment_size && span.offset + span.size > start);
        if empty && from.is_none() {
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
                report.bytes_scanned += found.bytes_scanned;
                report.torn_tails += u64::from(found.torn_tail.is_some());
                report.lost += found.missing;
                report.headers_repaired += u64::from(found.header_damaged);
                segments.push(state);
            }
        }
    }
    Ok((rebuild.finish(), segments, report))
}
