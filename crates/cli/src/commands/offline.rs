//! `inspect` and `verify`: read a pool without a server, and never change the pool.

use std::path::PathBuf;

use clap::Args;
use serde::Serialize;
use stonecast_base::Corruption;
use stonecast_kv::{MissingChunk, Verification, verify as verify_pool};
use stonecast_log::{Finding, LogFormat, SegmentVerdict, UNIT_SIZE, walk_segment};
use stonecast_media::{MediaError, OpenMode, Pool, inspect_backing};

use crate::failure::{Failure, Status};
use crate::flags::DATA;
use crate::output::{self, say, size};
use crate::progress::Progress;

/// Shows a pool without a server: header, segments, counts.
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  stonecast inspect ./stonecast-data")]
pub struct Inspect {
    #[command(flatten)]
    pub pool: PoolFlags,
}

/// Checks every byte of a pool without a server.
///
/// Changes nothing. Prints every finding with file, offset, found and expected bytes, and exits with status 5 if there
/// is a finding.
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  stonecast verify ./stonecast-data")]
pub struct Verify {
    #[command(flatten)]
    pub pool: PoolFlags,
}

/// The pool, and the form of the output.
#[derive(Debug, Args)]
pub struct PoolFlags {
    /// Folder of the pool, or device of persistent memory.
    #[arg(value_name = "DIR", env = "STONECAST_DATA", default_value = DATA)]
    pub data: PathBuf,
    /// Prints JSON, one object a line.
    #[arg(long)]
    pub json: bool,
}

/// The facts that `inspect` shows about a pool.
#[derive(Serialize)]
struct PoolReport {
    uuid: String,
    durability: String,
    platform: String,
    opening: u32,
    clean: bool,
    served_by: Option<u32>,
    capacity_bytes: u64,
    segment_size: u64,
    segment_count: u32,
    shards: u32,
    keys: u64,
    records: u64,
    live_bytes: u64,
    segments: Vec<SegmentReport>,
}

/// The content of a segment that belongs to the log of appends.
const APPENDS: &str = "appends";

/// The facts that `inspect` shows about a segment in use.
#[derive(Serialize)]
struct SegmentReport {
    number: u32,
    generation: u32,
    /// `records`, or `appends` of other nodes. Nothing else is shown of a segment of appends.
    filled_by: &'static str,
    records: u64,
    used_bytes: u64,
    sealed_records: u32,
    sealed_bytes: u64,
    holes: u64,
    torn: u64,
    faults: u64,
}

/// Damage, as `verify --json` prints it.
#[derive(Serialize)]
struct Printed<'a> {
    finding: &'static str,
    what: &'a str,
    file: &'a str,
    offset: u64,
    found: &'a str,
    expected: &'a str,
}

/// A value that is not whole, as `verify --json` prints it.
#[derive(Serialize)]
struct PrintedChunk {
    finding: &'static str,
    key: String,
    version: u64,
    offset: u64,
    chunk: u32,
    chunks: u32,
}

/// The last line of `verify --json`.
#[derive(Serialize)]
struct Summary {
    keys: u64,
    records: u64,
    live_bytes: u64,
    bytes: u64,
    segments: u64,
    findings: usize,
    latent: usize,
    missing: usize,
    harmless: usize,
    torn: usize,
}

/// Shows a pool.
pub fn inspect(flags: &PoolFlags) -> Result<(), Failure> {
    let backing = inspect_backing(&flags.data)?;
    let served_by = backing.in_use_by();
    let (pool, _) = Pool::open(backing, OpenMode::Inspect)?;
    let checked = verify_pool(&pool, &mut |_, _| {})?;
    let report = PoolReport {
        uuid: pool.uuid().to_string(),
        durability: pool.durability().to_string(),
        platform: pool.platform().persistence_domain.to_string(),
        opening: pool.opening(),
        clean: pool.was_clean(),
        served_by,
        capacity_bytes: pool.capacity(),
        segment_size: pool.segment_size(),
        segment_count: pool.segment_count(),
        shards: pool.shards(),
        keys: checked.keys,
        records: checked.records,
        live_bytes: checked.live_bytes,
        segments: segments_of(&pool),
    };
    if flags.json {
        output::json(&report)?;
    } else {
        output::table(&rows(&report))?;
    }
    if checked.damage.is_empty() && checked.latent.is_empty() {
        return Ok(());
    }
    Err(Failure::new(
        Status::Corrupt,
        format!(
            "{} is damaged; `stonecast verify {0}` says where",
            flags.data.display()
        ),
    ))
}

fn segments_of(pool: &Pool) -> Vec<SegmentReport> {
    let format = LogFormat::of(pool);
    let (log, name) = (pool.log(), pool.backing().name());
    let report = |number| {
        let (mut seal, mut holes, mut torn, mut faults) = (None, 0, 0, 0);
        let verdict = walk_segment(
            &*log,
            &format,
            &name,
            number,
            &mut |finding| match finding {
                Finding::Seal(found) => seal = Some(found),
                Finding::Record(_) => {}
                Finding::Hole { .. } => holes += 1,
                Finding::Torn { .. } => torn += 1,
                Finding::Fault(_) => faults += 1,
            },
        );
        let (filled_by, state, records) = match verdict {
            SegmentVerdict::Free { .. } => return None,
            SegmentVerdict::Used(state, scanned) => ("records", state, scanned.records),
            SegmentVerdict::Appended { state, .. } => (APPENDS, state, 0),
        };
        Some(SegmentReport {
            number,
            generation: state.generation,
            filled_by,
            records,
            used_bytes: u64::from(state.end) * UNIT_SIZE,
            sealed_records: seal.map_or(0, |seal| seal.count),
            sealed_bytes: seal.map_or(0, |seal| u64::from(seal.end) * UNIT_SIZE),
            holes,
            torn,
            faults,
        })
    };
    (0..format.segment_count).filter_map(report).collect()
}

/// The number of keys, and of shards if there are several.
fn keys_of(report: &PoolReport) -> String {
    match report.shards {
        1 => report.keys.to_string(),
        shards => format!("{} in {shards} shards", report.keys),
    }
}

fn rows(report: &PoolReport) -> Vec<(&'static str, String)> {
    let mut rows = vec![
        ("pool", report.uuid.clone()),
        ("durability", report.durability.clone()),
        ("platform", report.platform.clone()),
        (
            "opened",
            format!(
                "{} times, {}",
                report.opening,
                if report.clean {
                    "closed in order"
                } else {
                    "not closed"
                }
            ),
        ),
        (
            "served",
            report.served_by.map_or("by nobody".to_owned(), |process| {
                format!("by process {process}; counts may change")
            }),
        ),
        (
            "capacity",
            format!(
                "{}, {} segments of {}",
                size(report.capacity_bytes),
                report.segment_count,
                size(report.segment_size)
            ),
        ),
        ("keys", keys_of(report)),
        (
            "records",
            format!("{}, live {}", report.records, size(report.live_bytes)),
        ),
        ("segments", format!("{} in use", report.segments.len())),
    ];
    let segments = report.segments.iter().map(segment_in_words);
    rows.extend(segments.map(|words| ("", words)));
    rows
}

fn segment_in_words(segment: &SegmentReport) -> String {
    let SegmentReport {
        number,
        generation,
        filled_by,
        records,
        used_bytes,
        sealed_records,
        holes,
        torn,
        faults,
        ..
    } = segment;
    if *filled_by == APPENDS {
        return format!("{number}: generation {generation}, filled by appends");
    }
    let mut words = format!(
        "{number}: generation {generation}, {records} records in {}, {sealed_records} sealed",
        size(*used_bytes)
    );
    for (count, what) in [(holes, "holes"), (torn, "torn records"), (faults, "faults")] {
        if *count > 0 {
            words += &format!(", {count} {what}");
        }
    }
    words
}

/// Checks a pool.
pub fn verify(flags: &PoolFlags) -> Result<(), Failure> {
    let backing = inspect_backing(&flags.data)?;
    if let Some(process) = backing.in_use_by() {
        let data = flags.data.display();
        return Err(Failure::operation(format!(
            "{data} is in use by process {process}, which changes it; stop that server first"
        )));
    }
    let (pool, repairable) = match Pool::open(backing, OpenMode::Inspect) {
        Ok(opened) => opened,
        Err(MediaError::Corrupt(damage)) => return stop_at(flags.json, &[damage]),
        Err(MediaError::HeaderLost { first, second }) => {
            return stop_at(flags.json, &[first, second]);
        }
        Err(error) => return Err(error.into()),
    };
    let progress = Progress::of_bytes("verifying", Some(pool.capacity()));
    let mut checked = verify_pool(&pool, &mut |done, _| progress.set(done))?;
    drop(progress);
    // A server repairs a header from its other copy, and can do without a checkpoint.
    checked
        .harmless
        .splice(0..0, repairable.into_iter().map(|repair| repair.corruption));
    for (finding, all) in [
        ("damage", &checked.damage),
        ("latent", &checked.latent),
        ("harmless", &checked.harmless),
    ] {
        all.iter()
            .try_for_each(|damage| report_finding(flags.json, finding, damage))?;
    }
    let mut missing = checked.missing.iter();
    missing.try_for_each(|missing| report_missing(flags.json, missing))?;
    report_counts(flags.json, &checked)?;
    judge(checked)
}

/// Reports what was checked.
fn report_counts(json: bool, checked: &Verification) -> Result<(), Failure> {
    let (findings, latent) = (checked.damage.len(), checked.latent.len());
    let (harmless, torn) = (checked.harmless.len(), checked.torn.len());
    let missing = checked.missing.len();
    if json {
        let (keys, records, live_bytes) = (checked.keys, checked.records, checked.live_bytes);
        let (bytes, segments) = (checked.bytes, checked.segments);
        output::json(&Summary {
            keys,
            records,
            live_bytes,
            bytes,
            segments,
            findings,
            latent,
            missing,
            harmless,
            torn,
        })?;
    } else {
        let (keys, records) = (checked.keys, checked.records);
        say(format_args!(
            "checked {} in {} segments: {records} records, {keys} keys{}",
            size(checked.bytes),
            checked.segments,
            if findings + latent > 0 {
                "; damaged segments are not counted"
            } else {
                ""
            }
        ));
        if torn > 0 {
            say(format_args!(
                "{torn} segments end in writes that were never acknowledged, as a crash leaves them"
            ));
        }
    }
    Ok(())
}

/// The failure of a pool that a server refuses, or will refuse.
fn judge(checked: Verification) -> Result<(), Failure> {
    let (findings, latent) = (checked.damage.len(), checked.latent.len());
    if findings > 0 {
        return Err(Failure::new(
            Status::Corrupt,
            format!(
                "{findings} findings: the pool is damaged, and a server will refuse it. Restore it from an export or a copy"
            ),
        ));
    }
    if let Some(refusal) = checked.refusal {
        return Err(refusal.into());
    }
    if latent > 0 {
        return Err(Failure::new(
            Status::Corrupt,
            format!(
                "{latent} latent findings: a server opens the pool with its checkpoint, and will refuse it once the checkpoint \
                 does not count any more. Export what it still reads, and import that into a new pool"
            ),
        ));
    }
    let missing = checked.missing.len();
    if missing > 0 {
        return Err(Failure::new(
            Status::Corrupt,
            format!(
                "{missing} chunks of values are missing: a server opens the pool, and reads of these keys fail. Put the \
                 keys again, or restore them from an export or a copy"
            ),
        ));
    }
    Ok(())
}

/// Reports a value that is not whole.
fn report_missing(json: bool, missing: &MissingChunk) -> Result<(), Failure> {
    if json {
        return output::json(&PrintedChunk {
            finding: "missing",
            key: missing.key.escape_ascii().to_string(),
            version: missing.version,
            offset: missing.offset,
            chunk: missing.chunk,
            chunks: missing.chunks,
        });
    }
    output::bytes(format!("missing: {missing}\n").as_bytes())
}

/// Reports damage that hides everything else.
fn stop_at(json: bool, damage: &[Corruption]) -> Result<(), Failure> {
    damage
        .iter()
        .try_for_each(|damage| report_finding(json, "damage", damage))?;
    Err(Failure::new(
        Status::Corrupt,
        format!(
            "{} findings, and without this the rest cannot be checked",
            damage.len()
        ),
    ))
}

fn report_finding(json: bool, finding: &'static str, damage: &Corruption) -> Result<(), Failure> {
    let Corruption {
        what,
        file,
        offset,
        found,
        expected,
    } = damage;
    if json {
        return output::json(&Printed {
            finding,
            what,
            file,
            offset: *offset,
            found,
            expected,
        });
    }
    output::bytes(format!("{finding}: {damage}\n").as_bytes())
}
