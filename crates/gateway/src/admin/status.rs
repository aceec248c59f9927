//! `/status`: everything as one JSON object.

use serde_json::{Map, Value, json};
use stonecast_store_direct::Stat;

use super::observer::Observer;
use crate::commands::COMMANDS;
use crate::counters::Counters;

/// The object.
pub fn json(observer: &Observer) -> Value {
    let shared = &observer.shared;
    let store = match observer.stat() {
        Ok(stat) => store_json(&stat),
        Err(error) => json!({ "error": error.to_string() }),
    };
    json!({
        "version": env!("CARGO_PKG_VERSION"),
        "alive": observer.is_alive(),
        "ready": shared.is_ready() && store.get("error").is_none(),
        "uptime_seconds": shared.uptime().as_secs(),
        "gateway": gateway_json(observer),
        "store": store,
    })
}

fn gateway_json(observer: &Observer) -> Value {
    let shared = &observer.shared;
    let sum = |count: fn(&Counters) -> u64| shared.threads.iter().map(|thread| count(thread)).sum::<u64>();
    let commands = COMMANDS.iter().enumerate().filter_map(|(index, spec)| {
        let count: u64 = shared.threads.iter().map(|thread| thread.commands[index].get()).sum();
        (count > 0).then(|| (spec.name.to_owned(), json!(count)))
    });
    json!({
        "resp": shared.resp.map(|resp| resp.to_string()),
        "threads": shared.threads.len(),
        "connections": shared.connections(),
        "connections_max": shared.options.limits.connections,
        "connections_accepted": sum(|thread| thread.connections.get()),
        "connections_refused": sum(|thread| thread.connections_refused.get()),
        "connections_cut": sum(|thread| thread.connections_cut.get()),
        "protocol_errors": sum(|thread| thread.protocol_errors.get()),
        "buffer_bytes": shared.memory.used(),
        "commands": commands.collect::<Map<_, _>>(),
        "error_replies": sum(|thread| thread.failures.get()),
        "batches": sum(|thread| thread.batches.get()),
        "keys_read": sum(|thread| thread.keys_read.get()),
        "puts": sum(|thread| thread.puts.get()),
        "deletes": sum(|thread| thread.deletes.get()),
        "conflicts": sum(|thread| thread.conflicts.get()),
        "round_trips": sum(|thread| thread.round_trips.get()),
    })
}

fn store_json(stat: &Stat) -> Value {
    json!({
        "durability": if stat.power { "power" } else { "process" },
        "keys": stat.keys,
        "keys_max": stat.keys_max,
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
        "epoch": stat.epoch,
        "sequence": stat.sequence,
        "puts": stat.puts,
        "deletes": stat.deletes,
        "refused": stat.refused,
        "batches": stat.batches,
        "persists": stat.persists,
        "process": stat.process,
    })
}
