//! The report of a server: as JSON, and for human readers.

use std::time::Duration;

use serde::Serialize;
use serde_json::Value;
use stonecast_kv::{Cleaning, Latencies, Metrics, PathMetrics};

use crate::copying::CopyingReport;
use crate::output;

use super::gateway::Told;

/// The report as `--json` prints it. Sizes are bytes; counts are since the server was started.
#[derive(Serialize)]
pub struct Report {
    keys: u64,
    live_bytes: u64,
    used_bytes: u64,
    capacity_bytes: u64,
    segment_size: u64,
    segments_free: u64,
    segments_partial: u64,
    segments_taken: u64,
    segments_full: u64,
    clients: u64,
    leases: u64,
    opening: u64,
    version: u64,
    puts: u64,
    deletes: u64,
    refused: u64,
    batches: u64,
    persists: u64,
    write_backs: u64,
    fences: u64,
    syncs: u64,
    cleaning: CleaningReport,
    /// Bytes written to the log for each byte of records that clients and other nodes gave.
    write_amplification: f64,
    /// The work as a node of a cluster.
    #[serde(skip_serializing_if = "Option::is_none")]
    copying: Option<CopyingReport>,
    durability: &'static str,
    process: u64,
    one_sided: PathReport,
    gateway: PathReport,
    /// The calls since the report before, if there was one.
    #[serde(skip_serializing_if = "Option::is_none")]
    interval: Option<IntervalReport>,
    /// The answer of the gateway's admin port, if it was asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    admin: Option<Value>,
    /// The back-end of data structures beside the store, as the admin port knows it.
    #[serde(skip_serializing_if = "Option::is_none")]
    structures: Option<Value>,
}

/// The server's work to make room.
#[derive(Serialize)]
struct CleaningReport {
    segments: u64,
    moved_records: u64,
    moved_bytes: u64,
    dropped_tombstones: u64,
    tombstone_bytes: u64,
    abandoned_segments: u64,
    reclaimed_leases: u64,
    write_amplification: f64,
}

/// Calls of the clients of one path.
#[derive(Serialize)]
struct PathReport {
    clients: u64,
    reads: u64,
    puts: u64,
    deletes: u64,
    refused: u64,
    round_trips: u64,
    read_bytes: u64,
    written_bytes: u64,
    read_latency: Times,
    write_latency: Times,
}

/// The calls between two reports.
#[derive(Serialize)]
struct IntervalReport {
    seconds: f64,
    one_sided: PathReport,
    gateway: PathReport,
}

/// An earlier report of the same server, and its age.
pub type Earlier<'a> = Option<(&'a Metrics, Duration)>;

/// Times in nanoseconds. The quantiles are bounds of buckets; each bound is twice the bound before.
#[derive(Serialize)]
struct Times {
    timed: u64,
    mean_ns: Option<u64>,
    p50_ns: Option<u64>,
    p99_ns: Option<u64>,
}

impl CleaningReport {
    fn of(cleaning: &Cleaning) -> Self {
        Self {
            segments: cleaning.segments,
            moved_records: cleaning.moved_records,
            moved_bytes: cleaning.moved_bytes,
            dropped_tombstones: cleaning.dropped_tombstones,
            tombstone_bytes: cleaning.tombstone_bytes,
            abandoned_segments: cleaning.abandoned,
            reclaimed_leases: cleaning.reclaimed_leases,
            write_amplification: cleaning.write_amplification(),
        }
    }
}

impl Report {
    /// The report of a server, and of its gateway if the gateway was asked.
    pub fn of(metrics: &Metrics, before: Earlier<'_>, told: Option<Told>) -> Self {
        let (admin, structures) = match told {
            Some(told) => (Some(told.gateway), told.structures),
            None => (None, None),
        };
        let stat = &metrics.stat;
        Self {
            keys: stat.keys,
            live_bytes: stat.live_bytes,
            used_bytes: stat.used_bytes,
            capacity_bytes: stat.capacity_bytes,
            segment_size: stat.segment_size,
            segments_free: stat.segments_free,
            segments_partial: stat.segments_partial,
            segments_taken: stat.segments_taken,
            segments_full: stat.segments_full,
            clients: stat.clients,
            leases: metrics.leases,
            opening: stat.opening,
            version: stat.sequence,
            puts: stat.puts,
            deletes: stat.deletes,
            refused: stat.refused,
            batches: stat.batches,
            persists: stat.persists,
            write_backs: metrics.write_backs,
            fences: metrics.fences,
            syncs: metrics.syncs,
            cleaning: CleaningReport::of(&metrics.cleaning),
            write_amplification: metrics.write_amplification(),
            copying: CopyingReport::of(&metrics.copying),
            durability: if stat.power { "power" } else { "process" },
            process: stat.process,
            one_sided: PathReport::of(&metrics.one_sided),
            gateway: PathReport::of(&metrics.gateway),
            interval: before.map(|(before, age)| IntervalReport {
                seconds: age.as_secs_f64(),
                one_sided: PathReport::of(&metrics.one_sided.since(&before.one_sided)),
                gateway: PathReport::of(&metrics.gateway.since(&before.gateway)),
            }),
            admin,
            structures,
        }
    }
}

impl PathReport {
    fn of(path: &PathMetrics) -> Self {
        Self {
            clients: path.clients,
            reads: path.reads,
            puts: path.puts,
            deletes: path.deletes,
            refused: path.refused,
            round_trips: path.round_trips,
            read_bytes: path.read_bytes,
            written_bytes: path.written_bytes,
            read_latency: Times::of(&path.read_latencies),
            write_latency: Times::of(&path.write_latencies),
        }
    }
}

impl Times {
    fn of(latencies: &Latencies) -> Self {
        Self {
            timed: latencies.count(),
            mean_ns: latencies.sum_ns.checked_div(latencies.count()),
            p50_ns: latencies.quantile(0.5),
            p99_ns: latencies.quantile(0.99),
        }
    }
}

/// The report for human readers. With an earlier report, rates, sizes and times of the calls are those since then.
pub fn text(metrics: &Metrics, before: Earlier<'_>) -> String {
    let rows = state_rows(metrics);
    let width = rows
        .iter()
        .map(|(name, _)| name.len())
        .chain([PATH_WIDTH])
        .max()
        .unwrap_or(0);
    let mut text: String = rows
        .iter()
        .map(|(name, value)| format!("{name:<width$}  {value}\n"))
        .collect();
    let paths = [&metrics.one_sided, &metrics.gateway];
    let calls = match before {
        Some((before, age)) => {
            let since = [
                metrics.one_sided.since(&before.one_sided),
                metrics.gateway.since(&before.gateway),
            ];
            since.map(|since| (since, Some(age)))
        }
        None => paths.map(|path| (*path, None)),
    };
    text += &format!("{:<width$}  {:>20} {:>20}\n", "", "one-sided", "gateway");
    for (name, show) in PATH_ROWS {
        let [one_sided, gateway] = [0, 1].map(|index| show(paths[index], &calls[index]));
        text += &format!("{name:<width$}  {one_sided:>20} {gateway:>20}\n");
    }
    text
}

fn state_rows(metrics: &Metrics) -> Vec<(&'static str, String)> {
    let stat = &metrics.stat;
    let copies = CopyingReport::of(&metrics.copying);
    let copies = copies.map(|copies| ("copies", copies.words()));
    let mut rows = vec![
        ("keys", stat.keys.to_string()),
        ("log in use", share(stat.used_bytes, stat.capacity_bytes)),
        ("of that live", share(stat.live_bytes, stat.used_bytes)),
        (
            "segments",
            format!(
                "{} free, {} in use, {} with room, {} full, of {}",
                stat.segments_free,
                stat.segments_taken,
                stat.segments_partial,
                stat.segments_full,
                output::size(stat.segment_size)
            ),
        ),
        ("cleaned", cleaned(&metrics.cleaning)),
        ("version", stat.sequence.to_string()),
        (
            "durability",
            if stat.power { "power" } else { "process" }.to_owned(),
        ),
        (
            "clients",
            format!("{}, with {} leases", stat.clients, metrics.leases),
        ),
        (
            "writes",
            format!(
                "{} puts, {} deletes, {} refused",
                stat.puts, stat.deletes, stat.refused
            ),
        ),
        (
            "batches",
            format!("{}, made durable {} times", stat.batches, stat.persists),
        ),
        ("durable by", durable_by(metrics)),
        (
            "server",
            format!(
                "process {}, start number {} of this pool",
                stat.process, stat.opening
            ),
        ),
        (
            "log written",
            format!(
                "{:.2} bytes for each byte that clients and other nodes gave",
                metrics.write_amplification()
            ),
        ),
    ];
    rows.extend(copies);
    rows
}

/// Bytes as a part of others.
fn share(part: u64, whole: u64) -> String {
    let percent = if whole == 0 {
        0.0
    } else {
        part as f64 * 100.0 / whole as f64
    };
    format!(
        "{} of {} ({percent:.1} %)",
        output::size(part),
        output::size(whole)
    )
}

/// The work by which writes became durable.
fn durable_by(metrics: &Metrics) -> String {
    let per_write = |count: u64| match metrics.stat.puts + metrics.stat.deletes {
        0 => String::new(),
        writes => format!(" ({:.2} for each write)", count as f64 / writes as f64),
    };
    let done = [
        (metrics.write_backs, "lines written back"),
        (metrics.fences, "fences"),
        (metrics.syncs, "syncs"),
    ];
    let done: Vec<String> = done
        .iter()
        .filter(|(count, _)| *count > 0)
        .map(|(count, what)| format!("{count} {what}{}", per_write(*count)))
        .collect();
    match done.is_empty() {
        true => "no work is due".to_owned(),
        false => done.join(", "),
    }
}

fn cleaned(cleaning: &Cleaning) -> String {
    let mut text = format!(
        "{} segments, {} records moved, {} bytes written for each byte of clients",
        cleaning.segments,
        cleaning.moved_records,
        (cleaning.write_amplification() * 100.0).round() / 100.0
    );
    if cleaning.abandoned > 0 {
        text += &format!(
            "; {} segments cannot be freed, because they are damaged: see `stonecast verify`",
            cleaning.abandoned
        );
    }
    text
}

/// All calls of a path, and those that the report is about, with the time in which they came if that is known.
type Show = fn(&PathMetrics, &(PathMetrics, Option<Duration>)) -> String;

/// The longest name below.
const PATH_WIDTH: usize = "bytes of a write".len();

const PATH_ROWS: [(&str, Show); 10] = [
    ("clients", |path, _| path.clients.to_string()),
    ("keys read", |path, calls| {
        counted(path, calls, |path| path.reads)
    }),
    ("puts", |path, calls| counted(path, calls, |path| path.puts)),
    ("deletes", |path, calls| {
        counted(path, calls, |path| path.deletes)
    }),
    ("refused", |path, calls| {
        counted(path, calls, |path| path.refused)
    }),
    ("round trips", |path, calls| {
        counted(path, calls, |path| path.round_trips)
    }),
    ("bytes of a read", |_, (calls, _)| {
        average(calls.read_bytes, calls.reads)
    }),
    ("bytes of a write", |_, (calls, _)| {
        average(calls.written_bytes, calls.puts + calls.deletes)
    }),
    ("read, 50 / 99 %", |_, (calls, _)| {
        times(&calls.read_latencies)
    }),
    ("write, 50 / 99 %", |_, (calls, _)| {
        times(&calls.write_latencies)
    }),
];

fn counted(
    path: &PathMetrics,
    (calls, time): &(PathMetrics, Option<Duration>),
    count: fn(&PathMetrics) -> u64,
) -> String {
    let all = count(path);
    match time {
        None => all.to_string(),
        Some(time) => {
            let rate = count(calls) as f64 / time.as_secs_f64().max(1e-3);
            format!("{all} ({rate:.0}/s)")
        }
    }
}

fn average(sum: u64, count: u64) -> String {
    if count == 0 {
        "-".to_owned()
    } else {
        format!("{:.0}", sum as f64 / count as f64)
    }
}

fn times(latencies: &Latencies) -> String {
    let shown = |share| match latencies.quantile(share) {
        Some(time) => format!("{:.1}", time as f64 / 1e3),
        None if latencies.count() == 0 => "-".to_owned(),
        None => "long".to_owned(),
    };
    format!("{} / {} us", shown(0.5), shown(0.99))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn people_see_both_paths_and_their_rates() {
        let mut metrics = Metrics::default();
        metrics.stat.puts = 4;
        metrics.syncs = 2;
        metrics.one_sided.reads = 100;
        metrics.one_sided.read_bytes = 19_200;
        metrics.gateway.puts = 4;
        let mut later = metrics;
        later.one_sided.reads = 300;
        later.one_sided.read_bytes += 200 * 64;
        let once = text(&metrics, None);
        assert!(once.contains("2 syncs (0.50 for each write)"), "{once}");
        let row = |text: &str, name: &str| {
            text.lines()
                .find(|line| line.starts_with(name))
                .unwrap()
                .to_owned()
        };
        assert_eq!(
            row(&once, "keys read")
                .split_whitespace()
                .collect::<Vec<_>>(),
            ["keys", "read", "100", "0"]
        );
        assert_eq!(
            row(&once, "bytes of a read")
                .split_whitespace()
                .collect::<Vec<_>>()[4..],
            ["192", "-"]
        );
        let again = text(&later, Some((&metrics, Duration::from_secs(2))));
        assert_eq!(
            row(&again, "bytes of a read")
                .split_whitespace()
                .collect::<Vec<_>>()[4..],
            ["64", "-"],
            "the reads of the interval"
        );
        let words = row(&again, "keys read");
        assert!(
            words.contains("300 (100/s)") && words.ends_with("0 (0/s)"),
            "{words}"
        );
    }
}
