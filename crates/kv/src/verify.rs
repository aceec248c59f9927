//! A full check of a pool without serving it, and without writing to it.

use stonecast_base::Corruption;
use stonecast_log::{Finding, ScanPolicy, SegmentVerdict, scan_segment, walk_segment};
use stonecast_media::{Blob, Durability, Pool};

use crate::checkpoint::{Checkpoint, Image};
use crate::error::StoreError;
use crate::index::Index;
use crate::rebuild::{Rebuild, index_memory};
use crate::recovery::{format_of, is_occupied};

/// What a check found.
#[derive(Clone, Debug, Default)]
pub struct Verification {
    /// Keys present.
    pub keys: u64,
    /// Stamped records that check, superseded ones included.
    pub records: u64,
    /// Bytes of the records of present keys.
    pub live_bytes: u64,
    /// Bytes looked at.
    pub bytes: u64,
    /// Segments in use.
    pub segments: u64,
    /// Damage: a server refuses a pool with any of these, unless `harmless` says otherwise.
    pub damage: Vec<Corruption>,
    /// Byte positions in the log of what a crash left of writes that nobody was told of.
    pub torn: Vec<u64>,
    /// A checkpoint that does not check; a server ignores it and scans instead.
    pub harmless: Vec<Corruption>,
}

/// Checks every record of every segment, seals, links, and the checkpoint. `progress` is told the bytes done of the bytes
/// there are.
pub fn verify(pool: &Pool, progress: &mut dyn FnMut(u64, u64)) -> Result<Verification, StoreError> {
    let format = format_of(pool);
    let log = pool.log();
    let backing = pool.backing();
    let occupied = backing.occupied()?;
    let mut result = Verification::default();
    let policy = ScanPolicy {
        tolerate_missing: pool.durability() == Durability::Process && !pool.same_power_cycle(),
    };
    let bits = Index::bits_for(0);
    let index = Index::new(index_memory(&*backing, bits, false)?, bits);
    let mut rebuild = Rebuild::new(
        backing.clone(),
        log.clone(),
        &format,
        (index, false),
        Checkpoint::default(),
    );
    for number in 0..format.segment_count {
        progress(format.position(number, 0), pool.capacity());
        if !is_occupied(&occupied, &format, number) {
            continue;
        }
        match scan_segment(
            &*log,
            &format,
            &backing.name(),
            number,
            None,
            policy,
            &mut rebuild,
        ) {
            Ok(SegmentVerdict::Free { .. }) => {}
            Ok(SegmentVerdict::Used(_, report)) => {
                result.segments += 1;
                result.records += report.records;
                result.bytes += report.bytes_scanned;
                result.torn.extend(report.torn_tail);
            }
            Err(_) => {
                result.segments += 1;
                collect(pool, number, &mut result);
            }
        }
    }
    let rebuilt = rebuild.finish()?;
    result.keys = rebuilt.index.len();
    result.live_bytes = rebuilt.live_bytes;
    progress(pool.capacity(), pool.capacity());
    if let Some(bytes) = backing
        .load(Blob::Checkpoint)?
        .filter(|bytes| !bytes.is_empty())
        && let Err(damage) = Image::parse(&bytes, &format)
    {
        result.harmless.push(damage);
    }
    Ok(result)
}

/// Everything that is wrong with a segment that a scan refuses.
fn collect(pool: &Pool, number: u32, result: &mut Verification) {
    let name = pool.backing().name();
    walk_segment(
        &*pool.log(),
        &format_of(pool),
        &name,
        number,
        &mut |finding| match finding {
            Finding::Fault(damage) => result.damage.push(damage),
            // Beside a fault, a record whose stamp checks and whose bytes do not is the likely place of the damage.
            Finding::Torn {
                position, fault, ..
            } => result.damage.push(Corruption {
                what: "record".into(),
                file: name.clone().into(),
                offset: position,
                found: fault.to_string(),
                expected: "the bytes that were stamped".to_owned(),
            }),
            Finding::Record(_) => result.records += 1,
            Finding::Seal(_) | Finding::Hole { .. } => {}
        },
    );
}
