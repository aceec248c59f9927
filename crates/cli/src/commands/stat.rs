//! `stat`: what a running server holds and does.

use serde::Serialize;

use crate::arguments::Stat;
use crate::failure::Failure;
use crate::output;
use crate::session::Session;

/// The report, as `--json` prints it. Sizes are bytes; counts of operations are since the server was started.
#[derive(Serialize)]
struct Report {
    keys: u64,
    keys_max: u64,
    live_bytes: u64,
    used_bytes: u64,
    capacity_bytes: u64,
    segment_size: u64,
    segments_free: u64,
    segments_partial: u64,
    segments_taken: u64,
    segments_full: u64,
    clients: u64,
    epoch: u64,
    version: u64,
    puts: u64,
    deletes: u64,
    refused: u64,
    batches: u64,
    persists: u64,
    durability: &'static str,
    process: u64,
}

/// Asks the server and prints its answer.
pub fn run(flags: &Stat, session: Session) -> Result<(), Failure> {
    let stat = session.run(async |client| Ok(client.stat().await?))?;
    session.close();
    let report = Report {
        keys: stat.keys,
        keys_max: stat.keys_max,
        live_bytes: stat.live_bytes,
        used_bytes: stat.used_bytes,
        capacity_bytes: stat.capacity_bytes,
        segment_size: stat.segment_size,
        segments_free: stat.segments_free,
        segments_partial: stat.segments_partial,
        segments_taken: stat.segments_taken,
        segments_full: stat.segments_full,
        clients: stat.clients,
        epoch: stat.epoch,
        version: stat.sequence,
        puts: stat.puts,
        deletes: stat.deletes,
        refused: stat.refused,
        batches: stat.batches,
        persists: stat.persists,
        durability: if stat.power { "power" } else { "process" },
        process: stat.process,
    };
    if flags.json { output::json(&report) } else { output::table(&rows(&report)) }
}

fn rows(report: &Report) -> Vec<(&'static str, String)> {
    let of = |part: u64, whole: u64| {
        let percent = if whole == 0 { 0.0 } else { part as f64 * 100.0 / whole as f64 };
        format!("{} of {} ({percent:.1} %)", output::size(part), output::size(whole))
    };
    vec![
        ("keys", format!("{} of at most {}", report.keys, report.keys_max)),
        ("log in use", of(report.used_bytes, report.capacity_bytes)),
        ("of that live", of(report.live_bytes, report.used_bytes)),
        (
            "segments",
            format!(
                "{} free, {} in use, {} with room, {} full, of {}",
                report.segments_free,
                report.segments_taken,
                report.segments_partial,
                report.segments_full,
                output::size(report.segment_size)
            ),
        ),
        ("version", report.version.to_string()),
        ("durability", report.durability.to_owned()),
        ("clients", report.clients.to_string()),
        ("writes", format!("{} puts, {} deletes, {} refused", report.puts, report.deletes, report.refused)),
        ("batches", format!("{}, persisted with {} syncs or fences", report.batches, report.persists)),
        ("server", format!("process {}, start number {} of this pool", report.process, report.epoch)),
    ]
}
