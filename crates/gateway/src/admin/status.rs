//! `/status`: everything as one JSON object.

use serde_json::{Map, Value, json};
use stonecast_kv::{Latencies, Metrics, PathMetrics};

use super::observer::Report;
use super::structures;
use crate::commands::COMMANDS;
use crate::counters::{Counters, Kind};
use crate::shared::Shared;

/// Returns the report as a JSON object.
pub fn json(report: &Report<'_>) -> Value {
    let shared = report.shared;
    let (store, paths) = match &report.store {
        Some(Ok(metrics)) => (store_json(metrics), paths_json(metrics)),
        Some(Err(error)) => (json!({ "error": error.to_string() }), Value::Null),
        None => (Value::Null, Value::Null),
    };
    let structures = report.structures.as_ref().map(|counted| match counted {
        Ok(metrics) => structures::json(metrics),
        Err(error) => json!({ "error": error.to_string() }),
    });
    json!({
        "version": env!("CARGO_PKG_VERSION"),
        "alive": report.is_alive,
        "ready": shared.is_ready() && report.silent().is_none(),
        "uptime_seconds": shared.uptime().as_secs(),
        "gateway": gateway_json(shared),
        "store": store,
        "paths": paths,
        "structures": structures,
    })
}

fn gateway_json(shared: &Shared) -> Value {
    let sum = |count: fn(&Counters) -> u64| shared.sum(count);
    let commands = COMMANDS.iter().enumerate().filter_map(|(index, spec)| {
        let count: u64 = shared
            .threads
            .iter()
            .map(|thread| thread.commands[index].get())
            .sum();
        (count > 0).then(|| (spec.name.to_owned(), json!(count)))
    });
    // The time from the arrival of a command to its reply.
    let latencies = Kind::ALL.map(|kind| {
        let mut all = Latencies::default();
        shared
            .threads
            .iter()
            .for_each(|thread| all.add(&thread.latencies[kind as usize].latencies()));
        (kind.name().to_owned(), latency_json(&all))
    });
    json!({
        "resp": shared.resp.map(|resp| resp.to_string()),
        "threads": shared.threads.len(),
        "connections": shared.connections(),
        "connections_max": shared.options.limits.connections,
        "connections_accepted": sum(|thread| thread.connections.get()),
        "connections_refused": sum(|thread| thread.connections_refused.get()),
        "connections_cut": sum(|thread| thread.connections_cut.get()),
        "newcomers": sum(|thread| thread.newcomers.get()),
        "newcomers_cut": sum(|thread| thread.newcomers_cut.get()),
        "wrong_passwords": sum(|thread| thread.wrong_passwords.get()) + shared.admin.wrong_passwords.get(),
        "protocol_errors": sum(|thread| thread.protocol_errors.get()),
        "buffer_bytes": shared.memory.used(),
        "hits": sum(|thread| thread.hits.get()),
        "misses": sum(|thread| thread.misses.get()),
        "commands_per_second": sum(|thread| thread.commands_per_second.get()),
        "commands": commands.collect::<Map<_, _>>(),
        "error_replies": sum(|thread| thread.failures.get()),
        "batches": sum(|thread| thread.batches.get()),
        "conflicts": sum(|thread| thread.conflicts.get()),
        "latency": latencies.into_iter().collect::<Map<_, _>>(),
    })
}

/// Operations on each of the two paths to the store, and the average cost of an operation.
fn paths_json(metrics: &Metrics) -> Value {
    json!({ "one-sided": path_json(&metrics.one_sided), "gateway": path_json(&metrics.gateway) })
}

fn path_json(path: &PathMetrics) -> Value {
    let writes = path.puts + path.deletes;
    let per = |sum: u64, count: u64| (count > 0).then(|| sum as f64 / count as f64);
    json!({
        "clients": path.clients,
        "reads": path.reads,
        "puts": path.puts,
        "deletes": path.deletes,
        "refused": path.refused,
        "round_trips": path.round_trips,
        "read_bytes": path.read_bytes,
        "written_bytes": path.written_bytes,
        "round_trips_per_operation": per(path.round_trips, path.reads + writes + path.refused),
        "bytes_per_read": per(path.read_bytes, path.reads),
        "bytes_per_write": per(path.written_bytes, writes),
        "read_latency": latency_json(&path.read_latencies),
        "write_latency": latency_json(&path.write_latencies),
    })
}

/// Latencies in nanoseconds. The quantiles are bounds of buckets; each bound is twice the bound before.
fn latency_json(latencies: &Latencies) -> Value {
    json!({
        "timed": latencies.count(),
        "mean_ns": latencies.sum_ns.checked_div(latencies.count()),
        "p50_ns": latencies.quantile(0.5),
        "p99_ns": latencies.quantile(0.99),
    })
}

fn store_json(metrics: &Metrics) -> Value {
    let stat = &metrics.stat;
    let writes = stat.puts + stat.deletes;
    let per_write = |count: u64| (writes > 0).then(|| count as f64 / writes as f64);
    json!({
        "leases": metrics.leases,
        "write_backs": metrics.write_backs,
        "fences": metrics.fences,
        "syncs": metrics.syncs,
        "write_backs_per_write": per_write(metrics.write_backs),
        "fences_per_write": per_write(metrics.fences),
        "syncs_per_write": per_write(metrics.syncs),
        "durability": if stat.power { "power" } else { "process" },
        "keys": stat.keys,
        "live_bytes": stat.live_bytes,
        "used_bytes": stat.used_bytes,
        "capacity_bytes": stat.capacity_bytes,
        "segment_size": stat.segment_size,
        "segments": {
            "free": stat.segments_free,
            "partial": stat.segments_partial,
            "taken": stat.segments_taken,
            "full": stat.segments_full,
        },
        "clients": stat.clients,
        "opening": stat.opening,
        "sequence": stat.sequence,
        "puts": stat.puts,
        "deletes": stat.deletes,
        "refused": stat.refused,
        "batches": stat.batches,
        "persists": stat.persists,
        "process": stat.process,
    })
}
