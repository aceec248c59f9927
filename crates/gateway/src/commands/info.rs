//! Answers `INFO` and `CONFIG GET`: the fields that clients read, with values that are true of this store.

use std::fmt::Write as _;

use stonecast_kv::{Stat, limits};

use super::operation::Arguments;
use super::options::{SLOW_ENTRIES, SLOWER_THAN};
use crate::counters::Counters;
use crate::glob;
use crate::process::ProcessMemory;
use crate::shared::Shared;

/// The version of Redis whose commands these are. Clients decide by this version which commands they send.
pub const REDIS_VERSION: &str = "7.2.0";

/// Settings by name. `power`: whether acknowledged writes survive power loss.
pub fn settings(shared: &Shared, power: bool) -> Vec<(&'static str, String)> {
    let options = &shared.options;
    let yes = |condition: bool| if condition { "yes" } else { "no" }.to_owned();
    vec![
        (
            "appendfsync",
            if power { "always" } else { "no" }.to_owned(),
        ),
        ("appendonly", yes(power)),
        (
            "bind",
            shared
                .resp
                .map_or_else(String::new, |resp| resp.ip().to_string()),
        ),
        (
            "client-output-buffer-limit",
            format!("normal {} 0 0", options.limits.output_size),
        ),
        ("databases", "1".to_owned()),
        ("maxclients", options.limits.connections.to_string()),
        ("maxmemory", "0".to_owned()),
        ("maxmemory-policy", "noeviction".to_owned()),
        ("port", port(shared)),
        ("proto-max-bulk-len", limits::VALUE_SIZE_MAX.to_string()),
        ("save", String::new()),
        (SLOWER_THAN, shared.slow_log.slower_than_us().to_string()),
        (SLOW_ENTRIES, shared.slow_log.entries().to_string()),
        ("timeout", "0".to_owned()),
    ]
}

/// Settings that match one of the patterns.
pub fn matching<'s>(
    settings: &'s [(&'static str, String)],
    patterns: Arguments<'_>,
) -> Vec<&'s (&'static str, String)> {
    let patterns: Vec<Vec<u8>> = patterns.iter().map(<[u8]>::to_ascii_lowercase).collect();
    let is_wanted = |name: &str| {
        patterns
            .iter()
            .any(|pattern| glob::matches(pattern, name.as_bytes()))
    };
    settings
        .iter()
        .filter(|(name, _)| is_wanted(name))
        .collect()
}

/// Returns the whole report, or its wanted sections.
pub fn text(shared: &Shared, stat: &Stat, wanted: Arguments<'_>) -> String {
    let is_wanted = |section: &str| {
        wanted.is_empty()
            || wanted.iter().any(|name| {
                ["all", "default", "everything", section]
                    .iter()
                    .any(|known| name.eq_ignore_ascii_case(known.as_bytes()))
            })
    };
    let mut text = String::new();
    for (section, lines) in sections(shared, stat) {
        if is_wanted(&section.to_lowercase()) {
            if !text.is_empty() {
                text.push_str("\r\n");
            }
            // Writing into a string does not fail.
            let _ = write!(text, "# {section}\r\n");
            for (name, value) in lines {
                let _ = write!(text, "{name}:{value}\r\n");
            }
        }
    }
    text
}

/// The port for Redis clients.
fn port(shared: &Shared) -> String {
    shared.resp.map_or(0, |resp| resp.port()).to_string()
}

/// A number of bytes in the form of Redis for human readers.
fn human(bytes: u64) -> String {
    let in_units = |shift: u32| bytes as f64 / (1_u64 << shift) as f64;
    match bytes.checked_ilog2().unwrap_or(0) {
        0..10 => format!("{bytes}B"),
        10..20 => format!("{:.2}K", in_units(10)),
        20..30 => format!("{:.2}M", in_units(20)),
        30..40 => format!("{:.2}G", in_units(30)),
        _ => format!("{:.2}T", in_units(40)),
    }
}

type Lines = Vec<(&'static str, String)>;

fn sections(shared: &Shared, stat: &Stat) -> [(&'static str, Lines); 8] {
    let replication = vec![
        ("role", "master".to_owned()),
        ("connected_slaves", "0".to_owned()),
    ];
    // Every node serves every key, so clients need not know of nodes.
    let cluster = vec![("cluster_enabled", "0".to_owned())];
    [
        ("Server", server(shared)),
        ("Clients", clients(shared, stat)),
        ("Memory", memory(shared, stat)),
        ("Persistence", persistence(stat)),
        ("Stats", statistics(shared, stat)),
        ("Replication", replication),
        ("Cluster", cluster),
        ("Keyspace", keyspace(stat)),
    ]
}

fn server(shared: &Shared) -> Lines {
    let uptime = shared.uptime();
    vec![
        ("redis_version", REDIS_VERSION.to_owned()),
        ("redis_mode", "standalone".to_owned()),
        ("stonecast_version", env!("CARGO_PKG_VERSION").to_owned()),
        ("os", "Linux".to_owned()),
        ("arch_bits", "64".to_owned()),
        ("process_id", std::process::id().to_string()),
        ("tcp_port", port(shared)),
        ("uptime_in_seconds", uptime.as_secs().to_string()),
        ("uptime_in_days", (uptime.as_secs() / 86_400).to_string()),
        ("io_threads_active", shared.threads.len().to_string()),
    ]
}

fn clients(shared: &Shared, stat: &Stat) -> Lines {
    vec![
        ("connected_clients", shared.connections().to_string()),
        ("maxclients", shared.options.limits.connections.to_string()),
        ("blocked_clients", "0".to_owned()),
        ("store_clients", stat.clients.to_string()),
    ]
}

fn memory(shared: &Shared, stat: &Stat) -> Lines {
    let process = ProcessMemory::now();
    vec![
        ("used_memory", process.private.to_string()),
        ("used_memory_human", human(process.private)),
        ("used_memory_rss", process.resident.to_string()),
        ("used_memory_rss_human", human(process.resident)),
        ("mem_clients_normal", shared.memory.used().to_string()),
        ("maxmemory", "0".to_owned()),
        ("maxmemory_policy", "noeviction".to_owned()),
        ("pool_capacity_bytes", stat.capacity_bytes.to_string()),
        ("pool_used_bytes", stat.used_bytes.to_string()),
        ("pool_live_bytes", stat.live_bytes.to_string()),
    ]
}

fn persistence(stat: &Stat) -> Lines {
    vec![
        ("loading", "0".to_owned()),
        (
            "durability",
            if stat.power { "power" } else { "process" }.to_owned(),
        ),
        ("aof_enabled", u8::from(stat.power).to_string()),
        ("store_openings", stat.opening.to_string()),
        ("store_sequence", stat.sequence.to_string()),
        ("store_batches", stat.batches.to_string()),
        ("store_persists", stat.persists.to_string()),
    ]
}

fn statistics(shared: &Shared, stat: &Stat) -> Lines {
    let sum = |count: fn(&Counters) -> u64| shared.sum(count);
    vec![
        (
            "total_connections_received",
            sum(|thread| thread.connections.get()).to_string(),
        ),
        (
            "total_commands_processed",
            sum(Counters::all_commands).to_string(),
        ),
        (
            "instantaneous_ops_per_sec",
            sum(|thread| thread.commands_per_second.get()).to_string(),
        ),
        ("keyspace_hits", sum(|thread| thread.hits.get()).to_string()),
        (
            "keyspace_misses",
            sum(|thread| thread.misses.get()).to_string(),
        ),
        (
            "total_error_replies",
            sum(|thread| thread.failures.get()).to_string(),
        ),
        (
            "total_net_input_bytes",
            sum(|thread| thread.received_bytes.get()).to_string(),
        ),
        (
            "total_net_output_bytes",
            sum(|thread| thread.sent_bytes.get()).to_string(),
        ),
        (
            "rejected_connections",
            sum(|thread| thread.connections_refused.get()).to_string(),
        ),
        ("expired_keys", stat.expired.to_string()),
        ("evicted_keys", "0".to_owned()),
    ]
}

fn keyspace(stat: &Stat) -> Lines {
    match stat.keys {
        0 => Vec::new(),
        keys => vec![("db0", format!("keys={keys},expires=0,avg_ttl=0"))],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_read_as_redis_writes_them() {
        for (bytes, text) in [
            (0, "0B"),
            (1023, "1023B"),
            (1024, "1.00K"),
            (1_572_864, "1.50M"),
            (1 << 30, "1.00G"),
            (3 << 41, "6.00T"),
        ] {
            assert_eq!(human(bytes), text);
        }
    }
}
