//! A full check of a pool without serving it, and without writing to it.
//!
//! 1. The check makes the survey that an opening makes: a server refuses the damage that it refuses.
//! 2. If a checkpoint stood for a part of the log, the check also makes the survey of an opening without it, so that it
//!    looks at each byte that a server may ever rely on: damage that only this survey refuses is *latent*.
//! 3. The check looks for each chunk of each value in chunks.
//! 4. The check walks each segment that either of them refuses to its end, to name all its damage.

use stonecast_base::Corruption;
use stonecast_log::{Finding, LogFormat, UNIT_SIZE, walk_segment};
use stonecast_media::{MediaError, Pool, RecordFeature};

use crate::error::StoreError;
use crate::server::recovery::missing::{MissingChunk, missing_chunks};
use crate::server::recovery::survey::{Basis, Survey, keys_of, survey};
use crate::server::recovery::surveyor::Surveyor;

/// The findings of a check.
#[derive(Debug, Default)]
pub struct Verification {
    /// Keys present. No count includes damaged records.
    pub keys: u64,
    /// Stamped records that check, superseded ones included.
    pub records: u64,
    /// Bytes of the records of present keys.
    pub live_bytes: u64,
    /// Bytes looked at.
    pub bytes: u64,
    /// Segments in use.
    pub segments: u64,
    /// The reason why a server does not open the pool, even if the log is sound: the pool is a copy,
    /// or of a newer version.
    pub refusal: Option<MediaError>,
    /// Damage: a server refuses a pool with any of these.
    pub damage: Vec<Corruption>,
    /// Damage in the part of the log that a checkpoint stands for: a server opens the pool with the checkpoint and
    /// refuses the pool without it, and a reader of the record gets an error for damage.
    pub latent: Vec<Corruption>,
    /// Chunks that are missing where a record names them. Only in a pool of a server that is alone: in the pool of a
    /// node of a cluster, a record may come before its chunks while other nodes fill the pool.
    pub missing: Vec<MissingChunk>,
    /// Byte positions in the log of the remains of writes that a crash interrupted before they were acknowledged.
    pub torn: Vec<u64>,
    /// Damage that a server mends and reports: a checkpoint that does not check, a copy of a segment's header that is
    /// missing.
    pub harmless: Vec<Corruption>,
}

/// Checks every record of every segment, seals, links, and the checkpoint. `progress` gets the
/// number of bytes checked so far, and the number of all bytes.
pub fn verify(pool: &Pool, progress: &mut dyn FnMut(u64, u64)) -> Result<Verification, StoreError> {
    let mut result = Verification {
        refusal: pool.serving_refusal(),
        ..Verification::default()
    };
    let (opened, refused) = check(pool, Basis::Checkpoint, progress)?;
    for (number, corruption) in refused {
        collect(pool, number, corruption, &mut result.damage);
    }
    result.harmless.extend(opened.checkpoint_damage.clone());
    note_headers(pool, &opened, &mut result);
    let whole = if opened.used_checkpoint {
        drop(opened);
        let (whole, refused) = check(pool, Basis::LogAlone, progress)?;
        for (number, corruption) in refused {
            let mut found = Vec::new();
            collect(pool, number, corruption, &mut found);
            found.retain(|corruption| !result.damage.contains(corruption));
            result.latent.append(&mut found);
        }
        whole
    } else {
        opened
    };
    let has_chunks = pool.record_features().has(RecordFeature::Chunks);
    for keys in &whole.rebuilt.keys {
        result.keys += keys.count(&*pool.log(), keys_of(pool), has_chunks);
        result.live_bytes += keys.live_bytes;
        if has_chunks && whole.own.is_none() {
            missing_chunks(&*pool.log(), keys_of(pool), keys, &mut result.missing);
        }
    }
    let report = whole.report();
    result.records = report.records;
    result.bytes = report.bytes_scanned;
    result.segments = (whole.segments.len() + whole.appended.len()) as u64;
    result.torn = whole
        .segments
        .iter()
        .filter_map(|(_, found)| found.torn_tail)
        .collect();
    progress(pool.capacity(), pool.capacity());
    Ok(result)
}

/// The segments that a survey refuses, by number.
type Refused = Vec<(u32, Corruption)>;

struct Check<'p> {
    progress: &'p mut dyn FnMut(u64, u64),
    capacity: u64,
    refused: Refused,
}

impl Surveyor for Check<'_> {
    fn progress(&mut self, position: u64) {
        (self.progress)(position, self.capacity);
    }

    fn refuse(&mut self, number: u32, corruption: Corruption) -> Result<(), Corruption> {
        self.refused.push((number, corruption));
        Ok(())
    }
}

fn check(
    pool: &Pool,
    basis: Basis,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<(Survey, Refused), StoreError> {
    let mut check = Check {
        progress,
        capacity: pool.capacity(),
        refused: Vec::new(),
    };
    let survey = survey(pool, false, basis, &mut check)?;
    Ok((survey, check.refused))
}

/// Copies of headers that an opening writes again.
fn note_headers(pool: &Pool, survey: &Survey, result: &mut Verification) {
    let (format, file) = (LogFormat::of(pool), pool.backing().name());
    let mended = survey.damaged_headers();
    result.harmless.extend(mended.map(|state| Corruption {
        what: "segment header".into(),
        file: file.clone().into(),
        offset: format.position(state.number, 0),
        found: "one valid copy, or none".to_owned(),
        expected: format!("two copies, at this offset and {} bytes on", 3 * UNIT_SIZE),
    }));
}

/// All faults of a segment that a survey refuses: `first`, and perhaps more.
fn collect(pool: &Pool, number: u32, first: Corruption, into: &mut Vec<Corruption>) {
    let name = pool.backing().name();
    let mut found = vec![first];
    walk_segment(
        &*pool.log(),
        &LogFormat::of(pool),
        &name,
        number,
        &mut |finding| match finding {
            Finding::Fault(damage) => found.push(damage),
            // Beside a fault, a record whose stamp checks and whose bytes do not is the likely place of the damage.
            Finding::Torn {
                position, fault, ..
            } => found.push(Corruption {
                what: "record".into(),
                file: name.clone().into(),
                offset: position,
                found: fault.to_string(),
                expected: "the bytes that were stamped".to_owned(),
            }),
            Finding::Record(_) | Finding::Seal(_) | Finding::Hole { .. } => {}
        },
    );
    for damage in found {
        if !into.contains(&damage) {
            into.push(damage);
        }
    }
}
